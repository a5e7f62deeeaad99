#!/usr/bin/env bash
# gpu_bench.sh --build DIR [option]... - what there is to show on GPUs, for
# as many of them as this machine has: tests, real models, a verified run,
# transfers, time to the first token.
#
#   --build DIR    a build folder: bin/pagelane, tests/gpu
#   --oracle DIR   folder of checkpoint folders (config.json, weights,
#                  prompts.json, expected.safetensors) besides those shipped
#   --out DIR      logs and JSON go there (default gpu_bench.out)
#   --steps WORDS  of devices tests kernels transfer runs stamp prefill
#                  fidelity; all by default, as "kernels transfer"
#   --trace FILE   requests of `stamp`, its first 500 (default: the slice of the
#                  conversation trace that is shipped)
#   --contexts N,N prompts of `bench prefill` (default 8192,32768,131072)
#   --limit S      seconds that a step may take (default 300)
#
# Each step has a line, PASS or FAIL with its seconds; a log is printed if it
# failed.  Exit status 1 if a step failed.
set -u

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=
oracle=$root/examples
out=gpu_bench.out
steps="devices tests kernels transfer runs stamp prefill fidelity"
trace=$root/datasets/mooncake_conversation_slice.jsonl
contexts=8192,32768,131072
limit=300

usage() {
    echo "gpu_bench.sh: $1; see its first lines" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || usage "a value is missing behind $1"
    case $1 in
    --build) build=$2 ;;
    --oracle) oracle=$2 ;;
    --out) out=$2 ;;
    --steps) steps=$2 ;;
    --contexts) contexts=$2 ;;
    --trace) trace=$2 ;;
    --limit) limit=$2 ;;
    *) usage "unknown option $1" ;;
    esac
    shift 2
done
program=$build/bin/pagelane
[ -x "$program" ] || usage "--build '$build' has no bin/pagelane"
mkdir -p "$out" || exit 2
# NVLink multicast fails where a GPU is shared with others.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU') || gpus=0
[ "$gpus" -gt 0 ] || usage "there is no GPU here"

# step NAME COMMAND...: stdout to NAME.out, stderr to NAME.log
step() {
    local name=$1 begin=$SECONDS status verdict=PASS

    shift
    timeout -k 10 "$limit" "$@" </dev/null >"$out/$name.out" \
        2>"$out/$name.log"
    status=$?
    if [ $status -ne 0 ]; then
        verdict="FAIL ($status)"
        echo "$name" >>"$out/failed" # also from a subshell
    fi
    printf '%-8s %4d s  %s\n' "$verdict" $((SECONDS - begin)) "$name"
    if [ $status -ne 0 ]; then
        printf '    %s\n' "$*"
        tail -n 20 "$out/$name.out" "$out/$name.log" | sed 's/^/    /'
    fi
    return $status
}

wants() {
    case " $steps " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
    esac
}

show() {
    sed 's/^/    /' "$out/$1.out"
}

# A step whose table is shown.
shown() {
    step "$@" && show "$1"
}

# Ranks that GPUs of their own can be: 1, 2, 4, 8 up to all.
ranks_alone() {
    local n

    for n in 1 2 4 8; do
        [ "$n" -le "$gpus" ] && echo "$n"
    done
}

# Ranks, and how they read each other's pages: nccl with a GPU each, peer with
# one or several ranks on each, up to 8.
ranks_and_comms() {
    local n most

    echo "1 peer"
    for n in $(ranks_alone); do
        [ "$n" -gt 1 ] && echo "$n nccl" && echo "$n peer"
    done
    most=$((gpus * 4 < 8 ? gpus * 4 : 8))
    [ "$most" -gt "$gpus" ] && echo "$most peer"
}

bench_transfer() {
    ranks_and_comms | while read -r n comm; do
        [ "$n" -gt 1 ] || continue
        shown "transfer_${comm}_$n" "$program" bench transfer --device cuda \
            --comm "$comm" --ranks "$n"
    done
}

# Real models and stamped bytes, as tests/gpu/runs.py says: one step each.
run_all() {
    local script=$root/tests/gpu/runs.py name

    python3 "$script" --program "$program" --oracle "$oracle" --list |
        while read -r name; do
            shown "runs_$name" env PAGELANE_REQUIRE_GPU=1 python3 "$script" \
                --program "$program" --oracle "$oracle" "$name"
        done
}

