/* Multi-token prediction: what of a step's drafts is kept. */
#include "base/hash.h"
#include "engine/state.h"

#define WHOLE 1000000 /* millionths */

/* The draft layer reads its own KV of the text so far.  Where it has that of a
 * part only, it is right in that part of the cases: with a text that came by
 * load-back an engine measured 0.10 in the place of 0.98 (sglang issue 31600);
 * it recovers as new tokens fill in (TensorRT-LLM pull request 17371). */
static int64_t accept_millionths(const pl_engine_t *engine, int32_t request)
{
    const pl_mtp_t *mtp = &engine->config.mtp;
    int64_t rows        = pl_rows_held(engine, request);
    int64_t seen        = rows - engine->live[request].unseen_tokens;

    return mtp->accept_millionths * seen / rows;
}

static int64_t draw(const pl_engine_t *engine, int32_t request, int32_t token)
{
    uint64_t place = ((uint64_t)(uint32_t)request << 32) | (uint32_t)token;

    return (int64_t)(pl_mix64(engine->config.seed ^ pl_mix64(place)) % WHOLE);
}

int32_t pl_draft_kept(const pl_engine_t *engine, int32_t request,
                      int32_t *n_drafted_p)
{
    int32_t made   = engine->live[request].generated;
    int32_t most   = engine->config.mtp.draft_tokens;
    int32_t left   = engine->records[request].output_tokens - made - 1;
    int64_t chance = most > 0 ? accept_millionths(engine, request) : 0;
    int32_t kept   = 0;

    *n_drafted_p = most;
    most         = most < left ? most : left;
    while ((kept < most) && (draw(engine, request, made + kept) < chance)) {
        kept++;
    }
    return 1 + kept;
}

int32_t pl_draft_unseen(const pl_engine_t *engine, int32_t request)
{
    const pl_engine_config_t *config = &engine->config;
    const pl_live_t *live            = &engine->live[request];

    if (!config->mtp.loses_kv) {
        return 0;
    }
    return config->n_decode > 0 ? live->prompt_tokens
                                : (live->hit_pages - live->device_hit_pages) *
                                      config->page_tokens;
}

void pl_draft_resumed(pl_engine_t *engine, int32_t request)
{
    if (engine->config.mtp.loses_kv) {
        engine->live[request].unseen_tokens = pl_rows_held(engine, request);
    }
}
