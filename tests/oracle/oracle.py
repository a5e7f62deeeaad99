#!/usr/bin/python3
"""Real models: the same tokens as Hugging Face, however the prompts are run.

For each checkpoint folder (config.json, weights, prompts.json, and
expected.safetensors made by tests/data/make_checkpoints.py): every number of
ranks must reproduce the reference; and every other way to run the prompts
(twice with load-backs from the host, a decode rank, other chunks and pages,
another ownership, a late device) must give the same tokens and KV digests,
for each KV dtype.

  oracle.py --program PAGELANE [--brief] FOLDER...
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

FEW = ["--passes", "2", "--page-size", "16", "--chunk", "64"]


def ways(brief):
    """Name, arguments, whether load-backs must happen."""
    yield "D=1", ["--ranks", "3", "--decode-ranks", "1"], False
    yield "chunk 64", ["--ranks", "2", "--chunk", "64"], False
    yield "replicated", ["--ranks", "3", "--ownership", "replicated"], False
    yield "guard", ["--ranks", "2", "--device", "guard", "--explore", "2"], False
    yield "passes 2, few pages", ["--ranks", "2"] + FEW, True
    if not brief:
        yield "chunk 128", ["--ranks", "4", "--chunk", "128"], False
        yield "chunk 4096", ["--ranks", "8", "--chunk", "4096"], False
        yield "passes 2, D=1", ["--ranks", "4", "--decode-ranks", "1"] + FEW, True
        yield "replicated, passes 2", \
            ["--ranks", "2", "--ownership", "replicated"] + FEW, True


def fewest_pages(folder, ranks):
    """16-token pages for the longest prompt if lanes were even, and scratch."""
    with open(os.path.join(folder, "prompts.json"), encoding="utf-8") as file:
        longest = max(len(p) for p in json.load(file)["prompts"])
    return -(-(-(-longest // 16)) // ranks) + 1


class Runner:
    def __init__(self, program, scratch):
        self.program = program
        self.scratch = scratch
        self.failed = 0
        self.n = 0

    def say(self, name, problem):
        self.n += 1
        self.failed += problem is not None
        print(f"  {name:48s} {problem or 'equal'}", flush=True)

    def run(self, folder, arguments):
        """Exit status, JSON of stdout, requests of the snapshot, stderr."""
        snapshot = os.path.join(self.scratch, "run.h5")
        line = [self.program, "run", "--model", folder, "--trace",
                os.path.join(folder, "prompts.json"), "--max-new", "16",
                "--json", "--snapshot", snapshot, *arguments]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            return done.returncode, None, None, done.stderr
        with h5py.File(snapshot, "r") as file:
            requests = file["requests"]
            digests = requests["digest"][...]
            ends = requests["tokens_offset"][...]
            tokens = requests["tokens"][...]
        rows = [(int(d), tuple(tokens[ends[i]:ends[i + 1]]))
                for i, d in enumerate(digests)]
        return 0, json.loads(done.stdout), rows, done.stderr

    def reference(self, folder, ranks, arguments):
        expected = os.path.join(folder, "expected.safetensors")
        status, _, rows, talk = self.run(
            folder, ["--ranks", str(ranks), "--expect", expected, *arguments])
        problem = None if status == 0 else f"exit {status}: {talk.strip()}"
        if problem is None and "worst error" not in talk:
            problem = "the reference was not compared"
        self.say(f"C={ranks} against the reference", problem)
        return rows

    def run_with_few_pages(self, folder, ranks, arguments):
        """With as few device pages as the longest prompt allows."""
        few = fewest_pages(folder, ranks)
        for pages in range(few, few + 8):
            done = self.run(folder, arguments + ["--device-pages", str(pages)])
            if done[0] != 4:
                break
        return done

    def same(self, folder, name, arguments, ranks, wanted):
        loads = ranks > 0
        if loads:
            done = self.run_with_few_pages(folder, ranks, arguments)
        else:
            done = self.run(folder, arguments)
        status, counts, rows, talk = done
        problem = None
        if status != 0:
            problem = f"exit {status}: {talk.strip()}"
        elif loads and counts["loads"] == 0:
            problem = "no load-back happened"
        else:
            for i, row in enumerate(rows):
                if row != wanted[i % len(wanted)]:
                    problem = f"request {i} differs"
                    break
        self.say(name, problem)


def check(runner, folder, brief):
    print(folder)
    wanted = None
    for ranks in ([1, 3, 8] if brief else [1, 2, 3, 4, 8]):
        local = ["--comm", "local"] if ranks % 2 else []
        rows = runner.reference(folder, ranks, local)
        wanted = wanted or rows
        if rows != wanted:
            runner.say(f"C={ranks} digests and tokens", "differ from C=1")
    for dtype in ["f32", "bf16", "fp8"]:
        if dtype != "f32":
            wanted = runner.run(folder, ["--kv-dtype", dtype])[2]
        for name, arguments, loads in ways(brief):
            arguments = ["--comm", "local", "--kv-dtype", dtype, *arguments]
            ranks = 0
            if loads:
                at = arguments.index("--ranks") + 1
                ranks = int(arguments[at]) - ("--decode-ranks" in arguments)
                ranks = 1 if "replicated" in arguments else ranks
            runner.same(folder, f"{dtype} {name}", arguments, ranks, wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    folders = [f for f in args.folders if os.path.isdir(f)]
    for missing in set(args.folders) - set(folders):
        print(f"skipped: {missing} is not there")
    if not folders:
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(args.program, scratch)
        for folder in folders:
            check(runner, folder, args.brief)
    print(f"{runner.n - runner.failed} passed, {runner.failed} failed")
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
