#!/usr/bin/python3
"""inspect page, why and diff, compare and export say what the file says.

Two runs of the slice; everything is computed anew here from the HDF5 files, and
the keys of pages from the trace.
"""
import bisect
import collections
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

P = 64
RUN = ["--trace", pl.SLICE, "--block-tokens", "64", "--page-size", str(P),
       "--comm", "local", "--ranks", "4", "--chunk", "512",
       "--host-pages", "600", "--max-new", "16"]

Event = collections.namedtuple(
    "Event", "kind tick time_ns request node op value value2 pages other")


def ragged(group, name):
    items, at = group[name][:].tolist(), group[name + "_offset"][:].tolist()
    return [items[a:b] for a, b in zip(at, at[1:])]


class File:
    """A snapshot, and the keys of its prompts' pages."""

    def __init__(self, path):
        with h5py.File(path, "r") as file:
            group = file["events"]
            kinds = [t.decode() for t in group["kinds"][:]]
            columns = [group[n][:].tolist() for n in Event._fields[1:8]]
            self.events = [Event(kinds[k], *rest) for k, *rest in zip(
                group["kind"][:].tolist(), *columns, ragged(group, "pages"),
                ragged(group, "other"))]
            self.requests = {k: v[:] for k, v in file["requests"].items()}
            self.lanes = int(file["layout"].attrs["n_lanes"])
        with open(pl.SLICE, encoding="ascii") as trace:
            ids = [json.loads(line)["hash_ids"] for line in trace]
        self.prompts = self.requests["prompt_tokens"].tolist()
        # one block is one page: its id names all before it too
        self.keys = [[("id", k) for k in row[:n // P]]
                     for row, n in zip(ids, self.prompts)]

    def pages(self, r):
        return -(-self.prompts[r] // P)


def admission(file, r):
    return next(i for i, e in enumerate(file.events)
                if e.kind == "admit" and e.request == r)


class Fates:
    """When each prefix left the device and the host, up to an event."""

    def __init__(self, file, until):
        nodes, self.device, self.host = {}, {}, {}
        self.copies = {}
        for i, e in enumerate(file.events[:until]):
            if e.kind == "node":
                keys = file.keys[e.request][e.value2:e.value2 + len(e.pages)]
                nodes[e.node] = keys
            elif e.kind == "split":
                nodes[e.value] = nodes[e.node][:e.value2]
                nodes[e.node] = nodes[e.node][e.value2:]
            elif e.kind == "evict":
                self.device.update((k, i) for k in nodes[e.node])
            elif e.kind == "host_drop":
                self.host.update((k, i) for k in nodes[e.node])
            elif e.kind == "backup":
                for key, page in zip(nodes[e.node], e.other):
                    self.copies[key] = page % file.lanes
                    self.host.pop(key, None)


class Use:
    """One admission: from then to its last `sent`, its pages are in use."""

    def __init__(self, request, begin):
        self.request, self.begin, self.end = request, begin, None
        self.touched = {}  # page of the prompt: (event, lane)


def uses_of(file):
    uses, open_uses = [], {}
    for i, e in enumerate(file.events):
        if e.kind == "admit":
            open_uses[e.request] = Use(e.request, i)
            uses.append(open_uses[e.request])
            uses[-1].hit = (e.value + e.value2) // P
        elif e.kind == "chunk":
            for p, g in enumerate(e.pages, e.value // P):
                open_uses[e.request].touched[p] = i, g % file.lanes
        elif e.kind == "send":
            for p, g in enumerate(e.pages, e.value2):
                use = open_uses[e.request]
                if p < use.hit:
                    use.touched[p] = use.begin, g % file.lanes
        elif e.kind == "sent":
            open_uses[e.request].end = i
    return uses


def demand(file, uses, use, key, p, until, host_copies=None):
    """Pages that a lane must hold to keep page p of a use that has ended until
    an event: looked at after each event in between."""
    mine = use.touched[p][1] if host_copies is None else host_copies[key]
    first_lane = {}
    for q in range(p):  # those before it in its prompt go later than it
        lane = use.touched[q][1]
        if host_copies is not None:
            lane = host_copies.get(file.keys[use.request][q])
        first_lane[file.keys[use.request][q]] = use.end, lane
    partial = []
    for other in uses:
        if other is use or other.begin >= until or other.end < use.end:
            continue
        keys = file.keys[other.request]
        for q, (event, lane) in other.touched.items():
            if event >= until:
                continue
            event = max(event, use.end)
            if q >= len(keys):
                partial.append((event, other.end, lane))
                continue
            if host_copies is not None and keys[q] not in host_copies:
                continue
            if keys[q] not in first_lane or first_lane[keys[q]][0] > event:
                first_lane[keys[q]] = event, lane
    times = sorted(event for event, lane in first_lane.values()
                   if lane == mine)
    ends = [(a, b) for a, b, lane in partial
            if lane == mine and host_copies is None]
    moments = {use.end, until - 1, *times, *(a for a, _ in ends)}
    most = max(bisect.bisect_right(times, t) +
               sum(a <= t <= b for a, b in ends) for t in moments)
    return 1 + most


class Inspect(pl.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.names = [os.path.join(cls.folder, n) for n in ("a.h5", "b.h5")]
        for name, pages in zip(cls.names, ("250", "300")):
            run = pl.Run(cls.program, *RUN, "--device-pages", pages,
                         "--snapshot", name)
            assert run.status == 0, str(run)
        cls.files = [File(name) for name in cls.names]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def ask(self, *args, status=0, verb="inspect"):
        run = pl.Run(self.program, *args, verb=verb)
        self.assertEqual(run.status, status, str(run))
        return run

    def json(self, *args, **more):
        return self.ask(*args, "--json", **more).json()

    # ---- page ----

    def check_page(self, g, tier):
        file = self.files[0]
        told = self.json(self.names[0], "page", g, "--tier", tier)
        takes = "alloc" if tier == "device" else "backup"
        column = "pages" if tier == "device" else "other"
        frees = "free" if tier == "device" else "host_free"
        listed = {"device": ("alloc", "free", "chunk", "node", "adopt",
                             "backup", "load", "send"),
                  "host": ("backup", "load")}[tier]
        want, life = [], 0
        for i, e in enumerate(file.events):
            pages = e.pages if e.kind == "host_free" else getattr(e, column)
            if e.kind not in listed + (frees,) or g not in pages:
                continue
            life += e.kind == takes
            want.append((life, i, e.kind))
        got = [(m["life"], m["event"], m["kind"]) for m in told["moments"]
               if m["kind"] in listed + (frees,)]
        self.assertEqual(got, want, f"{tier} page {g}")
        self.assertEqual(told["lives"], life)
        # it is evicted or dropped before it is freed, if a node had it
        loses = "evict" if tier == "device" else "host_drop"
        for n in range(1, life + 1):
            kinds = [m["kind"] for m in told["moments"] if m["life"] == n]
            held = {"node", "adopt", "load_node", "backup"} & set(kinds)
            if kinds[-1] == frees and held:
                self.assertIn(loses, kinds, f"{tier} page {g}, life {n}")
        for m in told["moments"]:
            e = file.events[m["event"]]
            self.assertEqual((m["tick"], m["time_ns"], m["request"]),
                             (e.tick, e.time_ns, e.request))
            if m["kind"] == "chunk":
                self.assertEqual(m["prompt_page"],
                                 e.value // P + e.pages.index(g))
        return life

    def test_page(self):
        lives = [self.check_page(g, tier) for tier, pages in
                 (("device", (4, 17, 300, 998, 999)), ("host", (0, 17, 2399)))
                 for g in pages]
        self.assertGreater(max(lives), 3)
        scratch = self.ask(self.names[0], "page", 2)
        self.assertIn("scratch", scratch.stdout.decode())
        self.ask(self.names[0], "page", 1000, status=2)
        self.ask(self.names[0], "page", "x", status=2)

    # ---- why ----

    def check_why(self, r, uses):
        file, told = self.files[0], self.json(self.names[0], "why", r)
        until = admission(file, r)
        fates, hit = Fates(file, until), 0
        for name in ("device_hit_tokens", "host_hit_tokens"):
            self.assertEqual(told[name], file.requests[name][r])
            hit += int(told[name]) // P
        pages = [hit, *(m["pages"] for m in told["missed"])]
        self.assertEqual([m["first_page"] for m in told["missed"]],
                         np.cumsum(pages)[:-1].tolist())
        self.assertEqual(sum(pages), file.pages(r))
        for cause in ("new", "evicted", "lane", "threshold", "failed",
                      "last_page"):
            self.assertEqual(sum(m["pages"] for m in told["missed"]
                                 if m["cause"] == cause),
                             file.requests["miss_" + cause][r], cause)
        seen = set().union(*(file.keys[q] for q in range(r)))
        for m in told["missed"]:
            span = range(m["first_page"], m["first_page"] + m["pages"])
            if m["cause"] == "new":
                self.assertFalse(seen & {file.keys[r][p] for p in span})
            if m["cause"] == "evicted":
                self.check_evicted(r, m, span, fates, uses, until)
        return told

    def check_evicted(self, r, m, span, fates, uses, until):
        file, device, host = self.files[0], [], []
        for p in span:
            key = file.keys[r][p]
            left = file.events[fates.device[key]]
            self.assertEqual((m["left_device_tick"], m["left_device_for"]),
                             (left.tick, left.request))
            left = file.events[fates.host[key]]
            self.assertEqual((m["left_host_tick"], m["left_host_for"]),
                             (left.tick, left.request))
            before = [u for u in uses if u.end is not None and u.end < until
                      and key in file.keys[u.request]]
            use = max(before, key=lambda u: u.end)
            self.assertEqual(m["last_used_by"], use.request)
            device.append(demand(file, uses, use, key, p, until))
            host.append(demand(file, uses, use, key, p, until, fates.copies))
        self.assertEqual(m["device_pages_enough"], max(device) + 1)  # scratch
        self.assertEqual(m["host_pages_enough"], max(host))

    def evicted(self):
        return np.nonzero(self.files[0].requests["miss_evicted"])[0].tolist()

    def test_why(self):
        uses = uses_of(self.files[0])
        self.assertGreater(len(self.evicted()), 5)
        for r in (0, 100, *self.evicted()):
            self.check_why(r, uses)
        self.ask(self.names[0], "why", 200, status=2)

    def test_that_size_hits(self):
        """Not a law, but true here: with so many pages they are there."""
        for r in self.evicted()[:3]:
            told = self.json(self.names[0], "why", r)
            size, name = told["device_pages_enough"], self.folder + "/size.h5"
            for pages, missed in ((size, False), (size // 2, True)):
                run = pl.Run(self.program, *RUN, "--device-pages", pages,
                             "--executor", "cost", "--snapshot", name)
                self.assertEqual(run.status, 0, str(run))
                lost = pl.Snapshot(name).requests["miss_evicted"][r]
                self.assertEqual(lost > 0, missed, f"request {r}, {pages}")

    def test_failed_load(self):
        """What a load-back should have brought has that cause, and no other."""
        name = self.folder + "/failed.h5"
        run = pl.Run(self.program, *RUN, "--device-pages", "250",
                     "--executor", "cost", "--inject", "load.fail",
                     "--snapshot", name)
        self.assertEqual(run.status, 0, str(run))
        file = File(name)
        load = next(e for e in file.events if e.kind == "load")
        told = self.json(name, "why", load.request)
        failed = [m for m in told["missed"] if m["cause"] == "failed"]
        self.assertEqual(failed, [failed[0]])
        self.assertEqual((failed[0]["first_page"], failed[0]["pages"]),
                         (load.value, len(load.pages)))
        for cause in ("new", "evicted", "lane", "threshold", "failed",
                      "last_page"):
            self.assertEqual(sum(m["pages"] for m in told["missed"]
                                 if m["cause"] == cause),
                             file.requests["miss_" + cause][load.request])

    # ---- diff ----

    def test_diff(self):
        a, b = self.names
        self.assertTrue(self.json(a, "diff", a)["equal"])
        told = self.json(a, "diff", b, status=1)
        self.assertEqual((told["part"], told["first"]),
                         ("config", "/config/device_pages: '250' in A, '300' "
                          "in B"))
        parts = {p["part"]: p for p in told["parts"]}
        x, y = self.files
        row = next(i for i, (e, f) in enumerate(zip(x.events, y.events))
                   if e != f)
        e = x.events[row]
        self.assertIn(f"event {row}, tick {e.tick}, {e.kind}: pages: ",
                      parts["events"]["first"])
        different = np.zeros(len(x.prompts), bool)
        for name in x.requests:
            if len(x.requests[name]) == len(different):
                different |= x.requests[name] != y.requests[name]
        self.assertEqual(parts["requests"]["different"], different.sum())
        self.assertIn(f"request {different.argmax()}: ",
                      parts["requests"]["first"])

    def test_diff_finds_one_number(self):
        """In each part, a number that was changed; the earliest part first."""
        places = [("lanes/running", "lanes"), ("counters/engine", "counters"),
                  ("hicache/nodes/hits", "nodes"), ("events/value", "events"),
                  ("requests/home", "requests"), ("layout", "layout")]
        b = self.folder + "/changed.h5"
        shutil.copy(self.names[0], b)
        for place, part in places:
            with h5py.File(b, "r+") as file:
                if isinstance(file[place], h5py.Group):
                    name = sorted(file[place].attrs)[0]
                    file[place].attrs[name] += 1
                else:
                    file[place][5] += 1
                    del file[place].attrs["xxh3_64"]
            told = self.json(self.names[0], "diff", b, status=1)
            self.assertEqual(told["part"], part)
            self.assertEqual({p["part"]: p["different"]
                              for p in told["parts"]}[part], 1)
        with h5py.File(b, "r+") as file:
            file["timing"].attrs["run_ns"] = 1
        self.assertEqual(self.json(self.names[0], "diff", b,
                                   status=1)["part"], "layout")

    # ---- compare ----

    def test_compare(self):
        a, b = self.names
        told = self.json(a, b, verb="compare")
        self.assertEqual(told["options"], [
            {"option": "device_pages", "a": "250", "b": "300"}])
        stats = {}
        for which, file in zip("ab", self.files):
            r = {k: v.astype(np.int64) for k, v in file.requests.items()
                 if k not in ("digest", "tokens", "tokens_offset")}
            many = r["generated_tokens"] >= 2
            values = {
                "ttft": r["first_token_ns"] - r["arrival_ns"],
                "e2e": r["finished_ns"] - r["arrival_ns"],
                "queueing": r["admitted_ns"] - r["arrival_ns"],
                "tpot": (r["finished_ns"] - r["first_token_ns"])[many] //
                        (r["generated_tokens"][many] - 1),
                "device_hit": r["device_hit_tokens"],
                "host_hit": r["host_hit_tokens"],
                "computed": r["prompt_tokens"] - r["device_hit_tokens"] -
                            r["host_hit_tokens"]}
            stats[which] = values
        for metric, values in stats["a"].items():
            times = metric in ("ttft", "e2e", "queueing", "tpot")
            scale = 1 if times else 1e6  # spread() tells ms
            other = stats["b"][metric]
            want = {"a": values, "b": other, "by_request": other - values}
            for side, numbers in want.items():
                spread = pl.spread(numbers)
                for stat, name in (("mean", "mean"), ("p50", "median"),
                                   ("p90", "p90"), ("p99", "p99")):
                    self.assertAlmostEqual(
                        told["metrics"][metric][side][stat],
                        spread[name] * scale, 5, f"{metric} {side} {stat}")
            m = told["metrics"][metric]
            for stat in m["difference"]:
                self.assertAlmostEqual(m["difference"][stat],
                                       m["b"][stat] - m["a"][stat], 5)

    def test_compare_fails(self):
        a, b = self.names
        m = self.json(a, b, verb="compare")["metrics"]["device_hit"]
        change = m["difference"]["mean"]
        self.assertGreater(change, 0)
        for condition, status in (
                (f"device_hit.mean>+{change - .01:.3f}tokens", 1),
                (f"device_hit.mean>+{change + .01:.3f}tokens", 0),
                (f"device_hit.mean<+{change + .01:.3f}tokens", 1),
                (f"device_hit.mean>+{m['percent']['mean'] - .01:.3f}%", 1),
                (f"device_hit.mean>+{m['percent']['mean'] + .01:.3f}%", 0),
                ("ttft.p99>+5%", 0), ("ttft.p99<-5%", 0)):
            self.ask(a, b, "--fail-if", condition, verb="compare",
                     status=status)
        self.ask(a, b, "--fail-if", "ttft.p99>+5%", "--fail-if",
                 "device_hit.mean>+0%", verb="compare", status=1)
        other = self.folder + "/other.h5"
        pl.Run(self.program, *RUN, "--limit", "20", "--device-pages", "250",
               "--snapshot", other)
        self.ask(a, other, verb="compare", status=3)

    def test_compare_of_nothing(self):
        """A condition that no pair of requests can speak for fails."""
        done = self.folder + "/done.h5"
        shutil.copy(self.names[0], self.folder + "/again.h5")
        run = pl.Run(self.program, *RUN, "--device-pages", "250", "--from",
                     self.folder + "/again.h5", "--resume", "--snapshot", done)
        self.assertEqual(run.status, 0, str(run))
        for condition in ("ttft.p99>+5%", "computed.mean<-64tokens"):
            said = self.ask(self.names[0], done, "--fail-if", condition,
                            verb="compare", status=1).stdout.decode()
            self.assertIn("0 of 200 requests completed in both", said)
            self.assertIn("nothing to compare: FAILS", said)
            told = json.loads(self.ask(
                self.names[0], done, "--fail-if", condition, "--json",
                verb="compare", status=1).stdout)
            self.assertEqual(told["fail_if"], [
                {"fail_if": condition, "pairs": 0, "fails": True}])
        self.ask(self.names[0], done, verb="compare")

    # ---- export ----

    def rows(self, table, *args):
        text = self.ask(self.names[0], table, *args, verb="export").stdout
        self.assertTrue(text.endswith(b"\r\n"))
        return list(csv.DictReader(text.decode().splitlines()))

    def test_export(self):
        file = self.files[0]
        requests = self.rows("requests")
        self.assertEqual(len(requests), len(file.prompts))
        for name, column in file.requests.items():
            if len(column) == len(requests) and name != "digest":
                self.assertEqual([int(r[name]) for r in requests],
                                 column.tolist(), name)
        at = file.requests["tokens_offset"]
        self.assertEqual([int(t) for t in requests[3]["tokens"].split()],
                         file.requests["tokens"][at[3]:at[4]].tolist())
        events = self.rows("events", "--csv")
        self.assertEqual([e["kind"] for e in events],
                         [e.kind for e in file.events])
        self.assertEqual([e["pages"] for e in events],
                         [" ".join(map(str, e.pages)) for e in file.events])
        with h5py.File(self.names[0], "r") as snapshot:
            lanes, nodes = self.rows("lanes"), self.rows("nodes")
            free = snapshot["lanes/device_free"][:]
            for lane in range(file.lanes):
                self.assertEqual([int(r[f"device_free_{lane}"])
                                  for r in lanes], free[:, lane].tolist())
            self.assertEqual([int(n["id"]) for n in nodes],
                             snapshot["hicache/nodes/id"][:].tolist())

    def test_export_json_and_file(self):
        out = self.folder + "/out.json"
        for table in ("requests", "nodes", "events", "lanes", "config",
                      "layout", "counters"):
            said = self.ask(self.names[0], table, "--json", verb="export")
            self.ask(self.names[0], table, "--json", "-o", out, verb="export")
            with open(out, "rb") as file:
                self.assertEqual(file.read(), said.stdout)
            rows = json.loads(said.stdout)[table]
            self.assertEqual(len(rows), len(self.rows(table)))
        self.assertEqual(sorted(os.listdir(self.folder)),
                         sorted(set(os.listdir(self.folder)) - {
                             "out.json.partial"}))
        before = os.stat(self.names[0])
        self.ask(self.names[0], "nodes", "-o", self.names[0], verb="export",
                 status=2)
        self.ask(self.names[0], "nodes", "-o", "/dev/null", verb="export",
                 status=2)
        self.assertEqual(os.stat(self.names[0]), before)

    # ---- the document ----

    def check_example(self, line, want):
        """`...` stands for any lines."""
        run = pl.Run(self.program, *shlex.split(line)[2:],
                     verb=shlex.split(line)[1], cwd=self.folder)
        said = run.stdout.decode().replace("\r", "").rstrip("\n")
        pattern = "\n".join(re.escape(row) for row in want)
        pattern = re.sub(r"\n?\\\.\\\.\\\.\n?",
                         lambda _: r"(?:\n.*)*\n?", pattern)
        self.assertRegex(said, re.compile(rf"\A{pattern}\Z"), line)

    def test_document(self):
        path = os.path.join(pl.ROOT, "docs", "inspect.md")
        with open(path, encoding="ascii") as file:
            rows = file.read().split("\n")
        starts = [i for i, row in enumerate(rows)
                  if row.startswith("    $ pagelane ")]
        self.assertEqual(len(starts), 5)
        for at in starts:
            end = at + 1
            while end < len(rows) and re.match(r"    |$", rows[end]):
                end += 1
            want = [row[4:] for row in rows[at + 1:end]]
            while not want[-1]:
                want.pop()
            self.check_example(rows[at][len("    $ "):], want)

    # ---- all of it ----

    def test_same_bytes_again(self):
        a, b = self.names
        r = self.evicted()[0]
        for verb, args, status in (
                ("inspect", [a], 0), ("inspect", [a, "requests"], 0),
                ("inspect", [a, "page", "17"], 0),
                ("inspect", [a, "why", str(r)], 0),
                ("inspect", [a, "diff", b], 1), ("compare", [a, b], 0)):
            for more in ([], ["--json"]):
                once, again = (self.ask(*args, *more, verb=verb,
                                        status=status).stdout
                               for _ in range(2))
                self.assertEqual(once, again)

    def test_words_of_run_and_inspect(self):
        """The tables of requests are the same bytes in both."""
        run = pl.Run(self.program, *RUN, "--device-pages", "250")
        told = self.ask(self.names[0]).stdout.decode()
        said = run.stdout.decode()
        for title in ("prompt tokens", "missed because", "virtual time, ms"):
            table = re.search(rf"^{title} .*?\n\n", said, re.M | re.S).group()
            self.assertIn(table, told)

    def test_dropped_events(self):
        name = self.folder + "/ring.h5"
        run = pl.Run(self.program, *RUN, "--device-pages", "250", "--events",
                     "ring:500", "--snapshot", name)
        self.assertEqual(run.status, 0, str(run))
        all_events = self.files[0].events
        with h5py.File(name, "r") as file:
            about = dict(file["events"].attrs)
            values = file["events/value"][:].tolist()
        self.assertEqual(about["dropped"], len(all_events) - 500)
        self.assertEqual(about["first_tick"], all_events[-500].tick)
        self.assertEqual(values, [e.value for e in all_events[-500:]])
        for view in (["page", "17"], ["why", "199"]):
            refused = self.ask(name, *view, status=3)
            self.assertEqual(refused.stderr.count("\n"), 1)
            self.assertIn("--events all", refused.stderr)
        self.assertEqual(len(self.json(name, "events", verb="export")
                             ["events"]), 500)
        replay = subprocess.run(
            [sys.executable, os.path.join(pl.ROOT, "tests",
                                          "replay_events.py"), name],
            capture_output=True, text=True)
        self.assertEqual(replay.returncode, 3)
        self.assertIn("dropped", replay.stdout)


if __name__ == "__main__":
    pl.main(__doc__)
