"$PAGELANE" inspect "$DATA/small.h5" lanes
