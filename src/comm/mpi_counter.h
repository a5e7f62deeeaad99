/* comm/mpi_counter.h - numbers 0, 1, 2, ... handed out to processes, each to
 * one: so that work goes to whoever is free.
 *
 * The counter lies in rank 0's memory and others take from it without rank 0
 * (one-sided): nobody has to answer, and rank 0 can work like the others.
 * Where the network cannot do that by itself MPI does it in rank 0's calls to
 * it: so a rank calls pl_counter_poke now and then while it works.
 *
 *   pl_counter_open -> pl_counter_next ... -> pl_counter_close
 *
 * A rank that is gone ends the program (mpirun), so nobody waits for it.
 */
#ifndef PL_COMM_MPI_COUNTER_H
#define PL_COMM_MPI_COUNTER_H

#include <stdint.h>

#include "comm/comm.h"

typedef struct pl_counter pl_counter_t; /* opaque */

/* Collective.  `comm` NULL: this process alone, without MPI; else one of
 * processes (comm mpi), borrowed until the close.  PL_ERR_ARGUMENT (another
 * one), PL_ERR_MEMORY, PL_ERR_COMM (one line); the same on all ranks but for
 * PL_ERR_PEER. */
PL_MUST_CHECK pl_status_t pl_counter_open(pl_comm_t *comm,
                                          pl_counter_t **counter_p);

/* Not collective.  The next number, that no rank has had.  PL_ERR_COMM (one
 * line). */
PL_MUST_CHECK pl_status_t pl_counter_next(pl_counter_t *counter,
                                          int64_t *number_p);

/* Not collective; at any time.  Lets others' calls go on; much cheaper than
 * pl_counter_next. */
void pl_counter_poke(pl_counter_t *counter);

/* Collective, after any status of pl_counter_next. NULL is allowed. */
void pl_counter_close(pl_counter_t *counter);

#endif /* PL_COMM_MPI_COUNTER_H */
