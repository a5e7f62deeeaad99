#!/usr/bin/env bash
# quickstart.sh - install what is missing, build, and run the main job on what the
# project ships: a tiny GLM model and requests of a public trace on 4 prefill ranks
# and 1 decode rank, each page checked and each answer recomputed cold and alone; a
# summary and a snapshot at the end.
set -eu

if [ $# -gt 0 ]; then
    echo "usage: quickstart.sh (it takes no arguments; pagelane run --help does)" >&2
    exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! mkdir -p build || ! [ -w build ]; then
    echo "quickstart: cannot write to $PWD/build; use a copy that is yours" >&2
    exit 4
fi
./mpi_launch/setup.sh

log=build/quickstart.log
echo "quickstart: build (log in $log)"
{
    cmake --preset dev
    cmake --build --preset dev --target pagelane_program -j "$(nproc)"
} >"$log" 2>&1 || {
    tail -n 100 "$log" >&2
    exit 1
}

pagelane=build/dev/bin/pagelane
snapshot=build/quickstart.h5
run() {
    echo
    echo "\$ $*"
    "$@"
}
run "$pagelane" run --trace datasets/mooncake_conversation_slice.jsonl \
    --limit 120 --block-tokens 32 --model examples/glm-tiny \
    --ranks 5 --decode-ranks 1 --page-size 16 --chunk 512 \
    --device-pages 120 --host-pages 3000 --max-new 16 \
    --verify full --snapshot "$snapshot"
cat <<TEXT

The run is written down in $snapshot. Next:
    $pagelane inspect $snapshot requests   what each prompt hit, and why not more
    $pagelane inspect $snapshot lanes      free pages of each rank over time
    h5dump -n $snapshot                                the same file with HDF5's own tools
To see the checks at work, add --inject load.alloc=plain to the run: a load-back
that forgets who owned its pages, the bug that this project began with.
TEXT
