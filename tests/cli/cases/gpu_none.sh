# Where no GPU can be used: one line that says why, and exit status 4.  The
# reason differs by machine and build.
export CUDA_VISIBLE_DEVICES=
trace=$DATA/mooncake_conversation_slice.jsonl
try() {
    "$PAGELANE" "$@" 2>&1 | sed -E 's/(opened|used here): .*/\1: WHY/'
    echo "exit status ${PIPESTATUS[0]}"
}
try run --trace "$trace" --device cuda
try bench transfer --device cuda --comm peer
try bench kernels
"$PAGELANE" --list-devices | grep -c '^cuda  *no '
"$PAGELANE" --list-devices --json
echo "exit status $?"
