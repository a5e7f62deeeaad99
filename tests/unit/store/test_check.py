#!/usr/bin/env python3
"""pagelane check of snapshots whose tables do not agree.

usage: test_check.py PAGELANE MAKE_SAMPLE

A snapshot as it was written is clean.  Each change of the table is found under
its kind, with exit status 1; --repair finds the same and changes no byte.  So is
a changed bit, and an end that is not the seal.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py

SEAL_BYTES = 64


def put(path, change):
    """Other values, and no digest that would tell."""
    def edit(file):
        data = file[path][()]
        change(file, data)
        file[path][...] = data
        del file[path].attrs["xxh3_64"]
    return edit


def first_row(file, name):
    """A node with pages on that tier, and where its pages begin."""
    offset = file[f"/hicache/nodes/{name}_pages_offset"][()]
    return next((i, offset[i]) for i in range(len(offset) - 1)
                if offset[i + 1] > offset[i])


def same_page(name):
    def change(_, pages):
        pages[1] = pages[0]
    return put(f"/hicache/nodes/{name}_pages", change)


def scratch(name):
    def change(_, pages):
        pages[0] = 0
    return put(f"/hicache/nodes/{name}_pages", change)


def other_owner(_, owners):
    owners[0] = 1 - owners[0]


def no_parent(_, parents):
    parents[-1] = 10 ** 9


def gap(file, first):
    first[-1] += 1


def no_device(file, device):
    row, _ = first_row(file, "device")
    device[row] = 0


def twice(_, ids):
    ids[1] = ids[0]


def other_slot(_, slots):
    slots[0] += 1


def other_position(_, positions):
    positions[0] += 100000


def too_free(_, free):
    free[-1] += 10 ** 6


CASES = {
    "same device page": ("overlapping_slots", same_page("device")),
    "same host page": ("overlapping_slots", same_page("host")),
    "scratch": ("overlapping_slots", scratch("device")),
    "owner": ("owners_disagree", put("/hicache/page_owners", other_owner)),
    "slot of a rank": ("owners_disagree",
                       put("/hicache/rank/0/slots", other_slot)),
    "position of a rank": ("missing_pages",
                           put("/hicache/rank/0/positions", other_position)),
    "parent": ("missing_pages", put("/hicache/nodes/parent", no_parent)),
    "gap": ("broken_chains", put("/hicache/nodes/first_page", gap)),
    "no device pages": ("doubled_pages",
                        put("/hicache/nodes/device", no_device)),
    "two nodes": ("doubled_pages", put("/hicache/nodes/id", twice)),
    "free pages": ("lane_counts", put("/lanes/device_free", too_free)),
    "free host pages": ("lane_counts", put("/lanes/host_free", too_free)),
    "digest": ("bad_file", lambda file: file["/lanes/tick"].attrs.__setitem__(
        "xxh3_64", file["/lanes/device_free"].attrs["xxh3_64"])),
}


def check(program, path, *options):
    done = subprocess.run([program, "check", path, "--json", *options],
                          text=True, capture_output=True, timeout=900)
    report = json.loads(done.stdout) if done.stdout else {}
    return done.returncode, report, done.stderr


def check_ends(program, data, path):
    """The seal, and what may stand behind it or not."""
    failed = 0
    changes = {f"bit of byte {i} from the end":
               lambda d, i=i: d.__setitem__(-i, d[-i] ^ 1)
               for i in range(1, SEAL_BYTES + 1, 3)}
    changes.update({f"{n} bytes cut": lambda d, n=n: d.__delitem__(slice(-n, None))
                    for n in (1, 2, 63, 64)})
    changes["a byte behind"] = lambda d: d.append(10)
    changes["another seal behind"] = lambda d: d.extend(d[-SEAL_BYTES:])
    for name, change in changes.items():
        other = bytearray(data)
        change(other)
        path.write_bytes(other)
        status, report, said = check(program, path)
        found = report.get("found", {}).get("bad_file", {}).get("count", 0)
        if status != 1 or found != 1:
            print(f"{name}: exit {status}: {report} {said}")
            failed += 1
    return failed


def main():
    program, make_sample = sys.argv[1:3]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        good = pathlib.Path(folder) / "good.h5"
        bad = pathlib.Path(folder) / "bad.h5"
        subprocess.run([make_sample, good, "n_requests=60", "device_pages=300",
                        "host_pages=300", "n_prefill=2"], check=True)
        status, report, said = check(program, good)
        if status != 0 or report["findings"] != 0 or report["pages"] == 0:
            sys.exit(f"a good snapshot: {status} {report} {said}")
        for name, (kind, edit) in CASES.items():
            shutil.copy(good, bad)
            with h5py.File(bad, "r+") as file:
                edit(file)
            before = bad.read_bytes()
            status, report, said = check(program, bad, "--repair")
            count = report.get("found", {}).get(kind, {}).get("count", 0)
            if status != 1 or count == 0 or "never changed" not in said:
                print(f"{name}: exit {status}, no {kind}: {report} {said}")
                failed += 1
            if bad.read_bytes() != before:
                print(f"{name}: a repair has changed the file")
                failed += 1
        failed += check_ends(program, good.read_bytes(), bad)
        data = bytearray(good.read_bytes())
        data[len(data) // 2] ^= 1
        bad.write_bytes(data)
        status, report, _ = check(program, bad)
        if status != 1 or report["found"]["bad_file"]["count"] != 1:
            print(f"a flipped bit: exit {status}, {report}")
            failed += 1
    sys.exit(1 if failed > 0 else 0)


main()
