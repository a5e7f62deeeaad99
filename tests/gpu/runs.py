#!/usr/bin/python3
"""Real models and stamped bytes on GPUs, in whole runs of the program.

Each checkpoint (tests/support/checkpoints.py): the reference's tokens and
logits on one rank and on several by `peer`, as threads and as processes, and
where there are more GPUs on as many ranks by `nccl` and `peer`, and on 8 ranks
in any case; then, for each KV dtype, the same digests and tokens for other
chunks, pages, decode ranks, ownership and tiers.  Stamped bytes: the CPU's
digests, every page checked; and the historical bug is caught.

  runs.py --program PAGELANE [--oracle DIR] [--brief] [NAME...]

NAME is a checkpoint (glm-tiny) or `stamp`; --list names all.  Needs no h5py.
`--device cpu` tries the script itself on a machine without a GPU.
"""
import argparse
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402
from checkpoints import FEW, Runner, prompts  # noqa: E402

PEER = ["--comm", "peer"]
# One context, weights included, takes a GPU seconds; no run takes minutes.
TIMEOUT_S = 150
MOST = 8  # ranks, a GPU each or shared
POOLS = (2000, 4800)  # of all lanes: stamped pages are evicted and come back


def checkpoints(oracle):
    """Name -> folder: those of `oracle`, and what is shipped."""
    shipped = [os.path.join(pl.ROOT, "examples"),
               os.path.join(pl.ROOT, "tests", "data")]
    found = {}
    for parent in [*shipped, oracle]:
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else []:
            folder = os.path.join(parent, name)
            if os.path.exists(os.path.join(folder, "expected.safetensors")):
                found[name] = folder
    return found


def count_gpus(program):
    """How many can be opened, and what the program says of them."""
    listed = pl.Run(program, verb="--list-devices").stdout.decode()
    lines = [line for line in listed.splitlines() if line.startswith("cuda")]
    return len([line for line in lines if re.match(r"cuda:\d+ +yes", line)]), \
        "; ".join(lines)


def places(gpus):
    """Name, arguments, processes: where a run's ranks can be."""
    yield "C=1", ["--ranks", 1], 0
    yield "C=4 peer, threads", ["--ranks", 4, *PEER], 0
    yield "C=4 peer, processes", PEER, 4
    if gpus > 1:
        yield f"C={gpus} nccl", ["--comm", "nccl"], gpus
        yield f"C={gpus} peer", PEER, gpus
    if gpus != MOST:
        yield f"C={MOST} peer", PEER, MOST


def ways(gpus, brief):
    """Name, arguments, processes; lanes where few pages must bring load-backs.
    """
    yield "chunk 64, --verify full", \
        ["--ranks", 2, *PEER, "--chunk", 64, "--verify", "full"], 0, 0
    yield "D=1, page 16, --verify digest", \
        ["--ranks", 3, "--decode-ranks", 1, *PEER, "--page-size", 16,
         "--chunk", 128, "--verify", "digest"], 0, 0
    yield "replicated, --verify digest", \
        ["--ranks", 3, *PEER, "--ownership", "replicated", "--verify",
         "digest"], 0, 0
    yield "passes 2, few pages", ["--ranks", 2, *PEER, *FEW], 0, 2
    if gpus > 1:
        yield f"passes 2, few pages, C={gpus} nccl", \
            ["--comm", "nccl", *FEW], gpus, gpus
    if not brief:
        yield "chunk 4096, D=0", ["--ranks", 3, *PEER, "--chunk", 4096], 0, 0
        yield "passes 2, D=1, processes", \
            ["--decode-ranks", 1, *PEER, *FEW], 4, 3
        yield "passes 2, replicated", \
            ["--ranks", 2, *PEER, "--ownership", "replicated", *FEW], 0, 1
        yield "passes 2, few pages, --verify full", \
            ["--ranks", 2, *PEER, *FEW, "--verify", "full"], 0, 2
        if gpus > 1:
            yield f"D=1, C={gpus - 1} nccl", \
                ["--comm", "nccl", "--decode-ranks", 1, "--verify",
                 "digest"], gpus, 0
            yield f"replicated, C={gpus} nccl", \
                ["--comm", "nccl", "--ownership", "replicated"], gpus, 0


def check_model(runner, folder, gpus, brief):
    wanted = None
    for name, arguments, processes in places(gpus):
        rows = runner.reference(folder, name, arguments, processes)
        wanted = wanted or rows
        if rows is not None and rows != wanted:
            runner.say(f"{name}: digests and tokens", "differ from C=1")
    bug = runner.run_with_few_pages(
        folder, 4, ["--ranks", 4, *PEER, *FEW, "--verify", "digest",
                    "--inject", "load.alloc=plain"])
    caught = bug.status == 1 and "invariant=I6 " in bug.talk
    runner.say("load.alloc=plain", None if caught else "not caught: " +
               (bug.problem() or "the run was good"), "caught")
    for dtype in ["f32", "bf16", "fp8"]:
        if dtype != "f32":
            done = runner.run([*prompts(folder), "--kv-dtype", dtype])
            wanted = done.rows
            runner.say(f"{dtype} C=1", done.problem(), "done")
        for name, arguments, processes, lanes in ways(gpus, brief):
            runner.same(folder, f"{dtype} {name}",
                        [*arguments, "--kv-dtype", dtype], wanted, lanes,
                        processes)


