/* The trace readers on any bytes: refused with exactly one line, or a trace
 * whose laws hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "trace/internal.h"
#include "trace/lru.h"
#include "trace/stats.h"
#include "trace/write.h"

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

/* Prompts that are not too long to be counted and written. */
static bool is_small(const pl_trace_t *trace)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        sum += pl_trace_request(trace, i)->input_tokens;
    }
    return sum <= 1 << 20;
}

/* More room never hits less, and room for all hits all that can be hit. */
static void check_lru(const pl_trace_t *trace, const pl_trace_stats_t *stats)
{
    pl_lru_curve_t curve;

    require(pl_lru_curve(trace, 16, false, NULL, &curve) == PL_OK);
    for (int64_t c = 1; c <= curve.most; c++) {
        require(curve.hit_blocks[c] >= curve.hit_blocks[c - 1]);
        require(curve.hit_tokens[c] >= curve.hit_tokens[c - 1]);
    }
    require(curve.hit_blocks[curve.most] == stats->hit_blocks);
    require(curve.hit_tokens[curve.most] == stats->hit_tokens);
    pl_lru_curve_free(&curve);
}

/* Each waits for the same as before, if times are so short that ms with a
 * fraction say them to the ns. */
static void check_waits(const pl_trace_t *trace, const pl_trace_t *again)
{
    int32_t last = pl_trace_count(trace) - 1;

    if (pl_trace_request(trace, last)->arrival_ns >= INT64_C(1) << 50) {
        return;
    }
    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        const pl_request_t *a = pl_trace_request(trace, i);
        const pl_request_t *b = pl_trace_request(again, i);

        require(a->n_after == b->n_after);
        for (int32_t k = 0; k < a->n_after; k++) {
            require(a->after[k] == b->after[k]);
        }
    }
}

/* What is written in any format is read again, request for request. */
static void check_written(const pl_trace_t *trace)
{
    static const char *const FORMATS[] = {"mooncake", "tokens", "bailian",
                                          "agentic", "csv"};
    enum { KEEP_WAITS = 2 };
    pl_trace_params_t params = pl_trace_params_default();

    params.paced = true;
    for (size_t f = 0; f < sizeof(FORMATS) / sizeof(FORMATS[0]); f++) {
        pl_trace_write_params_t write = {.format = FORMATS[f]};
        pl_trace_t *again             = NULL;
        char *text                    = NULL;
        size_t n                      = 0;
        FILE *file                    = open_memstream(&text, &n);

        require(file != NULL);
        require(pl_trace_write(trace, &write, file, NULL) == PL_OK);
        require(fclose(file) == 0);
        require(pl_trace_open_memory(&params, "written", text, n, NULL,
                                     &again) == PL_OK);
        require(pl_trace_count(again) == pl_trace_count(trace));
        if (f < KEEP_WAITS) {
            check_waits(trace, again);
        }
        pl_trace_close(again);
        free(text);
    }
}

static void check_trace(const pl_trace_t *trace)
{
    int64_t now            = 0;
    pl_trace_stats_t stats = {0};

    require(pl_trace_count(trace) > 0);
    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        const pl_request_t *request = pl_trace_request(trace, i);
        int32_t n_pages             = request->input_tokens / 48;

        require(request->arrival_ns >= now);
        require((request->input_tokens >= 1) && (request->output_tokens >= 1));
        require(request->line >= 1);
        require((request->delay_ns >= 0) && (request->n_after >= 0));
        for (int32_t k = 0; k < request->n_after; k++) {
            require((request->after[k] >= 0) && (request->after[k] < i));
            require((k == 0) || (request->after[k] > request->after[k - 1]));
        }
        now = request->arrival_ns;
        if (n_pages > 0) {
            check_page(trace, i, 0);
            check_page(trace, i, n_pages - 1);
        }
    }
    if (!is_small(trace)) {
        return;
    }
    check_written(trace);
    require(pl_trace_stats(trace, 16, NULL, &stats) == PL_OK);
    if (!pl_trace_has_prefixes(trace)) {
        return;
    }
    check_lru(trace, &stats);
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
