# Every format is told by its content, whatever the file is called.
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8' >azure
printf '%s\n' '{"chat_id": 0, "parent_chat_id": -1, "timestamp": 0.0, "input_length": 40, "output_length": 4, "type": "text", "turn": 1, "hash_ids": [0, 1, 2]}' \
    '{"chat_id": 1, "parent_chat_id": 0, "timestamp": 2.5, "input_length": 60, "output_length": 4, "type": "text", "turn": 2, "hash_ids": [0, 1, 3, 4]}' >bailian
printf '%s\n' '{"block_size": 64, "requests": [{"t": 0, "in": 130, "out": 9, "hash_ids": [1, 2], "api_time": 2}, {"t": 9, "in": 200, "out": 3, "hash_ids": [1, 2, 3], "think_time": 4.5}]}' >agentic
gzip -k bailian
for file in azure bailian bailian.gz agentic; do
    "$PAGELANE" trace stats $file --capacity 1,100
    echo
done
"$PAGELANE" trace stats agentic --merge bailian --speedup 2 --json --lru pages --page-size 16
"$PAGELANE" trace stats azure --json
# What cannot be.
: >empty
echo '{"a": 1}' >unknown
head -c 40 bailian.gz >cut
for arguments in empty unknown cut "bailian --merge missing" \
    "bailian --speedup fast" "bailian --speedup 0" "azure --block-tokens 8"; do
    # shellcheck disable=SC2086
    "$PAGELANE" trace stats $arguments
    echo "$arguments: $?"
done
