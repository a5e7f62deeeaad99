#!/usr/bin/env bash
# test.sh [--asan] [--nightly] - install what is missing, build, run the tests.
#
#   (nothing)   the default tests, warnings are errors
#   --asan      the same under AddressSanitizer and UndefinedBehaviorSanitizer
#   --nightly   the long tests
set -eu

preset=ci
tests=ci
for argument in "$@"; do
    case $argument in
    --asan) preset=asan tests=asan ;;
    --nightly) tests=nightly ;;
    *)
        echo "test.sh: unknown argument $argument; use --asan or --nightly" >&2
        exit 2
        ;;
    esac
done
if [ "$preset$tests" = asannightly ]; then
    echo "test.sh: --asan and --nightly do not go together" >&2
    exit 2
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
./mpi_launch/setup.sh --browser
cores=$(nproc)
log=build/$preset.log
mkdir -p build

echo "test: configure ($preset)"
cmake --preset "$preset" >"$log" 2>&1 || {
    tail -n 100 "$log" >&2
    exit 1
}
echo "test: build on $cores cores"
cmake --build --preset "$preset" -j "$cores" >"$log" 2>&1 || {
    tail -n 100 "$log" >&2
    exit 1
}
echo "test: run ($tests)"
ctest --preset "$tests" -j "$cores"
