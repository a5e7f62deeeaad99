# What cannot be measured is refused before anything is opened.
try() {
    "$PAGELANE" bench transfer "$@"
    echo "exit status $?"
}
try --comm nccl
try --device cuda --comm local
try --min 2MiB --max 1MiB
try --min 1MiB --max 1GiB --page-size 1 --ranks 1000 --comm local
try --max 1MB
try --limit 3
try lanes
"$PAGELANE" bench transfer --help | head -3
"$PAGELANE" bench --help | head -3
# No figure either: all words are looked at first.
"$PAGELANE" bench lanes transfer
echo "exit status $?"
