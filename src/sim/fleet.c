/* Opening, the order of events, and what is read from outside. */
#include "sim/fleet.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/fleet_internal.h"

const char *pl_router_text(pl_router_t router)
{
    static const char *const texts[] = {
#define PL_ROUTER_TEXT(name, text, words) text,
        PL_ROUTER_LIST(PL_ROUTER_TEXT)
#undef PL_ROUTER_TEXT
    };

    return (router >= 0) && (router < PL_ROUTERS) ? texts[router] : "?";
}

const char *pl_router_words(pl_router_t router)
{
    static const char *const words[] = {
#define PL_ROUTER_WORDS(name, text, in_words) in_words,
        PL_ROUTER_LIST(PL_ROUTER_WORDS)
#undef PL_ROUTER_WORDS
    };

    return (router >= 0) && (router < PL_ROUTERS) ? words[router] : "?";
}

/* ---- opening ---- */

/* So that what they carry in a nanosecond, times those that share it, is an
 * int64.  Options can say less: 4,096 GPUs of a home, 1,000,000 GB/s each. */
#define MOST_BYTES_PER_US INT64_C(10000000000000)

static bool is_rate(int64_t bytes_per_us)
{
    return (bytes_per_us >= 1) && (bytes_per_us <= MOST_BYTES_PER_US);
}

static bool is_sound(const pl_fleet_params_t *params)
{
    const pl_engine_config_t *prefill = &params->prefill;
    const pl_engine_config_t *decode  = &params->decode;
    bool shapes = (params->n_prefill >= 1) && (params->n_decode >= 0) &&
                  (prefill->n_decode == 0) && (prefill->skip == NULL) &&
                  (params->router >= 0) && (params->router < PL_ROUTERS);
    bool links = is_rate(params->send_bytes_per_us) &&
                 is_rate(params->receive_bytes_per_us) &&
                 (params->link_latency_ns >= 0);

    return shapes &&
           ((params->n_decode == 0) ||
            (links && (decode->n_decode >= 1) && (decode->skip == NULL) &&
             (decode->page_tokens == prefill->page_tokens)));
}

