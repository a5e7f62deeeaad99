"$PAGELANE" trace stats --help