# ---- stamped bytes ----

def stamp_places(gpus):
    """Name, C, D, arguments, processes."""
    yield "C=1", 1, 0, [], 0
    yield "C=4 peer", 4, 0, PEER, 0
    yield "C=4 peer, page 8", 4, 0, [*PEER, "--page-size", 8], 0
    yield "C=4 D=1 peer, processes", 4, 1, PEER, 5
    yield "C=3 replicated", 3, 0, [*PEER, "--ownership", "replicated"], 0
    yield "C=4 peer, write_back", 4, 0, \
        [*PEER, "--write-policy", "write_back", "--explore", 3], 0
    if gpus > 1:
        yield f"C={gpus} nccl", gpus, 0, ["--comm", "nccl"], gpus
        yield f"C={gpus} peer", gpus, 0, PEER, gpus
    if gpus != MOST:
        yield f"C={MOST} peer", MOST, 0, PEER, MOST
    if gpus > 2:
        yield f"C={gpus - 1} D=1 nccl", gpus - 1, 1, ["--comm", "nccl"], gpus


def stamp_lanes(c, d, arguments):
    """Pools for the same total, in pages of pl.SMALL or smaller ones."""
    page = int(pl.SMALL[pl.SMALL.index("--page-size") + 1])
    size = page // (arguments[arguments.index("--page-size") + 1]
                    if "--page-size" in arguments else page)
    lanes = 1 if "replicated" in arguments else c
    return ["--ranks", c + d, "--decode-ranks", d,
            "--device-pages", POOLS[0] * size // lanes + 2,
            "--host-pages", POOLS[1] * size // lanes,
            "--decode-pages", 4096 * size]


def check_stamp(runner, device, gpus):
    cpu = runner.run([*pl.SMALL, *stamp_lanes(4, 0, []), "--comm", "local",
                      "--verify", "digest", "--device", "cpu"])
    runner.say("the CPU's run", cpu.problem(), "done")
    for name, c, d, arguments, processes in stamp_places(gpus):
        for verify in ("full", "off") if name == "C=4 peer" else ("full",):
            done = runner.run([*pl.SMALL, *stamp_lanes(c, d, arguments),
                               *arguments, "--verify", verify], processes)
            problem = done.problem(cpu.rows, True)
            if problem is None and verify != "off" and \
                    done.counts["page_checks"] == 0:
                problem = "no page was checked"
            note = "" if problem else \
                f"equal, {done.counts['load_pages']} pages loaded back"
            runner.say(f"{name}, --verify {verify}", problem, note)
    check_bug(runner, device)


def check_bug(runner, device):
    """A load-back whose pages ignore their owners: found at the same page as
    on the CPU, by the line of fixed form."""
    for c, d, processes in ((4, 0, 0), (3, 1, 4)):
        found = [pl.violation(pl.Run(
            runner.program, *pl.SMALL, *pl.lanes(c, d, *POOLS), *PEER,
            "--inject", "load.alloc=plain", "--device", where,
            timeout=runner.timeout, **pl.launch(n, n > 0)))
            for where, n in (("cpu", 0), (device, processes))]
        problem = None
        if found[1] is None:
            problem = "no violation was told"
        elif found[1][0]["invariant"] != 6:
            problem = f"another invariant: {found[1][1]}"
        elif found[1][:2] != found[0][:2]:
            problem = f"{found[1][1]}, on the CPU {found[0][1]}"
        runner.say(f"C={c} D={d} load.alloc=plain", problem, "caught")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--oracle", default=os.environ.get(
        "PAGELANE_ORACLE", os.path.join(os.environ.get(
            "PAGELANE_SHARED",
            os.path.join(os.path.dirname(pl.ROOT), "shared")), "oracle")),
        help="folder of further checkpoints")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    program = os.path.abspath(args.program)
    models = checkpoints(args.oracle)
    if args.list:
        print(*models, "stamp", sep="\n")
        return 0
    unknown = set(args.names) - set(models) - {"stamp"}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; see --list")
    gpus, about = count_gpus(program) if args.device == "cuda" else (1, "cpu")
    print(about, flush=True)
    if gpus == 0:
        print("skipped: there is no GPU that the program can open")
        must = os.environ.get("PAGELANE_REQUIRE_GPU") == "1"
        return 1 if must else pl.SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(program, scratch, ["--device", args.device],
                        TIMEOUT_S if args.device == "cuda" else pl.LIMIT_S)
        for name in args.names or [*models, "stamp"]:
            print(name, flush=True)
            if name == "stamp":
                check_stamp(runner, args.device, gpus)
            else:
                check_model(runner, models[name], gpus, args.brief)
    return runner.end()


if __name__ == "__main__":
    sys.exit(main())
