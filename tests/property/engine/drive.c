#include "property/engine/drive.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "property/engine/drive_internal.h"

/* ---- the trace ---- */

static const pl_request_t *get_request(void *context, int32_t i)
{
    return &((driver_t *)context)->requests[i];
}

/* Requests of one family share a prefix whose length depends on the pair; the
 * rest is their own. */
static uint64_t page_content(const driver_t *driver, int32_t request,
                             int32_t page)
{
    const drive_params_t *params = driver->params;
    uint64_t family, owner;
    int32_t shared;

    if (params->script != NULL) {
        family = (uint64_t)params->script[request].family;
        shared = params->script[request].shared;
    } else {
        family = (uint64_t)request % (uint64_t)params->n_families;
        shared = (int32_t)(pl_mix64(params->seed ^ (uint64_t)request) % 40);
    }
    owner = page < shared ? family : 1000 + (uint64_t)request;
    return pl_mix64(owner << 32 | (uint32_t)page) | 1;
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    (void)page_tokens;
    for (int32_t p = 0; p < n; p++) {
        keys[p].lo = page_content(context, i, first + p);
        keys[p].hi = 7;
    }
}

/* The bytes of a page are a function of all pages down to it.  A page with the
 * prompt's tail or generated tokens is its request's alone. */
uint64_t drive_expected(const driver_t *driver, int32_t request, int32_t page)
{
    int32_t whole = driver->requests[request].input_tokens /
                    driver->params->config.page_tokens;
    uint64_t h = 1;

    for (int32_t p = 0; p <= page; p++) {
        h = pl_fold64(h, p < whole ? page_content(driver, request, p)
                                   : (uint64_t)request << 32 | (uint32_t)p);
    }
    return h | 1;
}

static void draw_request(const drive_params_t *params, pl_rng_t *rng,
                         int64_t *at, pl_request_t *request)
{
    *at += (int64_t)pl_rng_below(rng, (uint64_t)params->gap_ns + 1);
    request->arrival_ns = *at;
    request->input_tokens =
        1 + (int32_t)pl_rng_below(rng, (uint64_t)params->longest_prompt);
    request->output_tokens =
        1 + (int32_t)pl_rng_below(rng, (uint64_t)params->longest_output);
}

static void make_requests(driver_t *driver)
{
    const drive_params_t *params = driver->params;
    pl_rng_t rng                 = pl_rng_seed(params->seed ^ 0x7ace);
    size_t n                     = (size_t)params->n_requests;
    int64_t at                   = 0;
    int32_t longest              = 0;

    driver->requests = calloc(n, sizeof(*driver->requests));
    driver->ways     = calloc(n, sizeof(*driver->ways));
    ck_assert(driver->requests && driver->ways);
    for (int32_t i = 0; i < params->n_requests; i++) {
        pl_request_t *request = &driver->requests[i];

        request->line = i + 1;
        if (params->script != NULL) {
            request->arrival_ns    = params->script[i].arrival_ns;
            request->input_tokens  = params->script[i].input_tokens;
            request->output_tokens = params->script[i].output_tokens;
        } else {
            draw_request(params, &rng, &at, request);
        }
        driver->ways[i].prompt = request->input_tokens;
        if (request->input_tokens + request->output_tokens > longest) {
            longest = request->input_tokens + request->output_tokens;
        }
    }
    drive_draw_turns(driver);
    driver->n_lanes =
        pl_ownership_lanes(params->config.ownership, params->config.n_prefill);
    driver->owners = malloc((size_t)longest + 1);
    ck_assert_ptr_nonnull(driver->owners);
}

static void note_event(void *context, const pl_event_t *event);

/* ---- pools that are just large enough ---- */

