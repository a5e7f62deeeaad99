# A trace drawn from a seed: the same each time.
"$PAGELANE" trace make --sessions 3 --turns 2 --shape 512x1,100x2 --words 300:0.5 --seed 5
"$PAGELANE" trace make --sessions 50 --turns 3 --seed 1 -o a.jsonl
"$PAGELANE" trace make --sessions 50 --turns 3 --seed 1 -o b.jsonl
cmp a.jsonl b.jsonl && echo "the same"
"$PAGELANE" trace make --churn 4,6 --shape none --words 100 --answer 1 \
    --id-tokens 64 --arrivals gamma:2:3 | "$PAGELANE" trace stats /dev/stdin |
    grep -E '^(requests|distinct blocks)'
"$PAGELANE" trace make --sessions 3 --arrivals like:a.jsonl --format csv | wc -l
for arguments in '--shape 512' '--shape 0x1' '--shape 1x1,' '--words 0' \
    '--words 5:x' '--arrivals poisson' '--arrivals gamma:1' '--arrivals often' \
    '--arrivals like:missing' '--turns 0.5' '--churn 5' \
    '--churn 5,6 --turns 2' '--format csv --id-tokens 5'; do
    # shellcheck disable=SC2086
    "$PAGELANE" trace make $arguments
    said="$arguments: $?"
    echo "$said"
    echo "$said" >&2
done
