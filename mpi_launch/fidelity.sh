#!/usr/bin/env bash
# fidelity.sh --build DIR [option]... - how near the simulator is to a run on
# this machine.
#
#   --build DIR     a build folder: bin/pagelane
#   --device D      cpu (default) or cuda
#   --cp "N..."     prefill ranks, one run after the other (default "1 2")
#   --decode-ranks D  besides (default 0)
#   --model M       a folder with weights (default examples/glm-tiny), or a name
#                   such as GLM-5: then --layers of it, with random weights
#   --layers N      default 4
#   --repeat N      so many runs, with a measurement before, between and after
#                   (default 2)
#   --out DIR       what was measured and run (default fidelity.out)
#
# For each N: `bench prefill` measures single prompts on N ranks, `run` plays a
# made trace, whose prompts are others and come when they like, and `sim
# --validate` predicts that run's requests from the bench alone.  The last
# table has a line each: medians of the time to the first token, the median of
# |predicted - measured| / measured, and their correlation.  Its yardstick is how
# far runs are from each other: no prediction is nearer than the machine repeats
# itself (python3-h5py).
set -eu

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=
device=cpu
ranks="1 2"
decode=0
model=$root/examples/glm-tiny
layers=4
repeat=2
out=fidelity.out

usage() {
    echo "fidelity.sh: $1; see its first lines" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || usage "a value is missing behind $1"
    case $1 in
    --build) build=$2 ;;
    --device) device=$2 ;;
    --cp) ranks=$2 ;;
    --decode-ranks) decode=$2 ;;
    --model) model=$2 ;;
    --layers) layers=$2 ;;
    --repeat) repeat=$2 ;;
    --out) out=$2 ;;
    *) usage "unknown option $1" ;;
    esac
    shift 2
done
program=$build/bin/pagelane
[ -x "$program" ] || usage "--build '$build' has no bin/pagelane"
mkdir -p "$out"

# Prompts of a tenth to half a second, one or two at a time; the benchmark's
# lengths lie around them.
if [ "$device" = cpu ]; then
    hardware=Xeon-8480
    chunk=512
    contexts=128,512,1024,2048,3072
    shape="--shape 128x1,256x4 --words 600:0.8 --answer 12:0.5"
    when="--sessions 40 --turns 2 --think 1s --arrivals poisson:1"
else
    hardware=H200
    chunk=8192
    contexts=512,2048,8192,16384,49152
    shape="--shape 1024x1,2048x4 --words 9000:0.8 --answer 12:0.5"
    when="--sessions 40 --turns 2 --think 1s --arrivals poisson:0.7"
fi

# A model by its name becomes a folder with its first layers.
weights=
if [ ! -e "$model/config.json" ]; then
    weights="--weights random:1"
    mkdir -p "$out/model"
    python3 - "$root/datasets/models/$model.json" "$layers" \
        >"$out/model/config.json" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    config = json.load(file)
config["num_hidden_layers"] = int(sys.argv[2])
config["num_nextn_predict_layers"] = 0
print(json.dumps(config, indent=2))
PYTHON
    model=$out/model
fi

# shellcheck disable=SC2086 # options of several words
"$program" trace make $shape $when --seed 11 -o "$out/trace.jsonl"
common="--model $model --kv-dtype bf16 --chunk $chunk"
planned="--hardware $hardware --ep 1"

# Before the run and after it: the speed of a machine drifts.
measure() {
    # shellcheck disable=SC2086
    "$program" bench prefill $common $weights --device "$device" --ranks "$1" \
        --contexts $contexts --repeat 3 --json
}

run() {
    # shellcheck disable=SC2086
    "$program" run $common $weights $planned --device "$device" \
        --calibrate "$cal" --ranks $((n + decode)) --decode-ranks "$decode" \
        --trace "$out/trace.jsonl" --verify off --snapshot "$1.h5" \
        >"$1.txt" 2>&1 || {
        cat "$1.txt" >&2
        exit 1
    }
}

validate() {
    # shellcheck disable=SC2086
    "$program" sim $common $planned --calibrate "$cal" --cp "$n" \
        --decode-ranks "$decode" --trace "$out/trace.jsonl" \
        --validate "$1.h5" --json >"$1.json"
    python3 - "$device, $n + $decode ranks" "$1.json" <<'PYTHON'
import json
import sys

with open(sys.argv[2], encoding="utf-8") as file:
    found = json.load(file)
line = [f"{sys.argv[1]}: {found['ttft_requests']} requests"]
for name in "ttft", "tpot", "e2el":
    line.append(f"{name} {found[f'predicted_median_{name}_ms']:.1f} ms, "
                f"measured {found[f'measured_median_{name}_ms']:.1f}, median "
                f"error {100 * found[f'{name}_median_error']:.1f} %, r "
                f"{found.get(f'{name}_r', 0):.3f}")
print("; ".join(line))
PYTHON
}

# The same error, of the first run as a prediction of each other one.
repeats_itself() {
    python3 - "$@" <<'PYTHON'
import statistics
import sys

try:
    import h5py
except ImportError:
    sys.exit("no python3-h5py: how far runs are from each other is not said")


def ttft(path):
    with h5py.File(path) as file:
        timing = file["timing"]
        return timing["first_token_ns"][:] - timing["arrival_ns"][:]


first = ttft(sys.argv[1])
for path in sys.argv[2:]:
    other = ttft(path)
    error = statistics.median(abs(first - other) / other)
    print(f"  the first run for {path}: ttft median error {100 * error:.1f} %")
PYTHON
}

for n in $ranks; do
    cal=$out/bench_${device}_$n+$decode.json
    measure "$n" >"$cal"
    for i in $(seq "$repeat"); do
        run "$out/run_${device}_$n+${decode}_$i"
        measure "$n" >>"$cal"
    done
    for i in $(seq "$repeat"); do
        validate "$out/run_${device}_$n+${decode}_$i"
    done
    if [ "$repeat" -gt 1 ]; then
        # shellcheck disable=SC2046
        repeats_itself $(seq -f "$out/run_${device}_$n+${decode}_%g.h5" \
            "$repeat") || true
    fi
done
