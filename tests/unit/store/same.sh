#!/usr/bin/env bash
# same.sh FILE FILE...: are all equal to the first, outside /timing?  h5diff -c
# exits 0 over what it cannot compare, so it must not say anything either.
set -u

first=$1
bad=0
shift
for other in "$@"; do
    said=$(h5diff -c --exclude-path /timing "$first" "$other" 2>&1)
    status=$?
    said=$(grep -v 'is an empty dataset$' <<<"$said")
    if [ "$status" != 0 ] || [ -n "$said" ]; then
        echo "$first and $other differ:"
        echo "$said"
        bad=1
    fi
done
exit "$bad"
