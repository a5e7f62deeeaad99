"$PAGELANE" inspect "$DATA/small.h5" nodes
