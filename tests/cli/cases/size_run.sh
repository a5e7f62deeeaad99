# The line that `size` ends with runs as it is, on as many lanes as it says, and
# without a warning: what fits there fits here.
check() {
    line=$("$PAGELANE" size --kv-dtype fp8 "$@" | tail -1)
    line=${line/#pagelane/\"\$PAGELANE\"}
    line=${line/%TRACE/\"\$DATA\/mooncake_conversation_slice.jsonl\"}
    eval "$line --limit 20 --json --log-level warn" >out || return
    grep -E '"(completed|device_capacity_tokens|host_capacity_tokens)"' out
}
check --model GLM-5.2 --hardware H200 --host-gb 100
check --model GLM-5 --hardware B300 --gpus 4 --page-size 100 --ep 4
check --model GLM-5.2 --hardware H200 --ownership layer
check --model GLM-5.2 --hardware H200 --ownership replicated
# of another share of the memory, without which the weights would not fit, and
# of sessions with other views
check --model GLM-5.2 --hardware H200 --gpus 6 --mem-fraction 0.97
check --model GLM-5.2 --hardware H200 --context 4096 --page-size 16
check --model GLM-5.2 --hardware H200 --ownership layer --mem-fraction 0.95
