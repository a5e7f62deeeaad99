/* The trace readers on any bytes: refused with exactly one line, or a trace
 * whose laws hold. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "trace/internal.h"
#include "trace/stats.h"

static void require(bool law)
{
    if (!law) {
        abort();
    }
}

static void count_errors(void *context, pl_log_level_t level, const char *line)
{
    int *n_errors = context;

    (void)line;
    *n_errors += level == PL_LOG_ERROR;
}

/* A page's tokens, in one piece and one by one; its key twice. */
static void check_page(const pl_trace_t *trace, int32_t i, int32_t page)
{
    enum { PAGE = 48 };
    int32_t whole[PAGE];
    int32_t single;
    pl_page_key_t keys[2];

    pl_trace_tokens(trace, i, page * PAGE, PAGE, whole);
    for (int32_t k = 0; k < PAGE; k++) {
        pl_trace_tokens(trace, i, page * PAGE + k, 1, &single);
        require((single == whole[k]) && (single >= 0));
    }
    pl_trace_page_keys(trace, i, PAGE, page, 1, &keys[0]);
    pl_trace_page_keys(trace, i, PAGE, page, 1, &keys[1]);
    require(memcmp(&keys[0], &keys[1], sizeof(keys[0])) == 0);
}

static void check_trace(const pl_trace_t *trace)
{
    int64_t now = 0;
    pl_trace_stats_t stats;

    require(pl_trace_count(trace) > 0);
    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        const pl_request_t *request = pl_trace_request(trace, i);
        int32_t n_pages             = request->input_tokens / 48;

        require(request->arrival_ns >= now);
        require((request->input_tokens >= 1) && (request->output_tokens >= 1));
        require(request->line >= 1);
        now = request->arrival_ns;
        if (n_pages > 0) {
            check_page(trace, i, 0);
            check_page(trace, i, n_pages - 1);
        }
    }
    require(pl_trace_stats(trace, 16, NULL, &stats) == PL_OK);
    require(stats.hit_blocks + stats.n_unique_blocks <= stats.n_blocks);
    require(stats.page_hit_tokens < stats.input.total);
    require((stats.token_ratio >= 0) && (stats.token_ratio <= 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t BLOCK_TOKENS[] = {0, 64};

    for (int k = 0; k < 2; k++) {
        pl_trace_params_t params = pl_trace_params_default();
        pl_trace_t *trace        = NULL;
        int n_errors             = 0;
        pl_log_t log             = {count_errors, &n_errors, PL_LOG_WARN};
        pl_status_t status;

        params.block_tokens = BLOCK_TOKENS[k];
        params.paced        = true;
        params.passes       = 1 + k;
        status = pl_trace_open_memory(&params, "fuzz", (const char *)data, size,
                                      &log, &trace);
        require((status == PL_OK) == (trace != NULL));
        require(n_errors == (status == PL_OK ? 0 : 1));
        if (trace != NULL) {
            check_trace(trace);
        }
        pl_trace_close(trace);
    }
    return 0;
}
