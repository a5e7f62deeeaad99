/* The pagelane program: what mpirun starts, and what starts mpirun. */
#include <mpi.h>

#include <pagelane/cli.h>

int main(int argc, char **argv)
{
    int initialized = 0;
    int exit_status;

    if (pl_cli_launched()) {
        MPI_Init(&argc, &argv);
    }
    exit_status = pl_cli_main(argc, argv);
    MPI_Initialized(&initialized); /* a run of one rank starts MPI by itself */
    if (initialized) {
        MPI_Finalize();
    }
    return exit_status;
}
