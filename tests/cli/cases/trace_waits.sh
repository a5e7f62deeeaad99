# Turns come when the turn before them has ended, on any number of ranks.
printf '%s\n' '{"timestamp": 0, "input_length": 600, "output_length": 40, "hash_ids": [1, 2], "session_id": 1}' \
    '{"timestamp": 1, "input_length": 700, "output_length": 5, "hash_ids": [1, 3]}' \
    '{"input_length": 1200, "output_length": 5, "hash_ids": [1, 2, 4], "session_id": 1, "delay": 100}' \
    '{"input_length": 1700, "output_length": 5, "hash_ids": [1, 2, 4, 5], "session_id": 1, "delay": 0, "request_id": "x"}' \
    '{"input_length": 600, "output_length": 5, "hash_ids": [9, 10], "wait_for": ["x"], "delay": 3}' >waits.jsonl
for ranks in 1 2 3 4; do
    "$PAGELANE" run --trace waits.jsonl --ranks $ranks --comm local --log-level warn \
        --snapshot $ranks.h5 --tokens-out $ranks.tokens >/dev/null
    cmp 1.tokens $ranks.tokens
    # Nobody arrives before the one it waits for has ended, and it has thought.
    "$PAGELANE" export $ranks.h5 requests | awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { a[NR - 2] = $at["arrival_ns"]; e[NR - 2] = $at["finished_ns"] }
        END { print a[2] - e[0], a[3] - e[2], a[4] - e[3], a[1] }'
done
