/* The storage tier in the engine: pages are fetched for prompts that wait, host
 * copies are stored, indices published. */
#include "cache/storage_table.h"

#include <stdlib.h>

#include "engine/state.h"

/* How many prompts at the front of the queue have pages fetched. */
#define PREFETCH_AHEAD 16

/* How long a prompt waits for them at most: besides, for 1,024 tokens. */
#define WAIT_NS        INT64_C(1000000000)
#define WAIT_TOKENS_NS INT64_C(250000000)

/* Of a page in an index. */
#define ENTRY_BYTES 96

/* ---- opening ---- */

static void take_event(void *context, const pl_event_t *event)
{
    pl_engine_t *engine = context;
    pl_event_t with_op  = *event;

    if (event->kind == PL_EVENT_PUBLISHED) {
        with_op.op = engine->publish_op;
    }
    pl_engine_emit(engine, with_op);
}

pl_status_t pl_storage_open_for(pl_engine_t *engine)
{
    const pl_engine_config_t *config = &engine->config;
    int n_lanes                      = pl_engine_lanes(engine);
    int shares = pl_ownership_shares(config->ownership, config->n_prefill);
    pl_storage_params_t params = {
        .n_lanes        = n_lanes,
        .n_ranks        = shares,
        .pages_per_lane = engine->storage_pages * (shares / n_lanes),
        .bound          = config->storage_bound,
        .read_only      = config->storage_read_only,
        .start          = config->storage_start,
        .events         = {take_event, engine},
    };

    engine->config.storage_start = NULL;
    if (config->storage_pages == 0) {
        return PL_OK;
    }
    engine->prefetched = calloc((size_t)n_lanes, sizeof(*engine->prefetched));
    engine->room       = calloc((size_t)n_lanes, sizeof(*engine->room));
    if ((engine->prefetched == NULL) || (engine->room == NULL)) {
        return PL_ERR_MEMORY;
    }
    return pl_storage_open(&params, engine->log, &engine->storage);
}

/* ---- operations ---- */

/* Bytes of the rank that moves the most: a page is written by the rank whose
 * share it lies in, or by all, and read by those who hold its lane. */
static int64_t busiest_bytes(const pl_engine_t *engine,
                             const pl_hicache_io_t *io)
{
    int32_t count[PL_MAX_RANKS] = {0};
    int32_t most                = 0;

    for (int32_t i = 0; i < io->n_pages; i++) {
        int32_t rank = io->fetch ? io->owners[i] : io->places[i].rank;

        count[rank]++;
        most = count[rank] > most ? count[rank] : most;
    }
    return most * engine->config.rank_page_bytes;
}

static pl_status_t count_prefetched(pl_engine_t *engine,
                                    const pl_hicache_io_t *io)
{
    pl_live_t *live = &engine->live[io->request];

    for (int32_t i = 0; i < io->n_pages; i++) {
        PL_TRY(PL_ARRAY_PUSH(&live->fetched_to, io->owners[i]));
        engine->prefetched[io->owners[i]]++;
    }
    return PL_OK;
}

static pl_status_t add_io(pl_engine_t *engine, const pl_hicache_io_t *io,
                          int64_t *id_p)
{
    size_t n       = (size_t)io->n_pages;
    pl_link_t link = io->fetch ? PL_LINK_FETCH : PL_LINK_STORE;
    pl_op_t op     = {0};

    op.kind       = io->fetch ? PL_OP_FETCH : PL_OP_STORE;
    op.request    = io->request;
    op.node       = io->node;
    op.first_page = io->first_page;
    op.n_pages    = io->n_pages;
    op.home       = -1;
    op.pages      = pl_plan_keep(engine, io->host, n * sizeof(*io->host));
    op.owners     = pl_plan_keep(engine, io->owners, n * sizeof(*io->owners));
    op.places     = pl_plan_keep(engine, io->places, n * sizeof(*io->places));
    op.chains     = pl_plan_keep(engine, io->chains, n * sizeof(*io->chains));
    op.stamps     = pl_plan_keep(engine, io->stamps, n * sizeof(*io->stamps));
    if ((op.pages == NULL) || (op.owners == NULL) || (op.places == NULL) ||
        (op.chains == NULL) || (op.stamps == NULL)) {
        return PL_ERR_MEMORY;
    }
    if (io->fetch) {
        PL_TRY(count_prefetched(engine, io));
    }
    PL_TRY(pl_plan_add(engine, op, id_p));
    return pl_ops_start(engine, &op, *id_p, link, busiest_bytes(engine, io));
}

