"$PAGELANE" trace stats --limt 3
status=$?
"$PAGELANE" trace stats --qqqqqqqq
"$PAGELANE" trace stats -x
exit "$status"
