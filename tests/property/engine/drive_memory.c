/* What the ranks' memory would hold, and who uses it. */
#include <stdlib.h>
#include <string.h>

#include "property/engine/drive_internal.h"

#define JUNK 2 /* what a copy that failed leaves */

/* ---- pools ---- */

static pool_t open_pool(size_t n, pl_page_t n_scratch)
{
    pool_t pool = {.n_scratch = n_scratch};

    pool.bytes   = calloc(n + 1, sizeof(*pool.bytes));
    pool.readers = calloc(n + 1, sizeof(*pool.readers));
    pool.writers = calloc(n + 1, sizeof(*pool.writers));
    ck_assert(pool.bytes && pool.readers && pool.writers);
    return pool;
}

static void close_pool(pool_t *pool)
{
    free(pool->bytes);
    free(pool->readers);
    free(pool->writers);
}

void drive_open_memory(driver_t *driver)
{
    const pl_engine_config_t *config = &driver->params->config;
    int lanes                        = driver->n_lanes;

    driver->device = open_pool(
        (size_t)lanes * (size_t)pl_engine_device_pages(driver->engine), lanes);
    drive_open_set(driver);
    driver->host = open_pool(
        (size_t)lanes * (size_t)pl_engine_host_pages(driver->engine), 0);
    for (int i = 0; i < config->n_prefill + config->n_decode; i++) {
        driver->decode[i] =
            open_pool((size_t)pl_engine_decode_pages(driver->engine), 1);
        driver->buffer[i] = open_pool((size_t)config->decode_host_pages, 0);
    }
}

void drive_close_memory(driver_t *driver)
{
    for (int i = 0; i < driver->n_flights; i++) { /* of a run that died */
        free(driver->flights[i].from);
        free(driver->flights[i].to);
        free(driver->flights[i].bytes);
    }
    close_pool(&driver->device);
    close_pool(&driver->host);
    for (int i = 0; i < MAX_HOMES; i++) {
        close_pool(&driver->decode[i]);
        close_pool(&driver->buffer[i]);
    }
}

pool_t *drive_pool(driver_t *driver, pl_freed_tier_t tier, int32_t home)
{
    switch (tier) {
    case PL_FREED_DEVICE:
        return &driver->device;
    case PL_FREED_HOST:
        return &driver->host;
    case PL_FREED_DECODE:
        return &driver->decode[home];
    default:
        return &driver->buffer[home];
    }
}

/* A page that is about to be written for the first time: real, and nobody's. */
static void must_be_new(const pool_t *pool, pl_page_t page, pl_op_kind_t kind)
{
    /* 9.2, 9.18 */
    MUST(page >= pool->n_scratch, "%s writes scratch page %d",
         pl_op_kind_text(kind), page);
    MUST(pool->bytes[page] == 0, "%s writes page %d, which somebody holds",
         pl_op_kind_text(kind), page);
    MUST((pool->readers[page] == 0) && (pool->writers[page] == 0),
         "%s writes page %d under a copy", pl_op_kind_text(kind), page);
}

/* ---- copies under way ---- */

flight_t *drive_flight(driver_t *driver, int64_t id)
{
    for (int i = 0; i < driver->n_flights; i++) {
        if (driver->flights[i].id == id) {
            return &driver->flights[i];
        }
    }
    return NULL;
}

static void fill_places(const driver_t *driver, const pl_op_t *op,
                        pl_page_t *pages)
{
    for (int32_t i = 0; i < op->n_pages; i++) {
        pages[i] = drive_place(driver, &op->places[i]);
    }
}

