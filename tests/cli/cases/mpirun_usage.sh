export OMPI_MCA_orte_execute_quiet=1
mpirun -n 3 "$PAGELANE" trace stats x --limit many
# One process is not several ranks either.
mpirun -n 1 "$PAGELANE" run --comm local --ranks 3
