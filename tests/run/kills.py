#!/usr/bin/python3
"""Runs with a storage tier that are killed, and whose disk breaks.

Whatever happens at whatever moment: the next run reads what is right or misses
it, `check` finds no more than a crash may leave and repairs it, and a snapshot
that was published has not changed a byte.
"""
import contextlib
import glob
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

# Two passes over pools that are too small for one: pages go to storage and
# come back from it in one run.
DEVICE, HOST = 600, 660  # of all lanes together
COMMON = ["--trace", pl.SLICE, "--passes", 2, "--block-tokens", 32,
          "--page-size", 8, "--chunk", 256, "--decode-pages", 1024,
          "--stamp-layers", 2, "--stamp-row-bytes", 24, "--max-new", 4]
FETCHING = ["--prefetch-policy", "wait_complete", "--prefetch-threshold", 16]
SMALL = [*COMMON, *FETCHING, "--limit", 16]
TINY = [*COMMON, *FETCHING, "--limit", 5]
WITHOUT_STORAGE = [*COMMON, "--limit", 5]
TIGHT = 400  # pages of storage, less than half of what SMALL writes

# Where a rank can be killed, and how often it comes there in a run of SMALL.
STEPS = {"backup": 12, "store": 30, "store-sync": 20}
STEPS_OF_RANK_0 = {"publish": 4, "publish-sync": 4, "publish-rename": 4,
                   "published": 4}

# What may be left by a crash: nothing that somebody could take for a page.
LEFT = {"unfinished_publications", "bad_index", "orphan_bytes",
        "torn_segments"}