static void take_off(driver_t *driver, const pl_op_t *op, int64_t end_ns,
                     int64_t tick)
{
    flight_t *flight = &driver->flights[driver->n_flights++];
    size_t n         = (size_t)op->n_pages;
    bool load        = op->kind == PL_OP_LOAD;
    bool resume      = op->kind == PL_OP_RESUME;
    bool fetch       = op->kind == PL_OP_FETCH;
    bool is_io       = fetch || (op->kind == PL_OP_STORE);
    bool on_home     = resume || (op->kind == PL_OP_OFFLOAD);
    bool inwards     = load || resume || fetch;
    pool_t *near     = on_home ? &driver->decode[op->home]
                       : is_io ? &driver->host
                               : &driver->device;
    pool_t *far      = op->kind == PL_OP_SEND ? &driver->decode[op->home]
                       : on_home              ? &driver->buffer[op->home]
                       : is_io                ? &driver->disk->pool
                                              : &driver->host;

    MUST(driver->n_flights < MAX_FLIGHTS, "too many copies under way");
    *flight = (flight_t){.id        = op->id,
                         .tick      = tick,
                         .end_ns    = end_ns,
                         .kind      = op->kind,
                         .request   = op->request,
                         .home      = op->home,
                         .n         = op->n_pages,
                         .fails     = !fetch && drive_fails(driver, op, true),
                         .last      = op->last,
                         .end_token = op->first_token + op->n_tokens,
                         .source    = inwards ? far : near,
                         .target    = inwards ? near : far};

    if (fetch) {
        drive_bad_pages(driver, op, flight);
    }
    flight->from  = malloc(n * sizeof(*flight->from) + 1);
    flight->to    = malloc(n * sizeof(*flight->to) + 1);
    flight->bytes = malloc(n * sizeof(*flight->bytes) + 1);
    if (is_io) {
        fill_places(driver, op, fetch ? flight->from : flight->to);
        memcpy(fetch ? flight->to : flight->from, op->pages,
               n * sizeof(*flight->to));
    } else if (n > 0) {
        memcpy(flight->from, inwards ? op->other : op->pages,
               n * sizeof(*flight->from));
        memcpy(flight->to, inwards ? op->pages : op->other,
               n * sizeof(*flight->to));
    }
    for (size_t i = 0; i < n; i++) {
        pl_page_t from = flight->from[i];
        pl_page_t to   = flight->to[i];

        flight->bytes[i] = flight->source->bytes[from];
        /* 9.43 what it reads was written before, and completely */
        MUST((flight->bytes[i] & 1) != 0, "%s reads page %d: nobody wrote it",
             pl_op_kind_text(op->kind), from);
        MUST(flight->source->writers[from] == 0,
             "%s reads page %d while it is written", pl_op_kind_text(op->kind),
             from);
        if (op->kind != PL_OP_STORE) { /* a disk is written over and over */
            must_be_new(flight->target, to, op->kind);
        }
        flight->source->readers[from]++;
        flight->target->writers[to]++;
    }
}

static void sent(driver_t *driver, const flight_t *flight)
{
    way_t *way = &driver->ways[flight->request];

    way->send_failed = way->send_failed || flight->fails;
    if (flight->last) {
        way->rows = flight->end_token;
        way->tokens++;
    }
}

/* Could page i of a fetch not be read? */
static bool is_bad(const flight_t *flight, int32_t i)
{
    uint64_t none = flight->bad | flight->unread;

    return (none != 0) && (((none >> i) & 1) != 0);
}

void drive_land(driver_t *driver, int64_t id)
{
    flight_t *flight = drive_flight(driver, id);

    for (int32_t i = 0; i < flight->n; i++) {
        pl_page_t from = flight->from[i];
        pl_page_t to   = flight->to[i];

        /* 9.31, 9.47: whatever the copy reads stays until its end */
        MUST(flight->source->bytes[from] == flight->bytes[i],
             "page %d has changed under a %s", from,
             pl_op_kind_text(flight->kind));
        flight->source->readers[from]--;
        flight->target->writers[to]--;
        flight->target->bytes[to] =
            flight->fails || is_bad(flight, i) ? JUNK : flight->bytes[i];
    }
    if (flight->kind == PL_OP_SEND) {
        sent(driver, flight);
    } else if ((flight->kind == PL_OP_LOAD) && flight->fails) {
        driver->ways[flight->request].bad_load = id;
    } else if (flight->kind == PL_OP_FETCH) {
        driver->ways[flight->request].n_fetches--;
    } else if (flight->kind == PL_OP_PUBLISH) {
        drive_published(driver, !flight->fails);
    }
    free(flight->from);
    free(flight->to);
    free(flight->bytes);
    *flight = driver->flights[--driver->n_flights];
}

static void forget_freed(driver_t *driver, const pl_plan_t *plan)
{
    for (int32_t i = 0; i < plan->n_freed; i++) {
        const pl_freed_t *freed = &plan->freed[i];

        drive_pool(driver, freed->tier, freed->home)->bytes[freed->page] = 0;
    }
}

/* ---- carrying out ---- */

