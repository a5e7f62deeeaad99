/* comm/comm.h - what ranks say to each other, behind one table.
 *
 *   local  virtual ranks: threads of one process (no mpirun)
 *   mpi    one process a rank; host memory only (Debian's Open MPI cannot take
 *          device pointers)
 *
 * A communicator has n ranks, of which the first n_prefill are the prefill (CP)
 * ranks; page exchange is among those.  "Collective" means all n ranks in the
 * same order, "prefill-collective" the prefill ranks only.  One communicator
 * belongs to one thread per rank.  A rank that waits longer than timeout_s ends
 * with PL_ERR_COMM and one line (what it waited for, and who is missing where
 * that can be known): never a hang.
 */
#ifndef PL_COMM_COMM_H
#define PL_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_comm pl_comm_t;

typedef uint64_t pl_message_t; /* handle of a send or receive under way */

/* One array that pages are gathered from: on every prefill rank a region of
 * memory made known by pl_comm_expose, in it from `offset` on an array of slots
 * of `stride` bytes.  Page g lies on rank owner(g) at offset + slot(g)*stride. */
typedef struct pl_gather_part {
    int region;
    size_t offset; /* equal on all ranks */
    size_t stride; /* bytes of one page in this array */
    uint8_t *view; /* [n_pages * stride], own memory; receives the pages */
} pl_gather_part_t;

#define PL_GATHER_PARTS 2

typedef struct pl_gather {
    const pl_page_t *pages; /* logical, in view order; equal on all ranks;
                               owner and slot with n_lanes == n_prefill */
    int32_t n_pages;
    pl_gather_part_t parts[PL_GATHER_PARTS];
    int n_parts;
    int32_t *rows; /* [n_pages] out: page i lies at view + rows[i]*stride, the
                      same in all parts (owner-major where unpacking is saved) */
} pl_gather_t;

typedef struct pl_comm_ops {
    const char *name; /* --comm */

    /* Collective.  words[i] = bitwise OR over all ranks; nonblocking inside,
     * deadline-watched.  The one reduction of a tick. */
    pl_status_t (*agree)(pl_comm_t *self, uint64_t *words, int32_t n);
    /* Collective.  values[i] = sum over ranks mod 2^64. */
    pl_status_t (*sum)(pl_comm_t *self, uint64_t *values, int64_t n);
    /* Collective. */
    pl_status_t (*broadcast)(pl_comm_t *self, int root, void *bytes, size_t n);
    pl_status_t (*barrier)(pl_comm_t *self);
    /* Prefill-collective.  Make memory known under `region` (0 ..
     * PL_COMM_REGIONS-1); it stays the caller's and must outlive the use. */
    pl_status_t (*expose)(pl_comm_t *self, int region, void *base,
                          size_t bytes);
    /* Prefill-collective.  Every prefill rank gets all pages.  On return own
     * memory may be written again only where no page of this gather lies, until
     * the next collective call: peers may still read it. */
    pl_status_t (*gather)(pl_comm_t *self, const pl_gather_t *gather);
    /* Point to point, nonblocking, ordered per (from, to, tag); a rank may send
     * to itself.  The buffer belongs to the message until it was waited for. */
    pl_status_t (*send)(pl_comm_t *self, int to, int tag, const void *bytes,
                        size_t n, pl_message_t *message_p);
    pl_status_t (*receive)(pl_comm_t *self, int from, int tag, void *bytes,
                           size_t n, pl_message_t *message_p);
    pl_status_t (*wait)(pl_comm_t *self, pl_message_t message);
    /* This rank cannot go on: wake all that wait for it (they get PL_ERR_PEER)
     * where that is possible; mpi: the program has to abort. */
    void (*fail)(pl_comm_t *self, pl_status_t status);
    void (*close)(pl_comm_t *self);
} pl_comm_ops_t;

#define PL_COMM_REGIONS 16

struct pl_comm {
    const pl_comm_ops_t *ops; /* first member of every communicator */
    int rank, n_ranks, n_prefill;
    double timeout_s;
};

/* Collective.  PL_OK on every rank if every rank passed PL_OK; else a rank that
 * passed another status gets its own back and the others PL_ERR_PEER. */
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
                                         void *base, size_t bytes);
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

/* Run body(context, comm) on n virtual ranks, one thread each, and wait for all.
 * Returns the status of the lowest rank whose status is neither PL_OK nor
 * PL_ERR_PEER, or PL_OK.  A body that returns a failure has called
 * pl_comm_fail or is treated as if it had. */
typedef pl_status_t (*pl_comm_body_t)(void *context, pl_comm_t *comm);
PL_MUST_CHECK pl_status_t pl_comm_run_local(int n_ranks, int n_prefill,
                                            double timeout_s,
                                            const pl_log_t *log,
                                            pl_comm_body_t body, void *context);

/* comm/mpi_comm.h has the constructor that takes an MPI_Comm. */

#endif /* PL_COMM_COMM_H */
