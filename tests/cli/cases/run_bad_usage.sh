# On virtual ranks, and on ranks that the program starts with mpirun: one line
# of one rank, the same exit status.
trace=$DATA/mooncake_conversation_slice.jsonl
for arguments in '--page-size 64 --chunk 100' '--decode-ranks 3' \
    '--decode-ranks 7' '--ranks 128' '--device-pages unlimited' \
    '--decode-host-pages unlimited' '--inject nonsense' \
    '--inject flip=host@rank:x' '--inject load.alloc=plain@rank:1' \
    '--ownership layer' '--nonsense' '--write-policy through' '--timeout 0s' \
    'trace.jsonl'; do
    for comm in local mpi; do
        # shellcheck disable=SC2086
        "$PAGELANE" run --trace "$trace" --ranks 3 --comm $comm $arguments
        status=$?
        echo "$arguments, $comm: $status"
    done
done
"$PAGELANE" run
exit "$status"
