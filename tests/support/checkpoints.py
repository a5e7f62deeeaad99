"""Real models, however their prompts are run: what tests/oracle and tests/gpu
share.

A checkpoint is a folder: config.json, weights, prompts.json, and
expected.safetensors made by tests/data/make_checkpoints.py.
"""
import csv
import json
import os
import re
import subprocess

import pagelane_run as pl

# Device pages that the prompts of two passes do not fit: load-backs happen.
FEW = ["--passes", "2", "--page-size", "16", "--chunk", "64"]

TOO_SMALL = 4  # exit status: of pools


def fewest_pages(folder, lanes):
    """16-token pages for the longest prompt if lanes were even, and scratch."""
    with open(os.path.join(folder, "prompts.json"), encoding="utf-8") as file:
        longest = max(len(p) for p in json.load(file)["prompts"])
    return -(-(-(-longest // 16)) // lanes) + 1


def prompts(folder):
    """The arguments that run a checkpoint's prompts."""
    return ["--model", folder, "--trace",
            os.path.join(folder, "prompts.json"), "--max-new", "16"]


class Ended:
    """A run: its exit status (None: it did not end), what --json says, the
    digest and tokens of each request, and stderr."""

    def __init__(self, status, talk, counts=None, rows=None):
        self.status, self.talk = status, talk
        self.counts, self.rows = counts, rows

    def problem(self, wanted=None, loads=False):
        """What is wrong with it, or None.  `wanted`: rows of one pass."""
        if self.status != 0:
            return f"exit {self.status}: {self.talk.strip()[-800:]}"
        if loads and self.counts["loads"] == 0:
            return "no load-back happened"
        for i, row in enumerate(self.rows):
            if wanted is not None and row != wanted[i % len(wanted)]:
                return f"request {i} differs"
        return None


class Runner:
    """Runs one after another; a line for each, and how many have failed."""

    def __init__(self, program, scratch, common=(), timeout=None):
        self.program = program
        self.snapshot = os.path.join(scratch, "run.h5")
        self.common = list(common)  # arguments of every run
        self.timeout = timeout
        self.failed = 0
        self.n = 0

    def say(self, name, problem, note="equal"):
        self.n += 1
        self.failed += problem is not None
        print(f"  {name:48s} {problem or note}", flush=True)

    def rows(self):
        """Of the snapshot: digest and tokens of each request."""
        table = pl.Run(self.program, self.snapshot, "requests", verb="export")
        return [(row["digest"], row["tokens"])
                for row in csv.DictReader(table.stdout.decode().splitlines())]

    def run(self, arguments, processes=0):
        """`processes`: ranks under mpirun; 0: as the arguments say."""
        try:
            done = pl.Run(self.program, "--json", "--snapshot", self.snapshot,
                          *self.common, *arguments, timeout=self.timeout,
                          **pl.launch(processes, processes > 0))
        except subprocess.TimeoutExpired:
            return Ended(None, f"no end within {self.timeout} s")
        if done.status != 0:
            return Ended(done.status, done.stderr)
        return Ended(0, done.stderr, done.json(), self.rows())

    def run_with_few_pages(self, folder, lanes, arguments, processes=0):
        """With as few device pages as the longest prompt allows."""
        few = fewest_pages(folder, lanes)
        for pages in range(few, few + 8):
            done = self.run([*prompts(folder), *arguments, "--device-pages",
                             pages], processes)
            if done.status != TOO_SMALL:
                break
        return done

    def reference(self, folder, name, arguments, processes=0):
        """Against the reference; returns the rows."""
        expected = os.path.join(folder, "expected.safetensors")
        done = self.run([*prompts(folder), "--expect", expected, *arguments],
                        processes)
        problem = done.problem()
        error = re.search("worst error [^;(]*[^;( ]", done.talk)
        if problem is None and error is None:
            problem = "the reference was not compared"
        self.say(f"{name} against the reference", problem,
                 error and f"equal, {error.group()}")
        return done.rows

    def same(self, folder, name, arguments, wanted, lanes=0, processes=0):
        """`lanes` > 0: with few pages in so many lanes, and load-backs."""
        if wanted is None:
            self.say(name, "there is nothing to compare with")
            return
        if lanes > 0:
            done = self.run_with_few_pages(folder, lanes, arguments, processes)
        else:
            done = self.run([*prompts(folder), *arguments], processes)
        self.say(name, done.problem(wanted, lanes > 0))

    def end(self):
        print(f"{self.n - self.failed} passed, {self.failed} failed")
        return 1 if self.failed else 0
