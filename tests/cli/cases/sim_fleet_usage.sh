# What cannot be with instances, and what has no effect on them.
sim="$PAGELANE sim --trace $DATA/mooncake_conversation_slice.jsonl --limit 1"
check() {
    $sim "$@" >/dev/null
    echo "exit status $?"
}
check --prefill 8
check --prefill 0x8
check --prefill 2x128
check --prefill 2x8x
check --decode 2
check --decode 2x16:dp
check --decode 2x16:dp5
check --decode 1x256
check --decode 1x256:dp999
check --decode 1x4097
check --pd 2x8
check --pd auto
check --pd 2x8+1x8 --prefill 2x8
check --prefill 2x8 --cp 8
check --decode 1x8 --decode-ranks 8
check --prefill 2x8 --decode 1x8 --pd-link 50
check --prefill 2x8 --decode 1x8 --pd-link 0.1MB/s
check --prefill 2x8 --router nearest
check --prefill 2x8 --snapshot a.h5 --snapshot-every 10req
check --prefill 2x8 --snapshot a.h5 --events ring:9
check --prefill 2x8 --snapshot no/a.h5
check --prefill 2x8 --inject copy=fail
check --prefill 2x8 --explore 2
check --prefill 2x8 --storage-pages 100
check --prefill 2x8 --validate bench.json
check --prefill 2x8 --evict belady
check --router random --pd-link 50GB/s --log-level warn
check --prefill 1x1 --router random --ownership replicated --log-level warn
check --prefill 2x8 --device-pages 10
check --prefill 2x8 --events off --snapshot-keep 5 \
    --prefetch-policy best_effort --prefetch-threshold 9 --log-level warn
check --cp 8 --prefetch-policy best_effort --prefetch-threshold 9 \
    --log-level warn
sweep="$PAGELANE sweep --trace $DATA/mooncake_conversation_slice.jsonl"
$sweep --pd auto --gpus 8 -o a.h5
$sweep --pd auto --gpus 16,20 -o a.h5
$sweep --gpus 16 --slo x -o a.h5
$sweep --pd auto,1x8+1x8 -o a.h5
$sweep --pd auto --hardware nothing -o a.h5
$sweep --pd auto --hardware H200,Xeon-8480 -o a.h5
