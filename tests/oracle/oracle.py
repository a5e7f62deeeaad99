#!/usr/bin/python3
"""Real models: the same tokens as Hugging Face, however the prompts are run.

For each checkpoint folder (tests/support/checkpoints.py): every number of ranks
must reproduce the reference; and every other way to run the prompts (twice with
load-backs from the host, a decode rank, other chunks and pages, another
ownership, a late device) must give the same tokens and KV digests, for each KV
dtype.

  oracle.py --program PAGELANE [--brief] FOLDER...
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402
from checkpoints import FEW, Runner, prompts  # noqa: E402


def ways(brief):
    """Name, arguments; lanes where few pages must bring load-backs."""
    yield "D=1", ["--ranks", "3", "--decode-ranks", "1"], 0
    yield "chunk 64", ["--ranks", "2", "--chunk", "64"], 0
    yield "replicated", ["--ranks", "3", "--ownership", "replicated"], 0
    yield "guard", ["--ranks", "2", "--device", "guard", "--explore", "2"], 0
    yield "passes 2, few pages", ["--ranks", "2"] + FEW, 2
    if not brief:
        yield "chunk 128", ["--ranks", "4", "--chunk", "128"], 0
        yield "chunk 4096", ["--ranks", "8", "--chunk", "4096"], 0
        yield "passes 2, D=1", ["--ranks", "4", "--decode-ranks", "1"] + FEW, 3
        yield "replicated, passes 2", \
            ["--ranks", "2", "--ownership", "replicated"] + FEW, 1


def check(runner, folder, brief):
    print(folder)
    wanted = None
    for ranks in ([1, 3, 8] if brief else [1, 2, 3, 4, 8]):
        local = ["--comm", "local"] if ranks % 2 else []
        rows = runner.reference(folder, f"C={ranks}",
                                ["--ranks", ranks, *local])
        wanted = wanted or rows
        if rows != wanted:
            runner.say(f"C={ranks} digests and tokens", "differ from C=1")
    for dtype in ["f32", "bf16", "fp8"]:
        if dtype != "f32":
            wanted = runner.run([*prompts(folder), "--kv-dtype", dtype]).rows
        for name, arguments, lanes in ways(brief):
            runner.same(folder, f"{dtype} {name}",
                        ["--comm", "local", "--kv-dtype", dtype, *arguments],
                        wanted, lanes)


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
        return pl.SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(args.program, scratch)
        for folder in folders:
            check(runner, folder, args.brief)
    return runner.end()


if __name__ == "__main__":
    sys.exit(main())
