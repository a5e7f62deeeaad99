# Each path is looked at, the worst says how it ends; tiers are told from
# snapshots by every verb.
run() { "$PAGELANE" run --trace "$DATA/mooncake_conversation_slice.jsonl" \
    --limit 12 --block-tokens 16 --page-size 16 --max-new 2 --log-level warn \
    "$@" >/dev/null; }
run --storage tier --snapshot good.h5
head -c -1 good.h5 >bad.h5
# Numbers of pages are no matter here.
check() { "$PAGELANE" check "$@" | sed 's/[0-9][0-9]* pages, .*/N pages/'
    echo "exit status ${PIPESTATUS[0]}"; }
check good.h5 tier
check good.h5 bad.h5 tier
check no.h5 good.h5 bad.h5
"$PAGELANE" check good.h5 tier --json | grep -E '"(path|findings)"'
"$PAGELANE" inspect tier
"$PAGELANE" inspect tier/index.h5 nodes
"$PAGELANE" export tier/set0-rank0-0000.h5 requests
