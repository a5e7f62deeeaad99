/* The laws of a plan, and of virtual time. */
#include "property/engine/drive_internal.h"

/* I5: what was given back is used by no copy that has not ended. */
static void check_freed(driver_t *driver, const pl_plan_t *plan)
{
    for (int32_t i = 0; i < plan->n_freed; i++) {
        const pl_freed_t *freed = &plan->freed[i];
        pool_t *pool            = drive_pool(driver, freed->tier, freed->home);

        MUST((pool->readers[freed->page] == 0) &&
                 (pool->writers[freed->page] == 0),
             "page %d of tier %d is given away under a copy", freed->page,
             (int)freed->tier);
    }
}

static bool is_under_way(const driver_t *driver, pl_op_kind_t kind)
{
    for (int i = 0; i < driver->n_flights; i++) {
        if (driver->flights[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* 9.8 who waits for write-backs tries again in the tick in which the last of
 * them has taken effect: not before ... */
void drive_note_shortage(driver_t *driver, const pl_event_t *event)
{
    if (event->kind == PL_EVENT_DEFICIT) {
        driver->short_request = event->request;
        driver->short_tick    = event->tick;
    } else if (event->kind == PL_EVENT_RETRY) {
        MUST((driver->short_tick == event->tick) ||
                 !is_under_way(driver, PL_OP_BACKUP),
             "request %d tries again too early", event->request);
        driver->short_request = -1;
    } else if ((event->kind == PL_EVENT_LOADED) && (event->value == 0)) {
        driver->short_request = -1; /* its prompt is admitted anew */
    }
}

/* ... and not later (or with the end of its own load-back). */
static void check_shortage(const driver_t *driver, const pl_plan_t *plan)
{
    bool waits =
        is_under_way(driver, PL_OP_BACKUP) || is_under_way(driver, PL_OP_LOAD);

    for (int32_t i = 0; i < plan->n_ops; i++) {
        waits = waits || (plan->ops[i].kind == PL_OP_BACKUP);
    }
    MUST((driver->short_request < 0) || waits, "request %d waits for nothing",
         driver->short_request);
}

/* I9: due in the first later tick that starts at or after the modelled end, or
 * as many ticks later as --explore allows. */
static void check_due(driver_t *driver, const pl_plan_t *plan)
{
    int32_t explore = driver->params->config.explore;

    for (int32_t i = 0; i < plan->n_due; i++) {
        const flight_t *flight = drive_flight(driver, plan->due[i].id);

        MUST(flight != NULL, "an operation is due that was never started");
        MUST((i == 0) || (plan->due[i - 1].id < plan->due[i].id),
             "due operations are not in order");
        MUST((flight->tick < plan->tick) && (flight->end_ns <= plan->now_ns),
             "%s ends too early", pl_op_kind_text(flight->kind));
    }
    for (int i = 0; i < driver->n_flights; i++) {
        flight_t *flight = &driver->flights[i];
        bool is_due      = false;

        if ((flight->tick == plan->tick) || (flight->end_ns > plan->now_ns)) {
            continue;
        }
        for (int32_t j = 0; j < plan->n_due; j++) {
            is_due = is_due || (plan->due[j].id == flight->id);
        }
        flight->late++;
        MUST(is_due || (flight->late <= explore), "%s ends too late",
             pl_op_kind_text(flight->kind));
    }
}

/* When the operation ends: copies on one link queue behind each other. */
int64_t drive_end_of(driver_t *driver, const pl_plan_t *plan, const pl_op_t *op)
{
    const pl_engine_config_t *config = &driver->params->config;
    bool on_home    = (op->kind == PL_OP_OFFLOAD) || (op->kind == PL_OP_RESUME);
    bool is_written = (op->kind == PL_OP_STORE) || (op->kind == PL_OP_PUBLISH);
    pl_link_t link  = op->kind == PL_OP_LOAD     ? PL_LINK_H2D
                      : op->kind == PL_OP_BACKUP ? PL_LINK_D2H
                      : op->kind == PL_OP_SEND   ? PL_LINK_PD
                      : op->kind == PL_OP_FETCH  ? PL_LINK_FETCH
                      : is_written               ? PL_LINK_STORE
                                                 : PL_LINK_OFFLOAD;
    bool by_layers  = config->ownership.kind == PL_OWNERSHIP_LAYER;
    /* A page is sent by one rank, and copied by all that keep it; of layers
     * each rank moves its own. */
    int ranks = (op->kind == PL_OP_SEND) && !by_layers ? config->n_prefill
                                                       : driver->n_lanes;
    int64_t page_bytes =
        by_layers && !on_home ? config->rank_page_bytes : config->page_bytes;
    int64_t *free_ns = &driver->link_free_ns[link][op->home < 0 ? 0 : op->home];
    int32_t count[PL_MAX_RANKS] = {0};
    int32_t most                = 0;
    int64_t bytes;

    for (int32_t i = 0; i < op->n_pages; i++) {
        int lane = on_home ? 0
                   : op->kind == PL_OP_STORE
                       ? op->places[i].rank
                       : pl_page_owner(op->pages[i], ranks);

        most = ++count[lane] > most ? count[lane] : most;
    }
    bytes    = op->kind == PL_OP_PUBLISH ? 96 * pl_storage_n_kept(plan->storage)
                                         : most * page_bytes;
    *free_ns = *free_ns > plan->now_ns ? *free_ns : plan->now_ns;
    *free_ns += pl_cost_link_ns(&config->costs, link, bytes);
    return *free_ns;
}

/* 9.49: who is sent off has come after all that go on, and one at a time, since
 * its pages will do; who is resumed leaves a page for each that runs. */
static void check_moves(driver_t *driver, const pl_plan_t *plan,
                        const int32_t *steps, const int64_t *newest)
{
    bool leaves[MAX_HOMES] = {false};

    for (int i = 0; i < driver->n_flights; i++) {
        const flight_t *flight = &driver->flights[i];

        if (flight->kind == PL_OP_OFFLOAD) {
            leaves[flight->home] = true;
        }
    }
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if ((op->kind == PL_OP_OFFLOAD) || (op->kind == PL_OP_REENTER)) {
            MUST(driver->ways[op->request].age > newest[op->home],
                 "request %d is sent off before a younger one", op->request);
            MUST(!leaves[op->home], "rank %d sends off two at a time",
                 op->home);
            leaves[op->home] = op->kind == PL_OP_OFFLOAD;
        } else if (op->kind == PL_OP_RESUME) {
            MUST(pl_lanes_free_count(plan->decode[op->home], 0) >=
                     steps[op->home],
                 "request %d is resumed and will be the next to go",
                 op->request);
        }
    }
}

/* A home's steps are no more than its batch. */
static void check_homes(driver_t *driver, const pl_plan_t *plan)
{
    int32_t steps[MAX_HOMES]  = {0};
    int64_t newest[MAX_HOMES] = {0}; /* of those that go on */

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if (op->kind == PL_OP_DECODE) {
            int64_t age = driver->ways[op->request].age;

            MUST(++steps[op->home] <= driver->params->config.max_batch,
                 "rank %d decodes too many", op->home);
            newest[op->home] = age > newest[op->home] ? age : newest[op->home];
        }
    }
    check_moves(driver, plan, steps, newest);
}

/* How long the tick lasts: its chunk and its longest decode step, one after the
 * other where they share ranks; 0: nothing computes. */
static int64_t tick_ns(const driver_t *driver, const pl_plan_t *plan)
{
    const pl_engine_config_t *config = &driver->params->config;
    int64_t chunk = 0, decode = 0;
    int32_t n[MAX_HOMES]       = {0};
    int64_t context[MAX_HOMES] = {0};

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];
        int64_t ns;

        if (op->kind == PL_OP_PREFILL) {
            chunk = pl_cost_chunk_ns(&config->costs, config->n_prefill,
                                     op->first_token, op->n_tokens, NULL);
        } else if (op->kind == PL_OP_DECODE) {
            context[op->home] += op->first_token;
            ns     = pl_cost_decode_ns(&config->costs, ++n[op->home],
                                       context[op->home], NULL);
            decode = ns > decode ? ns : decode;
        }
    }
    if (config->n_decode == 0) {
        return chunk + decode;
    }
    return chunk > decode ? chunk : decode;
}

