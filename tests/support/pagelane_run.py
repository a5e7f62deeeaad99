"""What the tests of whole runs share: start the program, read what it left.

Snapshots need h5py, so /usr/bin/python3 on Debian.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

try:
    import h5py
    import numpy as np
except ImportError:  # on a machine lent for its GPUs; tests/gpu needs neither
    h5py = np = None

SKIPPED = 77
LIMIT_S = 900  # for what hangs, not for what is slow on a busy machine
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SLICE = os.path.join(ROOT, "datasets", "mooncake_conversation_slice.jsonl")

# The small slice on 8 ranks: evictions, and hits in both tiers.
SMALL = ["--trace", SLICE, "--block-tokens", "16", "--page-size", "16",
         "--chunk", "128", "--device-pages", "250", "--host-pages", "600",
         "--decode-pages", "4096", "--stamp-layers", "2",
         "--stamp-row-bytes", "64", "--max-new", "16"]
LOCAL8 = ["--ranks", "8", "--comm", "local"]

MPIRUN = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
              OMPI_MCA_rmaps_base_oversubscribe="1",
              OMPI_MCA_mpi_yield_when_idle="1",
              OMPI_MCA_btl_base_warn_component_unused="0",
              OMPI_MCA_btl_vader_single_copy_mechanism="none",
              OMPI_MCA_orte_execute_quiet="1")


def family(pid):
    """A process and all below it, children first."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/stat") as file:
                    parent = file.read().rpartition(")")[2].split()[1]
                below.setdefault(int(parent), []).append(int(entry))
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found[::-1]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop(process):
    """With all below it: they are there, and do nothing more."""
    for pid in family(process.pid)[::-1]:  # before what it might start
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def kill(process):
    """With mpirun, if there is one, and its ranks: left alone they would go on
    to the end before they miss it.  They are gone when this returns."""
    pids = family(process.pid)
    if process.poll() is None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    while any(map(is_alive, pids)):
        time.sleep(0.005)


def wait_for_end(pids):
    """Those of them that are still there after the limit: none, then."""
    end = time.monotonic() + LIMIT_S
    left = list(filter(is_alive, pids))
    while left and time.monotonic() < end:
        time.sleep(0.01)
        left = list(filter(is_alive, left))
    return left


def wait_for_line(stream, text):
    """Read on to a line with the text; "": the stream ended before that."""
    return next((line for line in stream if text in line), "")


