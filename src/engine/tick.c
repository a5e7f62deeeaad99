/* The order of a tick: what was due, arrivals, admission, chunk, decode. */
#include <inttypes.h>
#include <string.h>

#include "cache/storage_table.h"
#include "engine/state.h"

pl_status_t pl_request_finish(pl_engine_t *engine, int32_t request, bool failed)
{
    pl_record_t *record = &engine->records[request];
    pl_event_t event    = pl_event_make(PL_EVENT_FINISH);

    engine->live[request].phase = PL_PHASE_FINISHED;
    engine->finished[request]   = !failed;
    engine->n_finished++;
    record->finished_ns   = engine->now_ns;
    record->finished_tick = engine->tick;
    record->failed        = failed;
    event.request         = request;
    event.value           = failed;
    pl_engine_emit(engine, event);
    pl_engine_released(engine);
    return engine->config.port != NULL ? pl_port_finished(engine, request)
                                       : pl_arrive_behind(engine, request);
}

/* ---- applying ---- */

/* The lowest bit that is set, or one behind all. */
static int32_t first_of(uint64_t bits)
{
    int32_t n = 0;

    while ((n < PL_STORAGE_READ_PAGES) && (((bits >> n) & 1U) == 0)) {
        n++;
    }
    return n;
}

static pl_status_t apply_end(pl_engine_t *engine, const pl_pending_t *ended)
{
    const pl_due_t *due = &ended->due;
    bool good           = !ended->failed;

    pl_engine_released(engine);
    pl_hicache_at(engine->cache, engine->tick, due->request);
    switch (due->kind) {
    case PL_OP_LOAD:
        return pl_admit_load_ended(engine, due->request, due->id, good);
    case PL_OP_BACKUP:
        return pl_hicache_backup_end(engine->cache, due->id, good);
    case PL_OP_SEND:
        return pl_transfer_sent(engine, due->request, due->id, good);
    case PL_OP_OFFLOAD:
        return pl_decode_offloaded(engine, due->request, due->id, good);
    case PL_OP_RESUME:
        return pl_decode_resumed(engine, due->request, due->id, good);
    case PL_OP_FETCH:
        return pl_fetch_ended(engine, due->request, due->id,
                              first_of(ended->bad | ended->unread),
                              first_of(ended->bad));
    case PL_OP_STORE:
        return pl_store_ended(engine, due->id, good);
    case PL_OP_PUBLISH:
        return pl_publish_ended(engine, good);
    case PL_OP_PREFILL:
    case PL_OP_DECODE:
    case PL_OP_REENTER:
    case PL_OP_KINDS:
        break;
    }
    return PL_ERR_INTERNAL; /* these are done when their tick is */
}

/* What was due in the last tick takes effect, in order of its start. */
static pl_status_t apply_due(pl_engine_t *engine)
{
    size_t i = 0;

    while (i < engine->pending.n) {
        pl_pending_t ended = engine->pending.items[i];

        if (!ended.applies_next) {
            i++;
            continue;
        }
        pl_ops_forget(engine, ended.due.id);
        PL_TRY(apply_end(engine, &ended));
    }
    return PL_OK;
}

/* ---- virtual time ---- */

static void add_parts(int64_t *sums, const int64_t *parts)
{
    for (int i = 0; i < PL_COST_PARTS; i++) {
        sums[i] += parts[i];
    }
}

/* Of the longest home, whose parts are counted. */
static int64_t decode_ns(pl_engine_t *engine)
{
    int64_t parts[2][PL_COST_PARTS] = {
        {0}}; /* of the longest, and of another */
    int64_t longest = 0;
    int64_t all     = 0; /* requests */

    for (int32_t i = 0; i < engine->n_homes; i++) {
        const pl_home_t *home = &engine->homes[i];
        int64_t context       = 0;
        int32_t n             = 0;
        int64_t ns;

        for (size_t j = 0; j < home->running.n; j++) {
            if (engine->live[home->running.items[j]].step_tokens > 0) {
                context += pl_rows_held(engine, home->running.items[j]);
                n++;
            }
        }
        all += n;
        ns = pl_cost_decode_ns(&engine->config.costs, n, context, parts[1]);
        if (ns > longest) {
            memcpy(parts[0], parts[1], sizeof(parts[0]));
            longest = ns;
        }
    }
    add_parts(engine->counters.decode_ns, parts[0]);
    engine->counters.stepping_ns += all * longest;
    return longest;
}

