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

pl_spread_t pl_metrics_spread(int64_t *values, int64_t n)
{
    pl_spread_t spread = {.n = n};
    double sum         = 0;

    if (n > 0) {
        qsort(values, (size_t)n, sizeof(*values), compare);
    }
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

bool pl_metrics_counts(const pl_record_t *record)
{
    return !record->failed && !record->skipped && (record->finished_ns >= 0);
}

bool pl_metrics_time(const pl_record_t *record, pl_metric_time_t which,
                     int64_t *ns_p)
{
    switch (which) {
    case PL_METRIC_TTFT:
        *ns_p = record->first_token_ns - record->arrival_ns;
        return true;
    case PL_METRIC_TPOT:
        if (record->generated_tokens < 2) {
            return false;
        }
        *ns_p = (record->finished_ns - record->first_token_ns) /
                (record->generated_tokens - 1);
        return true;
    case PL_METRIC_E2E:
        *ns_p = record->finished_ns - record->arrival_ns;
        return true;
    case PL_METRIC_QUEUE:
        *ns_p = record->admitted_ns - record->arrival_ns;
        return true;
    }
    return false;
}

static pl_spread_t collect(const pl_record_t *records, int32_t n,
                           int64_t *values, pl_metric_time_t which)
{
    int64_t n_values = 0;

    for (int32_t i = 0; i < n; i++) {
        if (pl_metrics_counts(&records[i]) &&
            pl_metrics_time(&records[i], which, &values[n_values])) {
            n_values++;
        }
    }
    return pl_metrics_spread(values, n_values);
}

static void add_request(pl_metrics_t *metrics, const pl_record_t *record)
{
    int64_t hit = (int64_t)record->device_hit_tokens + record->host_hit_tokens +
                  record->storage_hit_tokens;

    metrics->preemptions += record->preemptions;
    metrics->reentries += record->reentries;
    metrics->readmissions += record->readmissions;
    metrics->n_failed += record->failed;
    metrics->n_skipped += !record->failed && record->skipped;
    if (!pl_metrics_counts(record)) {
        return;
    }
    metrics->n_completed++;
    metrics->prompt_tokens += record->prompt_tokens;
    metrics->output_tokens += record->generated_tokens;
    metrics->device_hit_tokens += record->device_hit_tokens;
    metrics->host_hit_tokens += record->host_hit_tokens;
    metrics->storage_hit_tokens += record->storage_hit_tokens;
    metrics->n_device_hits += record->device_hit_tokens > 0;
    metrics->n_host_hits += record->host_hit_tokens > 0;
    metrics->n_storage_hits += record->storage_hit_tokens > 0;
    metrics->computed_tokens += record->prompt_tokens - hit;
    metrics->mean_hit += (double)hit / record->prompt_tokens;
    for (int m = 0; m < PL_MISSES; m++) {
        metrics->miss_pages[m] += record->miss_pages[m];
    }
}

pl_status_t pl_metrics_of(const pl_record_t *records, int32_t n,
                          pl_metrics_t *metrics_p)
{
    pl_metrics_t metrics = {.n_requests = n};
    int64_t last         = 0;
    int64_t *values      = malloc(((size_t)n + 1) * sizeof(*values));

    if (values == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        add_request(&metrics, &records[i]);
        last = records[i].finished_ns > last ? records[i].finished_ns : last;
    }
    metrics.n_unfinished = metrics.n_requests - metrics.n_completed -
                           metrics.n_failed - metrics.n_skipped;
    if (metrics.n_completed > 0) {
        metrics.mean_hit /= (double)metrics.n_completed;
    }
    if ((n > 0) && (last > records[0].arrival_ns)) {
        metrics.duration_ns = last - records[0].arrival_ns;
    }
    metrics.ttft  = collect(records, n, values, PL_METRIC_TTFT);
    metrics.tpot  = collect(records, n, values, PL_METRIC_TPOT);
    metrics.e2e   = collect(records, n, values, PL_METRIC_E2E);
    metrics.queue = collect(records, n, values, PL_METRIC_QUEUE);
    free(values);
    *metrics_p = metrics;
    return PL_OK;
}
