"$PAGELANE" trace stats --page-size 16 --trace "$DATA/tokens_sample.jsonl"