# A disk in memory, where it is one: a sync costs nothing there, and what it is
# good for is known to the journal of file=lost.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def lanes(c):
    return ["--ranks", c, "--device-pages", DEVICE // c, "--host-pages",
            HOST // c]


def some_room(rng):
    """In storage, for runs on any number of ranks."""
    return ["--storage-pages", TIGHT // 4] if rng.random() < 0.4 else []


def seeded():
    seed = int(os.environ.get("PL_TEST_SEED", time.time()))
    print(f"PL_TEST_SEED={seed}", flush=True)
    return random.Random(seed)


def hashes(paths):
    found = {}
    for path in paths:
        with open(path, "rb") as file:
            found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


class Broken(pl.Case):
    """A folder of a tier and of snapshots that has bad luck."""
    cold = {}

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=FAST)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.tier = os.path.join(self.folder, "tier")
        self.file = os.path.join(self.folder, "run.h5")
        self.from_storage = 0  # tokens that restarts took from storage

    # ---- runs ----

    def arguments(self, base, c, *more):
        """One that goes on with what is there."""
        there = os.path.isdir(self.tier)
        return [*base, *lanes(c), "--storage", self.tier,
                *(["--from", self.tier] if there else []), "--snapshot",
                self.file, "--snapshot-every", "4req", "--snapshot-keep", 1000,
                *more]

    def run_on(self, base, c, *more, comm="local", **how):
        return pl.Run(self.program, *self.arguments(base, c, *more), "--comm",
                      comm, **how)

    def cold_run(self, base):
        """Of one rank, with nothing behind the device."""
        key = tuple(map(str, base))
        if key not in self.cold:
            path = os.path.join(self.folder, "cold.h5")
            self.run_program(*base, "--ranks", 1, "--device-pages", DEVICE,
                             "--host-pages", 0, "--comm", "local",
                             "--snapshot", path)
            self.cold[key] = pl.Snapshot(path)
        return self.cold[key]

    def same(self, base, found, why):
        cold = self.cold_run(base)
        self.assertFalse(found.requests["failed"].any(), why)
        self.assertTrue(np.array_equal(cold.requests["digest"],
                                       found.requests["digest"]), why)
        for i in range(len(cold.requests["digest"])):
            self.assertTrue(np.array_equal(cold.tokens(i), found.tokens(i)),
                            why)

    def goes_on(self, base, c, *more, comm="local"):
        """The next run: every read is right or an honest miss."""
        run = self.run_on(base, c, "--json", *more, comm=comm)
        self.assertEqual(run.status, 0, str(run))
        self.assertNotIn("violation", run.stderr)
        found = pl.Snapshot(self.file)
        self.same(base, found, str(run))
        self.assertEqual(found.storage["bad_pages"], 0, str(run))
        self.assertIsNone(pl.summary_differs(run.json(), found))
        self.from_storage += found.sum("storage_hit_tokens")

    # ---- what is left ----

    def snapshots(self):
        return sorted(glob.glob(os.path.join(self.folder, "run.*h5")))

    def found(self, *args):
        """{key: count} of what check finds in the tier."""
        if not os.path.exists(os.path.join(self.tier, "lock")):
            return {}  # it ended before there was a tier
        run = pl.Run(self.program, self.tier, "--json", *args, verb="check")
        self.assertIn(run.status, (0, 1), str(run))
        said = run.json()
        self.assertEqual(run.status, min(said["findings"], 1), str(run))
        return {k: v["count"] for k, v in said["found"].items() if v["count"]}

    def has_index(self):
        return os.path.exists(os.path.join(self.tier, "index.h5"))

    def no_worse_than_a_crash(self, had_index, why):
        """An index, once there is one, is always whole."""
        found = self.found()
        self.assertLessEqual(set(found), LEFT, f"{found} after {why}")
        self.assertTrue(self.has_index() or not had_index, why)
        self.assertFalse(self.has_index() and "bad_index" in found, why)

    def is_repaired(self, why):
        self.found("--repair")
        self.assertEqual(self.found(), {}, why)

    def snapshots_are_whole(self, before, why):
        """Those that there were before have not changed, each new one has its
        seal; one that was not published has another name."""
        now = hashes(self.snapshots())
        for path, digest in before.items():
            if path != self.file:
                self.assertEqual(now.get(path), digest, f"{path} after {why}")
        for path in set(now) - set(before) | ({self.file} & set(now)):
            run = pl.Run(self.program, path, verb="check")
            self.assertEqual(run.status, 0, f"{run}\nafter {why}")

    @contextlib.contextmanager
    def one_accident(self, why):
        """Around a run that ends badly: look at what it leaves."""
        before, had_index = hashes(self.snapshots()), self.has_index()
        yield
        self.snapshots_are_whole(before, why)
        self.no_worse_than_a_crash(had_index, why)

    def restarts(self, base, why, rng):
        """Repaired or as it is, on the same or another number of ranks."""
        before = hashes(self.snapshots())
        if rng.random() < 0.5:
            self.is_repaired(why)
        comm = "mpi" if rng.random() < 0.1 else "local"
        self.goes_on(base, rng.choice([1, 2, 3, 4]), *some_room(rng),
                     comm=comm)
        self.snapshots_are_whole(before, why)
        self.is_repaired(why)

    def forget(self):
        shutil.rmtree(self.tier, ignore_errors=True)
        for path in glob.glob(os.path.join(self.folder, "run.*")):
            os.remove(path)


class Killed(Broken):
    """kill -9 of one rank, or of all."""

    def dies(self, c, inject, comm, *more):
        """False: the run did not come to that point, and ended well."""
        with self.one_accident(inject):
            run = self.run_on(SMALL, c, "--inject", inject, *more, comm=comm)
        if run.status == 0:
            self.assertIn("never happened", run.stderr)
            return False
        self.assertEqual(run.status, 137 if comm == "mpi" else -9, str(run))
        return True

    def test_every_step_of_every_rank(self):
        """A rank, under mpirun; the others are ended."""
        rng = random.Random(0)
        for rank in (0, 2):
            steps = dict(STEPS, **(STEPS_OF_RANK_0 if rank == 0 else {}))
            for step, most in steps.items():
                inject = f"die={step}@rank:{rank}," \
                         f"count:{rng.randint(1, most // 2)}"
                with self.subTest(inject=inject):
                    self.assertTrue(self.dies(3, inject, "mpi"))
                    self.restarts(SMALL, inject, rng)
                    self.forget()
        self.assertGreater(self.from_storage, 0)

    def test_every_step_of_all_ranks(self):
        """Virtual ranks die together."""
        rng = random.Random(0)
        for rank in (0, 3):
            steps = dict(STEPS, **(STEPS_OF_RANK_0 if rank == 0 else {}))
            for step, most in steps.items():
                for count in (1, max(most // 2, 3))[:2 if rank == 0 else 1]:
                    inject = f"die={step}@rank:{rank},count:{count}"
                    with self.subTest(inject=inject):
                        self.assertTrue(self.dies(4, inject, "local"))
                        self.restarts(SMALL, inject, rng)
                        self.forget()
        self.assertGreater(self.from_storage, 0)

    # ---- at any moment ----

    def start(self, c, comm, *more, **streams):
        run = subprocess.Popen(
            [self.program, "run", *map(str, self.arguments(
                SMALL, c, "--comm", comm, *more))], text=True,
            **dict(dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
                   **streams), env=pl.environment())
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def start_and_stall(self, c, comm):
        """A run whose rank 1 has stopped in the midst of it."""
        run = self.start(c, comm, "--timeout", f"{2 * pl.LIMIT_S}s",
                         "--inject", "rank.stall@rank:1,tick:9",
                         stderr=subprocess.PIPE)
        self.addCleanup(run.stderr.close)
        self.assertIn("rank 1", pl.wait_for_line(run.stderr, "rank.stall"))
        return run

    def is_locked(self):
        try:
            lock = os.stat(os.path.join(self.tier, "lock"))
        except OSError:
            return False
        with open("/proc/locks") as file:
            return f":{lock.st_ino} " in file.read()

    def kill_at_random(self, rng, c, comm, whole, *more):
        """One rank, or all of them and mpirun; False: it was too late."""
        run = self.start(c, comm, *more)
        while run.poll() is None and not self.is_locked():  # it has its tier
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.4 if comm == "mpi" else 0.2))
        pids = pl.family(run.pid)
        ranks = [pid for pid in pids if self.is_rank(pid)]
        if not whole:
            ranks = rng.sample(ranks, min(len(ranks), 1))
        for pid in ranks + (pids if whole else []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = run.wait(timeout=pl.LIMIT_S)
        self.assertEqual(pl.wait_for_end(pids), [])
        return status != 0

    def is_rank(self, pid):
        """Of the run: the program, and neither mpirun nor who started it."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{pid}/environ", "rb") as file:
                in_mpi = b"OMPI_COMM_WORLD_RANK=" in file.read()
        except OSError:
            return False
        is_ours = os.path.basename(words[0].decode()) == os.path.basename(
            self.program)
        return is_ours and (in_mpi or b"local" in words or b"peer" in words)

    @staticmethod
    def rank_of(pid):
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
        return found and found[1].decode()

    def one_kill(self, rng):
        """(what was done, did it end badly)"""
        comm = rng.choice(["local", "peer", "mpi"])
        c = rng.choice([2, 3] if comm == "mpi" else [1, 2, 3, 4])
        room = some_room(rng)
        if rng.random() < 0.4:
            rank = rng.randrange(c)
            steps = dict(STEPS, **(STEPS_OF_RANK_0 if rank == 0 else {}))
            step = rng.choice(sorted(steps))
            inject = f"die={step}@rank:{rank}," \
                     f"count:{rng.randint(1, steps[step])}"
            return inject, self.dies(c, inject, comm, *room)
        whole = comm != "mpi" or rng.random() < 0.5
        why = f"kill of {'all' if whole else 'one'} of {c} ranks, {comm}"
        with self.one_accident(why):
            ended = self.kill_at_random(rng, c, comm, whole, *room)
        return why, ended

    def test_at_random(self):
        """Several in a row, before and after a run that ends well."""
        rng = seeded()
        n, tries = 0, 0
        kinds = {}
        self.cold_run(SMALL)
        while n < self.options.kills:
            tries += 1
            self.assertLess(tries, 10 * self.options.kills + 20)
            why, ended = self.one_kill(rng)
            n += ended
            if ended:
                kind = re.sub(r"@.*|of \d ranks", "", why)
                kinds[kind] = kinds.get(kind, 0) + 1
            with self.subTest(why=why):
                if rng.random() < 0.6:
                    self.restarts(SMALL, why, rng)
                elif rng.random() < 0.3:
                    self.is_repaired(why)
            if rng.random() < 0.3:
                self.forget()
        print(f"{n} kills of {tries} runs: {json.dumps(kinds)}; "
              f"{self.from_storage} tokens of storage in the runs after them",
              flush=True)
        self.assertGreater(self.from_storage, 0)

    def test_a_second_run_is_refused_until_the_first_is_gone(self):
        """... by whatever signal: nothing has to be cleaned up by hand."""
        first = self.start_and_stall(2, "local")
        for comm in ("local", "mpi"):
            run = self.run_on(SMALL, 2, comm=comm)
            self.assertEqual(run.status, 3, str(run))
            self.assertEqual(run.stdout, b"")
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, str(run))
            self.assertIn("another run is writing it", run.stderr)
        first.kill()
        first.wait()
        self.goes_on(SMALL, 2)

    def test_a_rank_that_is_left_over_keeps_the_folder(self):
        """Rank 0 is gone, and nobody has ended the others yet: they might
        still write."""
        self.assertEqual(self.run_on(SMALL, 2).status, 0)
        run = self.start_and_stall(2, "mpi")
        pids = pl.family(run.pid)
        ranks = {self.rank_of(pid): pid for pid in pids if self.is_rank(pid)}
        self.assertEqual(len(ranks), 2)
        others = [pid for pid in pids if pid not in ranks.values()]
        try:
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            os.kill(ranks["0"], signal.SIGKILL)
            self.assertEqual(pl.wait_for_end([ranks["0"]]), [])
            refused = self.run_on(SMALL, 2)
            self.assertEqual(refused.status, 3, str(refused))
            self.assertIn("another run is writing it", refused.stderr)
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        run.wait(timeout=pl.LIMIT_S)
        self.assertEqual(pl.wait_for_end(pids), [])
        self.goes_on(SMALL, 2)


class Disk(Broken):
    """Calls of the file layer that fail, write half, or lose what was not
    synced."""

    def breaks(self, inject, c):
        """A run over the files of an earlier one.  False: it never came to
        that call."""
        before = hashes({self.file} & set(self.snapshots()))
        with self.one_accident(inject):
            run = self.run_on(TINY, c, "--inject", inject)
        if "file=lost" in inject and run.status != 0:
            self.assertEqual(run.status, -signal.SIGKILL, str(run))
        elif run.status != 0:
            self.assertEqual(run.status, 3, str(run))
            self.assertRegex(run.stderr, r"(?m)^pagelane: (cannot|storage) ")
        # What was there, or the new one, whatever came after its publication.
        if run.status == 0 or hashes({self.file} & set(self.snapshots())) != \
                before:
            self.same(TINY, pl.Snapshot(self.file), str(run))
        return "never happened" not in run.stderr

    def begin(self, kept, c):
        """With nothing, or with what a run of other requests has left."""
        self.forget()
        if kept:
            run = self.run_on([*TINY, "--offset", 3], c)
            self.assertEqual(run.status, 0, str(run))
            os.remove(self.file)

    def most_calls(self, kept, rank, c):
        low, high = 0, 128 if self.options.calls > 0 else 512
        while low + 1 < high:
            middle = (low + high) // 2
            self.begin(kept, c)
            came = self.breaks(f"file=fail@rank:{rank},count:{middle}", c)
            low, high = (middle, high) if came else (low, middle)
        return low

    def test_calls_that_break(self):
        """A few at random, or all."""
        rng, c = seeded(), 2
        most = {(kept, rank): self.most_calls(kept, rank, c)
                for kept in (False, True) for rank in range(c)}
        calls = [(kept, f"file={action}@rank:{rank},count:{k}")
                 for action in ("fail", "short", "lost")
                 for (kept, rank), n in most.items() for k in range(1, n + 1)]
        if self.options.calls > 0:
            calls = rng.sample(calls, min(self.options.calls, len(calls)))
        n = 0
        for kept, inject in calls:
            with self.subTest(kept=kept, inject=inject):
                self.begin(kept, c)
                n += self.breaks(inject, c)
                self.restarts(TINY, inject, rng)
        print(f"{n} of {len(calls)} calls broke, of {list(most.values())} on "
              f"ranks 0 and 1 of runs that begin with nothing and with "
              f"something; {self.from_storage} tokens of storage in the runs "
              "after them", flush=True)
        # Writes that wait together are synced together: calls may be fewer.
        self.assertGreater(n, len(calls) * 0.6)
        self.assertGreater(self.from_storage, 0)


    def test_a_snapshot_of_many_ranks(self):
        """Each has a part of it to write."""
        base = [*WITHOUT_STORAGE, *lanes(3), "--comm", "mpi", "--snapshot",
                self.file]
        self.run_program(*base)
        before = hashes([self.file])
        for inject in ("file=fail@rank:1,count:1", "file=short@rank:2,count:2",
                       "disk=full@rank:2"):
            run = self.run_program(*base, "--inject", inject, status=3)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, str(run))
            self.assertRegex(run.stderr, r"\[rank [12] .*\] cannot ")
            self.assertEqual(hashes([self.file]), before)
            self.assertEqual(os.listdir(self.folder), ["run.h5"])


class Full(Broken):
    """A disk without room: the run goes on, says so once, and is right."""

    def said_once(self, run, text, ranks=1):
        n = run.stderr.count(text)
        self.assertGreater(n, 0, str(run))
        self.assertLessEqual(n, ranks, str(run))

    def test_on_purpose(self):
        """Of one rank, from its K-th call on; there is no snapshot."""
        for rank, k, comm in ((0, 1, "local"), (0, 5, "local"),
                              (0, 30, "local"), (1, 1, "local"),
                              (2, 9, "local"), (0, 12, "mpi"), (1, 3, "mpi")):
            inject = f"disk=full@rank:{rank},count:{k}"
            with self.subTest(inject=inject, comm=comm):
                tokens = os.path.join(self.folder, "tokens")
                run = pl.Run(self.program, *SMALL, *lanes(3), "--storage",
                             self.tier, "--inject", inject, "--comm", comm,
                             "--tokens-out", tokens, "--json")
                if rank == 0 and k == 1:  # no folder can be made
                    self.assertEqual(run.status, 3, str(run))
                    self.assertIn("No space left", run.stderr)
                    continue
                self.assertEqual(run.status, 0, str(run))
                self.said_once(run, "nothing more is stored from here")
                cold = self.cold_run(SMALL)
                self.assertEqual(run.json()["kv_digest"],
                                 pl.fold_digests(cold.requests["digest"]))
                with open(tokens) as file:
                    for line in map(json.loads, file):
                        self.assertEqual(
                            list(cold.tokens(line["request"])),
                            line["tokens"])
                self.no_worse_than_a_crash(False, inject)
                self.goes_on(SMALL, 2)
                self.is_repaired(inject)
                self.forget()

    def test_while_snapshots_are_written(self):
        """Those on the way are left out; the last one fails, and the one that
        was there stays."""
        self.assertEqual(self.run_on(SMALL, 2).status, 0)
        before = hashes(self.snapshots())
        for k in (12, 30, 60):
            shutil.rmtree(self.tier)
            run = self.run_on(SMALL, 2, "--inject", f"disk=full@count:{k}")
            self.assertEqual(run.status, 3, str(run))
            self.assertIn(f"cannot write {self.file}.partial: No space",
                          run.stderr)
            self.said_once(run, "the run goes on without this snapshot")
            self.said_once(run, "nothing more is stored from here")
            self.snapshots_are_whole(before, run)
            self.assertEqual(hashes([self.file])[self.file],
                             before[self.file])
            self.no_worse_than_a_crash(False, run)
        self.goes_on(SMALL, 2)

    # ---- a real one ----

    def small_disk(self, size):
        """A tmpfs of its own at self.folder, seen by those that are started
        with the launcher that comes back."""
        is_root = os.geteuid() == 0
        try:
            holder = subprocess.Popen(
                ["unshare", "-m" if is_root else "-rm", "sh", "-c",
                 'mount -t tmpfs -o "size=$1" none "$0" && echo here && '
                 'read -r word', self.folder, size],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            self.skipTest(f"unshare: {error}")
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.stdin.close)
        if holder.stdout.readline() != "here\n":
            self.skipTest("no tmpfs can be mounted here")
        users = [] if is_root else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(holder.pid), "-m", *users]

    def test_a_small_tmpfs(self):
        cold = self.cold_run(SMALL)
        want = pl.fold_digests(cold.requests["digest"])
        for size, comm in (("60k", "local"), ("500k", "local"),
                           ("900k", "local"), ("1300k", "mpi")):
            with self.subTest(size=size, comm=comm):
                on_it = self.small_disk(size)
                storage = [*SMALL, *lanes(3), "--storage", self.tier, "--json",
                           "--comm", comm]
                run = pl.Run(self.program, *storage, launcher=on_it)
                self.assertEqual(run.status, 0, str(run))
                self.said_once(run, "nothing more is stored from here")
                self.assertEqual(run.json()["kv_digest"], want)
                again = pl.Run(self.program, *storage, "--from", self.tier,
                               launcher=on_it)
                self.assertEqual(again.status, 0, str(again))
                self.said_once(again, "nothing more is stored from here")
                self.assertEqual(again.json()["kv_digest"], want)
                check = pl.Run(self.program, self.tier, "--json", verb="check",
                               launcher=on_it)
                found = {k for k, v in check.json()["found"].items()
                         if v["count"]}
                self.assertLessEqual(found, LEFT, str(check))

    def test_a_small_tmpfs_for_snapshots(self):
        on_it = self.small_disk("300k")
        run = pl.Run(self.program, *SMALL, *lanes(2), "--comm", "local",
                     "--snapshot", self.file, "--snapshot-every", "4req",
                     "--snapshot-keep", 1000, launcher=on_it)
        self.assertEqual(run.status, 3, str(run))
        self.said_once(run, "the run goes on without this snapshot")
        self.assertIn(f"cannot write {self.file}.partial: No space",
                      run.stderr)
        first = os.path.join(self.folder, "run.0001.h5")
        run = pl.Run(self.program, first, verb="check", launcher=on_it)
        self.assertEqual(run.status, 0, str(run))
        run = subprocess.run([*on_it, "ls", self.folder], capture_output=True,
                             text=True)
        self.assertNotIn("partial", run.stdout)
        self.assertNotIn("run.h5", run.stdout.split())


class Reads(Broken):
    """Stores and reads of one rank that fail: counted, said once, computed
    anew."""

    def hurt(self, inject, counter, comm):
        """(count, warnings) of a run, and of one that goes on with its pages.
        """
        run = self.run_on(SMALL, 3, "--json", "--inject", inject, comm=comm)
        self.assertEqual(run.status, 0, str(run))
        found = pl.Snapshot(self.file)
        self.same(SMALL, found, str(run))
        self.assertIsNone(pl.summary_differs(run.json(), found))
        return found.storage[counter], [
            line for line in run.stderr.splitlines() if "warning" in line]

    def test_on_each_rank(self):
        cases = [("flip=storage", "bad_pages", "is not what was written"),
                 ("fetch.fail", "unread_pages", "could not be read"),
                 ("store.fail", "stores_failed", "could not be stored")]
        ways = [("", "local"), (",every", "local"), ("", "mpi")]
        for rank, (point, counter, text), (when, comm) in itertools.product(
                range(3), cases, ways):
            if comm == "mpi" and rank != 1:
                continue  # one of each is enough
            inject = f"{point}@rank:{rank}{when}"
            with self.subTest(inject=inject, comm=comm):
                count, lines = self.hurt(inject, counter, comm)
                if count == 0:  # what was flipped was not read yet
                    self.assertEqual(set(self.found()), {"digest_mismatches"})
                    count, lines = self.hurt("load.delay", counter, "local")
                self.assertGreater(count, 0)
                self.assertEqual(len(lines), 1, lines)
                self.assertIn(text, lines[0])
                if rank > 0:
                    self.assertIn(f"rank {rank}", lines[0])
                self.assertLessEqual(set(self.found()), {"digest_mismatches"})
                self.is_repaired(inject)
                self.goes_on(SMALL, 2)
            self.forget()

    def test_the_same_decisions_without_bytes(self):
        """The door to a disk breaks by the rules of the cost executor."""
        room = ["--storage-pages", 1000]
        for inject in ("fetch.fail@rank:1", "fetch.fail@rank:2,count:3",
                       "store.fail@rank:1,count:4", "store.fail@every,rank:0"):
            found = []
            for more in (["--storage", self.tier], ["--executor", "cost"]):
                self.run_program(*SMALL, *lanes(3), *room, *more, "--inject",
                                 inject, "--comm", "local", "--snapshot",
                                 self.file)
                s = pl.Snapshot(self.file)
                found.append((s.engine, s.cache, s.storage))
            self.assertEqual(*found, inject)
            self.forget()


if __name__ == "__main__":
    def add_arguments(parser):
        parser.add_argument("--kills", type=int, default=6,
                            help="of Killed.test_at_random")
        parser.add_argument("--calls", type=int, default=8,
                            help="of Disk.test_calls_that_break; 0: all")

    pl.main(__doc__, add_arguments)
