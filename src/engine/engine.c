#include "engine/engine.h"

#include <stdlib.h>

#include "engine/state.h"

const char *pl_op_kind_text(pl_op_kind_t kind)
{
    static const char *const texts[PL_OP_KINDS] = {
        [PL_OP_LOAD] = "load",       [PL_OP_PREFILL] = "prefill",
        [PL_OP_DECODE] = "decode",   [PL_OP_BACKUP] = "backup",
        [PL_OP_SEND] = "send",       [PL_OP_OFFLOAD] = "offload",
        [PL_OP_RESUME] = "resume",   [PL_OP_REENTER] = "reenter",
        [PL_OP_FETCH] = "fetch",     [PL_OP_STORE] = "store",
        [PL_OP_PUBLISH] = "publish",
    };

    return (kind >= 0) && (kind < PL_OP_KINDS) ? texts[kind] : "?";
}

void pl_engine_emit(pl_engine_t *engine, pl_event_t event)
{
    event.tick    = engine->tick;
    event.time_ns = engine->now_ns;
    pl_event_emit(&engine->events, &event);
}

/* Events of the cache pass through here: the engine knows tick and time, and
 * takes note of what became free. */
static void take_cache_event(void *context, const pl_event_t *event)
{
    pl_engine_t *engine = context;
    pl_status_t status  = PL_OK;

    pl_engine_emit(engine, *event);
    if (event->kind == PL_EVENT_FREE) {
        status = pl_ops_freed(engine, PL_FREED_DEVICE, -1, event->pages,
                              event->n_pages);
    } else if (event->kind == PL_EVENT_HOST_FREE) {
        status = pl_ops_freed(engine, PL_FREED_HOST, -1, event->pages,
                              event->n_pages);
    }
    if (status != PL_OK) {
        engine->callback_status = status;
    }
}

/* ---- opening ---- */

static pl_status_t open_cache(pl_engine_t *engine)
{
    const pl_engine_config_t *config = &engine->config;
    pl_hicache_params_t params       = {
              .page_tokens           = config->page_tokens,
              .n_lanes               = pl_engine_lanes(engine),
              .device_pages          = engine->device_pages,
              .host_pages            = engine->host_pages,
              .write_policy          = config->write_policy,
              .hot_threshold         = config->hot_threshold,
              .load_threshold_tokens = config->load_threshold_tokens,
              .policy                = config->evict,
              .future                = engine->future,
              .inject                = engine->inject,
              .copy                  = pl_ops_copy,
              .copy_context          = engine,
              .storage               = engine->storage,
              .io                    = pl_storage_take_io,
              .io_context            = engine,
              .events                = {take_cache_event, engine},
    };

    return pl_hicache_open(&params, engine->log, &engine->cache);
}

static pl_status_t open_home(pl_engine_t *engine, int32_t index)
{
    const pl_engine_config_t *config = &engine->config;
    pl_home_t *home                  = &engine->homes[index];
    pl_lanes_params_t pool           = {.n_lanes        = 1,
                                        .pages_per_lane = engine->decode_pages,
                                        .reserved_slots = 1,
                                        .name           = "decode"};
    pl_lanes_params_t host           = {.n_lanes        = 1,
                                        .pages_per_lane = config->decode_host_pages,
                                        .reserved_slots = 0,
                                        .name           = "decode host"};

    home->rank = config->n_decode > 0 ? config->n_prefill + index : index;
    PL_TRY(pl_lanes_open(&pool, engine->log, &home->pool));
    if (config->decode_host_pages > 0) {
        PL_TRY(pl_lanes_open(&host, engine->log, &home->host));
    }
    engine->decode_lanes[home->rank]      = home->pool;
    engine->decode_host_lanes[home->rank] = home->host;
    return PL_OK;
}

