/* Bringing together what each home knows of its requests, at the end of a run
 * and while it goes on. */
#include <stdlib.h>
#include <string.h>

#include "exec/run_internal.h"

#define SUM_WORDS (1 << 20) /* at a time */

static pl_status_t sum(const run_rank_t *run, uint64_t *words, int64_t n)
{
    return (run->comm == NULL) || (n == 0) ? PL_OK
                                           : pl_comm_sum(run->comm, words, n);
}

/* The rank that decoded a request last speaks for it. */
static bool speaks_for(const run_rank_t *run, int32_t request)
{
    return (run->comm != NULL) &&
           (pl_engine_record(run->engine, request)->home == run->comm->rank);
}

static bool has_tokens(const run_rank_t *run)
{
    return (run->comm != NULL) && (run->device != NULL);
}

/* What is known of requests that were finished before the run. */
static pl_status_t take_prior(run_rank_t *run)
{
    const pl_run_results_t *prior = run->params->prior;
    run_results_t *results        = &run->results;
    int32_t n                     = pl_engine_n_requests(run->engine);

    for (int32_t i = 0; (prior != NULL) && (i < n); i++) {
        if (!pl_engine_record(run->engine, i)->skipped) {
            continue;
        }
        results->digests[i]     = prior->digests[i];
        results->digests[n + i] = prior->has_digest[i];
        results->places[i]      = (int64_t)results->gathered.n;
        for (int64_t t = prior->token_offsets[i];
             t < prior->token_offsets[i + 1]; t++) {
            PL_TRY(PL_ARRAY_PUSH(&results->gathered, prior->tokens[t]));
        }
    }
    return PL_OK;
}

