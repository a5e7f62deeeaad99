#!/usr/bin/python3
"""Runs that start with what an earlier one has left in its storage tier.

Whatever is found there, by however many ranks, the digests and tokens of every
request are those of a cold run; what cannot be used is said, and missed.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import h5py
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

TINY = os.path.join(pl.ROOT, "examples", "glm-tiny")
# A disk in memory, where it is one: nothing here is about a sync.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# All lanes together: the host tier holds a small part of what is stored.
DEVICE, HOST = 1000, 400

STAMP = ["--trace", pl.SLICE, "--limit", 60, "--block-tokens", 32,
         "--page-size", 8, "--chunk", 256, "--decode-pages", 4096,
         "--stamp-layers", 2, "--stamp-row-bytes", 24, "--max-new", 8,
         "--prefetch-policy", "wait_complete", "--prefetch-threshold", 16]
MODEL = ["--trace", pl.SLICE, "--limit", 24, "--block-tokens", 16,
         "--page-size", 8, "--chunk", 128, "--decode-pages", 1024,
         "--model", TINY, "--max-new", 6,
         "--prefetch-policy", "wait_complete", "--prefetch-threshold", 16]


def lanes(c, device=DEVICE, host=HOST):
    return ["--ranks", c, "--device-pages", device // c + 2,
            "--host-pages", host // c]


# One lane on each rank, which holds what all lanes do.
REPLICATED = ["--ownership", "replicated", "--device-pages", DEVICE,
              "--host-pages", HOST]


def contents(folder):
    """{name: hash} of what lies in a folder, without its lock."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name != "lock":
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


class Restart(pl.Case):
    cold = {}

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=FAST)
        self.addCleanup(shutil.rmtree, self.folder)
        self.tier = os.path.join(self.folder, "tier")

    def path(self, name):
        return os.path.join(self.folder, name)

    def snapshot(self, *args, comm="local", **more):
        """A good run; its --json agrees with its snapshot."""
        path = self.path("run.h5")
        self.last = self.run_program(*args, "--comm", comm, "--snapshot", path,
                                     "--json", **more)
        found = pl.Snapshot(path)
        self.assertIsNone(pl.summary_differs(self.last.json(), found))
        self.assertFalse(found.requests["failed"].any())
        return found

    def cold_run(self, base):
        """Of one rank, with nothing behind the device."""
        key = tuple(map(str, base))
        if key not in self.cold:
            self.cold[key] = self.snapshot(
                *base, "--ranks", 1, "--device-pages", DEVICE,
                "--host-pages", 0)
        return self.cold[key]

    def same(self, cold, found, which=None):
        which = range(len(cold.requests["digest"])) if which is None else which
        for i in which:
            self.assertEqual(cold.requests["digest"][i],
                             found.requests["digest"][i], f"request {i}")
            self.assertTrue(np.array_equal(cold.tokens(i), found.tokens(i)),
                            f"request {i}")

    def check(self, *args):
        """`pagelane check` finds nothing."""
        run = pl.Run(self.program, self.tier, *args, verb="check")
        self.assertEqual(run.status, 0, str(run))

    def fill(self, base=STAMP, c=8, **more):
        return self.snapshot(*lanes(c), *base, "--storage", self.tier, **more)

    def kept(self, base, c, *args, **more):
        return self.snapshot(*lanes(c), *base, "--storage", self.tier,
                             "--from", self.tier, *args, **more)

    def fetches(self):
        """(first page, owners) of each fetch of the last run."""
        with h5py.File(self.path("run.h5"), "r") as file:
            events, c = file["events"], int(file["layout"].attrs["n_lanes"])
            names = [name.decode() for name in events["kinds"][...]]
            at = events["pages_offset"][...]
            pages, first = events["pages"][...], events["value"][...]
            return [(int(first[i]), pages[at[i]:at[i + 1]] % c)
                    for i in np.flatnonzero(events["kind"][...] ==
                                            names.index("fetch"))]

    def warns(self, text):
        self.assertRegex(self.last.stderr, text)


