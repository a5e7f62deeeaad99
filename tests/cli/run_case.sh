#!/usr/bin/env bash
# run_case.sh PROGRAM CASE.sh [SHIPPED_DATA]
#
# Runs one case and compares what it printed and how it ended.  Beside CASE.sh:
#   CASE.exit                     exit status, 0 without the file
#   CASE.stdout.exact|.match      what it prints; nothing without a file
#   CASE.stderr.exact|.match      likewise
# A .match file holds an extended regular expression for each line.
#
# The case runs in an empty folder with $PAGELANE, the program, and $DATA, the
# datasets; no PAGELANE_ variable, and nothing of an mpirun around it, is passed
# on.
# PAGELANE_UPDATE_GOLDEN=1 writes .exit and .stdout.exact (where there is no
# .match) from what was seen.
set -u

program=$1
script=$2
data=${3:-}
case=${script%.sh}
update=${PAGELANE_UPDATE_GOLDEN:-0}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
bad=0

while IFS='=' read -r name _; do
    case $name in PAGELANE_* | OMPI_COMM_WORLD_* | PMIX_* | PMI_*) unset "$name" ;; esac
done < <(env)
export PAGELANE=$program DATA=$data LC_ALL=C

mkdir "$folder/empty"
(cd "$folder/empty" && bash "$script") \
    >"$folder/stdout" 2>"$folder/stderr" </dev/null
status=$?

if [ "$update" = 1 ]; then
    if [ "$status" = 0 ]; then rm -f "$case.exit"; else echo "$status" >"$case.exit"; fi
    for stream in stdout stderr; do
        [ -e "$case.$stream.match" ] && continue
        rm -f "$case.$stream.exact"
        [ -s "$folder/$stream" ] && cp "$folder/$stream" "$case.$stream.exact"
    done
fi

wanted=0
[ -e "$case.exit" ] && wanted=$(cat "$case.exit")
if [ "$status" != "$wanted" ]; then
    echo "exit status $status, expected $wanted"
    bad=1
fi

# Each line against the expression on the same line of the .match file.
match() {
    local line expression
    while read -r expression <&3; do
        if ! IFS= read -r line; then
            echo "missing line: $expression"
            return 1
        fi
        if ! [[ $line =~ ^$expression$ ]]; then
            echo "line:       $line"
            echo "expression: $expression"
            return 1
        fi
    done 3<"$1"
    if IFS= read -r line; then
        echo "unexpected line: $line"
        return 1
    fi
}

for stream in stdout stderr; do
    if [ -e "$case.$stream.match" ]; then
        match "$case.$stream.match" <"$folder/$stream" || bad=1
    elif [ -e "$case.$stream.exact" ]; then
        diff -u "$case.$stream.exact" "$folder/$stream" || bad=1
    elif [ -s "$folder/$stream" ]; then
        echo "unexpected $stream:"
        cat "$folder/$stream"
        bad=1
    fi
done
if [ "$bad" != 0 ]; then
    echo "stderr was:"
    cat "$folder/stderr"
fi
exit "$bad"
