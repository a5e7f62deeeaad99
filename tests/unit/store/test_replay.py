#!/usr/bin/env python3
"""Does tests/replay_events.py agree with good files, and only with those?

usage: test_replay.py MAKE_SAMPLE REPLAY_EVENTS [SEED]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy

RUNS = [
    ["n_requests=0"],
    ["n_requests=60"],
    ["n_decode=0", "n_prefill=4", "n_requests=150", "write_policy=1"],
    ["n_prefill=2", "n_decode=2", "write_policy=2", "n_requests=150"],
    # everything that can fail, fails now and then; decode pools run short
    ["fail_percent=20", "decode_pages=45", "decode_host_pages=30",
     "n_requests=150"],
    ["fail_percent=20", "decode_pages=45", "decode_host_pages=30",
     "n_requests=150", "write_policy=2", "n_decode=0"],
    # in the middle of things
    ["max_ticks=100", "fail_percent=10"],
    ["max_ticks=251", "write_policy=2", "decode_pages=45"],
    # one lane; no host tier
    ["n_prefill=1", "device_pages=60", "host_pages=90"],
    ["host_pages=0", "n_requests=60"],
    # a storage tier: large, small, and one whose ranks fail
    ["storage_pages=400", "n_requests=150"],
    ["storage_pages=20", "n_requests=150", "write_policy=2"],
    ["storage_pages=60", "n_requests=150", "fail_percent=20"],
    ["storage_pages=60", "max_ticks=251", "fail_percent=10"],
]


def find(file, kind):
    """The kinds' names, and an event of that kind from the middle."""
    names = [t.decode() for t in file["events/kinds"][:]]
    at = numpy.nonzero(file["events/kind"][:] == names.index(kind))[0]
    return names, at[len(at) // 2]


def drop_event(kind):
    def tamper(file):
        names, at = find(file, kind)
        # turned into news that changes nothing
        file["events/kind"][at] = names.index("admit")
    return tamper


def change_page(kind, column):
    def tamper(file):
        _, at = find(file, kind)
        file["events/" + column][file[f"events/{column}_offset"][at]] += 1
    return tamper


def change(name, by=1):
    def tamper(file):
        at = tuple(n // 2 for n in file[name].shape)
        file[name][at] += by
    return tamper


# each must be found
TAMPER = {
    "an alloc is missing": drop_event("alloc"),
    "a free is missing": drop_event("free"),
    "a split is missing": drop_event("split"),
    "an evict is missing": drop_event("evict"),
    "a node is missing": drop_event("node"),
    "a host_free is missing": drop_event("host_free"),
    "a backup's end is missing": drop_event("backed_up"),
    "a load_node is missing": drop_event("load_node"),
    "a fetch is missing": drop_event("fetch"),
    "a fetch's end is missing": drop_event("fetched"),
    "a node from storage is missing": drop_event("host_node"),
    "a drop from storage is missing": drop_event("storage_drop"),
    "a decode_free is missing": drop_event("decode_free"),
    "an arrival is missing": drop_event("arrive"),
    "a start is missing": drop_event("start"),
    "another page allocated": change_page("alloc", "pages"),
    "another page freed": change_page("free", "pages"),
    "another page in a node": change_page("node", "pages"),
    "another host page": change_page("backup", "other"),
    "another host page of a fetch": change_page("fetch", "pages"),
    "another page stored": change_page("store", "other"),
    "another free count on device": change("lanes/device_free"),
    "another free count on host": change("lanes/host_free", -1),
    "another free count of decode": change("lanes/decode_free"),
    "another number waiting": change("lanes/waiting"),
    "another number running": change("lanes/running"),
    "another parent": change("hicache/nodes/parent"),
    "another device page": change("hicache/nodes/device_pages"),
    "another host page in the file": change("hicache/nodes/host_pages"),
    "another owner": change("hicache/page_owners", -1),
    "another slot": change("hicache/rank/1/slots"),
}


def main():
    make, replay = sys.argv[1:3]
    seed = sys.argv[3] if len(sys.argv) > 3 else \
        os.environ.get("PL_TEST_SEED", str(int(time.time())))
    print(f"PL_TEST_SEED={seed}")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        def run(path):
            return subprocess.run([sys.executable, replay, path], text=True,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)

        for i, options in enumerate(RUNS):
            path = f"{folder}/{i}.h5"
            subprocess.run([make, path, f"seed={seed}"] + options, check=True)
            done = run(path)
            print(" ".join(options) + ": " + done.stdout.strip())
            bad += done.returncode != 0
        plain = f"{folder}/plain.h5"
        subprocess.run([make, plain, "seed=1", "storage_pages=20"],
                       check=True)
        for what, tamper in TAMPER.items():
            path = f"{folder}/tampered.h5"
            shutil.copy(plain, path)
            with h5py.File(path, "r+") as file:
                tamper(file)
            done = run(path)
            if done.returncode != 1 or done.stdout.count("\n") != 1:
                print(f"{what}: not found, exit status {done.returncode}\n"
                      f"{done.stdout}")
                bad += 1
        subprocess.run([make, plain, "events=0"], check=True)
        bad += run(plain).returncode != 3
        subprocess.run([make, plain, "events=100"], check=True)
        done = run(plain)
        bad += done.returncode != 3 or "were dropped" not in done.stdout
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
