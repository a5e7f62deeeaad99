# The same numbers for programs.
$PAGELANE sim --trace $DATA/mooncake_conversation_slice.jsonl --json \
    --log-level warn --prefill 2x4 --decode 1x8:dp2 --limit 30 --slo ttft:1s
