PAGELANE_LIMIT=many "$PAGELANE" trace stats x