/* Pages of the fullest lane when so many tokens are computed cold. */
static int32_t cold_need(driver_t *driver, int32_t request, int32_t tokens)
{
    const pl_engine_config_t *config = &driver->params->config;
    int32_t P                        = config->page_tokens;
    int32_t need[PL_MAX_RANKS]       = {0};
    int32_t most                     = 0;

    for (int32_t at = 0; at < tokens; at += config->chunk_tokens) {
        int32_t rest = tokens - at;
        int32_t n = rest < config->chunk_tokens ? rest : config->chunk_tokens;

        n = (n + P - 1) / P;
        pl_compute_owners(config->ownership, config->n_prefill, at / P, n,
                          request, driver->owners);
        for (int32_t i = 0; i < n; i++) {
            int lane      = driver->n_lanes == 1 ? 0 : driver->owners[i];
            int32_t pages = ++need[lane];

            most = pages > most ? pages : most;
        }
    }
    return most;
}

/* What the prompts that run need in their fullest lane. */
static int32_t most_needed(driver_t *driver)
{
    int32_t most = 1;

    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        if (driver->skip[i] == 0) {
            int32_t need =
                cold_need(driver, i, driver->requests[i].input_tokens);

            most = need > most ? need : most;
        }
    }
    return most;
}

/* 9.10, 9.14: what every prompt needs in its fullest lane is enough, and a page
 * less is refused before anything runs. */
static void open_engine(driver_t *driver, const pl_engine_source_t *source)
{
    pl_engine_config_t config = driver->params->config;
    pl_event_sink_t events    = {note_event, driver};
    pl_event_sink_t nowhere   = {NULL, NULL};

    drive_start_from(driver, &config);
    drive_open_turns(driver);
    if (driver->params->tight) {
        int32_t most = most_needed(driver);

        if (most > 1) {
            config.device_pages = most;
            ck_assert_int_eq(pl_engine_open(&config, source, NULL, nowhere,
                                            NULL, &driver->engine),
                             PL_ERR_RESOURCE);
        }
        config.device_pages = 1 + most + driver->params->config.device_pages;
    }
    ck_assert_int_eq(pl_engine_open(&config, source, NULL, events, &driver->log,
                                    &driver->engine),
                     PL_OK);
}

/* ---- the loop ---- */

/* Who waits, and when it stops to. */
static void note_waiting(driver_t *driver, const pl_event_t *event)
{
    bool is_of_request = event->request >= 0;
    way_t *way         = is_of_request ? &driver->ways[event->request] : NULL;

    if ((event->kind == PL_EVENT_ARRIVE) || (event->kind == PL_EVENT_REENTER)) {
        way->is_waiting   = true;
        way->fetch_tokens = 0;
    } else if (is_of_request && (event->kind == PL_EVENT_DECODE_ALLOC) &&
               way->is_waiting) {
        driver->result->timeouts += way->n_fetches > 0 ? 1 : 0;
        MUST((way->n_fetches == 0) ||
                 (driver->params->config.prefetch != PL_PREFETCH_WAIT_COMPLETE),
             "request %d does not wait for its pages", event->request);
        way->is_waiting = false;
    } else if (event->kind == PL_EVENT_LOADED) {
        driver->ways[event->request].is_waiting = event->value == 0;
    }
}

static void note_event(void *context, const pl_event_t *event)
{
    driver_t *driver = context;
    uint64_t h       = driver->decisions;

    h = pl_fold64(h, (uint64_t)event->kind);
    h = pl_fold64(h, (uint64_t)event->node);
    h = pl_fold64(h, (uint64_t)event->request);
    h = pl_fold64(h, (uint64_t)event->op);
    for (int32_t i = 0; i < event->n_pages; i++) {
        h = pl_fold64(h, (uint64_t)event->pages[i]);
    }
    driver->decisions = h;
    driver->result->adoptions += event->kind == PL_EVENT_ADOPT ? 1 : 0;
    drive_note_shortage(driver, event);
    if (event->kind == PL_EVENT_ADMIT) {
        driver->ways[event->request].age = ++driver->n_admitted;
    }
    note_waiting(driver, event);
    drive_note_turns(driver, event);
    if (driver->params->event != NULL) {
        driver->params->event(driver->params->context, event);
    }
}

