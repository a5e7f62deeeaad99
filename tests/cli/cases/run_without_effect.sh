# Options that change nothing, and faults that never come, are told; once, by
# whoever knows what all ranks saw.
run() { "$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" \
    --limit 12 --block-tokens 16 --max-new 2 --log-level warn "$@" >/dev/null; }
run --kv-dtype bf16 --hot-threshold 5 --events ring:5 --timeout 9s \
    --ownership round-robin --snapshot-keep 4 \
    --prefetch-policy best_effort --prefetch-threshold 9
run --executor cost --verify full --device guard --model no/model \
    --tokens-out tokens
run --host-pages 0 --write-policy write_back --hot-threshold 5 \
    --load-threshold 5
run --model "$DATA/../examples/glm-tiny" --max-new 1 --limit 1 \
    --stamp-layers 3 --stamp-row-bytes 8
run --comm local --ranks 3 --inject load.fail@count:99999 \
    --inject backup.fail@rank:2 --inject rank.die@tick:999999
run --ranks 2 --inject backup.fail@rank:1 --inject backup.fail@rank:9
# These have their effect.
run --kv-dtype f32 --verify digest --inject backup.fail
run --executor cost --storage-pages 50 --prefetch-threshold 9
run --storage tier --prefetch-policy best_effort
run --from tier --prefetch-threshold 9 --comm local --ranks 2 --timeout 9s \
    --ownership round-robin
run --snapshot s.h5 --snapshot-every 5req --snapshot-keep 4
"$PAGELANE" inspect s.h5 requests --tier host >/dev/null
"$PAGELANE" inspect s.h5 page 1 --tier host >/dev/null
