#include "exec_support.h"

#include <assert.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "comm/peer.h"
#include "support/far_device.h"

/* ---- the trace ---- */

exec_trace_t *exec_trace_make(const exec_trace_params_t *params)
{
    exec_trace_t *trace = calloc(1, sizeof(*trace));
    pl_rng_t rng        = pl_rng_seed(params->seed);

    trace->seed     = params->seed;
    trace->vocab    = TEST_VOCAB;
    trace->n        = params->n;
    trace->requests = calloc((size_t)params->n, sizeof(*trace->requests));
    for (int32_t i = 0; i < params->n; i++) {
        exec_request_t *one = &trace->requests[i];
        int32_t own =
            1 + (int32_t)pl_rng_below(&rng, (uint64_t)params->max_own);

        one->document =
            (int32_t)pl_rng_below(&rng, (uint64_t)params->documents);
        one->shared =
            (int32_t)pl_rng_below(&rng, (uint64_t)params->max_shared + 1);
        one->request.arrival_ns   = i * params->gap_ns;
        one->request.input_tokens = one->shared + own;
        one->request.output_tokens =
            1 + (int32_t)pl_rng_below(&rng, (uint64_t)params->max_output);
        one->request.line = i + 1;
    }
    return trace;
}

void exec_trace_free(exec_trace_t *trace)
{
    free(trace->requests);
    free(trace);
}

static const pl_request_t *request_of(void *context, int32_t i)
{
    return &((exec_trace_t *)context)->requests[i].request;
}

static void tokens_of(void *context, int32_t i, int32_t first, int32_t n,
                      int32_t *tokens)
{
    const exec_trace_t *trace = context;
    const exec_request_t *one = &trace->requests[i];

    assert(first + n <= one->request.input_tokens); /* on any thread */
    if (trace->texts != NULL) {
        memcpy(tokens, trace->texts[i] + first, (size_t)n * sizeof(*tokens));
        return;
    }
    for (int32_t t = first; t < first + n; t++) {
        uint64_t stream = t < one->shared ? (uint64_t)one->document
                                          : UINT64_C(1000) + (uint64_t)i;

        tokens[t - first] =
            (int32_t)(pl_mix64(trace->seed + stream * UINT64_C(1000003) +
                               (uint64_t)t) %
                      (uint64_t)trace->vocab);
    }
}

static void page_keys(void *context, int32_t i, int32_t page_tokens,
                      int32_t first, int32_t n, pl_page_key_t *keys)
{
    int32_t *tokens = calloc((size_t)page_tokens, sizeof(*tokens));

    for (int32_t page = first; page < first + n; page++) {
        pl_hash128_t hash;

        tokens_of(context, i, page * page_tokens, page_tokens, tokens);
        hash = pl_hash128(tokens, (size_t)page_tokens * sizeof(*tokens), 1);
        keys[page - first] =
            (pl_page_key_t){hash.lo, hash.hi & ~PL_PAGE_KEY_OTHER};
    }
    free(tokens);
}

pl_engine_source_t exec_trace_source(exec_trace_t *trace)
{
    pl_engine_source_t source = {.context   = trace,
                                 .count     = trace->n,
                                 .request   = request_of,
                                 .page_keys = page_keys};

    return source;
}

pl_token_reader_t exec_trace_tokens(exec_trace_t *trace)
{
    pl_token_reader_t reader = {.context = trace, .read = tokens_of};

    return reader;
}

/* ---- runs ---- */

static pl_status_t open_device(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    (void)rank;
    return far_device_open_named(context, log, device_p);
}

static pl_status_t open_peer(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p)
{
    (void)context;
    return pl_comm_open_peer(base, device, comm_p);
}

void exec_device(pl_run_params_t *params, const char *name)
{
    static char cpu[] = "cpu";
    bool peer         = strcmp(name, "cpu by peer") == 0;

    params->device.open    = open_device;
    params->device.context = peer ? cpu : (char *)(uintptr_t)name;
    params->open_comm = peer || (strcmp(name, "far") == 0) ? open_peer : NULL;
}

pl_run_params_t exec_params(exec_trace_t *trace)
{
    pl_run_params_t params = {
        .engine =
            {
                .n_prefill             = 4,
                .n_decode              = 0,
                .page_tokens           = 16,
                .chunk_tokens          = 64,
                .ownership             = {.kind = PL_OWNERSHIP_ZIGZAG},
                .device_pages          = 40,
                .host_pages            = 60,
                .decode_pages          = 400,
                .decode_host_pages     = 0,
                .write_policy          = PL_WRITE_THROUGH,
                .hot_threshold         = 2,
                .load_threshold_tokens = 10,
                .evict                 = &pl_policy_lru,
                .max_batch             = 64,
                .costs                 = pl_costs_builtin(),
            },
        .source     = exec_trace_source(trace),
        .prompts    = exec_trace_tokens(trace),
        .executor   = "stamp",
        .device     = {open_device, "cpu"},
        .verify     = PL_VERIFY_DIGEST,
        .layout     = pl_store_layout_stamp(1, 2, 64, 0),
        .vocab_size = TEST_VOCAB,
        .debug      = true,
        .reproduce  = "pagelane run --seed 0",
    };

    return params;
}

typedef struct sink {
    pthread_mutex_t mutex;
    exec_result_t *result;
    int rank; /* whose results are kept */
} sink_t;