bool drive_fails(driver_t *driver, const pl_op_t *op, bool at_end)
{
    const drive_params_t *params = driver->params;
    bool drawn                   = pl_rng_unit(&driver->rng) < params->p_fail;

    return drawn || ((params->fails != NULL) &&
                     params->fails(params->context, op, at_end));
}

/* May an operation of that kind be refused by a rank? */
static bool can_fail(pl_op_kind_t kind)
{
    return (kind != PL_OP_PREFILL) && (kind != PL_OP_DECODE) &&
           (kind != PL_OP_REENTER);
}

static void fill_outcome(driver_t *driver, const pl_plan_t *plan,
                         uint64_t *words)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        if (can_fail(plan->ops[i].kind) &&
            drive_fails(driver, &plan->ops[i], false)) {
            pl_plan_set_bit(words, i);
        }
    }
    for (int32_t i = 0; i < plan->n_due; i++) {
        const flight_t *flight = drive_flight(driver, plan->due[i].id);

        if (flight->fails) {
            pl_plan_set_bit(words, plan->n_ops + i);
        }
        MUST((plan->due[i].word >= 0) == (flight->kind == PL_OP_FETCH),
             "a %s has no word", pl_op_kind_text(flight->kind));
        if (flight->kind == PL_OP_FETCH) {
            words[plan->due[i].word + PL_FETCH_BAD] |= flight->bad;
            words[plan->due[i].word + PL_FETCH_UNREAD] |= flight->unread;
        }
    }
}

static void one_tick(driver_t *driver, int check_every)
{
    const drive_params_t *params = driver->params;
    pl_plan_t *plan              = NULL;
    uint64_t *words;

    MUST(pl_engine_plan(driver->engine, &plan) == PL_OK, "the engine gave up");
    /* I9: whatever happens, it ends. */
    MUST(plan->tick < 1000 * (int64_t)params->n_requests + 1000,
         "the run does not end");
    driver->last = plan;
    drive_check_plan(driver, plan);
    words = calloc((size_t)pl_plan_words(plan) + 1, sizeof(*words));
    fill_outcome(driver, plan, words);
    for (int32_t i = 0; i < plan->n_due; i++) {
        drive_land(driver, plan->due[i].id);
    }
    MUST(pl_engine_commit(driver->engine, words) == PL_OK,
         "the engine gave up");
    free(words);
    if (params->plan != NULL) {
        params->plan(params->context, driver->engine, plan);
    }
    drive_execute(driver, plan);
    drive_pass_time(driver, plan);
    if (plan->tick % check_every == 0) {
        MUST(pl_engine_check(driver->engine) == PL_OK, "the state is unsound");
        driver->decisions =
            pl_fold64(driver->decisions, pl_engine_state_hash(driver->engine));
    }
}

/* 9.44 a send that failed is sticky, whatever came after; 9.49 nothing else
 * fails but what was preempted and no longer fits the lanes with its tokens. */
static void check_failure(driver_t *driver, int32_t request,
                          drive_result_t *result)
{
    const way_t *way = &driver->ways[request];
    bool failed      = pl_engine_record(driver->engine, request)->failed;
    bool is_unfit    = failed && !way->send_failed;

    ck_assert(!way->send_failed || failed);
    ck_assert(!is_unfit || (cold_need(driver, request, way->rows + 1) >=
                            pl_engine_device_pages(driver->engine)));
    result->n_failed += failed ? 1 : 0;
    result->n_unfit += is_unfit ? 1 : 0;
}

static pl_status_t is_unpinned(void *context, const pl_node_t *node)
{
    (void)context;
    return node->pin_ref == 0 ? PL_OK : PL_ERR_INTERNAL;
}

