#!/usr/bin/python3
"""Traces and configurations drawn from a seed: what a run of stamps did is what
the simulation of the same line planned, whoever carries it out.

Pools are tight, pages and chunks odd, ranks many or one, and requests wait for
each other. Whatever a configuration cannot do is told alike by both.
"""
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

FOLDER = os.path.join(pl.ROOT, "datasets")
FILES = [os.path.join(FOLDER, name) for name in (
    "mooncake_conversation_slice.jsonl", "mooncake_toolagent_slice.jsonl",
    "mooncake_sessions_sample.jsonl", "agentic_session.json")]
POLICIES = ("lru", "lfu", "slru", "fifo", "s3fifo", "sieve", "lane-aware",
            "belady")


# ---- traces ----

def draw_prompt(rng, stems, page):
    """Few tokens, whole pages of a stem, or any part of one and more."""
    stem, how = rng.choice(stems), rng.random()
    if how < 0.15:
        return [rng.randrange(200) for _ in range(rng.choice(
            (1, 2, page, page + 1, max(page - 1, 1))))]
    if how < 0.4:
        return stem[:page * rng.randint(1, len(stem) // page)]
    return stem[:rng.randint(0, len(stem))] + [
        rng.randrange(200) for _ in range(rng.randint(1, 6 * page + 1))]


def write_tokens(rng, path, page):
    stems = [[rng.randrange(200) for _ in range(
        page * rng.choice((1, 2, 3, 5, 13)) + rng.choice((0, 0, 1, page - 1)))]
             for _ in range(rng.choice((1, 2, 5)))]
    spaces = rng.choice((None, None, None, ("a", "b", 7)))
    kind, timed = rng.choice(("alone", "sessions", "waits")), rng.random() < 0.8
    at_ms, names, said = 0, [], {}
    with open(path, "w", encoding="ascii") as file:
        for i in range(rng.choice((1, 2, 3, 10, 30, 60, 120))):
            at_ms += rng.choice((0, 0, 1, rng.randrange(50),
                                 rng.randrange(1000)))
            row = {"prompt_token_ids": draw_prompt(rng, stems, page),
                   "output_length": rng.choice((1, 1, 2, page,
                                                rng.randint(1, 40)))}
            if kind == "sessions" and rng.random() < 0.7:
                session = rng.choice(("0", 0, 1, 2, 3))
                row["session_id"] = session
                row["prompt_token_ids"] = said[session] = (
                    said.get(session, []) + row["prompt_token_ids"])[:30 * page]
            if kind == "waits":
                row["request_id"] = f"q{i}"
                if names and rng.random() < 0.4:
                    row["wait_for"] = rng.sample(names, min(len(names), 2))
                names.append(f"q{i}")
            if kind != "alone" and rng.random() < 0.4:
                row["delay"] = rng.choice((0, 1, rng.randrange(500)))
            if timed:
                row["timestamp"] = at_ms
            if spaces:
                row["namespace"] = rng.choice(spaces)
            print(json.dumps(row), file=file)
    return ["--trace", path]


def make_trace(rng, program, path):
    words = ["-o", path, "--format", rng.choice((
        "mooncake", "bailian", "agentic", "tokens", "csv")), "--seed",
        rng.randrange(1000), "--shape", rng.choice((
            "64x1,128x4", "17x3", "32x1,32x2,32x4")), "--words", rng.choice(
                ("40:0.5", "120:1.5", "10:1")), "--answer",
        rng.choice(("10:0.5", "40:1")), "--arrivals", rng.choice((
            "poisson:5", "gamma:20:2", "none")), "--log-level", "error"]
    if rng.random() < 0.25:
        words += ["--churn", f"{rng.randint(5, 30)},{rng.randint(5, 40)}"]
    else:
        words += ["--sessions", rng.choice((1, 5, 30)), "--turns",
                  rng.choice((1.5, 3)), "--think", "200ms"]
    run = pl.Run(program, "make", *words, verb="trace")
    assert run.status == 0, run
    return ["--trace", path]


def draw_trace(rng, program, folder, page):
    kind, path = rng.random(), os.path.join(folder, "t.jsonl")
    if kind < 0.4:
        words = write_tokens(rng, path, page)
    elif kind < 0.7:
        words = make_trace(rng, program, path)
    else:
        words = ["--trace", rng.choice(FILES), "--limit",
                 rng.choice((5, 20, 60)), "--block-tokens", rng.choice((8, 16))]
    words += rng.choice(([], [], ["--pace", "none"], ["--speedup", 3],
                         ["--passes", 2]))
    return [*words, "--max-new", rng.choice((1, 2, 8, 16, 40))]


# ---- configurations ----

def draw_pools(rng, c, own, pages, all_pages):
    """Pools that hold the longest prompt, and little more."""
    lane = pages if own == "replicated" else -(-pages // c)
    device = lane + rng.choice((2, 3, lane, 4 * lane, rng.randint(2, 60)))
    return ["--device-pages", device, "--host-pages", rng.choice((
        0, rng.randint(1, 2 * lane), 2 * device, rng.randint(1, 10 * device))),
        "--decode-pages", all_pages + 2 + rng.choice((0, 1, all_pages,
                                                      10 * all_pages)),
        "--decode-host-pages", rng.choice((0, 1, 4 * all_pages))]


def draw_options(rng, page, longest, most_new):
    """(prefill ranks, decode ranks, options)"""
    c, d = rng.randint(1, 8), rng.choice((0, 0, 0, 1, 2, 3))
    own = rng.choice(("zigzag", "zigzag", "replicated", "round-robin",
                      f"interleave:{rng.randint(1, 5)}"))
    pages, all_pages = -(-longest // page), -(-(longest + most_new) // page)
    words = ["--page-size", page, "--chunk", page * rng.choice(
        (1, 2, 3, 5, 8, 17, 33)), "--ownership", own, "--decode-ranks", d,
        *draw_pools(rng, c, own, pages, all_pages), "--evict",
        rng.choice(POLICIES), "--write-policy", rng.choice((
            "write_through", "write_through_selective", "write_back")),
        "--stamp-layers", rng.randint(1, 3), "--stamp-row-bytes",
        rng.choice((8, 40, 64))]
    for more in (["--max-batch", rng.choice((1, 2, 8))],
                 ["--hot-threshold", rng.randint(1, 4)],
                 ["--load-threshold", rng.choice((0, 1, 3 * page, 10000))],
                 ["--explore", rng.choice((1, 2, 10))],
                 ["--seed", rng.randrange(1000)],
                 ["--inject", "split.during-write@count:3"]):
        words += more if rng.random() < 0.35 else []
    return c, d, words


class Drawn(pl.Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp(
            dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def longest(self, trace):
        known = ("--trace", "--limit", "--block-tokens")
        words = [word for i in range(0, len(trace), 2)
                 if trace[i] in known for word in trace[i:i + 2]]
        return self.run_program("stats", *words, "--json", "--log-level",
                                "error", verb="trace").json()[
                                    "input_tokens"]["max"]

    def differs(self, a, b, moved):
        """What `inspect diff` finds and must not; moved: bytes are those of
        other pages."""
        run = pl.Run(self.program, a, "diff", b, "--json", verb="inspect")
        self.assertIn(run.status, (0, 1), run)
        parts = {part["part"]: part.get("first") for part in
                 run.json()["parts"] if part["different"] > 0}
        self.assertIn("digest", parts.pop("requests", "digest"))
        if moved and "events" in parts:
            del parts["events"]
            with h5py.File(a, "r") as one, h5py.File(b, "r") as other:
                for name in one["events"]:
                    if name != "moved_bytes" and not np.array_equal(
                            one["events"][name][:], other["events"][name][:]):
                        parts["events"] = name
        return {k: v for k, v in parts.items()
                if k not in ("config", "counters", "other")}

    def play(self, rng):
        """One line in both ways; did it end well?"""
        page = rng.choice((1, 2, 3, 4, 5, 8, 16, 17, 32, 64))
        trace = draw_trace(rng, self.program, self.folder, page)
        c, d, options = draw_options(rng, page, self.longest(trace), trace[-1])
        line, files = [*trace, *options], [self.path("a"), self.path("b")]
        run = ["--ranks", c + d, "--comm", rng.choice(("local", "peer"))]
        sim, planned = ["--cp", c], rng.random() < 0.25
        if options[options.index("--host-pages") + 1] and rng.random() < 0.35:
            shutil.rmtree(self.path("disk"), ignore_errors=True)
            places = rng.choice(("unlimited", rng.randint(1, 200)))
            line += ["--storage-pages", places, "--prefetch-policy",
                     rng.choice(("best_effort", "wait_complete", "timeout")),
                     "--prefetch-threshold", rng.choice((0, page, 256))]
            run += ["--storage", self.path("disk")]
        if planned:
            line += ["--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype",
                     "fp8", "--ep", 32]
            run += ["--executor", "stamp"]
        if rng.random() < 0.1:
            run += ["--device", "guard"]
        ended = [pl.Run(self.program, *line, *more, "--log-level", "error",
                        "--snapshot", file, verb=verb) for verb, more, file in
                 zip(("run", "sim"), (run, sim), files)]
        with self.subTest(line=" ".join(ended[0].line)):
            self.assertIn(ended[0].status, (0, 4), ended[0])  # 4: too small
            self.assertEqual(ended[0].status, ended[1].status, ended[1])
            if ended[0].status == 0:
                self.assertEqual(self.differs(*files, planned), {})
            else:
                self.assertEqual(ended[0].stderr, ended[1].stderr)
        return ended[0].status == 0

    def test_whatever_is_drawn(self):
        seed = self.options.seed or random.randrange(1 << 30)
        print("seed", seed, file=sys.stderr)
        good = sum(self.play(random.Random(f"{seed}.{i}"))
                   for i in range(self.options.lines))
        self.assertGreater(good, self.options.lines * 0.8)


def arguments(parser):
    parser.add_argument("--seed", type=int, help="of an earlier run")
    parser.add_argument("--lines", type=int, default=200)


if __name__ == "__main__":
    pl.main(__doc__, arguments)
