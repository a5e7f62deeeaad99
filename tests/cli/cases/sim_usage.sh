# What cannot be simulated, and what has no effect.
sim="$PAGELANE sim --trace $DATA/mooncake_conversation_slice.jsonl --limit 1"
check() {
    $sim "$@" >/dev/null
    echo "exit status $?"
}
check --hardware H200
check --hardware H200 --model GLM-5.2
check --hardware nothing --model GLM-5.2 --kv-dtype fp8
check --hardware H200 --model nothing --kv-dtype fp8
check --hardware H200 --model GLM-5.2 --kv-dtype fp8 --ep 257
# a GPU has not the memory: for weights, for pages, for all that was asked for
glm="--hardware H200 --model GLM-5.2 --kv-dtype fp8"
check $glm
check $glm --cp 4 --decode-ranks 4 --ep 4
check $glm --cp 8 --device-pages fit --context 1048576 --mem-fraction 0.745
check $glm --cp 8 --decode-ranks 1 --device-pages 7000 --decode-pages 9000 \
    --log-level warn
check $glm --cp 8 --device-pages fit --decode-pages fit
check --device-pages fit
check --decode-pages fit --model GLM-5.2
check --host-pages fit
check --calibrate nothing
check $glm --calibrate nothing
echo '{"bench": "lanes", "take_ns": 3}' >lanes.json
check $glm --calibrate lanes.json
check --slo ttft:2
check --mtp 2
check --mtp 0:0.5
check --mtp 17:0.5
check --mtp 2:1.000001
check --mtp 2:.5
check --mtp 2:0.
check --mtp 2:0.5x
check --mtp-kv lost --log-level warn
sed 's/"num_hidden_layers": 61/"num_hidden_layers": 512/' \
    "$DATA/models/DeepSeek-V3.2.json" >deep.json
check --hardware B300 --model deep.json --kv-dtype fp8 --mtp 1:0.5
check --cp 128
check --comm local
check --model GLM-5.2 --log-level warn
check --mem-fraction 0.9 --context 4096 --log-level warn
check --materialize ahead --ep 4 --weight-dtype bf16 --log-level warn
