#!/usr/bin/python3
"""Whatever allocation finds no memory: the program ends by itself, with the
exit status that says so, and says why."""
import os
import random
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

TINY = os.path.join(pl.ROOT, "examples", "glm-tiny")
QUIET = ["--log-level", "warn"]
SMALL = ["--trace", pl.SLICE, "--limit", 6, *QUIET]
RANKS = [*SMALL, "--ranks", 3, "--decode-ranks", 1, "--block-tokens", 16,
         "--page-size", 16, "--chunk", 128, "--device-pages", 100,
         "--host-pages", 200, "--stamp-layers", 2, "--stamp-row-bytes", 64,
         "--max-new", 4]
STORES = [*RANKS, "--comm", "local", "--storage", "tier", "--snapshot", "s.h5"]
CASES = [("sim", [*SMALL, "--cp", 4, "--device-pages", 700, "--snapshot",
                  "s.h5"]),
         ("sim", [*SMALL, "--pd", "2x2+1x2", "--device-pages", 1400,
                  "--snapshot", "f.h5"]),
         ("run", STORES),
         ("run", [*RANKS, "--comm", "peer", "--executor", "cost"]),
         ("run", ["--model", TINY, "--trace",
                  os.path.join(TINY, "prompts.json"), "--limit", 2,
                  "--max-new", 2, *QUIET]),
         ("trace stats", SMALL[:2]), ("size", ["--model", "GLM-5"]),
         ("inspect", ["s.h5", "nodes"]), ("inspect", ["s.h5", "why", 2]),
         ("check", ["s.h5", "tier"]), ("export", ["s.h5", "requests"]),
         ("compare", ["s.h5", "s.h5"]), ("report", ["s.h5", "-o", "s.html"])]


class NoMemory(pl.Case):
    def run_with(self, n, verb, args, folder):
        run = pl.Run(self.program, *verb.split()[1:], *args,
                     verb=verb.split()[0], cwd=folder,
                     LD_PRELOAD=self.options.no_memory, PL_TEST_NO_MEMORY=n)
        found = re.search(r"allocations: (\d+)\n", run.stderr)
        return run, found and int(found[1])

    def test_any_of_all(self):
        seed = int(os.environ.get("PL_TEST_SEED", 1))
        print(f"PL_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            pl.Run(self.program, *STORES, cwd=folder)
            for verb, args in CASES:
                _, most = self.run_with("0", verb, args, folder)
                self.assertGreater(most, 0, verb)
                for n in rng.sample(range(1, most + 1), min(
                        most, self.options.each)):
                    self.one(n, verb, args, folder)

    def one(self, n, verb, args, folder):
        with self.subTest(n=n, verb=verb), tempfile.TemporaryDirectory(
                dir=folder) as inner:
            for name in ("s.h5", "tier"):
                if verb not in ("sim", "run"):
                    os.symlink(os.path.join(folder, name),
                               os.path.join(inner, name))
            run, _ = self.run_with(str(n), verb, args, inner)
            said = re.sub(r"allocations: \d+\n", "", run.stderr)
            self.assertGreaterEqual(run.status, 0, str(run))
            self.assertIn(run.status, (0, 4), str(run))
            if run.status != 0:
                self.assertRegex(said, "memory|room|too large", str(run))


if __name__ == "__main__":
    def add_arguments(parser):
        parser.add_argument("--no-memory", required=True,
                            help="support/no_memory.c, built")
        parser.add_argument("--each", type=int, default=4,
                            help="allocations that fail, of each case")

    pl.main(__doc__, add_arguments)
