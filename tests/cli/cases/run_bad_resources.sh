# Pools that cannot hold what the trace asks for, memory that is not there: exit
# status 4, before anything runs.
trace=$DATA/mooncake_conversation_slice.jsonl
for arguments in '--device-pages 20 --block-tokens 64' \
    '--decode-pages 20 --block-tokens 64' \
    '--device-pages 2 --block-tokens 64 --limit 1' \
    '--decode-pages 2 --block-tokens 64 --limit 1' \
    '--device-pages 20 --block-tokens 64 --executor cost' \
    '--stamp-layers 1024 --stamp-row-bytes 65536 --block-tokens 64' \
    '--decode-host-pages 400000000 --decode-ranks 1 --block-tokens 64'; do
    for comm in local mpi; do
        # shellcheck disable=SC2086
        "$PAGELANE" run --trace "$trace" --ranks 3 --comm $comm $arguments
        status=$?
        echo "$arguments, $comm: $status"
    done
done
exit "$status"
