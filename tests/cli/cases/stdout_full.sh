"$PAGELANE" --help >/dev/full
