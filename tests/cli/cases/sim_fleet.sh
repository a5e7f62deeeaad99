# Several instances: of prefill and decode, and of one kind that does both.
slice="--trace $DATA/mooncake_conversation_slice.jsonl --log-level warn"
$PAGELANE sim $slice --prefill 2x4 --decode 2x8:dp4 --limit 40 --chunk 4096
$PAGELANE sim $slice --pd 2x8+1x8 --model GLM-5.2 --hardware H200 \
    --kv-dtype fp8 --limit 40 --slo ttft:1s,tpot:40ms --pd-link 25GB/s \
    --decode-pages unlimited --router round-robin
$PAGELANE sim $slice --prefill 3x2 --limit 40 --router least-loaded | head -2
