/* Does every prompt fit, and what does "unlimited" come to? */
#include <inttypes.h>
#include <string.h>

#include "engine/state.h"

void pl_fit_lanes(const pl_engine_t *engine, int32_t request,
                  int32_t first_page, int32_t n, pl_owner_t *lanes)
{
    const pl_engine_config_t *config = &engine->config;

    if (pl_engine_lanes(engine) == 1) {
        memset(lanes, 0, (size_t)n * sizeof(*lanes));
        return;
    }
    pl_compute_owners(config->ownership, config->n_prefill, first_page, n,
                      request, lanes);
}

void pl_fit_chunks(const pl_engine_t *engine, int32_t request, int32_t first,
                   int32_t end, int32_t *need)
{
    const pl_engine_config_t *config = &engine->config;

    for (int32_t at = first; at < end; at += config->chunk_tokens) {
        int32_t stop =
            end - at > config->chunk_tokens ? at + config->chunk_tokens : end;
        int32_t n = pl_pages_for(engine, stop - at);

        pl_fit_lanes(engine, request, at / config->page_tokens, n,
                     engine->owners);
        for (int32_t i = 0; i < n; i++) {
            need[engine->owners[i]]++;
        }
    }
}

pl_status_t pl_fit_length(const pl_engine_t *engine,
                          const pl_request_t *request)
{
    int64_t tokens = (int64_t)request->input_tokens + request->output_tokens;
    int64_t most   = (int64_t)INT32_MAX - engine->config.chunk_tokens;

    if (tokens <= most) {
        return PL_OK;
    }
    pl_log(engine->log, PL_LOG_ERROR,
           "the request on line %" PRId64 " of the trace (%d prompt tokens, %d "
           "to generate) is longer than the %" PRId64
           " tokens that can be counted in chunks of %d; leave it out, or cap "
           "what is generated with --max-new",
           request->line, request->input_tokens, request->output_tokens, most,
           engine->config.chunk_tokens);
    return PL_ERR_RESOURCE;
}

static void clear_need(pl_engine_t *engine)
{
    memset(engine->need, 0,
           (size_t)pl_engine_lanes(engine) * sizeof(*engine->need));
}

static int most_needed(const pl_engine_t *engine)
{
    int most = 0;

    for (int lane = 1; lane < pl_engine_lanes(engine); lane++) {
        if (engine->need[lane] > engine->need[most]) {
            most = lane;
        }
    }
    return most;
}

bool pl_fit_again(const pl_engine_t *engine, int32_t request, int32_t tokens)
{
    int32_t need[PL_MAX_RANKS] = {0};

    pl_fit_chunks(engine, request, 0, tokens, need);
    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        if (need[lane] > engine->device_pages - 1) {
            pl_log(engine->log, PL_LOG_WARN,
                   "request %d was preempted and no longer fits the lanes with "
                   "its %d tokens: recorded as failed; raise --device-pages, "
                   "--decode-pages or --decode-host-pages",
                   request, tokens);
            return false;
        }
    }
    return true;
}

/* Pages a request may hold in its home's pool: those reserved when it is
 * admitted, or all its rows. */
static int64_t decode_pages_alone(const pl_engine_t *engine,
                                  const pl_request_t *request)
{
    int64_t reserved = (int64_t)pl_pages_for(engine, request->input_tokens) + 1;
    int64_t rows     = pl_pages_for(engine, (int64_t)request->input_tokens +
                                                request->output_tokens - 1);

    return reserved > rows ? reserved : rows;
}

/* The option's pages, but no more than can ever be in use: `most` pages at a
 * time and one for scratch.  More would only cost memory, and less is what
 * "unlimited" comes to. */
static pl_status_t resolve(const pl_engine_t *engine, const char *option,
                           int32_t asked, int64_t most, int n_lanes,
                           int32_t *pages_p)
{
    if ((asked != PL_PAGES_UNLIMITED) && (asked <= most)) {
        *pages_p = asked;
        return PL_OK;
    }
    if ((most + 1) * n_lanes > INT32_MAX) {
        pl_log(engine->log, PL_LOG_ERROR,
               "--%s: the trace needs %" PRId64
               " pages per rank, more than page ids can name; take fewer "
               "requests with --limit or larger pages with --page-size",
               option, most);
        return PL_ERR_RESOURCE;
    }
    *pages_p = (int32_t)most + 1;
    return PL_OK;
}

/* Slots of a share that hold something already. */
static int64_t start_slots(const pl_engine_config_t *config)
{
    const pl_storage_start_t *start = config->storage_start;
    int64_t n                       = 0;

    for (int32_t i = 0; (start != NULL) && (i < start->n_entries); i++) {
        const pl_storage_place_t *place = &start->entries[i].place;

        if ((place->set == start->own_set) && (place->slot >= n)) {
            n = (int64_t)place->slot + 1;
        }
    }
    return n;
}

