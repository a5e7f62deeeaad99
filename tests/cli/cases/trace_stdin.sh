# stdin is a trace where one process reads it, once; elsewhere a line says so
slice=$DATA/mooncake_conversation_slice.jsonl
"$PAGELANE" sim --trace - --log-level error --json <"$slice" >piped
"$PAGELANE" sim --trace "$slice" --log-level error --json >named
cmp piped named
"$PAGELANE" run --trace - --executor stamp --ranks 2 --comm mpi <"$slice"
echo "$?"
"$PAGELANE" run --trace "$slice" --merge - --executor stamp --ranks 2 <"$slice"
echo "$?"
for more in "" "--ranks 2" "--cp 1,2"; do
    # shellcheck disable=SC2086
    "$PAGELANE" sweep --trace "$slice,-" $more --output points.h5 <"$slice"
    echo "$?"
done
"$PAGELANE" sweep --trace "$slice" --merge - --output points.h5 <"$slice"
echo "$?"
ls
