#include "exec/prefill_internal.h"

#include <string.h>

static int32_t first_page(const pl_exec_t *exec, const pl_op_t *op)
{
    return op->first_token / exec->page_tokens;
}

/* Pages that a gather of this chunk brings. */
static int32_t gathered_pages(const pl_exec_t *exec, const pl_op_t *op)
{
    return op->n_pages - (pl_exec_replicates(exec) ? first_page(exec, op) : 0);
}

/* There is room for the operation's pages. */
static pl_chunk_t chunk_of(const pl_exec_t *exec, const pl_prefill_t *prefill,
                           const pl_op_t *op)
{
    pl_chunk_t chunk = {.request     = op->request,
                        .first_token = op->first_token,
                        .n_tokens    = op->n_tokens,
                        .last        = op->last,
                        .own_pages   = prefill->own};

    for (int32_t page = first_page(exec, op); page < op->n_pages; page++) {
        if (op->compute[page - first_page(exec, op)] == exec->rank) {
            prefill->own[chunk.n_own_pages++] = page;
        }
    }
    return chunk;
}

pl_status_t pl_prefill_reserve(pl_exec_t *exec, pl_prefill_t *prefill,
                               const pl_op_t *op)
{
    pl_chunk_t chunk;

    if (exec->rank >= exec->n_prefill) {
        return PL_OK;
    }
    PL_TRY(
        pl_views_reserve(exec, prefill, op->n_pages, gathered_pages(exec, op)));
    chunk = chunk_of(exec, prefill, op);
    PL_TRY(pl_stage_reserve(exec, &prefill->stage, chunk.n_own_pages));
    return exec->compute->ops->reserve(exec->compute, &chunk);
}

void pl_prefill_free(pl_exec_t *exec, pl_prefill_t *prefill)
{
    pl_views_free(exec, prefill);
    pl_stage_free(exec, &prefill->stage);
}

/* ---- writing ---- */

/* Digests of what was just written, in the order of stamp_page. */
static pl_status_t hash_run(pl_exec_t *exec, const pl_prefill_t *prefill,
                            const pl_pass_t *pass, int32_t layer, int32_t first,
                            int32_t last)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    pl_digests_clear(&exec->digests);
    for (int32_t page = first; page <= last; page++) {
        for (int which = 0; which < PL_STORES; which++) {
            pl_piece_t at = {layer, which};

            if (pl_store_has(&store->layout, which, layer)) {
                PL_TRY(pl_digests_add(
                    &exec->digests, &store->form[which],
                    pl_piece_page(store, &at, prefill->slots[page - first]), 0,
                    pl_pass_rows(exec, pass, page), page * exec->page_tokens,
                    &at));
            }
        }
    }
    return pl_digests_take(&exec->digests, exec->device);
}

/* Stamp what was just written: guard word and, with verification, the digest of
 * the stored rows. */
static void stamp_page(pl_exec_t *exec, const pl_prefill_t *prefill,
                       const pl_pass_t *pass, int32_t layer, int32_t page,
                       int32_t slot)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    store->tags[slot].position = page * exec->page_tokens;
    store->tags[slot].rows     = pl_pass_rows(exec, pass, page);
    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            pl_page_header_t *header =
                pl_store_header(store, which, layer, slot);

            header->guard = prefill->guards[page];
            header->digest =
                pl_exec_verifies(exec) ? pl_digests_next(&exec->digests) : 0;
        }
    }
}

/* The page has been written in this layer, in each store that has it. */
static void note_page(pl_exec_t *exec, const pl_pass_t *pass, int32_t layer,
                      int32_t page, int32_t slot)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    if (layer == 0) {
        pl_op_log_page(exec->log_of_ops, pass->op->id, page, -1, slot);
    }
    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            pl_op_log_bytes(exec->log_of_ops, pass->op->id,
                            store->stride[which]);
        }
    }
}

/* Own pages first .. last of the chunk are a run of positions: one call. */
static pl_status_t write_run(pl_exec_t *exec, pl_prefill_t *prefill,
                             const pl_pass_t *pass, int32_t layer,
                             int32_t first, int32_t last)
{
    pl_rows_t rows = {.first_token = first * exec->page_tokens};
    int32_t end    = (last + 1) * exec->page_tokens;

    end           = end < pass->end ? end : pass->end;
    rows.n_tokens = end - rows.first_token;
    for (int32_t page = first; page <= last; page++) {
        prefill->slots[page - first] =
            pl_exec_slot(exec, PL_FREED_DEVICE, pass->op->pages[page]);
    }
    PL_TRY(pl_stage_open(exec, &prefill->stage, PL_FREED_DEVICE, layer,
                         prefill->slots, &rows));
    PL_TRY(
        exec->compute->ops->write(exec->compute, &pass->chunk, layer, &rows));
    PL_TRY(pl_stage_close(exec, &prefill->stage, PL_FREED_DEVICE, layer,
                          prefill->slots, &rows));
    if (pl_exec_verifies(exec)) {
        PL_TRY(hash_run(exec, prefill, pass, layer, first, last));
    }
    for (int32_t page = first; page <= last; page++) {
        note_page(exec, pass, layer, page, prefill->slots[page - first]);
        stamp_page(exec, prefill, pass, layer, page,
                   prefill->slots[page - first]);
    }
    return PL_OK;
}

