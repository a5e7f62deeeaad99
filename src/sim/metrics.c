#include "sim/metrics.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Nearest rank: the smallest value that `percent` of all do not exceed. */
static int64_t percentile(const int64_t *sorted, int64_t n, int64_t percent)
{
    int64_t rank = (n * percent + 99) / 100;

    return n == 0 ? 0 : sorted[rank > 0 ? rank - 1 : 0];
}

static pl_spread_t spread_of(int64_t *values, int64_t n)
{
    pl_spread_t spread = {.n = n};
    double sum         = 0;

    qsort(values, (size_t)n, sizeof(*values), compare);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)values[i];
    }
    spread.mean   = n > 0 ? sum / (double)n : 0;
    spread.p50_ns = percentile(values, n, 50);
    spread.p90_ns = percentile(values, n, 90);
    spread.p99_ns = percentile(values, n, 99);
    spread.max_ns = percentile(values, n, 100);
    return spread;
}

/* One time of a request; false: it has none. */
typedef bool (*time_of_t)(const pl_record_t *record, int64_t *ns_p);

static bool ttft(const pl_record_t *record, int64_t *ns_p)
{
    *ns_p = record->first_token_ns - record->arrival_ns;
    return true;
}

static bool tpot(const pl_record_t *record, int64_t *ns_p)
{
    if (record->generated_tokens < 2) {
        return false;
    }
    *ns_p = (record->finished_ns - record->first_token_ns) /
            (record->generated_tokens - 1);
    return true;
}

static bool e2e(const pl_record_t *record, int64_t *ns_p)
{
    *ns_p = record->finished_ns - record->arrival_ns;
    return true;
}

static bool queue(const pl_record_t *record, int64_t *ns_p)
{
    *ns_p = record->admitted_ns - record->arrival_ns;
    return true;
}

static pl_spread_t collect(const pl_engine_t *engine, int64_t *values,
                           time_of_t time_of)
{
    int64_t n = 0;

    for (int32_t i = 0; i < pl_engine_n_requests(engine); i++) {
        const pl_record_t *record = pl_engine_record(engine, i);

        if (!record->failed && time_of(record, &values[n])) {
            n++;
        }
    }
    return spread_of(values, n);
}

static void add_request(pl_metrics_t *metrics, const pl_record_t *record)
{
    int64_t hit = (int64_t)record->device_hit_tokens + record->host_hit_tokens;

    metrics->preemptions += record->preemptions;
    metrics->reentries += record->reentries;
    metrics->readmissions += record->readmissions;
    if (record->failed) {
        metrics->n_failed++;
        return;
    }
    metrics->n_completed++;
    metrics->prompt_tokens += record->prompt_tokens;
    metrics->output_tokens += record->generated_tokens;
    metrics->device_hit_tokens += record->device_hit_tokens;
    metrics->host_hit_tokens += record->host_hit_tokens;
    metrics->n_device_hits += record->device_hit_tokens > 0;
    metrics->n_host_hits += record->host_hit_tokens > 0;
    metrics->mean_hit += (double)hit / record->prompt_tokens;
    for (int m = 0; m < PL_MISSES; m++) {
        metrics->miss_pages[m] += record->miss_pages[m];
    }
}

pl_status_t pl_metrics_make(const pl_engine_t *engine, pl_metrics_t *metrics_p)
{
    int32_t n            = pl_engine_n_requests(engine);
    pl_metrics_t metrics = {.n_requests = n};
    int64_t last         = 0;
    int64_t *values      = malloc(((size_t)n + 1) * sizeof(*values));

    if (values == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        const pl_record_t *record = pl_engine_record(engine, i);

        add_request(&metrics, record);
        last = record->finished_ns > last ? record->finished_ns : last;
    }
    if (metrics.n_completed > 0) {
        metrics.mean_hit /= (double)metrics.n_completed;
    }
    if (n > 0) {
        metrics.duration_ns = last - pl_engine_record(engine, 0)->arrival_ns;
    }
    metrics.computed_tokens = metrics.prompt_tokens -
                              metrics.device_hit_tokens -
                              metrics.host_hit_tokens;
    metrics.ttft  = collect(engine, values, ttft);
    metrics.tpot  = collect(engine, values, tpot);
    metrics.e2e   = collect(engine, values, e2e);
    metrics.queue = collect(engine, values, queue);
    free(values);
    *metrics_p = metrics;
    return PL_OK;
}
