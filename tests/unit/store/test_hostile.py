#!/usr/bin/env python3
"""pagelane inspect against files that are not what they say.

usage: test_hostile.py PAGELANE MAKE_SAMPLE

Each file of the table must be refused with exit status 3 and one line that names
the object; files of later minor versions, and packed ones, must be read.  A file
with random bits changed must be refused, and never bring the program down.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy

VIEWS = ([], ["requests"], ["nodes"], ["lanes"], ["page", "5"], ["why", "9"])
SECONDS = 900  # of one call: a hang is a failure; the reader gives up earlier
FLIPS = 60
SEAL_BYTES = 64


def attribute(path, name, value):
    def change(file):
        del file[path].attrs[name]
        if value is not None:
            file[path].attrs[name] = value
    return change


def raw_attribute(path, name, type_id, shape):
    def change(file):
        del file[path].attrs[name]
        h5py.h5a.create(file[path].id, name.encode(), type_id,
                        h5py.h5s.create_simple(shape) if shape else
                        h5py.h5s.create(h5py.h5s.SCALAR))
    return change


def values(path, at, value):
    """Other values, and no digest that would tell."""
    def change(file):
        file[path][at] = value
        del file[path].attrs["xxh3_64"]
    return change


def below(*nodes):
    """Each of the nodes, by row, lies below the next; the last below the
    first."""
    def change(file):
        ids = file["/hicache/nodes/id"][:]
        for child, parent in zip(nodes, nodes[1:] + nodes[:1]):
            file["/hicache/nodes/parent"][child] = ids[parent]
        del file["/hicache/nodes/parent"].attrs["xxh3_64"]
    return change


def instead(path, make):
    def change(file):
        del file[path]
        make(file, path)
    return change


def dataset(**how):
    return lambda file, path: file.create_dataset(path, **how)


def link(make):
    def change(file, path):
        file[path] = make
    return change


def virtual(file, path):
    layout = h5py.VirtualLayout(shape=(60,), dtype="<i4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(60,))
    file.create_virtual_dataset(path, layout)


def external(file, path):
    file.create_dataset(path, (60,), "<i4", external=[("/etc/passwd", 0, 240)])


HOME = "/requests/home"  # I32[60]
I32 = numpy.dtype("<i4")
# what is changed, a word of the line that refuses it
TABLE = {
    "another format": (attribute("/", "format", numpy.bytes_("x")), "/format"),
    "no format": (attribute("/", "format", None), "/format"),
    "format is a number": (attribute("/", "format", 5), "/format"),
    "format of any length": (attribute("/", "format", "pagelane-snapshot"),
                             "/format"),
    "format is an array": (attribute("/", "format", [b"a", b"b"]), "/format"),
    "a later major version": (attribute("/", "schema_version", [2, 0]),
                              "version 1 of any minor"),
    "a version of one number": (attribute("/", "schema_version", 1),
                                "/schema_version"),
    "a version of many numbers": (attribute("/", "schema_version",
                                            list(range(9))),
                                  "/schema_version"),
    "a version below zero": (attribute("/", "schema_version", [1, -1]),
                             "/schema_version"),
    "no lanes": (attribute("/layout", "n_lanes", 0), "/layout/n_lanes"),
    "too many lanes": (attribute("/layout", "n_lanes", 10**9),
                       "/layout/n_lanes"),
    "lanes are real": (attribute("/layout", "n_lanes", 3.0),
                       "/layout/n_lanes"),
    "a huge integer type": (raw_attribute(
        "/layout", "n_lanes", h5py.h5t.STD_I64LE, (1000,)), "/layout/n_lanes"),
    "no layout": (instead("/layout", lambda file, path: None), "/layout"),
    "layout is a dataset": (instead("/layout", dataset(data=[1])), "/layout"),
    "a dataset is missing": (instead(HOME, lambda file, path: None), HOME),
    "a group instead of a dataset":
        (instead(HOME, lambda file, path: file.create_group(path)), HOME),
    "reals": (instead(HOME, dataset(data=numpy.zeros(60))), HOME),
    "another width": (instead(HOME, dataset(data=numpy.zeros(60, "<i8"))),
                      HOME),
    "another sign": (instead(HOME, dataset(data=numpy.zeros(60, "<u4"))),
                     HOME),
    "texts": (instead(HOME, dataset(data=[b"abcd"] * 60)), HOME),
    "structs": (instead(HOME, dataset(data=numpy.zeros(60, "i2,i2"))), HOME),
    "too short": (instead(HOME, dataset(data=numpy.zeros(59, I32))), HOME),
    "two dimensions": (instead(HOME, dataset(data=numpy.zeros((60, 1), I32))),
                       HOME),
    "a scalar": (instead(HOME, dataset(data=I32.type(1))), HOME),
    "no dataspace": (instead(HOME, dataset(data=h5py.Empty(I32))), HOME),
    "rows that are not there": (instead("/requests/arrival_ns", dataset(
        shape=(1 << 40,), dtype="<i8", chunks=(1 << 20,))),
        "/requests/arrival_ns"),
    "rows that cannot be": (instead("/requests/arrival_ns", dataset(
        shape=(1 << 62,), dtype="<i8", chunks=(1 << 20,))),
        "/requests/arrival_ns"),
    "another filter": (instead(HOME, dataset(
        data=numpy.zeros(60, I32), chunks=(60,), compression="lzf")), HOME),
    "bytes of another file": (instead(HOME, external), HOME),
    "a virtual dataset": (instead(HOME, virtual), HOME),
    "a link to another file": (instead(HOME, link(
        h5py.ExternalLink("/etc/passwd", "/x"))), HOME),
    "a link in between": (instead("/requests", link(
        h5py.ExternalLink("other.h5", "/requests"))), "/requests"),
    "a soft link": (instead(HOME, link(h5py.SoftLink("/requests/output_tokens"
                                                     ))), HOME),
    "a soft link to itself": (instead(HOME, link(h5py.SoftLink(HOME))), HOME),
    "other bytes": (lambda file: file[HOME].write_direct(
        numpy.full(60, 7, I32)), "digest"),
    "a digest that is a text": (attribute(HOME, "xxh3_64", "x"), HOME),
    "a counter that is a list": (attribute("/counters/engine", "ticks",
                                           [1, 2]), "/counters/engine/ticks"),
    "offsets do not begin at 0": (values(
        "/hicache/nodes/device_pages_offset", 0, 1), "begin at 0"),
    "offsets fall": (values("/hicache/nodes/device_pages_offset", 5, 1 << 40),
                     "falls"),
    "offsets below zero": (values("/hicache/nodes/host_pages_offset", 1, -5),
                           "falls"),
    "offsets end elsewhere": (values("/hicache/page_owners_offset", -1,
                                     1 << 40), "end"),
    "a node below itself": (below(3, 3), "itself"),
    "nodes below each other": (below(3, 7, 5, 3), "itself"),
    "a node below none": (values("/hicache/nodes/parent", 3, 1 << 62),
                          "no node"),
    "a parent below zero": (values("/hicache/nodes/parent", 3, -7), "no node"),
    "an id twice": (values("/hicache/nodes/id", 3, 3), "ascend"),
    "half a node": (values("/hicache/nodes/n_pages", 2, 99), "pages"),
    "a page beyond the tier": (values("/hicache/nodes/device_pages", 3,
                                      10**6), "out of range"),
    "a page below zero": (values("/hicache/nodes/device_pages", 3, -1),
                          "out of range"),
    "an owner that is no rank": (values("/hicache/page_owners", 3, 3),
                                 "out of range"),
    "lanes of another number": (instead("/lanes/device_free", dataset(
        data=numpy.zeros((5, 9), I32))), "/lanes/device_free"),
}
# read all the same
TAKEN = {
    "a later minor version": attribute("/", "schema_version", [1, 7]),
    "more than we know": lambda file: file.create_group("/more"),
    "packed": instead(HOME, dataset(
        data=numpy.zeros(60, I32), chunks=(7,), compression="gzip",
        shuffle=True, fletcher32=True)),
    "compact": instead(HOME, lambda file, path: h5py.h5d.create(
        file.id, path.encode(), h5py.h5t.STD_I32BE,
        h5py.h5s.create_simple((60,)), compact())),
}


def compact():
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    return plist


class Test:
    def __init__(self, program, good, folder):
        self.program, self.good, self.folder = program, good, folder
        self.bad, self.n_ends = 0, 0

    def inspect(self, path, view):
        return subprocess.run(
            [self.program, "inspect", path] + view, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=SECONDS)

    def complain(self, text):
        print(text)
        self.bad += 1

    def refused(self, what, path, word):
        """By one view at least, each time with one line; never worse."""
        said = ""
        for view in VIEWS:
            done = self.inspect(path, view)
            if done.returncode not in (0, 3) or \
                    done.stderr.count("\n") != (done.returncode == 3):
                self.complain(f"{what}: {view} exit status {done.returncode}\n"
                              f"{done.stderr}")
            said += done.stderr
        if word not in said:
            self.complain(f"{what}: no line with '{word}', but\n{said}")

    def copy(self, change=None):
        path = f"{self.folder}/changed.h5"
        shutil.copy(self.good, path)
        if change is not None:
            with h5py.File(path, "r+") as file:
                change(file)
        return path

    def run_tables(self):
        for what, (change, word) in TABLE.items():
            self.refused(what, self.copy(change), word)
        for what, change in TAKEN.items():
            path = self.copy(change)
            for view in VIEWS:
                done = self.inspect(path, view)
                if done.returncode != 0 or done.stderr:
                    self.complain(f"{what}: {view} refused\n{done.stderr}")

    def run_files(self):
        with open(self.good, "rb") as file:
            whole = file.read()
        for what, data in (("empty", b""), ("a text", b"hello\n" * 1000),
                           ("its first half", whole[:len(whole) // 2]),
                           ("its first bytes", whole[:100]),
                           ("zeros behind", b"\0" * len(whole))):
            path = f"{self.folder}/changed.h5"
            with open(path, "wb") as file:
                file.write(data)
            self.refused(what, path, path)
        self.refused("a folder", self.folder, "it is a folder")
        self.refused("no file", self.folder + "/no", "No such file")
        fifo = f"{self.folder}/fifo"
        os.mkfifo(fifo)
        self.refused("a pipe", fifo, "no regular file")

    def run_flips(self, seed):
        generator = random.Random(seed)
        with open(self.good, "rb") as file:
            whole = file.read()
        for i in range(FLIPS):
            data = bytearray(whole)
            for _ in range(generator.choice((1, 3, 20))):
                data[generator.randrange(len(data) - SEAL_BYTES)] ^= \
                    1 << generator.randrange(8)
            self.ends(f"flip {i}", data, {0, 3} if data == whole else {3})
            self.ends(f"flip {i}, unsealed", data[:-SEAL_BYTES], {0, 3})
        for i in range(SEAL_BYTES):  # a broken seal is none
            data = bytearray(whole)
            data[len(data) - 1 - i] ^= 1 << generator.randrange(8)
            self.ends(f"flip in the seal, {i}", data, {0, 3})

    def ends(self, what, data, statuses):
        path = f"{self.folder}/changed.h5"
        with open(path, "wb") as file:
            file.write(data)
        self.n_ends += 1
        view = VIEWS[self.n_ends % len(VIEWS)]
        done = self.inspect(path, view)
        if done.returncode not in statuses or \
                done.stderr.count("\n") != (done.returncode == 3):
            self.complain(f"{what}: {view} ended with {done.returncode}\n"
                          f"{done.stderr}")


def main():
    program, make = sys.argv[1:3]
    seed = os.environ.get("PL_TEST_SEED", str(int(time.time())))
    print(f"PL_TEST_SEED={seed}")
    with tempfile.TemporaryDirectory() as folder:
        good = f"{folder}/good.h5"
        subprocess.run([make, good], check=True)
        test = Test(program, good, folder)
        test.run_tables()
        test.run_files()
        test.run_flips(seed)
    sys.exit(1 if test.bad else 0)


if __name__ == "__main__":
    main()
