/* comm/mpi_comm.h - communicators that are processes; inside comm, and for who
 * needs the MPI_Comm underneath (store).  The constructor is in pagelane/mpi.h.
 */
#ifndef PL_COMM_MPI_COMM_H
#define PL_COMM_MPI_COMM_H

#include <pagelane/mpi.h>

#include "base/array.h"
#include "comm/internal.h"
#include "comm/mpi_batch.h"

typedef struct pl_mpi_message {
    pl_message_t handle; /* 0: free */
    bool receive;
    int peer, tag;
    size_t n;
    pl_mpi_batch_t batch;
} pl_mpi_message_t;

typedef struct pl_mpi {
    pl_comm_t comm;
    MPI_Comm all;     /* a duplicate; messages and collectives */
    MPI_Comm prefill; /* MPI_COMM_NULL on the other ranks */
    int tag_limit;
    size_t block_bytes; /* the largest MPI count; tests lower it */
    bool broken;        /* a call has timed out: all others fail at once */

    PL_ARRAY(uint64_t) words; /* buffer of the collective under way */
    pl_mpi_batch_t batch;     /* the collective or gather under way */
    int32_t *counts;          /* [n_prefill] gather: pages by owner */
    int32_t *first;           /* [n_prefill + 1] gather: first row by owner */
    bool *missing;            /* [n_ranks] scratch for messages */

    PL_ARRAY(pl_mpi_message_t) messages;
    PL_ARRAY(int32_t) unused; /* indices of free messages */
    uint32_t generation;
} pl_mpi_t;

/* The MPI_Comm of all ranks, or MPI_COMM_NULL if `comm` is of another kind.  It
 * stays the communicator's: duplicate it to use it. */
MPI_Comm pl_mpi_comm_of(const pl_comm_t *comm);

/* ----------------------------------------------------- inside comm/mpi*.c */

/* Wait for self->batch.  PL_ERR_COMM: `what`, the time and the peers have been
 * printed and the communicator is broken. */
PL_MUST_CHECK pl_status_t pl_mpi_finish(pl_mpi_t *self, pl_mpi_batch_t *batch,
                                        const char *what);

pl_status_t pl_mpi_no_memory(const pl_mpi_t *self, const char *call, size_t n);

pl_status_t pl_mpi_gather(pl_comm_t *comm, const pl_gather_t *gather);
pl_status_t pl_mpi_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                        size_t n, pl_message_t *message_p);
pl_status_t pl_mpi_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                           size_t n, pl_message_t *message_p);
pl_status_t pl_mpi_wait(pl_comm_t *comm, pl_message_t message);

/* Let go of the messages; false: some are still under way. */
bool pl_mpi_messages_close(pl_mpi_t *self);

#endif /* PL_COMM_MPI_COMM_H */
