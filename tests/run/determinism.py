#!/usr/bin/python3
"""Two runs of the same seed are the same run, byte for byte.

Of every pair: stdout is the same, and the snapshots are equal in the sense of
docs/schema.md: h5diff -c outside /timing finds nothing, and says nothing but
which datasets are empty in both.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

TOKENS = os.path.join(pl.ROOT, "datasets", "tokens_sample.jsonl")


def content(path):
    """Everything outside /timing: {name: bytes of a dataset or attribute}."""
    found = {}

    def visit(name, item):
        if name.split("/")[0] == "timing":
            return
        if isinstance(item, h5py.Dataset):
            found["/" + name] = (str(item.dtype), item.shape,
                                 item[...].tobytes())
        for key, value in item.attrs.items():
            found[f"/{name}@{key}"] = np.asarray(value).tolist()

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return found


class Determinism(pl.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def h5diff(self, a, b):
        """(exit status, lines that matter)"""
        done = subprocess.run(["h5diff", "-c", "--exclude-path", "/timing", a,
                               b], capture_output=True, text=True)
        lines = (done.stdout + done.stderr).splitlines()
        return done.returncode, [line for line in lines if line.strip() and
                                 not line.endswith("is an empty dataset")]

    def pair(self, *args, first=(), second=(), base=pl.SMALL):
        """Runs twice; the two paths of the snapshots, which must be equal."""
        paths = [self.path("a.h5"), self.path("b.h5")]
        runs = [self.run_program(*base, *args, *more, "--snapshot", path)
                for path, more in zip(paths, (first, second))]
        self.assertEqual(*(run.stdout for run in runs))
        self.assertEqual(self.h5diff(*paths), (0, []))
        return paths

    def test_local(self):
        self.pair(*pl.LOCAL8)
        # The pair's law can fail: another configuration is another file.
        self.run_program(*pl.SMALL, *pl.LOCAL8, "--max-batch", 63,
                         "--snapshot", self.path("c.h5"))
        status, lines = self.h5diff(self.path("a.h5"), self.path("c.h5"))
        self.assertNotEqual((status, lines), (0, []))

    def test_local_with_decode_ranks_as_json(self):
        self.pair("--ranks", 4, "--decode-ranks", 2, "--comm", "local",
                  "--json", "--device-pages", 400)

    def test_mpi(self):
        self.pair("--ranks", 3, "--device-pages", 500)

    def test_guard_with_late_copies(self):
        self.pair(*pl.LOCAL8, "--device", "guard", "--explore", 3)

    def test_guard_with_late_copies_under_mpi(self):
        self.pair("--ranks", 3, "--decode-ranks", 1, "--device-pages", 700,
                  "--device", "guard", "--explore", 3)

    def test_cost_executor(self):
        self.pair("--ranks", 8, "--comm", "local", "--executor", "cost",
                  "--explore", 3)

    def test_a_run_started_by_mpirun_is_the_same_run(self):
        """What started the ranks, and what the options came from, is not seen:
        neither on stdout nor outside /timing."""
        a, b = self.path("a.h5"), self.path("b.h5")
        one = self.run_program(*pl.SMALL, "--ranks", 2, "--snapshot", a)
        two = self.run_program(
            *pl.SMALL, "--snapshot", b, launcher=["mpirun", "-n", "2"],
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1")
        self.assertEqual(one.stdout, two.stdout)
        self.assertEqual(self.h5diff(a, b), (0, []))

    def test_comms_differ_in_name_only(self):
        """9.3 every rank decides the same, wherever it runs"""
        paths = [self.path(comm) for comm in ("local", "mpi")]
        runs = [self.run_program(*pl.SMALL, "--ranks", 3, "--decode-ranks", 1,
                                 "--device-pages", 500, "--comm", comm,
                                 "--snapshot", self.path(comm))
                for comm in ("local", "mpi")]
        self.assertEqual(*(run.stdout for run in runs))
        one, two = (content(path) for path in paths)
        self.assertEqual([name for name in sorted(set(one) | set(two))
                          if one.get(name) != two.get(name)],
                         ["/config@comm"])

    def test_another_seed_is_another_order_of_the_same(self):
        """Late copies drawn from another seed move events and nothing else.
        Token traces only: ids of a Mooncake trace expand by the seed too."""
        base = ["--trace", TOKENS, "--passes", 4, "--ranks", 4, "--comm",
                "local", "--page-size", 16, "--chunk", 64, "--device-pages",
                12, "--host-pages", 60, "--max-new", 8, "--explore", 5]
        snapshots, kinds = [], []
        for seed in (0, 5):
            path = self.path(f"seed{seed}.h5")
            self.run_program(*base, "--seed", seed, "--snapshot", path)
            snapshots.append(pl.Snapshot(path))
            with h5py.File(path, "r") as file:
                kinds.append(file["events/kind"][...])
        one, two = snapshots
        self.assertGreater(one.cache["loads"], 0)
        self.assertGreater(one.cache["evictions"], 0)
        self.assertFalse(np.array_equal(*kinds))
        for name in ("digest", "tokens", "tokens_offset", "failed"):
            self.assertTrue(np.array_equal(one.requests[name],
                                           two.requests[name]), name)

    def test_the_seed_of_a_mooncake_trace_is_of_its_tokens(self):
        runs = [self.run_program(*pl.SMALL, *pl.LOCAL8, "--limit", 20, "--json",
                                 "--seed", seed).json() for seed in (0, 5)]
        self.assertNotEqual(runs[0]["kv_digest"], runs[1]["kv_digest"])


class Agreeing(pl.Case):
    """--json says what the snapshot says."""

    def agrees(self, *args):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.h5")
            run = self.run_program(*args, "--json", "--snapshot", path)
            said, snapshot = run.json(), pl.Snapshot(path)
        self.assertIsNone(pl.summary_differs(said, snapshot))
        return said, snapshot


class Json(Agreeing):
    """The grid checks it on all its points; here with what it does not have."""

    def test_failed_requests(self):
        said, _ = self.agrees(*pl.SMALL, *pl.LOCAL8, "--inject",
                              "transfer.abort")
        self.assertEqual(said["failed"], 1)

    def test_no_bytes(self):
        said, _ = self.agrees(*pl.SMALL, "--ranks", 8, "--executor", "cost")
        self.assertNotIn("kv_digest", said)


class Preemption(Agreeing):
    """9.50 A decode pool that is too small for all that decode puts requests off:
    into its host buffer, or, without one, back to prefill.  Neither shows in
    tokens or digests."""

    def write_trace(self, folder):
        path = os.path.join(folder, "long_outputs.jsonl")
        with open(path, "w") as file:
            for i in range(24):
                tokens = [(i % 5 * 1000 + t * 7) % 50000 for t in
                          range(20 + 9 * i)]
                json.dump({"timestamp": i // 8, "output_length": 150 - 4 * i,
                           "prompt_token_ids": tokens}, file)
                file.write("\n")
        return path

    def test_tokens_and_digests_do_not_show_it(self):
        with tempfile.TemporaryDirectory() as folder:
            base = ["--trace", self.write_trace(folder), "--ranks", 3, "--comm",
                    "local", "--page-size", 8, "--chunk", 32, "--device-pages",
                    100, "--host-pages", 100, "--decode-ranks", 1]
            roomy, tight, bare = (self.agrees(*base, *args) for args in (
                ["--decode-pages", 1000],
                ["--decode-pages", 60, "--decode-host-pages", 40],
                ["--decode-pages", 60, "--decode-host-pages", 0]))
        self.assertEqual(roomy[0]["offloads"] + roomy[0]["reentries"], 0)
        self.assertGreater(tight[0]["offloads"], 0)
        self.assertGreater(tight[0]["resumes"], 0)
        self.assertGreater(bare[0]["reentries"], 0)
        self.assertEqual(bare[0]["offloads"], 0)
        for name in ("digest", "tokens", "tokens_offset", "failed"):
            for _, other in (tight, bare):
                self.assertTrue(np.array_equal(roomy[1].requests[name],
                                               other.requests[name]), name)


if __name__ == "__main__":
    pl.main(__doc__)
