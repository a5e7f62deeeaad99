/* Bringing together what each home knows of its requests. */
#include <stdlib.h>

#include "exec/run_internal.h"

#define SUM_WORDS (1 << 20) /* at a time */

typedef struct results {
    pl_run_results_t view;
    uint64_t *digests; /* [2 * n_requests]: digests, then has_digest */
    int64_t *offsets;
    int32_t *tokens;
} results_t;

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

static pl_status_t collect_digests(run_rank_t *run, results_t *results)
{
    int32_t n = pl_engine_n_requests(run->engine);

    results->digests = calloc(2 * (size_t)n + 1, sizeof(*results->digests));
    if (results->digests == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        pl_exec_result_t mine = {0};

        if (speaks_for(run, i)) {
            mine = run->executor->ops->result(run->executor, i);
        }
        if (mine.has_digest) {
            results->digests[i]     = mine.digest;
            results->digests[n + i] = 1;
        }
    }
    results->view.n_requests = n;
    results->view.digests    = results->digests;
    results->view.has_digest = results->digests + n;
    return sum(run, results->digests, 2 * (int64_t)n);
}

/* Tokens of one request where this rank speaks for it, as words to be summed.
 */
static void put_tokens(run_rank_t *run, const results_t *results,
                       int32_t request, int64_t from, int64_t to,
                       uint64_t *words)
{
    int64_t first = results->offsets[request];
    int64_t end   = results->offsets[request + 1];
    pl_exec_result_t mine;

    if (!speaks_for(run, request)) {
        return;
    }
    mine = run->executor->ops->result(run->executor, request);
    for (int64_t i = first > from ? first : from; (i < end) && (i < to); i++) {
        if (i - first < mine.n_tokens) {
            words[i - from] = (uint64_t)(uint32_t)mine.tokens[i - first];
        }
    }
}

static pl_status_t collect_tokens(run_rank_t *run, results_t *results)
{
    int32_t n       = results->view.n_requests;
    int32_t request = 0;
    int64_t total;
    uint64_t *words = NULL;
    pl_status_t status;

    results->offsets = calloc((size_t)n + 1, sizeof(*results->offsets));
    if (results->offsets == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t said = pl_engine_record(run->engine, i)->generated_tokens;

        results->offsets[i + 1] =
            results->offsets[i] + (has_tokens(run) ? said : 0);
    }
    total           = results->offsets[n];
    results->tokens = calloc((size_t)total + 1, sizeof(*results->tokens));
    words           = malloc(SUM_WORDS * sizeof(*words));
    if ((results->tokens == NULL) || (words == NULL)) {
        status = PL_ERR_MEMORY;
        goto out;
    }
    status = PL_OK;
    for (int64_t from = 0; from < total; from += SUM_WORDS) {
        int64_t to = from + SUM_WORDS < total ? from + SUM_WORDS : total;

        for (int64_t i = 0; i < to - from; i++) {
            words[i] = 0;
        }
        while ((request < n) && (results->offsets[request + 1] <= from)) {
            request++;
        }
        for (int32_t i = request; (i < n) && (results->offsets[i] < to); i++) {
            put_tokens(run, results, i, from, to, words);
        }
        PL_TRY_GOTO(status, sum(run, words, to - from), out);
        for (int64_t i = from; i < to; i++) {
            results->tokens[i] = (int32_t)words[i - from];
        }
    }
    results->view.token_offsets = results->offsets;
    results->view.tokens        = results->tokens;

out:
    free(words);
    return status;
}

static pl_status_t collect_counters(run_rank_t *run, results_t *results)
{
    uint64_t words[PL_EXEC_COUNTERS];
    const int64_t *mine = (const int64_t *)&run->executor->counters;
    int64_t *all        = (int64_t *)&results->view.counters;

    for (int64_t i = 0; i < PL_EXEC_COUNTERS; i++) {
        words[i] = (uint64_t)mine[i];
    }
    PL_TRY(sum(run, words, PL_EXEC_COUNTERS));
    for (int64_t i = 0; i < PL_EXEC_COUNTERS; i++) {
        all[i] = (int64_t)words[i];
    }
    return PL_OK;
}

pl_status_t pl_run_collect(run_rank_t *run)
{
    results_t results  = {0};
    pl_status_t status = PL_OK;

    PL_TRY_GOTO(status, collect_digests(run, &results), out);
    PL_TRY_GOTO(status, collect_tokens(run, &results), out);
    PL_TRY_GOTO(status, collect_counters(run, &results), out);
    PL_TRY_GOTO(status, pl_run_verify_cold(run, &results.view), out);
    if (run->params->done != NULL) {
        status = run->params->done(run->params->done_context, run->comm,
                                   run->engine, &results.view);
    }

out:
    free(results.digests);
    free(results.offsets);
    free(results.tokens);
    return status;
}