static pl_status_t open_homes(pl_engine_t *engine)
{
    const pl_engine_config_t *config = &engine->config;
    size_t n_ranks = (size_t)(config->n_prefill + config->n_decode);

    engine->n_homes =
        config->n_decode > 0 ? config->n_decode : config->n_prefill;
    if (config->role == PL_ROLE_PREFILL) {
        engine->n_homes = 0; /* they are elsewhere */
    }
    engine->homes = calloc((size_t)engine->n_homes + 1, sizeof(*engine->homes));
    engine->decode_lanes = calloc(n_ranks, sizeof(*engine->decode_lanes));
    engine->decode_host_lanes =
        calloc(n_ranks, sizeof(*engine->decode_host_lanes));
    if ((engine->homes == NULL) || (engine->decode_lanes == NULL) ||
        (engine->decode_host_lanes == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < engine->n_homes; i++) {
        PL_TRY(open_home(engine, i));
    }
    return PL_OK;
}

pl_record_t pl_record_of(const pl_request_t *request)
{
    pl_record_t record = {0};

    record.arrival_ns     = request->arrival_ns;
    record.admitted_ns    = -1;
    record.first_token_ns = -1;
    record.decode_ns      = -1;
    record.finished_ns    = -1;
    record.admitted_tick  = -1;
    record.finished_tick  = -1;
    record.prompt_tokens  = request->input_tokens;
    record.output_tokens  = request->output_tokens;
    record.home           = -1;
    return record;
}

static const pl_request_t *request_of(const pl_engine_t *engine, int32_t i)
{
    return engine->source.request(engine->source.context, i);
}

pl_status_t pl_request_begin(pl_engine_t *engine, int32_t request)
{
    const pl_request_t *asked = request_of(engine, request);
    pl_live_t *live           = &engine->live[request];

    engine->records[request] = pl_record_of(asked);
    if (live->is_known) {
        return PL_OK;
    }
    PL_TRY(PL_ARRAY_PUSH(&engine->known, request));
    live->is_known      = true;
    live->prompt_tokens = asked->input_tokens;
    live->home_index    = -1;
    return PL_OK;
}

static void skip_request(pl_engine_t *engine, int32_t request)
{
    engine->records[request].skipped = true;
    engine->live[request].phase      = PL_PHASE_FINISHED;
    engine->finished[request]        = 1;
    engine->n_finished++;
}

/* All of them, where they come by themselves. */
static pl_status_t begin_requests(pl_engine_t *engine)
{
    const uint8_t *skip = engine->config.skip;

    if (engine->config.port != NULL) {
        return PL_OK;
    }
    for (int32_t i = 0; i < engine->source.count; i++) {
        PL_TRY(pl_request_begin(engine, i));
        if ((skip != NULL) && (skip[i] != 0)) {
            skip_request(engine, i);
        }
    }
    engine->n_finished_out = engine->n_finished;
    return PL_OK;
}

static pl_status_t count_owners(pl_engine_t *engine)
{
    int64_t longest = 0;

    if (engine->config.like != NULL) {
        engine->n_owners = engine->config.like->n_owners;
        return PL_OK;
    }
    for (int32_t i = 0; i < engine->source.count; i++) {
        const pl_request_t *request = request_of(engine, i);
        int64_t tokens =
            (int64_t)request->input_tokens + request->output_tokens;

        PL_TRY(pl_fit_length(engine, request));
        longest = tokens > longest ? tokens : longest;
    }
    engine->n_owners = pl_pages_for(engine, longest) + 1;
    return PL_OK;
}

static pl_status_t open_requests(pl_engine_t *engine)
{
    size_t n = (size_t)engine->source.count;

    engine->live     = calloc(n > 0 ? n : 1, sizeof(*engine->live));
    engine->records  = calloc(n > 0 ? n : 1, sizeof(*engine->records));
    engine->finished = calloc(n > 0 ? n : 1, sizeof(*engine->finished));
    if ((engine->live == NULL) || (engine->records == NULL) ||
        (engine->finished == NULL)) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(begin_requests(engine));
    PL_TRY(count_owners(engine));
    engine->owners = malloc((size_t)engine->n_owners * sizeof(*engine->owners));
    engine->need =
        calloc((size_t)pl_engine_lanes(engine), sizeof(*engine->need));
    if ((engine->owners == NULL) || (engine->need == NULL)) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_arrive_open(engine));
    engine->config.skip = NULL; /* borrowed for the opening */
    return PL_OK;
}

