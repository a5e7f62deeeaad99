/* The pagelane program: what mpirun starts, and what starts mpirun. */
#include <signal.h>

#include <mpi.h>

#include <pagelane/cli.h>

int main(int argc, char **argv)
{
    int level   = 0;
    int started = 0;
    int ended   = 0;
    int exit_status;

    /* A file that may grow no more (ulimit -f) is a full disk, not a death. */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (pl_cli_launched()) { /* else a run of one rank may start MPI itself */
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    }
    exit_status = pl_cli_main(argc, argv);
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (started && !ended) {
        MPI_Finalize();
    }
    return exit_status;
}
