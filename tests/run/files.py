#!/usr/bin/python3
"""Files that a run writes: whole, its own, and never over what it reads."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

SLICE = os.path.join(pl.ROOT, "datasets", "mooncake_conversation_slice.jsonl")
PROGRAM = None


def command(*arguments, trace=SLICE):
    return [PROGRAM, "run", "--trace", trace, "--limit", "40",
            "--block-tokens", "16", "--max-new", "4", *arguments]


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_runs_that_write_one_snapshot_take_turns(self):
        for ranks in ("1", "3"):
            file = self.path("one.h5")
            runs = [subprocess.Popen(
                command("--ranks", ranks, "--snapshot", file),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(3)]
            for run in runs:
                talk = run.communicate()[1]
                self.assertEqual(run.returncode, 0, talk)
            look = subprocess.run([PROGRAM, "inspect", file],
                                  capture_output=True, text=True)
            self.assertEqual(look.returncode, 0, look.stderr)
            self.assertEqual(os.listdir(self.folder), ["one.h5"])

    def refused(self, status, kept, line):
        with open(kept, "rb") as file:
            before = file.read()
        run = subprocess.run(line, capture_output=True, text=True)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
        with open(kept, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_what_is_no_snapshot_is_kept(self):
        trace = self.path("trace.jsonl")
        shutil.copy(SLICE, trace)
        self.refused(3, trace, command("--snapshot", trace, trace=trace))

    def test_tokens_do_not_replace_what_is_read(self):
        trace = self.path("trace.jsonl")
        shutil.copy(SLICE, trace)
        os.link(trace, self.path("same"))
        for name in (trace, self.path("same")):
            self.refused(2, trace, command("--tokens-out", name, trace=trace))

    def limited(self, *arguments, kib=64):
        """A run whose files may have so many KiB."""
        return subprocess.run(
            ["bash", "-c", f"ulimit -f {kib}; exec \"$@\"", "bash",
             *command("--json", "--comm", "local", *arguments)],
            capture_output=True, text=True)

    def test_files_that_may_grow_no_more(self):
        """... are a full disk: the tier is off and said so, no snapshot is
        written, the one that was there stays."""
        right = subprocess.run(command("--json"), capture_output=True,
                               text=True)
        run = self.limited("--ranks", "3", "--host-pages", "200", "--storage",
                           self.path("tier"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("File too large; nothing more is "
                                          "stored from here"), 1, run.stderr)
        digests = [json.loads(one.stdout)["kv_digest"] for one in (right, run)]
        self.assertEqual(*digests)
        file = self.path("one.h5")
        subprocess.run(command("--snapshot", file), capture_output=True,
                       check=True)
        with open(file, "rb") as before:
            before = before.read()
        self.assertGreater(len(before), 64 << 10)
        run = self.limited("--snapshot", file, "--snapshot-every", "10req")
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertEqual(run.stderr.count("the run goes on without this "
                                          "snapshot"), 1, run.stderr)
        self.assertIn(f"cannot write {file}.partial: File too large",
                      run.stderr)
        with open(file, "rb") as after:
            self.assertEqual(after.read(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["one.h5", "tier"])


if __name__ == "__main__":
    at = sys.argv.index("--program")
    PROGRAM = sys.argv[at + 1]
    unittest.main(argv=sys.argv[:at] + sys.argv[at + 2:])
