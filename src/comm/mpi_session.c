#include "comm/mpi_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagelane/mpi.h>

bool pl_mpi_launched(void)
{
    /* Open MPI's mpirun; PMI-1 and PMI-2 (MPICH, srun) */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                                        "PMI_SIZE"};
    const char *ess                  = getenv("OMPI_MCA_ess");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (getenv(names[i]) != NULL) {
            return true;
        }
    }
    /* srun with PMIx; Open MPI sets this too when it starts by itself */
    return (getenv("PMIX_RANK") != NULL) &&
           ((ess == NULL) || (strcmp(ess, "singleton") != 0));
}

pl_status_t pl_mpi_session_open(int *argc, char ***argv, const pl_log_t *log,
                                pl_mpi_session_t *session_p)
{
    pl_mpi_session_t session = {.launched = pl_mpi_launched()};
    int initialized          = 0;
    int finalized            = 0;
    int provided;

    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized) {
        pl_log(log, PL_LOG_ERROR,
               "MPI has ended in this process and cannot start again");
        return PL_ERR_COMM;
    }
    if (!initialized) {
        if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) !=
            MPI_SUCCESS) {
            pl_log(log, PL_LOG_ERROR, "MPI cannot be started");
            return PL_ERR_COMM;
        }
        session.started = true;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &session.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &session.n_ranks);
    if (gethostname(session.host, sizeof(session.host) - 1) != 0) {
        strcpy(session.host, "?");
    }
    *session_p = session;
    return PL_OK;
}

void pl_mpi_session_close(pl_mpi_session_t *session)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (session->started && !finalized) {
        MPI_Finalize();
    }
    session->started = false;
}

void pl_mpi_session_abort(const pl_mpi_session_t *session, int exit_status)
{
    (void)session;
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, exit_status == 0 ? 5 : exit_status);
}

pl_status_t pl_mpi_comm_open(const pl_mpi_session_t *session, int n_prefill,
                             double timeout_s, const pl_log_t *log,
                             pl_comm_t **comm_p)
{
    (void)session; /* there is one */
    return pl_mpi_comm_create(MPI_COMM_WORLD, n_prefill, timeout_s, log,
                              comm_p);
}

void pl_mpi_version(char *text, size_t n_bytes)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int n     = 0;
    int major = 0;
    int minor = 0;

    MPI_Get_library_version(library, &n);
    library[strcspn(library, ",\n")] = '\0'; /* leave out how it was built */
    MPI_Get_version(&major, &minor);
    snprintf(text, n_bytes, "%s (MPI %d.%d)", library, major, minor);
}
