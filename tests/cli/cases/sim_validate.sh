# Simulated beside measured, in each of the formats; with a fit, and with the
# prompts of the trace that was played.
bench=$DATA/../tests/data/bench
sim="$PAGELANE sim --model GLM-5.2 --hardware H200 --kv-dtype fp8 --cp 8"
$sim --validate "$bench/sglang.jsonl"
$sim --validate "$bench/vllm.json" --fit fit.json
cat fit.json
$sim --validate "$bench/aiperf.jsonl" --calibrate fit.json | sed -n 1,9p
$sim --validate "$bench/aiperf.jsonl" --calibrate fit.json --json

# All prompts of the trace begin alike.  Played from the last to the first, they
# are found by their lengths.
for n in 1024 2048 4096 8192 3000 16384 1500 32768 700 6000 12000 900; do
    ids=$(seq -s, 1 $(((n + 511) / 512)))
    echo "{\"timestamp\": 0, \"input_length\": $n, \"output_length\": 1," \
        "\"hash_ids\": [$ids]}"
done >played.jsonl
tac played.jsonl >reversed.jsonl
for trace in played reversed; do
    $sim --validate "$bench/vllm.json" --trace $trace.jsonl | sed -n 1,9p
done

# What is beyond the calibration says so.
slice=$DATA/mooncake_conversation_slice.jsonl
$sim --trace "$slice" --limit 40 --log-level warn --calibrate fit.json |
    grep Extrapolated
$sim --trace "$slice" --limit 40 --log-level warn --calibrate fit.json --json |
    grep -e extrapolated -e concurrent
$sim --trace "$slice" --limit 40 --log-level warn | grep Extrapolated
exit 0