/* A page that a chunk reads: its own load-back's, which it waits for layer by
 * layer (9.35), or one that is there. */
static uint64_t seen_by_chunk(driver_t *driver, const flight_t *load,
                              pl_page_t page)
{
    for (int32_t i = 0; (load != NULL) && (i < load->n); i++) {
        if (load->to[i] == page) {
            return load->bytes[i];
        }
    }
    MUST(driver->device.writers[page] == 0,
         "a chunk reads page %d and does not wait for it", page);
    return driver->device.bytes[page];
}

static void prefill(driver_t *driver, const pl_op_t *op)
{
    const pl_engine_config_t *config = &driver->params->config;
    int32_t P                        = config->page_tokens;
    int32_t first                    = op->first_token / P;
    flight_t *load = op->load != 0 ? drive_flight(driver, op->load) : NULL;
    bool spoiled   = load != NULL
                         ? load->fails
                         : (op->load != 0) &&
                             (driver->ways[op->request].bad_load == op->load);

    MUST((op->first_token % P == 0) &&
             (op->n_pages == (op->first_token + op->n_tokens + P - 1) / P),
         "chunk of request %d is not whole pages", op->request);
    MUST(op->last == (op->first_token + op->n_tokens ==
                      driver->ways[op->request].prompt),
         "the last chunk of request %d is another one", op->request);
    driver->result->spoiled += spoiled ? 1 : 0;
    for (int32_t p = 0; (p < first) && !spoiled; p++) {
        MUST(seen_by_chunk(driver, load, op->pages[p]) ==
                 drive_expected(driver, op->request, p),
             "request %d reads page %d of position %d: wrong bytes",
             op->request, op->pages[p], p);
    }
    /* 9.4, 9.5, 9.16: its pages lie where they are computed */
    pl_compute_owners(config->ownership, config->n_prefill, first,
                      op->n_pages - first, op->request, driver->owners);
    for (int32_t p = first; p < op->n_pages; p++) {
        uint64_t bytes = drive_expected(driver, op->request, p);

        MUST(op->compute[p - first] == driver->owners[p - first],
             "page %d is computed by another rank", op->pages[p]);
        MUST(pl_page_owner(op->pages[p], driver->n_lanes) ==
                 op->compute[p - first] % driver->n_lanes,
             "page %d lies in another lane than its compute owner's",
             op->pages[p]);
        must_be_new(&driver->device, op->pages[p], op->kind);
        /* Made of a bad copy: nobody else may come to read it. */
        driver->device.bytes[op->pages[p]] = spoiled ? bytes & ~1ULL : bytes;
    }
}

/* The rows of a step, those of drafts that are not kept too, go to pages that
 * nobody else writes or reads. */
static void write_rows(driver_t *driver, const pl_op_t *op, pool_t *pool)
{
    int32_t P     = driver->params->config.page_tokens;
    int32_t first = op->first_token / P;
    int32_t left  = driver->requests[op->request].output_tokens -
                   driver->ways[op->request].tokens;
    int32_t rows = 1 + driver->params->config.mtp.draft_tokens;
    int32_t end;

    MUST((op->n_tokens >= 1) && (op->n_tokens <= rows) &&
             (op->n_tokens <= left),
         "request %d: a step of %d tokens", op->request, op->n_tokens);
    rows = rows < left ? rows : left;
    end  = (op->first_token + rows - 1) / P + 1;
    MUST(end <= op->n_pages, "request %d has no page to grow into",
         op->request);
    for (int32_t p = first; p < end; p++) {
        if ((p > first) || (op->first_token % P == 0)) { /* 9.13 */
            must_be_new(pool, op->pages[p], op->kind);
        }
        MUST(pool->readers[op->pages[p]] == 0, "row written under a copy");
        if (p * P < op->first_token + op->n_tokens) {
            pool->bytes[op->pages[p]] = drive_expected(driver, op->request, p);
        }
    }
}

