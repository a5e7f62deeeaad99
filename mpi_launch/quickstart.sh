#!/usr/bin/env bash
# quickstart.sh - install what is missing, build, and show what pagelane does.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
./mpi_launch/setup.sh

log=build/quickstart.log
mkdir -p build
echo "quickstart: build (log in $log)"
{
    cmake --preset dev
    cmake --build --preset dev --target pagelane_program -j "$(nproc)"
} >"$log" 2>&1 || {
    tail -n 100 "$log" >&2
    exit 1
}

pagelane=build/dev/bin/pagelane
run() {
    echo
    echo "\$ $*"
    "$@"
}
run "$pagelane" doctor
run "$pagelane" trace stats datasets/mooncake_conversation_slice.jsonl
