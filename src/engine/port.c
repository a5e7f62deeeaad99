#include "engine/port.h"

#include "engine/state.h"

/* ---- what the instance says ---- */

pl_status_t pl_port_reserve(pl_engine_t *engine, int32_t request, bool *ok_p)
{
    const pl_engine_port_t *port = engine->config.port;

    return port->reserve(port->context, request,
                         engine->live[request].prompt_tokens, ok_p);
}

pl_status_t pl_port_release(pl_engine_t *engine, int32_t request)
{
    const pl_engine_port_t *port = engine->config.port;

    return port->release(port->context, request);
}

pl_status_t pl_port_prefilled(pl_engine_t *engine, int32_t request)
{
    const pl_engine_port_t *port = engine->config.port;

    return port->prefilled(port->context, request);
}

/* The instance forgets a request, which may come back. */
static void forget(pl_engine_t *engine, int32_t request)
{
    engine->live[request].phase = PL_PHASE_FUTURE;
    engine->n_inside--;
    pl_engine_released(engine);
}

pl_status_t pl_port_deliver(pl_engine_t *engine, int32_t request)
{
    const pl_engine_port_t *port = engine->config.port;

    forget(engine, request);
    return port->delivered(port->context, request,
                           !engine->live[request].send_failed);
}

pl_status_t pl_port_reentered(pl_engine_t *engine, int32_t request)
{
    const pl_engine_port_t *port = engine->config.port;
    const pl_live_t *live        = &engine->live[request];
    pl_handover_t so_far         = {
                .request        = request,
                .prompt_tokens  = live->prompt_tokens,
                .generated      = live->generated,
                .first_token_ns = engine->records[request].first_token_ns,
                .token_ns       = live->token_ns,
    };

    return port->reentered(port->context, &so_far);
}

pl_status_t pl_port_reenter(pl_engine_t *engine, int32_t request)
{
    engine->counters.reentries++;
    engine->records[request].reentries++;
    forget(engine, request);
    return pl_port_reentered(engine, request);
}

pl_status_t pl_port_finished(pl_engine_t *engine, int32_t request)
{
    const pl_engine_port_t *port = engine->config.port;

    engine->n_inside--;
    return port->finished(port->context, request,
                          engine->records[request].failed);
}

/* ---- what is handed in ---- */

int64_t pl_engine_next_ns(const pl_engine_t *engine)
{
    bool rests = engine->rests && (engine->releases == engine->releases_before);

    return rests ? INT64_MAX : engine->next_ns;
}

/* Something is there at that time. */
static void wake(pl_engine_t *engine, int64_t at_ns)
{
    if (!engine->jumps) {
        return; /* it computes, and will see then */
    }
    at_ns = at_ns > engine->now_ns ? at_ns : engine->now_ns;
    if (engine->rests || (at_ns < engine->next_ns)) {
        engine->next_ns = at_ns;
    }
    engine->rests = false;
}

pl_handover_t pl_handover_of(const pl_request_t *request, int32_t number)
{
    pl_handover_t handover = {.request        = number,
                              .prompt_tokens  = request->input_tokens,
                              .first_token_ns = -1};

    return handover;
}

static void take_over(pl_engine_t *engine, const pl_handover_t *handover)
{
    pl_live_t *live = &engine->live[handover->request];

    live->prompt_tokens = handover->prompt_tokens;
    live->generated     = handover->generated;
    live->token_ns      = handover->token_ns;
    engine->records[handover->request].first_token_ns =
        handover->first_token_ns;
}

pl_status_t pl_engine_give(pl_engine_t *engine, const pl_handover_t *handover,
                           int64_t at_ns)
{
    pl_turn_t turn = {at_ns, handover->request};

    PL_TRY(pl_turns_push(&engine->turns, turn));
    PL_TRY(pl_request_begin(engine, handover->request));
    take_over(engine, handover);
    if (handover->generated > 0) { /* its hits are not those of a prompt */
        engine->records[handover->request].reentries++;
    }
    engine->n_inside++;
    wake(engine, at_ns);
    return PL_OK;
}

bool pl_engine_fits_again(const pl_engine_t *engine, int32_t request,
                          int32_t prompt_tokens)
{
    return pl_fit_again(engine, request, prompt_tokens);
}

void pl_engine_nudge(pl_engine_t *engine, int64_t at_ns)
{
    pl_engine_released(engine);
    wake(engine, at_ns);
}

void pl_engine_sent(pl_engine_t *engine, int64_t op, int64_t at_ns)
{
    for (size_t i = 0; i < engine->pending.n; i++) {
        if (engine->pending.items[i].due.id == op) {
            engine->pending.items[i].end_ns = at_ns;
            wake(engine, at_ns);
            return;
        }
    }
}

int32_t pl_engine_room(const pl_engine_t *engine, int32_t prompt_tokens)
{
    return pl_decode_room(engine, prompt_tokens);
}

pl_status_t pl_engine_reserve(pl_engine_t *engine, int32_t request,
                              int32_t prompt_tokens)
{
    pl_live_t *live = &engine->live[request];
    bool ok         = false;

    PL_TRY(pl_request_begin(engine, request));
    live->prompt_tokens = prompt_tokens;
    PL_TRY(pl_decode_reserve(engine, request, &ok));
    if (!ok) {
        return PL_REFUSED_SHORT;
    }
    live->age = engine->n_admitted++;
    engine->n_inside++;
    if (request >= engine->n_arrived) {
        engine->n_arrived = request + 1;
    }
    return PL_OK;
}

int32_t pl_engine_home(const pl_engine_t *engine, int32_t request)
{
    return engine->live[request].home_index;
}

pl_status_t pl_engine_withdraw(pl_engine_t *engine, int32_t request,
                               int64_t at_ns)
{
    engine->n_inside--;
    PL_TRY(pl_decode_release(engine, request));
    wake(engine, at_ns);
    return PL_OK;
}

pl_status_t pl_engine_enter(pl_engine_t *engine, const pl_handover_t *handover,
                            int64_t at_ns)
{
    pl_turn_t turn = {at_ns, handover->request};

    PL_TRY(pl_turns_push(&engine->turns, turn));
    take_over(engine, handover);
    wake(engine, at_ns);
    return PL_OK;
}

/* ---- for a router ---- */

int32_t pl_engine_peek(const pl_engine_t *engine, int32_t request,
                       const pl_page_key_t *keys, int32_t n_keys)
{
    const pl_request_t *asked =
        engine->source.request(engine->source.context, request);
    int32_t page     = engine->config.page_tokens;
    int32_t most     = (asked->input_tokens - 1) / page;
    int32_t n_device = 0;
    int32_t n_total  = 0;

    pl_tree_peek(pl_hicache_tree(engine->cache), asked->name_space, keys,
                 n_keys < most ? n_keys : most, &n_device, &n_total);
    return n_total * page;
}
