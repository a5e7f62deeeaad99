/* comm/comm.h - what ranks say to each other, behind one table.
 *
 *   local  virtual ranks: threads of one process (no mpirun)
 *   mpi    one process a rank; host memory only (Debian's Open MPI cannot take
 *          device pointers)
 *   peer   (comm/peer.h) stands on one of these two and replaces `gather`: a
 *          rank's device reads its peers' pages straight into its view
 *   nccl   (comm/nccl.h) likewise: pages in device memory go by NCCL
 *
 * A communicator has n ranks, of which the first n_prefill are the prefill (CP)
 * ranks; page exchange is among those.  "Collective" means all n ranks in the
 * same order, "prefill-collective" the prefill ranks only (PL_ERR_ARGUMENT on
 * another rank).  One communicator belongs to one thread per rank.  Lifecycle:
 * pl_comm_run_local, which opens and closes it; or pl_mpi_comm_create
 * (pagelane/mpi.h), pl_comm_close.  Sizes are bytes unless a name says pages or
 * words.
 *
 * Never a hang: a rank that has waited timeout_s in one call without anything
 * coming in ends with PL_ERR_COMM and one line (what it waited for, and who is
 * missing where that can be known).  The clock starts when it begins to wait,
 * so a peer may compute for as long as that.  Statuses of all calls besides
 * PL_OK and PL_ERR_ARGUMENT (nothing has happened):
 *   PL_ERR_COMM      a timeout, or a rank has ended while it was waited for
 *   PL_ERR_PEER      another rank has failed (local; under mpi it ends all)
 *   PL_ERR_DISAGREE  the ranks' collective calls differ, or a message is not as
 *                    long as its receiver says (of more than 1 MiB over mpi:
 *                    PL_ERR_COMM, if the receiver waits for more)
 *   PL_ERR_MEMORY    of this rank
 * After any of them the communicator may only be told to fail and be closed,
 * results are undefined, and (mpi) buffers of the failed call must stay until
 * the program ends.
 */
#ifndef PL_COMM_COMM_H
#define PL_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "device/device.h"

typedef struct pl_comm pl_comm_t;

typedef uint64_t pl_message_t; /* a send or receive under way; 0: none */

/* One array that pages are gathered from: on every prefill rank a region of
 * memory made known by pl_comm_expose, in it from `offset` on an array of slots
 * of `stride` bytes.  Page g lies on rank owner(g) at offset + slot(g)*stride.
 */
typedef struct pl_gather_part {
    int region;
    size_t offset; /* equal on all ranks */
    size_t stride; /* bytes of one page in this array */
    uint8_t *view; /* [n_pages * stride], own memory of the region's kind;
                      receives the pages */
} pl_gather_part_t;

#define PL_GATHER_PARTS 2

typedef struct pl_gather {
    const pl_page_t *pages; /* logical, in view order; equal on all ranks;
                               owner and slot with n_lanes == n_prefill */
    int32_t n_pages;
    pl_gather_part_t parts[PL_GATHER_PARTS];
    int n_parts;
    int32_t *rows; /* [n_pages] out: page i lies at view + rows[i]*stride, the
                      same in all parts and on all ranks; a permutation (local,
                      peer: the identity; mpi, nccl: owner-major, which saves
                      unpacking) */
} pl_gather_t;

typedef struct pl_comm_ops {
    const char *name; /* --comm */

    /* Collective.  words[i] = bitwise OR over all ranks; nonblocking inside,
     * deadline-watched.  The one reduction of a tick.  Finds out, too, if the
     * ranks' collective calls so far differ (PL_ERR_DISAGREE). */
    pl_status_t (*agree)(pl_comm_t *self, uint64_t *words, int32_t n);
    /* Collective.  values[i] = sum over ranks mod 2^64. */
    pl_status_t (*sum)(pl_comm_t *self, uint64_t *values, int64_t n);
    /* Collective.  n is equal on all ranks. */
    pl_status_t (*broadcast)(pl_comm_t *self, int root, void *bytes, size_t n);
    pl_status_t (*barrier)(pl_comm_t *self);
    /* Prefill-collective.  Make memory known under `region` (0 ..
     * PL_COMM_REGIONS-1), instead of what was known there before; it stays the
     * caller's and must outlive the use.  `kind`, equal on all ranks, is that
     * which the device gave it under; local and mpi take what the host can
     * reach; peer: SHARED or HOST; nccl: DEVICE, SHARED or HOST. */
    pl_status_t (*expose)(pl_comm_t *self, int region, pl_memory_t kind,
                          void *base, size_t bytes);
    /* Prefill-collective.  Every prefill rank gets all pages, its own included,
     * as they were when the last rank made this call.  On return own memory may
     * be written again only where no page of this gather lies, until the next
     * collective (or prefill-collective) call has returned: peers may still
     * read it.
     *
     * Where `queues`: parts whose region is DEVICE or SHARED are read and their
     * views written on PL_STREAM_GATHER of each rank's device, and the call
     * returns before that is done.  "As they were" is then: after what each
     * owner had queued on its PL_STREAM_GATHER before the call.  And it is
     * `agree` that makes own memory free again: what is queued on any stream
     * after agree has returned begins after all reading by gathers that any
     * rank called before it called agree. */
    pl_status_t (*gather)(pl_comm_t *self, const pl_gather_t *gather);
    /* Point to point, nonblocking, ordered per (from, to, tag); a rank may send
     * to itself.  The buffer belongs to the message until it was waited for,
     * and each message has to be waited for, in any order.  A send may be done
     * only when its receive has been posted, so post receives before waiting
     * for sends.  0 bytes are a message too.  tag >= 0. */
    pl_status_t (*send)(pl_comm_t *self, int to, int tag, const void *bytes,
                        size_t n, pl_message_t *message_p);
    pl_status_t (*receive)(pl_comm_t *self, int from, int tag, void *bytes,
                           size_t n, pl_message_t *message_p);
    pl_status_t (*wait)(pl_comm_t *self, pl_message_t message);
    /* This rank cannot go on: wake all that wait for it (they get PL_ERR_PEER)
     * where that is possible; mpi: nothing, the program has to abort. */
    void (*fail)(pl_comm_t *self, pl_status_t status);
    void (*close)(pl_comm_t *self);
} pl_comm_ops_t;

