# `help`, with a verb, half of one, or none that there is.
"$PAGELANE" help | head -3
"$PAGELANE" help trace stats | head -1
"$PAGELANE" help trace
"$PAGELANE" trace --help | head -1
"$PAGELANE" help inspect | head -17
"$PAGELANE" help docter
echo "exit status $?"
"$PAGELANE" help frobnicate
echo "exit status $?"
"$PAGELANE" trace stats
echo "exit status $?"
