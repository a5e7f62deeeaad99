"$PAGELANE" --version
