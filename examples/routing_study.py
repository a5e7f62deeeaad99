#!/usr/bin/env python3
"""Many caches or one: hit rate and prefill time by router, beside published.

    routing_study.py PROGRAM TRACE [--instances 10] [--tokens 3000000] ...

Simulates prefill instances of one GPU with a cache of so many tokens each, once
for each router, and one group of as many GPUs that share their pages. Answers
are of one token. docs/studies/routing.md says what the columns are. TRACE is in
Mooncake's format. What follows `--` goes to `pagelane sim` as it is.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

BLOCK = 512
PAGES_BESIDE = 2  # scratch, and the partial page of the prompt that is computed
ROUTERS = ("random", "round-robin", "least-loaded", "best-prefix",
           "prefix+load")
ALONE_MS = 60000
COLUMNS = ("caches", "router", "hit rate", "busiest instance",
           "prefill, GPU s", "TTFT, s")
# Requests of a whole trace: hit rate and prefill of a request, local and
# global; figure 10 of the Mooncake paper (FAST 2025), read off the plot.
PUBLISHED = {12031: ((0.17, 1.38), (0.375, 1.05)),
             3993: ((0.265, 1.49), (0.625, 0.78)),
             23608: ((0.42, 0.70), (0.585, 0.52))}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=3000000,
                        help="of each cache")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:end])
    args.more = words[end + 1:]
    return args


def first_alone(trace, path):
    """The trace with its first request a minute before all others."""
    with open(trace, encoding="utf-8") as rows, \
            open(path, "w", encoding="utf-8") as file:
        for i, line in enumerate(rows):
            row = json.loads(line)
            row["timestamp"] += ALONE_MS if i > 0 else 0
            print(json.dumps(row), file=file)
    return path


def simulate(args, trace, *shape):
    line = [args.program, "sim", "--trace", trace, *shape, "--page-size",
            str(BLOCK), "--device-pages", str(args.tokens // BLOCK +
                                              PAGES_BESIDE),
            "--host-pages", "0", "--decode-pages", "unlimited", "--max-new",
            "1", "--json", "--log-level", "error", *args.more]
    return json.loads(subprocess.run(line, check=True,
                                     stdout=subprocess.PIPE).stdout)


def row(args, caches, router, said):
    work = [instance["computed_tokens"]
            for instance in said.get("instances", ())]
    spent = sum(v for k, v in said.items()
                if k.startswith("prefill_") and k.endswith("_ms"))
    if not work:  # all ranks of the group compute at the same time
        spent *= args.instances
    return (caches, router, f"{said['hit_rate']:.4f}",
            f"{100 * max(work) / sum(work):.1f} %" if work else "-",
            f"{spent / said['completed'] / 1e3:.3f}",
            f"{said['mean_ttft_ms'] / 1e3:.2f}")


def published(caches, values):
    return (caches, "published", f"{values[0]:.3f}", "-", f"{values[1]:.2f}",
            "-")


def study(args, folder):
    """Rows of cells."""
    local = ("--prefill", f"{args.instances}x1", "--router")
    rows = [row(args, "local", router, simulate(args, args.trace, *local,
                                                router))
            for router in ROUTERS]
    path = first_alone(args.trace, os.path.join(folder, "trace.jsonl"))
    rows += [row(args, "local, the first alone", router,
                 simulate(args, path, *local, router))
             for router in ROUTERS[-2:]]
    said = simulate(args, args.trace, "--cp", str(args.instances))
    rows.append(row(args, "global", "-", said))
    beside = PUBLISHED.get(said["completed"], ())
    return rows + [published(caches, values) for caches, values in
                   zip(("local", "global"), beside)]


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        rows = study(args, folder)
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"exit status {error.returncode} of: {' '.join(error.cmd)}")
