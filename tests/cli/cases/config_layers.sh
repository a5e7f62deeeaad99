printf '# three\nlimit = 3\npage-size = 16\n' >three.conf
count() { "$PAGELANE" trace stats "$DATA/mooncake_conversation_slice.jsonl" \
    --json "$@" | grep -E '"(requests|page_size)"'; }
count --config three.conf
PAGELANE_CONFIG=three.conf PAGELANE_LIMIT=2 count
PAGELANE_CONFIG=three.conf PAGELANE_LIMIT=2 count --limit 1 --page-size=32