static int64_t chunk_ns(pl_engine_t *engine)
{
    int64_t parts[PL_COST_PARTS];
    const pl_live_t *live;
    int64_t ns;

    if ((engine->current < 0) ||
        (engine->live[engine->current].chunk_tokens == 0)) {
        return 0;
    }
    live = &engine->live[engine->current];
    ns   = pl_cost_chunk_ns(&engine->config.costs, engine->config.n_prefill,
                            live->computed_tokens, live->chunk_tokens, parts);
    add_parts(engine->counters.prefill_ns, parts);
    return ns;
}

/* When nothing computes, the clock jumps to what comes next. */
static pl_status_t jump(pl_engine_t *engine)
{
    int64_t next    = pl_ops_next_end(engine);
    int64_t arrival = pl_turns_first(&engine->turns).at_ns;

    next = arrival < next ? arrival : next;
    if ((engine->current < 0) && (engine->waiting_head < engine->waiting.n)) {
        int32_t head     = engine->waiting.items[engine->waiting_head];
        int64_t deadline = pl_prefetch_deadline(engine, head);

        /* Who waits for room by then is woken by what gives it. */
        next =
            (deadline > engine->now_ns) && (deadline < next) ? deadline : next;
    }
    /* What was given back after admission is for the next tick to use. */
    engine->rests = (next == INT64_MAX) && (engine->plan.n_ops == 0) &&
                    (engine->releases == engine->releases_before);
    if (engine->rests && (engine->config.port == NULL) &&
        (engine->n_finished < engine->source.count)) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: nothing can go on in tick %" PRId64 " with %d of %d "
               "requests finished; please report this",
               engine->tick, engine->n_finished, engine->source.count);
        return PL_ERR_INTERNAL;
    }
    engine->counters.idle_ticks++;
    engine->jumps = true;
    engine->next_ns =
        (next != INT64_MAX) && (next > engine->now_ns) ? next : engine->now_ns;
    return PL_OK;
}

/* Clocks have 64 bits; a year is left to copies that end later. */
#define LAST_NS (INT64_MAX - INT64_C(365) * 86400 * 1000000000)

static pl_status_t take_too_long(const pl_engine_t *engine)
{
    pl_log(engine->log, PL_LOG_ERROR,
           "engine: virtual time passes 291 years in tick %" PRId64
           ", with %d of %d requests finished; use --hardware that is faster, "
           "or fewer requests (--limit)",
           engine->tick, engine->n_finished, engine->source.count);
    return PL_ERR_INPUT;
}

static pl_status_t pass_time(pl_engine_t *engine)
{
    int64_t chunk  = chunk_ns(engine);
    int64_t decode = decode_ns(engine);
    int64_t both   = chunk > decode ? chunk : decode;

    if (engine->config.n_decode == 0) {
        both = chunk + decode;
    }
    both += pl_ops_take_in_ns(engine);
    if (both == 0) {
        return jump(engine);
    }
    if (both > LAST_NS - engine->now_ns) {
        return take_too_long(engine);
    }
    engine->next_ns = engine->now_ns + both;
    return PL_OK;
}

/* ---- the two halves of a tick ---- */

static void begin_tick(pl_engine_t *engine)
{
    size_t delivered = (size_t)engine->plan.n_freed;

    /* What commit freed after the plan was made belongs to this one. */
    for (size_t i = delivered; i < engine->freed.n; i++) {
        engine->freed.items[i - delivered] = engine->freed.items[i];
    }
    engine->freed.n -= delivered;
    engine->plan.n_freed = 0;
    pl_plan_clear(engine);
    engine->tick++;
    engine->counters.ticks++;
    engine->now_ns = engine->next_ns;
    engine->jumps  = false;
    engine->rests  = false;

    engine->releases_before = engine->releases;
}

/* Who does not wait for pages has them fetched only if it waits anyway. */
static pl_status_t fetch_and_admit(pl_engine_t *engine)
{
    if (engine->config.prefetch == PL_PREFETCH_BEST_EFFORT) {
        PL_TRY(pl_admit(engine));
        return pl_prefetch(engine);
    }
    PL_TRY(pl_prefetch(engine));
    return pl_admit(engine);
}

