#!/usr/bin/env bash
# setup.sh [--browser] - install what is missing to build, test and run pagelane.
#
# With --browser also Chromium, which one test looks at pages with: where it is
# not to be had, a line says so and the test is skipped.
#
# Asks for each thing first; when all is there, nothing is installed and no
# rights are needed.  Debian and Ubuntu: apt-get, with sudo if not root.
set -eu

python=/usr/bin/python3 # Debian's modules belong to Debian's interpreter
[ -x "$python" ] || python=python3

has() { command -v "$1" >/dev/null 2>&1; }
has_library() { has pkg-config && pkg-config --exists "$1"; }
# Found, not loaded: some take a second.
has_module() {
    "$python" -c "import sys
from importlib.util import find_spec
sys.exit(find_spec('$1') is None)" >/dev/null 2>&1
}
has_cmake() {
    has cmake && printf '3.25\n%s\n' "$(cmake --version | sed -n '1s/[^0-9]*//p')" |
        sort -V -C
}
has_hdf5() { has_library hdf5-openmpi || has h5pcc; }

# Debian package, and what tells that it (or its like) is there.
missing=()
need() {
    local package=$1
    shift
    "$@" || missing+=("$package")
}
need build-essential has cc
need make has make
need cmake has_cmake
need pkg-config has pkg-config
need libopenmpi-dev has mpicc
need openmpi-bin has mpirun
need libhdf5-openmpi-dev has_hdf5
need hdf5-tools has h5diff
need check has_library check
need libjson-c-dev has_library json-c
need libxxhash-dev has_library libxxhash
need zlib1g-dev has_library zlib
need libzstd-dev has_library libzstd
need libssl-dev has_library libcrypto
need python3 has "$python"
need python3-numpy has_module numpy
need python3-h5py has_module h5py
need python3-pandas has_module pandas
need python3-matplotlib has_module matplotlib

browser=()
if [ "${1:-}" = --browser ] && ! has chromium && ! has chromium-browser &&
    ! has google-chrome && ! has chrome; then
    browser=(chromium)
fi

if [ ${#missing[@]} = 0 ] && [ ${#browser[@]} = 0 ]; then
    echo "setup: everything is there"
    exit 0
fi
if [ ${#missing[@]} = 0 ] && { ! has apt-get ||
    { [ "$(id -u)" != 0 ] && ! has sudo; }; }; then
    echo "setup: no browser here, and none can be installed: run.report.browser is skipped"
    exit 0
fi
if ! has apt-get; then
    echo "setup: missing (by their Debian names): ${missing[*]}" >&2
    echo "setup: no apt-get here; install them with this system's tool" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! has sudo; then
        echo "setup: missing: ${missing[*]}" >&2
        echo "setup: neither root nor sudo; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
echo "setup: installing ${missing[*]} ${browser[*]}"
apt update
[ ${#missing[@]} = 0 ] || apt install -y --no-install-recommends "${missing[@]}"
if [ ${#browser[@]} != 0 ] &&
    ! apt install -y --no-install-recommends "${browser[@]}"; then
    echo "setup: no ${browser[*]} to be had: run.report.browser is skipped"
fi
