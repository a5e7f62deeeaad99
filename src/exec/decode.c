#include "exec/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pl_status_t pl_step_reserve(pl_exec_t *exec, const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];

    return op->home == exec->rank
               ? PL_ARRAY_RESERVE(&request->generated, request->generated.n + 1)
               : PL_OK;
}

/* ---- checks ---- */

static pl_exec_site_t site_of(const pl_exec_t *exec, const pl_op_t *op,
                              int32_t page)
{
    pl_exec_site_t site = {.place    = PL_PLACE_DECODE,
                           .tier     = PL_FREED_DECODE,
                           .page     = op->pages[page],
                           .home     = op->home,
                           .position = page * exec->page_tokens,
                           .request  = op->request,
                           .node     = -1};

    return site;
}

/* Guard word, and with `bytes` also the digest, of all layers of a page. */
static void check_page(pl_exec_t *exec, const pl_op_t *op, int32_t page,
                       bool bytes)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    pl_exec_site_t site     = site_of(exec, op, page);
    int32_t slot            = pl_exec_slot(exec, PL_FREED_DECODE, site.page);
    pl_exec_read_t read     = {
            .guard = pl_exec_guard(exec, PL_FREED_DECODE, site.page, op->home),
            .rows  = pl_exec_rows(exec, page, op->first_token)};

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (!pl_store_has(&store->layout, which, layer)) {
                continue;
            }
            read.form   = &store->form[which];
            read.header = *pl_store_header(store, which, layer, slot);
            read.bytes =
                bytes ? pl_store_page(store, which, layer, slot) : NULL;
            (void)pl_exec_sound(exec, &site, layer, which, &read);
        }
    }
}

static void check_pages(pl_exec_t *exec, const pl_op_t *op)
{
    int32_t n = pl_exec_pages(exec, op->first_token);

    for (int32_t page = 0; page < n; page++) {
        check_page(exec, op, page, page == op->first_token % n);
    }
}

/* ---- the step ---- */

/* The page of the new row is its first row's: nobody has written it yet. */
static void open_page(pl_exec_t *exec, const pl_op_t *op, int32_t page)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    int32_t slot = pl_exec_slot(exec, PL_FREED_DECODE, op->pages[page]);
    uint64_t guard =
        pl_exec_guard(exec, PL_FREED_DECODE, op->pages[page], op->home);

    store->tags[slot].position = page * exec->page_tokens;
    store->tags[slot].rows     = 0;
    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (pl_store_has(&store->layout, which, layer)) {
                pl_page_header_t *header =
                    pl_store_header(store, which, layer, slot);

                header->guard  = guard;
                header->digest = 0;
            }
        }
    }
}

/* Add the row that was just stored to the page's digests; returns their sum. */
static uint64_t add_row(pl_exec_t *exec, const pl_op_t *op, int32_t layer)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    int32_t page            = op->first_token / exec->page_tokens;
    int32_t row             = op->first_token % exec->page_tokens;
    int32_t slot = pl_exec_slot(exec, PL_FREED_DECODE, op->pages[page]);
    uint64_t sum = 0;

    for (int which = 0; which < PL_STORES; which++) {
        uint64_t hash;

        if (!pl_store_has(&store->layout, which, layer)) {
            continue;
        }
        hash = pl_digest_rows(&store->form[which],
                              pl_store_page(store, which, layer, slot), row, 1,
                              op->first_token, pl_digest_base(layer, which));
        pl_store_header(store, which, layer, slot)->digest += hash;
        sum += hash;
    }
    store->tags[slot].rows = row + 1;
    return sum;
}

pl_status_t pl_step_execute(pl_exec_t *exec, const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    const pl_store_t *store    = &exec->stores[PL_FREED_DECODE];
    int32_t page               = op->first_token / exec->page_tokens;
    pl_step_t step             = {.request  = op->request,
                                  .position = op->first_token,
                                  .store    = store,
                                  .slots    = op->pages};
    int32_t next               = 0;

    if (op->home != exec->rank) {
        return PL_OK;
    }
    if ((size_t)(op->first_token - pl_exec_prompt_tokens(exec, op->request)) +
            1 !=
        request->generated.n) {
        pl_log(exec->log, PL_LOG_ERROR,
               "request %" PRId32 " is to make the row at %" PRId32
               " but holds %zu generated tokens; please report this",
               op->request, op->first_token, request->generated.n);
        return PL_ERR_INTERNAL;
    }
    if (pl_exec_verifies(exec)) {
        check_pages(exec, op);
    }
    if (op->first_token % exec->page_tokens == 0) {
        open_page(exec, op, page);
    }
    pl_exec_read_tokens(exec, op->request, op->first_token, 1, &step.token);
    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        PL_TRY(exec->compute->ops->step_layer(exec->compute, &step, layer));
        request->digest_held += add_row(exec, op, layer);
    }
    PL_TRY(exec->compute->ops->step_end(exec->compute, &step,
                                        request->digest_held, &next));
    exec->counters->pages[PL_OP_DECODE]++;
    for (int which = 0; which < PL_STORES; which++) {
        exec->counters->bytes[PL_OP_DECODE] +=
            pl_store_n_arrays(&store->layout, which) *
            (int64_t)pl_row_bytes(&store->form[which]);
    }
    return PL_ARRAY_PUSH(&request->generated, next);
}

/* ---- as a new prompt ---- */

pl_status_t pl_step_reenter(pl_exec_t *exec, const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    int32_t prompt             = pl_exec_prompt_tokens(exec, op->request);
    size_t n                   = (size_t)(op->n_tokens - prompt);
    struct {
        uint64_t digest, has_digest;
    } head = {request->digest, request->has_digest ? 1 : 0};

    PL_TRY(PL_ARRAY_RESERVE(&request->generated, n + 1));
    if ((op->home == exec->rank) && (request->generated.n != n)) {
        pl_log(exec->log, PL_LOG_ERROR,
               "request %" PRId32 " comes back with %zu tokens but has said "
               "%zu; please report this",
               op->request, n, request->generated.n);
        return PL_ERR_INTERNAL;
    }
    PL_TRY(pl_comm_broadcast(exec->comm, op->home, &head, sizeof(head)));
    PL_TRY(pl_comm_broadcast(exec->comm, op->home, request->generated.items,
                             n * sizeof(*request->generated.items)));
    request->generated.n    = n;
    request->has_digest     = head.has_digest != 0;
    request->digest         = head.digest;
    request->first_rank     = -1;
    request->decode_pages.n = 0;
    request->prompt_tokens  = 0;
    return PL_OK;
}