pl_status_t pl_engine_plan(pl_engine_t *engine, pl_plan_t **plan_p)
{
    begin_tick(engine);
    PL_TRY(apply_due(engine));
    PL_TRY(pl_prefill_apply(engine));
    PL_TRY(pl_decode_apply(engine));
    PL_TRY(pl_arrive(engine));
    PL_TRY(fetch_and_admit(engine));
    PL_TRY(pl_prefill_plan(engine));
    PL_TRY(pl_decode_plan(engine));
    PL_TRY(pl_publish_plan(engine));
    PL_TRY(engine->callback_status);
    PL_TRY(pl_plan_finish(engine));
    PL_TRY(pass_time(engine));
    *plan_p = &engine->plan;
    return PL_OK;
}

static pl_status_t cancel(pl_engine_t *engine, const pl_op_t *op)
{
    engine->counters.reservations_failed++;
    pl_ops_forget(engine, op->id);
    pl_hicache_at(engine->cache, engine->tick, op->request);
    switch (op->kind) {
    case PL_OP_LOAD:
        return pl_admit_load_cancelled(engine, op->request, op->id);
    case PL_OP_BACKUP:
        return pl_hicache_backup_cancel(engine->cache, op->id);
    case PL_OP_SEND:
        return pl_transfer_sent(engine, op->request, op->id, false);
    case PL_OP_OFFLOAD:
        return pl_decode_offloaded(engine, op->request, op->id, false);
    case PL_OP_RESUME:
        return pl_decode_resumed(engine, op->request, op->id, false);
    case PL_OP_FETCH:
        return pl_fetch_cancelled(engine, op->request, op->id);
    case PL_OP_STORE:
        return pl_store_ended(engine, op->id, false);
    case PL_OP_PUBLISH:
        return pl_publish_ended(engine, false);
    case PL_OP_PREFILL:
    case PL_OP_DECODE:
    case PL_OP_REENTER:
    case PL_OP_KINDS:
        break;
    }
    return pl_prefill_cancelled(engine, op);
}

/* A prompt whose load-back was cancelled does not compute its chunk either. */
static void cancel_chunk_of(pl_plan_t *plan, int64_t load)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        if ((plan->ops[i].kind == PL_OP_PREFILL) &&
            (plan->ops[i].load == load)) {
            plan->ops[i].cancelled = true;
        }
    }
}

static void note_failures(pl_engine_t *engine, const uint64_t *outcome)
{
    int32_t next = 0;

    for (size_t i = 0; i < engine->pending.n; i++) {
        pl_pending_t *pending = &engine->pending.items[i];

        if (pending->applies_next) {
            const pl_due_t *due = &engine->plan.due[next];

            pending->failed = pl_plan_bit(outcome, engine->plan.n_ops + next++);
            if (due->word >= 0) {
                pending->bad    = outcome[due->word + PL_FETCH_BAD];
                pending->unread = outcome[due->word + PL_FETCH_UNREAD];
            }
            engine->counters.operations_failed +=
                pending->failed || ((pending->bad | pending->unread) != 0);
        }
    }
}

static void note_ends(pl_engine_t *engine, const uint64_t *outcome)
{
    const pl_plan_t *plan = &engine->plan;

    for (int32_t i = 0; i < plan->n_watched; i++) {
        pl_live_t *live = &engine->live[plan->watched[i]];

        if (pl_plan_bit(outcome, plan->n_ops + plan->n_due + i)) {
            live->ended_at = live->generated;
        }
    }
}

pl_status_t pl_engine_commit(pl_engine_t *engine, const uint64_t *outcome)
{
    pl_plan_t *plan = &engine->plan;

    note_failures(engine, outcome);
    note_ends(engine, outcome);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        pl_op_t *op = &plan->ops[i];

        if (!pl_plan_bit(outcome, i) || op->cancelled) {
            continue;
        }
        op->cancelled = true;
        if (op->kind == PL_OP_LOAD) {
            cancel_chunk_of(plan, op->id);
        }
        PL_TRY(cancel(engine, op));
    }
    plan->freed = engine->freed.items;
    return engine->callback_status;
}