# The conversation trace with 8 ranks, every page checked: a GPU each or shared.
# Its digest is that of the run on the CPU.
stamp_run() {
    local device comm=local

    for device in cpu cuda; do
        step "stamp_$device" "$program" run --executor stamp --trace "$trace" \
            --limit 500 --page-size 64 --chunk 512 --device-pages 3000 \
            --host-pages 8000 --decode-pages 4096 --stamp-layers 2 \
            --stamp-row-bytes 64 --max-new 16 --verify digest --ranks 8 \
            --comm $comm --device $device --json
        comm=peer
    done
    shown stamp_same python3 -c '
import json
import sys

runs = [json.load(open(path, encoding="utf-8")) for path in sys.argv[1:]]
for path, run in zip(sys.argv[1:], runs):
    print(run["kv_digest"], run["page_checks"], "pages checked,",
          run["load_pages"], "loaded back:", path)
sys.exit(runs[0]["kv_digest"] != runs[1]["kv_digest"] or
         runs[1]["page_checks"] == 0)
' "$out/stamp_cpu.out" "$out/stamp_cuda.out"
}

# A GPU each; and, where there are fewer than 8, 4 and 8 ranks that share them.
bench_prefill() {
    local n comm

    for n in $(ranks_alone) 4 8; do
        comm=auto
        [ "$n" -le "$gpus" ] || comm=peer
        [ "$n" -le $((gpus * 4)) ] || continue # their weights would not fit
        [ ! -e "$out/prefill_$n.json" ] || continue
        step "prefill_$n" "$program" bench prefill --device cuda \
            --comm "$comm" --ranks "$n" --model GLM-5 --weights random:1 \
            --layers 4 --kv-dtype fp8 --contexts "$contexts" \
            --ownership both --json || continue
        mv "$out/prefill_$n.out" "$out/prefill_$n.json"
    done
    summary
    shown scaling python3 "$root/examples/scaling.py" "$out"/prefill_*.json
    python3 -c 'import matplotlib' 2>/dev/null &&
        step scaling_plot python3 "$root/examples/scaling.py" \
            "$out"/prefill_*.json --plot "$out/scaling.svg"
}

# The simulator beside runs of a few layers, on the GPUs that there are.
fidelity() {
    shown fidelity "$root/mpi_launch/fidelity.sh" --build "$build" \
        --device cuda --model GLM-5 --layers 4 --cp "$(ranks_alone | xargs)" \
        --out "$out/fidelity"
}

# One line a context, ranks and ownership; then where the time of a cold prompt
# and of a hit on the host goes.
summary() {
    python3 - "$out"/prefill_*.json <<'PYTHON'
import json
import sys

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    for row in run["rows"]:
        cold, host = row["cold_ms"], row["host_ms"]
        print(f"    {row['context']:7d} tokens, {run['ranks']} ranks, "
              f"{row['ownership']:10s} cold {cold:9.2f} ms, device "
              f"{row['device_ms']:8.2f}, host {host:8.2f} = "
              f"{host / cold:.3f} of cold; {row['kv_rank_bytes'] / 1e6:.1f} MB"
              f" a rank; cold {row.get('cold_to_replicated', 1):.3f} of "
              f"replicated")
        for kind, all_ms in (("cold", cold), ("host", host)):
            times = row.get(kind + "_profile_ms", {})
            most = sorted(times.items(), key=lambda item: -item[1])[:8]
            print(f"        {kind}: " + ", ".join(
                f"{name} {100 * ms / all_ms:.1f} %" for name, ms in most))
PYTHON
}

rm -f "$out/failed" "$out"/prefill_*.json
nvidia-smi --query-gpu=index,name,driver_version,memory.total \
    --format=csv,noheader
date -u +%Y-%m-%d
wants devices && shown devices "$program" --list-devices
wants tests && step test_gpu_kernels env PAGELANE_REQUIRE_GPU=1 \
    "$build/tests/gpu/test_gpu_kernels"
wants tests && step test_gpu_nccl env PAGELANE_REQUIRE_GPU=1 \
    "$build/tests/gpu/test_gpu_nccl"
wants tests && shown test_gpu_runs env PAGELANE_REQUIRE_GPU=1 \
    "$build/tests/gpu/test_gpu_runs"
wants kernels && shown kernels "$program" bench kernels
wants kernels && step kernels_json "$program" bench kernels --json
wants transfer && bench_transfer
wants runs && run_all
wants stamp && stamp_run
wants prefill && bench_prefill
wants fidelity && fidelity

if [ -e "$out/failed" ]; then
    echo "gpu_bench: $(wc -l <"$out/failed") failed; logs are in $out"
    exit 1
fi
echo "gpu_bench: all passed; logs are in $out"
