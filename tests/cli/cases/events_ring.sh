# Only the newest are kept; who needs the others says so.
"$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" --limit 12 \
    --block-tokens 16 --max-new 2 --log-level warn --executor cost \
    --events ring:3 --snapshot r.h5 >/dev/null
"$PAGELANE" export r.h5 events | cut -d, -f1-5 | tr -d '\r'
"$PAGELANE" inspect r.h5 page 5
echo "exit status $?"
"$PAGELANE" inspect r.h5 why 5
echo "exit status $?"
"$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" --limit 12 \
    --block-tokens 16 --max-new 2 --log-level warn --executor cost \
    --events off --snapshot r.h5 >/dev/null
"$PAGELANE" inspect r.h5 why 5
echo "exit status $?"
