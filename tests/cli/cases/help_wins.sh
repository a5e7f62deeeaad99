"$PAGELANE" trace stats --nonsense --limit=x --help | head -n 1
