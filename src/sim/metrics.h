/* sim/metrics.h - what a run was like: sums and percentiles over its requests.
 *
 * Times are virtual (int64 nanoseconds) and so the same on every machine.
 *   TTFT   arrival to first token
 *   TPOT   (finished - first token) / (tokens - 1), of requests with two or
 * more E2E    arrival to finished queue  arrival to admission Failed requests
 * count as failed and in nothing else.
 */
#ifndef PL_SIM_METRICS_H
#define PL_SIM_METRICS_H

#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"

typedef struct pl_spread {
    int64_t n;
    double mean;                            /* of ns */
    int64_t p50_ns, p90_ns, p99_ns, max_ns; /* nearest rank; 0 if n is 0 */
} pl_spread_t;

typedef struct pl_metrics {
    int64_t n_requests, n_completed, n_failed;
    int64_t prompt_tokens, output_tokens; /* of completed requests */
    int64_t device_hit_tokens, host_hit_tokens, computed_tokens;
    int64_t n_device_hits, n_host_hits; /* requests with some */
    int64_t miss_pages[PL_MISSES];
    double mean_hit; /* mean over requests of hit / prompt tokens */
    int64_t preemptions, reentries, readmissions;
    int64_t duration_ns; /* first arrival to last finish */
    pl_spread_t ttft, tpot, e2e, queue;
} pl_metrics_t;

/* Of an engine that is done.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_metrics_make(const pl_engine_t *engine,
                                          pl_metrics_t *metrics_p);

#endif /* PL_SIM_METRICS_H */
