"$PAGELANE" doctor --limit 3
