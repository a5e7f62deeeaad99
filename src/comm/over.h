/* comm/over.h - a communicator that stands on another; inside comm.
 *
 * nccl and peer replace `gather` for memory that only devices reach, and leave
 * all else to the communicator below, their base: an over's table has its own
 * `expose`, `gather` and `close`, and these functions for the rest.  Calls of
 * the base go through its wrappers, so that its checks of order and size hold
 * for it as they would without us; pl_over_tell lets them see our own calls.
 */
#ifndef PL_COMM_OVER_H
#define PL_COMM_OVER_H

#include "base/array.h"
#include "comm/internal.h"

typedef struct pl_over {
    pl_comm_t comm;            /* first member */
    pl_comm_t *base;           /* borrowed */
    pl_device_t *device;       /* borrowed */
    PL_ARRAY(uint8_t) scratch; /* of the base's gather, or exchange, */
    PL_ARRAY(int32_t) numbers; /* its rows, or pages and rows */
} pl_over_t;

/* Fill in a zeroed one, as the base is: its ranks, log and timeout. */
void pl_over_open(pl_over_t *self, const pl_comm_ops_t *ops, pl_comm_t *base,
                  pl_device_t *device);
/* Frees what is here; `self` stays the caller's. */
void pl_over_close(pl_over_t *self);

/* On a prefill rank, in expose and gather, before any call of the base: its
 * checks compare this communicator's prefill calls as well. */
void pl_over_tell(pl_over_t *self);

/* Prefill-collective.  Each prefill rank's n bytes for all: those of rank r at
 * all + r * n.  What was exposed stays so. */
PL_MUST_CHECK pl_status_t pl_over_exchange(pl_over_t *self, const void *mine,
                                           size_t n, void *all);

/* Prefill-collective.  Expose memory of kind HOST to the base; of other kinds,
 * nothing. */
PL_MUST_CHECK pl_status_t pl_over_expose_host(pl_over_t *self, int region,
                                              pl_memory_t kind, void *base,
                                              size_t bytes);

static inline bool pl_over_is_host(const pl_over_t *self,
                                   const pl_gather_part_t *part)
{
    return self->comm.regions[part->region].kind == PL_MEMORY_HOST;
}

/* Prefill-collective.  The parts whose region is HOST, by the base's gather:
 * page i comes to where gather->rows, filled in already, says.  Nothing if
 * there are none. */
PL_MUST_CHECK pl_status_t pl_over_gather_host(pl_over_t *self,
                                              const pl_gather_t *gather);

/* For a table: done by the base. */
pl_status_t pl_over_agree(pl_comm_t *comm, uint64_t *words, int32_t n);
pl_status_t pl_over_sum(pl_comm_t *comm, uint64_t *values, int64_t n);
pl_status_t pl_over_broadcast(pl_comm_t *comm, int root, void *bytes, size_t n);
pl_status_t pl_over_barrier(pl_comm_t *comm);
pl_status_t pl_over_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                         size_t n, pl_message_t *message_p);
pl_status_t pl_over_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                            size_t n, pl_message_t *message_p);
pl_status_t pl_over_wait(pl_comm_t *comm, pl_message_t message);
void pl_over_fail(pl_comm_t *comm, pl_status_t status);

#endif /* PL_COMM_OVER_H */
