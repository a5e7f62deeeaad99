# What report cannot do, each in one line.
for words in 'report' 'report x.h5' 'report x.h5 y.h5' 'report --csv x.h5' \
    'report --perfetto' 'export --perfetto t.json x.h5 nodes'; do
    # shellcheck disable=SC2086
    "$PAGELANE" $words
    echo "$words: $?"
done
