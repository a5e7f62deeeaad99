#!/usr/bin/python3
"""The file of a sweep in other verbs: `report` makes a page of it, `check` looks
into it, `export` gives out its points.

Every number is computed anew from the HDF5 file, or is what `sweep --json` says.
The tests of the page in a browser are skipped where no Chromium is installed.
"""
import csv
import io
import os
import random
import shlex
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402
from chromium import InChromium  # noqa: E402
from report_page import CSV, DRAWN, Page  # noqa: E402

TRACE = ("--trace", pl.SLICE, "--block-tokens", 64, "--chunk", 512,
         "--max-new", 16)
# 48 is no divisor of the chunk: points that cannot be run.
GRID = ("--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype", "fp8",
        "--ep", "8",
        "--page-size", "16,48,64", "--device-pages", "300,500", "--cp",
        "1,2,4", "--evict", "lru,fifo", "--host-pages", "0,600")
LIMITS = ("--slo", "ttft:11s,tpot:400ms", "--attain", "0.9",
          "--gpu-hour-cost", "2.5")


class Case(pl.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = cls.path("a.h5")
        run = cls.sweep(cls.file, *TRACE, *GRID, *LIMITS)
        cls.said = {p["point"]: p for p in run.json()["points"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def sweep(cls, path, *args):
        run = pl.Run(cls.program, *args, "--output", path, "--json",
                     "--log-level", "error", verb="sweep")
        assert run.status == 0, run
        return run

    @classmethod
    def edited(cls, edit, name="edited.h5"):
        path = cls.path(name)
        shutil.copyfile(cls.file, path)
        with h5py.File(path, "r+") as file:
            edit(file)
        return path


def put(path, change):
    """Other values, and no digest that would tell."""
    def edit(file):
        data = file[path][...]
        change(data)
        file[path][...] = data
        del file[path].attrs["xxh3_64"]
    return edit


def instead(path, **more):
    def edit(file):
        del file[path]
        file.create_dataset(path, **more)
    return edit


def twice(places):
    places[0] = places[1]


def behind(meets):
    meets[:] = 1 - meets


def last_first(file):
    """A point that cannot be run is the best one."""
    places = file["outcome/place"]
    places[...] = len(places) + 1 - places[...]
    del places.attrs["xxh3_64"]


def version(file):
    file.attrs["schema_version"] = np.array([2, 0])


def no_objective(file):
    del file["config"].attrs["objective"]


def no_share(file):
    file["config"].attrs["attain"] = np.bytes_("most")


def bad_name(file):
    file.move("metrics/gpus", "metrics/GPUs <b>")


def long_unit(file):
    file["metrics/gpus"].attrs["unit"] = np.bytes_("furlongs per fortnight")


def without(path):
    def edit(file):
        del file[path]
    return edit


# What is wrong, and what the line names.
MALFORMED = {
    "another version": (version, r"/schema_version: 2\.0 .* version 1"),
    "no places": (without("outcome/place"), "/outcome/place: is missing"),
    "no status": (without("outcome/status"), "/outcome/status: is missing"),
    "no outcome": (without("outcome"), "/outcome/place: is missing"),
    "no options": (without("options"), "/options: is missing"),
    "no metrics": (without("metrics"), "/metrics: is missing"),
    "no objective": (no_objective, "/config/objective: is missing"),
    "attain is a word": (no_share, "/config/attain: is no share"),
    "a short column": (instead("metrics/gpus", data=np.zeros(5, "<i8")),
                       "/metrics/gpus"),
    "a short option": (instead("options/cp", data=np.array([b"1"])),
                       "/options/cp: has 1 rows; expected 72"),
    "an option of numbers": (instead("options/cp", data=np.zeros(72, "<i8")),
                             "/options/cp: is missing, or is no list of"),
    "texts of any length": (instead(
        "outcome/message", shape=(72,), dtype=h5py.string_dtype()),
        "/outcome/message"),
    "no points": (instead("outcome/place", data=np.zeros(0, "<i8")),
                  "/outcome/place: has no rows"),
    "a place twice": (put("outcome/place", twice), "/outcome/place: "),
    "places of no order": (put("outcome/meets_limits", behind), "/outcome/"),
    "one that cannot be run is first": (
        last_first, "/outcome/place: point [0-9]+ ran and stands behind one"),
    "a name that is none": (bad_name, "/metrics: 'GPUs <b>' in it is no name"),
    "a unit that is none": (long_unit, "/metrics/gpus: 'furlongs"),
    "a text's bytes": (lambda file: file["options/cp"].write_direct(
        np.array([b"9"] * 72, "S2")), "/options/cp: .*digest"),
}


class Readers(Case):
    def test_points_are_what_the_sweep_says(self):
        rows = {}
        text = self.run_program(self.file, "points", verb="export").stdout
        for row in csv.DictReader(io.StringIO(text.decode(), newline="")):
            rows[int(row["point"])] = row
        objects = {p["point"]: p for p in self.run_program(
            self.file, "points", "--json", verb="export").json()["points"]}
        self.assertEqual(sorted(rows), list(range(72)))
        self.assertEqual(list(rows[0]), list(objects[0]))
        ran = 0
        for i, said in self.said.items():
            want = {"place": said["place"], "limited_by": said["limited_by"],
                    **{"options." + k: v for k, v in said["options"].items()}}
            if said["exit_status"] == 0:
                ran += 1
                want.update(
                    kept=said["kept"], gpu_hours=said["gpu_hours"],
                    cost=said["cost"], seeds=said["seeds"],
                    meets_limits=said["meets_limits"],
                    **{"metrics." + k: v for k, v in said["metrics"].items()})
            else:
                self.assertEqual(rows[i]["metrics.mean_ttft_ms"], "")
                self.assertIsNone(objects[i]["metrics.mean_ttft_ms"])
                self.assertNotIn(rows[i]["status"], ("ok", ""))
                self.assertNotEqual(rows[i]["message"], "")
            for name, value in want.items():
                self.same(objects[i][name], value, name)
                self.same(rows[i][name] if isinstance(value, str)
                          else float(rows[i][name]), value, name)
        self.assertTrue(24 <= ran <= 48, ran)

    def same(self, got, want, name):
        if isinstance(want, float):
            self.assertAlmostEqual(got, want, delta=1.1e-6, msg=name)
        else:
            self.assertEqual(got, want, name)

    def test_export_to_a_file_and_what_there_is_not(self):
        out = self.path("points.csv")
        self.run_program(self.file, "points", "-o", out, verb="export")
        with open(out, "rb") as file:
            self.assertEqual(file.read(), self.run_program(
                self.file, "points", verb="export").stdout)
        config = self.run_program(self.file, "config", verb="export").stdout
        self.assertIn(b"\r\nattain,0.9\r\n", config)
        run = self.run_program(self.file, "requests", verb="export", status=2)
        self.assertIn("is a sweep and has no table requests; it has points "
                      "and config", run.stderr)

    def test_who_wants_a_snapshot_says_so(self):
        for verb, args in (("inspect", (self.file,)),
                           ("compare", (self.file, self.file))):
            run = self.run_program(*args, verb=verb, status=3)
            self.assertRegex(run.stderr, "the file of a sweep; expected a "
                             "snapshot; `pagelane report` and `pagelane "
                             "export` read sweeps")
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_numbers_that_a_point_lacks(self):
        """They are no numbers, and no reason to call all points alike."""
        def edit(file):
            del file["outcome/lacks"]
            file.create_dataset("outcome/lacks", data=np.array(
                [b"ticks hit_rate", b"", b"ticks_more"] * 24, "S16"))
            for name in ("ticks", "hit_rate"):
                column = file["metrics"][name]
                column[...] = 7
                column[::3] = 0
                del column.attrs["xxh3_64"]

        path = self.edited(edit)
        points = self.run_program(path, "points", "--json",
                                  verb="export").json()["points"]
        table = Page(self.run_program(path, verb="report").stdout
                     .decode()).tables
        order = [p["point"] for p in sorted(points, key=lambda p: p["place"])]
        for p in points:
            ran, has = p["status"] == "ok", p["point"] % 3 != 0
            row = order.index(p["point"])
            for name, column in (("ticks", "ticks"),
                                 ("hit_rate", "hit_rate_percent")):
                want = (7 if name == "ticks" else 7e-6) if ran and has else None
                self.assertEqual(p["metrics." + name], want)
                self.assertEqual(table["points"]["metrics." + column][row] is
                                 None, want is None)
            self.assertEqual(p["metrics.completed"] is not None, ran)
        self.assertNotIn("ticks", table["same"]["name"])

    def test_check(self):
        said = self.run_program(self.file, "--json", verb="check").json()
        self.assertEqual((said["kind"], said["points"], said["findings"]),
                         ("sweep", 72, 0))
        path = self.path("bit.h5")
        with open(self.file, "rb") as file:
            whole = bytearray(file.read())
        whole[len(whole) // 2] ^= 4
        with open(path, "wb") as file:
            file.write(whole)
        self.run_program(path, verb="check", status=1)

    def found(self, path):
        """Findings about the file: one, that it is without seal, after any
        change by h5py."""
        return self.run_program(path, "--json", verb="check", status=1).json()[
            "found"]["bad_file"]["count"]

    def test_malformed_files(self):
        self.assertEqual(self.found(self.edited(lambda file: None)), 1)
        for name, (edit, says) in MALFORMED.items():
            path = self.edited(edit)
            for verb, more in (("export", ("points",)), ("report", ())):
                run = self.run_program(path, *more, verb=verb, status=3)
                self.assertRegex(run.stderr, says, name)
                self.assertEqual(run.stderr.count("\n"), 1, name)
            if name == "another version":  # it cannot be looked into
                continue
            self.assertEqual(self.found(path), 2, name)


class Reports(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page_path = cls.path("a.html")
        run = pl.Run(cls.program, cls.file, "-o", cls.page_path,
                     verb="report")
        assert run.status == 0 and run.stdout == b"" and run.stderr == "", run
        with open(cls.page_path, encoding="utf-8") as file:
            cls.page = Page(file.read())
        cls.points = sorted(cls.said.values(), key=lambda p: p["place"])

    def report(self, path, *args):
        return Page(self.run_program(path, *args, verb="report").stdout
                    .decode())

    @staticmethod
    def words(point):
        return ", ".join(f"{k} {v}" for k, v in
                         sorted(point["options"].items()))

    def why(self, page):
        return page.texts("p", "why")[0]


class Pages(Reports):
    def test_the_decision_is_first(self):
        meets = [p for p in self.points if p.get("meets_limits")]
        self.assertTrue(4 < len(meets) < len(self.points))
        best = meets[0]
        self.assertEqual(
            self.page.texts("h1", "headline"),
            ["Cheapest that meets the limits: " + self.words(best)])
        least = min(p["cost"] for p in meets)
        alike = [p for p in meets if p["cost"] < 1.01 * least]
        self.assertIn(best, alike)
        after = meets[len(alike)]
        more = 100 * (after["cost"] / best["cost"] - 1)
        why = self.why(self.page)
        for text in (f"It costs {best['cost']:.4g};",
                     f"the next best ({self.words(after)}) costs "
                     f"{after['cost']:.4g} (",
                     f"{len(meets)} of 72 points keep ttft:11s,tpot:400ms for "
                     "90 % of their requests.",
                     "To take it: " + " ".join(
                         f"--{k} {v}" for k, v in
                         sorted(best["options"].items()))):
            self.assertIn(text, why)
        said = float(why.split("(+")[1].split(" %")[0])
        self.assertAlmostEqual(said, more, delta=0.1 * more)
        self.assertEqual(len(alike) > 1, "as good" in why)
        tiles = self.page.tiles()
        failed = sum(p["exit_status"] != 0 for p in self.points)
        self.assertEqual(tiles["points"], (
            "72", f"{len(meets)} meet the limits, {failed} cannot be run"))
        m = best["metrics"]
        self.assertEqual(tiles["time to first token"], (
            f"{m['p99_ttft_ms']:.2f} ms", f"p99; mean {m['mean_ttft_ms']:.2f} "
            "ms"))

    def test_nothing_meets_the_limits(self):
        """Of the file that a sweep with less time leaves."""
        path = self.path("none.h5")
        said = self.sweep(path, *TRACE, *GRID, "--slo", "ttft:1s",
                          "--objective", "max:hit_rate").json()["points"]
        page, nearest = self.report(path), said[0]
        self.assertEqual(page.texts("h1", "headline"), [
            "No point meets the limits; the nearest: " + self.words(nearest)])
        m = nearest["metrics"]
        broken = 100 * m["broke_ttft"] / m["completed"]
        self.assertIn(f"for {100 * nearest['kept']:.2f} %. ttft is broken by "
                      f"{broken:.1f} % (p99 {m['p99_ttft_ms']:.2f} ms).",
                      self.why(page))
        table = page.tables["effect_cp"]
        for i, cp in enumerate(table["value"]):
            kept = [100 * p["kept"] for p in said
                    if p["options"]["cp"] == cp and "kept" in p]
            self.assertAlmostEqual(table["best"][i], max(kept), 4)
        # what is compared is what points lack
        self.assertFalse([t for t in page.advice()
                          if "hit_rate" in t or t.startswith("cp ")])

    def test_another_objective_and_no_limits(self):
        path = self.path("ttft.h5")
        said = self.sweep(path, *TRACE, "--cp", "1,2", "--device-pages",
                          "300,500", "--objective", "min:p99_ttft_ms").json()[
                              "points"]
        page = self.report(path)
        self.assertEqual(page.texts("h1", "headline"), [
            "Smallest p99_ttft_ms: " + self.words(said[0])])
        self.assertIn(f"It has {said[0]['metrics']['p99_ttft_ms']:.2f} ms;",
                      self.why(page))
        self.assertIn("4 of 4 points answer 99 % of their requests.",
                      self.why(page))
        self.assertNotIn("kept_percent", page.tables["points"].columns)

    def test_no_point_can_be_run(self):
        def edit(file):
            n = len(file["outcome/place"])
            for name, values in (
                    ("status", np.array([b"invalid argument"] * n, "S64")),
                    ("message", np.array([b"option --cp 1: no"] * n, "S64")),
                    ("meets_limits", np.zeros(n, "u1"))):
                del file["outcome/" + name]
                file.create_dataset("outcome/" + name, data=values)
        page = self.report(self.edited(edit))
        self.assertEqual(page.texts("h1", "headline"), ["No point can be run"])
        self.assertIn("option --cp 1: no", self.why(page))
        self.assertEqual(len(page.tables["failed"]["message"]), 72)

    def test_all_points_in_the_table(self):
        table = self.page.tables["points"]
        self.assertEqual(table["point"], [p["point"] for p in self.points])
        self.assertEqual(table["place"], list(range(1, 73)))
        for i, p in enumerate(self.points):
            for name, value in p["options"].items():
                self.assertEqual(table["options." + name][i], value)
            self.assertEqual(table["limited_by"][i], p["limited_by"])
            self.assertEqual(table["meets_limits"][i],
                             p.get("meets_limits", 0))
            if p["exit_status"] != 0:
                self.assertEqual(table["meets"][i], "cannot be run")
                self.assertIsNone(table["cost"][i])
                self.assertIsNone(table["metrics.mean_ttft_ns"][i])
                continue
            self.assertEqual(table["meets"][i],
                             "yes" if p["meets_limits"] else "no")
            m = p["metrics"]
            for name, value in (
                    ("cost", p["cost"]), ("kept_percent", 100 * p["kept"]),
                    ("metrics.hit_rate_percent", 100 * m["hit_rate"]),
                    ("metrics.p99_ttft_ns", 1e6 * m["p99_ttft_ms"]),
                    ("metrics.ticks", m["ticks"]),
                    ("metrics.duration", m["duration"])):
                self.assertAlmostEqual(table[name][i], value, delta=1e-4 +
                                       (0.6 if name.endswith("_ns") else 0))

    def test_each_number_is_in_one_of_two_tables(self):
        points, same = self.page.tables["points"], self.page.tables["same"]
        ran = [p["metrics"] for p in self.points if p["exit_status"] == 0]
        constant = {k for k in ran[0] if len({m[k] for m in ran}) == 1}
        self.assertEqual(set(same["name"]) - constant, set())
        for name, value in zip(same["name"], same["value"]):
            self.assertAlmostEqual(value, ran[0][name], 5)
        shown = {n.split(".")[1] for n in points.columns if "metrics." in n}
        for name in ran[0]:
            stem = name[:-3] if name.endswith("_ms") else name
            self.assertEqual(
                name in same["name"],
                not shown & {stem + "_ns", stem, stem + "_percent"}, name)

    def test_what_each_option_does(self):
        for name in self.points[0]["options"]:
            table = self.page.tables["effect_" + name.replace("-", "_")]
            overall = min(p["cost"] for p in self.points
                          if p.get("meets_limits"))
            values = [self.said[i]["options"][name] for i in range(72)]
            self.assertEqual(table["value"], list(dict.fromkeys(values)))
            for i, value in enumerate(table["value"]):
                of = [p for p in self.points if p["exit_status"] == 0 and
                      p["options"][name] == value]
                meet = [p for p in of if p["meets_limits"]]
                self.assertEqual((table["ran"][i], table["meet"][i]),
                                 (len(of), len(meet)))
                if of:
                    self.assertAlmostEqual(table["mean"][i], sum(
                        p["cost"] for p in of) / len(of), 5)
                if meet:
                    best = meet[0]["cost"]  # the first by place
                    self.assertAlmostEqual(table["best"][i], best, 5)
                    self.assertAlmostEqual(table["near_percent"][i],
                                           100 * overall / best, 1)
                else:
                    self.assertIsNone(table["best"][i])
                    self.assertEqual(table["near_percent"][i], 0)

    def test_it_can_be_read_without_scripts(self):
        cells = [text.replace("\u202f", " ") for tag, _, text in
                 self.page.seen if tag == "td"]
        for p in self.points:
            self.assertIn(p["limited_by"], cells)
            if p["exit_status"] == 0:
                self.assertIn(f"{p['metrics']['p99_ttft_ms']:.2f}", cells)
                self.assertIn(f"{p['cost']:.4g}", cells)
        self.assertNotIn("metrics.ticks", cells)

    def test_the_same_bytes(self):
        with open(self.page_path, "rb") as file:
            whole = file.read()
        self.assertEqual(whole, self.run_program(self.file,
                                                 verb="report").stdout)

    def test_options_of_any_text(self):
        """Topologies, say, and texts that would be something else in HTML."""
        evil = "</script><b>`x`&\"', 2x8+3x16"

        def edit(file):
            values = [b"2x8+3x16", b"1x8+2x16:dp16", evil.encode()]
            old = file["options/cp"][...].astype(int)
            del file["options/cp"]
            file.create_dataset("options/fleet", data=np.array(
                [values[{1: 0, 2: 1, 4: 2}[cp]] for cp in old], "S64"))
            file["config"].attrs["evil"] = np.bytes_(evil)
        page = self.report(self.edited(edit))
        best = {"1": "2x8+3x16", "2": "1x8+2x16:dp16",
                "4": evil}[self.points[0]["options"]["cp"]]
        self.assertIn("fleet " + best, page.texts("h1", "headline")[0])
        self.assertEqual(page.tables["effect_fleet"]["value"],
                         ["2x8+3x16", "1x8+2x16:dp16", evil])
        self.assertIn(evil, page.tables["config"]["value"])
        self.assertEqual([tag for tag, _ in page.elements].count("script"), 3)

    def test_paths_of_any_length_and_text(self):
        """What is to be pasted is whole, and a shell takes it as it is."""
        folder = self.path("so long a name " * 16)
        names = ("it's `one` & \"two\".jsonl", "\u00e4\u6f22<b>.jsonl")
        os.mkdir(folder)
        paths = [os.path.join(folder, name) for name in names]
        for path in paths:
            shutil.copyfile(pl.SLICE, path)
        file = self.path("\u6f22" * 70 + ".h5")
        self.sweep(file, "--trace", ",".join(paths), "--limit", 3, "--chunk",
                   "512,1000", "--hardware", "H200,B200", "--model", "GLM-5.2",
                   "--kv-dtype", "fp8", "--ep", 8)
        page = self.report(file)
        self.assertEqual(page.texts("p", "name"),
                         ["pagelane report of " + os.path.basename(file)])
        row = {n.split(".")[1]: v[0] for n, v in
               page.tables["points"].columns.items() if "options." in n}
        self.assertIn(row["trace"], paths)
        line = self.why(page).split("To take it: ")[1]
        self.assertEqual(shlex.split(line), [
            w for n, v in sorted(row.items()) for w in ("--" + n, v)])
        self.assertEqual(page.texts("h1", "headline"), [
            "Cheapest: " + ", ".join(f"{n} {v}" for n, v in
                                     sorted(row.items()))])
        failed = [v for v in page.tables["failed"]["options"]]
        self.assertEqual(len(failed), 4)
        for text in failed:
            self.assertTrue(any(p in text for p in paths))
        self.assertIn(failed[0], page.advice()[
            "4 of 8 points cannot be run."])

    def test_usage(self):
        for option, value in (("--perfetto", self.path("x.json")),
                              ("--trace", pl.SLICE)):
            run = self.run_program(self.file, option, value, verb="report",
                                   status=2)
            self.assertRegex(run.stderr, option + ": .* is a sweep, which has "
                             "no requests")
        self.assertFalse(os.path.exists(self.path("x.json")))
        run = self.run_program(self.file, "-o", self.file, verb="report",
                               status=2)
        self.assertIn("it is read too", run.stderr)


class Advice(Reports):
    """Said when, and only when, there is a reason."""

    EDGE = "The best point lies at the edge of the grid: "

    def costs(self, *dimensions, cost, numbers=None, edit=None):
        """A page of a grid of which all costs are given."""
        path = self.path("grid.h5")
        self.sweep(path, *TRACE, "--gpu-hour-cost", 1, *(
            w for name, values in dimensions for w in (
                "--" + name, values)), *(("--repeat", 2) if numbers else ()))
        with h5py.File(path, "r+") as file:
            n = len(file["outcome/place"])
            options = [{k.replace("_", "-"): v[i].decode() for k, v in
                        file["options"].items()} for i in range(n)]
            costs = np.array([round(1e6 * cost(o)) for o in options])
            file["outcome/cost"][...] = costs
            order = np.argsort(costs, kind="stable")
            places = np.empty(n, "<i8")
            places[order] = np.arange(1, n + 1)
            file["outcome/place"][...] = places
            for name in ("outcome/cost", "outcome/place"):
                del file[name].attrs["xxh3_64"]
            for group, name, value in numbers or ():
                file[group][name][...] = value
                del file[group][name].attrs["xxh3_64"]
            if edit is not None:
                edit(file, options)
        return self.report(path).advice()

    GRID = (("cp", "1,2,4"), ("device-pages", "300,400,500"))

    def test_at_the_edge(self):
        for cp, pages, wanted in (
                (4, 500, {"cp 4", "device-pages 500"}),
                (1, 400, set()),  # there is no less than 1
                (2, 400, set()),
                (2, 300, {"device-pages 300"})):
            advice = self.costs(*self.GRID, cost=lambda o: 10 + abs(
                int(o["cp"]) - cp) + abs(int(o["device-pages"]) - pages))
            self.assertEqual({t for t in advice if t.startswith(self.EDGE)},
                             {f"{self.EDGE}{w}." for w in wanted})

    def test_no_edge_where_the_next_is_as_good(self):
        advice = self.costs(*self.GRID, cost=lambda o: 10 + (
            int(o["device-pages"]) < 400) * 5)
        self.assertEqual([t for t in advice if t.startswith(self.EDGE)], [])

    def test_what_makes_no_difference(self):
        usual = self.page.advice()
        ran = [p for p in self.points if p["exit_status"] == 0]
        for name in ran[0]["options"]:
            groups = {}
            for p in ran:
                others = tuple((k, v) for k, v in p["options"].items()
                               if k != name)
                groups.setdefault(others, []).append(p)
            groups = [g for g in groups.values() if len(g) > 1]
            alike = all(p["metrics"] == g[0]["metrics"] for g in groups
                        for p in g)
            spread = max(1 - min(p["cost"] for p in g) /
                         max(p["cost"] for p in g) for g in groups)
            self.assertEqual(f"{name} makes no difference." in usual, alike)
            decides = any(len({p["meets_limits"] for p in g}) > 1
                          for g in groups)
            self.assertEqual(f"{name} hardly changes cost." in usual,
                             not alike and not decides and spread < 0.01)

        def edit(file, options):
            for column in file["metrics"].values():
                by = {}
                for i, o in enumerate(options):
                    column[i] = by.setdefault(o["cp"], int(column[i]))
                del column.attrs["xxh3_64"]
        advice = self.costs(*self.GRID, cost=lambda o: int(o["cp"]),
                            edit=edit)
        self.assertIn("(3 times): leave it out",
                      advice["device-pages makes no difference."])
        self.assertNotIn("cp makes no difference.", advice)

    def test_points_that_cannot_be_run(self):
        failed = [p for p in self.points if p["exit_status"] != 0]
        text = self.page.advice()[f"{len(failed)} of 72 points cannot be run."]
        self.assertIn(self.words(failed[0]), text)
        self.assertIn(failed[0]["limited_by"], text)
        table = self.page.tables["failed"]
        self.assertEqual(table["message"], [p["limited_by"] for p in failed])
        self.assertEqual(table["options"], [self.words(p) for p in failed])

    def test_seeds_that_do_not_tell(self):
        title = "Seeds do not tell the best from others."
        for half, told in ((0, True), (1, True), (5, False)):
            advice = self.costs(
                ("cp", "1,2,4"), cost=lambda o: 10 + int(o["cp"]),
                numbers=(("metrics", "duration", 1000000),
                         ("interval", "duration", half * 10000)))
            self.assertEqual(title in advice, not told, half)
        self.assertIn("of 1 other point the 95 %", advice[title])
        self.assertIn("is 11, give or take 0.55;", advice[title])

    def test_requests_that_failed(self):
        title = "Requests failed at the best point."
        self.assertNotIn(title, self.page.advice())

        def edit(file):
            file["metrics/failed"][...] = 3
            del file["metrics/failed"].attrs["xxh3_64"]
        self.assertIn("3 of them", self.report(self.edited(edit)).advice()[
            title])


    def test_beyond_the_calibration(self):
        rest = " beyond what the calibration was fitted to."
        best = self.points[0]["point"]
        for points, title in (
                ([], None), ([best, best + 1], "The best point is"),
                ([self.points[1]["point"]], "Points are")):
            def edit(file):
                values = np.zeros(72, "<i8")
                values[points] = 1
                dataset = file.create_dataset("metrics/extrapolated",
                                              data=values)
                dataset.attrs["unit"] = np.bytes_("1")
            advice = self.report(self.edited(edit)).advice()
            self.assertEqual([t for t in advice if t.endswith(rest)],
                             [title + rest] if title else [])
            if title:
                self.assertIn(f"of {len(points)} of", advice[title + rest])


def point_at(row, across="cost", down="metrics.p99_ttft_ns"):
    """Where the point of a row is on the screen: [x, y]."""
    return f"""(() => {{
      const table = numbersOf("points");
      const over = document.querySelector("#points .u-over");
      scrollTo(0, scrollY + over.getBoundingClientRect().top - 100);
      const box = over.getBoundingClientRect();
      const at = (name, scale) => {{
        const values = table.columns.find((c) => c.name === name).values;
        const all = values.filter((v) => v != null);
        const [lo, hi] = [Math.min(...all), Math.max(...all)];
        const pad = (hi - lo) * .05;
        return (values[{row}] - lo + pad) / (hi - lo + 2 * pad);
      }};
      return [box.left + box.width * at("{across}"),
        box.top + box.height * (1 - at("{down}"))];
    }})()"""


class Browser(InChromium, Reports):
    def setUp(self):
        super().setUp()
        self.tab = self.browser.open(self.page_path)
        self.tab.value("""window.numbersOf = (id) => JSON.parse(
            document.getElementById("numbers").textContent)[id]; 0""")

    def mouse(self, kind, x, y, **more):
        self.tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.tab.value("new Promise((r) => setTimeout(r, 150))")

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def rows(self):
        """Places, as they stand in the table."""
        return [int(v) for v in self.tab.value(
            "[...document.querySelectorAll('#points tbody tr')]"
            ".map((r) => r.cells[0].textContent)")]

    def picked(self):
        return self.tab.value(
            "[...document.querySelectorAll('#points tr.picked')]"
            ".map((r) => Number(r.cells[0].textContent))")

    def near(self, a, b):
        """At the same place of the chart, or nearly so."""
        for of in (lambda p: p["cost"], lambda p: p["metrics"]["p99_ttft_ms"]):
            every = [of(p) for p in self.points if p["exit_status"] == 0]
            self.assertAlmostEqual(of(a), of(b), delta=0.03 * (
                max(every) - min(every)))

    def test_points_are_drawn_and_nothing_is_asked_for(self):
        drawn = self.tab.value(DRAWN)
        self.assertEqual(len(drawn), 1)
        self.assertGreater(drawn[0], 1500)
        self.assertEqual(self.tab.problems, [])
        self.assertEqual(self.tab.requests, ["file://" + self.page_path])

    def test_few_values_have_colours_of_their_own(self):
        """Of up to twelve; of more there is a ramp between the ends."""
        for n in (9, 12, 13):
            path, page = self.path(f"{n}.h5"), self.path(f"{n}.html")
            self.sweep(path, *TRACE, "--limit", 3, "--max-new",
                       ",".join(map(str, range(1, n + 1))))
            self.run_program(path, "-o", page, verb="report")
            tab = self.browser.open(page)
            shown = tab.value(
                "(() => {const s = document.querySelector("
                "'#points select[name=colour]');"
                "s.value = [...s.options].find("
                "(o) => o.text === 'max-new').value;"
                "s.dispatchEvent(new Event('change'));"
                "return [...document.querySelectorAll('#points .levels i')]"
                ".map((i) => i.style.background)})()")
            self.assertEqual(len(shown), n if n <= 12 else 1)
            self.assertEqual(len(set(shown)), len(shown), shown)
            self.assertEqual(tab.problems, [])

    def test_under_the_pointer_a_point_says_its_options(self):
        last = sum(p["exit_status"] == 0 for p in self.points) - 1
        for row in (0, last):
            self.move(*self.tab.value(point_at(row)))
            text = self.tab.value(
                "document.querySelector('#points .tip').innerText")
            options = dict(line.split(": ", 1) for line in
                           text.strip().split("\n") if ": " in line)
            shown = [p for p in self.points if p["exit_status"] == 0 and all(
                options[k] == v for k, v in p["options"].items())]
            self.assertEqual(len(shown), 1, text)
            self.near(shown[0], self.points[row])
            self.assertEqual(options["meets limits"], "yes"
                             if shown[0]["meets_limits"] else "no")
        self.assertEqual(self.tab.problems, [])

    def test_a_row_shows_its_point_and_a_point_its_row(self):
        self.assertEqual(self.picked(), [1])
        with_ring = self.tab.value(DRAWN)[0]
        press = "document.querySelectorAll('#points tbody tr')[{}].click()"
        self.tab.value(press.format(0))
        self.tab.value("new Promise((r) => setTimeout(r, 150))")
        self.assertEqual(self.picked(), [])
        self.assertLess(self.tab.value(DRAWN)[0], with_ring)
        self.tab.value(press.format(2))
        self.assertEqual(self.picked(), [3])
        self.assertIn("place 3 · meets limits: yes", self.tab.value(
            "document.querySelector('#points .point').textContent"))
        self.tab.value(press.format(2))
        self.assertEqual(self.picked(), [])
        self.click(*self.tab.value(point_at(0)))
        self.assertEqual(len(self.picked()), 1)
        self.near(self.points[self.picked()[0] - 1], self.points[0])
        self.assertEqual(self.tab.problems, [])

    def test_titles_sort(self):
        def press(c):
            self.tab.value(f"document.querySelectorAll('#points th')[{c}]"
                           ".click()")
            return [self.points[p - 1] for p in self.rows()]
        names = list(self.page.tables["points"].columns)
        pages = names.index("options.device-pages")
        for turn in (1, -1):
            got = [int(p["options"]["device-pages"]) for p in press(pages)]
            self.assertEqual(got, sorted(got)[::turn])
        cost = names.index("cost")
        for turn in (1, -1):
            points = press(cost)
            got = [p.get("cost") for p in points]
            ran = [c for c in got if c is not None]
            self.assertEqual(ran, sorted(ran)[::turn])
            self.assertEqual(got[:len(ran)], ran)  # others are last
        self.assertEqual(self.tab.value(
            "document.querySelectorAll('#points th[aria-sort]').length"), 1)
        press(0)
        self.assertEqual(self.rows(), list(range(1, 73)))

    def test_any_two_columns(self):
        """Every choice draws points, of texts and of numbers."""
        n = self.tab.value("document.querySelector('#points select')"
                           ".options.length")
        self.assertGreater(n, 30)
        self.assertEqual(self.tab.value("""(async () => {
          const bad = [];
          for (const name of ["x", "y", "colour"]) {
            const select = document.querySelector(
              `#points select[name=${name}]`);
            for (const option of [...select.options]) {
              select.value = option.value;
              select.dispatchEvent(new Event("change"));
              await new Promise((r) => setTimeout(r, 5));
              if (document.querySelectorAll("canvas").length !== 1)
                bad.push([name, option.text]);
            }
          }
          return bad;
        })()"""), [])
        self.assertGreater(self.tab.value(DRAWN)[0], 1500)
        self.tab.scheme("dark")  # drawn anew with what was chosen
        self.assertEqual(self.tab.value("""
          (() => { const s = document.querySelector(
            "#points select[name=x]"); return s.selectedIndex ===
            s.options.length - 1; })()"""), True)
        self.assertEqual(self.tab.problems, [])

    def test_csv_is_the_table(self):
        for name in ("points", "effect_cp", "failed"):
            text = self.tab.value(CSV.replace("NAME", name))
            rows = list(csv.reader(io.StringIO(text, newline="")))
            table = self.page.tables[name].columns
            self.assertEqual(rows[0], list(table))
            for i, column in enumerate(table.values()):
                for row, value in zip(rows[1:], column):
                    self.assertEqual(
                        None if row[i] == "" and value is None else row[i]
                        if isinstance(value, str) else float(row[i]), value)

    def test_narrow_printed_and_without_scripts(self):
        page = self.browser.open(self.page_path, width=380)
        self.assertLessEqual(page.value(
            "document.documentElement.scrollWidth"), 380)
        self.assertGreater(len(page.call(
            "Page.printToPDF", printBackground=True)["data"]), 20000)
        self.assertEqual(page.problems, [])
        page = self.browser.open(self.page_path, scripts=False)
        root = page.call("DOM.getDocument")["root"]["nodeId"]
        for selector, n in (("#points tbody tr", 72), ("canvas", 0),
                            ("select", 0)):
            self.assertEqual(len(page.call(
                "DOM.querySelectorAll", nodeId=root,
                selector=selector)["nodeIds"]), n, selector)


class Hostile(Reports):
    """A file of which any number may be wrong is reported or refused."""

    def test_columns_of_anything(self):
        seed = self.options.seed or random.randrange(1 << 30)
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        names = []

        def note(name, item):
            if isinstance(item, h5py.Dataset) and item.dtype.kind in "iu":
                names.append(name)
        with h5py.File(self.file, "r") as file:
            file.visititems(note)
        ended = []
        for turn in range(self.options.files):
            spoilt = rng.sample(names, 3) if turn > 0 else ["outcome/place"]
            path = self.edited(lambda file: [
                self.spoil(file[n], rng) for n in spoilt])
            run = pl.Run(self.program, path, verb="report")
            ended.append(run.status)
            self.assertIn(run.status, (0, 3), run)
            self.assertNotIn("runtime error", run.stderr)
            self.assertEqual(run.stderr.count("\n"), run.status // 3, run)
            if run.status == 0:
                Page(run.stdout.decode())
        self.assertIn(0, ended)
        self.assertIn(3, ended)

    @staticmethod
    def spoil(column, rng):
        values, info = column[...], np.iinfo(column.dtype)
        for _ in range(5):
            values[rng.randrange(len(values))] = rng.choice([
                info.max, info.min, 0, 1, info.max // 4,
                rng.randrange(int(info.max))])
        column[...] = values
        del column.attrs["xxh3_64"]


if __name__ == "__main__":
    def add_arguments(parser):
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--files", type=int, default=25)
    pl.main(__doc__, add_arguments)
