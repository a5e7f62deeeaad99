#!/usr/bin/env python3
"""How often does a load-back find a lane short, and what helps?

    lane_study.py PROGRAM TRACE [--cp 4,8] [--pages 24000,48000,96000] ...

Simulates the trace once for each number of ranks, size of the device tier,
ownership and eviction policy, and prints a line for each (docs/studies/lanes.md
says what the columns are). What follows `--` goes to `pagelane sim` as it is.
Needs h5py.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

HOST = 4  # the host tier has so many times the pages of the device tier
COLUMNS = ("cp", "pages", "ownership", "evict", "load-backs", "short of room",
           "of a lane", "cut", "hit rate", "collateral")


def list_of(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--cp", type=list_of(int), default=[4, 8])
    parser.add_argument("--pages", type=list_of(int),
                        default=[24000, 48000, 96000],
                        help="device pages of all lanes together")
    parser.add_argument("--ownership", type=list_of(str),
                        default=["zigzag", "round-robin"])
    parser.add_argument("--evict", type=list_of(str),
                        default=["lru", "lane-aware"])
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:end])
    args.more = words[end + 1:]
    return args


def simulate(args, cp, pages, ownership, evict, path):
    line = [args.program, "sim", "--trace", args.trace, "--cp", str(cp),
            "--device-pages", str(pages // cp + 1),  # and a scratch page
            "--host-pages", str(HOST * pages // cp),
            "--decode-pages", "unlimited", "--ownership", ownership, "--evict",
            evict, "--events", "all", "--snapshot", path, "--json",
            "--log-level", "error", *args.more]
    return json.loads(subprocess.run(line, check=True,
                                     stdout=subprocess.PIPE).stdout)


def load_backs(path, capacity):
    """(tried, found a lane short, of these with enough free pages in all).

    A load-back is tried before its request is admitted, what chunks need
    afterwards: so a deficit before the admission is the load-back's."""
    with h5py.File(path, "r") as file:
        events = file["events"]
        names = [name.decode() for name in events["kinds"][:]]
        kinds = [names[kind] for kind in events["kind"][:]]
        requests = events["request"][:].tolist()
        n_pages = np.diff(events["pages_offset"][:]).tolist()
    free = capacity
    admitted, free_then = set(), {}
    tried = short = lane_alone = 0
    for kind, request, n in zip(kinds, requests, n_pages):
        if kind == "alloc":
            free -= n
        elif kind == "free":
            free += n
        elif kind == "reenter":
            admitted.discard(request)
        elif kind == "deficit" and request not in admitted:
            free_then[request] = free
        elif kind == "load":
            tried += 1
            if request in free_then:
                short += 1
                lane_alone += free_then.pop(request) >= n
        elif kind == "admit":
            admitted.add(request)
            if free_then.pop(request, None) is not None:
                tried += 1  # and given up
                short += 1
    return tried, short, lane_alone


def share(part, whole):
    return f"{part / whole:.1%}" if whole else "-"


def row(args, point, path):
    cp, pages, ownership, evict = point
    said = simulate(args, *point, path)
    tried, short, lane_alone = load_backs(path, pages // cp * cp)
    with h5py.File(path, "r") as file:
        collateral = int(file["counters/cache"].attrs["lane_collateral_pages"])
    return (str(cp), str(pages), ownership, evict, str(tried),
            share(short, tried), share(lane_alone, tried),
            str(tried - said["loads"]), f"{said['hit_rate']:.4f}",
            share(collateral, said["evicted_pages"]))


def main():
    args = arguments()
    rows = [COLUMNS]
    with tempfile.TemporaryDirectory() as folder:
        for point in itertools.product(args.cp, args.pages, args.ownership,
                                       args.evict):
            rows.append(row(args, point, os.path.join(folder, "sim.h5")))
    rows.insert(1, ["---"] * len(COLUMNS))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"exit status {error.returncode} of: {' '.join(error.cmd)}")
