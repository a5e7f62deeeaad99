#include "property/engine/drive.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_HOMES PL_MAX_RANKS

/* Check writes a file at every assertion; millions of them want a plain test.
 */
#define MUST(condition, ...)                                                   \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg(__VA_ARGS__);                                         \
        }                                                                      \
    } while (0)

/* What a slot holds: the chain of page keys down to this page; 0: nothing. */
typedef struct memory {
    uint64_t *device, *host;     /* [logical page] */
    uint64_t *decode[MAX_HOMES]; /* [page] by rank */
    uint64_t *buffer[MAX_HOMES]; /* decode host buffer */
} memory_t;

/* A copy under way: what it will have brought when it ends. */
typedef struct flight {
    int64_t id;
    pl_op_kind_t kind;
    int32_t home, n;
    pl_page_t *to;
    uint64_t *bytes;
} flight_t;

#define MAX_FLIGHTS 4096

typedef struct driver {
    const drive_params_t *params;
    pl_engine_t *engine;
    pl_request_t *requests;
    memory_t memory;
    flight_t flights[MAX_FLIGHTS];
    int n_flights;
    uint64_t decisions;
    pl_rng_t rng; /* of failures: the same on every rank, drawn by bit */
} driver_t;

/* ---- the trace
 * ------------------------------------------------------------------ */

static const pl_request_t *get_request(void *context, int32_t i)
{
    return &((driver_t *)context)->requests[i];
}

/* Requests of one family share a prefix whose length depends on the pair; the
 * rest is their own. */