/* Storage rides behind the host tier. */
static bool storage_is_sound(const pl_engine_config_t *config)
{
    return (config->storage_pages >= PL_PAGES_UNLIMITED) &&
           ((config->storage_pages == 0) || (config->host_pages != 0)) &&
           (config->prefetch >= PL_PREFETCH_BEST_EFFORT) &&
           (config->prefetch <= PL_PREFETCH_TIMEOUT) &&
           (config->prefetch_threshold_tokens >= 0);
}

static bool role_is_sound(const pl_engine_config_t *config)
{
    return (config->port != NULL ? !config->evict->foresees
                                 : config->role == PL_ROLE_WHOLE) &&
           ((config->role != PL_ROLE_DECODE) || (config->n_decode > 0)) &&
           ((config->role != PL_ROLE_PREFILL) || (config->n_decode == 0));
}

static bool config_is_sound(const pl_engine_config_t *config)
{
    return (config->n_prefill >= 1) && (config->n_decode >= 0) &&
           (config->n_prefill <= PL_MAX_RANKS) && (config->page_tokens >= 1) &&
           (config->page_tokens <= PL_MAX_PAGE_TOKENS) &&
           (config->chunk_tokens >= config->page_tokens) &&
           (config->chunk_tokens % config->page_tokens == 0) &&
           (config->max_batch >= 1) && (config->explore >= 0) &&
           (config->mtp.draft_tokens >= 0) &&
           (config->mtp.accept_millionths >= 0) &&
           (config->mtp.accept_millionths <= 1000000) &&
           (config->evict != NULL) && storage_is_sound(config) &&
           role_is_sound(config);
}

pl_status_t pl_engine_open(const pl_engine_config_t *config,
                           const pl_engine_source_t *source,
                           pl_inject_t *inject, pl_event_sink_t events,
                           const pl_log_t *log, pl_engine_t **engine_p)
{
    pl_status_t status = PL_ERR_MEMORY;
    pl_engine_t *engine;

    if (!config_is_sound(config)) {
        pl_log(log, PL_LOG_ERROR,
               "engine: a configuration that the options would not let pass");
        return PL_ERR_ARGUMENT;
    }
    engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return PL_ERR_MEMORY;
    }
    engine->config = *config;
    if (config->rank_page_bytes == 0) {
        engine->config.rank_page_bytes = config->page_bytes;
    }
    engine->source    = *source;
    engine->inject    = inject;
    engine->events    = events;
    engine->log       = log;
    engine->current   = -1;
    engine->tick      = -1;
    engine->tried_at  = -1;
    engine->next_op   = 1;
    engine->looked_at = -1;

    PL_TRY_GOTO(status, open_requests(engine), err_close);
    PL_TRY_GOTO(status, pl_fit_resolve(engine), err_close);
    PL_TRY_GOTO(status, pl_storage_open_for(engine), err_close);
    PL_TRY_GOTO(status, pl_foresee_open(engine), err_close);
    PL_TRY_GOTO(status, open_cache(engine), err_close);
    PL_TRY_GOTO(status, open_homes(engine), err_close);
    engine->config.like = NULL;
    *engine_p           = engine;
    return PL_OK;

err_close:
    if (status == PL_ERR_MEMORY) {
        pl_log(log, PL_LOG_ERROR,
               "no memory for the state of %d requests and their pages; take "
               "fewer with --limit or --passes, or lower the page options",
               source->count);
    }
    pl_engine_close(engine);
    return status;
}

/* ---- closing ---- */

