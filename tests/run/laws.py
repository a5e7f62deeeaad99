#!/usr/bin/python3
"""What holds of every simulation, whatever its options are.

Options are drawn (PL_TEST_SEED draws others): ranks, pages, tiers, rules,
policies, hardware, drafts.  Tokens, pages, bytes and time are conserved, each
request goes its way in order, and --json says what its snapshot does.
"""
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

DRAWS = 8
DATA = os.path.join(pl.ROOT, "datasets")
TRACES = (("mooncake_conversation_slice.jsonl", 60),
          ("mooncake_toolagent_slice.jsonl", 60),
          ("mooncake_sessions_sample.jsonl", 60),
          ("bailian_sample.jsonl", 60), ("agentic_session.json", 30),
          ("azure_code_slice.csv", 60))
RULES = ("zigzag", "round-robin", "interleave:3", "replicated", "layer")
POLICIES = ("lru", "lfu", "slru", "fifo", "s3fifo", "sieve", "lane-aware",
            "belady")
LEAST = 140_000  # tokens that a lane and a home must hold


def draw(rng):
    """(C, D, rule, options)"""
    name, limit = rng.choice(TRACES)
    page, ranks = rng.choice((1, 16, 64, 256, 1024)), rng.choice((1, 2, 8, 127))
    decode, rule = rng.choice((0, 0, 1, 3)), rng.choice(RULES)
    decode = min(decode, 127 - ranks)
    lane = LEAST // page // (1 if rule in ("replicated", "layer") else ranks)
    some = lane + 3
    host = rng.choice((0, 10, 3 * some, "unlimited"))
    line = ["--trace", os.path.join(DATA, name), "--limit", limit,
            "--page-size", page, "--chunk", page * rng.choice((8, 32, 512)),
            "--cp", ranks, "--decode-ranks", decode, "--ownership", rule,
            "--evict", rng.choice(POLICIES), "--device-pages",
            rng.choice(("unlimited", some, 2 * some)), "--host-pages",
            host, "--decode-pages",
            rng.choice(("unlimited", 2 * LEAST // page))]
    for option, values in (
            ("--max-batch", (1, 8)), ("--max-new", (1, 50)),
            ("--passes", (2,)), ("--pace", ("none",)), ("--explore", (2,)),
            ("--write-policy", ("write_back", "write_through_selective")),
            ("--storage-pages", (0 if host == 0 else some,)),
            ("--decode-host-pages", (0, 10))):
        if rng.random() < 0.3:
            line += [option, rng.choice(values)]
    if rng.random() < 0.6:
        line += ["--hardware", rng.choice(("H200", "B300", "Xeon-8480")),
                 "--model", rng.choice(("GLM-5.2", "DeepSeek-V3.2")),
                 "--kv-dtype", rng.choice(("fp8", "bf16")), "--ep", 128]
        if rng.random() < 0.5:
            line += ["--mtp", rng.choice(("1:0.5", "4:1")), "--mtp-kv",
                     rng.choice(("kept", "lost"))]
    return ranks, decode, rule, line


class Laws(pl.Case):
    def hold(self, ranks, decode, rule, said, path):
        snapshot = pl.Snapshot(path)
        for key, value in pl.summary_of(snapshot).items():
            self.assertAlmostEqual(said[key], value, 5, key)
        r = {k: v.astype(np.int64) for k, v in snapshot.requests.items()
             if v.dtype != np.uint64}
        page = int(snapshot.layout["page_tokens"])
        good = r["failed"] == 0
        hit = sum(r[tier + "_hit_tokens"]
                  for tier in ("device", "host", "storage"))
        self.assertTrue((hit < r["prompt_tokens"]).all())
        self.assertTrue((hit % page == 0).all())
        missed = sum(v for k, v in r.items() if k.startswith("miss_"))
        self.assertTrue((missed + hit // page ==
                         -(-r["prompt_tokens"] // page))[good].all())
        self.assertEqual((r["generated_tokens"] - r["output_tokens"])[
            good].any(), False)
        way = [r[name + "_ns"] for name in
               ("arrival", "admitted", "first_token", "decode", "finished")]
        for before, after in zip(way, way[1:]):
            self.assertTrue((before <= after)[good].all())
        self.hold_rates(ranks, said)
        self.hold_time(decode, said)
        self.hold_bytes(ranks, rule, said, path)

    def hold_rates(self, ranks, said):
        for name in ("hit_rate", "mean_request_hit_rate", "page_hit_rate",
                     "time_hit_rate"):
            self.assertGreaterEqual(said[name], 0)
            self.assertLessEqual(said[name], 1)
        for name in ("computed", "load", "backup"):
            ratio = said[name + "_imbalance"]
            self.assertTrue(ratio == 0 or 0.999999 <= ratio <= ranks + 1e-6)
        self.assertGreaterEqual(said["recomputed_tokens"], 0)

    def hold_time(self, decode, said):
        spent = [sum(v for k, v in said.items() if k.startswith(side) and
                     k.endswith("_ms")) for side in ("prefill_", "decode_")]
        busy = max(spent) if decode > 0 else sum(spent)
        self.assertLessEqual(busy, 1000 * said["duration"] + 0.01)

    def hold_bytes(self, ranks, rule, said, path):
        """What was moved is whole pages, and what links carried."""
        with h5py.File(path, "r") as file:
            page = int(file["layout"].attrs["page_bytes"])
            sent = int(file["counters/engine"].attrs["send_pages"])
        copies = ranks if rule == "replicated" else 1
        self.assertEqual(said["send_bytes_moved"], sent * page)
        for name, link in (("load", "h2d"), ("backup", "d2h")):
            pages, carried = said[name + "_pages"], said[link + "_link_bytes"]
            self.assertEqual(said[name + "_bytes_moved"],
                             pages * page * copies)
            self.assertLessEqual(carried, pages * page)
            if rule == "replicated":
                self.assertEqual(carried, pages * page)
            elif rule != "layer":
                self.assertGreaterEqual(carried * ranks, pages * page)

    def test_whatever_is_drawn(self):
        seed = int(os.environ.get("PL_TEST_SEED", 221))
        print(f"PL_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        done = 0
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sim.h5")
            for _ in range(DRAWS):
                ranks, decode, rule, line = draw(rng)
                run = pl.Run(self.program, *line, "--json", "--log-level",
                             "error", "--snapshot", path, verb="sim")
                with self.subTest(line=" ".join(map(str, line))):
                    self.assertIn(run.status, (0, 4), run)
                    if run.status == 0:
                        self.hold(ranks, decode, rule, run.json(), path)
                        done += 1
        self.assertGreater(done, DRAWS // 2)


if __name__ == "__main__":
    pl.main(__doc__)
