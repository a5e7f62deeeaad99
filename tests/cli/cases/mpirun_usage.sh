export OMPI_MCA_orte_execute_quiet=1
mpirun -n 3 "$PAGELANE" trace stats x --limit many
