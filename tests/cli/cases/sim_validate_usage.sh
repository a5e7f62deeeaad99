# What cannot be validated.
cp "$DATA/../tests/data/bench/vllm.json" vllm.json
cp "$DATA/mooncake_conversation_slice.jsonl" slice.jsonl
sim="$PAGELANE sim --model GLM-5.2 --hardware H200 --kv-dtype fp8 --cp 8"
check() {
    "$@" >/dev/null
    echo "exit status $?"
}
check $sim --fit fit.json --trace slice.jsonl
check $PAGELANE sim --validate vllm.json --fit fit.json
check $sim --validate nothing
check $sim --validate slice.jsonl
echo '{"mean_ttft_ms": 3.5, "completed": 2}' >summary.json
check $sim --validate summary.json
cat vllm.json vllm.json >two.json
check $sim --validate two.json
check $sim --validate vllm.json --speedup 2
check $sim --validate vllm.json --fit vllm.json
check $sim --validate vllm.json --fit nowhere/fit.json
check $sim --validate vllm.json --trace slice.jsonl
check $sim --validate vllm.json --device-pages 10
# What is warned about is, once, however many simulations a fit takes.
check $sim --validate vllm.json --fit a.json --device-pages 99999 \
    --log-level warn
# By the fixed table, too.
check $PAGELANE sim --cp 8 --validate vllm.json
