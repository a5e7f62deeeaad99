#include "comm/comm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "comm/internal.h"

/* ---- shared ---- */

pl_status_t pl_comm_check(int n_ranks, int n_prefill, double timeout_s,
                          const pl_log_t *log)
{
    if ((n_prefill < 1) || (n_prefill > n_ranks) ||
        (n_prefill > PL_MAX_RANKS)) {
        pl_log(log, PL_LOG_ERROR,
               "%d ranks, %d of them for prefill: need at least 1 and at most "
               "%d prefill ranks, and no more than there are ranks",
               n_ranks, n_prefill, PL_MAX_RANKS);
        return PL_ERR_ARGUMENT;
    }
    if (!isfinite(timeout_s) || (timeout_s <= 0)) {
        pl_log(log, PL_LOG_ERROR,
               "a timeout of %g s for messages; use more than 0 s", timeout_s);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

void pl_comm_rank_list(const bool *set, int n_ranks, char *text, size_t n_bytes)
{
    size_t n = 0;

    text[0] = '\0';
    for (int rank = 0; (rank < n_ranks) && (n < n_bytes - 1); rank++) {
        if (set[rank]) {
            int added = snprintf(text + n, n_bytes - n, "%s%d",
                                 n > 0 ? ", " : "", rank);
            n += added > 0 ? (size_t)added : 0;
        }
    }
}

/* ---- wrappers ---- */

enum { OP_AGREE = 1, OP_SUM, OP_BROADCAST, OP_BARRIER, OP_EXPOSE, OP_GATHER };

static pl_status_t refuse(const pl_comm_t *comm, const char *call,
                          const char *why)
{
    pl_log(comm->log, PL_LOG_ERROR, "rank %d: %s: %s", comm->rank, call, why);
    return PL_ERR_ARGUMENT;
}

static void trace(pl_comm_t *comm, uint64_t *trace_p, int op, uint64_t size,
                  uint64_t detail)
{
    uint64_t h = pl_fold64(*trace_p, (uint64_t)op);

    *trace_p = pl_fold64(pl_fold64(h, size), detail);
    comm->n_calls++;
}

pl_status_t pl_comm_agree_status(pl_comm_t *comm, pl_status_t mine)
{
    uint64_t failed    = (mine != PL_OK);
    pl_status_t status = pl_comm_agree(comm, &failed, 1);

    if (mine != PL_OK) {
        return mine;
    }
    if (status != PL_OK) {
        return status;
    }
    return failed != 0 ? PL_ERR_PEER : PL_OK;
}

pl_status_t pl_comm_agree(pl_comm_t *comm, uint64_t *words, int32_t n)
{
    if ((n < 0) || ((n > 0) && (words == NULL))) {
        return refuse(comm, "agree", "no words");
    }
    trace(comm, &comm->trace, OP_AGREE, (uint64_t)n, 0);
    return comm->ops->agree(comm, words, n);
}

pl_status_t pl_comm_sum(pl_comm_t *comm, uint64_t *values, int64_t n)
{
    if ((n < 0) || ((n > 0) && (values == NULL))) {
        return refuse(comm, "sum", "no values");
    }
    trace(comm, &comm->trace, OP_SUM, (uint64_t)n, 0);
    return comm->ops->sum(comm, values, n);
}

pl_status_t pl_comm_broadcast(pl_comm_t *comm, int root, void *bytes, size_t n)
{
    if ((root < 0) || (root >= comm->n_ranks) || ((n > 0) && (bytes == NULL))) {
        return refuse(comm, "broadcast", "no such root, or no bytes");
    }
    trace(comm, &comm->trace, OP_BROADCAST, n, (uint64_t)root);
    return comm->ops->broadcast(comm, root, bytes, n);
}

pl_status_t pl_comm_barrier(pl_comm_t *comm)
{
    trace(comm, &comm->trace, OP_BARRIER, 0, 0);
    return comm->ops->barrier(comm);
}

pl_status_t pl_comm_expose(pl_comm_t *comm, int region, pl_memory_t kind,
                           void *base, size_t bytes)
{
    if (comm->rank >= comm->n_prefill) {
        return refuse(comm, "expose", "not a prefill rank");
    }
    if ((region < 0) || (region >= PL_COMM_REGIONS) ||
        ((bytes > 0) && (base == NULL))) {
        return refuse(comm, "expose", "no such region, or no memory");
    }
    trace(comm, &comm->prefill_trace, OP_EXPOSE, (uint64_t)region,
          (uint64_t)kind);
    PL_TRY(comm->ops->expose(comm, region, kind, base, bytes));
    comm->regions[region].kind  = kind;
    comm->regions[region].base  = base;
    comm->regions[region].bytes = bytes;
    return PL_OK;
}

/* How many slots of a part this rank can be asked for. */
static int64_t part_slots(const pl_comm_t *comm, const pl_gather_part_t *part)
{
    const pl_comm_region_t *region = &comm->regions[part->region];

    return part->offset > region->bytes
               ? 0
               : (int64_t)((region->bytes - part->offset) / part->stride);
}

static pl_status_t check_gather(const pl_comm_t *comm,
                                const pl_gather_t *gather)
{
    int64_t n_slots = INT64_MAX;

    if (comm->rank >= comm->n_prefill) {
        return refuse(comm, "gather", "not a prefill rank");
    }
    if ((gather->n_pages < 0) || (gather->n_parts < 1) ||
        (gather->n_parts > PL_GATHER_PARTS) ||
        ((gather->n_pages > 0) &&
         ((gather->pages == NULL) || (gather->rows == NULL)))) {
        return refuse(comm, "gather", "no pages, rows or parts");
    }
    for (int p = 0; p < gather->n_parts; p++) {
        const pl_gather_part_t *part = &gather->parts[p];
        int64_t n;

        if ((part->region < 0) || (part->region >= PL_COMM_REGIONS) ||
            (part->stride == 0) ||
            ((gather->n_pages > 0) && (part->view == NULL))) {
            return refuse(comm, "gather", "a part without region or view");
        }
        n       = part_slots(comm, part);
        n_slots = n < n_slots ? n : n_slots;
    }
    for (int32_t i = 0; i < gather->n_pages; i++) {
        pl_page_t page = gather->pages[i];

        if ((page < 0) ||
            ((pl_page_owner(page, comm->n_prefill) == comm->rank) &&
             (pl_page_slot(page, comm->n_prefill) >= n_slots))) {
            pl_log(comm->log, PL_LOG_ERROR,
                   "rank %d: gather: page %" PRId32 " is not in the exposed "
                   "memory (%" PRId64 " slots)",
                   comm->rank, page, n_slots);
            return PL_ERR_ARGUMENT;
        }
    }
    return PL_OK;
}

pl_status_t pl_comm_gather(pl_comm_t *comm, const pl_gather_t *gather)
{
    uint64_t detail = (uint64_t)gather->n_parts;

    PL_TRY(check_gather(comm, gather));
    for (int p = 0; p < gather->n_parts; p++) {
        detail = pl_fold64(detail, (uint64_t)gather->parts[p].region);
        detail = pl_fold64(detail, gather->parts[p].offset);
        detail = pl_fold64(detail, gather->parts[p].stride);
    }
    detail =
        pl_hash64(gather->pages,
                  (size_t)gather->n_pages * sizeof(*gather->pages), detail);
    trace(comm, &comm->prefill_trace, OP_GATHER, (uint64_t)gather->n_pages,
          detail);
    return comm->ops->gather(comm, gather);
}

static pl_status_t check_message(const pl_comm_t *comm, const char *call,
                                 int peer, int tag, const void *bytes, size_t n,
                                 const pl_message_t *message_p)
{
    if ((peer < 0) || (peer >= comm->n_ranks) || (tag < 0)) {
        return refuse(comm, call, "no such rank, or a tag below 0");
    }
    if (((n > 0) && (bytes == NULL)) || (message_p == NULL)) {
        return refuse(comm, call, "no bytes, or no place for the message");
    }
    return PL_OK;
}

pl_status_t pl_comm_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                         size_t n, pl_message_t *message_p)
{
    PL_TRY(check_message(comm, "send", to, tag, bytes, n, message_p));
    return comm->ops->send(comm, to, tag, bytes, n, message_p);
}

pl_status_t pl_comm_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                            size_t n, pl_message_t *message_p)
{
    PL_TRY(check_message(comm, "receive", from, tag, bytes, n, message_p));
    return comm->ops->receive(comm, from, tag, bytes, n, message_p);
}

pl_status_t pl_comm_wait(pl_comm_t *comm, pl_message_t message)
{
    return message == 0 ? PL_OK : comm->ops->wait(comm, message);
}

void pl_comm_fail(pl_comm_t *comm, pl_status_t status)
{
    comm->ops->fail(comm, status);
}

void pl_comm_close(pl_comm_t *comm)
{
    if (comm != NULL) {
        comm->ops->close(comm);
    }
}
