"$PAGELANE" trace stats nowhere.jsonl
