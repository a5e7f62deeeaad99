#!/usr/bin/python3
"""Snapshots on the way (--snapshot-every): what they say, and that they change
nothing."""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import h5py

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

# Pools that are too small, so that requests also wait, move and come back.
BUSY = ["--trace", pl.SLICE, "--limit", "60", "--block-tokens", "32",
        "--page-size", "16", "--chunk", "256", "--device-pages", "150",
        "--host-pages", "200", "--decode-pages", "600", "--max-new", "20",
        "--pace", "none"]


class Snapshots(pl.Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def write(self, name, *args, comm="local", **more):
        """A run on 3 ranks, 1 of which decodes, into a folder of its own."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "f.h5")
        self.said = self.run_program(
            *BUSY, "--ranks", "3", "--decode-ranks", "1", "--comm", comm,
            "--snapshot", path, *args, **more).stderr
        return path

    @staticmethod
    def on_the_way(path):
        return sorted(glob.glob(path[:-len(".h5")] + ".[0-9]*.h5"))

    @staticmethod
    def forget_comm(path):
        with h5py.File(path, "r+") as file:
            file["config"].attrs.pop("comm", None)

    def assert_same(self, a, b):
        done = subprocess.run(
            ["h5diff", "-c", "--exclude-path", "/timing", a, b],
            capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines()
                 if not line.endswith("is an empty dataset")]
        self.assertEqual((done.returncode, lines), (0, []), f"{a} {b}")

    def test_they_decide_nothing(self):
        """Whatever was asked for on the way, and by whichever clock."""
        plain = self.write("plain")
        for i, every in enumerate(("7req", "1ms", "1req")):
            self.assert_same(plain, self.write(f"every{i}", "--snapshot-every",
                                               every))

    def test_the_same_requests_give_the_same_files(self):
        one, two, mpi = (self.write(name, "--snapshot-every", "13req",
                                    "--snapshot-keep", "9", comm=comm)
                         for name, comm in (("one", "local"), ("two", "local"),
                                            ("mpi", "mpi")))
        names = [os.path.basename(f) for f in self.on_the_way(one)]
        self.assertEqual(names, [f"f.{i:04}.h5" for i in (1, 2, 3, 4)])
        for other in (two, mpi):
            self.assertEqual(names, [os.path.basename(f)
                                     for f in self.on_the_way(other)])
            for a, b in zip(self.on_the_way(one), self.on_the_way(other)):
                for file in (a, b):
                    self.forget_comm(file)
                self.assert_same(a, b)

    def test_what_has_finished_has_its_results(self):
        """Digests and tokens as in the end; of others none."""
        path = self.write("results", "--snapshot-every", "9req",
                          "--snapshot-keep", "9")
        last = pl.Snapshot(path)
        before = 0
        for file in self.on_the_way(path):
            some = pl.Snapshot(file)
            done = some.requests["finished_ns"] >= 0
            self.assertGreater(done.sum() // 9, before // 9)
            self.assertLess(done.sum(), len(done))
            before = done.sum()
            self.assertTrue((some.requests["digest"][~done] == 0).all())
            for name in ("digest", "finished_ns", "generated_tokens", "home"):
                self.assertTrue((some.requests[name][done] ==
                                 last.requests[name][done]).all(), name)
            for i in range(len(done)):
                want = last.tokens(i) if done[i] else []
                self.assertEqual(list(some.tokens(i)), list(want))
            for view in ([], ["requests"], ["nodes"], ["lanes"]):
                self.run_program(file, *view, verb="inspect")
        self.assertGreater(before, 0)

    def test_old_ones_go_and_kept_ones_do_not_change(self):
        path = self.write("keep", "--snapshot-every", "10req")
        files = self.on_the_way(path)
        self.assertEqual([os.path.basename(f) for f in files],
                         ["f.0003.h5", "f.0004.h5", "f.0005.h5"])
        with open(files[-1], "rb") as file:
            before = hashlib.sha256(file.read()).digest()
        for name in ("f.0001.h5x", "g.0001.h5", "f.1.h5", "f.00001.h5"):
            with open(os.path.join(os.path.dirname(path), name), "w"):
                pass  # look alike, and are not ours
        self.write("keep", "--snapshot-every", "31req")
        names = sorted(os.listdir(os.path.dirname(path)))
        self.assertEqual(names, [
            "f.00001.h5", "f.0001.h5x", "f.0004.h5", "f.0005.h5", "f.0006.h5",
            "f.1.h5", "f.h5", "g.0001.h5"])
        with open(files[-1], "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).digest(), before)

    def test_what_cannot_be_written_is_left_out(self):
        for comm in ("local", "mpi"):
            folder = os.path.join(self.folder, comm)
            os.makedirs(os.path.join(folder, "f.0001.h5.partial"))
            path = self.write(comm, "--snapshot-every", "5req", comm=comm)
            self.assertEqual(self.on_the_way(path), [])
            self.assertEqual(self.said.count("f.0001.h5.partial"), 1, self.said)
            with h5py.File(path, "r") as file:
                timing = dict(file["timing"].attrs)
            self.assertGreater(timing["snapshots_failed"], 1)
            self.assertEqual(timing["snapshots_written"], 0)

    def test_the_cost_is_told(self):
        path = self.write("cost", "--snapshot-every", "20req")
        self.assertIn("snapshots on the way: 2 written", self.said)
        with h5py.File(path, "r") as file:
            timing = dict(file["timing"].attrs)
        self.assertEqual(timing["snapshots_written"], 2)
        self.assertEqual(timing["snapshots_bytes"], sum(
            os.path.getsize(f) for f in self.on_the_way(path)))
        self.assertGreater(timing["snapshots_ns"], 0)
        self.assertLess(timing["snapshots_ns"], timing["run_ns"])


if __name__ == "__main__":
    pl.main(__doc__)
