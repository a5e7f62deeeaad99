/* Chunks: planned one a tick, inserted into the tree when done. */
#include <stdlib.h>

#include "engine/state.h"

/* ---- planning ---- */

static pl_status_t allocate_chunk(pl_engine_t *engine, int32_t request,
                                  int32_t n_tokens, bool *ok_p)
{
    pl_live_t *live     = &engine->live[request];
    int32_t n_before    = (int32_t)live->pages.n;
    int32_t n           = pl_pages_for(engine, n_tokens);
    pl_hicache_try_t go = {0};
    pl_status_t status;

    pl_fit_lanes(engine, request, n_before, n, engine->owners);
    PL_TRY(PL_ARRAY_RESERVE(&live->pages, live->pages.n + (size_t)n));
    pl_hicache_at(engine->cache, engine->tick, request);
    status = pl_hicache_extend(engine->cache, engine->owners, n,
                               live->pages.items + n_before, &go);
    if (status == PL_OK) {
        live->pages.n += (size_t)n;
        *ok_p = true;
        return PL_OK;
    }
    *ok_p = false;
    if ((status == PL_REFUSED_SHORT) && go.wait) {
        live->extend_waits = true;
        engine->counters.waits_for_write_back++;
        return PL_OK;
    }
    if (status == PL_REFUSED_SHORT) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: request %d was admitted, but a chunk of %d pages found "
               "a lane short; please report this",
               request, n);
        return PL_ERR_INTERNAL;
    }
    return status;
}

static void emit_chunk(pl_engine_t *engine, int32_t request, int32_t n_tokens,
                       int64_t op)
{
    const pl_live_t *live = &engine->live[request];
    pl_event_t event      = pl_event_make(PL_EVENT_CHUNK);
    int32_t n             = pl_pages_for(engine, n_tokens);

    event.request = request;
    event.op      = op;
    event.value   = live->computed_tokens;
    event.value2  = n_tokens;
    event.n_pages = n;
    event.pages   = live->pages.items + live->pages.n - (size_t)n;
    pl_engine_emit(engine, event);
}

static pl_status_t add_prefill(pl_engine_t *engine, int32_t request,
                               int32_t n_tokens)
{
    const pl_engine_config_t *config = &engine->config;
    pl_live_t *live                  = &engine->live[request];
    int32_t n                        = pl_pages_for(engine, n_tokens);
    pl_op_t op                       = {0};
    int64_t id                       = 0;

    pl_compute_owners(config->ownership, config->n_prefill,
                      (int32_t)live->pages.n - n, n, request, engine->owners);
    op.compute = pl_plan_keep(engine, engine->owners,
                              (size_t)n * sizeof(*engine->owners));
    if (op.compute == NULL) {
        return PL_ERR_MEMORY;
    }

    for (int32_t i = 0; i < n; i++) {
        engine->counters.rank_pages[engine->owners[i]]++;
    }
    op.kind        = PL_OP_PREFILL;
    op.request     = request;
    op.node        = -1;
    op.n_pages     = (int32_t)live->pages.n;
    op.pages       = live->pages.items;
    op.first_token = live->computed_tokens;
    op.n_tokens    = n_tokens;
    op.home        = -1;
    op.last        = live->computed_tokens + n_tokens == live->prompt_tokens;
    op.load        = live->load_op;
    PL_TRY(pl_plan_add(engine, op, &id));
    emit_chunk(engine, request, n_tokens, id);

    live->chunk_tokens = n_tokens;
    engine->counters.chunks++;
    engine->counters.prefill_tokens += n_tokens;
    return PL_OK;
}

pl_status_t pl_prefill_plan(pl_engine_t *engine)
{
    pl_live_t *live;
    int32_t n;
    bool ok = false;

    if (engine->current < 0) {
        return PL_OK;
    }
    live = &engine->live[engine->current];
    n    = live->prompt_tokens - live->computed_tokens;
    n    = n < engine->config.chunk_tokens ? n : engine->config.chunk_tokens;
    if (live->load_waits || (n == 0)) {
        return PL_OK; /* waits for write-backs or for its load-back's end */
    }
    if (live->extend_waits &&
        (pl_hicache_copies_under_way(engine->cache) > 0)) {
        return PL_OK;
    }
    live->extend_waits = false;
    PL_TRY(allocate_chunk(engine, engine->current, n, &ok));
    if (!ok) {
        return PL_OK;
    }
    return add_prefill(engine, engine->current, n);
}

/* ---- what the last tick computed ---- */

static pl_status_t insert_pages(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live    = &engine->live[request];
    int32_t whole      = live->computed_tokens / engine->config.page_tokens;
    int32_t n          = whole - live->inserted_pages;
    pl_node_t *deepest = NULL;
    const pl_request_t *of_trace =
        engine->source.request(engine->source.context, request);

    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_hicache_insert(engine->cache, live->node, of_trace->name_space,
                             live->keys + live->inserted_pages, n,
                             live->pages.items + live->inserted_pages,
                             &deepest));
    pl_hicache_lock(engine->cache, deepest);
    pl_hicache_unlock(engine->cache, live->node);
    live->node           = deepest;
    live->inserted_pages = whole;
    return PL_OK;
}

static pl_status_t end_prompt(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live     = &engine->live[request];
    pl_record_t *record = &engine->records[request];

    if (record->first_token_ns < 0) {
        record->first_token_ns = engine->now_ns;
    }
    PL_TRY(pl_hicache_prompt_done(engine->cache, live->node));
    free(live->keys);
    live->keys    = NULL;
    live->no_load = false;
    live->bad_end = 0;
    pl_prefetch_forget(live);
    live->phase     = PL_PHASE_TRANSFER;
    engine->current = -1;
    engine->n_transferring++;
    pl_engine_released(engine);
    if (engine->config.port != NULL) {
        PL_TRY(pl_port_prefilled(engine, request));
    }
    return pl_transfer_settle(engine, request);
}

pl_status_t pl_prefill_apply(pl_engine_t *engine)
{
    int32_t request = engine->current;
    pl_live_t *live;
    bool last, some;

    if (request < 0) {
        return PL_OK;
    }
    live = &engine->live[request];
    live->computed_tokens += live->chunk_tokens;
    live->chunk_tokens = 0;
    if (live->load_op != 0) {
        return PL_OK; /* a bad load-back spoils what was computed from it */
    }
    last = live->computed_tokens == live->prompt_tokens;
    /* The tree may still hold pages of what was cut off, in other lanes than
     * those computed now.  Inserting gives ours back and locks the tree's, so
     * it waits until no further chunk counts on those lanes. */
    if (live->was_cut && !last) {
        return PL_OK;
    }
    pl_hicache_at(engine->cache, engine->tick, request);
    PL_TRY(insert_pages(engine, request));
    some = live->computed_tokens > live->hit_pages * engine->config.page_tokens;
    if (some && (live->sent_pages < (int32_t)live->pages.n)) {
        PL_TRY(pl_transfer_send(engine, request, last));
    }
    return last ? end_prompt(engine, request) : PL_OK;
}

pl_status_t pl_prefill_cancelled(pl_engine_t *engine, const pl_op_t *op)
{
    pl_log(engine->log, PL_LOG_ERROR,
           "a rank has no memory left for %s of request %d; lower --chunk or "
           "the page pools",
           op->kind == PL_OP_PREFILL ? "a chunk" : "a decode step",
           op->request);
    return PL_ERR_RESOURCE;
}