static void *copy_of(const void *items, size_t n)
{
    void *copy = malloc(n + 1);

    if (n > 0) {
        memcpy(copy, items, n);
    }
    return copy;
}

static void take_line(void *context, const char *line)
{
    sink_t *sink          = context;
    exec_result_t *result = sink->result;

    snprintf(result->n_lines == 0 ? result->line : result->second,
             sizeof(result->line), "%s", line);
    result->n_lines++;
}

static pl_status_t take_results(void *context, pl_comm_t *comm,
                                const pl_engine_t *engine,
                                const pl_run_results_t *results)
{
    sink_t *sink          = context;
    exec_result_t *result = sink->result;
    size_t n              = (size_t)results->n_requests;
    size_t n_tokens       = (size_t)results->token_offsets[n];
    pl_status_t status    = PL_OK;

    pthread_mutex_lock(&sink->mutex);
    if ((comm == NULL) || (comm->rank == sink->rank)) {
        result->n       = results->n_requests;
        result->digests = copy_of(results->digests, n * sizeof(uint64_t));
        result->offsets =
            copy_of(results->token_offsets, (n + 1) * sizeof(int64_t));
        result->tokens =
            copy_of(results->tokens, n_tokens * sizeof(*results->tokens));
        result->counters = results->counters;
        result->engine   = *pl_engine_counters(engine);
        result->cache    = *pl_hicache_counters(pl_engine_cache(engine));
        if (pl_engine_storage(engine) != NULL) {
            result->storage = *pl_storage_counters(pl_engine_storage(engine));
        }
        for (int32_t i = 0; i < results->n_requests; i++) {
            const pl_record_t *record = pl_engine_record(engine, i);

            result->n_failed += record->failed ? 1 : 0;
            result->preemptions += record->preemptions;
            result->reentries += record->reentries;
            result->storage_hits += record->storage_hit_tokens;
        }
    }
    pthread_mutex_unlock(&sink->mutex);
    return status;
}

void exec_pools(pl_run_params_t *params, int32_t device_tokens,
                int32_t host_tokens, int32_t decode_tokens)
{
    int32_t page = params->engine.page_tokens;
    int32_t all  = page * pl_ownership_lanes(params->engine.ownership,
                                             params->engine.n_prefill);

    params->engine.device_pages = (device_tokens + all - 1) / all + 2;
    params->engine.host_pages   = (host_tokens + all - 1) / all;
    params->engine.decode_pages = (decode_tokens + page - 1) / page + 1;
}

static exec_result_t *run(const pl_run_params_t *params, pl_comm_t *comm,
                          double timeout_s)
{
    pl_run_params_t own = *params;
    sink_t sink         = {.rank = comm == NULL ? 0 : comm->rank};

    pthread_mutex_init(&sink.mutex, NULL);
    sink.result = calloc(1, sizeof(*sink.result));
    log_capture_open(&sink.result->said);
    sink.result->said.log.level = PL_LOG_WARN;
    own.log                     = &sink.result->said.log;
    own.report.line             = take_line;
    own.report.context          = &sink;
    own.done                    = take_results;
    own.done_context            = &sink;
    sink.result->status =
        comm == NULL ? pl_run_local(&own, timeout_s) : pl_run(&own, comm);
    pthread_mutex_destroy(&sink.mutex);
    return sink.result;
}

exec_result_t *exec_run(const pl_run_params_t *params)
{
    return run(params, NULL, 30.0);
}

exec_result_t *exec_run_with(const pl_run_params_t *params,
                             const char *const *injections, double timeout_s)
{
    pl_run_params_t own = *params;

    for (int i = 0; injections[i] != NULL; i++) {
        if (pl_inject_parse(&own.inject, injections[i], NULL) != PL_OK) {
            abort();
        }
    }
    return run(&own, NULL, timeout_s);
}

exec_result_t *exec_run_on(const pl_run_params_t *params, pl_comm_t *comm)
{
    return run(params, comm, comm->timeout_s);
}

void exec_result_free(exec_result_t *result)
{
    log_capture_close(&result->said);
    free(result->digests);
    free(result->offsets);
    free(result->tokens);
    free(result);
}

void exec_same(const exec_result_t *a, const exec_result_t *b, const char *what)
{
    ck_assert_msg(a->status == PL_OK, "%s: %s\n%s%s", what,
                  pl_status_text(a->status), a->said.text, a->line);
    ck_assert_msg(b->status == PL_OK, "%s: %s\n%s%s", what,
                  pl_status_text(b->status), b->said.text, b->line);
    ck_assert_int_eq(a->n, b->n);
    for (int32_t i = 0; i < a->n; i++) {
        int64_t from = a->offsets[i];
        int64_t n    = a->offsets[i + 1] - from;

        ck_assert_msg(a->digests[i] != 0, "%s: no digest of request %d", what,
                      i);
        ck_assert_msg(a->digests[i] == b->digests[i],
                      "%s: digest of request %d", what, i);
        ck_assert_msg((from == b->offsets[i]) &&
                          (n == b->offsets[i + 1] - from),
                      "%s: tokens of request %d: %d and %d", what, i, (int)n,
                      (int)(b->offsets[i + 1] - b->offsets[i]));
        ck_assert_msg(memcmp(a->tokens + from, b->tokens + from,
                             (size_t)n * sizeof(*a->tokens)) == 0,
                      "%s: tokens of request %d differ", what, i);
    }
}
