"$PAGELANE" --help | grep -v '^  [a-z]'
"$PAGELANE" -h >/dev/null