static pl_status_t check(const pl_fleet_params_t *params, const pl_log_t *log)
{
    const pl_policy_ops_t *evict = params->prefill.evict;

    if (!is_sound(params)) {
        pl_log(log, PL_LOG_ERROR,
               "fleet: a configuration that the options would not let pass");
        return PL_ERR_ARGUMENT;
    }
    if ((evict != NULL) && evict->foresees) {
        pl_log(log, PL_LOG_ERROR,
               "option --evict %s: it reads the trace ahead, and no instance "
               "of a fleet knows which requests will come to it; use another "
               "policy",
               evict->name);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t open_instance(pl_fleet_t *fleet, int32_t number)
{
    pl_fleet_instance_t *instance = &fleet->instances[number];
    bool prefills                 = number < fleet->params.n_prefill;
    pl_engine_config_t config =
        prefills ? fleet->params.prefill : fleet->params.decode;
    pl_event_sink_t nowhere = {0};

    instance->fleet  = fleet;
    instance->number = number;
    pl_fleet_fill_port(instance);
    config.port = &instance->port;
    config.like =
        fleet->instances[prefills ? 0 : fleet->params.n_prefill].engine;
    config.role = !prefills                    ? PL_ROLE_DECODE
                  : fleet->params.n_decode > 0 ? PL_ROLE_PREFILL
                                               : PL_ROLE_WHOLE;
    return pl_engine_open(&config, &fleet->params.source, NULL, nowhere,
                          fleet->log, &instance->engine);
}

static pl_status_t open_requests(pl_fleet_t *fleet)
{
    const pl_engine_source_t *source = &fleet->params.source;
    size_t n                         = (size_t)source->count;

    fleet->records = calloc(n + 1, sizeof(*fleet->records));
    fleet->live    = calloc(n + 1, sizeof(*fleet->live));
    if ((fleet->records == NULL) || (fleet->live == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < source->count; i++) {
        fleet->records[i] = (pl_fleet_record_t){
            .record  = pl_record_of(source->request(source->context, i)),
            .prefill = -1,
            .decode  = -1};
        fleet->live[i].waits_at = -1;
    }
    return pl_turns_open(source, NULL, &fleet->turns);
}

static pl_status_t open_all(pl_fleet_t *fleet)
{
    fleet->instances =
        calloc((size_t)fleet->n_instances, sizeof(*fleet->instances));
    if (fleet->instances == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_knockout_open(fleet->n_instances, &fleet->by_time));
    PL_TRY(pl_knockout_open(fleet->params.n_decode + 1, &fleet->by_room));
    for (int32_t i = 0; i < fleet->n_instances; i++) {
        PL_TRY(open_instance(fleet, i));
        pl_fleet_changed(fleet, i);
    }
    PL_TRY(open_requests(fleet));
    return pl_links_open(fleet);
}

pl_status_t pl_fleet_open(const pl_fleet_params_t *params, const pl_log_t *log,
                          pl_fleet_t **fleet_p)
{
    pl_status_t status;
    pl_fleet_t *fleet;

    PL_TRY(check(params, log));
    fleet = calloc(1, sizeof(*fleet));
    if (fleet == NULL) {
        return PL_ERR_MEMORY;
    }
    fleet->params      = *params;
    fleet->log         = log;
    fleet->n_instances = params->n_prefill + params->n_decode;
    status             = open_all(fleet);
    if (status != PL_OK) {
        pl_fleet_close(fleet);
        return status;
    }
    *fleet_p = fleet;
    return PL_OK;
}

void pl_fleet_close(pl_fleet_t *fleet)
{
    if (fleet == NULL) {
        return;
    }
    for (int32_t i = 0; (fleet->instances != NULL) && (i < fleet->n_instances);
         i++) {
        pl_engine_close(fleet->instances[i].engine);
    }
    free(fleet->instances);
    pl_knockout_close(&fleet->by_time);
    pl_knockout_close(&fleet->by_room);
    free(fleet->records);
    free(fleet->live);
    pl_turns_close(&fleet->turns);
    pl_links_close(&fleet->links);
    PL_ARRAY_FREE(&fleet->back);
    PL_ARRAY_FREE(&fleet->keys);
    PL_ARRAY_FREE(&fleet->outcome);
    free(fleet);
}

/* ---- the order of events ---- */

void pl_fleet_changed(pl_fleet_t *fleet, int32_t instance)
{
    pl_engine_t *engine   = fleet->instances[instance].engine;
    int32_t decode        = instance - fleet->params.n_prefill;
    pl_knockout_key_t key = {.first = pl_engine_next_ns(engine)};

    pl_knockout_set(&fleet->by_time, instance, key);
    if (decode >= 0) {
        /* Who has the most room for a prompt has it for any. */
        key.first = -(int64_t)pl_engine_room(engine, 1);
        key.then  = fleet->instances[instance].given_at;
        pl_knockout_set(&fleet->by_room, decode, key);
    }
}

void pl_fleet_given(pl_fleet_t *fleet, int32_t instance)
{
    fleet->instances[instance].given_at = ++fleet->n_given;
    pl_fleet_changed(fleet, instance);
}

static pl_status_t arrive(pl_fleet_t *fleet, pl_turn_t turn)
{
    const pl_engine_source_t *source = &fleet->params.source;
    pl_handover_t handover           = pl_handover_of(
                  source->request(source->context, turn.request), turn.request);

    pl_turns_pop(&fleet->turns, turn);
    fleet->records[turn.request].record.arrival_ns = turn.at_ns;
    return pl_fleet_give(fleet, &handover);
}

pl_status_t pl_fleet_arrivals(pl_fleet_t *fleet)
{
    pl_turn_t turn = pl_turns_first(&fleet->turns);

    while (turn.at_ns <= fleet->now_ns) {
        PL_TRY(arrive(fleet, turn));
        turn = pl_turns_first(&fleet->turns);
    }
    return PL_OK;
}

/* Whoever waited and computes in this tick waits no longer. */
static void note_begun(pl_fleet_t *fleet, int32_t number, const pl_plan_t *plan)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if (op->kind == PL_OP_DECODE) {
            pl_fleet_stepped(fleet, number, op->request);
        }
        if ((op->kind == PL_OP_PREFILL) || (op->kind == PL_OP_DECODE)) {
            pl_fleet_begun(fleet, number, op->request);
        }
    }
}

/* Nobody carries the plan out, and so nothing goes wrong. */
static pl_status_t tick(pl_fleet_t *fleet, int32_t number)
{
    pl_engine_t *engine = fleet->instances[number].engine;
    pl_plan_t *plan     = NULL;

    PL_TRY(pl_engine_plan(engine, &plan));
    note_begun(fleet, number, plan);
    while (fleet->outcome.n < (size_t)pl_plan_words(plan)) {
        PL_TRY(PL_ARRAY_PUSH(&fleet->outcome, 0));
    }
    PL_TRY(pl_engine_commit(engine, fleet->outcome.items));
    pl_fleet_changed(fleet, number);
    PL_TRY(pl_fleet_give_back(fleet));
    if (number >= fleet->params.n_prefill) {
        pl_fleet_nudge(fleet);
    }
    if (fleet->params.tick != NULL) {
        fleet->params.tick(fleet->params.tick_context);
    }
    return PL_OK;
}

/* *more_p false: nothing is left to happen. */
static pl_status_t go_on(pl_fleet_t *fleet, bool *more_p)
{
    int32_t first   = pl_knockout_first(&fleet->by_time);
    int64_t tick_ns = pl_knockout_key(&fleet->by_time, first).first;
    int64_t link_ns = pl_links_next_ns(&fleet->links);
    pl_turn_t turn  = pl_turns_first(&fleet->turns);
    int64_t now_ns  = turn.at_ns < tick_ns ? turn.at_ns : tick_ns;

    now_ns  = link_ns < now_ns ? link_ns : now_ns;
    *more_p = now_ns < INT64_MAX;
    if (!*more_p) {
        return PL_OK;
    }
    fleet->now_ns = now_ns;
    if (link_ns == now_ns) {
        return pl_links_advance(fleet);
    }
    return turn.at_ns == now_ns ? arrive(fleet, turn) : tick(fleet, first);
}

static pl_status_t wait_too_long(const pl_fleet_t *fleet)
{
    pl_log(fleet->log, PL_LOG_ERROR,
           "fleet: what requests wait adds up to more than 146 years at "
           "%" PRId64 " ns, with %d of %d finished; use more instances, "
           "--hardware that is faster, or fewer requests (--limit)",
           fleet->now_ns, fleet->n_finished, fleet->params.source.count);
    return PL_ERR_INPUT;
}

pl_status_t pl_fleet_run(pl_fleet_t *fleet)
{
    bool more = true;

    while (more) {
        PL_TRY(go_on(fleet, &more));
        if (fleet->waits_too_long) {
            return wait_too_long(fleet);
        }
    }
    if (fleet->n_finished < fleet->params.source.count) {
        pl_log(fleet->log, PL_LOG_ERROR,
               "fleet: nothing can go on at %" PRId64 " ns with %d of %d "
               "requests finished; please report this",
               fleet->now_ns, fleet->n_finished, fleet->params.source.count);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

/* ---- from outside ---- */

int32_t pl_fleet_n_instances(const pl_fleet_t *fleet)
{
    return fleet->n_instances;
}

const pl_engine_t *pl_fleet_engine(const pl_fleet_t *fleet, int32_t instance)
{
    return fleet->instances[instance].engine;
}

pl_fleet_usage_t pl_fleet_usage(const pl_fleet_t *fleet, int32_t instance)
{
    const pl_fleet_instance_t *from = &fleet->instances[instance];
    const pl_engine_counters_t *c   = pl_engine_counters(from->engine);
    pl_fleet_usage_t usage          = from->usage;

    usage.computed_tokens = c->prefill_tokens;
    usage.steps           = c->decode_steps;
    usage.stepping_ns     = c->stepping_ns;
    for (int i = 0; i < PL_COST_PARTS; i++) {
        usage.prefill_ns += c->prefill_ns[i];
        usage.decode_ns += c->decode_ns[i];
    }
    return usage;
}

static void add_waits(const pl_fleet_usage_t *usage, bool prefills,
                      pl_fleet_waits_t *waits)
{
    if (prefills) {
        waits->for_prefill_ns += usage->waiting_ns - usage->refused_ns;
        waits->for_decode_ns += usage->refused_ns;
        waits->for_batch_ns += usage->batch_wait_ns;
    } else {
        waits->for_batch_ns += usage->waiting_ns;
    }
}

pl_fleet_waits_t pl_fleet_waits(const pl_fleet_t *fleet)
{
    pl_fleet_waits_t waits = {.for_transfer_ns = fleet->transfer_ns};

    for (int32_t i = 0; i < fleet->n_instances; i++) {
        add_waits(&fleet->instances[i].usage, i < fleet->params.n_prefill,
                  &waits);
    }
    return waits;
}

pl_fleet_waits_t pl_fleet_waits_of(const pl_fleet_usage_t *usages, int32_t n,
                                   int32_t n_prefill, int64_t transfer_ns)
{
    pl_fleet_waits_t waits = {.for_transfer_ns = transfer_ns};

    for (int32_t i = 0; i < n; i++) {
        add_waits(&usages[i], i < n_prefill, &waits);
    }
    return waits;
}

int32_t pl_fleet_waiting(const pl_fleet_t *fleet, int32_t instance)
{
    return (int32_t)fleet->instances[instance].n_waiting;
}

const pl_fleet_record_t *pl_fleet_records(const pl_fleet_t *fleet)
{
    return fleet->records;
}

int64_t pl_fleet_now_ns(const pl_fleet_t *fleet)
{
    return fleet->now_ns;
}

int32_t pl_fleet_n_finished(const pl_fleet_t *fleet)
{
    return fleet->n_finished;
}