int64_t pl_storage_take_io(void *context, const pl_hicache_io_t *io)
{
    pl_engine_t *engine = context;
    int64_t id          = engine->next_op;
    pl_status_t status  = add_io(engine, io, &id);

    if (status != PL_OK) {
        engine->callback_status = status;
    }
    return id;
}

pl_status_t pl_store_ended(pl_engine_t *engine, int64_t op, bool good)
{
    engine->queue_changes++; /* its host pages can make room */
    return pl_hicache_store_end(engine->cache, op, good);
}

/* ---- waiting for it ---- */

/* Until when a prompt waits for pages that were asked for. */
static int64_t patience(const pl_engine_t *engine, const pl_live_t *live)
{
    if (engine->config.prefetch != PL_PREFETCH_TIMEOUT) {
        return INT64_MAX;
    }
    return live->fetch_since + WAIT_NS +
           live->fetch_tokens * WAIT_TOKENS_NS / 1024;
}

int64_t pl_prefetch_deadline(const pl_engine_t *engine, int32_t request)
{
    const pl_live_t *live = &engine->live[request];

    return live->n_fetches > 0 ? patience(engine, live) : INT64_MAX;
}

bool pl_prefetch_waits(const pl_engine_t *engine, int32_t request)
{
    return (engine->live[request].n_fetches > 0) &&
           (engine->config.prefetch != PL_PREFETCH_BEST_EFFORT) &&
           (engine->now_ns < pl_prefetch_deadline(engine, request));
}

/* ---- what a prompt that waits lacks ---- */

/* Half of each host lane, as large as it was asked for: that the pool in force
 * may be smaller, since no more can be in use, decides nothing. */
int32_t pl_prefetch_most(const pl_engine_t *engine)
{
    return engine->config.host_pages == PL_PAGES_UNLIMITED
               ? INT32_MAX
               : engine->config.host_pages / 2;
}

static const int32_t *room_for_fetches(pl_engine_t *engine)
{
    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        engine->room[lane] =
            pl_prefetch_most(engine) - engine->prefetched[lane];
    }
    return engine->room;
}

/* Pages from want->first on, up to `end`, that storage keeps in a row and
 * nobody fetches already. */
static int32_t fetchable(const pl_engine_t *engine,
                         const pl_hicache_want_t *want, int32_t end)
{
    int32_t n      = pl_storage_find(engine->storage, want->chain, want->keys,
                                     want->first, end);
    uint64_t chain = want->chain;

    for (int32_t i = 0; i < n; i++) {
        pl_page_key_t key = want->keys[want->first + i];

        chain = pl_tree_chain_next(chain, key);
        if (pl_storage_is_held(engine->storage, chain, key)) {
            return i;
        }
    }
    return n;
}

/* Where to go on: behind what the tree has and what was asked for.  False:
 * there is nothing to go on with, since what was asked for has not come or is
 * gone. */
static bool find_start(pl_engine_t *engine, int32_t request, int32_t end,
                       pl_hicache_want_t *want)
{
    const pl_live_t *live = &engine->live[request];
    int32_t n_device, n_total;

    want->name_space =
        engine->source.request(engine->source.context, request)->name_space;
    want->keys    = live->keys;
    want->request = request;
    pl_tree_peek(pl_hicache_tree(engine->cache), want->name_space, live->keys,
                 end, &n_device, &n_total);
    if ((live->n_fetches == 0) && (n_total < live->fetch_next)) {
        return false;
    }
    want->first = n_total > live->fetch_next ? n_total : live->fetch_next;
    want->chain = pl_tree_chain_start(want->name_space);
    for (int32_t i = 0; i < want->first; i++) {
        want->chain = pl_tree_chain_next(want->chain, live->keys[i]);
    }
    return true;
}

