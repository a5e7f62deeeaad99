PAGELANE_LIMITS=1 PAGELANE_DEBUG=1 PAGELANE_NVTX=1 \
    "$PAGELANE" trace stats --limit 1 --json \
    "$DATA/mooncake_conversation_slice.jsonl" >/dev/null