static uint64_t page_content(const driver_t *driver, int32_t request,
                             int32_t page)
{
    uint64_t family = (uint64_t)request % (uint64_t)driver->params->n_families;
    uint64_t r      = pl_mix64(driver->params->seed ^ (uint64_t)request);
    int32_t shared  = (int32_t)(r % 40);
    uint64_t owner  = page < shared ? family : 1000 + (uint64_t)request;

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
static uint64_t expected(const driver_t *driver, int32_t request, int32_t page)
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

static void make_requests(driver_t *driver)
{
    const drive_params_t *params = driver->params;
    pl_rng_t rng                 = pl_rng_seed(params->seed ^ 0x7ace);
    int64_t at                   = 0;

    driver->requests =
        calloc((size_t)params->n_requests, sizeof(*driver->requests));
    ck_assert_ptr_nonnull(driver->requests);
    for (int32_t i = 0; i < params->n_requests; i++) {
        pl_request_t *request = &driver->requests[i];

        at += (int64_t)pl_rng_below(&rng, (uint64_t)params->gap_ns + 1);
        request->arrival_ns = at;
        request->input_tokens =
            1 + (int32_t)pl_rng_below(&rng, (uint64_t)params->longest_prompt);
        request->output_tokens =
            1 + (int32_t)pl_rng_below(&rng, (uint64_t)params->longest_output);
        request->line = i + 1;
    }
}

/* ---- memory
 * --------------------------------------------------------------------- */

static uint64_t *slots(size_t n)
{
    uint64_t *memory = calloc(n, sizeof(*memory));

    ck_assert_ptr_nonnull(memory);
    return memory;
}

static void open_memory(driver_t *driver)
{
    const pl_engine_config_t *config = &driver->params->config;
    size_t lanes                     = (size_t)config->n_prefill;

    driver->memory.device =
        slots(lanes * (size_t)pl_engine_device_pages(driver->engine));
    driver->memory.host =
        slots(lanes * (size_t)pl_engine_host_pages(driver->engine) + 1);
    for (int i = 0; i < config->n_prefill + config->n_decode; i++) {
        driver->memory.decode[i] =
            slots((size_t)pl_engine_decode_pages(driver->engine));
        driver->memory.buffer[i] = slots((size_t)config->decode_host_pages + 1);
    }
}

static void close_memory(driver_t *driver)
{
    free(driver->memory.device);
    free(driver->memory.host);
    for (int i = 0; i < MAX_HOMES; i++) {
        free(driver->memory.decode[i]);
        free(driver->memory.buffer[i]);
    }
}

static void forget_freed(driver_t *driver, const pl_plan_t *plan)
{
    for (int32_t i = 0; i < plan->n_freed; i++) {
        const pl_freed_t *freed = &plan->freed[i];

        switch (freed->tier) {
        case PL_FREED_DEVICE:
            driver->memory.device[freed->page] = 0;
            break;
        case PL_FREED_HOST:
            driver->memory.host[freed->page] = 0;
            break;
        case PL_FREED_DECODE:
            driver->memory.decode[freed->home][freed->page] = 0;
            break;
        case PL_FREED_DECODE_HOST:
            driver->memory.buffer[freed->home][freed->page] = 0;
            break;
        }
    }
}

/* ---- carrying out
 * ------------------------------------------------------------------ */

static void take_off(driver_t *driver, const pl_op_t *op, const uint64_t *from,
                     const pl_page_t *source, const pl_page_t *to)
{
    flight_t *flight = &driver->flights[driver->n_flights++];
    size_t n         = (size_t)op->n_pages;

    MUST(driver->n_flights < MAX_FLIGHTS, "too many copies under way");
    flight->id    = op->id;
    flight->kind  = op->kind;
    flight->home  = op->home;
    flight->n     = op->n_pages;
    flight->to    = malloc(n * sizeof(*flight->to) + 1);
    flight->bytes = malloc(n * sizeof(*flight->bytes) + 1);
    for (size_t i = 0; i < n; i++) {
        flight->to[i]    = to[i];
        flight->bytes[i] = from[source[i]];
        MUST(flight->bytes[i] != 0, "%s reads page %d that nobody wrote",
             pl_op_kind_text(op->kind), source[i]);
    }
}

static uint64_t *landing(driver_t *driver, const flight_t *flight)
{
    switch (flight->kind) {
    case PL_OP_LOAD:
        return driver->memory.device;
    case PL_OP_BACKUP:
        return driver->memory.host;
    case PL_OP_OFFLOAD:
        return driver->memory.buffer[flight->home];
    default:
        return driver->memory.decode[flight->home];
    }
}

/* An operation's end: the bytes are there from now on. */
static void land(driver_t *driver, int64_t id)
{
    for (int i = 0; i < driver->n_flights; i++) {
        flight_t *flight = &driver->flights[i];
        uint64_t *memory;

        if (flight->id != id) {
            continue;
        }
        memory = landing(driver, flight);
        for (int32_t p = 0; p < flight->n; p++) {
            memory[flight->to[p]] = flight->bytes[p];
        }
        free(flight->to);
        free(flight->bytes);
        *flight = driver->flights[--driver->n_flights];
        return;
    }
    ck_abort_msg("operation %d is due but was never started", (int)id);
}

/* Bytes of a load-back are there for its own prompt layer by layer. */
static void land_early(driver_t *driver, int64_t id)
{
    for (int i = 0; i < driver->n_flights; i++) {
        flight_t *flight = &driver->flights[i];

        for (int32_t p = 0; (flight->id == id) && (p < flight->n); p++) {
            driver->memory.device[flight->to[p]] = flight->bytes[p];
        }
    }
}

static void prefill(driver_t *driver, const pl_op_t *op)
{
    int32_t P     = driver->params->config.page_tokens;
    int32_t first = op->first_token / P;

    MUST((op->first_token % P == 0) &&
             (op->n_pages == (op->first_token + op->n_tokens + P - 1) / P),
         "chunk of request %d is not whole pages", op->request);
    if (op->load != 0) {
        land_early(driver, op->load);
    }
    for (int32_t p = 0; p < op->n_pages; p++) {
        uint64_t *slot = &driver->memory.device[op->pages[p]];

        if (p < first) {
            MUST(*slot == expected(driver, op->request, p),
                 "request %d reads page %d of position %d: wrong bytes",
                 op->request, op->pages[p], p);
        } else {
            MUST(op->pages[p] >= driver->params->config.n_prefill,
                 "page %d is scratch", op->pages[p]);
            *slot = expected(driver, op->request, p);
        }
    }
}

static void decode(driver_t *driver, const pl_op_t *op)
{
    int32_t P        = driver->params->config.page_tokens;
    int32_t page     = op->first_token / P;
    uint64_t *memory = driver->memory.decode[op->home];

    MUST(page < op->n_pages, "request %d has no page to grow into",
         op->request);
    for (int32_t p = 0; p < page; p++) {
        MUST(memory[op->pages[p]] != 0,
             "request %d decodes over page %d that nobody wrote", op->request,
             op->pages[p]);
    }
    memory[op->pages[page]] = expected(driver, op->request, page);
}

static void execute(driver_t *driver, const pl_plan_t *plan)
{
    memory_t *memory = &driver->memory;

    forget_freed(driver, plan);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if (op->cancelled) {
            continue;
        }
        switch (op->kind) {
        case PL_OP_LOAD:
            for (int32_t p = 0; p < op->n_pages; p++) { /* the one rule */
                MUST(pl_page_owner(op->pages[p],
                                   driver->params->config.n_prefill) ==
                         op->owners[p],
                     "page %d is loaded into another lane", op->pages[p]);
            }
            take_off(driver, op, memory->host, op->other, op->pages);
            break;
        case PL_OP_PREFILL:
            prefill(driver, op);
            break;
        case PL_OP_DECODE:
            decode(driver, op);
            break;
        case PL_OP_BACKUP:
            take_off(driver, op, memory->device, op->pages, op->other);
            break;
        case PL_OP_SEND:
            take_off(driver, op, memory->device, op->pages, op->other);
            break;
        case PL_OP_OFFLOAD:
            take_off(driver, op, memory->decode[op->home], op->pages,
                     op->other);
            break;
        case PL_OP_RESUME:
            take_off(driver, op, memory->buffer[op->home], op->other,
                     op->pages);
            break;
        default:
            break;
        }
    }
}

