/* comm/mpi_batch.h - MPI requests that are waited for together.
 *
 * Zero-initialised means empty.  Used again and again: its arrays are kept, so
 * a batch as large as an earlier one allocates nothing.
 */
#ifndef PL_COMM_MPI_BATCH_H
#define PL_COMM_MPI_BATCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"

typedef struct pl_mpi_peer {
    int rank; /* -1: a collective */
    bool receive;
} pl_mpi_peer_t;

typedef struct pl_mpi_batch {
    PL_ARRAY(MPI_Request) requests;
    PL_ARRAY(pl_mpi_peer_t) peers; /* one for each request */
    PL_ARRAY(int) indices;         /* what MPI_Testsome gives back */
    PL_ARRAY(MPI_Status) statuses;
    size_t n_received; /* bytes that receives brought since the last wait */
} pl_mpi_batch_t;

/* Where the bytes of a message lie, and in what pieces they go: counts of MPI 3
 * are int, and a store is larger than that. */
typedef struct pl_mpi_wire {
    MPI_Comm mpi;
    int tag;
    size_t block_bytes; /* 1 .. INT_MAX: the most in one piece */
} pl_mpi_wire_t;

/* Room for n more requests, so that adding cannot fail.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_mpi_batch_reserve(pl_mpi_batch_t *batch, size_t n);

/* How many requests a message of n_bytes takes: at least one. */
size_t pl_mpi_pieces(const pl_mpi_wire_t *wire, size_t n_bytes);

/* Start a message; room must have been reserved. */
void pl_mpi_batch_send(pl_mpi_batch_t *batch, const pl_mpi_wire_t *wire, int to,
                       const void *bytes, size_t n);
void pl_mpi_batch_receive(pl_mpi_batch_t *batch, const pl_mpi_wire_t *wire,
                          int from, void *bytes, size_t n);
/* Take over the request of a collective; room must have been reserved. */
void pl_mpi_batch_add(pl_mpi_batch_t *batch, MPI_Request request);

/* Wait until all are done; the batch is empty then.  false: nothing happened
 * for timeout_s; what is under way stays in the batch. */
bool pl_mpi_batch_wait(pl_mpi_batch_t *batch, double timeout_s);

/* Set missing[r] for the peers whose messages are under way: those that a
 * receive waits for, else those that have not taken a send.  Returns whether it
 * was receives. */
bool pl_mpi_batch_missing(const pl_mpi_batch_t *batch, bool *missing);

/* After an error: cancel receives and give the rest a moment.  false: some are
 * still under way, and their memory must stay. */
bool pl_mpi_batch_settle(pl_mpi_batch_t *batch);

void pl_mpi_batch_free(pl_mpi_batch_t *batch); /* only when empty */

#endif /* PL_COMM_MPI_BATCH_H */