#define PL_COMM_REGIONS 16

/* Own memory made known by pl_comm_expose; bytes == 0: none. */
typedef struct pl_comm_region {
    pl_memory_t kind;
    uint8_t *base;
    size_t bytes;
} pl_comm_region_t;

struct pl_comm {
    const pl_comm_ops_t *ops; /* first member of every communicator */
    const pl_log_t *log;      /* borrowed; local: used by all ranks' threads */
    int rank, n_ranks, n_prefill;
    double timeout_s;
    bool queues; /* see gather */
    /* The calls so far, each folded with its sizes: equal on all ranks, and on
     * all prefill ranks, at any such call. */
    uint64_t trace, prefill_trace;
    uint64_t n_calls; /* of both kinds */
    pl_comm_region_t regions[PL_COMM_REGIONS];
};

/* Collective.  PL_OK on every rank if every rank passed PL_OK; else a rank that
 * passed another status gets its own back and the others PL_ERR_PEER (the
 * communicator can still be used: that PL_ERR_PEER was agreed on). */
PL_MUST_CHECK pl_status_t pl_comm_agree_status(pl_comm_t *comm,
                                               pl_status_t mine);

/* Wrappers that check arguments and call the table. */
PL_MUST_CHECK pl_status_t pl_comm_agree(pl_comm_t *comm, uint64_t *words,
                                        int32_t n);
PL_MUST_CHECK pl_status_t pl_comm_sum(pl_comm_t *comm, uint64_t *values,
                                      int64_t n);
PL_MUST_CHECK pl_status_t pl_comm_broadcast(pl_comm_t *comm, int root,
                                            void *bytes, size_t n);
PL_MUST_CHECK pl_status_t pl_comm_barrier(pl_comm_t *comm);
PL_MUST_CHECK pl_status_t pl_comm_expose(pl_comm_t *comm, int region,
                                         pl_memory_t kind, void *base,
                                         size_t bytes);
PL_MUST_CHECK pl_status_t pl_comm_gather(pl_comm_t *comm,
                                         const pl_gather_t *gather);
PL_MUST_CHECK pl_status_t pl_comm_send(pl_comm_t *comm, int to, int tag,
                                       const void *bytes, size_t n,
                                       pl_message_t *message_p);
PL_MUST_CHECK pl_status_t pl_comm_receive(pl_comm_t *comm, int from, int tag,
                                          void *bytes, size_t n,
                                          pl_message_t *message_p);
PL_MUST_CHECK pl_status_t pl_comm_wait(pl_comm_t *comm, pl_message_t message);
void pl_comm_fail(pl_comm_t *comm, pl_status_t status);
void pl_comm_close(pl_comm_t *comm); /* NULL is allowed */

/* Run body(context, comm) on n virtual ranks, one thread each, and wait for
 * all.
 *
 * Returns the status of the lowest rank whose status is neither PL_OK nor
 * PL_ERR_PEER; else PL_ERR_PEER if a rank returned that; else PL_OK.  Also
 * PL_ERR_ARGUMENT (1 <= n_prefill <= n_ranks, n_prefill <= PL_MAX_RANKS,
 * timeout_s > 0), PL_ERR_MEMORY, PL_ERR_RESOURCE (threads).  A body that
 * returns another status than PL_OK has called pl_comm_fail or is treated as if
 * it had; who waits for a rank whose body has returned gets PL_ERR_COMM at
 * once.  The body does not close its communicator.  `log` is used by all
 * threads. */
typedef pl_status_t (*pl_comm_body_t)(void *context, pl_comm_t *comm);
PL_MUST_CHECK pl_status_t pl_comm_run_local(int n_ranks, int n_prefill,
                                            double timeout_s,
                                            const pl_log_t *log,
                                            pl_comm_body_t body, void *context);

#endif /* PL_COMM_COMM_H */
