/* Each request once more: cold, alone, on one rank, against what came of it. */
#include <stdlib.h>
#include <string.h>

#include "exec/run_internal.h"

/* This rank's requests are those of its number modulo the ranks. */
typedef struct check {
    run_rank_t *run;
    const pl_run_results_t *results;
    int32_t stride;
    bool under_way;
    pl_cold_t cold;
    int32_t *tokens; /* [the most that any request said] */
} check_t;

static int32_t n_said(const pl_run_results_t *results, int32_t request)
{
    return (int32_t)(results->token_offsets[request + 1] -
                     results->token_offsets[request]);
}

/* The first generated token that differs, as a position; -1: none does. */
static int32_t first_difference(const check_t *check)
{
    const pl_cold_t *cold = &check->cold;
    const int32_t *said =
        check->results->tokens + check->results->token_offsets[cold->request];

    for (int32_t i = 0; i < cold->n_new; i++) {
        if (said[i] != cold->tokens[i]) {
            return cold->n_prompt + i;
        }
    }
    return -1;
}

static void compare(const check_t *check)
{
    const pl_cold_t *cold = &check->cold;
    run_rank_t *run       = check->run;
    pl_violation_t wrong  = {
         .invariant = PL_INVARIANT_BYTES,
         .tick     = pl_engine_record(run->engine, cold->request)->finished_tick,
         .position = first_difference(check),
         .reader   = run->rank,
         .request  = cold->request,
         .node     = -1,
         .page     = -1,
         .owner    = -1,
         .slot     = -1,
         .tier     = PL_PLACE_DECODE};

    if ((wrong.position >= 0) ||
        (cold->digest != check->results->digests[cold->request])) {
        pl_violations_note(&run->executor->violations, &wrong);
    }
}

/* Begin the first request from `request` on that came to an end. */
static void begin(check_t *check, int32_t request)
{
    const pl_run_results_t *results = check->results;

    check->under_way = false;
    for (; request < results->n_requests; request += check->stride) {
        const pl_record_t *record =
            pl_engine_record(check->run->engine, request);

        if (record->failed || (results->has_digest[request] == 0) ||
            (n_said(results, request) == 0)) {
            continue;
        }
        check->cold      = (pl_cold_t){.request  = request,
                                       .n_prompt = record->prompt_tokens,
                                       .n_new    = n_said(results, request),
                                       .tokens   = check->tokens};
        check->under_way = true;
        return;
    }
}

/* One piece of the request under way; the next one when it is done. */
static pl_status_t advance(check_t *check)
{
    pl_executor_t *executor = check->run->executor;

    PL_TRY(executor->ops->cold(executor, &check->cold));
    if (pl_cold_is_done(&check->cold)) {
        compare(check);
        begin(check, check->cold.request + check->stride);
    }
    return PL_OK;
}

/* The ranks agree after each piece, so that nobody waits for long.  `mine`: can
 * this rank begin? */
static pl_status_t check_all(check_t *check, pl_status_t mine)
{
    run_rank_t *run = check->run;
    bool more       = true;

    begin(check, run->rank);
    while (more) {
        if ((mine == PL_OK) && check->under_way) {
            mine = advance(check);
        }
        more = check->under_way;
        PL_TRY(pl_runner_agree(&run->runner, run->engine, run->executor,
                               run->comm, mine, &more));
    }
    return PL_OK;
}

pl_status_t pl_run_verify_cold(run_rank_t *run, const pl_run_results_t *results)
{
    check_t check = {.run = run, .results = results};
    int32_t most  = 0;
    pl_status_t status;

    if ((run->params->verify != PL_VERIFY_FULL) ||
        (strcmp(run->params->executor, "model") != 0)) {
        return PL_OK;
    }
    check.stride = run->comm == NULL ? 1 : run->comm->n_ranks;
    for (int32_t i = 0; i < results->n_requests; i++) {
        most = n_said(results, i) > most ? n_said(results, i) : most;
    }
    check.tokens = malloc(((size_t)most + 1) * sizeof(*check.tokens));
    status = check_all(&check, check.tokens == NULL ? PL_ERR_MEMORY : PL_OK);
    free(check.tokens);
    return status;
}