static void note_begun(pl_engine_t *engine, pl_hicache_want_t *want, int32_t n)
{
    pl_live_t *live = &engine->live[want->request];

    if (live->fetch_next == 0) {
        live->fetch_since = engine->now_ns;
    }
    for (int32_t i = 0; i < n; i++) {
        want->chain =
            pl_tree_chain_next(want->chain, want->keys[want->first + i]);
    }
    want->first += n;
    live->fetch_next = want->first;
    live->fetch_tokens += n * engine->config.page_tokens;
    live->n_fetches++;
}

/* Pages of storage in a row that are worth a fetch. */
static int32_t least_worth_it(const pl_engine_t *engine)
{
    int32_t n = pl_pages_for(engine, engine->config.prefetch_threshold_tokens);

    return n > 1 ? n : 1;
}

bool pl_prefetch_passed(const pl_engine_t *engine, int32_t request, int32_t n)
{
    return (engine->live[request].fetch_next == 0) &&
           (n < least_worth_it(engine));
}

/* *ok_p: everything that can be had is on its way. */
static pl_status_t fetch_for(pl_engine_t *engine, int32_t request, bool *ok_p)
{
    const pl_live_t *live = &engine->live[request];
    int32_t end   = (live->prompt_tokens - 1) / engine->config.page_tokens;
    int32_t least = least_worth_it(engine);
    pl_hicache_want_t want = {0};
    int32_t rest;

    *ok_p = true;
    if (live->no_load || ((live->fetch_next > 0) &&
                          (engine->now_ns >= patience(engine, live)))) {
        return PL_OK; /* passes over host copies, or has waited enough */
    }
    PL_TRY(pl_admit_make_keys(engine, request));
    if (!find_start(engine, request, end, &want)) {
        return PL_OK;
    }
    rest = fetchable(engine, &want, end);
    if ((rest < least) && (live->fetch_next == 0)) {
        return PL_OK;
    }
    pl_hicache_at(engine->cache, engine->tick, request);
    while ((rest > 0) && *ok_p) {
        int64_t op = 0;
        int32_t n  = 0;

        want.n = rest < PL_STORAGE_READ_PAGES ? rest : PL_STORAGE_READ_PAGES;
        want.least = least < want.n ? least : want.n;
        want.room  = room_for_fetches(engine);
        PL_TRY(pl_hicache_fetch(engine->cache, &want, &op, &n));
        *ok_p = n == want.n;
        if (op != 0) {
            note_begun(engine, &want, n);
            rest -= n;
        }
    }
    return PL_OK;
}

pl_status_t pl_prefetch(pl_engine_t *engine)
{
    size_t end = engine->waiting_head + PREFETCH_AHEAD;
    bool ok    = true;

    if ((engine->storage == NULL) ||
        (engine->looked_at == engine->queue_changes)) {
        return PL_OK;
    }
    engine->looked_at = engine->queue_changes;
    if (pl_storage_n_kept(engine->storage) == 0) {
        return PL_OK;
    }
    end = end < engine->waiting.n ? end : engine->waiting.n;
    for (size_t i = engine->waiting_head; (i < end) && ok; i++) {
        PL_TRY(fetch_for(engine, engine->waiting.items[i], &ok));
    }
    return PL_OK;
}

/* ---- what it has of it ---- */

void pl_prefetch_admitted(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];
    int32_t n       = (live->prompt_tokens - 1) / engine->config.page_tokens;

    for (size_t i = 0; i < live->fetched_to.n; i++) {
        engine->prefetched[live->fetched_to.items[i]]--;
    }
    PL_ARRAY_FREE(&live->fetched_to);
    engine->queue_changes++;
    if (engine->storage != NULL) {
        pl_storage_touch(
            engine->storage,
            engine->source.request(engine->source.context, request)->name_space,
            live->keys, n);
    }
}