static pl_status_t write_layer(pl_exec_t *exec, pl_prefill_t *prefill,
                               const pl_pass_t *pass, int32_t layer)
{
    const int32_t *own = pass->chunk.own_pages;
    int32_t n          = pass->chunk.n_own_pages;

    for (int32_t first = 0, last = 0; first < n; first = last + 1) {
        last = first;
        while ((last + 1 < n) && (own[last + 1] == own[last] + 1)) {
            last++;
        }
        PL_TRY(write_run(exec, prefill, pass, layer, own[first], own[last]));
        if ((layer == 0) && (first == 0) && /* once a chunk */
            pl_exec_injects(exec, PL_INJECT_FLIP_DEVICE)) {
            PL_TRY(pl_exec_flip(exec, PL_FREED_DEVICE, prefill->slots[0], layer,
                                pl_pass_rows(exec, pass, own[0])));
        }
    }
    return PL_OK;
}

/* ---- reading ---- */

static pl_status_t read_layer(pl_exec_t *exec, pl_prefill_t *prefill,
                              pl_moves_t *loads, pl_pass_t *pass, int32_t layer)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    pl_view_t views[PL_STORES];
    pl_shown_t shown[PL_STORES];

    memset(views, 0, sizeof(views));
    PL_TRY(pl_views_show(exec, prefill, loads, pass, layer, shown));
    for (int which = 0; which < PL_STORES; which++) {
        if (shown[which].bytes == NULL) {
            continue;
        }
        exec->counters->view_pages += pass->op->n_pages;
        if (pass->hash) {
            PL_TRY(pl_view_check(exec, prefill, &shown[which], pass, layer,
                                 which));
        }
        views[which] = (pl_view_t){.bytes    = shown[which].bytes,
                                   .stride   = store->stride[which],
                                   .rows     = shown[which].rows,
                                   .form     = store->form[which],
                                   .n_tokens = pass->end};
    }
    /* What was found bad ends the run with this tick; attention never sees it.
     */
    if (exec->violations->n > 0) {
        return PL_OK;
    }
    return exec->compute->ops->read(exec->compute, &pass->chunk, layer, views);
}

/* ---- the chunk ---- */

static void count_written(pl_exec_t *exec, const pl_pass_t *pass)
{
    int32_t own = pass->chunk.n_own_pages;

    exec->counters->pages[PL_OP_PREFILL] += own;
    exec->counters->bytes[PL_OP_PREFILL] +=
        own *
        (int64_t)pl_store_page_bytes(&exec->stores[PL_FREED_DEVICE].layout);
}

pl_status_t pl_prefill_execute(pl_exec_t *exec, pl_prefill_t *prefill,
                               pl_moves_t *loads, const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    pl_pass_t pass             = {.op    = op,
                                  .first = first_page(exec, op),
                                  .end   = op->first_token + op->n_tokens};
    bool ends_here;

    if (op->last) {
        request->first_rank =
            op->compute[op->n_pages - 1 - first_page(exec, op)];
    }
    if (exec->rank >= exec->n_prefill) {
        return PL_OK;
    }
    pass.chunk = chunk_of(exec, prefill, op);
    ends_here  = op->last && (request->first_rank == exec->rank);
    pass.hash  = pl_exec_verifies(exec) || (ends_here && pl_exec_hashes(exec));
    for (int32_t page = 0; page < op->n_pages; page++) {
        prefill->guards[page] =
            pl_exec_guard(exec, PL_FREED_DEVICE, op->pages[page], -1);
    }
    PL_TRY(exec->compute->ops->begin(exec->compute, &pass.chunk));
    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        PL_TRY(pl_views_begin(exec, prefill, loads, &pass, layer));
        PL_TRY(write_layer(exec, prefill, &pass, layer));
        PL_TRY(read_layer(exec, prefill, loads, &pass, layer));
    }
    count_written(exec, &pass);
    if (ends_here) {
        request->first_digest = pass.digest;
        PL_TRY(exec->compute->ops->end(exec->compute, &pass.chunk, pass.digest,
                                       &request->first_token));
    }
    return PL_OK;
}
