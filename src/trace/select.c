/* From the rows of a file to the requests of a trace. */
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"

/* Between the last arrival of a pass and the first of the next. */
#define PASS_GAP_NS INT64_C(1000000)

/* By arrival; rows of one time stay in the file's order. */
static int compare_rows(const void *a, const void *b)
{
    const pl_trace_row_t *left  = a;
    const pl_trace_row_t *right = b;

    if (left->time_ns != right->time_ns) {
        return left->time_ns < right->time_ns ? -1 : 1;
    }
    return (left->line > right->line) - (left->line < right->line);
}

static void sort_rows(pl_trace_rows_t *rows, const pl_trace_source_t *source)
{
    const pl_trace_row_t *row = rows->row.items;
    size_t n_back             = 0;
    size_t first_back         = 0;

    for (size_t i = 1; i < rows->row.n; i++) {
        if (row[i].time_ns < row[i - 1].time_ns) {
            first_back = n_back == 0 ? i : first_back;
            n_back++;
        }
    }
    if (n_back == 0) {
        return;
    }
    pl_log(source->log, PL_LOG_WARN,
           "%s:%lld: arrives before the line above it (so do %zu lines in "
           "all): expected ascending timestamps; sorted by arrival",
           source->name, (long long)row[first_back].line, n_back);
    qsort(rows->row.items, rows->row.n, sizeof(*rows->row.items), compare_rows);
}

static void warn_of_row_values(const pl_trace_t *trace,
                               const pl_trace_params_t *params,
                               const pl_trace_source_t *source)
{
    const pl_trace_row_t *row = trace->rows.row.items;

    for (size_t i = 0; i < trace->rows.row.n; i++) {
        if (row[i].output_tokens == 0) {
            pl_log(source->log, PL_LOG_WARN,
                   "%s:%lld: output length 0 (perhaps not the only one) is "
                   "taken as 1: a prefill makes a token",
                   source->name, (long long)row[i].line);
            break;
        }
    }
    /* Prompts alone never have times; nobody expects them. */
    if (params->paced && (row[0].time_ns == PL_TRACE_NO_TIME) &&
        (strcmp(pl_trace_format(trace), "prompts") != 0)) {
        pl_log(source->log, PL_LOG_WARN,
               "%s: no timestamps: all requests arrive at time 0",
               source->name);
    }
}

static int32_t ceil_scaled(int64_t tokens, int64_t numerator,
                           int64_t denominator)
{
    return (int32_t)((tokens * numerator + denominator - 1) / denominator);
}

/* Lengths in blocks of trace->block_tokens: whole blocks become whole blocks,
 * the last keeps its share, rounded up. */
static void scale_lengths(const pl_trace_t *trace, const pl_trace_row_t *row,
                          pl_request_t *request)
{
    int64_t own = trace->reader->block_tokens;
    int64_t now = trace->block_tokens;
    int64_t before;

    request->input_tokens  = row->input_tokens;
    request->output_tokens = row->output_tokens > 0 ? row->output_tokens : 1;
    if (now == own) {
        return;
    }
    before = (int64_t)row->n - 1;
    request->input_tokens =
        (int32_t)(before * now +
                  ceil_scaled(row->input_tokens - before * own, now, own));
    request->output_tokens = ceil_scaled(request->output_tokens, now, own);
}

/* Requests i of all passes, with their arrivals counted from the first row
 * taken; `pass_ns` is how long a pass lasts. */
static void fill_requests(pl_trace_t *trace, const pl_trace_params_t *params,
                          int64_t pass_ns)
{
    int64_t start = pl_trace_row(trace, 0)->time_ns;

    for (int32_t i = 0; i < trace->count; i++) {
        const pl_trace_row_t *row = pl_trace_row(trace, i);
        pl_request_t *request     = &trace->requests[i];

        trace->times_ns[i] =
            (i / trace->n_selected) * pass_ns + row->time_ns - start;
        scale_lengths(trace, row, request);
        if ((params->max_new > 0) &&
            (request->output_tokens > params->max_new)) {
            request->output_tokens = params->max_new;
        }
        request->name_space = row->name_space;
        request->line       = row->line;
        request->arrival_ns = params->paced ? trace->times_ns[i] : 0;
    }
}

static pl_status_t check_passes(const pl_trace_t *trace, int32_t passes,
                                int64_t pass_ns,
                                const pl_trace_source_t *source)
{
    int64_t most = INT32_MAX / trace->n_selected;

    if (most > INT64_MAX / pass_ns) {
        most = INT64_MAX / pass_ns;
    }
    if (passes > most) {
        pl_log(source->log, PL_LOG_ERROR,
               "--passes %d: expected at most %lld for %d requests in %lld s "
               "of %s; take less with --limit",
               (int)passes, (long long)most, (int)trace->n_selected,
               (long long)(pass_ns / 1000000000), source->name);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_trace_select(pl_trace_t *trace, const pl_trace_params_t *params,
                            const pl_trace_source_t *source)
{
    size_t n = trace->rows.row.n;
    size_t left;
    int64_t pass_ns;

    if (n > INT32_MAX) {
        return pl_trace_bad(source, 0,
                            "%zu requests: expected at most %d; split the file",
                            n, (int)INT32_MAX);
    }
    if ((uint64_t)params->offset >= n) {
        return pl_trace_bad(source, 0,
                            "%zu requests, none left after --offset %lld: "
                            "expected a smaller offset",
                            n, (long long)params->offset);
    }
    sort_rows(&trace->rows, source);
    warn_of_row_values(trace, params, source);

    trace->selected = (size_t)params->offset;
    left            = n - trace->selected;
    if ((params->limit >= 0) && ((uint64_t)params->limit < left)) {
        left = (size_t)params->limit;
    }
    trace->n_selected = (int32_t)left;
    pass_ns           = pl_trace_row(trace, trace->n_selected - 1)->time_ns -
              pl_trace_row(trace, 0)->time_ns + PASS_GAP_NS;
    PL_TRY(check_passes(trace, params->passes, pass_ns, source));

    trace->count    = trace->n_selected * params->passes;
    trace->requests = calloc((size_t)trace->count, sizeof(*trace->requests));
    trace->times_ns = calloc((size_t)trace->count, sizeof(*trace->times_ns));
    if ((trace->requests == NULL) || (trace->times_ns == NULL)) {
        return PL_ERR_MEMORY; /* pl_trace_close() frees what there is */
    }
    fill_requests(trace, params, pass_ns);
    return PL_OK;
}

const pl_request_t *pl_trace_request(const pl_trace_t *trace, int32_t i)
{
    return &trace->requests[i];
}