/* When who waits for its pages waits no longer. */
static void note_deadlines(driver_t *driver)
{
    bool counts = driver->params->config.prefetch == PL_PREFETCH_TIMEOUT;

    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        way_t *way = &driver->ways[i];

        /* The plan was made before some of them were refused. */
        bool fetches = way->n_fetches + way->n_refused > 0;

        way->n_refused   = 0;
        way->deadline_ns = counts && way->is_waiting && fetches
                               ? way->fetch_since + 1000000000 +
                                     way->fetch_tokens * 250000000 / 1024
                               : INT64_MAX;
    }
}

/* Did somebody who waited for its pages wake the clock? */
static bool is_deadline(const driver_t *driver, int64_t now_ns)
{
    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        if (driver->ways[i].deadline_ns == now_ns) {
            return true;
        }
    }
    return false;
}

void drive_pass_time(driver_t *driver, const pl_plan_t *plan)
{
    int64_t ns   = tick_ns(driver, plan);
    int64_t next = driver->earliest_ns;
    int64_t arrival;

    note_deadlines(driver);
    if (ns > 0) {
        driver->next_ns = plan->now_ns + ns;
        return;
    }
    /* The clock jumps to the next arrival or end. */
    for (int i = 0; i < driver->n_flights; i++) {
        next =
            driver->flights[i].end_ns < next ? driver->flights[i].end_ns : next;
    }
    arrival = drive_next_arrival(driver);
    next    = arrival < next ? arrival : next;
    driver->next_ns =
        (next == INT64_MAX) || (next < plan->now_ns) ? plan->now_ns : next;
}

void drive_check_plan(driver_t *driver, const pl_plan_t *plan)
{
    int n_chunks = 0;

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op   = &plan->ops[i];
        const pl_op_t *last = i > 0 ? op - 1 : NULL;

        MUST((last == NULL) || (last->kind < op->kind) ||
                 ((last->kind == op->kind) && (last->id < op->id)),
             "operations are not in the order of execution");
        n_chunks += op->kind == PL_OP_PREFILL ? 1 : 0;
    }
    MUST(n_chunks <= 1, "two prompts in one tick"); /* 9.19 */
    MUST((plan->now_ns == driver->next_ns) ||
             ((plan->now_ns < driver->next_ns) &&
              is_deadline(driver, plan->now_ns)),
         "tick %lld begins at %lld, not at %lld", (long long)plan->tick,
         (long long)plan->now_ns, (long long)driver->next_ns);
    driver->earliest_ns = plan->n_due > 0 ? plan->now_ns : INT64_MAX;
    check_homes(driver, plan);
    check_shortage(driver, plan);
    check_freed(driver, plan);
    check_due(driver, plan);
}
