# The points and WHENs, of whichever verb, without a trace.
"$PAGELANE" run --inject help
echo "exit status $?"
"$PAGELANE" sim --inject load.fail --inject help | tail -n 1
