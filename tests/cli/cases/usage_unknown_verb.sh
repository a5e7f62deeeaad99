"$PAGELANE" docter
status=$?
"$PAGELANE" trace statz
"$PAGELANE" trace
"$PAGELANE" frobnicate
exit "$status"
