/* Arrivals: at a time, or when others have ended. */
#include <stdlib.h>

#include "base/hash.h"
#include "engine/state.h"

static const pl_request_t *request_of(const pl_engine_t *engine, int32_t i)
{
    return engine->source.request(engine->source.context, i);
}

/* ---- a heap of those whose time is known ---- */

static bool is_before(const pl_turn_t *a, const pl_turn_t *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->request < b->request;
}

static void swap(pl_turn_t *a, pl_turn_t *b)
{
    pl_turn_t kept = *a;

    *a = *b;
    *b = kept;
}

static pl_status_t push(pl_turns_t *turns, pl_turn_t turn)
{
    size_t i = turns->ready.n;

    PL_TRY(PL_ARRAY_PUSH(&turns->ready, turn));
    for (; i > 0; i = (i - 1) / 2) {
        pl_turn_t *above = &turns->ready.items[(i - 1) / 2];

        if (!is_before(&turns->ready.items[i], above)) {
            break;
        }
        swap(&turns->ready.items[i], above);
    }
    return PL_OK;
}

static void pop(pl_turns_t *turns)
{
    pl_turn_t *items = turns->ready.items;
    size_t n         = --turns->ready.n;
    size_t i         = 0;

    items[0] = items[n];
    for (;;) {
        size_t least = i;

        for (size_t child = 2 * i + 1; (child <= 2 * i + 2) && (child < n);
             child++) {
            least = is_before(&items[child], &items[least]) ? child : least;
        }
        if (least == i) {
            return;
        }
        swap(&items[i], &items[least]);
        i = least;
    }
}

/* ---- who waits for whom ---- */

/* For each request, those behind it, ascending. */
static pl_status_t list_behind(pl_engine_t *engine)
{
    pl_turns_t *turns = &engine->turns;
    int32_t count     = engine->source.count;
    int32_t sum       = 0;

    for (int32_t i = 0; i < count; i++) {
        const pl_request_t *request = request_of(engine, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            if ((request->after[k] < 0) || (request->after[k] >= i)) {
                return PL_ERR_ARGUMENT;
            }
            turns->first[request->after[k] + 1]++;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t n = turns->first[i + 1];

        turns->first[i + 1] = sum; /* where its first one goes */
        sum += n;
    }
    turns->behind = malloc(((size_t)sum + 1) * sizeof(*turns->behind));
    if (turns->behind == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        const pl_request_t *request = request_of(engine, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            turns->behind[turns->first[request->after[k] + 1]++] = i;
        }
    }
    return PL_OK;
}

/* Those that were skipped have ended before the run. */
static pl_status_t count_unended(pl_engine_t *engine)
{
    pl_turns_t *turns = &engine->turns;

    for (int32_t i = 0; i < engine->source.count; i++) {
        const pl_request_t *request = request_of(engine, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            turns->n_unended[i] += !engine->records[request->after[k]].skipped;
        }
        if ((request->n_after > 0) && (turns->n_unended[i] == 0) &&
            !engine->records[i].skipped) {
            PL_TRY(push(turns, (pl_turn_t){request->arrival_ns, i}));
        }
    }
    return PL_OK;
}

pl_status_t pl_turns_open(pl_engine_t *engine)
{
    pl_turns_t *turns = &engine->turns;
    size_t n          = (size_t)engine->source.count;

    turns->first     = calloc(n + 1, sizeof(*turns->first));
    turns->n_unended = calloc(n + 1, sizeof(*turns->n_unended));
    if ((turns->first == NULL) || (turns->n_unended == NULL)) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(list_behind(engine));
    return count_unended(engine);
}

void pl_turns_close(pl_engine_t *engine)
{
    free(engine->turns.first);
    free(engine->turns.behind);
    free(engine->turns.n_unended);
    PL_ARRAY_FREE(&engine->turns.ready);
}

pl_status_t pl_turns_ended(pl_engine_t *engine, int32_t request)
{
    pl_turns_t *turns = &engine->turns;

    for (int32_t k = turns->first[request]; k < turns->first[request + 1];
         k++) {
        int32_t next                = turns->behind[k];
        const pl_request_t *waiting = request_of(engine, next);
        int64_t at_ns               = engine->now_ns + waiting->delay_ns;

        turns->n_unended[next]--;
        if ((turns->n_unended[next] > 0) || engine->records[next].skipped) {
            continue;
        }
        if (waiting->not_before && (waiting->arrival_ns > at_ns)) {
            at_ns = waiting->arrival_ns;
        }
        PL_TRY(push(turns, (pl_turn_t){at_ns, next}));
        /* It ended when the plan was refused: the clock has jumped too far. */
        if (engine->jumps && (at_ns < engine->next_ns)) {
            engine->next_ns = at_ns;
        }
    }
    return PL_OK;
}

/* ---- arrivals ---- */

/* The next that arrives by its own time; the count: none. */
static int32_t next_by_time(const pl_engine_t *engine)
{
    int32_t i = engine->turns.next;

    while (
        (i < engine->source.count) &&
        (engine->records[i].skipped || (request_of(engine, i)->n_after > 0))) {
        i++;
    }
    return i;
}

/* The first to arrive of all whose time is known. */
static pl_turn_t first_turn(const pl_engine_t *engine)
{
    const pl_turns_t *turns = &engine->turns;
    int32_t i               = next_by_time(engine);
    pl_turn_t turn          = {INT64_MAX, i};

    if (i < engine->source.count) {
        turn.at_ns = request_of(engine, i)->arrival_ns;
    }
    if ((turns->ready.n > 0) && is_before(&turns->ready.items[0], &turn)) {
        turn = turns->ready.items[0];
    }
    return turn;
}

int64_t pl_turns_next_ns(const pl_engine_t *engine)
{
    return first_turn(engine).at_ns;
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

pl_status_t pl_turns_take(pl_engine_t *engine)
{
    pl_turns_t *turns = &engine->turns;

    for (;;) {
        pl_turn_t turn = first_turn(engine);

        if ((turn.at_ns == INT64_MAX) || (turn.at_ns > engine->now_ns)) {
            turns->next = next_by_time(engine); /* passed over for good */
            return PL_OK;
        }
        if ((turns->ready.n > 0) &&
            (turns->ready.items[0].request == turn.request)) {
            pop(turns);
        } else {
            turns->next = turn.request + 1; /* and what it passed over */
        }
        PL_TRY(arrive(engine, &turn));
    }
}

uint64_t pl_turns_state_hash(const pl_engine_t *engine)
{
    const pl_turns_t *turns = &engine->turns;
    uint64_t h              = pl_fold64(0, (uint64_t)next_by_time(engine));

    for (size_t i = 0; i < turns->ready.n; i++) {
        h = pl_fold64(h, (uint64_t)turns->ready.items[i].at_ns);
        h = pl_fold64(h, (uint64_t)turns->ready.items[i].request);
    }
    return h;
}
