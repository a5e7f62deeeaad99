/* test_mpi_session [STATUS]: a program that knows MPI through mpi_session.h
 * alone.  With STATUS the last rank aborts with it while the others wait. */
#include "comm/mpi_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(const pl_mpi_session_t *session, const pl_log_t *log)
{
    pl_comm_t *comm = NULL;
    uint64_t one    = 1;
    char version[256];
    pl_status_t status;

    pl_mpi_version(version, sizeof(version));
    if ((strstr(version, "(MPI ") == NULL) || (session->host[0] == '\0')) {
        return EXIT_FAILURE;
    }
    status = pl_mpi_comm_open(session, 1, 30.0, log, &comm);
    if (status == PL_OK) {
        status = pl_comm_sum(comm, &one, 1);
    }
    pl_comm_close(comm);
    if ((status != PL_OK) || (one != (uint64_t)session->n_ranks) ||
        (session->launched != pl_mpi_launched())) {
        return EXIT_FAILURE;
    }
    printf("rank %d of %d, launched %d\n", session->rank, session->n_ranks,
           session->launched);
    return EXIT_SUCCESS;
}

/* The others are in a call that will never end; abort ends them. */
static int abort_or_wait(const pl_mpi_session_t *session, const pl_log_t *log,
                         int exit_status)
{
    pl_comm_t *comm = NULL;

    if (pl_mpi_comm_open(session, 1, 50.0, log, &comm) != PL_OK) {
        return EXIT_FAILURE;
    }
    if (session->rank == session->n_ranks - 1) {
        pl_comm_fail(comm, PL_ERR_IO);
        pl_mpi_session_abort(session, exit_status);
    }
    return pl_comm_barrier(comm) == PL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    pl_log_t log = pl_log_stderr(PL_LOG_INFO);
    pl_mpi_session_t session;
    int exit_status;

    if (pl_mpi_session_open(&argc, &argv, &log, &session) != PL_OK) {
        return EXIT_FAILURE;
    }
    exit_status = argc > 1 ? abort_or_wait(&session, &log, atoi(argv[1]))
                           : run(&session, &log);
    pl_mpi_session_close(&session);
    pl_mpi_session_close(&session); /* the second does nothing */
    if (pl_mpi_session_open(NULL, NULL, NULL, &session) != PL_ERR_COMM) {
        return EXIT_FAILURE; /* MPI does not start twice */
    }
    return exit_status;
}
