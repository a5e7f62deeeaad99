# What a program reads: vLLM's names, and ours where it has none.
$PAGELANE sim --trace "$DATA/mooncake_conversation_slice.jsonl" --cp 8 --json \
    --decode-ranks 4 --model deepseek-v3.2 --hardware h20-3e --kv-dtype bf16 \
    --weight-dtype bf16 --ep 16 --materialize ahead --slo ttft:9s,e2e:1min \
    --device-pages fit --decode-pages fit --log-level warn
