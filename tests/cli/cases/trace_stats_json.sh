"$PAGELANE" trace stats --json "$DATA/mooncake_conversation_slice.jsonl"
