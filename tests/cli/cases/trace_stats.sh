"$PAGELANE" trace stats "$DATA/mooncake_conversation_slice.jsonl"
