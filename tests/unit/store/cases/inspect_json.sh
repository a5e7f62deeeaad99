"$PAGELANE" inspect --json "$DATA/small.h5"
