#include "support/mpi_check.h"

#include <stdio.h>
#include <stdlib.h>

/* Rank 0 gives the summary; another rank speaks only if it failed. */
static void report(SRunner *runner, int rank)
{
    int n_failed         = srunner_ntests_failed(runner);
    TestResult **results = srunner_failures(runner);

    for (int i = 0; i < n_failed; i++) {
        fprintf(stderr, "rank %d: %s:%d: %s: %s\n", rank, tr_lfile(results[i]),
                tr_lno(results[i]), tr_tcname(results[i]), tr_msg(results[i]));
    }
    free(results);
}

int mpi_check_main(int *argc, char ***argv, Suite *(*suite)(void))
{
    int n_failed = 0;
    int worst    = 0;
    int rank     = 0;
    SRunner *runner;

    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    runner = srunner_create(suite());
    srunner_set_fork_status(runner, CK_NOFORK); /* MPI does not survive fork */
    srunner_run_all(runner, rank == 0 ? CK_NORMAL : CK_SILENT);
    n_failed = srunner_ntests_failed(runner);
    if (rank != 0) {
        report(runner, rank);
    }
    srunner_free(runner);
    MPI_Allreduce(&n_failed, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return worst == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
