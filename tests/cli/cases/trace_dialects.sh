# Traces as others write them, from stdin too, and what is said of the rest.
printf '%s\n' '{"input_length": 100, "output_length": 5, "hash_ids": [1, 2]}' \
    '{"input_length": 120, "output_length": 5, "hash_ids": [1, 3]}' >small
printf '%s\n' '{"timestamp": 0, "input_length": 100, "output_length": 5}' \
    '{"timestamp": 9, "input_length": 120, "output_length": 5}' >lengths
printf '%s\n' '{"input_length": 600, "output_length": 5, "hash_ids": [4, 5], "request_id": 1, "wait_for": [1]}' >circle
printf '%s\n' '{"prompt_token_ids": [1, 2]}' >tokens
mkdir folder
"$PAGELANE" trace convert - --trace-block-size 64 <small
"$PAGELANE" trace convert - --format csv <lengths
"$PAGELANE" sim --trace lengths --device-pages 100 --log-level warn | head -3
for arguments in small 'small --trace-block-size 64 --merge circle' \
    'tokens --trace-block-size 64' folder; do
    # shellcheck disable=SC2086
    "$PAGELANE" trace stats $arguments
    echo "$arguments: $?"
done
"$PAGELANE" trace convert tokens --id-tokens 2
