#!/usr/bin/python3
"""With tiers without end the engine hits what the trace allows, to the token.

The numbers are properties of the conversation trace (`pagelane trace stats`
counts them without an engine): whole pages of a prefix seen before, of all
tokens but the last.  They cannot depend on the number of ranks.
"""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

BLOCK = 512
HIT_TOKENS = {16: 54097440, 64: 54093952, 128: 54089728, 512: 54063104}
FULL_BLOCKS = 105592


@unittest.skipIf(pl.conversation_trace() is None,
                 "no conversation_trace.jsonl; set PAGELANE_SHARED to a folder "
                 "that has traces/mooncake/conversation_trace.jsonl")
class Ceilings(pl.Case):
    def hits(self, page, c):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.h5")
            run = self.run_program(
                "--trace", pl.conversation_trace(), "--executor", "cost",
                "--device-pages", "unlimited", "--host-pages", 0,
                "--decode-pages", "unlimited", "--page-size", page, "--ranks",
                c, "--comm", "local", "--events", "off", "--json", "--snapshot",
                path)
            snapshot = pl.Snapshot(path)
        self.assertIsNone(pl.summary_differs(run.json(), snapshot))
        self.assertEqual(snapshot.cache["evictions"], 0)
        self.assertEqual(snapshot.sum("host_hit_tokens"), 0)
        return snapshot.requests["device_hit_tokens"].astype(np.int64)

    def test_hit_tokens(self):
        for page, tokens in HIT_TOKENS.items():
            first = None
            for c in (1, 3, 8):
                hits = self.hits(page, c)
                self.assertEqual(hits.sum(), tokens, (page, c))
                self.assertFalse((hits % page).any())
                self.assertEqual((hits // BLOCK).sum(), FULL_BLOCKS)
                first = hits if first is None else first
                self.assertTrue(np.array_equal(first, hits), (page, c))


if __name__ == "__main__":
    pl.main(__doc__)
