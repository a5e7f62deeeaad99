"$PAGELANE" inspect no/such.h5