class Chains(Restart):
    def chain(self, base):
        """8 -> 4 -> 3 -> 1 -> 8 ranks, each from what all before have kept."""
        cold = self.cold_run(base)
        first = self.fill(base)
        self.same(cold, first)
        self.assertGreater(first.storage["store_pages"], 0)
        self.check()
        for c in (4, 3, 1, 8):
            with self.subTest(c=c):
                # Pages at position p come to lane p mod C': lanes are even.
                read = self.snapshot(*base, *lanes(c), "--from", self.tier)
                self.same(cold, read)
                self.assertGreater(read.sum("storage_hit_tokens"), 0)
                self.assertEqual(read.storage["store_pages"], 0)
                self.assertEqual(read.data["bad_storage_pages"], 0)
                for at, owners in self.fetches() if c != 8 else ():
                    self.assertEqual(owners.tolist(),
                                     [(at + i) % c for i in
                                      range(len(owners))])
                # Hits stay hits: what any tier gave the cold run is not less.
                kept = self.kept(base, c)
                self.same(cold, kept)
                self.assertGreater(kept.sum("storage_hit_tokens"), 0)
                self.assertGreater(kept.storage["fetched_pages"], 0)
                self.assertEqual(kept.data["bad_storage_pages"], 0)
                self.assertLess(self.computed(kept), self.computed(first))
                self.check()

    @staticmethod
    def computed(s):
        return s.sum("prompt_tokens") - sum(
            s.sum(f"{tier}_hit_tokens") for tier in ("device", "host",
                                                     "storage"))

    def test_stamp(self):
        self.chain(STAMP)

    def test_model(self):
        self.chain(MODEL)

    def test_decode_ranks_and_other_rules(self):
        cold = self.cold_run(STAMP)
        self.fill()
        for args in (["--decode-ranks", 1], ["--ownership", "round-robin"],
                     REPLICATED, ["--chunk", 32],
                     ["--device", "guard", "--explore", 3],
                     ["--verify", "off"],
                     ["--prefetch-policy", "best_effort"],
                     ["--prefetch-policy", "timeout"]):
            with self.subTest(args=args):
                found = self.snapshot(*STAMP, *lanes(3), *args, "--from",
                                      self.tier)
                self.same(cold, found)
                self.assertGreater(found.storage["fetched_pages"], 0)

    def test_replicated_writes_and_others_read(self):
        cold = self.cold_run(STAMP)
        self.fill(STAMP + REPLICATED, c=3)
        self.check()
        found = self.kept(STAMP, 4)
        self.same(cold, found)
        self.assertGreater(found.sum("storage_hit_tokens"), 0)

    def test_under_mpirun(self):
        cold = self.cold_run(STAMP)
        self.fill(c=3, comm="mpi")
        found = self.kept(STAMP, 2, comm="mpi")
        self.same(cold, found)
        self.assertGreater(found.sum("storage_hit_tokens"), 0)
        self.check()

    def test_repeatable(self):
        """The same start gives the same run, whoever makes it."""
        self.fill()
        runs = []
        for comm in ("local", "mpi"):
            copy = self.path("tier-" + comm)
            shutil.copytree(self.tier, copy)
            found = self.snapshot(*STAMP, *lanes(2), "--storage", copy,
                                  "--from", copy, comm=comm)
            runs.append((found.engine, found.cache, found.storage, found.data))
        self.assertEqual(*runs)

    def test_a_folder_that_is_read_stays_as_it_is(self):
        self.fill()
        before = contents(self.tier)
        self.snapshot(*STAMP, *lanes(4), "--from", self.tier)
        self.assertEqual(contents(self.tier), before)

    def test_a_start_is_recorded(self):
        """... without a path: no tier, an empty one, one with pages."""
        wanted, said = [], []
        for args in ([], ["--storage", self.tier], ["--from", self.tier],
                     ["--storage", self.tier, "--from", self.tier]):
            found = self.snapshot(*STAMP, *lanes(3), *args)
            with h5py.File(self.path("run.h5"), "r") as file:
                about = file["config"].attrs
                said.append((about["storage_tier"].decode(),
                             int(about["storage_start"])))
            wanted.append((["none", "read", "kept", "kept"][
                ("--from" in args) + 2 * ("--storage" in args)],
                kept if "--from" in args else 0))
            if not wanted[1:]:
                shutil.copy(self.path("run.h5"), self.path("none.h5"))
            kept = found.storage["kept_pages"]
        self.assertEqual(said, wanted)
        self.assertGreater(kept, 0)
        told = pl.Run(self.program, self.path("none.h5"), self.path("run.h5"),
                      "--json", verb="compare").json()["options"]
        self.assertEqual(told, [
            {"option": "storage_start", "a": "0", "b": str(wanted[-1][1])},
            {"option": "storage_tier", "a": "none", "b": "kept"}])
        diff = pl.Run(self.program, self.path("none.h5"), "diff",
                      self.path("run.h5"), verb="inspect")
        self.assertEqual(diff.status, 1, str(diff))
        self.assertIn("first difference, in config: /config/storage_start: "
                      "'0' in A,", diff.stdout.decode())

    def test_what_an_index_names_is_told(self):
        """... whatever else was kept when the disk was full: as much is there
        for another run."""
        told = []
        for inject in (["--inject", "file=fail@rank:0,count:40"],
                       ["--inject", "disk=full@rank:0,count:60"],
                       ["--inject", "disk=full@rank:1,count:9"], []):
            said = self.run_program(*STAMP, *lanes(4), "--comm", "local",
                                    "--storage", self.tier, "--json",
                                    *inject).json()
            there = pl.Run(self.program, self.tier, "--json",
                           verb="check").json()["pages"]
            self.assertEqual(said["storage_indexed_pages"], there, inject)
            told.append((said["storage_kept_pages"], there))
            shutil.rmtree(self.tier)
        self.assertGreater(told[0][0], told[0][1], told)
        self.assertEqual(*told[-1])
        found = self.fill(c=4).storage
        self.assertEqual((found["kept_pages"], found["indexed_pages"]),
                         told[-1])

    def test_a_small_tier_evicts(self):
        cold = self.cold_run(STAMP)
        args = ["--storage-pages", 40]
        first = self.fill(STAMP + args, c=3)
        self.same(cold, first)
        self.assertGreater(first.storage["evicted_pages"], 0)
        self.assertLessEqual(first.storage["kept_pages"], 3 * 40)
        self.check()
        again = self.kept(STAMP + args, 3)
        self.same(cold, again)
        self.check()

    def adds_up(self, found, start):
        s = found.storage
        self.assertEqual(s["start_pages"], start)
        self.assertEqual(s["start_pages"] - s["left_out_pages"] +
                         s["new_pages"] - s["evicted_pages"] -
                         s["dropped_pages"], s["kept_pages"])

    def test_a_smaller_tier_keeps_its_bound(self):
        """... over all sets, said once; and what came and went adds up."""
        cold, full = self.cold_run(STAMP), self.fill()
        self.adds_up(full, 0)
        kept = int(full.storage["kept_pages"])
        for c, slots, comm in ((3, 2, "local"), (2, 40, "mpi"),
                               (4, 40, "local")):
            found = self.kept(STAMP + ["--storage-pages", slots], c, comm=comm)
            self.same(cold, found)
            self.assertLessEqual(found.storage["kept_pages"], c * slots)
            self.adds_up(found, kept)
            self.assertEqual(self.last.stderr.count(
                f"it holds {kept} pages, {c * slots} fit: the "
                f"{kept - c * slots} least recently used are dropped"),
                int(kept > c * slots))
            self.check()
            kept = int(found.storage["kept_pages"])
            self.assertGreater(kept, 0)

    def test_a_model_of_a_tier_without_a_folder(self):
        """--executor cost: none, one without end, a small one."""
        kept = [self.snapshot(*STAMP, "--executor", "cost", *lanes(3),
                              *args).storage["kept_pages"]
                for args in ([], ["--storage-pages", "unlimited"],
                             ["--storage-pages", 40])]
        self.assertEqual(kept[0], 0)
        self.assertGreater(kept[1], kept[2])
        self.assertGreater(kept[2], 0)

    def test_gigabytes_are_pages(self):
        """A page of 2 layers, 2 stores, 8 rows of 24 bytes: 768 bytes."""
        page = 2 * 2 * 8 * 24
        found = self.snapshot(
            *STAMP, "--ranks", 3, "--device-pages", 700,
            "--host-gb", f"{250 * page / 1e9:.9f}", "--storage", self.tier,
            "--storage-gb", f"{40 * page / 1e9:.9f}")
        self.assertEqual(int(found.layout["host_pages"]), 250)
        self.assertLessEqual(found.storage["kept_pages"], 3 * 40)
        self.assertGreater(found.storage["kept_pages"], 40)


