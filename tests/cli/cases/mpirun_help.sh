mpirun -n 3 "$PAGELANE" trace stats --help | head -n 1
