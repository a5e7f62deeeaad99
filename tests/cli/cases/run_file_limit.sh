# Pages of a device are a file that has no name, as peers must find them: a limit
# on files is one on them.
ulimit -f 64
"$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" --limit 1 \
    --block-tokens 64 --device-pages 4096
echo "exit status $?"