static void decode(driver_t *driver, const pl_op_t *op)
{
    int32_t P    = driver->params->config.page_tokens;
    int32_t page = op->first_token / P;
    bool begins  = op->first_token % P == 0;
    pool_t *pool = &driver->decode[op->home];
    way_t *way   = &driver->ways[op->request];

    MUST(op->first_token == way->rows, "request %d decodes row %d, not %d",
         op->request, op->first_token, way->rows);
    for (int32_t p = 0; p < page + (begins ? 0 : 1); p++) {
        MUST((pool->writers[op->pages[p]] == 0) &&
                 (pool->bytes[op->pages[p]] ==
                  drive_expected(driver, op->request, p)),
             "request %d decodes over page %d: wrong bytes", op->request,
             op->pages[p]);
    }
    write_rows(driver, op, pool);
    way->rows += op->n_tokens;
    way->tokens += op->n_tokens;
}

/* 9.40, 9.42: the sends of a prompt cover its pages once, in order, and only
 * the last ends within a page.  Those that are cancelled too. */
static void check_send(driver_t *driver, const pl_op_t *op)
{
    int32_t P  = driver->params->config.page_tokens;
    way_t *way = &driver->ways[op->request];

    MUST(!way->sent_last && (op->first_page == way->sent_pages) &&
             (op->first_token == op->first_page * P) &&
             (op->n_pages == (op->n_tokens + P - 1) / P),
         "send of request %d does not go on where the last one ended",
         op->request);
    MUST(op->last ? op->first_token + op->n_tokens == way->prompt
                  : op->n_tokens % P == 0,
         "send of request %d ends at another place", op->request);
    way->sent_pages += op->n_pages;
    way->sent_last   = op->last;
    way->send_failed = way->send_failed || op->cancelled;
}

static void check_move(driver_t *driver, const pl_op_t *op)
{
    int32_t P    = driver->params->config.page_tokens;
    int32_t rows = driver->ways[op->request].rows;

    MUST((op->n_tokens == rows) && (op->n_pages == (rows + P - 1) / P),
         "%s of request %d moves %d rows of %d", pl_op_kind_text(op->kind),
         op->request, op->n_tokens, rows);
    driver->result->partial_moves +=
        (op->kind == PL_OP_OFFLOAD) && (rows % P != 0) ? 1 : 0;
}

static void reenter(driver_t *driver, const pl_op_t *op)
{
    way_t *way = &driver->ways[op->request];

    MUST(op->n_tokens == way->rows + 1, "request %d re-enters with %d tokens",
         op->request, op->n_tokens);
    way->prompt     = op->n_tokens;
    way->sent_pages = 0;
    way->sent_last  = false;
}

static void must_keep_owners(const driver_t *driver, const pl_op_t *op)
{
    int n = driver->n_lanes;

    for (int32_t p = 0; p < op->n_pages; p++) { /* 9.27, I2: the one rule */
        MUST((pl_page_owner(op->pages[p], n) == op->owners[p]) &&
                 (pl_page_owner(op->other[p], n) == op->owners[p]),
             "%s moves page %d to another lane", pl_op_kind_text(op->kind),
             op->pages[p]);
    }
}

static void carry_out(driver_t *driver, const pl_plan_t *plan,
                      const pl_op_t *op)
{
    int64_t end_ns;

    switch (op->kind) {
    case PL_OP_PREFILL:
        if (!op->cancelled) {
            prefill(driver, op);
        }
        return;
    case PL_OP_DECODE:
        decode(driver, op);
        return;
    case PL_OP_REENTER:
        reenter(driver, op);
        return;
    case PL_OP_LOAD:
    case PL_OP_BACKUP:
        must_keep_owners(driver, op);
        break;
    case PL_OP_SEND:
        check_send(driver, op);
        break;
    case PL_OP_STORE:
        drive_check_store(driver, op);
        break;
    case PL_OP_FETCH:
        drive_check_fetch(driver, plan, op);
        driver->ways[op->request].n_fetches -= op->cancelled ? 1 : 0;
        driver->ways[op->request].n_refused += op->cancelled ? 1 : 0;
        break;
    case PL_OP_PUBLISH:
        if (!op->cancelled) {
            drive_publish(driver, plan);
        }
        break;
    default:
        check_move(driver, op);
        break;
    }
    end_ns = drive_end_of(driver, plan, op);
    if (!op->cancelled) {
        take_off(driver, op, end_ns, plan->tick);
    } else if (end_ns < driver->earliest_ns) {
        driver->earliest_ns = end_ns;
    }
}

void drive_execute(driver_t *driver, const pl_plan_t *plan)
{
    forget_freed(driver, plan);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        carry_out(driver, plan, &plan->ops[i]);
    }
}
