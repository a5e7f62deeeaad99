# What inspect, compare and export cannot do, each in one line.
for words in 'inspect x.h5 page' 'inspect x.h5 why' 'inspect x.h5 diff' \
    'compare x.h5' 'compare x.h5 y.h5 z.h5' 'compare x.h5 y.h5' \
    'export x.h5' 'export x.h5 pages' 'export x.h5 nodes' \
    'export --csv --json x.h5 nodes' 'inspect --tier storage x.h5 page 1'; do
    # shellcheck disable=SC2086
    "$PAGELANE" $words
    echo "$words: $?"
done
for condition in 'ttft' 'ttft.p99' 'ttft.p98>+5%' 'tttft.p99>+5%' \
    'ttft.p99=+5%' 'ttft.p99>5%' 'ttft.p99>+%' 'ttft.p99>+5' \
    'ttft.p99>+5tokens' 'computed.mean>+5ms' 'ttft.p99>+5.5.5%' '>+5%'; do
    "$PAGELANE" compare x.h5 y.h5 --fail-if "$condition"
    echo "$condition: $?"
done
