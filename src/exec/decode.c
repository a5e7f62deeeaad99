#include "exec/decode.h"

#include <inttypes.h>
#include <string.h>

pl_status_t pl_step_reserve(pl_exec_t *exec, pl_stage_t *stage,
                            const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];

    if (op->home != exec->rank) {
        return PL_OK;
    }
    PL_TRY(pl_stage_reserve(exec, stage, 1));
    return PL_ARRAY_RESERVE(&request->generated, request->generated.n + 1);
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

/* Guard word, and with `hashed` also the digest, of all layers of a page. */
static void check_page(pl_exec_t *exec, const pl_op_t *op, int32_t page,
                       bool hashed)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    pl_exec_site_t site     = site_of(exec, op, page);
    int32_t slot            = pl_exec_slot(exec, PL_FREED_DECODE, site.page);
    pl_exec_read_t read     = {
            .guard  = pl_exec_guard(exec, PL_FREED_DECODE, site.page, op->home),
            .hashed = hashed};

    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        read.header = *pl_piece_header(store, &at, slot);
        read.digest = hashed ? pl_digests_next(&exec->digests) : 0;
        (void)pl_exec_sound(exec, &site, at.layer, at.which, &read);
    }
}

static pl_status_t check_pages(pl_exec_t *exec, const pl_op_t *op)
{
    int32_t n      = pl_exec_pages(exec, op->first_token);
    int32_t hashed = op->first_token % n;
    int32_t slot   = pl_exec_slot(exec, PL_FREED_DECODE, op->pages[hashed]);

    pl_digests_clear(&exec->digests);
    PL_TRY(pl_digests_add_page(&exec->digests, &exec->stores[PL_FREED_DECODE],
                               slot,
                               pl_exec_rows(exec, hashed, op->first_token),
                               hashed * exec->page_tokens));
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    for (int32_t page = 0; page < n; page++) {
        check_page(exec, op, page, page == hashed);
    }
    return PL_OK;
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
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        *pl_piece_header(store, &at, slot) = (pl_page_header_t){.guard = guard};
    }
}

/* One layer: write the row, then read all that are held. */
static pl_status_t step_layer(pl_exec_t *exec, pl_stage_t *stage,
                              const pl_op_t *op, const pl_step_t *step,
                              int32_t layer)
{
    const pl_compute_ops_t *ops = exec->compute->ops;
    const pl_store_t *store     = &exec->stores[PL_FREED_DECODE];
    int32_t page                = step->position / exec->page_tokens;
    pl_rows_t row = {.first_token = step->position, .n_tokens = 1};
    pl_view_t views[PL_STORES];

    PL_TRY(pl_stage_open(exec, stage, PL_FREED_DECODE, layer, &op->pages[page],
                         &row));
    PL_TRY(ops->step_write(exec->compute, step, layer, &row));
    PL_TRY(pl_stage_close(exec, stage, PL_FREED_DECODE, layer, &op->pages[page],
                          &row));
    memset(views, 0, sizeof(views));
    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            views[which] =
                (pl_view_t){.bytes    = pl_store_page(store, which, layer, 0),
                            .stride   = store->stride[which],
                            .rows     = op->pages,
                            .form     = store->form[which],
                            .n_tokens = step->position + 1};
        }
    }
    return ops->step_read(exec->compute, step, layer, views);
}

/* Add the row that was just stored to the page's digests, and to that of all
 * rows held; the host waits. */
static pl_status_t add_row(pl_exec_t *exec, const pl_op_t *op)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    int32_t page            = op->first_token / exec->page_tokens;
    int32_t row             = op->first_token % exec->page_tokens;
    int32_t slot = pl_exec_slot(exec, PL_FREED_DECODE, op->pages[page]);

    store->tags[slot].rows = row + 1;
    if (!pl_exec_hashes(exec)) {
        return PL_OK;
    }
    pl_digests_clear(&exec->digests);
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        PL_TRY(pl_digests_add(&exec->digests, &store->form[at.which],
                              pl_piece_page(store, &at, slot), row, 1,
                              page * exec->page_tokens, &at));
    }
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(&store->layout, &at);) {
        uint64_t hash = pl_digests_next(&exec->digests);

        pl_piece_header(store, &at, slot)->digest += hash;
        exec->requests[op->request].digest_held += hash;
    }
    return PL_OK;
}

static void count_step(pl_exec_t *exec, const pl_op_t *op)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DECODE];
    pl_page_t page          = op->pages[op->first_token / exec->page_tokens];
    int64_t bytes           = 0;

    for (int which = 0; which < PL_STORES; which++) {
        bytes += pl_store_n_arrays(&store->layout, which) *
                 (int64_t)pl_row_bytes(&store->form[which]);
    }
    exec->counters->pages[PL_OP_DECODE]++;
    exec->counters->bytes[PL_OP_DECODE] += bytes;
    pl_op_log_step(exec->log_of_ops, op->request, op->first_token,
                   pl_exec_slot(exec, PL_FREED_DECODE, page), (uint64_t)bytes);
}

static pl_status_t check_step(const pl_exec_t *exec, const pl_op_t *op)
{
    size_t held = exec->requests[op->request].generated.n;

    if ((size_t)(op->first_token - pl_exec_prompt_tokens(exec, op->request)) +
            1 ==
        held) {
        return PL_OK;
    }
    pl_log(exec->log, PL_LOG_ERROR,
           "request %" PRId32 " is to make the row at %" PRId32
           " but holds %zu generated tokens; please report this",
           op->request, op->first_token, held);
    return PL_ERR_INTERNAL;
}

pl_status_t pl_step_execute(pl_exec_t *exec, pl_stage_t *stage,
                            const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    pl_step_t step = {.request = op->request, .position = op->first_token};
    int32_t next   = 0;

    if (op->home != exec->rank) {
        return PL_OK;
    }
    PL_TRY(check_step(exec, op));
    if (pl_exec_verifies(exec)) {
        PL_TRY(check_pages(exec, op));
    }
    if (op->first_token % exec->page_tokens == 0) {
        open_page(exec, op, op->first_token / exec->page_tokens);
    }
    pl_exec_read_tokens(exec, op->request, op->first_token, 1, &step.token);
    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        PL_TRY(step_layer(exec, stage, op, &step, layer));
    }
    PL_TRY(add_row(exec, op));
    PL_TRY(exec->compute->ops->step_end(exec->compute, &step,
                                        request->digest_held, &next));
    count_step(exec, op);
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
