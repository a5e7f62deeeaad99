# A simulation of the slice: by the fixed table, and of a model on hardware.
slice="--trace $DATA/mooncake_conversation_slice.jsonl --log-level warn"
$PAGELANE sim $slice --cp 8 --chunk 4096 --device-pages 700 --limit 40
$PAGELANE sim $slice --cp 4 --decode-ranks 2 --model GLM-5.2 --hardware H200 \
    --kv-dtype fp8 --ep 32 --limit 40 --slo ttft:1s,tpot:40ms
