#!/usr/bin/python3
"""`pagelane sweep`: simulations of a grid of options.

A point is what `sim` says with the same options; one rank or several, killed and
resumed or not, the same file comes; points are shared out evenly; the best by
the objective is first.
"""
import contextlib
import glob
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "unit", "store"))
import pagelane_run as pl  # noqa: E402
import test_schema  # noqa: E402

GLM = ("--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype", "fp8",
       "--ep", 32)
TRACE = ("--trace", pl.SLICE, "--block-tokens", 64, "--chunk", 512,
         "--max-new", 16)
GRID = {"device-pages": (250, 500), "host-pages": (0, 600), "cp": (1, 2, 4)}
def line(grid):
    return [word for name, values in grid.items()
            for word in ("--" + name, ",".join(map(str, values)))]


# 64 points.
LONG = ("--device-pages", 4000, *line({
    "page-size": (16, 32), "cp": (1, 2, 4, 8), "ownership": ("zigzag",
                                                            "interleave:2"),
    "evict": ("lru", "fifo", "sieve", "lfu")}))


def tree(path):
    """Everything in the file but /timing: names, types, bytes, attributes."""
    found = {}

    def visit(name, item):
        if name.split("/")[0] == "timing":
            return
        found[name] = {k: np.asarray(v).tobytes()
                       for k, v in item.attrs.items()
                       if k != "DIMENSION_LABELS"}
        if isinstance(item, h5py.Dataset):
            found[name]["is"] = (str(item.dtype), item.shape,
                                 item[...].tobytes(), item.id.get_offset())

    with h5py.File(path, "r") as file:
        visit("", file)
        file.visititems(visit)
    return found


