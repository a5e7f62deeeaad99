# Under an mpirun of the user's own: one line of rank 0, all ranks end.
export OMPI_MCA_orte_execute_quiet=1
trace=$DATA/mooncake_conversation_slice.jsonl
for arguments in '--comm local' '--ranks 4' '--decode-ranks 3' \
    '--page-size 64 --chunk 100' '--inject nonsense' '--nonsense' \
    '--trace missing.jsonl' '--snapshot nowhere/a.h5' \
    '--block-tokens 64 --device-pages 20'; do
    # shellcheck disable=SC2086
    mpirun -n 3 "$PAGELANE" run --trace "$trace" $arguments
    status=$?
    echo "$arguments: $status"
done
mpirun -n 3 "$PAGELANE" run
exit "$status"
