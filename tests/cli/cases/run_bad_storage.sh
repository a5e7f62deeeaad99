# What does not go together in a storage tier: one line, no folder made.
trace=$DATA/mooncake_conversation_slice.jsonl
for arguments in '--storage tier --host-pages 0' '--from tier --host-pages 0' \
    '--storage-pages 100' '--storage-gb 1' \
    '--storage tier --storage-pages 100 --storage-gb 1' \
    '--host-pages 100 --host-gb 1' '--host-gb 0.000001' \
    '--storage tier --storage-gb 0.000001' '--host-gb much' '--resume' \
    '--executor cost --storage tier' '--executor cost --from tier' \
    '--executor cost --storage-pages 100 --host-pages 0' '--from tier' \
    '--prefetch-policy never' '--prefetch-threshold -1' \
    '--storage-pages unlimited' '--storage-pages -2'; do
    # shellcheck disable=SC2086
    "$PAGELANE" run --trace "$trace" --ranks 3 --comm local $arguments
    status=$?
    echo "$arguments: $status"
done
ls
