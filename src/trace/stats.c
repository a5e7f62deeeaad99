#include "trace/stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/internal.h"
#include "trace/key_set.h"
#include "trace/prefix.h"

#define NS_PER_S 1e9

static int compare_int32(const void *a, const void *b)
{
    int32_t left;
    int32_t right;

    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static int32_t percentile(const int32_t *ascending, int64_t n, int64_t percent)
{
    return ascending[(n * percent + 99) / 100 - 1];
}

/* Of values[0 .. n-1], n > 0, which become sorted. */
static pl_trace_lengths_t lengths_of(int32_t *values, int32_t n)
{
    pl_trace_lengths_t lengths = {0};

    qsort(values, (size_t)n, sizeof(*values), compare_int32);
    for (int32_t i = 0; i < n; i++) {
        lengths.total += values[i];
    }
    lengths.mean = ratio(lengths.total, n);
    lengths.min  = values[0];
    lengths.p50  = percentile(values, n, 50);
    lengths.p90  = percentile(values, n, 90);
    lengths.p99  = percentile(values, n, 99);
    lengths.max  = values[n - 1];
    return lengths;
}

static pl_status_t count_lengths(const pl_trace_t *trace,
                                 pl_trace_stats_t *stats)
{
    int32_t *values = malloc((size_t)trace->count * sizeof(*values));

    if (values == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < trace->count; i++) {
        values[i] = trace->requests[i].input_tokens;
    }
    stats->input = lengths_of(values, trace->count);
    for (int32_t i = 0; i < trace->count; i++) {
        values[i] = trace->requests[i].output_tokens;
    }
    stats->output = lengths_of(values, trace->count);
    free(values);
    return PL_OK;
}

static void count_arrivals(const pl_trace_t *trace, pl_trace_stats_t *stats)
{
    const int64_t *times = trace->times_ns;
    int32_t at_once      = 0;

    stats->duration_ns = times[trace->count - 1] - times[0];
    for (int32_t i = 0; i < trace->count; i++) {
        if ((i == 0) || (times[i] != times[i - 1])) {
            stats->n_arrivals++;
            at_once = 0;
        }
        at_once++;
        stats->n_waiting += trace->requests[i].n_after > 0;
        if (at_once > stats->max_at_once) {
            stats->max_at_once = at_once;
        }
    }
    if (stats->duration_ns > 0) {
        stats->requests_per_s =
            (double)trace->count * NS_PER_S / (double)stats->duration_ns;
    }
}

/* Look request i up among `known` blocks and enter it. */
static pl_status_t use_blocks(const pl_trace_t *trace, int32_t i,
                              pl_key_set_t *known, pl_trace_stats_t *stats)
{
    const pl_request_t *request = &trace->requests[i];
    pl_page_key_t prefix        = pl_prefix_start(request);
    int32_t size   = pl_prefix_block_tokens(trace, i, stats->block_tokens);
    int32_t input  = request->input_tokens;
    int32_t n      = input / size + (input % size > 0 ? 1 : 0);
    int32_t n_hits = 0;
    int64_t tokens;

    for (int32_t k = 0; k < n; k++) {
        bool is_known = false;

        prefix = pl_prefix_block(trace, i, size, k, prefix);
        PL_TRY(pl_key_set_use(known, prefix, &is_known));
        n_hits += is_known && (n_hits == k);
        stats->n_first_blocks += (k == 0) && !is_known;
    }
    tokens = (int64_t)n_hits * size < input ? (int64_t)n_hits * size : input;
    stats->n_blocks += n;
    stats->n_full_blocks += input / size;
    stats->hit_blocks += n_hits;
    stats->hit_full_blocks += n_hits < input / size ? n_hits : input / size;
    stats->hit_tokens += tokens;
    stats->n_full_hits += n_hits == n;
    stats->request_ratio += ratio(tokens, input);
    return PL_OK;
}

static pl_status_t count_blocks(const pl_trace_t *trace,
                                pl_trace_stats_t *stats)
{
    pl_key_set_t known = {0};
    pl_status_t status = PL_OK;

    for (int32_t i = 0; i < trace->count; i++) {
        PL_TRY_GOTO(status, use_blocks(trace, i, &known, stats), out);
    }
    stats->n_unique_blocks  = (int64_t)known.n;
    stats->n_once_blocks    = (int64_t)pl_key_set_once(&known);
    stats->block_ratio      = ratio(stats->hit_blocks, stats->n_blocks);
    stats->token_ratio      = ratio(stats->hit_tokens, stats->input.total);
    stats->full_block_ratio = ratio(stats->hit_blocks, stats->n_full_blocks);
    stats->request_ratio /= (double)trace->count;

out:
    pl_key_set_free(&known);
    return status;
}

/* The same by pages, as an engine does it. */
static pl_status_t use_pages(const pl_trace_t *trace, int32_t i,
                             pl_page_key_t *keys, pl_key_set_t *known,
                             pl_trace_stats_t *stats)
{
    const pl_request_t *request = &trace->requests[i];
    pl_page_key_t prefix        = pl_prefix_start(request);
    int32_t size                = stats->page_size;
    int32_t n                   = request->input_tokens / size;
    int32_t most                = (request->input_tokens - 1) / size;
    int32_t n_hits              = 0;
    int64_t tokens;

    pl_trace_page_keys(trace, i, size, 0, n, keys);
    for (int32_t k = 0; k < n; k++) {
        bool is_known = false;

        prefix = pl_prefix_chain(prefix, keys[k]);
        PL_TRY(pl_key_set_use(known, prefix, &is_known));
        n_hits += is_known && (n_hits == k) && (k < most);
    }
    tokens = (int64_t)n_hits * size;
    stats->page_hit_tokens += tokens;
    stats->page_hit_blocks += tokens / stats->block_tokens;
    stats->page_request_ratio += ratio(tokens, request->input_tokens);
    return PL_OK;
}

static pl_status_t count_pages(const pl_trace_t *trace, pl_trace_stats_t *stats)
{
    size_t n_most       = (size_t)(stats->input.max / stats->page_size);
    pl_page_key_t *keys = malloc((n_most + 1) * sizeof(*keys));
    pl_key_set_t known  = {0};
    pl_status_t status  = keys != NULL ? PL_OK : PL_ERR_MEMORY;

    for (int32_t i = 0; (i < trace->count) && (status == PL_OK); i++) {
        status = use_pages(trace, i, keys, &known, stats);
    }
    stats->page_token_ratio = ratio(stats->page_hit_tokens, stats->input.total);
    stats->page_request_ratio /= (double)trace->count;
    pl_key_set_free(&known);
    free(keys);
    return status;
}

static pl_status_t count_name_spaces(const pl_trace_t *trace,
                                     pl_trace_stats_t *stats)
{
    pl_key_set_t known = {0};
    pl_status_t status = PL_OK;
    bool is_known      = false;

    for (int32_t i = 0; (i < trace->count) && (status == PL_OK); i++) {
        status = pl_key_set_use(&known, pl_prefix_start(&trace->requests[i]),
                                &is_known);
    }
    stats->n_name_spaces = (int32_t)known.n;
    pl_key_set_free(&known);
    return status;
}

pl_status_t pl_trace_stats(const pl_trace_t *trace, int32_t page_size,
                           const pl_log_t *log, pl_trace_stats_t *stats_p)
{
    pl_trace_stats_t stats = {0};

    if (page_size < 1) {
        pl_log(log, PL_LOG_ERROR,
               "option --page-size %d: expected 1 or more tokens a page",
               (int)page_size);
        return PL_ERR_ARGUMENT;
    }
    stats.has_prefixes = trace->has_prefixes;
    stats.n_requests   = trace->count;
    stats.page_size    = page_size;
    stats.block_tokens =
        trace->block_tokens > 0 ? trace->block_tokens : page_size;
    count_arrivals(trace, &stats);
    PL_TRY(count_name_spaces(trace, &stats));
    PL_TRY(count_lengths(trace, &stats));
    if (trace->has_prefixes) {
        PL_TRY(count_blocks(trace, &stats));
        PL_TRY(count_pages(trace, &stats));
    }
    *stats_p = stats;
    return PL_OK;
}
