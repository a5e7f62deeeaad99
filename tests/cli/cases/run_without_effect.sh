# Options that change nothing, and faults that never come, are told; once, by
# whoever knows what all ranks saw.
run() { "$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" \
    --limit 12 --block-tokens 16 --max-new 2 --log-level warn "$@" >/dev/null; }
run --kv-dtype bf16 --hot-threshold 5 --events ring:5
run --executor cost --verify full --device guard
run --comm local --ranks 3 --inject load.fail@count:99999 \
    --inject backup.fail@rank:2 --inject rank.die@tick:999999
run --ranks 2 --inject backup.fail@rank:1 --inject backup.fail@rank:9
run --kv-dtype f32 --verify digest --inject backup.fail
