/* sim/metrics.h - what a run was like: sums and percentiles over its requests.
 *
 * Times are virtual (int64 nanoseconds) and so the same on every machine.
 *
 *   ttft: arrival to first token
 *
 *   tpot: (finished - first token) / (tokens - 1), rounded down; of requests
 *   with two tokens or more
 *
 *   e2e: arrival to finished
 *
 *   queue: arrival to admission
 *
 * Requests that failed, have not finished, or finished before the run count as
 * that and in nothing else.
 */
#ifndef PL_SIM_METRICS_H
#define PL_SIM_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"

typedef struct pl_spread {
    int64_t n;
    double mean;                            /* of ns, or what was given */
    int64_t p50_ns, p90_ns, p99_ns, max_ns; /* nearest rank; 0 if n is 0 */
} pl_spread_t;

typedef struct pl_metrics {
    int64_t n_requests, n_completed, n_failed, n_unfinished, n_skipped;
    int64_t prompt_tokens, output_tokens; /* of completed requests */
    int64_t device_hit_tokens, host_hit_tokens, storage_hit_tokens;
    int64_t computed_tokens;
    int64_t n_device_hits, n_host_hits, n_storage_hits; /* requests with some */
    int64_t miss_pages[PL_MISSES];
    double mean_hit; /* mean over requests of hit / prompt tokens */
    int64_t preemptions, reentries, readmissions;
    int64_t duration_ns; /* first arrival to last finish */
    pl_spread_t ttft, tpot, e2e, queue;
} pl_metrics_t;

/* Of records[n], in order of arrival, with prompts of a token or more.  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_metrics_of(const pl_record_t *records, int32_t n,
                                        pl_metrics_t *metrics_p);

typedef enum pl_metric_time {
    PL_METRIC_TTFT,
    PL_METRIC_TPOT,
    PL_METRIC_E2E,
    PL_METRIC_QUEUE
} pl_metric_time_t;

/* Does the request count?  It has completed in this run. */
bool pl_metrics_counts(const pl_record_t *record);

/* A time of a request that counts; false: it has none. */
bool pl_metrics_time(const pl_record_t *record, pl_metric_time_t which,
                     int64_t *ns_p);

/* Mean and percentiles (nearest rank); sorts `values`. */
pl_spread_t pl_metrics_spread(int64_t *values, int64_t n);

#endif /* PL_SIM_METRICS_H */
