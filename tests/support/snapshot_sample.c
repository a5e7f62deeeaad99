#include "support/snapshot_sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "cache/policy.h"
#include "engine/sharing.h"

enum { PAGE_TOKENS = 16, FAMILIES = 3, LONGEST_SHARED = 24 };

snapshot_sample_params_t snapshot_sample_params(uint64_t seed)
{
    snapshot_sample_params_t params = {
        .seed              = seed,
        .n_prefill         = 3,
        .n_decode          = 1,
        .n_requests        = 60,
        .device_pages      = 24,
        .host_pages        = 40,
        .decode_pages      = 96,
        .decode_host_pages = 64,
        .write_policy      = PL_WRITE_THROUGH,
        .most_events       = PL_EVENTS_ALL,
    };

    return params;
}

/* ---- the trace ---- */

static const pl_request_t *get_request(void *context, int32_t i)
{
    return &((const snapshot_sample_t *)context)->requests[i];
}

/* Prompts of a family have the same start, then each its own pages. */
static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    const snapshot_sample_t *sample = context;
    uint64_t r     = pl_mix64(sample->params.seed ^ (uint64_t)i);
    int32_t shared = (int32_t)(r % LONGEST_SHARED);

    (void)page_tokens;
    for (int32_t p = first; p < first + n; p++) {
        uint64_t whose = p < shared ? r >> 8 & 0xff : 1000 + (uint64_t)i;

        whose              = p < shared ? whose % FAMILIES : whose;
        keys[p - first].lo = pl_mix64(whose << 32 | (uint32_t)p);
        keys[p - first].hi = 7;
    }
}

static pl_status_t make_requests(snapshot_sample_t *sample)
{
    pl_rng_t rng = pl_rng_seed(sample->params.seed);
    int64_t now  = 0;
    size_t n     = (size_t)sample->params.n_requests;

    sample->requests = calloc(n + 1, sizeof(*sample->requests));
    if (sample->requests == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        pl_request_t *request = &sample->requests[i];

        now += (int64_t)pl_rng_below(&rng, 40000000);
        request->arrival_ns    = now;
        request->input_tokens  = 1 + (int32_t)pl_rng_below(&rng, 500);
        request->output_tokens = 1 + (int32_t)pl_rng_below(&rng, 60);
        request->name_space    = i % 7 == 6 ? 5 : 0;
        request->line          = (int64_t)i + 1;
    }
    return PL_OK;
}

/* ---- the run ---- */

static pl_status_t open_engine(snapshot_sample_t *sample, const pl_log_t *log)
{
    const snapshot_sample_params_t *params = &sample->params;
    pl_engine_source_t source = {sample, params->n_requests, get_request,
                                 get_keys};
    pl_engine_config_t config = {
        .n_prefill             = params->n_prefill,
        .n_decode              = params->n_decode,
        .page_tokens           = PAGE_TOKENS,
        .chunk_tokens          = 4 * PAGE_TOKENS,
        .device_pages          = params->device_pages,
        .host_pages            = params->host_pages,
        .decode_pages          = params->decode_pages,
        .decode_host_pages     = params->decode_host_pages,
        .storage_pages         = params->storage_pages,
        .prefetch              = PL_PREFETCH_WAIT_COMPLETE,
        .write_policy          = params->write_policy,
        .hot_threshold         = 2,
        .load_threshold_tokens = PAGE_TOKENS,
        .evict                 = &pl_policy_lru,
        .max_batch             = 16,
        .explore               = 2,
        .seed                  = params->seed,
        .costs                 = pl_costs_builtin(),
        .page_bytes            = 1 << 20,
    };

    return pl_engine_open(&config, &source, NULL,
                          pl_event_log_sink(sample->log), log, &sample->engine);
}

/* What no rank has made: a tick's work is done by saying so, and some of what
 * can fail fails. */
static pl_status_t one_tick(snapshot_sample_t *sample, pl_rng_t *rng)
{
    uint64_t percent = (uint64_t)sample->params.fail_percent;
    pl_plan_t *plan  = NULL;
    uint64_t *words;
    pl_status_t status;

    PL_TRY(pl_engine_plan(sample->engine, &plan));
    words = calloc((size_t)pl_plan_words(plan) + 1, sizeof(*words));
    if (words == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < plan->n_ops + plan->n_due; i++) {
        bool can_fail =
            (i >= plan->n_ops) || ((plan->ops[i].kind != PL_OP_PREFILL) &&
                                   (plan->ops[i].kind != PL_OP_DECODE) &&
                                   (plan->ops[i].kind != PL_OP_REENTER));

        if (can_fail && (pl_rng_below(rng, 100) < percent)) {
            pl_plan_set_bit(words, i);
        }
    }
    status = pl_engine_commit(sample->engine, words);
    free(words);
    pl_event_log_sample(sample->log, sample->engine);
    return status;
}