/* I3, 9.31: in the end nobody holds anything; all that is not free is cache. */
static void check_end(const driver_t *driver)
{
    const pl_engine_config_t *config = &driver->params->config;
    const pl_hicache_t *cache        = pl_engine_cache(driver->engine);
    int64_t given[PL_MAX_RANKS]      = {0};

    ck_assert_int_eq(pl_engine_check(driver->engine), PL_OK);
    ck_assert_int_eq(pl_hicache_check(cache, given), PL_OK);
    ck_assert_int_eq(pl_hicache_copies_under_way(cache), 0);
    ck_assert_int_eq(pl_hicache_ios_under_way(cache), 0);
    ck_assert_int_eq(driver->n_flights, 0);
    ck_assert_int_eq(pl_tree_visit(pl_hicache_tree(cache), is_unpinned, NULL),
                     PL_OK);
    if (driver->last == NULL) {
        return; /* nothing was left to run */
    }
    for (int rank = 0; rank < config->n_prefill + config->n_decode; rank++) {
        const pl_lanes_t *pool   = driver->last->decode[rank];
        const pl_lanes_t *buffer = driver->last->decode_host[rank];

        ck_assert((pool == NULL) ||
                  (pl_lanes_free_total(pool) ==
                   pl_engine_decode_pages(driver->engine) - 1));
        ck_assert((buffer == NULL) ||
                  (pl_lanes_free_total(buffer) ==
                   pl_engine_config(driver->engine)->decode_host_pages));
    }
}

static void check_records(driver_t *driver, drive_result_t *result)
{
    int32_t P = driver->params->config.page_tokens;

    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        const pl_record_t *record = pl_engine_record(driver->engine, i);
        int32_t pages = (record->device_hit_tokens + record->host_hit_tokens +
                         record->storage_hit_tokens) /
                        P;

        ck_assert(record->skipped == (driver->skip[i] != 0));
        if (record->skipped) {
            result->n_skipped++;
            continue;
        }
        for (int m = 0; m < PL_MISSES; m++) {
            ck_assert_int_ge(record->miss_pages[m], 0);
            pages += record->miss_pages[m];
        }
        /* Every page was hit or has one cause. */
        ck_assert_int_eq(pages, (record->prompt_tokens + P - 1) / P);
        ck_assert(record->failed ||
                  ((record->generated_tokens == record->output_tokens) &&
                   (driver->ways[i].tokens == record->output_tokens)));
        check_failure(driver, i, result);
        ck_assert_int_eq(record->arrival_ns, driver->arrivals[i]);
        ck_assert_int_ge(record->finished_ns, record->arrival_ns);
        result->device_hits += record->device_hit_tokens > 0;
        result->host_hits += record->host_hit_tokens > 0;
        result->storage_hits += record->storage_hit_tokens > 0;
        result->storage_misses += record->miss_pages[PL_MISS_STORAGE];
    }
}

static bool has_died(const driver_t *driver)
{
    return (driver->params->stop_tick > 0) && (driver->last != NULL) &&
           (driver->last->tick >= driver->params->stop_tick);
}

void drive(const drive_params_t *params, int check_every,
           drive_result_t *result)
{
    driver_t *driver          = calloc(1, sizeof(*driver));
    pl_engine_source_t source = {driver, params->n_requests, get_request,
                                 get_keys};

    memset(result, 0, sizeof(*result));
    driver->params        = params;
    driver->short_request = -1;
    driver->result        = result;
    driver->log           = pl_log_stderr(PL_LOG_ERROR);
    driver->rng           = pl_rng_seed(params->seed ^ 0xfa11);
    driver->disk = params->disk != NULL ? params->disk : drive_disk_open();
    make_requests(driver);
    open_engine(driver, &source);
    drive_open_memory(driver);
    while (!pl_engine_done(driver->engine) && !has_died(driver)) {
        one_tick(driver, check_every);
    }
    if (pl_engine_done(driver->engine)) {
        check_end(driver);
        check_records(driver, result);
    }
    result->decisions = driver->decisions;
    result->counters  = *pl_engine_counters(driver->engine);
    result->cache     = *pl_hicache_counters(pl_engine_cache(driver->engine));
    if (pl_engine_storage(driver->engine) != NULL) {
        result->storage =
            *pl_storage_counters(pl_engine_storage(driver->engine));
    }
    pl_engine_close(driver->engine);
    drive_close_memory(driver);
    drive_close_turns(driver);
    drive_close_storage(driver);
    free(driver->requests);
    free(driver->ways);
    free(driver->owners);
    free(driver);
}
