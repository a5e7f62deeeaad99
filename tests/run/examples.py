#!/usr/bin/python3
"""The scripts of examples/snapshots on a snapshot of a small run.

A script whose Python module is missing is skipped.
"""
import csv
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

FOLDER = os.path.join(pl.ROOT, "examples", "snapshots")


class Examples(pl.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = {name: os.path.join(cls.folder.name, f"{name}.h5")
                     for name in ("small", "bare", "stored", "done")}
        bare = [*pl.SMALL, "--host-pages", "0", "--limit", "3",
                "--events", "off", "--comm", "local"]
        tier = os.path.join(cls.folder.name, "tier")
        fill = [*pl.SMALL, *pl.LOCAL8, "--storage", tier]
        for name, args in (
                ("small", pl.SMALL + pl.LOCAL8), ("bare", bare),
                ("stored", fill), ("stored", [*pl.SMALL, *pl.LOCAL8, "--from",
                                              tier]),
                ("done", [*pl.SMALL, *pl.LOCAL8, "--from",
                          cls.files["small"], "--resume"])):
            run = pl.Run(cls.program, *args, "--snapshot", cls.files[name])
            assert run.status == 0, str(run)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def script(self, name, module, *args, status=0, says=None):
        if importlib.util.find_spec(module) is None:
            self.skipTest(f"no Python module {module}")
        done = subprocess.run(
            [sys.executable, os.path.join(FOLDER, name), *args], text=True,
            capture_output=True, cwd=self.folder.name, timeout=pl.LIMIT_S,
            env=dict(os.environ, MPLCONFIGDIR=self.folder.name))
        self.assertEqual((done.returncode, done.stderr if status == 0 else ""),
                         (status, ""), done.stderr)
        if says is not None:
            self.assertRegex(done.stderr, rf"\A{says}\Z")
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_scaling(self):
        """The bench's own output, of one rank and of two, as a table and drawn."""
        files = []
        for ranks in (1, 2):
            run = pl.Run(self.program, "prefill", "--model",
                         os.path.join(pl.ROOT, "examples", "glm-tiny"),
                         "--contexts", "128", "--chunk", "64", "--page-size",
                         "16", "--repeat", "2", "--ranks", ranks,
                         "--ownership", "both", "--json", verb="bench")
            self.assertEqual(run.status, 0, str(run))
            files.append(self.path(f"prefill_{ranks}.json"))
            with open(files[-1], "wb") as file:
                file.write(run.stdout)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in
                self.script("../scaling.py", "json", *files).splitlines()]
        self.assertEqual([row[:3] for row in rows[2:]], [
            ["128", ranks, ownership] for ranks in "12"
            for ownership in ("replicated", "zigzag")])
        kept = [float(row[-1]) for row in rows[2:]]
        self.assertEqual(kept[0], kept[2])
        self.assertLess(kept[3], kept[1])
        plot = self.path("scaling.svg")
        self.script("../scaling.py", "matplotlib", *files, "--plot", plot)
        self.assertGreater(os.path.getsize(plot), 1000)

    def test_h5py(self):
        for file in self.files.values():
            snapshot = pl.Snapshot(file)
            text = self.script("read_with_h5py.py", "h5py", file)
            self.assertIn(f"{len(snapshot.requests['home'])} requests with "
                          f"{snapshot.sum('prompt_tokens')} prompt tokens",
                          text)
            for tier in ("device", "host", "storage"):
                self.assertIn(f"hit on {tier}: "
                              f"{snapshot.sum(tier + '_hit_tokens')} tokens",
                              text)
            self.assertIn("/lanes/device_free", text)
            self.assertIn("no node is in the prefix tree" if file ==
                          self.files["done"] else " was hit ", text)
        self.assertGreater(pl.Snapshot(self.files["stored"]).sum(
            "storage_hit_tokens"), 0)

    def test_pandas(self):
        for file in (self.files[n] for n in ("small", "bare", "stored")):
            snapshot = pl.Snapshot(file)
            text = self.script("tables_with_pandas.py", "pandas", file,
                               self.path("r.csv"))
            self.assertRegex(
                text, rf"miss_last_page +{snapshot.sum('miss_last_page')}\n")
            tokens = {tier: snapshot.sum(f"{tier}_hit_tokens")
                      for tier in ("device", "host", "storage")}
            for tier, n in tokens.items():
                self.assertRegex(text, rf"{tier}_hit_tokens +{n}\n")
            self.assertRegex(text, "computed +" + str(
                snapshot.sum("prompt_tokens") - sum(tokens.values())))
            with open(self.path("r.csv"), newline="", encoding="ascii") as f:
                rows = list(csv.DictReader(f))
            self.assertEqual(
                [int(row["prompt_tokens"]) for row in rows],
                snapshot.requests["prompt_tokens"].tolist())

    def check_plot(self, script, words):
        for which, kind in (("stored", "svg"), ("small", "svg"),
                            ("bare", "png")):
            plot = self.path(f"plot.{kind}")
            self.script(script, "matplotlib", self.files[which], plot)
            with open(plot, "rb") as f:
                data = f.read()
            self.assertGreater(len(data), 10000)
            if kind == "png":
                self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                continue
            for word in words:  # SVG names each text in a comment
                self.assertIn(f"<!-- {word}".encode(), data)

    def test_lane_occupancy(self):
        self.check_plot("plot_lane_occupancy.py",
                        ("device tier: ", "pages in use [%]",
                         "virtual time [s]", "mean of all lanes"))

    def test_hits_by_tier(self):
        self.check_plot("plot_hits_by_tier.py",
                        ("hit on device, ", "hit on host, ",
                         "hit on storage, ", "computed, ",
                         "prompt tokens [thousand]", "of all so far",
                         "virtual time of admission [s]"))

    def test_nothing_to_see(self):
        """Every request was finished before: a line, no traceback."""
        for name, module in (("tables_with_pandas.py", "pandas"),
                             ("plot_lane_occupancy.py", "matplotlib"),
                             ("plot_hits_by_tier.py", "matplotlib")):
            with self.subTest(name):
                plot = self.path("nothing.png")
                self.assertEqual(self.script(
                    name, module, self.files["done"], plot, status=1,
                    says=r".*done\.h5: no.* finished before .*\n"), "")
                self.assertFalse(os.path.exists(plot))

    def test_usage(self):
        for name, module in (("read_with_h5py.py", "h5py"),
                             ("tables_with_pandas.py", "pandas"),
                             ("plot_lane_occupancy.py", "matplotlib"),
                             ("plot_hits_by_tier.py", "matplotlib")):
            with self.subTest(name):
                self.script(name, module, status=1)


if __name__ == "__main__":
    pl.main(__doc__)
