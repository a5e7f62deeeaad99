#!/usr/bin/python3
"""Every fault of --inject, end to end: what is caught is located, and what is
survived leaves no trace in other requests.

A violation is one line of fixed form, the same on virtual ranks and under MPI,
and the command in the line after it gives the same line again.
"""
import contextlib
import io
import os
import random
import shlex
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS, os.path.join(TESTS, "support")]
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402
import replay_events  # noqa: E402

# Pools that keep the total of 8 ranks; page options are per rank.
LOCAL = {
    (1, 0): ["--ranks", 1, "--device-pages", 2000, "--host-pages", 4800],
    (3, 0): ["--ranks", 3, "--device-pages", 667, "--host-pages", 1600],
    (3, 1): ["--ranks", 4, "--decode-ranks", 1, "--device-pages", 667,
             "--host-pages", 1600],
    (4, 2): ["--ranks", 6, "--decode-ranks", 2, "--device-pages", 500,
             "--host-pages", 1200],
    (8, 0): ["--ranks", 8],
}


def ranks(c, d, comm="local"):
    return [*LOCAL[c, d], "--comm", comm]


def splits_in_write(events):
    """Which events split a node between the start and the end of its backup."""
    names = [name.decode() for name in events["kinds"][...]]
    writing, found = set(), []
    for i, (kind, node) in enumerate(zip(events["kind"][...],
                                         events["node"][...])):
        if names[kind] == "backup":
            writing.add(node)
        elif names[kind] == "backed_up":
            writing.discard(node)
        elif names[kind] == "split" and node in writing:
            found.append(i)
    return found


