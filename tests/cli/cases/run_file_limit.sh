# Pages that peers read are a file that has no name: a limit on files is one on
# them.  Others are memory, and know nothing of it.
ulimit -f 64
for comm in local peer; do
    "$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" \
        --limit 1 --block-tokens 64 --device-pages 4096 --comm $comm \
        --log-level warn |
        tail -n 1
    echo "exit status ${PIPESTATUS[0]}"
done
