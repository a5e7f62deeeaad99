/* comm/mpi_session.h - MPI as the program sees it, in plain C types: so that no
 * other module has to include mpi.h.
 *
 * Lifecycle: open, comm_open and close it, close; or abort.  MPI is a property
 * of the process, so there is at most one session at a time.
 */
#ifndef PL_COMM_MPI_SESSION_H
#define PL_COMM_MPI_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/comm.h"

typedef struct pl_mpi_session {
    bool launched; /* by mpirun or the like: there may be other ranks */
    bool started;  /* MPI did not run before: closing ends it too */
    int rank, n_ranks;
    char host[256];
} pl_mpi_session_t;

/* Did mpirun (or another launcher) start this process?  The environment tells;
 * may be asked at any time. */
bool pl_mpi_launched(void);

/* Collective over all processes.  Start MPI, unless that has been done; without
 * a launcher there is one rank.  The arguments may be NULL.  PL_ERR_COMM (one
 * line) if MPI cannot be started or has ended already. */
PL_MUST_CHECK pl_status_t pl_mpi_session_open(int *argc, char ***argv,
                                              const pl_log_t *log,
                                              pl_mpi_session_t *session_p);

/* Collective.  Ends MPI if the session has started it. */
void pl_mpi_session_close(pl_mpi_session_t *session);

/* Not collective, does not return: end all ranks now, with a nonzero exit
 * status (0 is taken as 5, since mpirun would call it a success).  For a
 * program whose ranks can no longer agree. */
void pl_mpi_session_abort(const pl_mpi_session_t *session, int exit_status);

/* Collective.  A communicator of all ranks; pl_comm_close ends it.  Arguments
 * and statuses: pl_mpi_comm_create (pagelane/mpi.h). */
PL_MUST_CHECK pl_status_t pl_mpi_comm_open(const pl_mpi_session_t *session,
                                           int n_prefill, double timeout_s,
                                           const pl_log_t *log,
                                           pl_comm_t **comm_p);

/* "Open MPI v4.1.4 (MPI 3.1)": what runs, not what was compiled with.  May be
 * asked at any time. */
void pl_mpi_version(char *text, size_t n_bytes);

#endif /* PL_COMM_MPI_SESSION_H */
