# A trace in another format: what is written, and what is said of losses.
printf '%s\n' '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7, 9], "session_id": "a"}' \
    '{"timestamp": 12.5, "input_length": 512, "output_length": 1, "hash_ids": [7]}' \
    '{"input_length": 1030, "output_length": 2, "hash_ids": [7, 11, 12], "session_id": "a", "delay": 250}' >in.jsonl
for format in mooncake bailian agentic csv; do
    "$PAGELANE" trace convert in.jsonl --format $format >out.$format
    said="$format: $?"
    echo "$said"
    echo "$said" >&2
    cat out.$format
done
"$PAGELANE" trace convert in.jsonl --block-tokens 8 --format tokens
"$PAGELANE" trace convert in.jsonl --id-tokens 1024 --limit 1 --passes 2
"$PAGELANE" trace convert out.agentic -o back.jsonl
cat back.jsonl
# Keyed ids.
printf '0123456789abcdef' >key
printf 'short' >short
"$PAGELANE" trace convert in.jsonl --anonymize key --limit 2
for arguments in '--anonymize short' '--anonymize missing' \
    '--anonymize key --format tokens' '--format parquet' \
    '--format bailian --id-tokens 64' '-o in.jsonl' '-o nowhere/out' '-o .'; do
    # shellcheck disable=SC2086
    "$PAGELANE" trace convert in.jsonl $arguments
    said="$arguments: $?"
    echo "$said"
    echo "$said" >&2
done
ls
