#!/usr/bin/python3
"""`--comm peer` on a CPU: ranks read each other's pages in shared memory.

As threads and as processes under mpirun: the same run as by `--comm local`,
caught faults included; and a rank that is gone or silent ends it, with a word,
with nothing left behind.
"""
import contextlib
import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402
from pagelane_run import MPIRUN, lanes, launch  # noqa: E402
from determinism import content  # noqa: E402

TINY = os.path.join(pl.ROOT, "examples", "glm-tiny")
STAMP = [*pl.SMALL, "--verify", "full"]
MODEL = ["--trace", pl.SLICE, "--limit", 16, "--block-tokens", 16,
         "--page-size", 8, "--chunk", 128, "--decode-pages", 1024,
         "--model", TINY, "--max-new", 6, "--verify", "full"]


class Peers(pl.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name + ".h5")

    def run_to(self, name, *args, **more):
        self.run_program(*args, "--snapshot", self.path(name), **more)
        return content(self.path(name))


class Same(Peers):
    """... as on virtual ranks whose host copies the pages."""

    def differences(self, one, two):
        return [name for name in sorted(set(one) | set(two))
                if one.get(name) != two.get(name)]

    def compare(self, base, c, d, sizes, *more, ways=(False, True)):
        args = [*base, *lanes(c, d, *sizes), *more]
        local = self.run_to("local", *args, "--comm", "local")
        for processes in ways:
            with self.subTest(c=c, d=d, processes=processes, more=more):
                peer = self.run_to("peer", *args, "--comm", "peer",
                                   **launch(c + d, processes))
                self.assertEqual(self.differences(local, peer),
                                 ["/config@comm"])
        return pl.Snapshot(self.path("peer"))

    def test_stamp(self):
        """Threads and processes in turn; both where decode has a rank."""
        for c, d, device, ways in (
                (1, 0, "cpu", [True]), (2, 0, "guard", [False]),
                (3, 0, "cpu", [True]), (4, 0, "guard", [False]),
                (1, 1, "guard", [True]), (2, 1, "cpu", [False, True]),
                (3, 1, "guard", [False]), (4, 1, "cpu", [False])):
            found = self.compare(STAMP, c, d, (2000, 4800), "--device", device,
                                 ways=ways)
            self.assertGreater(found.cache["loads"], 0)
            self.assertGreater(found.cache["evictions"], 0)

    def test_model(self):
        tokens = []
        for c, d, ways in ((1, 0, [False]), (2, 0, [True]), (4, 0, [False]),
                           (1, 1, [False]), (3, 1, [False, True])):
            found = self.compare(MODEL, c, d, (480, 900), ways=ways)
            tokens.append((found.requests["digest"], found.requests["tokens"]))
        for digest, token in tokens:  # of all numbers of ranks
            self.assertTrue(np.array_equal(digest, tokens[0][0]))
            self.assertTrue(np.array_equal(token, tokens[0][1]))

    def test_late_copies_and_one_lane(self):
        for ways, more in (
                ([False], ["--explore", 4, "--device", "guard"]),
                ([True], ["--ownership", "replicated", "--device", "guard"]),
                ([False], ["--ownership", "replicated", "--write-policy",
                           "write_back", "--explore", 3]),
                ([True], ["--verify", "off"])):
            self.compare(STAMP, 3, 1, (2000, 4800), *more, ways=ways)


class Faults(Peers):
    def test_what_is_caught_on_virtual_ranks_is_caught(self):
        for c, d, inject in ((3, 1, "load.alloc=plain"),
                             (3, 0, "write.owner=shift")):
            args = [*pl.SMALL, *lanes(c, d, 2000, 4800), "--inject", inject]
            found = [pl.violation(self.run_program(
                *args, "--comm", comm, status=1, **launch(c + d, processes)))
                for comm, processes in (("local", False), ("peer", False),
                                        ("peer", True))]
            self.assertIsNotNone(found[0])
            self.assertEqual(found[0][0]["invariant"], 6)
            self.assertEqual(found[1][:2], found[0][:2])
            self.assertEqual(found[2][:2], found[0][:2])

    def ends(self, c, processes, *args):
        run = pl.Run(self.program, *pl.SMALL, *lanes(c, 0, 2000, 4800),
                     "--comm", "peer", *args, **launch(c, processes))
        self.assertEqual(run.stdout, b"")
        return run

    def test_a_rank_that_dies(self):
        for processes in (False, True):
            run = self.ends(3, processes, "--inject",
                            "rank.die@rank:2,count:20")
            self.assertEqual(run.status, 137 if processes else -9, str(run))
            self.assertRegex(run.stderr, "rank 2 .*rank.die")

    def test_a_rank_that_stalls(self):
        for processes, rank in ((False, 2), (True, 0)):
            run, waited = pl.until_it_stalls(lambda limit: self.ends(
                3, processes, "--timeout", limit, "--inject",
                f"rank.stall@rank:{rank},count:20"))
            self.assertEqual(run.status, 5, str(run))
            self.assertRegex(run.stderr, f"rank {rank} .*rank.stall")
            self.assertRegex(run.stderr, rf"rank [012]\b.*waited {waited} s")

    def test_too_much_memory_is_refused(self):
        for processes in (False, True):
            run = pl.Run(self.program, *pl.SMALL, *lanes(3, 0, 2000, 4800),
                         "--comm", "peer", "--device-pages", 1 << 28,
                         "--stamp-row-bytes", 1 << 16, **launch(3, processes))
            self.assertNotIn(run.status, (0, 1), str(run))
            self.assertRegex(run.stderr, "memory")


class Killed(Peers):
    """Ranks under mpirun, at any moment, by SIGKILL."""

    @staticmethod
    def left():
        return set(glob.glob("/dev/shm/*pagelane*"))

    def ranks_of(self, pids):
        found = []
        for pid in pids:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(
                        self.program):
                    found.append(pid)
        return found

    def test_one_of_the_ranks(self):
        seed = int(os.environ.get("PL_TEST_SEED", time.time()))
        print(f"PL_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        before = self.left()
        for _ in range(4):
            run = subprocess.Popen(
                ["mpirun", "-n", "3", self.program, "run", *map(str, [
                    *pl.SMALL, *lanes(3, 0, 2000, 4800), "--comm", "peer",
                    "--passes", 1000, "--pace", "none"])],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=pl.environment(**MPIRUN))
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
            below, ranks = [], []
            while len(ranks) < 3:
                self.assertIsNone(run.poll())
                time.sleep(0.01)
                below = pl.family(run.pid)
                ranks = self.ranks_of(below)
            time.sleep(rng.uniform(0.2, 1.5))
            os.kill(rng.choice(ranks), signal.SIGKILL)
            self.assertNotEqual(run.wait(timeout=pl.LIMIT_S), 0)
            self.assertEqual(pl.wait_for_end(below), [])
        self.assertEqual(self.left() - before, set())


if __name__ == "__main__":
    pl.main(__doc__)