static pl_status_t run(snapshot_sample_t *sample)
{
    pl_rng_t rng   = pl_rng_seed(sample->params.seed ^ 0xfa11);
    int64_t n_left = sample->params.max_ticks;

    while (!pl_engine_done(sample->engine)) {
        PL_TRY(one_tick(sample, &rng));
        if ((sample->params.max_ticks > 0) && (--n_left == 0)) {
            return PL_OK;
        }
    }
    return PL_OK;
}

/* ---- results ---- */

static pl_status_t find_sharing(snapshot_sample_t *sample)
{
    size_t n                  = (size_t)sample->params.n_requests;
    pl_engine_source_t source = {sample, sample->params.n_requests, get_request,
                                 get_keys};

    sample->shared = calloc(2 * n + 1, sizeof(*sample->shared));
    return sample->shared == NULL
               ? PL_ERR_MEMORY
               : pl_sharing_find(&source, PAGE_TOKENS, sample->shared,
                                 sample->shared + n);
}

static pl_status_t make_results(snapshot_sample_t *sample)
{
    size_t n     = (size_t)sample->params.n_requests;
    size_t total = 0;

    sample->digests       = calloc(n + 1, sizeof(*sample->digests));
    sample->tokens_offset = calloc(n + 1, sizeof(*sample->tokens_offset));
    if ((sample->digests == NULL) || (sample->tokens_offset == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        sample->digests[i] = pl_mix64(i + 1);
        total += (size_t)pl_engine_record(sample->engine, (int32_t)i)
                     ->generated_tokens;
        sample->tokens_offset[i + 1] = (int64_t)total;
    }
    sample->tokens = calloc(total + 1, sizeof(*sample->tokens));
    if (sample->tokens == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < total; i++) {
        sample->tokens[i] = (int32_t)(pl_mix64(i) & 0xffff);
    }
    return PL_OK;
}

static void make_input(snapshot_sample_t *sample)
{
    static char policy[]                         = "write_through";
    static char none[]                           = "";
    static const pl_option_pair_t OPTIONS[]      = {{"write-policy", policy},
                                                    {"inject", none}};
    static const pl_snapshot_number_t COUNTERS[] = {{"pages_checked", 12345}};
    static const pl_snapshot_number_t TIMING[]   = {{"run_ns", 987654321}};
    static const pl_snapshot_text_t ABOUT[] = {{"command", "pagelane run"}};

    sample->input = (pl_snapshot_input_t){
        .engine          = sample->engine,
        .log             = sample->log,
        .options         = OPTIONS,
        .n_options       = 2,
        .digests         = sample->digests,
        .tokens          = sample->tokens,
        .tokens_offset   = sample->tokens_offset,
        .shared          = true,
        .shared_with     = sample->shared,
        .shared_pages    = sample->shared + sample->params.n_requests,
        .data_counters   = COUNTERS,
        .n_data_counters = 1,
        .timing          = TIMING,
        .n_timing        = 1,
        .about           = ABOUT,
        .n_about         = 1,
    };
}

pl_status_t snapshot_sample_run(const snapshot_sample_params_t *params,
                                const pl_log_t *log, snapshot_sample_t *sample)
{
    pl_status_t status;

    memset(sample, 0, sizeof(*sample));
    sample->params = *params;
    PL_TRY_GOTO(status, pl_event_log_open(params->most_events, &sample->log),
                out);
    PL_TRY_GOTO(status, make_requests(sample), out);
    PL_TRY_GOTO(status, open_engine(sample, log), out);
    PL_TRY_GOTO(status, run(sample), out);
    PL_TRY_GOTO(status, make_results(sample), out);
    PL_TRY_GOTO(status, find_sharing(sample), out);
    make_input(sample);

out:
    if (status != PL_OK) {
        snapshot_sample_close(sample);
    }
    return status;
}

void snapshot_sample_close(snapshot_sample_t *sample)
{
    pl_engine_close(sample->engine);
    pl_event_log_close(sample->log);
    free(sample->requests);
    free(sample->digests);
    free(sample->tokens);
    free(sample->tokens_offset);
    free(sample->shared);
    memset(sample, 0, sizeof(*sample));
}
