#!/usr/bin/python3
"""The same requests, however they are run: equal digests, equal tokens.

A request's KV digest and its tokens are functions of its prompt alone.  So the
number of ranks, the page size, the chunk, the write policy, the eviction
policy, the ownership rule, the comm, the device, and whether decode has ranks
of its own must not show in them.  This runs a base point and each axis around
it, then random corners of the whole grid, and compares request by request.
Besides, of every point: --json and the snapshot agree, and /events alone gives
/lanes and /hicache.
What the base point counts is compared with tests/golden; with
PAGELANE_UPDATE_GOLDEN=1 it is written there.

  grid.py --program PAGELANE --tier small|base [--seed N] [--corners N]
          [--points N] [--keep DIR]
"""
import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time

import numpy as np

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS, os.path.join(TESTS, "support")]
import pagelane_run  # noqa: E402
import replay_events  # noqa: E402

# Pools per rank at C = 8 and the tier's page; other points keep the total.
TIERS = {
    "base": dict(device_pages=3000, host_pages=8000, decode_pages=4096,
                 page=64, pages=(16, 128), block=512,
                 args=["--limit", "500"]),
    "small": dict(device_pages=250, host_pages=600, decode_pages=4096,
                  page=16, pages=(8, 32), block=16,
                  args=["--block-tokens", "16"]),
}
BASE = dict(c=8, d=0, policy="write_through", ownership="zigzag", comm="local",
            device="cpu", explore=0, storage="no", evict="lru")
EVICT = ["lru", "lfu", "slru", "fifo", "s3fifo", "sieve", "lane-aware",
         "belady"]


def base_point(tier):
    page = TIERS[tier]["page"]
    return dict(BASE, page=page, chunk=8 * page)


def axes(tier):
    """The base point first; the comm is an axis like the others."""
    page, (small, large) = TIERS[tier]["page"], TIERS[tier]["pages"]
    few = 4 if tier == "small" else 8  # processes, which mostly wait
    points = [dict(), dict(comm="mpi", c=few), dict(comm="peer"), dict(c=1),
              dict(c=2), dict(c=3), dict(c=4), dict(d=1), dict(d=2),
              dict(chunk=128 * page), dict(page=small), dict(page=large),
              dict(policy="write_through_selective"),
              dict(policy="write_back"), dict(ownership="round-robin")]
    if tier == "small":
        points += [dict(evict=policy) for policy in EVICT[1:]]
        points += [dict(ownership="replicated"),
                   dict(chunk=page, c=3), dict(comm="mpi", c=3, d=1),
                   dict(comm="mpi", c=2, device="guard", explore=3),
                   dict(comm="peer", c=3, d=1, device="guard", explore=3),
                   dict(comm="peer", c=4, ownership="replicated", page=small),
                   dict(device="guard", explore=2, d=1),
                   dict(storage="fetch"),
                   dict(storage="fetch", comm="mpi", c=3, d=1),
                   dict(storage="fetch", c=3, ownership="replicated"),
                   dict(storage="small", policy="write_back", page=small),
                   dict(storage="fetch", device="guard", explore=3, c=4)]
    return points


def corner(rng, tier):
    page = TIERS[tier]["page"] * rng.choice([32, 64, 100, 128]) // 64
    comm = rng.choice(["local", "mpi", "peer"])
    few = tier == "small" and comm == "mpi"
    return dict(c=rng.choice([1, 2, 3] if few else [1, 2, 3, 4, 5, 8]),
                d=rng.choice([0, 1, 2]), page=page,
                chunk=page * rng.choice([1, 4, 8, 64]),
                policy=rng.choice(["write_through", "write_through_selective",
                                   "write_back"]),
                ownership=rng.choice(["zigzag", "round-robin", "interleave:3",
                                      "replicated"]),
                comm=comm,
                device=rng.choice(["cpu", "guard"]),
                explore=rng.choice([0, 4]), evict=rng.choice(EVICT),
                storage=rng.choice(["no", "small"]))


