#!/usr/bin/python3
"""An engine of one lane whose pages are the trace's blocks hits what an LRU
cache of as many blocks hits, to the block, at every capacity.

Two differences between an engine and a cache are taken out of the trace, not
out of the engine.  It always computes a prompt's last token: so the partial
block at the end is dropped and one token of its own put in its place, which
takes one page beside the cache's while the prompt is there (a second is
scratch).  And prompts are held while they run: so they come one by one, a
thousand seconds apart.  A cache smaller than the longest prompt does not
compare: the engine would not take that prompt.
"""
import collections
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

BLOCK = 512
APART_MS = 10**6
OF_NOBODY_ELSE = 10**9  # ids from here on are of last tokens
PAGES_BESIDE = 2        # scratch, and the page of the last token


def prompts_of(path, limit):
    """Ids of the whole blocks of each prompt."""
    with open(path, encoding="ascii") as file:
        rows = [json.loads(line) for _, line in zip(range(limit), file)]
    return [row["hash_ids"][:row["input_length"] // BLOCK] for row in rows]


def write(path, prompts, with_last):
    with open(path, "w", encoding="ascii") as file:
        for i, ids in enumerate(prompts):
            last = [OF_NOBODY_ELSE + i] if with_last else []
            print(json.dumps({
                "timestamp": i * APART_MS, "output_length": 1,
                "input_length": len(ids) * BLOCK + len(last),
                "hash_ids": ids + last}), file=file)


def slow_lru(prompts, capacity):
    """Hit blocks of a cache that is kept in the obvious way."""
    cache = collections.OrderedDict()  # the least recently used first
    hits = 0
    for ids in prompts:
        for block in ids:
            if block not in cache:
                break
            hits += 1
        for block in reversed(ids):
            cache[block] = True
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


class Lru(pl.Case):
    def hits(self, trace, capacity, evict="lru"):
        said = self.run_program(
            "--trace", trace, "--cp", 1, "--page-size", BLOCK, "--evict", evict,
            "--device-pages", capacity + PAGES_BESIDE, "--host-pages", 0,
            "--decode-pages", "unlimited", "--json", "--log-level", "warn",
            verb="sim").json()
        self.assertEqual((said["failed"], said["host_hit_tokens"],
                          said["device_hit_tokens"] % BLOCK), (0, 0, 0))
        return said["device_hit_tokens"] // BLOCK

    def compare(self, path, limit, further):
        """Returns how many capacities tell lru from fifo."""
        prompts = prompts_of(path, limit)
        longest = max(map(len, prompts))
        capacities = [longest, longest + 1, 2 * longest, *further]
        with tempfile.TemporaryDirectory() as folder:
            whole, last = (os.path.join(folder, name)
                           for name in ("whole.jsonl", "last.jsonl"))
            write(whole, prompts, False)
            write(last, prompts, True)
            curve = self.run_program(
                "stats", whole, "--json", "--capacity",
                ",".join(map(str, capacities)), verb="trace").json()["lru"]
            engine = [self.hits(last, c) for c in capacities]
            fifo = [self.hits(last, c, "fifo") for c in capacities]
        self.assertEqual(curve["capacity"], capacities)
        self.assertEqual(engine, curve["hit"])
        self.assertEqual(engine, [slow_lru(prompts, c) for c in capacities])
        self.assertLess(engine[0], engine[-1])
        return sum(a != b for a, b in zip(engine, fifo))

    def test_slice(self):
        self.compare(pl.SLICE, 200, (600, 1000, 1777, 3000, 4419, 6000))

    def test_conversation(self):
        path = pl.conversation_trace()
        if path is None:
            raise unittest.SkipTest("no conversation_trace.jsonl; set "
                                    "PAGELANE_SHARED to a folder that has "
                                    "traces/mooncake/conversation_trace.jsonl")
        self.assertGreater(self.compare(
            path, 1000, (1000, 3000, 5859, 10000, 15000, 30000)), 0)


if __name__ == "__main__":
    pl.main(__doc__)
