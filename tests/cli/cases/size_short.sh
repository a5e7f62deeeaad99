# Weights that do not fit, and pages that do not: by how much, exit status 4.
for arguments in '--hardware H100' '--hardware H200 --weight-dtype bf16' \
    '--hardware H100 --gpus 256 --cp 8 --mem-fraction 0.1' \
    '--hardware H20-3e --mem-fraction 0.739' \
    '--hardware H20-3e --mem-fraction 0.739 --ownership replicated' \
    '--hardware H20-3e --mem-fraction 0.73799 --ownership replicated'; do
    # shellcheck disable=SC2086
    "$PAGELANE" size --model GLM-5.2 --kv-dtype fp8 $arguments >out
    echo "$arguments: $?"
    # shellcheck disable=SC2086
    "$PAGELANE" size --model GLM-5.2 --kv-dtype fp8 $arguments --json \
        2>/dev/null | grep -E '"(kv_bytes|run)"'
    grep -E 'missing|for KV' out
done
