#!/usr/bin/env python3
"""All ownership rules with all eviction policies, at equal bytes a rank.

    choices_study.py PROGRAM TRACE [--cp 8] [--mem-fraction 0.82] [-n 2] ...

One `pagelane sweep`; a line for each of its points (docs/studies/choices.md says
what the columns are).  What follows `--` goes to it as it is.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

RULES = "replicated,zigzag,round-robin,interleave:4,layer"
POLICIES = "lru,lfu,slru,fifo,s3fifo,sieve,lane-aware,belady"
COLUMNS = ("ownership", "evict", "device, M tokens", "host, M tokens", "hits",
           "to host, GB", "from host, GB", "to decode, GB", "materialize, s",
           "load balance", "backup balance", "short alone", "TTFT, s",
           "p99, s")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--cp", default="8")
    parser.add_argument("--model", default="GLM-5.2")
    parser.add_argument("--hardware", default="H200")
    parser.add_argument("--mem-fraction", default="0.82")
    parser.add_argument("--host-gb", default="32", help="of a rank")
    parser.add_argument("--speedup", default="0.3",
                        help="so that the slowest point keeps up")
    parser.add_argument("--ownership", default=RULES)
    parser.add_argument("--evict", default=POLICIES)
    parser.add_argument("-n", default="1", help="ranks that compute points")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:end])
    args.more = words[end + 1:]
    return args


def sweep(args, folder):
    line = [args.program, "sweep", "-n", args.n, "--trace", args.trace,
            "--cp", args.cp, "--decode-ranks", args.cp, "--decode-pages",
            "unlimited", "--model", args.model, "--hardware", args.hardware,
            "--kv-dtype", "fp8", "--mem-fraction", args.mem_fraction,
            "--device-pages", "fit", "--host-gb", args.host_gb, "--speedup",
            args.speedup, "--ownership", args.ownership, "--evict", args.evict,
            "--output", os.path.join(folder, "sweep.h5"), "--json",
            "--log-level", "error", *args.more]
    said = json.loads(subprocess.run(line, check=True,
                                     stdout=subprocess.PIPE).stdout)
    return sorted(said["points"], key=lambda point: point["point"])


def cells(said):
    def of(name, digits, by=1.0):
        return f"{said[name] / by:.{digits}f}"

    def balance(name):
        return of(name, 3) if said[name] > 0 else "-"
    return (of("device_capacity_tokens", 2, 1e6),
            of("host_capacity_tokens", 2, 1e6), of("hit_rate", 4),
            of("d2h_link_bytes", 1, 1e9), of("h2d_link_bytes", 1, 1e9),
            of("pd_link_bytes", 1, 1e9), of("prefill_materialize_ms", 1, 1e3),
            balance("load_imbalance"), balance("backup_imbalance"),
            f"{said['lane_alone_deficits'] / said['lane_allocations']:.1%}",
            of("mean_ttft_ms", 2, 1e3), of("p99_ttft_ms", 2, 1e3))


def main():
    args = arguments()
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    with tempfile.TemporaryDirectory() as folder:
        points = sweep(args, folder)
    for point in points:
        # an axis with one item is none
        name = [point["options"].get(axis, getattr(args, axis))
                for axis in ("ownership", "evict")]
        rows.append((*name, *(cells(point["metrics"])
                              if point["exit_status"] == 0 else
                              ["-"] * (len(COLUMNS) - 2))))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"exit status {error.returncode} of: {' '.join(error.cmd)}")
