/* What a communicator that stands on another leaves to it. */
#include "comm/over.h"

#include <string.h>

#include "base/hash.h"

/* The base's region for exchange; what the caller has there comes back. */
enum { EXCHANGE_REGION = PL_COMM_REGIONS - 1 };

/* ---- open, close ---- */

void pl_over_open(pl_over_t *self, const pl_comm_ops_t *ops, pl_comm_t *base,
                  pl_device_t *device)
{
    self->comm.ops       = ops;
    self->comm.log       = base->log;
    self->comm.rank      = base->rank;
    self->comm.n_ranks   = base->n_ranks;
    self->comm.n_prefill = base->n_prefill;
    self->comm.timeout_s = base->timeout_s;
    self->base           = base;
    self->device         = device;
}

void pl_over_close(pl_over_t *self)
{
    PL_ARRAY_FREE(&self->scratch);
    PL_ARRAY_FREE(&self->numbers);
    self->base = NULL;
}

void pl_over_tell(pl_over_t *self)
{
    self->base->prefill_trace =
        pl_fold64(self->base->prefill_trace, self->comm.prefill_trace);
}

static pl_status_t reserve(pl_over_t *self, size_t n_bytes, size_t n_numbers)
{
    if ((PL_ARRAY_RESERVE(&self->scratch, n_bytes) != PL_OK) ||
        (PL_ARRAY_RESERVE(&self->numbers, n_numbers) != PL_OK)) {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: %s: no memory for %zu bytes", self->comm.rank,
               self->comm.ops->name, n_bytes + n_numbers * sizeof(int32_t));
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

/* ---- what every prefill rank tells all ---- */

/* Page r of these is that of rank r, at slot 0. */
static pl_status_t gather_exchange(pl_over_t *self, size_t n, void *all)
{
    int n_prefill      = self->comm.n_prefill;
    int32_t *pages     = self->numbers.items;
    pl_gather_t gather = {
        .pages   = pages,
        .n_pages = n_prefill,
        .n_parts = 1,
        .parts   = {{.region = EXCHANGE_REGION, .stride = n, .view = all}},
        .rows    = pages + n_prefill};

    for (int rank = 0; rank < n_prefill; rank++) {
        pages[rank] = rank; /* in owner order, so in its row in any order */
    }
    return pl_comm_gather(self->base, &gather);
}

pl_status_t pl_over_exchange(pl_over_t *self, const void *mine, size_t n,
                             void *all)
{
    const pl_comm_region_t before = self->base->regions[EXCHANGE_REGION];

    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(reserve(self, n, 2 * (size_t)self->comm.n_prefill));
    memcpy(self->scratch.items, mine, n);
    PL_TRY(pl_comm_expose(self->base, EXCHANGE_REGION, PL_MEMORY_HOST,
                          self->scratch.items, n));
    PL_TRY(gather_exchange(self, n, all));
    /* All ranks are past their gather then: scratch is free. */
    return pl_comm_expose(self->base, EXCHANGE_REGION, before.kind, before.base,
                          before.bytes);
}

/* ---- parts in host memory ---- */

pl_status_t pl_over_expose_host(pl_over_t *self, int region, pl_memory_t kind,
                                void *base, size_t bytes)
{
    return kind == PL_MEMORY_HOST
               ? pl_comm_expose(self->base, region, kind, base, bytes)
               : PL_OK;
}

/* The base's gather of the same pages: HOST parts alone, into scratch. */
static size_t host_parts(const pl_over_t *self, const pl_gather_t *gather,
                         pl_gather_t *host)
{
    size_t n_bytes = 0;

    host->pages   = gather->pages;
    host->n_pages = gather->n_pages;
    host->n_parts = 0;
    for (int p = 0; p < gather->n_parts; p++) {
        if (pl_over_is_host(self, &gather->parts[p])) {
            host->parts[host->n_parts++] = gather->parts[p];
            n_bytes += (size_t)gather->n_pages * gather->parts[p].stride;
        }
    }
    return n_bytes;
}

static void put_rows(const pl_gather_t *gather, const pl_gather_part_t *from,
                     const int32_t *from_rows, uint8_t *view)
{
    size_t stride = from->stride;

    for (int32_t i = 0; i < gather->n_pages; i++) {
        memcpy(view + (size_t)gather->rows[i] * stride,
               from->view + (size_t)from_rows[i] * stride, stride);
    }
}

pl_status_t pl_over_gather_host(pl_over_t *self, const pl_gather_t *gather)
{
    pl_gather_t host = {0};
    size_t n_bytes   = host_parts(self, gather, &host);
    uint8_t *scratch;

    if (host.n_parts == 0) {
        return PL_OK;
    }
    PL_TRY(reserve(self, n_bytes, (size_t)gather->n_pages));
    scratch   = self->scratch.items;
    host.rows = self->numbers.items;
    for (int p = 0; p < host.n_parts; p++) {
        host.parts[p].view = scratch;
        scratch += (size_t)gather->n_pages * host.parts[p].stride;
    }
    PL_TRY(pl_comm_gather(self->base, &host));
    for (int p = 0, i = 0; p < gather->n_parts; p++) {
        if (pl_over_is_host(self, &gather->parts[p])) {
            put_rows(gather, &host.parts[i++], host.rows,
                     gather->parts[p].view);
        }
    }
    return PL_OK;
}

/* ---- by the base ---- */

static pl_comm_t *base_of(pl_comm_t *comm)
{
    return ((pl_over_t *)comm)->base;
}

pl_status_t pl_over_agree(pl_comm_t *comm, uint64_t *words, int32_t n)
{
    return pl_comm_agree(base_of(comm), words, n);
}

pl_status_t pl_over_sum(pl_comm_t *comm, uint64_t *values, int64_t n)
{
    return pl_comm_sum(base_of(comm), values, n);
}

pl_status_t pl_over_broadcast(pl_comm_t *comm, int root, void *bytes, size_t n)
{
    return pl_comm_broadcast(base_of(comm), root, bytes, n);
}

pl_status_t pl_over_barrier(pl_comm_t *comm)
{
    return pl_comm_barrier(base_of(comm));
}

pl_status_t pl_over_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                         size_t n, pl_message_t *message_p)
{
    return pl_comm_send(base_of(comm), to, tag, bytes, n, message_p);
}

pl_status_t pl_over_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                            size_t n, pl_message_t *message_p)
{
    return pl_comm_receive(base_of(comm), from, tag, bytes, n, message_p);
}

pl_status_t pl_over_wait(pl_comm_t *comm, pl_message_t message)
{
    return pl_comm_wait(base_of(comm), message);
}

void pl_over_fail(pl_comm_t *comm, pl_status_t status)
{
    pl_comm_fail(base_of(comm), status);
}
