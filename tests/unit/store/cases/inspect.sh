"$PAGELANE" inspect "$DATA/small.h5"