static void close_homes(pl_engine_t *engine)
{
    for (int32_t i = 0; (engine->homes != NULL) && (i < engine->n_homes); i++) {
        pl_home_t *home = &engine->homes[i];

        pl_lanes_close(home->pool);
        pl_lanes_close(home->host);
        PL_ARRAY_FREE(&home->ready);
        PL_ARRAY_FREE(&home->running);
        PL_ARRAY_FREE(&home->offloaded);
    }
    free(engine->homes);
    free(engine->decode_lanes);
    free(engine->decode_host_lanes);
}

static void close_requests(pl_engine_t *engine)
{
    for (size_t i = 0; i < engine->known.n; i++) {
        pl_live_t *live = &engine->live[engine->known.items[i]];

        free(live->keys);
        pl_prefetch_forget(live);
        PL_ARRAY_FREE(&live->fetched_to);
        PL_ARRAY_FREE(&live->pages);
        PL_ARRAY_FREE(&live->decode_pages);
        PL_ARRAY_FREE(&live->decode_host_pages);
    }
    PL_ARRAY_FREE(&engine->known);
    pl_turns_close(&engine->turns);
    free(engine->live);
    free(engine->records);
    free(engine->finished);
    free(engine->prefetched);
    free(engine->room);
    free(engine->owners);
    free(engine->need);
}

void pl_engine_close(pl_engine_t *engine)
{
    if (engine == NULL) {
        return;
    }
    pl_plan_clear(engine);
    PL_ARRAY_FREE(&engine->kept);
    PL_ARRAY_FREE(&engine->ops);
    PL_ARRAY_FREE(&engine->sorted);
    PL_ARRAY_FREE(&engine->due);
    PL_ARRAY_FREE(&engine->watched);
    PL_ARRAY_FREE(&engine->freed);
    PL_ARRAY_FREE(&engine->pending);
    PL_ARRAY_FREE(&engine->gaps);
    PL_ARRAY_FREE(&engine->waiting);
    close_homes(engine);
    pl_hicache_close(engine->cache);
    pl_future_close(engine->future);
    pl_storage_close(engine->storage);
    close_requests(engine);
    free(engine);
}

/* ---- looking in ---- */

bool pl_engine_done(const pl_engine_t *engine)
{
    int32_t left = engine->config.port != NULL
                       ? engine->n_inside
                       : engine->source.count - engine->n_finished;

    return (left == 0) && (engine->pending.n == 0) &&
           !pl_publish_wants_last(engine);
}

const pl_engine_config_t *pl_engine_config(const pl_engine_t *engine)
{
    return &engine->config;
}

int32_t pl_engine_n_requests(const pl_engine_t *engine)
{
    return engine->source.count;
}

const pl_record_t *pl_engine_record(const pl_engine_t *engine, int32_t i)
{
    return &engine->records[i];
}

int32_t pl_engine_n_finished(const pl_engine_t *engine)
{
    return engine->n_finished;
}

const pl_hicache_t *pl_engine_cache(const pl_engine_t *engine)
{
    return engine->cache;
}

const pl_engine_counters_t *pl_engine_counters(const pl_engine_t *engine)
{
    return &engine->counters;
}

int64_t pl_engine_now_ns(const pl_engine_t *engine)
{
    return engine->now_ns;
}

const pl_token_gap_t *pl_engine_token_gaps(const pl_engine_t *engine,
                                           size_t *n_p)
{
    *n_p = engine->gaps.n;
    return engine->gaps.items;
}

int pl_engine_lanes(const pl_engine_t *engine)
{
    return pl_ownership_lanes(engine->config.ownership,
                              engine->config.n_prefill);
}

int32_t pl_engine_device_pages(const pl_engine_t *engine)
{
    return engine->device_pages;
}

int32_t pl_engine_host_pages(const pl_engine_t *engine)
{
    return engine->host_pages;
}

int32_t pl_engine_decode_pages(const pl_engine_t *engine)
{
    return engine->decode_pages;
}

int32_t pl_engine_storage_pages(const pl_engine_t *engine)
{
    return engine->storage_pages;
}

const pl_storage_t *pl_engine_storage(const pl_engine_t *engine)
{
    return engine->storage;
}