def lanes(c, d, device, host):
    """C + D ranks, with pools that keep the total of all lanes."""
    return ["--ranks", c + d, "--decode-ranks", d, "--device-pages",
            device // c + 2, "--host-pages", host // c]


def launch(n, processes=True):
    """How to start n ranks that read each other's pages: for Run."""
    return dict(MPIRUN, launcher=["mpirun", "-n", str(n)]) if processes else {}


def conversation_trace():
    """The whole conversation trace, which we do not ship; None: not here."""
    shared = os.environ.get("PAGELANE_SHARED",
                            os.path.join(os.path.dirname(ROOT), "shared"))
    path = os.path.join(shared, "traces", "mooncake",
                        "conversation_trace.jsonl")
    return path if os.path.exists(path) else None


def environment(**more):
    """Ours, without what would change a run: variables of the program, and
    those of an mpirun around the test."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(
        ("PAGELANE_", "OMPI_COMM_WORLD_", "PMIX_", "PMI_"))}
    return dict(kept, **more)


# What a run says besides where it takes some seconds.
SO_FAR = re.compile(r"^pagelane: .*\d+ of \d+ (request|point)s?, .* s so far.*\n",
                    re.M)


class Run:
    """One run of the program that has ended; without what it said of how far it
    was, which is a matter of speed."""

    def __init__(self, program, *args, verb="run", timeout=LIMIT_S, launcher=(),
                 cwd=None, **variables):
        self.line = [*launcher, program, verb, *map(str, args)]
        done = subprocess.run(self.line, capture_output=True, timeout=timeout,
                              cwd=cwd, env=environment(**variables))
        self.status, self.stdout = done.returncode, done.stdout
        self.stderr = SO_FAR.sub("", done.stderr.decode(errors="replace"))

    def json(self):
        return json.loads(self.stdout)

    def __str__(self):
        return f"{' '.join(self.line)}\nexit status {self.status}\n" \
               f"{self.stdout.decode(errors='replace')[-2000:]}" \
               f"{self.stderr[-2000:]}"


def until_it_stalls(run_within):
    """(run, seconds): run_within("<seconds>s") has a rank that stalls, and waits
    so long for a rank.  On a busy machine it may miss another one before; then
    it runs again, and waits longer."""
    for seconds in (4, 16, 64):
        run = run_within(f"{seconds}s")
        if "rank.stall" in run.stderr:
            break
    return run, seconds


# ---- violations ----

NUMBERS = ("invariant", "req", "node", "pos", "page", "owner", "reader",
           "slot", "layer", "tick", "seed")
VIOLATION = re.compile(
    r"pagelane violation: invariant=I(?P<invariant>\d+) req=(?P<req>-1|\d+)"
    r" node=(?P<node>-1|\d+) pos=(?P<pos>\d+) page=(?P<page>\d+)"
    r" owner=(?P<owner>\d+) reader=(?P<reader>\d+) slot=(?P<slot>\d+)"
    r" layer=(?P<layer>\d+) store=(?P<store>latent|index)"
    r" tier=(?P<tier>device|host|transfer|decode|decode_host)"
    r" tick=(?P<tick>\d+) seed=(?P<seed>\d+)")


def violation(run):
    """(fields, line, the command that reproduces it), or None."""
    lines = run.stderr.splitlines()
    for line, command in zip(lines, lines[1:]):
        match = VIOLATION.fullmatch(line)
        if match:
            fields = {k: int(v) if k in NUMBERS else v
                      for k, v in match.groupdict().items()}
            return fields, line, command
    return None


# ---- snapshots ----

class Snapshot:
    """The columns of /requests and the counters of a snapshot."""

    def __init__(self, path):
        with h5py.File(path, "r") as file:
            self.requests = {k: v[...] for k, v in file["requests"].items()}
            self.layout = dict(file["layout"].attrs)
            self.config = {k: v.decode() for k, v in
                           file["config"].attrs.items()}
            self.engine, self.cache, self.data = (
                {k: int(v) for k, v in file["counters"][group].attrs.items()}
                for group in ("engine", "cache", "data"))
            self.storage = {k: int(v) for k, v in
                            file["counters/storage"].attrs.items()}

    def sum(self, name):
        return int(self.requests[name].sum())

    def tokens(self, i):
        at = self.requests["tokens_offset"]
        return self.requests["tokens"][at[i]:at[i + 1]]


def mix64(x):
    m = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & m
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & m
    return x ^ (x >> 31)


def fold_digests(digests):
    """`kv_digest` of the summary, from the digests of a snapshot."""
    m, h = (1 << 64) - 1, 0
    for i, digest in enumerate(digests.tolist()):
        if digest != 0:
            for value in (i, digest):
                h = mix64(h ^ ((value + 0x9E3779B97F4A7C15 + (h << 6)) & m))
    return f"{h:016x}"


def spread(values):
    """mean, median, p90, p99 by nearest rank, in ms."""
    values = np.sort(np.asarray(values, dtype=np.int64))
    if len(values) == 0:
        return dict(mean=0, median=0, p90=0, p99=0)
    rank = {name: values[max((len(values) * p + 99) // 100, 1) - 1] / 1e6
            for name, p in (("median", 50), ("p90", 90), ("p99", 99))}
    return dict(mean=values.astype(float).sum() / len(values) / 1e6, **rank)


def summary_of(s):
    """What --json says of a run, computed anew from its snapshot."""
    r = s.requests
    good = (r["failed"] == 0) & (r["skipped"] == 0)
    of = {k: v[good] for k, v in r.items() if len(v) == len(good)}
    prompt = of["prompt_tokens"].astype(np.int64)
    hit = of["device_hit_tokens"].astype(np.int64) + of["host_hit_tokens"] + \
        of["storage_hit_tokens"]
    seconds = (r["finished_ns"].max() - r["arrival_ns"][0]) / 1e9
    output = int(of["generated_tokens"].sum())
    many = of["generated_tokens"] >= 2
    tpot = (of["finished_ns"] - of["first_token_ns"])[many] // (
        of["generated_tokens"][many].astype(np.int64) - 1)
    want = {
        "completed": int(good.sum()), "failed": int(r["failed"].sum()),
        "unfinished": 0,
        "duration": seconds, "total_input_tokens": int(prompt.sum()),
        "total_output_tokens": output,
        "request_throughput": int(good.sum()) / seconds,
        "output_throughput": output / seconds,
        "hit_rate": hit.sum() / max(prompt.sum(), 1),
        "mean_request_hit_rate": (hit / prompt).sum() / max(good.sum(), 1),
        "device_hit_tokens": int(of["device_hit_tokens"].sum()),
        "host_hit_tokens": int(of["host_hit_tokens"].sum()),
        "storage_hit_tokens": int(of["storage_hit_tokens"].sum()),
        "finished_before": int(r["skipped"].sum()),
        "computed_tokens": int((prompt - hit).sum()),
        "reentries": int(r["reentries"].sum()),
        "page_checks": s.data.get("page_checks")}
    for why in ("new", "evicted", "lane", "threshold", "failed", "storage",
                "last_page"):
        want[f"miss_{why}_pages"] = int(of["miss_" + why].sum())
    times = {"ttft": of["first_token_ns"] - of["arrival_ns"], "tpot": tpot,
             "e2el": of["finished_ns"] - of["arrival_ns"],
             "queue": of["admitted_ns"] - of["arrival_ns"]}
    for name, values in times.items():
        for which, ms in spread(values).items():
            want[f"{which}_{name}_ms"] = ms
    for name in ("lane_allocations", "lane_deficits", "lane_alone_deficits",
                 "lane_retries", "lane_retries_failed"):
        want[name] = s.cache[name[len("lane_"):]]
    for name in ("evictions", "evicted_pages", "loads", "load_pages",
                 "backups", "backup_pages", "backups_skipped", "write_backs",
                 "host_dropped_pages"):
        want[name] = s.cache[name]
    for name in ("ticks", "chunks", "decode_steps", "offloads", "resumes",
                 "reservations_failed", "operations_failed"):
        want[name] = s.engine[name]
    for name, value in s.data.items():
        if name.endswith("_bytes_moved"):
            want[name] = value
    for name, value in s.storage.items():
        want["storage_" + name] = value
    if r["digest"].any():
        want["kv_digest"] = fold_digests(r["digest"])
    return want


def summary_differs(said, snapshot):
    """Where --json and its snapshot differ: text, or None."""
    want = summary_of(snapshot)
    for name in sorted(set(said) | set(want)):
        a, b = said.get(name), want.get(name)
        if a is None or b is None:
            return f"{name}: --json {a}, snapshot {b}"
        near = isinstance(a, float) and abs(a - b) <= 6e-7  # six digits
        if a != b and not near:
            return f"{name}: --json {a}, snapshot {b}"
    return None


# ---- as a test ----

class Case(unittest.TestCase):
    """Tests of the program that `main` was given."""
    program = None
    options = None
    maxDiff = None

    def run_program(self, *args, status=0, **more):
        run = Run(self.program, *args, **more)
        self.assertEqual(run.status, status, str(run))
        return run


def main(doc, add_arguments=lambda parser: None):
    """unittest.main with --program in front of the names of tests; exit status
    77 if all that ran was skipped."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    parser.add_argument("--program", required=True)
    add_arguments(parser)
    Case.options, rest = parser.parse_known_args()
    Case.program = os.path.abspath(Case.options.program)
    done = unittest.main(argv=[sys.argv[0], *rest], exit=False,
                         verbosity=2).result
    if not done.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if done.skipped and
             len(done.skipped) == done.testsRun else 0)
