"$PAGELANE" trace stats a b
status=$?
"$PAGELANE" doctor now
"$PAGELANE" trace stats a --trace b
exit "$status"
