/* Prefill -> decode: chunks are sent as they are done. */
#include "engine/state.h"

static pl_status_t emit_send(pl_engine_t *engine, const pl_op_t *op, int64_t id)
{
    pl_event_t event = pl_event_make(PL_EVENT_SEND);

    event.op      = id;
    event.request = op->request;
    event.value   = op->home;
    event.value2  = op->first_page;
    event.pages   = op->pages;
    event.other   = op->other;
    event.n_pages = op->n_pages;
    pl_engine_emit(engine, event);
    engine->counters.sends++;
    engine->counters.send_pages += op->n_pages;
    return PL_OK;
}

static bool is_elsewhere(const pl_engine_t *engine)
{
    return engine->config.role == PL_ROLE_PREFILL;
}

/* From page `from` on, and where they go: what is elsewhere nobody here knows.
 */
static pl_status_t keep_pages(pl_engine_t *engine, const pl_live_t *live,
                              size_t from, pl_op_t *op)
{
    size_t bytes = (live->pages.n - from) * sizeof(*live->pages.items);

    op->pages = pl_plan_keep(engine, live->pages.items + from, bytes);
    if (op->pages == NULL) {
        return PL_ERR_MEMORY;
    }
    if (is_elsewhere(engine)) {
        return PL_OK;
    }
    op->home  = engine->homes[live->home_index].rank;
    op->other = pl_plan_keep(engine, live->decode_pages.items + from, bytes);
    return op->other == NULL ? PL_ERR_MEMORY : PL_OK;
}

pl_status_t pl_transfer_send(pl_engine_t *engine, int32_t request, bool last)
{
    pl_live_t *live = &engine->live[request];
    size_t from     = (size_t)live->sent_pages;
    size_t n        = live->pages.n - from;
    int32_t tokens =
        live->computed_tokens - live->sent_pages * engine->config.page_tokens;
    pl_op_t op = {0};
    int64_t id = 0;

    if (live->send_failed) {
        return PL_OK; /* what is computed serves the cache alone */
    }
    op.kind        = PL_OP_SEND;
    op.request     = request;
    op.node        = -1;
    op.first_page  = live->sent_pages;
    op.n_pages     = (int32_t)n;
    op.first_token = live->sent_pages * engine->config.page_tokens;
    op.n_tokens    = tokens;
    op.home        = -1;
    op.last        = last;
    PL_TRY(keep_pages(engine, live, from, &op));
    PL_TRY(pl_plan_add(engine, op, &id));
    PL_TRY(pl_ops_start(engine, &op, id, PL_LINK_PD,
                        pl_ops_send_bytes(engine, op.pages, op.n_pages)));
    live->sent_pages = (int32_t)live->pages.n;
    live->sends_under_way++;
    return emit_send(engine, &op, id);
}

/* Both sides let go: every writer has acknowledged. */
pl_status_t pl_transfer_settle(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];
    size_t own      = (size_t)live->inserted_pages;

    if ((live->phase != PL_PHASE_TRANSFER) || (live->sends_under_way > 0)) {
        return PL_OK;
    }
    engine->n_transferring--;
    pl_engine_released(engine);
    pl_hicache_at(engine->cache, engine->tick, request);
    PL_TRY(pl_hicache_free(engine->cache, live->pages.items + own,
                           (int32_t)(live->pages.n - own)));
    pl_hicache_unlock(engine->cache, live->node);
    live->node = NULL;
    PL_ARRAY_FREE(&live->pages);
    if (is_elsewhere(engine)) {
        return pl_port_deliver(engine, request);
    }
    if (live->send_failed) {
        PL_TRY(pl_decode_release(engine, request));
        return pl_request_finish(engine, request, true);
    }
    return pl_decode_arrived(engine, request);
}

pl_status_t pl_transfer_sent(pl_engine_t *engine, int32_t request, int64_t op,
                             bool good)
{
    pl_live_t *live  = &engine->live[request];
    pl_event_t event = pl_event_make(PL_EVENT_SENT);

    event.op      = op;
    event.request = request;
    event.value   = good;
    pl_engine_emit(engine, event);
    live->sends_under_way--;
    if (!good) {
        live->send_failed = true; /* sticky: no later success clears it */
        engine->counters.sends_failed++;
    }
    return pl_transfer_settle(engine, request);
}