class Resumes(Restart):
    def killed(self, *args, base=STAMP, c=3):
        run = pl.Run(self.program, *base, *lanes(c), "--comm", "local",
                     "--storage", self.tier, *args)
        self.assertEqual(run.status, -signal.SIGKILL, str(run))

    def test_with_the_folder_alone(self):
        cold = self.cold_run(STAMP)
        self.killed("--inject", "die=published@count:2")
        found = self.kept(STAMP, 3, "--resume")
        before = found.requests["skipped"] != 0
        self.assertGreater(before.sum(), 0)
        self.assertLess(before.sum(), len(before))
        self.assertFalse(found.requests["digest"][before].any())
        self.same(cold, found, np.flatnonzero(~before))
        said = self.run_program(*STAMP, *lanes(3), "--comm", "local",
                                "--storage", self.tier, "--from", self.tier,
                                "--resume").stdout.decode()
        # That run has finished the others: now all are.
        self.assertIn(f"{len(before)} requests were finished before.", said)
        self.check()

    def test_with_a_snapshot(self):
        """... which knows digests and tokens of what is passed over."""
        cold = self.cold_run(STAMP)
        last = self.path("run.h5")
        self.killed("--snapshot", last, "--snapshot-every", "30req",
                    "--inject", "rank.die@rank:0,tick:150")
        newest = sorted(name for name in os.listdir(self.folder)
                        if re.fullmatch(r"run\.\d+\.h5", name))[-1]
        found = self.snapshot(
            *STAMP, *lanes(4), "--storage", self.tier, "--from",
            self.path(newest), "--resume")
        before = found.requests["skipped"] != 0
        self.assertGreater(before.sum(), 0)
        self.assertLess(before.sum(), len(before))
        self.assertTrue(found.requests["digest"].all())
        self.same(cold, found)
        self.assertEqual(self.last.json()["kv_digest"],
                         pl.fold_digests(cold.requests["digest"]))
        at = found.requests["tokens_offset"]
        self.assertTrue(np.array_equal(
            found.requests["generated_tokens"][before],
            np.diff(at)[before]))
        # A snapshot of a run that was resumed can be resumed from.
        shutil.copy(last, self.path("again.h5"))
        again = self.snapshot(*STAMP, *lanes(2), "--from",
                              self.path("again.h5"), "--resume")
        self.assertTrue((again.requests["skipped"] != 0).all())
        self.same(cold, again)
        said = self.run_program(*STAMP, *lanes(2), "--comm", "local", "--from",
                                self.path("again.h5"),
                                "--resume").stdout.decode()
        self.assertIn("their digests and tokens are those of then", said)
        self.assertIn("KV digest of all requests: " +
                      pl.fold_digests(cold.requests["digest"]), said)

    def test_of_a_model_on_other_ranks_under_mpirun(self):
        cold = self.cold_run(MODEL)
        self.killed("--snapshot", self.path("run.h5"), "--snapshot-every",
                    "6req", "--inject", "rank.die@rank:0,tick:60", base=MODEL)
        newest = sorted(name for name in os.listdir(self.folder)
                        if re.fullmatch(r"run\.\d+\.h5", name))[-1]
        found = self.snapshot(*MODEL, *lanes(2), "--from", self.path(newest),
                              "--resume", "--verify", "full", comm="mpi")
        self.assertGreater(found.sum("skipped"), 0)
        self.same(cold, found)

    def test_killed_at_every_step(self):
        """... all ranks at once, or one of them: what the next run finds is
        right, and it goes on with it."""
        cold = self.cold_run(STAMP)
        for step, comm in (("backup@count:40", "local"),
                           ("store@count:3", "local"),
                           ("store-sync@rank:1,count:5", "local"),
                           ("publish@count:2", "local"),
                           ("publish-sync", "local"),
                           ("publish-rename@count:2", "local"),
                           ("publish-folder@count:2", "local"),
                           ("published", "local"),
                           ("backup@rank:2,count:30", "mpi"),
                           ("store@rank:1,count:9", "mpi")):
            with self.subTest(step=step, comm=comm):
                run = pl.Run(self.program, *STAMP, *lanes(3), "--comm", comm,
                             "--storage", self.tier, "--inject",
                             "die=" + step)
                self.assertNotIn(run.status, (0, 1), str(run))
                found = self.kept(STAMP, 3)
                self.same(cold, found)
                self.assertEqual(found.data["bad_storage_pages"], 0)
                self.check()
                shutil.rmtree(self.tier)

    def test_a_disk_that_fails_at_the_start(self):
        """... is said once: the run reads what is there, and writes nothing."""
        cold = self.cold_run(STAMP)
        for k in (2, 3, 4):  # a new folder: its name, its lock, a sync
            found = self.fill(STAMP + ["--inject",
                                       f"file=fail@rank:0,count:{k}"], c=3)
            self.same(cold, found)
            self.assertEqual(self.last.stderr.count("nothing is stored"), 1)
            shutil.rmtree(self.tier)
        self.fill(c=3)
        before = contents(self.tier)
        for k in (1, 2):  # an old one
            found = self.kept(STAMP, 3, "--inject",
                              f"file=fail@rank:0,count:{k}")
            self.same(cold, found)
            self.assertGreater(found.sum("storage_hit_tokens"), 0)
            self.assertEqual(self.last.stderr.count("nothing is stored"), 1)
            self.assertEqual(contents(self.tier), before)

    def test_other_requests_are_refused(self):
        self.fill()
        for args in (["--limit", 119], ["--offset", 1], ["--max-new", 7],
                     ["--seed", 1]):
            run = pl.Run(self.program, *STAMP, *lanes(3), *args, "--comm",
                         "local", "--from", self.tier, "--resume")
            self.assertEqual(run.status, 3, str(run))
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, str(run))
        run = pl.Run(self.program, *STAMP, *lanes(3), "--limit", 119, "--comm",
                     "local", "--from", self.path("run.h5"), "--resume")
        self.assertEqual(run.status, 3, str(run))
        self.assertIn("of other requests", run.stderr)

    def refused(self, run, reason):
        """One line says why; a snapshot may also have no pages to give."""
        said = [line for line in run.stderr.strip().splitlines()
                if "warning: " not in line]
        self.assertEqual(run.status, 3, str(run))
        self.assertEqual(len(said), 1, str(run))
        self.assertRegex(said[0], reason)

    def resumed(self, base, *args, snapshot="run.h5"):
        return pl.Run(self.program, *base, *args, "--comm", "local", "--from",
                      self.path(snapshot), "--resume")

    def other_results_are_refused(self, base, others):
        """What changes a digest or a token, requests being the same."""
        for args, reason in others:
            with self.subTest(args=args):
                self.refused(self.resumed(base, *lanes(2), *args), reason)

    def others_may_go_on(self, base, *others):
        """What changes neither digests nor tokens."""
        done = pl.Snapshot(self.path("run.h5"))
        shutil.copy(self.path("run.h5"), self.path("done.h5"))
        for args in ([], ["--decode-ranks", 1], ["--ownership", "round-robin"],
                     ["--device-pages", 4000], ["--device", "guard"],
                     ["--pace", "none"], ["--verify", "off"], *others):
            with self.subTest(args=args):
                again = self.snapshot(*base, *lanes(2), *args, "--from",
                                      self.path("done.h5"), "--resume")
                self.assertTrue((again.requests["skipped"] != 0).all())
                self.same(done, again)

    def test_results_of_the_stamp_executor(self):
        self.snapshot(*STAMP, *lanes(3))
        self.other_results_are_refused(STAMP, (
            (["--stamp-layers", 3], r"\(2 layers, here 3 layers\)"),
            (["--stamp-row-bytes", 32], r"\(rows of 24, .* here rows of 32,"),
            (["--max-new", 7], "of other requests"),
            (["--seed", 1], "of other requests|seed 0, .* here .* seed 1"),
            (["--block-tokens", 128], "of other requests")))
        self.others_may_go_on(STAMP, ["--page-size", 16], ["--chunk", 32],
                              ["--storage", self.tier])

    def test_results_of_a_model(self):
        self.snapshot(*MODEL, *lanes(3))
        self.other_results_are_refused(MODEL, (
            (["--kv-dtype", "bf16"], r"\(dtype f32, here dtype bf16\)"),
            (["--kv-dtype", "fp8"], r"\(dtype f32, here dtype fp8\)"),
            (["--weights", "random:1"], r"\(model glm_moe_dsa \w+, here")))
        model = MODEL.index("--model")
        self.other_results_are_refused(MODEL[:model] + MODEL[model + 2:], (
            ([], "of other requests|executor model, here executor stamp"),))
        self.others_may_go_on(MODEL, ["--chunk", 64])

    def test_results_of_a_cost_model(self):
        """... which has none: its requests are no stamps'."""
        self.snapshot(*STAMP, *lanes(3), "--executor", "cost")
        self.other_results_are_refused(STAMP, (
            ([], r"\(executor cost, here executor stamp\)"),))

    def test_ends_of_sequence(self):
        """Prompts alone end where the model ends them: who has another end
        has other answers."""
        trace, other = self.path("prompts.json"), self.path("other")
        with open(trace, "w") as file:
            json.dump({"prompts": [[5 + i, 9, 30 + i, 7] for i in range(3)]},
                      file)
        shutil.copytree(TINY, other)
        for name in ("config.json", "generation_config.json"):
            with open(os.path.join(other, name)) as file:
                config = json.load(file)
            config["eos_token_id"] = [3, 4]
            with open(os.path.join(other, name), "w") as file:
                json.dump(config, file)
        base = ["--trace", trace, "--max-new", 6, "--page-size", 8, "--chunk",
                128]
        tier = ["--storage", self.tier]
        self.snapshot(*base, *tier, "--model", TINY)
        self.other_results_are_refused(base, (
            (["--model", other], r"\(ends of sequence: \w+, here"),))
        run = pl.Run(self.program, *base, "--model", other, "--comm", "local",
                     *tier, "--from", self.tier, "--resume")
        self.refused(run, "what answers them is another")

    def test_a_snapshot_that_does_not_say(self):
        self.snapshot(*STAMP, *lanes(3))
        with h5py.File(self.path("run.h5"), "r+") as file:
            del file["timing"].attrs["computation"]
        self.refused(self.resumed(STAMP, *lanes(3)), "/timing/computation")

    def test_what_failed_is_tried_again(self):
        """A request whose transfer failed has no answer yet."""
        tier = ["--storage", self.tier]
        self.run_program(*STAMP, *lanes(3), *tier, "--decode-ranks", 1,
                         "--comm", "local", "--inject", "transfer.abort@rank:0,tick:40",
                         "--snapshot", self.path("hurt.h5"))
        failed = pl.Snapshot(self.path("hurt.h5")).requests["failed"] != 0
        self.assertTrue(failed.any() and not failed.all())
        for source in (self.path("hurt.h5"), self.tier):
            with self.subTest(source=source):
                again = self.snapshot(*STAMP, *lanes(2), "--from", source,
                                      "--resume")
                self.assertTrue(np.array_equal(
                    again.requests["skipped"] != 0, ~failed))
                self.same(self.cold_run(STAMP), again,
                          np.flatnonzero(failed))


