/* From the rows of a file to the requests of a trace. */
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"

/* Between the last arrival of a pass and the first of the next. */
#define PASS_GAP_NS INT64_C(1000000)

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
                   row[i].file, (long long)row[i].line);
            break;
        }
    }
    /* Prompts alone never have times; nobody expects them. */
    if (params->paced && !trace->has_times &&
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
    int64_t own = row->block_tokens;
    int64_t now = pl_trace_row_block(trace, row);
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

/* A time or delay of the file, at the speed that was asked for. */
static int64_t at_speed(const pl_trace_params_t *params, int64_t ns)
{
    return params->speedup == 1.0
               ? ns
               : (int64_t)((double)ns / params->speedup + 0.5);
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

        trace->times_ns[i] = (i / trace->n_selected) * pass_ns +
                             at_speed(params, row->time_ns - start);
        scale_lengths(trace, row, request);
        if ((params->max_new > 0) &&
            (request->output_tokens > params->max_new)) {
            request->output_tokens = params->max_new;
        }
        request->name_space = row->name_space;
        request->line       = row->line;
        request->arrival_ns = params->paced ? trace->times_ns[i] : 0;
        request->not_before = row->not_before;
        request->delay_ns = params->paced ? at_speed(params, row->delay_ns) : 0;
    }
}

static int compare_int32(const void *a, const void *b)
{
    int32_t left;
    int32_t right;

    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

/* Requests of the first pass that row i of those taken waits for, of those that
 * are taken too, appended to trace->after. */
static int32_t list_after(pl_trace_t *trace, int32_t i, const int32_t *places,
                          size_t *n_p)
{
    const pl_trace_row_t *row = pl_trace_row(trace, i);
    int32_t *list             = &trace->after[*n_p];
    int32_t n                 = 0;

    for (size_t k = 0; k < row->n_after; k++) {
        size_t before = trace->rows.after.items[row->first_after + k];

        if (places[before] >= 0) {
            list[n++] = places[before];
        }
    }
    qsort(list, (size_t)n, sizeof(*list), compare_int32);
    *n_p += (size_t)n;
    return n;
}

/* In each pass requests wait for those of the same pass. */
static void copy_after(pl_trace_t *trace, int32_t i, size_t *n_p)
{
    const pl_request_t *first = &trace->requests[i % trace->n_selected];
    pl_request_t *request     = &trace->requests[i];

    request->after   = &trace->after[*n_p];
    request->n_after = first->n_after;
    for (int32_t k = 0; k < first->n_after; k++) {
        trace->after[(*n_p)++] = first->after[k] + (i - i % trace->n_selected);
    }
}

static pl_status_t fill_after(pl_trace_t *trace)
{
    size_t n_rows   = trace->rows.row.n;
    int32_t *places = malloc((n_rows + 1) * sizeof(*places));
    size_t n        = 0;

    for (int32_t i = 0; i < trace->n_selected; i++) {
        n += pl_trace_row(trace, i)->n_after;
    }
    n *= (size_t)(trace->count / trace->n_selected);
    trace->after = malloc((n + 1) * sizeof(*trace->after));
    if ((places == NULL) || (trace->after == NULL)) {
        free(places);
        return PL_ERR_MEMORY;
    }
    memset(places, 0xFF, n_rows * sizeof(*places)); /* -1: not taken */
    for (int32_t i = 0; i < trace->n_selected; i++) {
        places[pl_trace_row(trace, i)->number] = i;
    }
    n = 0;
    for (int32_t i = 0; i < trace->count; i++) {
        if (i >= trace->n_selected) {
            copy_after(trace, i, &n);
            continue;
        }
        trace->requests[i].after   = &trace->after[n];
        trace->requests[i].n_after = list_after(trace, i, places, &n);
    }
    free(places);
    return PL_OK;
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
               "option --passes %d: expected at most %lld for %d requests in "
               "%lld s of %s; take less with --limit",
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
    warn_of_row_values(trace, params, source);

    trace->selected = (size_t)params->offset;
    left            = n - trace->selected;
    if ((params->limit >= 0) && ((uint64_t)params->limit < left)) {
        left = (size_t)params->limit;
    }
    trace->n_selected = (int32_t)left;
    pass_ns           = pl_trace_row(trace, trace->n_selected - 1)->time_ns -
              pl_trace_row(trace, 0)->time_ns;
    if ((double)pass_ns / params->speedup > (double)PL_TRACE_MAX_NS) {
        pl_log(source->log, PL_LOG_ERROR,
               "option --speedup %g: %lld s of %s become more than 285 years; "
               "expected a larger one",
               params->speedup, (long long)(pass_ns / 1000000000),
               source->name);
        return PL_ERR_ARGUMENT;
    }
    pass_ns = at_speed(params, pass_ns) + PASS_GAP_NS;
    PL_TRY(check_passes(trace, params->passes, pass_ns, source));

    trace->count    = trace->n_selected * params->passes;
    trace->requests = calloc((size_t)trace->count, sizeof(*trace->requests));
    trace->times_ns = calloc((size_t)trace->count, sizeof(*trace->times_ns));
    if ((trace->requests == NULL) || (trace->times_ns == NULL)) {
        return PL_ERR_MEMORY; /* pl_trace_close() frees what there is */
    }
    fill_requests(trace, params, pass_ns);
    return fill_after(trace);
}

const pl_request_t *pl_trace_request(const pl_trace_t *trace, int32_t i)
{
    return &trace->requests[i];
}
