#!/usr/bin/env bash
# pkg_config.sh PREFIX LIBDIR CC SOURCE PROGRAM SANITIZE: build and run a
# consumer with what pkg-config says.
set -eu

prefix=$1
libdir=$prefix/$2
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs pagelane)"
[ -n "$6" ] && flags+=("-fsanitize=$6")
"$3" -std=c11 -Wall -Werror "$4" -o "$5" "${flags[@]}"
LD_LIBRARY_PATH=$libdir "$5"
