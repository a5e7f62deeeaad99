"$PAGELANE" inspect
echo "exit status $?"
"$PAGELANE" inspect x.h5 pages
echo "exit status $?"
"$PAGELANE" inspect x.h5 nodes lanes
echo "exit status $?"
"$PAGELANE" inspect --snapshot x.h5 y.h5
echo "exit status $?"
