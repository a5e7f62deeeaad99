#!/usr/bin/python3
"""`pagelane report` says what the file says, and a browser shows it.

Every number of a page is computed anew from the HDF5 file, or is what `inspect`
and `trace stats` say; the Perfetto trace adds up to the counters.  The tests of
the page in a browser are skipped where no Chromium is installed.
"""
import csv
import hashlib
import io
import json
import os
import random
import re
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

ASSETS = os.path.join(pl.ROOT, "src", "cli", "assets")
RUN = ("--trace", pl.SLICE, "--block-tokens", "64", "--comm", "local",
       "--ranks", "4", "--chunk", "512", "--host-pages", "600", "--max-new",
       "16")
STEPS = (10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82)
GOOD = ("arrival_ns", "admitted_ns", "first_token_ns", "decode_ns",
        "finished_ns")


def share(part, whole):
    return 100 * part / whole if whole > 0 else 0


class Case(pl.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = cls.run_to("a.h5", *RUN, "--device-pages", 250)
        cls.page_path = cls.path("a.html")
        run = pl.Run(cls.program, cls.file, "-o", cls.page_path, "--trace",
                     pl.SLICE, verb="report")
        assert run.status == 0 and run.stdout == b"" and run.stderr == "", run
        with open(cls.page_path, encoding="utf-8") as file:
            cls.page = Page(file.read())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def run_to(cls, name, *args, verb="run"):
        path = cls.path(name)
        run = pl.Run(cls.program, *args, "--snapshot", path, "--log-level",
                     "error", verb=verb)
        assert run.status == 0, run
        return path

    @classmethod
    def edited(cls, name, edit, *columns):
        """A copy of the file with other columns of /requests."""
        path = cls.path(name)
        shutil.copyfile(cls.file, path)
        with h5py.File(path, "r+") as file:
            edit(file["requests"])
            for column in columns:
                del file["requests"][column].attrs["xxh3_64"]
        return path

    def report(self, *args, status=0):
        run = self.run_program(*args, verb="report", status=status)
        return Page(run.stdout.decode()) if status == 0 else run.stderr

    def near(self, a, b):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def columns_of(path):
    with h5py.File(path, "r") as file:
        r = {k: v[...] for k, v in file["requests"].items()}
    good = (r["failed"] == 0) & (r["skipped"] == 0) & (r["finished_ns"] >= 0)
    return {k: v[good].astype(np.int64) for k, v in r.items()
            if len(v) == len(good) and k != "digest"}


class Numbers(Case):
    def setUp(self):
        self.r = columns_of(self.file)
        self.said = pl.Run(self.program, self.file, "--json",
                           verb="inspect").json()

    def test_tiles_are_what_inspect_says(self):
        m = self.said["requests"]
        tiles = self.page.tiles()
        self.assertEqual(tiles["hit rate"][0], f"{100 * m['hit_rate']:.2f} %")
        host = share(m["host_hit_tokens"], m["total_input_tokens"])
        self.assertIn(f"host {host:.2f} %", tiles["hit rate"][1])
        for name, key in (("time to first token", "ttft"),
                          ("time per output token", "tpot")):
            self.assertEqual(tiles[name][0], f"{m[f'median_{key}_ms']:.2f} ms")
            self.assertEqual(tiles[name][1],
                             f"p50; p99 {m[f'p99_{key}_ms']:.2f} ms")
        self.assertEqual(tiles["requests completed"][0],
                         f"{m['request_throughput']:.3f}/s")
        self.assertEqual(tiles["output tokens"][0],
                         f"{m['output_throughput']:.1f}/s")

    def test_tables_of_sums(self):
        m, t, r = self.said["requests"], self.page.tables, self.r
        phases = [int((r[b] - r[a]).sum()) for a, b in zip(GOOD, GOOD[1:])]
        self.assertEqual(t["phases"]["total_ns"], phases)
        self.near(t["phases"]["share"], [share(p, sum(phases))
                                         for p in phases])
        self.assertEqual(sum(phases),
                         int((r["finished_ns"] - r["arrival_ns"]).sum()))
        self.assertEqual(t["tokens"]["tokens"], [
            m["device_hit_tokens"], m["host_hit_tokens"],
            m["storage_hit_tokens"], m["computed_tokens"]])
        self.assertEqual(sum(t["tokens"]["tokens"]), m["total_input_tokens"])
        misses = [m[f"miss_{why}_pages"] for why in (
            "new", "evicted", "lane", "threshold", "failed", "storage",
            "last_page")]
        self.assertEqual(t["misses"]["pages"], [n for n in misses if n])
        links = [self.said["counters"]["engine"][f"link_bytes_{k}"] for k in (
            "h2d", "d2h", "pd", "offload", "store", "fetch")]
        self.assertEqual(t["links"]["bytes"], [n for n in links if n])

    def test_distributions(self):
        r, t = self.r, self.page.tables
        many = r["generated_tokens"] > 1
        times = {
            "queueing": r["admitted_ns"] - r["arrival_ns"],
            "time to first token": r["first_token_ns"] - r["arrival_ns"],
            "time per output token": (r["finished_ns"] - r["first_token_ns"])[
                many] // (r["generated_tokens"][many] - 1),
            "end to end": r["finished_ns"] - r["arrival_ns"]}
        for row in t["latencies"].rows("time", "mean_ns", "p50_ns", "p90_ns",
                                       "p99_ns", "max_ns"):
            values = times[row[0]]
            want = pl.spread(values)
            self.near(row[1] / 1e6, int(want["mean"] * 1e6) / 1e6)
            self.near([v / 1e6 for v in row[2:]],
                      [want["median"], want["p90"], want["p99"],
                       values.max() / 1e6])
        self.check_bins(t["ttft"], times["time to first token"])
        self.check_bins(t["tpot"], times["time per output token"])
        edges = t["ttft"]["from_ns"] + t["ttft"]["to_ns"][-1:]
        for edge in edges:  # they grow, by steps that everybody knows
            self.assertIn(int(str(edge)[:2]), STEPS)
            self.assertEqual(set(str(edge)[2:]), {"0"})

    def check_bins(self, table, values):
        for first, end, n in table.rows("from_ns", "to_ns", "requests"):
            self.assertEqual(n, int(((values >= first) &
                                     (values < end)).sum()))
        self.assertEqual(table["from_ns"][1:], table["to_ns"][:-1])
        self.assertEqual(sum(table["requests"]), len(values))
        self.assertGreater(table["requests"][0], 0)
        self.assertGreater(table["requests"][-1], 0)
        self.near(table.marks["p99"] / 1e6, pl.spread(values)["p99"])

    def test_times_that_lie_close_have_even_bins(self):
        def edit(requests):
            first = requests["first_token_ns"][:]
            more = requests["generated_tokens"][:].astype(np.int64) - 1
            each = 10_000_000 + 13_000 * np.arange(len(first))
            requests["decode_ns"][...] = first
            requests["finished_ns"][...] = first + more * each
        path = self.edited("close.h5", edit, "decode_ns", "finished_ns")
        table, r = self.report(path).tables["tpot"], columns_of(path)
        many = r["generated_tokens"] > 1
        self.check_bins(table, ((r["finished_ns"] - r["first_token_ns"])[many]
                                // (r["generated_tokens"][many] - 1)))
        self.assertGreater(len(table["from_ns"]), 10)
        widths = set(np.diff(table["from_ns"] + table["to_ns"][-1:]).tolist())
        self.assertEqual(len(widths), 1)
        self.assertIn(str(widths.pop())[0], "125")

    def test_hits_over_time(self):
        r, t = self.r, self.page.tables["hits"]
        starts = np.array(t["arrival_ns"])
        at = np.searchsorted(starts, r["arrival_ns"], "right") - 1
        self.assertLess(0, len(starts))
        self.assertEqual(len(set(np.diff(starts))), 1)
        for i in range(len(starts)):
            of = at == i
            prompt = int(r["prompt_tokens"][of].sum())
            self.assertEqual(t["prompt_tokens"][i], prompt)
            for tier in ("device", "host"):
                hit = int(r[f"{tier}_hit_tokens"][of].sum())
                self.assertEqual(t[f"{tier}_hit_tokens"][i], hit)
                self.near(t[f"{tier}_share"][i], share(hit, prompt))
        self.assertEqual(sum(t["prompt_tokens"]),
                         self.said["requests"]["total_input_tokens"])

    def test_lanes_over_time(self):
        t = self.page.tables
        with h5py.File(self.file, "r") as file:
            lanes = {k: v[...].astype(np.int64)
                     for k, v in file["lanes"].items()}
            layout = dict(file["layout"].attrs)
        n = len(t["lanes"]["time_ns"])
        self.assertEqual(n, min(1024, len(lanes["time_ns"])))
        at = [i * (len(lanes["time_ns"]) - 1) // (n - 1) for i in range(n)]
        for name in ("memory", "queues", "lanes"):
            self.assertEqual(t[name]["time_ns"],
                             lanes["time_ns"][at].tolist())
        for name in ("waiting", "running"):
            self.assertEqual(t["queues"][name], lanes[name][at].tolist())
        for tier in ("device", "host", "decode"):
            pages = int(layout[f"{tier}_pages"] - layout[f"{tier}_reserved"])
            held = pages - lanes[f"{tier}_free"]
            self.assertEqual(t["memory"][f"{tier}_pages"],
                             held.sum(axis=1)[at].tolist())
            self.near(t["memory"][f"{tier}_share"], [
                share(v, 4 * pages) for v in held.sum(axis=1)[at].tolist()])
            word = "rank" if tier == "decode" else "lane"
            for lane in range(4):
                name = f"{tier}_{word}_{lane}"
                self.assertEqual(t["lanes"][name], held[at, lane].tolist())
                self.assertEqual(t["lanes"].full[name], pages)
        self.assertNotIn("decode_host_pages", t["memory"].columns)

    def test_the_headline_is_the_larger_part(self):
        r = self.r
        queue = int((r["admitted_ns"] - r["arrival_ns"]).sum())
        prefill = int((r["first_token_ns"] - r["admitted_ns"]).sum())
        self.assertGreater(queue, prefill)
        line = self.page.texts("h1", "headline")[0]
        self.assertIn("Queueing limits", line)
        self.assertIn(f"{share(queue, queue + prefill):.0f} %", line)
        # waiting behind others, second by second
        steps = sorted(set(np.concatenate([r[k] for k in GOOD[:3]]).tolist()))
        behind = work = 0
        for a, b in zip(steps, steps[1:]):
            if ((r["admitted_ns"] <= a) & (r["first_token_ns"] > a)).any():
                work += b - a
                behind += (b - a) * int(((r["arrival_ns"] <= a) &
                                         (r["admitted_ns"] > a)).sum())
        why = self.page.texts("p", "why")[0]
        self.assertIn(f"{share(behind, queue):.1f} % of that waiting", why)
        seconds = self.said["requests"]["duration"]
        self.assertIn(f"at work {share(work / 1e9, seconds):.1f} %", why)
        self.assertIn(f"waits {queue / len(r['home']) / 1e6:.2f} ms", why)

    def test_limits_come_first(self):
        """Those of the run, counted from the records."""
        ttft = self.r["first_token_ns"] - self.r["arrival_ns"]
        run = (*RUN, "--device-pages", 250)
        limit = int(np.percentile(ttft, 60) / 1e6)
        page = self.report(self.run_to("slo.h5", *run, "--slo",
                                       f"ttft:{limit}ms,e2e:100min"))
        over = int((ttft > limit * 1000000).sum())
        self.assertTrue(10 < over < 190)
        kept, broken = (200 - over) / 2, over / 2
        self.assertEqual(page.texts("h1", "headline"), [
            f"{kept:.2f} % of the requests keep ttft:{limit}ms,e2e:100min; "
            f"ttft is broken most, by {broken:.2f} %"])
        self.assertTrue(page.texts("p", "why")[0].startswith(
            self.page.texts("h1", "headline")[0] + ". "))
        self.assertEqual(page.tiles()["requests in limits"], (
            f"{kept:.2f} %",
            f"{200 - over} of 200; over ttft {over}, tpot 0, e2e 0"))
        self.assertNotIn("requests in limits", self.page.tiles())
        page = self.report(self.run_to("all.h5", *run, "--slo", "e2e:100min"))
        self.assertEqual(page.texts("h1", "headline"), [
            "100.00 % of the requests keep e2e:100min"])

    def test_the_slowest(self):
        r = self.r
        ttft = r["first_token_ns"] - r["arrival_ns"]
        order = sorted(range(len(ttft)), key=lambda i: (-ttft[i], i))[:10]
        table = self.page.tables["slowest"]
        self.assertEqual(table["request"], [str(i) for i in order])
        self.assertEqual(table["ttft_ns"], ttft[order].tolist())

    def test_the_curve_is_that_of_trace_stats(self):
        table = self.page.tables["capacity"]
        pages = table["pages"]
        said = self.stats(pages)
        lru = said["lru"]
        self.assertEqual(lru["capacity"], pages)
        self.assertEqual(table["hit_pages"], lru["hit"])
        self.assertEqual(table["hit_tokens"], lru["hit_tokens"])
        self.near(table["hit_share"], [share(n, lru["of_tokens"])
                                       for n in lru["hit_tokens"]])
        self.assertEqual(table.marks, {"device": 4 * 249, "host": 4 * 600})
        for mark in table.marks.values():
            self.assertIn(mark, pages)
        self.assertEqual(pages, sorted(set(pages)))
        # the run hits no more than the ceiling
        hit = self.said["requests"]["hit_rate"]
        self.assertLessEqual(100 * hit, max(table["hit_share"]))

    def stats(self, pages):
        run = self.run_program("stats", pl.SLICE, "--block-tokens", 64,
                               "--page-size", 64, "--lru", "pages",
                               "--capacity", ",".join(map(str, pages)),
                               "--json", verb="trace")
        return run.json()

    def test_the_same_bytes(self):
        with open(self.page_path, "rb") as file:
            whole = file.read()
        again = self.run_program(self.file, "--trace", pl.SLICE,
                                 verb="report").stdout
        self.assertEqual(whole, again)

    def test_time_by_operation(self):
        """Of the file's counters, which are what `sim` prints."""
        path = self.path("parts.h5")
        run = self.run_program(
            "--trace", pl.SLICE, "--block-tokens", 64, "--cp", 4, "--chunk",
            512, "--max-new", 16, "--hardware", "H200", "--model", "GLM-5.2",
            "--kv-dtype", "fp8", "--ep", 32, "--snapshot", path, verb="sim")
        said = {}
        lines = run.stdout.decode().split("where time goes")[1].split("\n")
        for line in lines[2:lines.index("")]:
            words = re.split(r"  +", line.strip())
            said[words[0]] = (float(words[1]), float(words[3]))
        whole = said.pop("all")
        with h5py.File(path, "r") as file:
            counters = {k: int(v) for k, v in
                        file["counters/engine"].attrs.items()
                        if k.endswith("_ns")}
        self.assertGreater(len(counters), 15)
        table = self.report(path).tables["operations"]
        parts = {(step, part): (ns, of) for step, part, ns, of in
                 table.rows("step", "part", "total_ns", "share")}
        for i, step in enumerate(("prefill", "decode")):
            of = [ns for (s, _), (ns, _) in parts.items() if s == step]
            self.assertAlmostEqual(sum(of) / 1e9, whole[i], delta=5.1e-4)
            self.assertEqual(sorted(of), sorted(
                v for k, v in counters.items() if k.startswith(step) and v))
            for part, seconds in said.items():
                ns, percent = parts.get((step, part), (0, 0))
                self.assertAlmostEqual(ns / 1e9, seconds[i], delta=5.1e-4)
                self.assertAlmostEqual(percent, share(ns, sum(of)), 5)
        self.assertGreater(parts["prefill", "experts"][0], 0)

    def test_a_file_without_time_by_operation(self):
        path = self.path("old.h5")
        shutil.copyfile(self.file, path)
        with h5py.File(path, "r+") as file:
            attributes = file["counters/engine"].attrs
            for name in [k for k in attributes if k.endswith("_ns")]:
                del attributes[name]
        self.assertNotIn("operations", self.report(path).tables)

    def test_tables_in_the_html(self):
        """Without scripts all of a short table can be read."""
        cells = [text.replace("\u202f", "") for tag, _, text in self.page.seen
                 if tag == "td"]
        for value in self.page.tables["tokens"]["tokens"]:
            self.assertIn(str(value), cells)
        for ns in self.page.tables["phases"]["total_ns"]:
            self.assertIn(f"{ns / 1e6:.2f}", cells)


class Advice(Case):
    """Warnings come when, and only when, there is a reason."""

    def test_of_the_usual_run(self):
        advice = self.page.advice()
        with h5py.File(self.file, "r") as file:
            kinds = [k.decode() for k in file["events/kinds"][:]]
            deficits = file["events/kind"][:] == kinds.index("deficit")
            lanes = file["events/value"][:][deficits]
            shared = file["requests/shared_pages"][:]
            evicted = int(file["requests/miss_evicted"][:].sum())
        one = int((lanes == 1).sum())
        self.assertIn(f"In {one} of {len(lanes)} lane deficits",
                      advice["Allocation is bound by one lane."])
        self.assertGreater(2 * one, len(lanes))
        self.assertTrue((shared[1:] >= 1).all())
        self.assertIn("Each of the 200 prompts",
                      advice["All requests share one first page."])
        self.assertIn(f"{evicted} of 5303 prompt pages",
                      advice["Pages were evicted and then needed."])
        self.assertNotIn("The host tier is smaller than the device.", advice)
        self.assertNotIn("Lanes are uneven.", advice)

    def test_small_host_no_host_no_events(self):
        small = self.report(self.run_to("b.h5", *RUN, "--host-pages", 100,
                                        "--device-pages", 250)).advice()
        text = small["The host tier is smaller than the device."]
        self.assertIn("100 pages a lane against 249", text)
        none = self.report(self.run_to("c.h5", *RUN, "--host-pages", 0,
                                       "--device-pages", 250, "--events",
                                       "off")).advice()
        self.assertIn("There is no host tier.", none)
        self.assertIn("The file has no events.", none)
        self.assertNotIn("Allocation is bound by one lane.", none)
        ring = self.report(self.run_to("d.h5", *RUN, "--device-pages", 250,
                                       "--events", "ring:1000")).advice()
        self.assertIn("The file lacks its first events.", ring)

    def test_room_without_limit(self):
        page = self.report(self.run_to(
            "e.h5", "--trace", pl.SLICE, "--block-tokens", 64, "--cp", 4,
            "--device-pages", "unlimited", "--max-new", 4, verb="sim"))
        self.assertNotIn("Pages were evicted and then needed.", page.advice())
        shares = page.tables["memory"]["device_share"]
        self.assertGreater(max(shares), 90)
        self.assertLessEqual(max(shares), 100)

    def test_a_run_that_is_under_way(self):
        self.run_to("f.h5", *RUN, "--device-pages", 250, "--snapshot-every",
                    "100req")
        files = sorted(f for f in os.listdir(self.folder.name)
                       if f.startswith("f.") and f != "f.h5")
        self.assertTrue(files)
        page = self.report(self.path(files[0]))
        self.assertIn("The run had not ended.", page.advice())

    def test_nothing_has_completed(self):
        def edit(requests):
            for name in GOOD[1:]:
                requests[name][...] = -1
        path = self.edited("g.h5", edit, *GOOD[1:])
        page = self.report(path)
        self.assertEqual(page.texts("h1", "headline"),
                         ["No request has completed"])
        self.assertEqual(page.tables["ttft"]["requests"], [])


class Files(Case):
    def test_hostile_texts_stay_texts(self):
        path = self.path("`x<b>.h5")
        evil = "</script><script>alert(1)</script>\"'&`"
        shutil.copyfile(self.file, path)
        with h5py.File(path, "r+") as file:
            file["config"].attrs["evict"] = np.bytes_(evil)
        page = self.report(path)
        self.assertIn(evil, page.tables["config"]["value"])
        self.assertEqual(len([1 for tag, _ in page.elements
                              if tag == "script"]), 3)
        self.assertIn("pagelane report of `x<b>.h5", page.texts("p", "name"))

    def test_nothing_outside_is_named(self):
        """No address but in the words of licences; no source, no form."""
        for tag, attributes in self.page.elements:
            self.assertNotIn(tag, ("img", "iframe", "form", "object", "base"))
            for name in ("src", "href", "action", "style"):
                self.assertNotRegex(attributes.get(name, ""), r"//|url\(")
        policy = [a["content"] for t, a in self.page.elements if t == "meta"
                  and a.get("http-equiv") == "Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy[0])

    def test_what_is_vendored_is_unchanged(self):
        with open(os.path.join(ASSETS, "README.md"), encoding="utf-8") as file:
            sums = re.findall(r"^ +([0-9a-f]{64})  (\S+)$", file.read(), re.M)
        self.assertEqual(len(sums), 2)
        for wanted, name in sums:
            with open(os.path.join(ASSETS, name), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(),
                                 wanted)
        with open(os.path.join(ASSETS, "LICENSE-uPlot"),
                  encoding="utf-8") as file, \
                open(self.page_path, encoding="utf-8") as page:
            self.assertIn(file.read(), page.read())

    def test_usage(self):
        trace = self.path("trace.jsonl")
        shutil.copyfile(pl.SLICE, trace)
        for args, says in (
                (("-o", self.file), "it is read too; name another file"),
                (("--trace", trace, "-o", trace), "it is read too"),
                (("-o", self.folder.name), "it is no regular file"),
                (("--perfetto", self.file), "--perfetto .* it is read too"),
                (("-o", self.path("x"), "--perfetto", self.path("x")),
                 "--output has the same name")):
            self.assertRegex(self.report(self.file, *args, status=2), says)
        other = os.path.join(pl.ROOT, "datasets",
                             "mooncake_toolagent_slice.jsonl")
        self.assertRegex(self.report(self.file, "--trace", other, status=3),
                         r"its prompts are not those of .*a\.h5; name the "
                         "trace of that run")
        self.assertRegex(self.report(pl.SLICE, status=3), "HDF5|snapshot")
        self.assertFalse(os.path.exists(self.path("x")))


class Hostile(Case):
    """A file of which anything may be wrong is reported or refused."""

    def test_columns_of_anything(self):
        seed = self.options.seed or random.randrange(1 << 30)
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        names = []

        def note(name, item):
            if isinstance(item, h5py.Dataset) and item.size and \
                    item.dtype.kind in "iu" and \
                    name.split("/")[0] in ("requests", "lanes", "events"):
                names.append(name)
        with h5py.File(self.file, "r") as file:
            file.visititems(note)
        path, out = self.path("hostile.h5"), self.path("hostile")
        ended = []
        for _ in range(self.options.files):
            shutil.copyfile(self.file, path)
            with h5py.File(path, "r+") as file:
                for name in rng.sample(names, 2):
                    self.spoil(file[name], rng)
            run = pl.Run(self.program, path, "-o", out + ".html",
                         "--perfetto", out + ".json", verb="report")
            ended.append(run.status)
            self.assertIn(run.status, (0, 3), run)
            self.assertNotIn("runtime error", run.stderr)
            if run.status == 3:
                self.assertEqual(run.stderr.count("\n"), 1, run)
                continue
            with open(out + ".json", encoding="ascii") as file:
                json.load(file)
            with open(out + ".html", encoding="utf-8") as file:
                Page(file.read())
        self.assertIn(0, ended)
        self.assertIn(3, ended)

    @staticmethod
    def spoil(column, rng):
        values = column[...]
        flat, info = values.reshape(-1), np.iinfo(values.dtype)
        for _ in range(5):
            flat[rng.randrange(len(flat))] = rng.choice([
                info.max, info.min, 0, 1, info.max // 4,
                rng.randrange(int(info.max))])
        column[...] = values
        if "xxh3_64" in column.attrs:
            del column.attrs["xxh3_64"]


class Perfetto(Case):
    """The trace is one that the format's readers take, and adds up."""

    def load(self, path):
        trace = self.path("trace.json")
        run = self.run_program(path, "--perfetto", trace, verb="report")
        self.assertEqual(run.stdout, b"")
        with open(trace, encoding="ascii") as file:
            return json.load(file)["traceEvents"]

    def check_schema(self, events):
        """Slices of one thread lie within each other or apart."""
        threads = {}
        for e in events:
            self.assertIn(e["ph"], "XiCM")
            self.assertIsInstance(e["pid"], int)
            self.assertIsInstance(e["tid"], int)
            if e["ph"] != "M":
                self.assertGreaterEqual(e["ts"], 0)
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
                threads.setdefault((e["pid"], e["tid"]), []).append(
                    (round(e["ts"] * 1000), -round(e["dur"] * 1000)))
            if e["ph"] == "C":
                self.assertTrue(all(isinstance(v, int)
                                    for v in e["args"].values()))
        for slices in threads.values():
            ends = []
            for start, minus in sorted(slices):
                while ends and ends[-1] <= start:
                    ends.pop()
                if ends:
                    self.assertLessEqual(start - minus, ends[-1])
                ends.append(start - minus)
        named = {(e["pid"], e["tid"]) for e in events
                 if e["name"] == "thread_name"}
        self.assertEqual(set(threads) - named, set())

    def test_requests(self):
        events, r = self.load(self.file), columns_of(self.file)
        self.check_schema(events)
        whole = {e["args"]["request"]: e for e in events
                 if e.get("cat") == "request"}
        self.assertEqual(sorted(whole), list(range(200)))
        for i, e in whole.items():
            self.assertEqual(round(e["ts"] * 1000), r["arrival_ns"][i])
            self.assertEqual(round((e["ts"] + e["dur"]) * 1000),
                             r["finished_ns"][i])
            for name in ("prompt_tokens", "device_hit_tokens",
                         "host_hit_tokens", "generated_tokens", "home"):
                self.assertEqual(e["args"][name], r[name][i])
        for name, a, b in zip(("queueing", "prefill", "transfer", "decode"),
                              GOOD, GOOD[1:]):
            said = sum(round(e["dur"] * 1000) for e in events
                       if e.get("cat") == "phase" and e["name"] == name)
            self.assertEqual(said, int((r[b] - r[a]).sum()))
        chunks = [e for e in events if e["name"] == "chunk"]
        tokens = sum(e["args"]["tokens"] for e in chunks)
        s = pl.Snapshot(self.file)
        self.assertEqual((len(chunks), tokens), (
            s.engine["chunks"], s.engine["prefill_tokens"]))

    def test_operations_and_lanes(self):
        events, s = self.load(self.file), pl.Snapshot(self.file)
        for name, n, pages in (
                ("send", s.engine["sends"], s.engine["send_pages"]),
                ("load", s.cache["loads"], s.cache["load_pages"]),
                ("backup", s.cache["backups"], s.cache["backup_pages"])):
            of = [e for e in events if e["ph"] == "X" and e["pid"] == 2
                  and e["name"] == name]
            self.assertGreater(pages, 0)
            self.assertEqual(sum(e["args"]["pages"] for e in of), pages)
            self.assertEqual(len(of), n)
            self.assertEqual(sum(e["args"]["bytes"] for e in of),
                             s.data[f"{name}_bytes_moved"])
        with h5py.File(self.file, "r") as file:
            free = file["lanes/device_free"][:]
            time = file["lanes/time_ns"][:]
            waiting = file["lanes/waiting"][:]
        device = [e for e in events if e["name"] == "device pages"]
        self.assertEqual(len(device), len(time))
        for i, e in enumerate(device):
            self.assertEqual(round(e["ts"] * 1000), time[i])
            self.assertEqual(list(e["args"].values()),
                             (249 - free[i]).tolist())
        self.assertEqual([e["args"]["waiting"] for e in events
                          if e["name"] == "requests"], waiting.tolist())

    def test_files_without_all_events(self):
        for name, more in (("off.h5", "off"), ("ring.h5", "ring:500")):
            events = self.load(self.run_to(
                name, *RUN, "--device-pages", 250, "--events", more))
            self.check_schema(events)
            self.assertEqual(len([e for e in events
                                  if e.get("cat") == "request"]), 200)
            self.assertEqual(any(e["pid"] == 2 for e in events),
                             more != "off")

    def test_both_at_once(self):
        out, trace = self.path("both.html"), self.path("both.json")
        run = self.run_program(self.file, "-o", out, "--perfetto", trace,
                               verb="report")
        self.assertEqual(run.stdout, b"")
        self.assertTrue(os.path.exists(out) and os.path.exists(trace))


COLOUR = "getComputedStyle(document.body).backgroundColor"


class Browser(InChromium, Case):
    def check_quiet(self, page):
        self.assertEqual(page.problems, [])
        self.assertEqual(page.requests, ["file://" + self.page_path])

    def test_charts_are_drawn_and_nothing_is_asked_for(self):
        page = self.browser.open(self.page_path)
        page.scheme("light")
        drawn = page.value(DRAWN)
        # hits, memory, queues, three strips of lanes, two histograms, curve
        self.assertEqual(len(drawn), 9)
        for n in drawn:
            self.assertGreater(n, 1500)
        light = page.value(COLOUR)
        page.scheme("dark")
        self.assertNotEqual(page.value(COLOUR), light)
        for n in page.value(DRAWN):
            self.assertGreater(n, 1500)
        self.assertEqual(page.value(
            "document.querySelectorAll('details[open]').length"), 0)
        self.check_quiet(page)

    def test_narrow_and_wide(self):
        for width in (380, 1600):
            page = self.browser.open(self.page_path, width=width)
            self.assertLessEqual(page.value(
                "document.documentElement.scrollWidth"), width)
            self.check_quiet(page)

    def test_csv_is_the_table(self):
        page = self.browser.open(self.page_path)
        for name in ("lanes", "misses", "ttft", "config"):
            text = page.value(CSV.replace("NAME", name))
            self.assertEqual(text.count("\n"), text.count("\r\n"))
            rows = list(csv.reader(io.StringIO(text, newline="")))
            table = self.page.tables[name].columns
            self.assertEqual(rows[0], list(table))
            self.assertEqual(len(rows) - 1, len(next(iter(table.values()))))
            for i, column in enumerate(table.values()):
                for row, value in zip(rows[1:], column):
                    self.assertEqual(row[i] if isinstance(value, str)
                                     else float(row[i]), value)
        self.assertEqual(page.problems, [])

    def test_a_lane_is_named_under_the_pointer(self):
        page = self.browser.open(self.page_path)
        x, y = page.value("""(() => { const r = document.querySelector(
          "#lanes .u-over").getBoundingClientRect();
          scrollTo(0, r.top - 100); const s = document.querySelector(
          "#lanes .u-over").getBoundingClientRect();
          return [s.left + s.width / 2, s.top + s.height * .9]; })()""")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        page.value("new Promise((r) => setTimeout(r, 200))")
        self.assertRegex(page.value(
            "document.querySelector('#lanes .point').textContent"),
            r"device lane 3 holds \d+ of 249 pages")

    def test_without_scripts_it_has_its_tables(self):
        page = self.browser.open(self.page_path, scripts=False)
        root = page.call("DOM.getDocument")["root"]["nodeId"]
        for selector, n in (("details[open]", 8), ("canvas", 0)):
            found = page.call("DOM.querySelectorAll", nodeId=root,
                              selector=selector)["nodeIds"]
            self.assertEqual(len(found), n, selector)

    def test_it_prints(self):
        page = self.browser.open(self.page_path)
        page.scheme("dark")
        self.assertGreater(len(page.call(
            "Page.printToPDF", printBackground=True)["data"]), 20000)
        self.assertEqual(page.problems, [])


if __name__ == "__main__":
    def add_arguments(parser):
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--files", type=int, default=40)
    pl.main(__doc__, add_arguments)
