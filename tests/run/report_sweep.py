#!/usr/bin/python3
"""The file of a sweep in other verbs: `report` makes a page of it, `check` looks
into it, `export` gives out its points.

Every number is computed anew from the HDF5 file, or is what `sweep --json` says.
The tests of the page in a browser are skipped where no Chromium is installed.
"""
import csv
import io
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

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
                             "snapshot; `pagelane export` reads sweeps")
            self.assertEqual(run.stderr.count("\n"), 1)

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
            run = self.run_program(path, "points", verb="export", status=3)
            self.assertRegex(run.stderr, says, name)
            self.assertEqual(run.stderr.count("\n"), 1, name)
            if name == "another version":  # it cannot be looked into
                continue
            self.assertEqual(self.found(path), 2, name)


if __name__ == "__main__":
    pl.main(__doc__)