static pl_status_t open_results(run_rank_t *run)
{
    run_results_t *results = &run->results;
    size_t n               = (size_t)pl_engine_n_requests(run->engine);

    if (results->places != NULL) {
        return PL_OK;
    }
    results->digests = calloc(2 * n + 1, sizeof(*results->digests));
    results->places  = calloc(n + 1, sizeof(*results->places));
    results->offsets = calloc(n + 1, sizeof(*results->offsets));
    if ((results->digests == NULL) || (results->places == NULL) ||
        (results->offsets == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        results->places[i] = -1;
    }
    return take_prior(run);
}

void pl_run_results_free(run_results_t *results)
{
    free(results->digests);
    free(results->places);
    free(results->offsets);
    free(results->tokens);
    free(results->ops);
    PL_ARRAY_FREE(&results->gathered);
    *results = (run_results_t){0};
}

/* ---- from the homes to all ranks ---- */

/* The words of a request: its digest, has it one, its tokens. */
enum { WORDS_BEFORE_TOKENS = 2 };

static int64_t prior_tokens(const run_rank_t *run, int32_t request)
{
    const pl_run_results_t *prior = run->params->prior;

    return prior == NULL ? 0
                         : prior->token_offsets[request + 1] -
                               prior->token_offsets[request];
}

static int64_t tokens_of(const run_rank_t *run, int32_t request)
{
    if (pl_engine_record(run->engine, request)->skipped) {
        return prior_tokens(run, request);
    }
    return has_tokens(run)
               ? pl_engine_record(run->engine, request)->generated_tokens
               : 0;
}

static int64_t words_of(const run_rank_t *run, int32_t request)
{
    return WORDS_BEFORE_TOKENS + tokens_of(run, request);
}

static void put_request(const run_rank_t *run, int32_t request, uint64_t *words)
{
    pl_exec_result_t mine;

    if (!speaks_for(run, request)) {
        return;
    }
    mine = run->executor->ops->result(run->executor, request);
    if (mine.has_digest) {
        words[0] = mine.digest;
        words[1] = 1;
    }
    for (int64_t i = 0; (i < tokens_of(run, request)) && (i < mine.n_tokens);
         i++) {
        words[WORDS_BEFORE_TOKENS + i] = (uint64_t)(uint32_t)mine.tokens[i];
    }
}

/* Room for its tokens was made. */
static void take_request(run_rank_t *run, int32_t request,
                         const uint64_t *words)
{
    run_results_t *results = &run->results;
    int32_t n              = pl_engine_n_requests(run->engine);

    results->digests[request]     = words[0];
    results->digests[n + request] = words[1];
    results->places[request]      = (int64_t)results->gathered.n;
    for (int64_t i = 0; i < tokens_of(run, request); i++) {
        results->gathered.items[results->gathered.n++] =
            (int32_t)words[WORDS_BEFORE_TOKENS + i];
    }
}

static bool is_wanted(const run_rank_t *run, int32_t request, bool all)
{
    const pl_record_t *record = pl_engine_record(run->engine, request);

    return (run->results.places[request] < 0) &&
           (all || (record->finished_ns >= 0));
}

/* The requests from *next_p on of which there is something to gather, up to
 * SUM_WORDS, the first one in any case: their words together. */
static int64_t next_group(const run_rank_t *run, bool all, int32_t *next_p,
                          int32_t *end_p)
{
    int32_t n     = pl_engine_n_requests(run->engine);
    int64_t total = 0;
    int32_t i     = *next_p;

    for (; i < n; i++) {
        int64_t words = is_wanted(run, i, all) ? words_of(run, i) : 0;

        if ((total > 0) && (total + words > SUM_WORDS)) {
            break;
        }
        total += words;
    }
    *end_p = i;
    return total;
}

/* Requests [first, end) with so many words. */
static pl_status_t gather_group(run_rank_t *run, bool all, int32_t first,
                                int32_t end, int64_t n_words)
{
    size_t room     = run->results.gathered.n + (size_t)n_words;
    uint64_t *words = calloc((size_t)n_words + 1, sizeof(*words));
    uint64_t *at    = words;
    pl_status_t status;

    if ((words == NULL) ||
        (PL_ARRAY_RESERVE(&run->results.gathered, room) != PL_OK)) {
        free(words);
        return PL_ERR_MEMORY;
    }
    for (int32_t i = first; i < end; i++) {
        if (is_wanted(run, i, all)) {
            put_request(run, i, at);
            at += words_of(run, i);
        }
    }
    status = sum(run, words, n_words);
    at     = words;
    for (int32_t i = first; (status == PL_OK) && (i < end); i++) {
        if (is_wanted(run, i, all)) {
            take_request(run, i, at);
            at += words_of(run, i);
        }
    }
    free(words);
    return status;
}

/* Collective.  Everything of what has finished, or of all requests, that was
 * not gathered before. */
static pl_status_t gather(run_rank_t *run, bool all)
{
    int32_t next = 0;
    int32_t end  = 0;

    PL_TRY(open_results(run));
    while (next < pl_engine_n_requests(run->engine)) {
        int64_t n_words = next_group(run, all, &next, &end);

        if (n_words > 0) {
            PL_TRY(gather_group(run, all, next, end, n_words));
        }
        next = end;
    }
    return PL_OK;
}

/* ---- what others see ---- */

static pl_status_t make_view(run_rank_t *run, pl_run_results_t *view)
{
    run_results_t *results = &run->results;
    int32_t n              = pl_engine_n_requests(run->engine);
    int32_t *tokens = realloc(results->tokens, (results->gathered.n + 1) *
                                                   sizeof(*results->tokens));

    if (tokens == NULL) {
        return PL_ERR_MEMORY;
    }
    results->tokens = tokens;
    for (int32_t i = 0; i < n; i++) {
        int64_t known = results->places[i] < 0 ? 0 : tokens_of(run, i);

        if (known > 0) {
            memcpy(tokens + results->offsets[i],
                   results->gathered.items + results->places[i],
                   (size_t)known * sizeof(*tokens));
        }
        results->offsets[i + 1] = results->offsets[i] + known;
    }
    view->n_requests    = n;
    view->digests       = results->digests;
    view->has_digest    = results->digests + n;
    view->token_offsets = results->offsets;
    view->tokens        = tokens;
    return PL_OK;
}

static pl_status_t sum_counters(const run_rank_t *run,
                                pl_exec_counters_t *counters)
{
    uint64_t words[PL_EXEC_COUNTERS];
    const int64_t *mine = (const int64_t *)&run->executor->counters;
    int64_t *all        = (int64_t *)counters;

    for (int64_t i = 0; i < PL_EXEC_COUNTERS; i++) {
        words[i] = (uint64_t)mine[i];
    }
    PL_TRY(sum(run, words, PL_EXEC_COUNTERS));
    for (int64_t i = 0; i < PL_EXEC_COUNTERS; i++) {
        all[i] = (int64_t)words[i];
    }
    return PL_OK;
}

/* The sums of records that all ranks have of the same operations. */
static pl_status_t sum_records(const run_rank_t *run, pl_op_record_t *records,
                               size_t n)
{
    uint64_t words[PL_OP_RECORD_SUMS * 1024];

    for (size_t first = 0, end = 0; first < n; first = end) {
        size_t k = 0;

        end = n - first < 1024 ? n : first + 1024;
        for (size_t i = first; i < end; i++) {
            words[k++] = records[i].pages;
            words[k++] = records[i].bytes;
            words[k++] = records[i].hash;
        }
        PL_TRY(sum(run, words, (int64_t)k));
        k = 0;
        for (size_t i = first; i < end; i++) {
            records[i].pages = words[k++];
            records[i].bytes = words[k++];
            records[i].hash  = words[k++];
        }
    }
    return PL_OK;
}

/* What the copies of all ranks did. */
static pl_status_t sum_log(run_rank_t *run, pl_run_results_t *view)
{
    const pl_op_log_t *log = &run->executor->log;
    size_t n_steps         = (size_t)pl_engine_n_requests(run->engine);
    size_t n               = log->ops.n + n_steps;
    pl_op_record_t *all;

    if (log->steps == NULL) {
        return PL_OK;
    }
    all = realloc(run->results.ops, (n + 1) * sizeof(*all));
    if (all == NULL) {
        return PL_ERR_MEMORY;
    }
    run->results.ops = all;
    if (log->ops.n > 0) {
        memcpy(all, log->ops.items, log->ops.n * sizeof(*all));
    }
    memcpy(all + log->ops.n, log->steps, n_steps * sizeof(*all));
    PL_TRY(sum_records(run, all, n));
    view->ops   = all;
    view->n_ops = log->ops.n;
    view->steps = all + log->ops.n;
    return PL_OK;
}

/* Collective. */
static pl_status_t collect(run_rank_t *run, bool all, pl_run_results_t *view)
{
    PL_TRY(gather(run, all));
    PL_TRY(make_view(run, view));
    PL_TRY(sum_log(run, view));
    return sum_counters(run, &view->counters);
}

bool pl_run_is_due(void *context, const pl_engine_t *engine)
{
    const run_rank_t *run             = context;
    const pl_run_recorder_t *recorder = &run->params->recorder;

    return (recorder->is_due != NULL) &&
           recorder->is_due(recorder->context, engine);
}

pl_status_t pl_run_record(void *context, bool due)
{
    run_rank_t *run                   = context;
    const pl_run_recorder_t *recorder = &run->params->recorder;
    pl_run_results_t view             = {0};

    if (due) {
        PL_TRY(collect(run, false, &view));
    }
    if (run->rank != 0) {
        return PL_OK;
    }
    if (due) {
        recorder->take(recorder->context, run->engine, &view);
    } else if (recorder->step != NULL) {
        recorder->step(recorder->context);
    }
    return PL_OK;
}

pl_status_t pl_run_collect(run_rank_t *run)
{
    pl_run_results_t view = {0};

    PL_TRY(collect(run, true, &view));
    PL_TRY(pl_run_verify_cold(run, &view));
    return run->params->done == NULL
               ? PL_OK
               : run->params->done(run->params->done_context, run->base,
                                   run->engine, &view);
}
