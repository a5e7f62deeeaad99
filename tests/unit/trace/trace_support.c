#include "trace_support.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trace/internal.h"

static void hear(void *context, pl_log_level_t level, const char *line)
{
    heard_t *heard = context;
    char *kept     = level == PL_LOG_ERROR ? heard->error : heard->warning;

    heard->n_errors += level == PL_LOG_ERROR;
    heard->n_warnings += level == PL_LOG_WARN;
    (void)snprintf(kept, sizeof(heard->error), "%s", line);
}

pl_log_t log_of(heard_t *heard)
{
    pl_log_t log = {hear, heard, PL_LOG_WARN};

    memset(heard, 0, sizeof(*heard));
    return log;
}

pl_status_t open_text(const char *text, const pl_trace_params_t *params,
                      heard_t *heard, pl_trace_t **trace_p)
{
    pl_trace_params_t usual = pl_trace_params_default();
    pl_log_t log            = log_of(heard);

    return pl_trace_open_memory(params != NULL ? params : &usual, "t.jsonl",
                                text, strlen(text), &log, trace_p);
}

pl_trace_t *must_open_text(const char *text, const pl_trace_params_t *params)
{
    pl_trace_t *trace = NULL;
    heard_t heard;
    pl_status_t status = open_text(text, params, &heard, &trace);

    ck_assert_msg(status == PL_OK, "%s: %s", pl_status_text(status),
                  heard.error);
    ck_assert_int_eq(heard.n_errors, 0);
    return trace;
}

pl_trace_t *must_open_file(const char *path, const pl_trace_params_t *params)
{
    pl_trace_params_t with_path =
        params != NULL ? *params : pl_trace_params_default();
    pl_trace_t *trace = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);
    pl_status_t status;

    with_path.path = path;
    status         = pl_trace_open(&with_path, &log, &trace);
    ck_assert_msg(status == PL_OK, "%s: %s", pl_status_text(status),
                  heard.error);
    ck_assert_int_eq(heard.n_errors + heard.n_warnings, 0);
    return trace;
}

enum { MAX_BLOCKS = 16 };

char *random_trie(uint64_t seed, int n_rows, int max_blocks)
{
    pl_rng_t rng               = pl_rng_seed(seed);
    size_t row_bytes           = 128 + 24 * MAX_BLOCKS;
    char *text                 = calloc((size_t)n_rows, row_bytes);
    int *lengths               = calloc((size_t)n_rows, sizeof(*lengths));
    uint64_t(*ids)[MAX_BLOCKS] = calloc((size_t)n_rows, sizeof(*ids));
    size_t at                  = 0;

    ck_assert(text != NULL && lengths != NULL && ids != NULL);
    ck_assert_int_le(max_blocks, MAX_BLOCKS);
    for (int r = 0; r < n_rows; r++) {
        int n      = 1 + (int)pl_rng_below(&rng, (uint64_t)max_blocks);
        int parent = r > 0 ? (int)pl_rng_below(&rng, (uint64_t)r) : -1;
        int shared =
            parent >= 0 ? (int)pl_rng_below(&rng, (uint64_t)lengths[parent] + 1)
                        : 0;
        int last = 1 + (int)pl_rng_below(&rng, 512);

        shared     = shared < n ? shared : n;
        lengths[r] = n;
        at += (size_t)sprintf(text + at,
                              "{\"timestamp\": %d, \"input_length\": %d, "
                              "\"output_length\": %d, \"hash_ids\": [",
                              r, (n - 1) * 512 + last,
                              1 + (int)pl_rng_below(&rng, 900));
        for (int k = 0; k < n; k++) {
            ids[r][k] = k < shared ? ids[parent][k] : pl_rng_next(&rng);
            at += (size_t)sprintf(text + at, "%s%" PRIu64, k > 0 ? ", " : "",
                                  ids[r][k]);
        }
        at += (size_t)sprintf(text + at, "]}\n");
    }
    free(ids);
    free(lengths);
    return text;
}
