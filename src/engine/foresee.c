/* The trace read ahead, for a policy that asks for it: which pages of its
 * prompt each request can hit.  Requests count as they stand in the trace,
 * which is the order of admission unless turns wait for one another. */
#include <stdlib.h>

#include "engine/state.h"

static const pl_request_t *request_of(const pl_engine_t *engine, int32_t i)
{
    return engine->source.request(engine->source.context, i);
}

/* The last token of a prompt is always computed. */
static int32_t n_matchable(const pl_engine_t *engine, int32_t i)
{
    return (request_of(engine, i)->input_tokens - 1) /
           engine->config.page_tokens;
}

static pl_status_t add_all(pl_engine_t *engine, pl_page_key_t *keys)
{
    for (int32_t i = 0; i < engine->source.count; i++) {
        int32_t n = n_matchable(engine, i);

        if ((n < 1) || engine->records[i].skipped) {
            continue;
        }
        engine->source.page_keys(engine->source.context, i,
                                 engine->config.page_tokens, 0, n, keys);
        PL_TRY(pl_future_add(engine->future, i,
                             request_of(engine, i)->name_space, keys, n));
    }
    pl_future_seal(engine->future);
    return PL_OK;
}

pl_status_t pl_foresee_open(pl_engine_t *engine)
{
    int32_t most = 0;
    pl_page_key_t *keys;
    pl_status_t status;

    if (!engine->config.evict->foresees) {
        return PL_OK;
    }
    for (int32_t i = 0; i < engine->source.count; i++) {
        int32_t n = n_matchable(engine, i);

        most = n > most ? n : most;
    }
    keys = malloc(((size_t)most + 1) * sizeof(*keys));
    if (keys == NULL) {
        return PL_ERR_MEMORY;
    }
    status = pl_future_open(engine->source.count, engine->log, &engine->future);
    if (status == PL_OK) {
        status = add_all(engine, keys);
    }
    free(keys);
    return status;
}

void pl_foresee_admitted(pl_engine_t *engine, int32_t request)
{
    const pl_live_t *live = &engine->live[request];

    pl_hicache_passed(engine->cache, request,
                      request_of(engine, request)->name_space, live->keys,
                      n_matchable(engine, request));
}
