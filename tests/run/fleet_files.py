#!/usr/bin/python3
"""`pagelane sim --prefill --decode --snapshot`: a file of several instances.

It says what the simulation said: numbers are computed anew from its columns
with h5py, for shapes and options that are drawn; one instance alone has the
requests and counters of one engine; what it has not is told.
"""
import csv
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "unit", "store"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402
import test_schema  # noqa: E402
from chromium import InChromium  # noqa: E402
from report_page import CSV, DRAWN, Page  # noqa: E402

SAME = os.path.join(os.path.dirname(HERE), "unit", "store", "same.sh")
GLM = ("--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype", "fp8",
       "--ep", 32)
TRACE = ("--trace", pl.SLICE, "--log-level", "error", "--block-tokens", 64)
# Evictions, and hits in both tiers.
TIERS = (*TRACE, "--chunk", 512, "--device-pages", 250, "--host-pages", 600,
         "--max-new", 16)
# What an instance is told differently: it is woken, and it is placed.
OTHERS = {"admitted_tick", "finished_tick", "prefill_instance",
          "decode_instance"}


class Case(pl.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def sim(self, name, *args, status=0):
        return self.run_program(*args, "--snapshot", self.path(name), "--json",
                                verb="sim", status=status)

    def near(self, a, b, name=None):
        """Reals of --json have six digits."""
        self.assertLessEqual(abs(a - b), 6e-7 + 1e-12 * abs(b), name)


def shape_of(rng):
    """--prefill and --decode, or prefill that decodes too."""
    words = ["--prefill", f"{rng.randint(1, 4)}x{rng.choice((1, 2, 4))}"]
    if rng.random() < 0.75:
        homes = rng.choice((1, 2, 4))
        words += ["--decode", f"{rng.randint(1, 3)}x4:dp{homes}",
                  "--pd-link", rng.choice(("100MB/s", "5GB/s"))]
    return words


def options_of(rng):
    words = [*shape_of(rng), "--router", rng.choice((
        "round-robin", "random", "best-prefix", "least-loaded",
        "prefix+load")), "--seed", rng.randrange(1000), "--chunk",
        rng.choice((256, 512, 2048)), "--device-pages",
        rng.choice((330, 500, "unlimited")), "--host-pages",
        rng.choice((0, 300, 2000)), "--decode-pages",
        rng.choice((330, 600, "unlimited")), "--max-new",
        rng.choice((2, 16, 60)), "--limit", rng.choice((40, 90, 150)),
        "--speedup", rng.choice((1, 5, 40)), "--max-batch",
        rng.choice((2, 16)), "--decode-host-pages", rng.choice((0, 200))]
    if rng.random() < 0.7:
        words += ["--slo", rng.choice(("ttft:1s", "ttft:400ms,tpot:30ms",
                                       "tpot:20ms,e2e:2s", "e2e:10min"))]
    if rng.random() < 0.3:
        words += ["--ownership", rng.choice(("round-robin", "replicated"))]
    if rng.random() < 0.3:
        words += GLM
    return words


def instances_of(path):
    """Of the columns, what --json says of instances and sides."""
    with h5py.File(path, "r") as file:
        i = {k: v[...] for k, v in file["instances"].items()}
        transfer = int(file["instances"].attrs["transfer_wait_ns"])
        r = {k: file["requests"][k][...] for k in
             ("arrival_ns", "finished_ns")}
    ns = int(r["finished_ns"].max() - r["arrival_ns"][0])
    homes = int(i["homes"].max())
    each = [{
        "side": "prefill" if i["prefills"][k] else "decode",
        **{name: int(i[name][k]) for name in (
            "requests", "prompt_tokens", "computed_tokens", "decode_steps",
            "most_waiting", "refusals", "sent_bytes", "received_bytes")},
        "batch": i["stepping_ns"][k] / (ns * homes),
        **{f"{name}_utilization": i[f"{name}_ns"][k] / ns
           for name in ("prefill", "decode", "link")},
        "mean_wait_ms": i["waiting_ns"][k] / 1e6 / max(i["requests"][k], 1)}
        for k in range(len(i["gpus"]))]
    sides, n = {}, len(r["arrival_ns"])
    for side, flag, tokens in (("prefill", "prefills", "computed_tokens"),
                               ("decode", "decodes", "decode_steps")):
        of = i[flag] == 1
        sides[f"{side}_utilization"] = i[f"{side}_ns"][of].mean() / ns
        sides[f"{side}_link_utilization"] = i["link_ns"][of].mean() / ns
        sides[f"{side}_most_waiting"] = int(i["most_waiting"][of].max())
        sides[f"{side}_imbalance"] = i[tokens][of].max() / max(
            i[tokens][of].mean(), 1e-9)
    prefills = i["prefills"] == 1
    waits = {"prefill": (i["waiting_ns"] - i["refused_ns"])[prefills].sum(),
             "home": i["refused_ns"][prefills].sum(), "transfer": transfer,
             "batch": i["waiting_ns"][~prefills].sum() +
                      i["batch_wait_ns"].sum()}
    sides.update({f"mean_wait_{k}_ms": v / 1e6 / n for k, v in waits.items()})
    sides["gpus"] = int(i["gpus"].sum())
    sides["decode_homes"] = int(i["homes"].sum())
    sides["decode_batch"] = i["stepping_ns"][i["decodes"] == 1].mean() / (
        ns * homes)
    return each, sides


class Numbers(Case):
    def test_drawn_fleets_say_what_sim_says(self):
        seed = self.options.seed or random.randrange(1 << 30)
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        n_ran = 0
        for _ in range(self.options.files):
            options = options_of(rng)
            trace = rng.choice((TRACE, TRACE, self.sessions(rng)))
            run = pl.Run(self.program, *trace, *options, "--snapshot",
                         self.path("a.h5"), "--json", verb="sim")
            self.assertIn(run.status, (0, 4), run)  # 4: a pool is too small
            if run.status == 0:
                n_ran += 1
                with self.subTest(seed=seed, trace=trace, options=options):
                    self.check_file(self.path("a.h5"), run.json())
        self.assertGreater(n_ran, self.options.files // 3)

    def sessions(self, rng):
        """Turns that come when those before them have been answered."""
        path = self.path("sessions.jsonl")
        self.run_program("make", "--sessions", 40, "--turns", 3, "--think",
                         "2s", "--answer", "20:1", "--seed",
                         rng.randrange(1000), "-o", path, verb="trace")
        return ("--trace", path, "--log-level", "error")

    def check_file(self, path, said):
        want = pl.summary_of(pl.Snapshot(path))
        each, sides = instances_of(path)
        want.update(sides)
        same = [k for k in want if want[k] is not None and k in said]
        self.assertGreater(len(same), 60)
        for name in same:
            self.near(said[name], want[name], name)
        self.assertEqual(len(said["instances"]), len(each))
        for a, b in zip(said["instances"], each):
            self.assertEqual(a.keys(), b.keys())
            self.assertEqual(a["side"], b["side"])
            for name in a.keys() - {"side"}:
                self.near(a[name], b[name], name)
        self.check_readers(path, said)
        self.check_lanes(path)

    def check_readers(self, path, said):
        """`inspect` says the same; `check` finds nothing."""
        shown = self.run_program(path, "--json", verb="inspect").json()
        for name, value in {**shown, **shown["requests"]}.items():
            if name in said:
                self.assertEqual(value, said[name], name)
        self.assertIn("limiting_part", shown)
        self.assertIn("most_waiting", shown["instances"][0])
        report = self.run_program(path, "--json", verb="check").json()
        self.assertEqual((report["findings"], report["instances"]),
                         (0, len(said["instances"])))

    def check_lanes(self, path):
        """Samples are of a run: time and work never fall, and nothing is held
        or waited for in the end."""
        with h5py.File(path, "r") as file:
            lanes = {k: v[...].astype(np.int64)
                     for k, v in file["lanes"].items()}
            layout = {k: v for k, v in file["layout"].attrs.items()}
            i = {k: v[...] for k, v in file["instances"].items()}
            ticks = int(file["counters/engine"].attrs["ticks"])
            last = int(file["requests/finished_ns"][...].max())
        stride = max(1, lanes["tick"][1] - lanes["tick"][0])
        self.assertEqual(set(lanes["tick"][:-1] % stride), {0})
        self.assertEqual(lanes["tick"][-1], ticks - 1)
        self.assertLessEqual(len(lanes["tick"]), 4096)
        self.assertTrue((np.diff(lanes["time_ns"]) >= 0).all())
        self.assertLessEqual(last, lanes["time_ns"][-1])
        busy = lanes["instance_busy_ns"]
        self.assertTrue((np.diff(busy, axis=0) >= 0).all())
        self.assertEqual(busy[-1].tolist(),
                         (i["prefill_ns"] + i["decode_ns"]).tolist())
        for name in ("running", "waiting"):
            self.assertEqual(lanes[name][-1], 0)
            self.assertEqual(set(lanes[f"instance_{name}"][-1]), {0})
        self.assertEqual(lanes["instance_running"].sum(axis=1).tolist(),
                         lanes["running"].tolist())
        self.assertTrue((lanes["instance_waiting"].max(axis=0) <=
                         i["most_waiting"]).all())
        for tier in ("decode", "decode_host"):
            self.assertEqual(
                set(lanes[f"{tier}_free"][-1]),
                {layout[f"{tier}_pages"] - layout[f"{tier}_reserved"]})
        self.check_places(path, lanes, layout, i)

    def check_places(self, path, lanes, layout, instances):
        """Lanes and homes are free until the first request comes to their
        instance, and not for ever."""
        with h5py.File(path, "r") as file:
            r = {k: v[...].astype(np.int64) for k, v in
                 file["requests"].items() if k != "digest"}
        if r["reentries"].any() or r["readmissions"].any():
            return  # the file has the first time there, and the last place
        dense = lanes["tick"][1] - lanes["tick"][0] == 1
        for side, tier, n in (("prefill", "device", "lanes"),
                              ("decode", "decode", "homes")):
            ends = np.cumsum(instances[n])
            full = layout[f"{tier}_pages"] - layout[f"{tier}_reserved"]
            held = full - lanes[f"{tier}_free"]
            for k in np.nonzero(instances[n])[0]:
                of = held[:, ends[k] - instances[n][k]:ends[k]].sum(axis=1)
                came = r["admitted_ns"][r[f"{side}_instance"] == k]
                first = came.min() if len(came) else 1 << 62
                self.assertFalse(of[lanes["time_ns"] < first].any(), (side, k))
                if dense:
                    self.assertEqual(of.any(), len(came) > 0, (side, k))

    def test_one_instance_is_the_engine(self):
        """Requests and counters, but for those of ticks: it is woken."""
        for more, c in itertools.product(((), GLM), (1, 8)):
            with self.subTest(more=more, c=c):
                self.sim("f.h5", *TIERS, *more, "--prefill", f"1x{c}")
                self.sim("e.h5", *TIERS, *more, "--cp", c)
                fleet = pl.Snapshot(self.path("f.h5"))
                alone = pl.Snapshot(self.path("e.h5"))
                self.assertEqual(fleet.requests.keys() - OTHERS,
                                 alone.requests.keys() - OTHERS)
                for name in fleet.requests.keys() - OTHERS:
                    np.testing.assert_array_equal(
                        fleet.requests[name], alone.requests[name], name)
                for name in ("ticks", "idle_ticks"):
                    del fleet.engine[name], alone.engine[name]
                self.assertEqual(
                    (fleet.layout, fleet.engine, fleet.cache, fleet.storage),
                    (alone.layout, alone.engine, alone.cache, alone.storage))
                self.assertEqual(fleet.data, {})

    def test_lanes_of_one_instance_are_the_engines(self):
        """At the times of the ticks that both have, at the end of the last."""
        line = (*TIERS, "--limit", 40)
        self.sim("f.h5", *line, "--prefill", "1x4")
        self.sim("e.h5", *line, "--cp", 4)
        states = []
        for name in ("f.h5", "e.h5"):
            with h5py.File(self.path(name), "r") as file:
                lanes = {k: v[...].tolist() for k, v in file["lanes"].items()}
            self.assertEqual(lanes["tick"][1], 1)
            states.append({time: row for time, *row in zip(*(
                lanes[k] for k in ("time_ns", "device_free", "host_free",
                                   "decode_free", "running", "waiting")))})
        both = states[0].keys() & states[1].keys()
        self.assertGreater(len(both), 150)
        for time in both:
            self.assertEqual(states[0][time], states[1][time], time)

    def test_very_many_lanes_have_fewer_samples(self):
        self.sim("many.h5", *TRACE, "--prefill", "40x64", "--decode", "2x64",
                 "--max-new", 60)
        with h5py.File(self.path("many.h5"), "r") as file:
            n = len(file["lanes/tick"])
            ticks = int(file["counters/engine"].attrs["ticks"])
        numbers = 2 * (40 * 64 + 2 * 64) + 3 * 42
        self.assertGreater(ticks, 2 * n)
        self.assertLessEqual(n, (1 << 22) // numbers)
        self.assertGreater(2 * n, (1 << 22) // numbers)
        self.run_program(self.path("many.h5"), verb="check")


class One(Case):
    """One file that tests look at."""
    line = (*TIERS, "--pd", "3x2+2x4:dp2", "--slo", "ttft:600ms,tpot:1s")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = os.path.join(cls.folder.name, "a.h5")
        run = pl.Run(cls.program, *cls.line, "--snapshot", cls.file, "--json",
                     verb="sim")
        assert run.status == 0, run
        cls.said = run.json()

    def report(self, path, *args):
        return Page(self.run_program(path, *args,
                                     verb="report").stdout.decode())


class Files(One):
    def test_the_tree_is_that_of_the_document(self):
        with open(os.path.join(pl.ROOT, "docs", "schema.md"),
                  encoding="ascii") as file:
            text = file.read()
        drawn, optional = test_schema.document(text)
        self.sim("one.h5", *TRACE, "--cp", 2, "--limit", 5)
        test_schema.errors.clear()
        for path in (self.file, self.path("one.h5")):
            kinds = [] if path == self.file else self.kinds(path)
            test_schema.compare(path, drawn, optional, kinds)
        self.assertEqual(test_schema.errors, [])
        with h5py.File(self.file, "r") as file:
            self.assertEqual(file.attrs["schema_version"].tolist(), [1, 1])

    @staticmethod
    def kinds(path):
        with h5py.File(path, "r") as file:
            return [t.decode() for t in file["events/kinds"][:]]

    def test_the_same_line_writes_the_same(self):
        run = self.sim("again.h5", *self.line)
        self.assertEqual(run.json(), self.said)
        done = subprocess.run(["bash", SAME, self.file, self.path("again.h5")],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_what_was_asked_for_stands_there(self):
        config = pl.Snapshot(self.file).config
        self.assertEqual(config["pd"], "3x2+2x4:dp2")
        self.assertEqual((config["prefill"], config["events"],
                          config["router"]), ("", "off", "prefix+load"))

    def test_exports_are_the_columns(self):
        for table, group in (("instances", "instances"),
                             ("requests", "requests"), ("lanes", "lanes")):
            rows = self.run_program(self.file, table, "--json",
                                    verb="export").json()[table]
            with h5py.File(self.file, "r") as file:
                for name, column in file[group].items():
                    if name in rows[0] and name != "digest" and \
                            name != "tokens":
                        self.assertEqual([r[name] for r in rows],
                                         column[...].tolist(), name)
            self.assertIn({"instances": "refused_ns",
                           "requests": "decode_instance",
                           "lanes": "instance_busy_ns"}[table], rows[0])
            text = self.run_program(self.file, table, verb="export").stdout
            self.assertEqual(text.count(b"\n"), len(rows) + 1)

    def test_lanes_and_requests_name_instances(self):
        lanes = self.run_program(self.file, "lanes", "--json",
                                 verb="inspect").json()["lanes"]
        with h5py.File(self.file, "r") as file:
            free = {k: file[f"lanes/{k}_free"][-1].tolist()
                    for k in ("device", "host", "decode")}
        want = [(tier, i, lane, free[tier][2 * n + lane])
                for tier, first in (("device", 0), ("host", 0), ("decode", 3))
                for n, i in enumerate((0, 1, 2) if first == 0 else (3, 4))
                for lane in (0, 1)]
        self.assertEqual([(e["tier"], e["instance"], e["rank"],
                           e["free_pages"]) for e in lanes][:len(want)], want)
        text = self.run_program(self.file, "lanes", verb="inspect").stdout
        self.assertRegex(text, rb"\nhost +prefill 2 +1 +600 ")
        requests = self.run_program(self.file, "requests", "--json",
                                    verb="inspect").json()["requests"]
        with h5py.File(self.file, "r") as file:
            for name in ("prefill_instance", "decode_instance", "home"):
                self.assertEqual([r[name] for r in requests],
                                 file["requests"][name][...].tolist())
        for i, of in enumerate(self.said["instances"]):
            name = f"{of['side']}_instance"
            self.assertEqual(of["requests"],
                             sum(r[name] == i for r in requests))
        self.assertRegex(
            self.run_program(self.file, "requests", verb="inspect").stdout,
            rb"prefill [012] +decode [01]\n")

    def test_compare(self):
        self.sim("rr.h5", *self.line, "--router", "round-robin")
        for limit, status in (("ttft.mean>+1000%", 0), ("ttft.mean<+1000%", 1)):
            run = self.run_program(self.file, self.path("rr.h5"), "--fail-if",
                                   limit, verb="compare", status=status)
            self.assertRegex(run.stdout, rb"router +prefix\+load +round-robin")
        self.run_program(self.file, "diff", self.path("rr.h5"), verb="inspect",
                         status=1)
        self.run_program(self.file, "diff", self.file, verb="inspect")

    def test_what_it_has_not_is_told(self):
        for words, verb in ((("nodes",), "inspect"), (("page", 3), "inspect"),
                            (("why", 3), "inspect"), (("nodes",), "export"),
                            (("events",), "export")):
            run = self.run_program(self.file, *words, verb=verb, status=3)
            self.assertEqual(run.stdout, b"")
            self.assertEqual(run.stderr.count("\n"), 1)
            self.assertIn(f"several instances have neither prefix trees nor "
                          f"events in a file, so that `{words[0]}` has nothing "
                          f"to read; simulate one of them with --cp",
                          run.stderr)
        run = self.run_program("--trace", pl.SLICE, "--validate", self.file,
                               "--cp", 2, verb="sim", status=3)
        self.assertEqual(run.stderr.count("\n"), 1, run)
        self.sim("one.h5", *TRACE, "--cp", 2, "--limit", 5)
        self.assertIn("/instances", self.run_program(
            self.path("one.h5"), "instances", verb="export", status=3).stderr)

    def test_a_file_that_contradicts_itself_is_found(self):
        cases = {"instances/lanes": "lane_counts",
                 "instances/decode_steps": "lane_counts",
                 "instances/received_bytes": "lane_counts",
                 "requests/prefill_instance": "owners_disagree",
                 "requests/decode_instance": "owners_disagree",
                 "lanes/decode_free": "lane_counts"}
        for name, kind in cases.items():
            with open(self.file, "rb") as file:
                whole = file.read()
            with open(self.path("bad.h5"), "wb") as file:
                file.write(whole)
            with h5py.File(self.path("bad.h5"), "r+") as file:
                column = file[name]
                values = column[...]
                values.reshape(-1)[0] += 10 ** 5
                column[...] = values
                del column.attrs["xxh3_64"]
            report = self.run_program(self.path("bad.h5"), "--json",
                                      verb="check", status=1).json()
            self.assertGreater(report["found"][kind]["count"], 0, name)


class Report(One):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.report(cls(), cls.file)
        with h5py.File(cls.file, "r") as file:
            cls.lanes = {k: v[...].astype(np.int64)
                         for k, v in file["lanes"].items()}

    def test_what_limits_comes_first(self):
        said = self.said
        self.assertEqual((said["most_broken"], said["limiting_side"]),
                         ("ttft", "prefill"))
        kept = 100 * said["good_completed"] / said["completed"]
        broken = 100 * said["broke_ttft"] / said["completed"]
        self.assertEqual(self.page.texts("h1", "headline"), [
            f"{kept:.2f} % of the requests keep ttft:600ms,tpot:1s; ttft is "
            f"broken most, by {broken:.2f} %"])
        text = self.run_program(*self.line, verb="sim").stdout.decode()
        line = text.splitlines()[-1]
        begin = "Prefill limits: "
        self.assertTrue(line.startswith(begin), line)
        self.assertTrue(self.page.texts("p", "why")[0].startswith(
            "Prefill limits this deployment. " + line[len(begin):]), line)

    def test_each_verdict_has_its_headline(self):
        for words, verdict in (
                (("--pd", "2x8+1x2", "--decode-pages", 2000), "Decode limits"),
                (("--prefill", "1x2"), "Prefill limits"),
                (("--pd", "2x8+1x8", *GLM, "--ep", 0), "Nothing limits")):
            self.sim("b.h5", "--trace", pl.SLICE, "--log-level", "error",
                     *words)
            page = self.report(self.path("b.h5"))
            self.assertEqual(page.texts("h1", "headline"),
                             [verdict + " this deployment"])
            self.assertEqual("Prompts waited for a home." in page.advice(),
                             verdict.startswith("Decode"))
            said = self.run_program(self.path("b.h5"), "--json",
                                    verb="inspect").json()
            self.assertEqual({"Nothing": "none"}.get(
                verdict.split()[0], verdict.split()[0].lower()),
                said["limiting_side"])

    def test_tables_are_what_sim_says(self):
        sides, said = self.page.tables["sides"], self.said
        for k, side in enumerate(("prefill", "decode")):
            self.near(sides["busy_share"][k] / 100,
                      said[f"{side}_utilization"])
            self.near(sides["link_busy_share"][k] / 100,
                      said[f"{side}_link_utilization"])
            self.assertEqual(sides["most_waiting"][k],
                             said[f"{side}_most_waiting"])
            self.assertAlmostEqual(sides["imbalance"][k],
                                   said[f"{side}_imbalance"], 5)
        self.assertEqual(sides["gpus"], [6, 8])
        for k, name in enumerate(("prefill", "home", "transfer", "batch")):
            wait = said[f"mean_wait_{name}_ms"]
            waits = self.page.tables["waits"]
            self.assertAlmostEqual(waits["mean_ns"][k] / 1e6, wait, 5)
            self.assertAlmostEqual(waits["share"][k],
                                   100 * wait / said["mean_e2el_ms"], 4)
        tiles = self.page.tiles()
        self.assertEqual(tiles["GPUs"][0], "14")
        self.assertEqual(tiles["prefill busy"][0],
                         f"{100 * said['prefill_utilization']:.1f} %")

    def test_a_row_an_instance(self):
        table = self.page.tables["instances"]
        self.assertEqual(table["instance"], [
            "prefill 0", "prefill 1", "prefill 2", "decode 0", "decode 1"])
        for k, one in enumerate(self.said["instances"]):
            for name in ("requests", "most_waiting", "sent_bytes",
                         "received_bytes", "refusals"):
                self.assertEqual(table[name][k], one[name])
            self.near(table["busy_share"][k] / 100,
                      one["prefill_utilization"] + one["decode_utilization"])
            self.assertAlmostEqual(table["mean_wait_ns"][k] / 1e6,
                                   one["mean_wait_ms"], 5)
            prefills = one["side"] == "prefill"
            for name, of in (("prompt_tokens", True), ("computed_tokens", True),
                             ("decode_steps", False)):
                self.assertEqual(table[name][k],
                                 one[name] if prefills == of else None)

    def test_over_time(self):
        lanes, page = self.lanes, self.page.tables
        table = page["utilisation"]
        start = np.array(table["time_ns"])
        width = np.diff([*start, lanes["time_ns"][-1]])
        self.assertGreater(len(start), 60)
        for side, of in (("prefill", slice(0, 3)), ("decode", slice(3, 5))):
            share = np.array(table[f"{side}_share"])
            self.assertTrue(((share >= 0) & (share < 100 + 1e-6)).all())
            busy = lanes["instance_busy_ns"][-1, of].sum() - \
                lanes["instance_busy_ns"][0, of].sum()
            n = of.stop - of.start
            self.assertAlmostEqual((share * width).sum() / 100 * n / busy, 1)
        rows = set(zip(
            lanes["time_ns"].tolist(),
            lanes["instance_waiting"][:, :3].sum(axis=1).tolist(),
            lanes["instance_waiting"][:, 3:].sum(axis=1).tolist(),
            lanes["running"].tolist()))
        queues = page["queues"].rows("time_ns", "waiting_prefill",
                                     "waiting_decode", "running")
        self.assertGreater(len(queues), 500)
        self.assertEqual(set(queues) - rows, set())
        heat = page["lanes"]
        self.assertEqual(heat.full["device_lane_2_1"], 249)
        n = len(heat["time_ns"])
        at = [i * (len(lanes["tick"]) - 1) // (n - 1) for i in range(n)]
        self.assertEqual(heat["device_lane_2_1"],
                         (249 - lanes["device_free"][at, 5]).tolist())
        self.assertEqual(heat["decode_home_1_0"],
                         (4095 - lanes["decode_free"][at, 2]).tolist())

    def test_the_slowest_name_their_instances(self):
        table = self.page.tables["slowest"]
        with h5py.File(self.file, "r") as file:
            at = {k: file["requests"][k][...] for k in
                  ("prefill_instance", "decode_instance")}
        names = self.page.tables["instances"]["instance"]
        for name, column in at.items():
            self.assertEqual(table[name],
                             [names[column[int(i)]] for i in table["request"]])
        self.assertNotIn("prefill to decode",
                         self.page.tables["links"]["link"])

    def test_advice(self):
        """Lanes are uneven within an instance, or it is the instances."""
        self.sim("b.h5", *TIERS, "--prefill", "3x1", "--router", "random",
                 "--max-new", 2, "--device-pages", "unlimited")
        advice = self.report(self.path("b.h5")).advice()
        self.assertIn("Prefill instances are uneven.", advice)
        self.assertNotIn("Lanes are uneven.", advice)
        self.sim("b.h5", *TIERS, "--pd", "2x4+1x2", "--ownership",
                 "interleave:64", "--router", "round-robin")
        advice = self.report(self.path("b.h5")).advice()
        self.assertRegex(advice["Lanes are uneven."],
                         r"^Device lane [0-3] of prefill [01] holds 1\.")
        self.assertIn("Several instances keep none",
                      advice["The file has no events."])

    def test_very_many_lanes_are_told_by_instance(self):
        self.sim("many.h5", *TRACE, "--limit", 20, "--prefill", "40x8")
        heat = self.report(self.path("many.h5")).tables["lanes"]
        with h5py.File(self.path("many.h5"), "r") as file:
            free = file["lanes/device_free"][-1].reshape(40, 8)
            pages = int(file["layout"].attrs["device_pages"]) - 1
        for i in (0, 39):
            self.assertEqual(heat[f"device_instance_{i}"][-1],
                             8 * pages - free[i].sum())
            self.assertEqual(heat.full[f"device_instance_{i}"], 8 * pages)

    def test_perfetto(self):
        path = self.path("trace.json")
        self.run_program(self.file, "--perfetto", path, verb="report")
        with open(path, encoding="ascii") as file:
            events = json.load(file)["traceEvents"]
        pid = {e["args"]["name"]: e["pid"] for e in events
               if e["name"] == "process_name"}
        self.assertEqual(set(pid), {
            "requests", "all instances", "prefill 0", "prefill 1", "prefill 2",
            "decode 0", "decode 1"})
        with h5py.File(self.file, "r") as file:
            r = {k: v[...].astype(np.int64) for k, v in
                 file["requests"].items() if k != "digest"}
        self.assertEqual(r["reentries"].sum(), 0)
        for side, begin, end, first in (
                ("prefill", "admitted_ns", "first_token_ns", 0),
                ("decode", "decode_ns", "finished_ns", 3)):
            for k in range(3 if side == "prefill" else 2):
                of = r[f"{side}_instance"] == first + k
                slices = [e for e in events if e["ph"] == "X" and
                          e["pid"] == pid[f"{side} {k}"]]
                self.assertEqual(
                    sorted(e["args"]["request"] for e in slices),
                    np.nonzero(of & (r[end] > r[begin]))[0].tolist())
                self.assertEqual(sum(round(e["dur"] * 1000) for e in slices),
                                 int((r[end] - r[begin])[of].sum()))
        counters = [e for e in events if e["ph"] == "C" and
                    e["name"] == "device pages" and e["pid"] == pid["prefill 1"]]
        self.assertEqual([list(e["args"].values()) for e in counters],
                         (249 - self.lanes["device_free"][:, 2:4]).tolist())
        for slices in self.by_thread(events):
            for a, b in zip(slices, slices[1:]):
                self.assertLessEqual(a[1], b[0])

    @staticmethod
    def by_thread(events):
        threads = {}
        for e in events:
            if e["ph"] == "X" and e["pid"] >= 10:
                start = round(e["ts"] * 1000)
                threads.setdefault((e["pid"], e["tid"]), []).append(
                    (start, start + round(e["dur"] * 1000)))
        return [sorted(t) for t in threads.values()]

    def test_columns_of_anything(self):
        """A file of which anything may be wrong is read or refused."""
        seed = self.options.seed or random.randrange(1 << 30)
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        names, ended = [], []
        with h5py.File(self.file, "r") as file:
            file.visititems(lambda name, item: names.append(name) if isinstance(
                item, h5py.Dataset) and "instance" in name else None)
        path, out = self.path("hostile.h5"), self.path("out.html")
        for _ in range(self.options.files):
            shutil.copyfile(self.file, path)
            with h5py.File(path, "r+") as file:
                column = file[rng.choice(names)]
                values = column[...]
                info = np.iinfo(values.dtype)
                values.reshape(-1)[rng.randrange(values.size)] = rng.choice(
                    (info.max, info.min, -1, 2, info.max // 4))
                column[...] = values
                del column.attrs["xxh3_64"]
            for words, verb in (((path, "-o", out, "--perfetto", out + ".json"),
                                 "report"), ((path,), "inspect"),
                                ((path, "lanes"), "inspect"),
                                ((path, "requests"), "inspect")):
                run = pl.Run(self.program, *words, verb=verb)
                ended.append(run.status)
                self.assertIn(run.status, (0, 3), run)
                self.assertNotIn("runtime error", run.stderr)
                self.assertLessEqual(run.stderr.count("\n"), 1)
        self.assertEqual(set(ended), {0, 3})


class Overload(Case):
    """Who waits far too long: that is counted and read back, or told."""

    def test_waits_are_counted_or_the_run_ends(self):
        hardware, trace = self.path("slow.json"), self.path("trace.jsonl")
        with open(os.path.join(pl.ROOT, "datasets", "hardware",
                               "Xeon-8480.json")) as file:
            slow = json.load(file)
        slow["bf16_dense_flop_per_s"]["value"] = 2 * 10 ** 11
        slow["memory_bandwidth_bytes_per_s"]["value"] = 10 ** 9
        with open(hardware, "w") as file:
            json.dump(slow, file)
        made = pl.Run(self.program, "make", "--sessions", 8000, "--words", 1000,
                      "--answer", 30, verb="trace")
        with open(trace, "wb") as file:
            file.write(made.stdout)
        line = ("--trace", trace, "--pd", "1x1+1x1", "--hardware", hardware,
                "--kv-dtype", "fp8", "--model", "DeepSeek-V3.2",
                "--device-pages", 4096, "--decode-pages", 4096, "--log-level",
                "error")
        n, most, run = 600, 0, None
        while run is None or run.status == 0:  # waits go by the square
            run = pl.Run(self.program, *line, "--limit", n, "--snapshot",
                         self.path("f.h5"), "--json", verb="sim")
            n = n * 6 // 5
            if run.status == 0:
                with h5py.File(self.path("f.h5"), "r") as file:
                    waited = sum(map(int, file["instances/waiting_ns"][...]))
                self.assertGreater(waited, most)
                most = waited
                self.near(instances_of(self.path("f.h5"))[1]
                          ["mean_wait_prefill_ms"],
                          run.json()["mean_wait_prefill_ms"])
                self.run_program(self.path("f.h5"), verb="inspect")
        self.assertEqual(run.status, 3, run)
        self.assertRegex(run.stderr, r"\Apagelane: fleet: what requests wait "
                                     r"adds up to more than 146 years.*\n\Z")
        self.assertGreater(most, 1 << 61)


class Browser(InChromium, One):
    """The page where Chromium is installed."""

    def setUp(self):
        super().setUp()
        self.html = self.path("a.html")
        self.run_program(self.file, "-o", self.html, verb="report")

    def test_charts_are_drawn(self):
        page = self.browser.open(self.html)
        drawn = page.value(DRAWN)
        # utilisation, hits, memory, queues, three strips, two histograms
        self.assertEqual(len(drawn), 9)
        for n in drawn:
            self.assertGreater(n, 1500)
        strips = page.value("[...document.querySelectorAll('#lanes .strip')]"
                            ".map((e) => e.textContent)")
        self.assertEqual([s.split(",")[0] for s in strips],
                         ["device lane", "host lane", "decode home"])
        self.assertEqual(page.problems, [])
        self.assertEqual(page.requests, ["file://" + self.html])

    def test_csv_is_the_table(self):
        page = self.browser.open(self.html)
        tables = self.report(self.file).tables
        for name in ("instances", "sides", "waits", "utilisation", "lanes"):
            rows = list(csv.reader(io.StringIO(
                page.value(CSV.replace("NAME", name)), newline="")))
            table = tables[name].columns
            self.assertEqual(rows[0], list(table))
            self.assertEqual(len(rows) - 1, len(next(iter(table.values()))))


if __name__ == "__main__":
    def add_arguments(parser):
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--files", type=int, default=12)
    pl.main(__doc__, add_arguments)