class Misses(Restart):
    """What does not match is a miss with a reason, in a run that ends well."""

    def missed(self, base, reason, *args, kept=True):
        plain = self.snapshot(*base, *lanes(3), *args)
        found = self.snapshot(*base, *lanes(3), *args, "--from", self.tier)
        self.warns(f"(?m)^pagelane: .*{reason}")
        self.assertEqual(found.sum("storage_hit_tokens"), 0)
        self.same(plain, found)
        before = contents(self.tier)
        found = self.snapshot(*base, *lanes(3), *args, "--from", self.tier,
                              "--storage", self.tier)
        self.warns(f"(?m)^pagelane: .*{reason}")
        self.assertEqual(found.sum("storage_hit_tokens"), 0)
        self.same(plain, found)
        if kept:
            self.assertEqual(contents(self.tier), before)

    def test_of_the_stamp_executor(self):
        self.fill()
        for args in (["--page-size", 32], ["--stamp-layers", 3],
                     ["--stamp-row-bytes", 32], ["--seed", 5]):
            with self.subTest(args=args):
                self.missed(STAMP + args, "its pages")

    def test_of_a_model(self):
        self.fill(MODEL)
        for args in (["--kv-dtype", "bf16"], ["--page-size", 16],
                     ["--weights", "random:1"]):
            with self.subTest(args=args):
                self.missed(MODEL + args, "its pages")
        shutil.rmtree(self.tier)
        self.fill(MODEL + ["--weights", "random:1"])
        self.missed(MODEL + ["--weights", "random:2"], "its pages")

    def test_a_model_is_no_stamp(self):
        self.fill(MODEL)
        without = [a for a in MODEL if a not in ("--model", TINY)]
        self.missed(without, "its pages")

    def test_another_slice_with_the_same_tokens_hits(self):
        """Block size, answer lengths and order are no part of a page."""
        self.fill()
        found = self.snapshot(*STAMP, *lanes(3), "--offset", 20, "--limit", 60,
                              "--max-new", 3, "--from", self.tier)
        self.assertGreater(found.sum("storage_hit_tokens"), 0)

    def test_nothing_is_there(self):
        cold = self.cold_run(STAMP)
        os.mkdir(self.tier)
        found = self.snapshot(*STAMP, *lanes(3), "--from", self.tier)
        self.warns("no pages to start with")
        self.same(cold, found)
        found = self.kept(STAMP, 3)
        self.warns("no pages to start with")
        self.assertGreater(found.storage["store_pages"], 0)
        found = self.kept(STAMP, 3)
        self.assertGreater(found.sum("storage_hit_tokens"), 0)

    def test_a_snapshot_without_its_folder(self):
        cold = self.cold_run(STAMP)
        self.fill()
        shutil.copy(self.path("run.h5"), self.path("first.h5"))
        found = self.snapshot(*STAMP, *lanes(3), "--from",
                              self.path("first.h5"))
        self.assertGreater(found.sum("storage_hit_tokens"), 0)
        os.rename(self.tier, self.path("elsewhere"))
        found = self.snapshot(*STAMP, *lanes(3), "--from",
                              self.path("first.h5"))
        self.warns("storage folder .* is gone")
        self.assertEqual(found.sum("storage_hit_tokens"), 0)
        self.same(cold, found)

    def test_a_flipped_bit_on_disk(self):
        """A page that is not what was written is computed anew."""
        cold = self.cold_run(STAMP)
        for args in ([], ["--verify", "off"], REPLICATED):
            with self.subTest(args=args):
                found = self.snapshot(
                    *STAMP, *lanes(3), *args, "--storage", self.tier,
                    "--inject", "flip=storage@every")
                again = self.kept(STAMP, 3, *args)
                for run in (found, again):
                    self.same(cold, run)
                self.assertGreater(found.data["bad_storage_pages"] +
                                   again.data["bad_storage_pages"], 0)
                self.assertGreater(found.storage["bad_pages"] +
                                   again.storage["bad_pages"], 0)
                shutil.rmtree(self.tier)

    def test_failures_of_operations(self):
        cold = self.cold_run(STAMP)
        self.fill()
        for inject, counter in (("fetch.fail@every", "unread_pages"),
                                ("fetch.fail@rank:2,count:3",
                                 "unread_pages"),
                                ("store.fail@every", "stores_failed"),
                                ("store.fail@rank:1,count:2",
                                 "stores_failed")):
            with self.subTest(inject=inject):
                copy = self.path("copy")
                shutil.copytree(self.tier, copy)
                found = self.snapshot(*STAMP, *lanes(4), "--storage", copy,
                                      "--from", copy, "--inject", inject)
                self.same(cold, found)
                self.assertGreater(found.storage[counter], 0)
                shutil.rmtree(copy)


