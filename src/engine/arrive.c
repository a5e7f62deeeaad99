/* Arrivals: requests of the trace at their time, or what the port hands in. */
#include "engine/state.h"

static const pl_request_t *request_of(const pl_engine_t *engine, int32_t i)
{
    return engine->source.request(engine->source.context, i);
}

/* With a port nothing comes but what is handed in. */
pl_status_t pl_arrive_open(pl_engine_t *engine)
{
    pl_engine_source_t source = engine->source;

    if (engine->config.port != NULL) {
        source.count = 0;
    }
    return pl_turns_open(&source, engine->config.skip, &engine->turns);
}

pl_status_t pl_arrive_behind(pl_engine_t *engine, int32_t request)
{
    int64_t soonest_ns = 0;

    PL_TRY(
        pl_turns_ended(&engine->turns, request, engine->now_ns, &soonest_ns));
    /* It ended when the plan was refused: the clock has jumped too far. */
    if (engine->jumps && (soonest_ns < engine->next_ns)) {
        engine->next_ns = soonest_ns;
    }
    return PL_OK;
}

static pl_status_t arrive(pl_engine_t *engine, const pl_turn_t *turn)
{
    pl_event_t event = pl_event_make(PL_EVENT_ARRIVE);

    engine->records[turn->request].arrival_ns = turn->at_ns;
    if (turn->request >= engine->n_arrived) {
        engine->n_arrived = turn->request + 1;
    }
    event.request = turn->request;
    event.value   = request_of(engine, turn->request)->input_tokens;
    pl_engine_emit(engine, event);
    return pl_admit_enqueue(engine, turn->request, false);
}

pl_status_t pl_arrive(pl_engine_t *engine)
{
    const pl_engine_port_t *port = engine->config.port;

    if ((port != NULL) && (port->arriving != NULL)) {
        PL_TRY(port->arriving(port->context));
    }
    for (;;) {
        pl_turn_t turn = pl_turns_first(&engine->turns);

        if ((turn.at_ns == INT64_MAX) || (turn.at_ns > engine->now_ns)) {
            return PL_OK;
        }
        pl_turns_pop(&engine->turns, turn);
        PL_TRY(engine->config.role == PL_ROLE_DECODE
                   ? pl_decode_arrived(engine, turn.request)
                   : arrive(engine, &turn));
    }
}