def pages(sizes, tier, point):
    """The same tokens in all lanes together; replicated has one lane."""
    tokens = sizes[tier + "_pages"] * BASE["c"] * sizes["page"]
    lanes = 1 if point["ownership"] == "replicated" else point["c"]
    return max(tokens // (lanes * point["page"]), 1)


def tiers(sizes, point, folder):
    """The host tier; with storage behind it a small one, so that what is hit
    comes from there.  `small` storage has to evict, too."""
    host = pages(sizes, "host", point)
    if point["storage"] == "no":
        return ["--host-pages", host]
    args = ["--host-pages", max(host // 6, 8), "--storage", folder,
            "--prefetch-policy", "wait_complete", "--prefetch-threshold", 16]
    if point["storage"] == "small":
        args += ["--storage-pages", max(host // 2, 8)]
    return args


def arguments(trace, tier, point, snapshot):
    sizes = TIERS[tier]
    return ["--trace", trace, *sizes["args"],
            "--ranks", point["c"] + point["d"], "--decode-ranks", point["d"],
            "--page-size", point["page"], "--chunk", point["chunk"],
            "--device-pages", pages(sizes, "device", point),
            *tiers(sizes, point, snapshot + ".tier"),
            "--decode-pages",
            sizes["decode_pages"] * sizes["page"] // point["page"],
            "--write-policy", point["policy"], "--evict", point["evict"],
            "--ownership", point["ownership"], "--comm", point["comm"],
            "--device", point["device"], "--explore", point["explore"],
            "--stamp-layers", "2", "--stamp-row-bytes", "64",
            "--max-new", "16", "--verify", "digest", "--snapshot", snapshot,
            "--json"]


# ---- what is compared ----

def differs(first, found):
    """Name of the first column that is not the same, or None."""
    for name in ("failed", "digest", "tokens_offset", "tokens"):
        if not np.array_equal(first.requests[name], found.requests[name]):
            return name
    return None


def unexplained(s):
    """Each page of a prompt was hit or has a reason why not: the number of
    requests where that does not add up."""
    r, page = s.requests, int(s.layout["page_tokens"])
    asked = -(-r["prompt_tokens"] // page)
    hit = (r["device_hit_tokens"] + r["host_hit_tokens"] +
           r["storage_hit_tokens"]) // page
    missed = sum(column for name, column in r.items()
                 if name.startswith("miss_"))
    return int(((hit + missed != asked) & (r["failed"] == 0)).sum())


def counts(tier, s):
    """The golden counts of a base point."""
    beyond = s.requests["device_hit_tokens"].astype(int) - TIERS[tier]["block"]
    return dict(
        requests=len(s.requests["failed"]), failed=s.sum("failed"),
        prompt_tokens=s.sum("prompt_tokens"),
        generated_tokens=s.sum("generated_tokens"),
        device_hit_tokens=s.sum("device_hit_tokens"),
        device_hit_tokens_beyond_the_first_block=int(
            beyond.clip(min=0).sum()),
        host_hit_tokens=s.sum("host_hit_tokens"),
        page_checks=s.data["page_checks"],
        kv_digest=pagelane_run.fold_digests(s.requests["digest"]),
        **{"cache_" + k: v for k, v in sorted(s.cache.items())},
        **{"engine_" + k: v for k, v in sorted(s.engine.items())})


def check_counts(tier, found):
    """Laws of the base point, then the exact numbers; a list of complaints."""
    some = ["cache_evictions", "cache_loads", "cache_deficits",
            "cache_retries", "device_hit_tokens", "host_hit_tokens"]
    if tier == "small":
        some.append("device_hit_tokens_beyond_the_first_block")
    bad = [f"{name} is 0" for name in some if found[name] <= 0]
    if tier == "base" and found["page_checks"] < 1000000:
        bad.append(f"only {found['page_checks']} page checks")
    if found["failed"] != 0:
        bad.append(f"{found['failed']} requests failed")
    path = os.path.join(TESTS, "golden", f"{tier}.json")
    if os.environ.get("PAGELANE_UPDATE_GOLDEN") == "1" and not bad:
        with open(path, "w") as file:
            file.write(json.dumps(found, indent=2) + "\n")
    with open(path) as file:
        golden = json.load(file)
    return bad + [f"{name}: {found.get(name)}, golden {golden.get(name)}"
                  for name in dict(golden, **found)
                  if found.get(name) != golden.get(name)]


class Grid:
    def __init__(self, args, trace, folder):
        self.args, self.trace, self.folder = args, trace, folder
        self.first, self.n, self.failed = None, 0, 0
        self.base = base_point(args.tier)

    def verdict(self, point, run, snapshot):
        if run.status != 0:
            return f"exit {run.status}: {run.stderr.strip()[-600:]}"
        found = pagelane_run.Snapshot(snapshot)
        self.first = self.first or found
        field = differs(self.first, found)
        if field is not None:
            return f"{field} differs"
        if point["storage"] == "fetch" and \
                found.storage["fetched_pages"] == 0:
            return "nothing was fetched from storage"
        if found.data["bad_storage_pages"] > 0:
            return "pages on storage are bad"
        field = pagelane_run.summary_differs(run.json(), found)
        if field is not None:
            return field
        if unexplained(found) > 0:
            return f"{unexplained(found)} requests with pages that were " \
                   "neither hit nor missed for a reason"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            agrees = replay_events.check(snapshot) == 0
        return "equal" if agrees else said.getvalue().strip()

    def point(self, point):
        name = " ".join(f"{k}={v}" for k, v in point.items()
                        if self.n == 0 or v != self.base[k])
        snapshot = os.path.join(self.folder, f"point{self.n:02d}.h5")
        start = time.monotonic()
        run = pagelane_run.Run(
            self.args.program, timeout=1200, *arguments(
                self.trace, self.args.tier, point, snapshot))
        took = time.monotonic() - start
        verdict = self.verdict(point, run, snapshot)
        print(f"  {name:60s} {took:6.1f} s  {verdict}", flush=True)
        if verdict != "equal":
            self.failed += 1
            print("    " + " ".join(run.line), flush=True)
        self.n += 1
        if not self.args.keep:
            shutil.rmtree(snapshot + ".tier", ignore_errors=True)
            if os.path.exists(snapshot):
                os.unlink(snapshot)

    def golden(self):
        bad = ["the base point failed"] if self.first is None else \
            check_counts(self.args.tier, counts(self.args.tier, self.first))
        for line in bad:
            print(f"  golden: {line}", flush=True)
        self.failed += len(bad) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--tier", choices=sorted(TIERS), default="small")
    parser.add_argument("--seed", type=int, help="of the corners",
                        default=os.environ.get("PL_TEST_SEED",
                                               int(time.time())))
    parser.add_argument("--corners", type=int, default=4)
    parser.add_argument("--points", type=int, help="only the first so many; 1 "
                        "is the base point, which the golden counts are of")
    parser.add_argument("--keep", help="folder for the snapshots")
    args = parser.parse_args()

    trace = pagelane_run.SLICE
    if args.tier == "base":
        trace = pagelane_run.conversation_trace()
    if trace is None:
        print("skipped: no conversation_trace.jsonl; set PAGELANE_SHARED to a "
              "folder that has traces/mooncake/conversation_trace.jsonl")
        return pagelane_run.SKIPPED
    rng = random.Random(args.seed)
    print(f"grid: tier {args.tier}, PL_TEST_SEED={args.seed}", flush=True)
    points = [dict(base_point(args.tier), **axis) for axis in axes(args.tier)]
    points += [dict(BASE, **corner(rng, args.tier))
               for _ in range(args.corners)]
    with tempfile.TemporaryDirectory() as scratch:
        grid = Grid(args, trace, args.keep or scratch)
        os.makedirs(grid.folder, exist_ok=True)
        for point in points[:args.points]:
            grid.point(point)
            if grid.n == 1:
                grid.golden()
    print(f"{grid.n} points, {grid.failed} failures")
    return 1 if grid.failed else 0


if __name__ == "__main__":
    sys.exit(main())