class Usage(Restart):
    def refused(self, status, text, *args):
        for comm in ("local", "mpi"):
            run = pl.Run(self.program, *STAMP, *args, "--comm", comm)
            self.assertEqual(run.status, status, str(run))
            self.assertEqual(run.stdout, b"")
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, str(run))
            self.assertIn(text, run.stderr)

    def test_folders(self):
        self.fill(c=2)
        other = self.path("other")
        two = lanes(2)
        self.refused(2, f"add --from {self.tier} to start with it", *two,
                     "--storage", self.tier)
        self.refused(2, "copy the folder first", *two, "--storage", other,
                     "--from", self.tier)
        self.refused(3, "there is no such folder or snapshot", *two, "--from",
                     other)
        self.refused(3, "", *two, "--from", pl.SLICE)
        self.assertFalse(os.path.exists(other))

    def test_one_run_at_a_time(self):
        self.fill(c=2)
        first = subprocess.Popen(
            [self.program, "run", *map(str, STAMP), *map(str, lanes(2)),
             "--comm", "local", "--storage", self.tier, "--from", self.tier,
             "--timeout", f"{2 * pl.LIMIT_S}s", "--inject", "rank.stall@rank:1,tick:3"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=pl.environment())
        self.addCleanup(first.stderr.close)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        self.assertIn("stops answering", first.stderr.readline())
        run = pl.Run(self.program, *STAMP, *lanes(2), "--comm", "local",
                     "--storage", self.tier, "--from", self.tier)
        self.assertEqual(run.status, 3, str(run))
        self.assertIn("another run", run.stderr)


if __name__ == "__main__":
    pl.main(__doc__)
