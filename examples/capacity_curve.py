#!/usr/bin/env python3
"""Hit rate over the size of the cache: measured beside published.

    capacity_curve.py PROGRAM conversation_trace.jsonl [--tokens 1000000,...]

Published is figure 9 of the Mooncake paper (FAST 2025), read off the plot, for
the conversation trace, one pool of blocks of 512 tokens. docs/studies/capacity.md
says what the columns are and why they differ.
"""
import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

BLOCK = 512
PAGES_BESIDE = 2  # scratch, and the partial page of the prompt that is computed
POLICIES = ("lru", "lfu", "fifo")
PUBLISHED = {10**4: 0.045, 10**5: 0.073, 10**6: 0.087, 2 * 10**6: 0.12,
             3 * 10**6: 0.165, 5 * 10**6: 0.25, 10**7: 0.33, 5 * 10**7: 0.40,
             10**9: 0.40}
# The common system prompt, of which the ids tell one block; of what is hit
# beyond it a block ends in the middle, in the mean.
SYSTEM_PROMPT = 878
BEYOND = BLOCK // 2


def call(*line):
    return subprocess.run(line, check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def exact(program, trace, capacities):
    """Blocks hit of all, by the one-pass curve; the prompts' longest."""
    said = json.loads(call(program, "trace", "stats", trace, "--json",
                           "--capacity", ",".join(map(str, capacities))))
    return ([hit / said["lru"]["of"] for hit in said["lru"]["hit"]],
            -(-said["input_tokens"]["max"] // BLOCK))


def with_system_prompt(rows):
    hit = total = 0
    for row in rows:
        prompt, tokens = (int(row[name]) for name in ("prompt_tokens",
                                                      "device_hit_tokens"))
        more = {0: 0, BLOCK: SYSTEM_PROMPT - BLOCK}.get(tokens, BEYOND)
        hit += min(tokens + more, prompt)
        total += prompt
    return hit / total


def simulate(program, trace, blocks, policy, folder):
    """Tokens hit of all, and the same with the system prompt's credited."""
    path = os.path.join(folder, "sim.h5")
    said = json.loads(call(
        program, "sim", "--trace", trace, "--cp", "1", "--page-size",
        str(BLOCK), "--device-pages", str(blocks + PAGES_BESIDE),
        "--host-pages", "0", "--decode-pages", "unlimited", "--max-new", "1",
        "--evict", policy, "--events", "off", "--snapshot", path, "--json",
        "--log-level", "error"))
    rows = csv.DictReader(io.StringIO(call(program, "export", path,
                                           "requests")))
    return said["hit_rate"], with_system_prompt(rows)


def row(args, tokens, exactly, longest, folder):
    blocks = tokens // BLOCK
    cells = [f"{tokens:,}", f"{blocks:,}", f"{PUBLISHED[tokens]:.3f}",
             f"{exactly:.4f}"]
    if blocks < longest:  # an engine refuses prompts that do not fit
        return cells + ["-"] * (len(POLICIES) + 1)
    rates = {policy: simulate(args.program, args.trace, blocks, policy, folder)
             for policy in POLICIES}
    return [*cells, f"{rates['lru'][1]:.4f}",
            *(f"{rates[policy][0]:.4f}" for policy in POLICIES)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--tokens", default=list(PUBLISHED),
                        help="of those published",
                        type=lambda s: [int(word) for word in s.split(",")])
    args = parser.parse_args()
    if not set(args.tokens) <= set(PUBLISHED):
        parser.error("--tokens: known are " + ",".join(map(str, PUBLISHED)))
    curve, longest = exact(args.program, args.trace,
                           [tokens // BLOCK for tokens in args.tokens])
    lines = [("tokens", "blocks", "published", "LRU, exact",
              "sim lru + system prompt", *("sim " + p for p in POLICIES))]
    lines.append(["---"] * len(lines[0]))
    with tempfile.TemporaryDirectory() as folder:
        lines += [row(args, tokens, exactly, longest, folder)
                  for tokens, exactly in zip(args.tokens, curve)]
    for cells in lines:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"exit status {error.returncode} of: {' '.join(error.cmd)}")
