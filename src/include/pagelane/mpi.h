/* pagelane/mpi.h - a communicator of processes: the one header that needs MPI.
 *
 * C API of MPI 3.  A program that includes it is compiled as an MPI program
 * (find_package(pagelane COMPONENTS mpi)).  Lifecycle: MPI_Init, create, close,
 * MPI_Finalize.
 */
#ifndef PAGELANE_MPI_H
#define PAGELANE_MPI_H

#include <mpi.h>

#include <pagelane/export.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_comm pl_comm_t; /* opaque */

/* Collective over `mpi`, blocking, without a timeout: a communicator of its
 * ranks, the first n_prefill of which are the prefill (CP) ranks.
 *
 * `mpi` is duplicated and stays the caller's; `log` is borrowed.  timeout_s is
 * how long a later call waits for peers when nothing comes in (the program has
 * to MPI_Abort with a nonzero status after such an error).  MPI's own errors
 * stay with the error handler of `mpi` (by default they end the program).
 * All arguments but `log` must be the same on all ranks.
 *
 * Returns PL_OK on all ranks, or on all ranks another status: PL_ERR_ARGUMENT
 * (not 1 <= n_prefill <= ranks, n_prefill > PL_MAX_RANKS, timeout_s <= 0, MPI
 * not initialised), PL_ERR_MEMORY, PL_ERR_PEER (another rank had no memory). */
PL_API PL_MUST_CHECK pl_status_t pl_mpi_comm_create(MPI_Comm mpi, int n_prefill,
                                                    double timeout_s,
                                                    const pl_log_t *log,
                                                    pl_comm_t **comm_p);

/* Collective; NULL is allowed.  Before MPI_Finalize. */
PL_API void pl_mpi_comm_close(pl_comm_t *comm);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_MPI_H */