class Faults(pl.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def snapshot(self, *args, **more):
        """A good run; its snapshot, of which /events agree with the rest."""
        path = os.path.join(self.folder.name, "run.h5")
        run = self.run_program(*pl.SMALL, *args, "--snapshot", path, **more)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            agrees = replay_events.check(path)
        self.assertEqual(agrees, 0, said.getvalue() + str(run))
        snapshot = pl.Snapshot(path)
        with h5py.File(path, "r") as file:
            names = [name.decode() for name in file["events/kinds"][...]]
            kinds = np.bincount(file["events/kind"][...],
                                minlength=len(names))
            snapshot.splits_in_write = splits_in_write(file["events"])
        snapshot.events = dict(zip(names, kinds.tolist()))
        return snapshot

    def violation(self, c, d, *args, **more):
        """The fields of the violation that a run must end with."""
        run = self.run_program(*pl.SMALL, *args, status=1, **more)
        found = pl.violation(run)
        self.assertIsNotNone(found, str(run))
        self.assertEqual(run.stdout, b"")
        self.assertEqual(len([line for line in run.stderr.splitlines() if
                              "pagelane violation" in line]), 1, str(run))
        fields, line, command = found
        self.assertLess(fields["owner"], c)
        self.assertLess(fields["reader"], c + d)
        self.assertLess(fields["layer"], 2)
        if fields["tier"] in ("device", "host", "transfer"):
            self.assertEqual(fields["owner"], fields["page"] % c, line)
            self.assertEqual(fields["slot"], fields["page"] // c, line)
        if fields["tier"] == "device":  # slot 0 is scratch
            self.assertGreater(fields["slot"], 0, line)
        self.repeats(line, command)
        return fields, line

    def repeats(self, line, command):
        words = shlex.split(command)
        self.assertEqual(words[:2], ["pagelane", "run"])
        again = pl.violation(self.run_program(*words[2:], status=1))
        self.assertIsNotNone(again, command)
        self.assertEqual(again[1:], (line, command))


class Violations(Faults):
    """What must be caught, where it lies."""

    def test_plain_allocation_at_load_back(self):
        """9.8, 9.27, 9.52: the historical bug"""
        for c, d in ((8, 0), (3, 1)):
            fields, _ = self.violation(c, d, *ranks(c, d), "--inject",
                                       "load.alloc=plain")
            self.assertEqual((fields["invariant"], fields["tier"]),
                             (6, "device"))
            self.assertGreaterEqual(fields["req"], 0)

    def test_plain_allocation_is_right_with_one_lane(self):
        """... and where nothing is loaded: it showed only with both."""
        for c, args in ((1, []), (8, ["--host-pages", 0])):
            cold = self.snapshot(*ranks(c, 0), *args)
            plain = self.snapshot(*ranks(c, 0), *args, "--inject",
                                  "load.alloc=plain")
            self.assertEqual(cold.cache["loads"] > 0, c == 1)
            self.assertTrue(np.array_equal(cold.requests["digest"],
                                           plain.requests["digest"]))

    def test_plain_allocation_as_users_saw_it(self):
        """Nothing checked: the run ends well, its tokens are wrong, and only
        after the first hit that was loaded back."""
        cold = self.snapshot(*ranks(8, 0), "--verify", "off")
        bug = self.snapshot(*ranks(8, 0), "--verify", "off", "--inject",
                            "load.alloc=plain")
        loaded = bug.requests["host_hit_tokens"] > 0
        first = bug.requests["admitted_tick"][loaded].min()
        wrong = cold.requests["digest"] != bug.requests["digest"]
        garbled = np.array([not np.array_equal(cold.tokens(i), bug.tokens(i))
                            for i in range(len(wrong))])
        self.assertTrue((wrong & loaded).any())
        self.assertTrue((garbled & loaded).any())
        self.assertTrue((garbled <= wrong).all())
        self.assertFalse(
            wrong[bug.requests["finished_tick"] < first].any())

    def test_owners_one_lane_off(self):
        fields, _ = self.violation(8, 0, *ranks(8, 0), "--inject",
                                   "write.owner=shift")
        self.assertEqual(fields["invariant"], 6)
        self.assertGreater(fields["node"], 0)

    def test_a_flipped_bit_is_caught_in_its_tier(self):
        """9.53 in each tier, at its first and at a later write, wherever"""
        for c, d, when in ((8, 0, ""), (4, 2, "@count:20")):
            for tier in ("device", "host", "transfer"):
                with self.subTest(c=c, d=d, when=when, tier=tier):
                    fields, _ = self.violation(
                        c, d, *ranks(c, d), "--inject",
                        f"flip={tier}{when}")
                    self.assertEqual((fields["invariant"], fields["tier"]),
                                     (7, tier))
                    if tier == "transfer":  # the home reads
                        self.assertIn(fields["reader"], range(c, c + d)
                                      if d > 0 else range(c))

    def test_a_flipped_bit_of_another_rank(self):
        for tier in ("device", "host"):
            fields, _ = self.violation(8, 0, *ranks(8, 0), "--inject",
                                       f"flip={tier}@rank:5,count:3")
            self.assertEqual((fields["owner"], fields["tier"]), (5, tier))

    def test_a_flipped_bit_of_the_host_is_caught_when_it_is_loaded(self):
        fields, _ = self.violation(8, 0, *ranks(8, 0), "--inject",
                                   "flip=host@every")
        self.assertEqual(fields["tier"], "host")
        self.assertGreater(fields["req"], 0)
        self.assertGreater(fields["node"], 0)
        self.assertEqual(fields["reader"], fields["owner"])

    def test_not_before_its_tick(self):
        fields, _ = self.violation(8, 0, *ranks(8, 0), "--inject",
                                   "flip=device@tick:100")
        self.assertGreaterEqual(fields["tick"], 100)

    def test_late_copies_are_located_as_well(self):
        for inject, tier in (("load.alloc=plain", "device"),
                             ("flip=transfer", "transfer")):
            fields, _ = self.violation(
                3, 1, *ranks(3, 1), "--device", "guard", "--explore", 3,
                "--seed", 7, "--inject", inject)
            self.assertEqual((fields["tier"], fields["seed"]), (tier, 7))

    def test_the_same_line_under_mpi(self):
        for inject in ("load.alloc=plain", "flip=host@every"):
            _, local = self.violation(3, 1, *ranks(3, 1), "--inject", inject)
            _, mpi = self.violation(3, 1, *ranks(3, 1, "mpi"), "--inject",
                                    inject)
            self.assertEqual(local, mpi)

    def test_the_command_holds_what_came_from_elsewhere(self):
        """Variables, a file, and mpirun's ranks are in the command that
        reproduces it: without them it gives the same line."""
        path = os.path.join(self.folder.name, "a file.conf")
        with open(path, "w") as file:
            file.write("max-new = 16\nblock-tokens = 64\n")
        run = pl.Run(
            self.program, "--config", path, "--chunk", 512,
            launcher=["mpirun", "-n", "2"], OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1", PAGELANE_TRACE=pl.SLICE,
            PAGELANE_INJECT="flip=device@rank:1,tick:9", PAGELANE_SEED="4")
        found = pl.violation(run)
        self.assertIsNotNone(found, str(run))
        self.assertEqual(found[0]["owner"], 1)
        self.repeats(found[1], found[2])


class Survived(Faults):
    """What a run gets over: exit status 0, all written down, and nobody else's
    numbers change."""

    @classmethod
    def setUpClass(cls):
        cls.cold = {}

    def compare(self, c, d, *args):
        """(without, with) the faults; equal where no request failed."""
        if (c, d) not in self.cold:
            self.cold[c, d] = self.snapshot(*ranks(c, d))
        cold, hurt = self.cold[c, d], self.snapshot(*ranks(c, d), *args)
        failed = hurt.requests["failed"] != 0
        self.assertFalse(cold.requests["failed"].any())
        self.assertTrue(np.array_equal(cold.requests["digest"][~failed],
                                       hurt.requests["digest"][~failed]))
        for i in np.flatnonzero(~failed):
            self.assertTrue(np.array_equal(cold.tokens(i), hurt.tokens(i)))
        self.assertTrue((hurt.requests["finished_ns"] >= 0).all())
        self.assertFalse(hurt.requests["digest"][failed].any())
        return cold, hurt

    def test_split_during_write(self):
        """9.26 a pending backup is split with its node"""
        cold, once = self.compare(8, 0, "--inject", "split.during-write")
        self.assertLess(once.splits_in_write[0],
                        (cold.splits_in_write + [sys.maxsize])[0])
        cold, often = self.compare(8, 0, "--inject",
                                   "split.during-write@every")
        self.assertGreater(len(often.splits_in_write), 100)
        for hurt in (once, often):
            self.assertEqual(hurt.cache["backups_failed"], 0)

    def test_load_delay(self):
        """9.35 what is late is waited for; a plan does not depend on it"""
        cold, hurt = self.compare(8, 0, "--inject", "load.delay")
        self.assertEqual(cold.events, hurt.events)
        self.assertEqual(cold.engine, hurt.engine)
        self.compare(3, 1, "--inject", "load.delay", "--device", "guard",
                     "--explore", 4)

    def test_load_fail(self):
        """9.27 a load that one rank fails is undone on all, its prompt
        admitted anew, the bad copy not used again"""
        for c, d, when, n in ((8, 0, "", 1), (3, 1, "@rank:2", 1),
                              (8, 0, "@every", 2)):
            cold, hurt = self.compare(c, d, "--inject", "load.fail" + when)
            self.assertEqual(hurt.sum("failed"), 0)
            self.assertGreaterEqual(hurt.cache["loads_failed"], n)
            self.assertEqual(hurt.sum("readmissions"),
                             hurt.cache["loads_failed"])
            self.assertEqual(hurt.engine["operations_failed"],
                             hurt.cache["loads_failed"])
            again = hurt.requests["readmissions"] > 0
            self.assertTrue((hurt.requests["host_hit_tokens"][again] <
                             cold.requests["host_hit_tokens"][again]).all())
            # Each page that failed says so; nothing else does.
            failed = hurt.requests["miss_failed"]
            self.assertTrue((failed[again] > 0).all())
            self.assertFalse(failed[~again].any())

    def test_host_alloc_fail(self):
        """9.30 no rank goes on alone"""
        for c, d, when in ((8, 0, ""), (8, 0, "@rank:3,count:7"),
                           (3, 1, "@every")):
            _, hurt = self.compare(c, d, "--inject", "host.alloc=fail" + when)
            self.assertEqual(hurt.sum("failed"), 0)
            self.assertGreater(hurt.engine["reservations_failed"], 0)
            self.assertEqual(hurt.cache["backups_failed"],
                             hurt.engine["reservations_failed"])
            if "every" not in when:
                self.assertEqual(hurt.cache["backups_failed"], 1)

    def test_backup_fail(self):
        """9.31 a copy that is not whole is not there"""
        for c, d, when in ((8, 0, ""), (3, 1, "@rank:1,count:4"),
                           (8, 0, "@every")):
            _, hurt = self.compare(c, d, "--inject", "backup.fail" + when)
            self.assertEqual(hurt.sum("failed"), 0)
            self.assertEqual(hurt.cache["backups_failed"],
                             hurt.engine["operations_failed"])
            self.assertGreater(hurt.cache["backups_failed"], 0)
            if "every" not in when:
                self.assertEqual(hurt.cache["backups_failed"], 1)

    def test_transfer_abort(self):
        """9.44, 9.45, 9.47 the request fails, its pages come back, the run
        goes on"""
        for c, d, when in ((8, 0, ""), (3, 1, "@rank:2,count:9"), (4, 2, "")):
            _, hurt = self.compare(c, d, "--inject", "transfer.abort" + when)
            self.assertEqual(hurt.sum("failed"), 1)
            self.assertEqual(hurt.engine["sends_failed"], 1)

    def test_every_transfer_aborts(self):
        _, hurt = self.compare(3, 1, "--inject", "transfer.abort@every")
        self.assertTrue(hurt.requests["failed"].all())
        _, hurt = self.compare(8, 0, "--inject",
                               "transfer.abort@every,rank:2")
        self.assertGreater(hurt.sum("failed"), 0)
        self.assertLess(hurt.sum("failed"), len(hurt.requests["failed"]))

    def test_several_at_once_at_random(self):
        seed = int(os.environ.get("PL_TEST_SEED", time.time()))
        print(f"PL_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        for _ in range(3):
            c, d = rng.choice([(3, 0), (3, 1), (4, 2), (8, 0)])
            args = []
            for point in rng.sample(["load.fail", "host.alloc=fail",
                                     "backup.fail", "transfer.abort"], 3):
                args += ["--inject", f"{point}@rank:{rng.randrange(c)},"
                         f"count:{rng.choice([1, 2, 5, 20])}"]
            for point in ("split.during-write@every", "load.delay"):
                args += ["--inject", point]
            args += ["--explore", rng.choice([0, 4]), "--device",
                     rng.choice(["cpu", "guard"]), "--write-policy",
                     rng.choice(["write_through", "write_back"])]
            with self.subTest(c=c, d=d, args=args):
                self.compare(c, d, *args)

    def test_the_same_under_mpi(self):
        for inject in ("transfer.abort@rank:1,count:3", "load.fail"):
            local, mpi = (self.snapshot(*ranks(3, 1, comm), "--inject", inject)
                          for comm in ("local", "mpi"))
            self.assertEqual((local.engine, local.cache, local.events),
                             (mpi.engine, mpi.cache, mpi.events))
            for name, column in local.requests.items():
                self.assertTrue(np.array_equal(column, mpi.requests[name]),
                                name)

    def test_the_same_decisions_without_bytes(self):
        for inject in ("load.fail", "backup.fail@rank:2,count:3",
                       "host.alloc=fail"):
            stamp, cost = (
                self.snapshot(*ranks(8, 0), "--inject", inject, "--executor",
                              executor) for executor in ("stamp", "cost"))
            self.assertEqual((stamp.engine, stamp.cache, stamp.events),
                             (cost.engine, cost.cache, cost.events), inject)


class Ranks(Faults):
    """A rank that is gone or silent ends the run, with a word, and not with 0.
    --timeout bounds it."""

    def ends(self, *args):
        run = pl.Run(self.program, *pl.SMALL, *args)
        self.assertNotEqual(run.status, 0)
        self.assertEqual(run.stdout, b"")
        return run

    def test_die(self):
        for comm, more in (("local", []), ("mpi", []),
                           ("mpi", ["--executor", "cost"])):
            run = self.ends(*ranks(3, 0, comm), "--inject",
                            "rank.die@rank:2,count:20", *more)
            # virtual ranks die together with their process
            self.assertEqual(run.status, -9 if comm == "local" else 137)
            self.assertRegex(run.stderr, "rank 2 .*rank.die")
            if comm == "mpi":
                self.assertRegex(run.stderr, r"ended by signal 9 \(Killed\)")

    def test_stall(self):
        for comm, rank in (("local", 2), ("mpi", 0)):
            run, waited = pl.until_it_stalls(lambda limit: self.ends(
                *ranks(3, 0, comm), "--timeout", limit, "--inject",
                f"rank.stall@rank:{rank},count:20"))
            self.assertEqual(run.status, 5, str(run))
            self.assertRegex(run.stderr, f"rank {rank} .*rank.stall")
            self.assertRegex(run.stderr, rf"rank [01]\b.*waited {waited} s")
            # whose line it is stands there once
            self.assertNotRegex(run.stderr, r"rank (\d).*\brank \1: ")


if __name__ == "__main__":
    pl.main(__doc__)
