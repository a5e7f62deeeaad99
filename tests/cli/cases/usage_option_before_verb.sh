"$PAGELANE" --json doctor