class Sweep(pl.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def sweep(self, *args, output="a.h5", **more):
        return self.run_program(*args, "--output", self.path(output),
                                "--log-level", "warn", verb="sweep", **more)

    def sim(self, *args):
        return self.run_program(*args, "--log-level", "warn", "--json",
                                verb="sim").json()


class Points(Sweep):
    def test_each_is_what_sim_says(self):
        """All of its numbers, under a fixed table and that of a model."""
        grid = dict(GRID, seed=(0, 7))
        grid["host-pages"] = (200, 600)  # pages go to storage through it
        for more in ((), (*GLM, "--decode-ranks", 2, "--explore", 3,
                          "--storage-pages", 300, "--slo", "ttft:1s,tpot:1s")):
            said = self.sweep(*TRACE, *more, *line(grid), "--json").json()
            self.assertEqual(len(said["points"]), 24)
            for point in said["points"][::5]:
                options = [w for k, v in point["options"].items()
                           for w in ("--" + k, v)]
                want = self.sim(*TRACE, *more, *options)
                got = point["metrics"]
                for name in set(got) & set(want):
                    self.assertAlmostEqual(got[name], want[name], delta=2e-6,
                                           msg=f"{name} at {options}")
                self.check_names(got, want)
                self.assertEqual(got["gpus"], int(point["options"]["cp"]) +
                                 (2 if more else 0))

    def check_names(self, got, want):
        """Any number of `sim --json` is one of a point."""
        numbers = {n for n, v in want.items() if isinstance(v, (int, float))}
        self.assertGreater(len(numbers), 60)
        self.assertEqual(set(got) - {"broke_ttft", "broke_tpot", "broke_e2el"},
                         numbers - {"broke_ttft", "broke_tpot", "broke_e2el"} |
                         {"gpus"})

    def test_of_several_instances_too(self):
        more = (*TRACE, *GLM, "--prefill", "1x2", "--decode", "1x2",
                "--slo", "ttft:1s", "--mtp", "1:0.8")
        for objective in ("max:request_goodput_per_gpu", "min:decode_steps"):
            said = self.sweep(*more, "--objective", objective,
                              "--json").json()["points"]
            want = self.sim(*more)
            self.check_names(said[0]["metrics"], want)
            for name in set(said[0]["metrics"]) & set(want):
                self.assertAlmostEqual(said[0]["metrics"][name], want[name],
                                       delta=2e-6, msg=name)

    def test_the_file_has_a_row_for_each(self):
        said = self.sweep(*TRACE, *line(GRID), "--json").json()["points"]
        with h5py.File(self.path("a.h5"), "r") as file:
            self.assertEqual(file.attrs["format"], b"pagelane-sweep")
            self.assertEqual(list(file.attrs["schema_version"]), [1, 1])
            rows = list(zip(*(file["options"][n.replace("-", "_")][...].astype(
                str) for n in GRID)))
            want = list(itertools.product(*(map(str, v) for v in
                                            GRID.values())))
            self.assertEqual([tuple(map(str, row)) for row in rows], want)
            self.assertEqual(file["config"].attrs["chunk"], b"512")
            self.assertEqual(sorted(file["outcome/place"][...]),
                             list(range(1, 13)))
            self.assertEqual(file["metrics/mean_ttft"].attrs["unit"], b"ns")
            for point in said:
                i = point["point"]
                self.assertEqual(file["outcome/place"][i], point["place"])
                self.assertEqual(file["metrics/mean_ttft"][i], round(
                    1e6 * point["metrics"]["mean_ttft_ms"]))
                self.assertEqual(file["metrics/lane_deficits"][i],
                                 point["metrics"]["lane_deficits"])
                self.assertAlmostEqual(file["outcome/gpu_hours"][i] / 1e6,
                                       point["gpu_hours"], 5)
            for name, column in file["metrics"].items():
                self.assertEqual(column.shape, (12,), name)

    def test_the_tree_is_that_of_the_document(self):
        with open(os.path.join(pl.ROOT, "docs", "schema.md"),
                  encoding="ascii") as file:
            text = file.read().split("\n## Sweep\n")[1]
        drawn, optional = test_schema.document(text)
        # units are the numbers' own there
        anything = {"/metrics/<metric>", "/interval/<half>"}
        self.assertGreater(len(drawn), 20)
        for more in ((), ("--gpu-hour-cost", 3, "--repeat", 2)):
            self.sweep(*TRACE, *line(GRID), *more)
            with h5py.File(self.path("a.h5"), "r") as file:
                found = test_schema.contents(file)
            for name, shape in found.items():
                other = test_schema.drawn_as(name, shape, drawn)
                self.assertIsNotNone(other, name)
                want = drawn[other]
                if other in anything:
                    self.assertEqual(shape[:3], want[:3])
                    self.assertIn(shape[3], ("ns", "us", "1e-6", "1e-6/s",
                                             "token", "page", "byte", "1"))
                elif want[0] != "group":
                    self.assertEqual((*shape[:2], shape[2] or None, shape[3]),
                                     (*want[:2], want[2] or None, want[3]),
                                     name)
            for name in drawn:
                self.assertTrue(
                    name in found or "<" in name or (not more and any(
                        name.startswith(o) for o in optional)), name)
            self.assertEqual(test_schema.errors, [])

    def test_what_cannot_be_run_is_an_outcome(self):
        """Of options that do not go together, or too small a pool."""
        run = self.sweep(*TRACE, "--page-size", "16,48", "--device-pages",
                         "20,2000", "--json")
        points = {tuple(p["options"].values()): p for p in
                  run.json()["points"]}
        self.assertEqual(points["16", "2000"]["exit_status"], 0)
        self.assertEqual(points["16", "20"]["exit_status"], 4)
        self.assertEqual(points["48", "2000"]["exit_status"], 2)
        self.assertIn("--chunk 512", points["48", "2000"]["limited_by"])
        self.assertEqual(points["16", "2000"]["place"], 1)
        run = self.sweep(*TRACE, "--page-size", "48", status=2)
        self.assertIn("no point can be run", run.stderr)
        self.assertIn("--chunk 512", run.stderr)

    def test_beyond_the_calibration(self):
        """A point says so, in the table, in JSON and in the file; one that
        knows of no calibrated range says nothing."""
        files = {"rates.json": {"bench": "kernels", "grouped_tflops": 500},
                 "fit.json": {"fit": {
                     "prefill_scale": 1, "decode_scale": 1, "requests": 9,
                     "least_input_tokens": 1, "most_input_tokens": 999999,
                     "least_output_tokens": 1, "most_output_tokens": 8,
                     "most_concurrent": 999}}}
        for name, what in files.items():
            with open(self.path(name), "w", encoding="ascii") as file:
                json.dump(what, file)
        grid = (*TRACE, *GLM, "--cp", 2, "--max-new", "4,16", "--calibrate",
                ",".join(map(self.path, files)))
        outside = {(self.path("rates.json"), n): None for n in "4 16".split()}
        outside |= {(self.path("fit.json"), "4"): 0,
                    (self.path("fit.json"), "16"): 1}
        self.assertEqual(outside, {
            (p["options"]["calibrate"], p["options"]["max-new"]):
            p["metrics"].get("extrapolated")
            for p in self.sweep(*grid, "--json").json()["points"]})
        with h5py.File(self.path("a.h5"), "r") as file:
            rows = zip(file["options/calibrate"][...].astype(str),
                       file["options/max_new"][...].astype(str))
            self.assertEqual([outside[row] or 0 for row in rows],
                             list(file["metrics/extrapolated"][...]))
        said = self.sweep(*grid, output="b.h5").stdout.decode()
        marked = [line.split() for line in said.split("\n")
                  if re.match(r" *[0-9]+~ ", line)]
        self.assertEqual(len(marked), 1)
        self.assertIn(self.path("fit.json"), marked[0])
        self.assertIn("16", marked[0])
        self.assertEqual(said.count("~ extrapolated"), 1)
        # read back, points lack what others have
        whole = tree(self.path("b.h5"))
        self.assertEqual(self.sweep(*grid, "--resume", output="b.h5")
                         .stdout.decode(), said)
        self.assertEqual(tree(self.path("b.h5")), whole)
        with h5py.File(self.path("b.h5"), "r") as file:
            lacks = sorted(set(file["outcome/lacks"][...].astype(str)))
            self.assertEqual(len(lacks), 2)
            self.assertEqual(lacks[0], "")
            self.assertIn("extrapolated", lacks[1].split(" "))

    def test_what_does_not_fit_is_an_outcome(self):
        points = {p["options"]["ep"]: p for p in self.sweep(
            *TRACE, *GLM, "--cp", 2, "--device-pages", "fit", "--ep", "1,32",
            "--json").json()["points"]}
        self.assertEqual(points["1"]["exit_status"], 4)
        self.assertIn("the weights do not fit", points["1"]["limited_by"])
        self.assertEqual(points["32"]["exit_status"], 0)

    def test_lists_come_from_anywhere(self):
        config = self.path("grid.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("cp = 1,2\nevict = lru,fifo # both\n"
                       .replace(" # both", ""))
        run = self.sweep(*TRACE, "--config", config, "--json",
                         PAGELANE_DEVICE_PAGES="250,500",
                         PAGELANE_EVICT="lru,sieve,lfu")
        self.assertEqual(len(run.json()["points"]), 2 * 2 * 3)


class Best(Sweep):
    def ranks(self, points, name, sign):
        """By what points stand in this order: hundredths of the least first.
        What is shown is rounded: none must be near a step's end."""
        keys = [sign * p.get(name, p["metrics"].get(name)) for p in points]
        steps = [100 * (k - min(keys)) / abs(min(keys)) for k in keys]
        return [(math.floor(s + 1e-9), -p["kept"], p["metrics"]["mean_ttft_ms"],
                 k) for s, p, k in zip(steps, points, keys)]

    def test_the_cheapest_that_meets_the_limits_is_first(self):
        line_ = (*TRACE, *GLM, *line(GRID), "--gpu-hour-cost", "2.5", "--json")
        said = self.sweep(*line_).json()["points"]
        ttft = sorted(p["metrics"]["p90_ttft_ms"] for p in said)
        limit = int(ttft[len(ttft) // 2]) + 1
        said = self.sweep(*line_, "--slo", f"ttft:{limit}ms", "--attain",
                          "0.9").json()["points"]
        meets = [p for p in said if p["metrics"]["p90_ttft_ms"] <= limit]
        self.assertTrue(0 < len(meets) < len(said))
        self.assertEqual(said[:len(meets)],
                         [p for p in said if p["meets_limits"]])
        self.assertEqual({p["point"] for p in meets},
                         {p["point"] for p in said[:len(meets)]})
        ranks = self.ranks(said[:len(meets)], "gpu_hours", 1)
        self.assertEqual(ranks, sorted(ranks))
        kept = [p["kept"] for p in said[len(meets):]]
        self.assertEqual(kept, sorted(kept, reverse=True))
        for p in said:
            m = p["metrics"]
            self.assertAlmostEqual(p["cost"], 2.5 * m["gpus"] *
                                   m["duration"] / 3600, 5)
            self.assertEqual(m["broke_ttft"], 200 - m["good_completed"])
            self.assertIn("ttft" if m["broke_ttft"] else "%",
                          p["limited_by"])

    def test_other_objectives(self):
        for objective, name, sign in (("max:hit_rate", "hit_rate", -1),
                                      ("min:p99_ttft_ms", "p99_ttft_ms", 1)):
            said = self.sweep(*TRACE, *line(GRID), "--objective", objective,
                              "--json").json()["points"]
            ranks = self.ranks(said, name, sign)
            self.assertEqual(ranks, sorted(ranks))

    def test_what_is_refused_leaves_nothing(self):
        """So that the line that is put right goes, and without --resume."""
        for more, said in (
                (("--slo", "ttft"), "option --slo: cannot use"),
                (("--objective", "best"), "option --objective: cannot use"),
                (("--objective", "min:nothing"), "no number nothing"),
                (("--objective", "max:request_goodput"), "give --slo"),
                (("--objective", "max:request_goodput_per_gpu", "--prefill",
                  "1x1"), "give --slo"),
                (("--cp", 2, "--prefill", "1x2"), "no point can be run"),
                (("--gpu-hour-cost", "much"), "--gpu-hour-cost"),
                (("--chunk", 100), "no point can be run")):
            run = self.sweep(*TRACE, "--evict", "lru,fifo", *more, status=2)
            self.assertIn(said, run.stderr)
            self.assertEqual(os.listdir(self.folder.name), [], more)
        run = self.sweep(*TRACE, *GLM, "--ep", "1,2", "--device-pages", "fit",
                         "--cp", 2, status=4)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.sweep(*TRACE, *GLM, "--cp", 2)
        self.assertEqual(os.listdir(self.folder.name), ["a.h5"])

    def test_seeds(self):
        """Where one matters: mean and interval, and no more runs where not."""
        explore = (*TRACE, "--cp", "2,4", "--explore", "0,40", "--device-pages",
                   300, "--repeat", 4, "--json")
        points = {tuple(p["options"].values()): p
                  for p in self.sweep(*explore).json()["points"]}
        for (cp, ticks), point in points.items():
            self.assertEqual(point["seeds"], 2 if ticks == "0" else 4)
            tests = [self.sim(*TRACE, "--cp", cp, "--explore", ticks, "--seed",
                              s, "--device-pages", 300)
                     for s in range(point["seeds"])]
            differs = False
            for name in ("mean_ttft_ms", "p99_e2el_ms", "ticks"):
                values = np.array([t[name] for t in tests])
                mean, half = values.mean(), 0
                if len(values) == 4:
                    half = 3.182 * values.std(ddof=1) / math.sqrt(4)
                unit = 1e-6 if name.endswith("_ms") else 1
                self.assertAlmostEqual(point["metrics"][name], mean,
                                       delta=unit + 1e-6)
                self.assertAlmostEqual(point["interval"][name], half,
                                       delta=unit + 1e-3 * half)
                differs = differs or half > 0
            self.assertEqual(differs, ticks != "0")
        with h5py.File(self.path("a.h5"), "r") as file:
            self.assertEqual(list(file["outcome/seeds"]), [2, 4, 2, 4])
            self.assertIn("mean_ttft", file["interval"])


class Ranks(Sweep):
    def test_any_number_gives_the_same_file(self):
        tables = [self.sweep(*TRACE, *line(GRID), "-n", ranks,
                             output=f"{ranks}.h5").stdout
                  for ranks in (1, 2, 3)]
        for ranks in (2, 3):
            self.assertEqual(tables[0], tables[ranks - 1])
            self.assertEqual(tree(self.path("1.h5")),
                             tree(self.path(f"{ranks}.h5")))
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         ["1.h5", "2.h5", "3.h5"])

    def test_two_ranks_share_64_points(self):
        """No master idles.  A rank that starts late on a busy machine finds
        less to do, so they need not have the same."""
        self.sweep(*TRACE, "--passes", 12, *LONG, "-n", 2)
        with h5py.File(self.path("a.h5"), "r") as file:
            took = file["timing/point_ns"][...]
            rank = file["timing/point_rank"][...]
        self.assertEqual(len(took), 64)
        share = took[rank == 0].sum() / took.sum()
        self.assertLessEqual(max(share, 1 - share), 0.95, took.sum() / 1e9)

    def test_no_more_ranks_than_points(self):
        for n, ranks in ((1, 1), (2, 2)):
            self.sweep(*TRACE, "--limit", 3, "--cp", "1,2"[:2 * n - 1], "-n",
                       5000)
            with h5py.File(self.path("a.h5"), "r") as file:
                self.assertEqual(file["timing"].attrs["ranks"], ranks)
        run = self.sweep(*TRACE, "--device-pages", ",".join(map(
            str, range(1000, 2100))), "-n", 1025, status=2)
        self.assertIn("option --ranks 1025: more than 1024 pro", run.stderr)

    def test_a_failure_ends_all_ranks(self):
        """An objective that no point has is found by the first one."""
        run = self.sweep(*TRACE, *LONG, "-n", 2, "--objective", "min:nothing",
                         status=2)
        self.assertIn("no number nothing", run.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])


class Killed(Sweep):
    def start(self, ranks):
        """A sweep that has some points of 64, and is stopped.  It begins anew
        where it came to its end before it could be stopped."""
        self.args = [*TRACE, "--passes", 12, *LONG, "--output",
                     self.path("a.h5")]
        while True:
            process = subprocess.Popen(
                [self.program, "sweep", *map(str, self.args), "-n",
                 str(ranks)], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env=pl.environment(),
                start_new_session=True)
            self.addCleanup(pl.kill, process)
            while process.poll() is None and len(self.lines()) < 10:
                time.sleep(0.01)
            self.assertIn(process.poll(), (None, 0))
            pl.stop(process)
            if 10 <= len(self.lines()) < 64:
                return process
            pl.kill(process)
            for path in glob.glob(self.path("a.h5*")):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def lines(self):
        found = []
        for path in self.journals():
            with contextlib.suppress(FileNotFoundError):  # it is published
                with open(path, encoding="ascii") as file:
                    found += file.readlines()
        return found

    def journals(self):
        return sorted(glob.glob(self.path("a.h5.journal/rank-*")))

    def test_resumed_it_is_the_same_file(self):
        whole = self.run_program(*TRACE, "--passes", 12, *LONG, "--output",
                                 self.path("whole.h5"), verb="sweep")
        for ranks, again in ((1, 1), (2, 2), (2, 1)):
            pl.kill(self.start(ranks))
            known = len(self.lines())
            self.assertFalse(os.path.exists(self.path("a.h5")))
            with open(self.journals()[0], "a", encoding="ascii") as file:
                file.write("0123456789abcdef 5 0 1 0 77 1 gpus")  # cut off
            run = self.run_program(*self.args, "-n", again, "--resume",
                                   verb="sweep")
            self.assertIn(f"64 points, {known} of them known before",
                          run.stderr)
            self.assertEqual(run.stdout.replace(b"a.h5", b"whole.h5"),
                             whole.stdout)
            self.assertEqual(tree(self.path("a.h5")),
                             tree(self.path("whole.h5")))
            self.assertEqual(sorted(os.listdir(self.folder.name)),
                             ["a.h5", "whole.h5"])
            os.remove(self.path("a.h5"))

    def test_a_finished_one_is_known(self):
        """Points that cannot be run, too; only what is asked of them may be
        another."""
        args = (*TRACE, *GLM, "--prefill", "1x1,2x1", "--decode", "1x2,1x4",
                "--max-new", "4,16", "--chunk", "512,100", "--explore", "0,3",
                "--repeat", 2, "--mtp", "1:0.8,2:0.8")
        first = self.sweep(*args)
        self.assertNotIn("is replaced", first.stderr)
        whole = tree(self.path("a.h5"))
        for ranks in (1, 2):
            run = self.run_program(*args, "--resume", "-n", ranks, "--output",
                                   self.path("a.h5"), verb="sweep")
            self.assertIn("64 points, 64 of them known before", run.stderr)
            self.assertEqual(run.stdout, first.stdout)
            self.assertEqual(tree(self.path("a.h5")), whole)
            self.assertEqual(os.listdir(self.folder.name), ["a.h5"])
        asked = ("--objective", "max:mean_ttft_ms", "--gpu-hour-cost", 3)
        again = self.sweep(*args, *asked, "--resume", "--json").json()
        self.assertEqual(again, self.sweep(*args, *asked, "--json",
                                           output="b.h5").json())
        self.assertEqual(tree(self.path("a.h5")), tree(self.path("b.h5")))
        run = self.sweep(*args, "--slo", "ttft:1s", "--resume", status=3)
        self.assertIn("'slo = ', now 'slo = ttft:1s'", run.stderr)
        self.assertEqual(tree(self.path("a.h5")), tree(self.path("b.h5")))
        with h5py.File(self.path("a.h5"), "a") as file:
            del file["grid"]
        run = self.sweep(*args, "--resume", status=3)
        self.assertEqual(len(run.stderr.strip().split("\n")), 1)
        run = self.run_program(*TRACE, "--output", self.path("b.h5"),
                               verb="sweep")
        self.assertIn("b.h5 is there, and is replaced", run.stderr)

    def test_a_full_disk(self):
        """It is told in one line, and what is there is gone on from."""
        args = (*TRACE, "--limit", 20, *line({
            "cp": (1, 2, 4), "page-size": (16, 32), "evict": ("lru", "fifo")}))
        self.sweep(*args, output="whole.h5")
        for most in (2, 30, 60):  # KiB of a file: the journal's, the last
            words = " ".join(map(shlex.quote, map(str, (
                self.program, "sweep", *args, "--output", self.path("a.h5")))))
            run = subprocess.run(["bash", "-c", f"ulimit -f {most}; {words}"],
                                 capture_output=True, text=True,
                                 env=pl.environment())
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertRegex(run.stderr, r"\Apagelane: cannot write .*: File "
                             r"too large.*\n\Z")
            self.assertFalse(os.path.exists(self.path("a.h5")))
            ran = len(self.lines()) > 1
            self.assertEqual(ran, most > 2)
            self.sweep(*args, *(("--resume",) if ran else ()))
            self.assertEqual(tree(self.path("a.h5")),
                             tree(self.path("whole.h5")))
            self.assertEqual(sorted(os.listdir(self.folder.name)),
                             ["a.h5", "whole.h5"])
            os.remove(self.path("a.h5"))

    def test_a_changed_file_is_another_sweep(self):
        """One that an option names, or the config.json of a model's folder."""
        model, trace = self.path("model"), self.path("t.jsonl")
        os.mkdir(model)
        config = os.path.join(model, "config.json")
        shutil.copy(os.path.join(pl.ROOT, "examples", "glm-tiny",
                                 "config.json"), config)
        shutil.copy(pl.SLICE, trace)
        args = ("--trace", trace, "--model", model, "--hardware", "H200",
                "--kv-dtype", "bf16", "--ep", 1, "--limit", 3, "--cp", "1,2")
        self.sweep(*args)
        for path in (config, trace):
            with open(path, "a", encoding="ascii") as file:
                file.write("\n")
            run = self.sweep(*args, "--resume", status=3)
            self.assertIn(f"it had 'file {path} = ", run.stderr)
            self.sweep(*args)

    def test_what_is_not_resumed(self):
        process = self.start(1)
        run = self.run_program(*self.args, verb="sweep", status=3)
        self.assertIn("written by another sweep", run.stderr)
        pl.kill(process)
        run = self.run_program(*self.args, verb="sweep", status=2)
        self.assertIn("add --resume", run.stderr)
        for more, differs in ((("--chunk", 1024), "'chunk = 512', now 'chunk "
                               "= 1024'"), (("--repeat", 2), "repeat = 2"),
                              (("--slo", "ttft:1s"), "'slo = ', now 'slo = "
                               "ttft:1s'")):
            run = self.run_program(*self.args, *more, "--resume",
                                   verb="sweep", status=3)
            self.assertIn(differs, run.stderr)
        self.assertGreaterEqual(len(self.lines()), 10)  # still there


if __name__ == "__main__":
    pl.main(__doc__)