int32_t pl_prefetch_landed(const pl_live_t *live, int32_t first, int32_t end)
{
    int32_t n = 0;

    for (size_t i = 0; i < live->landed.n; i++) {
        pl_span_t span = live->landed.items[i];

        span.first = span.first > first ? span.first : first;
        span.end   = span.end < end ? span.end : end;
        n += span.end > span.first ? span.end - span.first : 0;
    }
    return n;
}

void pl_prefetch_forget(pl_live_t *live)
{
    PL_ARRAY_FREE(&live->landed);
    live->fetch_next   = 0;
    live->fetch_tokens = 0;
    live->fetch_bad    = (pl_span_t){0, 0};
}

/* ---- ends of fetches ---- */

static void fetch_is_over(pl_engine_t *engine, int32_t request)
{
    engine->live[request].n_fetches--;
    engine->queue_changes++;
}

pl_status_t pl_fetch_ended(pl_engine_t *engine, int32_t request, int64_t op,
                           int32_t n_good, int32_t first_bad)
{
    pl_live_t *live              = &engine->live[request];
    pl_hicache_fetched_t fetched = {0};
    pl_span_t landed;

    fetch_is_over(engine, request);
    PL_TRY(
        pl_hicache_fetch_end(engine->cache, op, n_good, first_bad, &fetched));
    if (live->phase != PL_PHASE_WAITING) {
        return PL_OK; /* too late for it */
    }
    landed = (pl_span_t){fetched.first_landed,
                         fetched.first_landed + fetched.n_landed};
    if (fetched.n_landed > 0) {
        PL_TRY(PL_ARRAY_PUSH(&live->landed, landed));
    }
    if (fetched.n_good < fetched.n_pages) {
        live->fetch_bad.first = fetched.first_page + fetched.n_good;
        live->fetch_bad.end   = live->fetch_next;
    }
    return PL_OK;
}

pl_status_t pl_fetch_cancelled(pl_engine_t *engine, int32_t request, int64_t op)
{
    pl_hicache_fetched_t fetched = {0};

    fetch_is_over(engine, request);
    pl_engine_released(engine);
    return pl_hicache_fetch_cancel(engine->cache, op, &fetched);
}

/* ---- publication ---- */

bool pl_publish_wants_last(const pl_engine_t *engine)
{
    return (engine->storage != NULL) && !engine->config.storage_read_only &&
           (engine->n_finished == engine->source.count) &&
           (engine->pending.n == 0) && (engine->n_last_tries < 2) &&
           (pl_storage_has_changed(engine->storage) ||
            (engine->n_finished_out != engine->n_finished));
}

pl_status_t pl_publish_plan(pl_engine_t *engine)
{
    bool is_last     = pl_publish_wants_last(engine);
    pl_event_t event = pl_event_make(PL_EVENT_PUBLISH);
    pl_op_t op       = {0};

    if ((engine->storage == NULL) || (engine->publish_op != 0) ||
        (!is_last && !pl_storage_wants_publication(engine->storage))) {
        return PL_OK;
    }
    op.kind     = PL_OP_PUBLISH;
    op.request  = -1;
    op.node     = -1;
    op.home     = -1;
    event.value = pl_storage_n_kept(engine->storage);
    PL_TRY(pl_plan_add(engine, op, &engine->publish_op));
    PL_TRY(pl_ops_start(engine, &op, engine->publish_op, PL_LINK_STORE,
                        ENTRY_BYTES * event.value));
    event.op = engine->publish_op;
    pl_engine_emit(engine, event);
    pl_storage_publish(engine->storage);
    engine->n_finished_on_way = engine->n_finished;
    engine->n_last_tries += is_last ? 1 : 0;
    return PL_OK;
}

pl_status_t pl_publish_ended(pl_engine_t *engine, bool good)
{
    PL_TRY(pl_storage_published(engine->storage, good));
    engine->publish_op = 0;
    if (good) {
        engine->n_finished_out = engine->n_finished_on_way;
    }
    return PL_OK;
}
