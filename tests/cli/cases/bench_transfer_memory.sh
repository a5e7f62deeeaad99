# Memory that is not there: all virtual ranks fail, and say so once.
# AddressSanitizer, which takes more itself, refuses so much by its own rule.
[ -n "${ASAN_OPTIONS:-}" ] || ulimit -v 8000000
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:allocator_may_return_null=1
"$PAGELANE" bench transfer --comm local --device guard --ranks 3 \
    --page-size 1024 --min 1TiB --max 1TiB >said 2>&1
echo "exit status $?"
grep "^pagelane: " said
