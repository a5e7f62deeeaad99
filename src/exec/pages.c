#include "exec/pages.h"

#include <assert.h>

/* ---- digests ---- */

void pl_digests_clear(pl_digests_t *digests)
{
    digests->jobs.n = 0;
    digests->sums.n = 0;
    digests->next   = 0;
}

pl_status_t pl_digests_add(pl_digests_t *digests, const pl_page_form_t *form,
                           const uint8_t *page, int32_t first, int32_t rows,
                           int32_t position, const pl_piece_t *piece)
{
    pl_digest_job_t job = {.page     = page,
                           .form     = *form,
                           .first    = first,
                           .rows     = rows,
                           .position = position + first,
                           .base = pl_digest_base(piece->layer, piece->which)};

    return PL_ARRAY_PUSH(&digests->jobs, job);
}

pl_status_t pl_digests_add_page(pl_digests_t *digests, const pl_store_t *store,
                                int32_t slot, int32_t rows, int32_t position)
{
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        PL_TRY(pl_digests_add(digests, &store->form[at.which],
                              pl_piece_page(store, &at, slot), 0, rows,
                              position, &at));
    }
    return PL_OK;
}

pl_status_t pl_digests_take(pl_digests_t *digests, pl_device_t *device)
{
    size_t n = digests->jobs.n;

    PL_TRY(PL_ARRAY_RESERVE(&digests->sums, n));
    if (n > 0) {
        PL_TRY(pl_device_digest(device, PL_STREAM_COMPUTE, digests->jobs.items,
                                (int32_t)n, digests->sums.items));
    }
    digests->sums.n = n;
    return PL_OK;
}

uint64_t pl_digests_next(pl_digests_t *digests)
{
    assert(digests->next < digests->sums.n);
    return digests->sums.items[digests->next++];
}

uint64_t pl_digests_sum(pl_digests_t *digests)
{
    uint64_t sum = 0;

    while (digests->next < digests->sums.n) {
        sum += pl_digests_next(digests);
    }
    return sum;
}

void pl_digests_free(pl_digests_t *digests)
{
    PL_ARRAY_FREE(&digests->jobs);
    PL_ARRAY_FREE(&digests->sums);
}

/* ---- writing ---- */

pl_status_t pl_poison_add_page(pl_poison_t *poison, const pl_store_t *store,
                               int32_t slot)
{
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        pl_span_t span = {pl_piece_page(store, &at, slot),
                          store->stride[at.which]};

        PL_TRY(PL_ARRAY_PUSH(&poison->spans, span));
    }
    return PL_OK;
}

pl_status_t pl_poison_fill(pl_poison_t *poison, pl_device_t *device)
{
    size_t n = poison->spans.n;

    poison->spans.n = 0;
    return n == 0
               ? PL_OK
               : pl_device_fill(device, PL_STREAM_COMPUTE, poison->spans.items,
                                (int32_t)n, PL_POISON_BYTE);
}

static pl_status_t wait_for(pl_device_t *device, pl_stream_t stream)
{
    pl_fence_t fence;

    PL_TRY(pl_device_record(device, stream, &fence));
    return pl_device_wait(device, stream, fence);
}

pl_status_t pl_pages_copy(pl_device_t *device, const pl_copy_t *copies,
                          int32_t n)
{
    PL_TRY(pl_device_copy(device, PL_STREAM_COMPUTE, copies, n, false));
    return device->addressable ? wait_for(device, PL_STREAM_COMPUTE) : PL_OK;
}

pl_status_t pl_pages_flip(pl_device_t *device, uint8_t *byte)
{
    uint8_t value  = 0;
    pl_copy_t out  = {.dst = &value, .src = byte, .bytes = 1};
    pl_copy_t back = {.dst = byte, .src = &value, .bytes = 1};

    PL_TRY(pl_device_copy(device, PL_STREAM_COMPUTE, &out, 1, false));
    PL_TRY(wait_for(device, PL_STREAM_COMPUTE));
    value ^= 0x10;
    PL_TRY(pl_device_copy(device, PL_STREAM_COMPUTE, &back, 1, false));
    return wait_for(device, PL_STREAM_COMPUTE);
}

pl_status_t pl_pages_drain(pl_device_t *device)
{
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        PL_TRY(wait_for(device, (pl_stream_t)stream));
    }
    return PL_OK;
}
