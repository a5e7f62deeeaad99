# The line that `size` ends with runs as it is, on as many lanes as it says.
check() {
    line=$("$PAGELANE" size --kv-dtype fp8 "$@" | tail -1)
    line=${line/#pagelane/\"\$PAGELANE\"}
    line=${line/%TRACE/\"\$DATA\/mooncake_conversation_slice.jsonl\"}
    eval "$line --limit 20 --json --log-level warn" >out || return
    grep -E '"(n_completed|completed|prefill_ranks|ranks)"' out
}
check --model GLM-5.2 --hardware H200 --host-gb 100
check --model GLM-5 --hardware B300 --gpus 4 --page-size 100 --ep 4
check --model GLM-5.2 --hardware H200 --ownership layer
check --model GLM-5.2 --hardware H200 --ownership replicated