/* All pages of all requests, those with generated tokens too (a request may
 * re-enter with them), could lie in one lane. */
static pl_status_t resolve_pools(pl_engine_t *engine)
{
    pl_engine_config_t *config = &engine->config;
    int64_t lanes              = 0;
    int64_t decode             = 0;

    for (int32_t i = 0; i < engine->source.count; i++) {
        const pl_request_t *request =
            engine->source.request(engine->source.context, i);

        lanes += pl_pages_for(engine, (int64_t)request->input_tokens +
                                          request->output_tokens);
        decode += decode_pages_alone(engine, request);
    }
    if (engine->source.count == 0) { /* no pool is of scratch alone */
        lanes  = 1;
        decode = 1;
    }
    PL_TRY(resolve(engine, "device-pages", config->device_pages, lanes,
                   config->n_prefill, &engine->device_pages));
    PL_TRY(resolve(engine, "host-pages", config->host_pages, lanes,
                   config->n_prefill, &engine->host_pages));
    if (config->storage_pages != 0) {
        int64_t most = lanes + start_slots(config);

        /* A lane that runs low evicts: one that holds all does not. */
        PL_TRY(resolve(engine, "storage-pages", config->storage_pages,
                       most + most / 16, config->n_prefill,
                       &engine->storage_pages));
    }
    PL_TRY(resolve(engine, "decode-pages", config->decode_pages, decode, 1,
                   &engine->decode_pages));
    return resolve(engine, "decode-host-pages", config->decode_host_pages,
                   decode, 1, &config->decode_host_pages);
}

/* The request that needs the most of a pool. */
typedef struct hungriest {
    int64_t pages;
    const pl_request_t *request;
} hungriest_t;

static void feed(hungriest_t *most, int64_t pages, const pl_request_t *request)
{
    if (pages > most->pages) {
        *most = (hungriest_t){pages, request};
    }
}

/* `pool` has `have` pages besides its scratch page. */
static pl_status_t check_pool(const pl_engine_t *engine,
                              const hungriest_t *most, const char *pool,
                              int64_t have, const char *option)
{
    const pl_request_t *request = most->request;

    if (most->pages <= have) {
        return PL_OK;
    }
    pl_log(engine->log, PL_LOG_ERROR,
           "the request on line %" PRId64 " of the trace (%d prompt tokens, %d "
           "to generate) needs %" PRId64 " pages of %s, which has %" PRId64
           " besides its scratch page; raise --%s to %" PRId64 " or more",
           request->line, request->input_tokens, request->output_tokens,
           most->pages, pool, have, option, most->pages + 1);
    return PL_ERR_RESOURCE;
}

/* Whoever needs the most is named, so that one remedy serves all. */
static pl_status_t check_pools(pl_engine_t *engine)
{
    pl_role_t role     = engine->config.role;
    hungriest_t lane   = {0};
    hungriest_t decode = {0};

    for (int32_t i = 0; i < engine->source.count; i++) {
        const pl_request_t *request =
            engine->source.request(engine->source.context, i);

        if (engine->records[i].skipped) {
            continue;
        }
        if (role != PL_ROLE_DECODE) {
            clear_need(engine);
            pl_fit_chunks(engine, i, 0, request->input_tokens, engine->need);
            feed(&lane, engine->need[most_needed(engine)], request);
        }
        if (role != PL_ROLE_PREFILL) {
            feed(&decode, decode_pages_alone(engine, request), request);
        }
    }
    PL_TRY(check_pool(engine, &lane, "one rank's lane",
                      (int64_t)engine->device_pages - 1, "device-pages"));
    return check_pool(engine, &decode, "one decode pool",
                      (int64_t)engine->decode_pages - 1, "decode-pages");
}

static void take_pools(pl_engine_t *engine, const pl_engine_t *like)
{
    engine->device_pages             = like->device_pages;
    engine->host_pages               = like->host_pages;
    engine->storage_pages            = like->storage_pages;
    engine->decode_pages             = like->decode_pages;
    engine->config.decode_host_pages = like->config.decode_host_pages;
}

pl_status_t pl_fit_resolve(pl_engine_t *engine)
{
    if (engine->config.role == PL_ROLE_DECODE) { /* what no prompt ever needs */
        engine->config.device_pages  = 2;
        engine->config.host_pages    = 0;
        engine->config.storage_pages = 0;
    }
    if (engine->config.like != NULL) {
        take_pools(engine, engine->config.like);
        return PL_OK;
    }
    PL_TRY(resolve_pools(engine));
    return check_pools(engine);
}