/* ---- the loop
 * ------------------------------------------------------------------------- */

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
}

/* May an operation of that kind be refused by a rank? */
static bool can_fail(pl_op_kind_t kind)
{
    return (kind != PL_OP_PREFILL) && (kind != PL_OP_DECODE) &&
           (kind != PL_OP_REENTER);
}

static void draw_failures(driver_t *driver, const pl_plan_t *plan,
                          uint64_t *words)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        if (can_fail(plan->ops[i].kind) &&
            (pl_rng_unit(&driver->rng) < driver->params->p_fail)) {
            pl_plan_set_bit(words, i);
        }
    }
    for (int32_t i = 0; i < plan->n_due; i++) {
        if (pl_rng_unit(&driver->rng) < driver->params->p_fail) {
            pl_plan_set_bit(words, plan->n_ops + i);
        }
    }
}

static void one_tick(driver_t *driver, int check_every)
{
    pl_plan_t *plan = NULL;
    uint64_t *words;

    MUST(pl_engine_plan(driver->engine, &plan) == PL_OK, "the engine gave up");
    words = calloc((size_t)pl_plan_words(plan) + 1, sizeof(*words));
    draw_failures(driver, plan, words);
    for (int32_t i = 0; i < plan->n_due; i++) {
        land(driver, plan->due[i].id);
    }
    MUST(pl_engine_commit(driver->engine, words) == PL_OK,
         "the engine gave up");
    free(words);
    execute(driver, plan);
    if (plan->tick % check_every == 0) {
        MUST(pl_engine_check(driver->engine) == PL_OK, "the state is unsound");
        driver->decisions =
            pl_fold64(driver->decisions, pl_engine_state_hash(driver->engine));
    }
}

static void check_records(driver_t *driver, drive_result_t *result)
{
    int32_t P = driver->params->config.page_tokens;

    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        const pl_record_t *record = pl_engine_record(driver->engine, i);
        int32_t pages =
            (record->device_hit_tokens + record->host_hit_tokens) / P;

        for (int m = 0; m < PL_MISSES; m++) {
            ck_assert_int_ge(record->miss_pages[m], 0);
            pages += record->miss_pages[m];
        }
        /* Every page was hit or has one cause. */
        ck_assert_int_eq(pages, (record->prompt_tokens + P - 1) / P);
        ck_assert(record->failed ||
                  (record->generated_tokens == record->output_tokens));
        ck_assert_int_ge(record->finished_ns, record->arrival_ns);
        result->n_failed += record->failed;
        result->device_hits += record->device_hit_tokens > 0;
        result->host_hits += record->host_hit_tokens > 0;
    }
}

void drive(const drive_params_t *params, int check_every,
           drive_result_t *result)
{
    driver_t *driver          = calloc(1, sizeof(*driver));
    pl_log_t log              = pl_log_stderr(PL_LOG_ERROR);
    pl_engine_source_t source = {driver, params->n_requests, get_request,
                                 get_keys};
    pl_event_sink_t events    = {note_event, driver};

    memset(result, 0, sizeof(*result));
    driver->params = params;
    driver->rng    = pl_rng_seed(params->seed ^ 0xfa11);
    make_requests(driver);
    ck_assert_int_eq(pl_engine_open(&params->config, &source, NULL, events,
                                    &log, &driver->engine),
                     PL_OK);
    open_memory(driver);
    while (!pl_engine_done(driver->engine)) {
        one_tick(driver, check_every);
    }
    ck_assert_int_eq(pl_engine_check(driver->engine), PL_OK);
    ck_assert_int_eq(driver->n_flights, 0);
    check_records(driver, result);
    result->decisions = driver->decisions;
    result->counters  = *pl_engine_counters(driver->engine);
    result->cache     = *pl_hicache_counters(pl_engine_cache(driver->engine));
    pl_engine_close(driver->engine);
    close_memory(driver);
    free(driver->requests);
    free(driver);
}
