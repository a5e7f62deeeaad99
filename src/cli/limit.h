/* cli/limit.h - what `compare --fail-if` says: METRIC.STAT>+5%.
 *
 *   METRIC  ttft, e2e, tpot, queueing (times); device_hit, host_hit,
 *           storage_hit, computed (tokens of a prompt)
 *   STAT    mean, p50, p90, p99
 *   > or <  then a signed change from A to B: a percentage of A (+5%), or an
 *           amount with its unit: +20ms (ns, us, ms, s), -64tokens
 *
 * The limit is broken if B's value less A's is above (below) it.
 */
#ifndef PL_CLI_LIMIT_H
#define PL_CLI_LIMIT_H

#include <stdbool.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef enum pl_metric {
    PL_METRIC_IS_TTFT,
    PL_METRIC_IS_E2E,
    PL_METRIC_IS_TPOT,
    PL_METRIC_IS_QUEUEING,
    PL_METRIC_IS_DEVICE_HIT,
    PL_METRIC_IS_HOST_HIT,
    PL_METRIC_IS_STORAGE_HIT,
    PL_METRIC_IS_COMPUTED,
    PL_METRICS
} pl_metric_t;

enum { PL_STAT_MEAN, PL_STAT_P50, PL_STAT_P90, PL_STAT_P99, PL_STATS };

const char *pl_metric_name(pl_metric_t metric);
bool pl_metric_is_time(pl_metric_t metric); /* in ns; else in tokens */
const char *pl_stat_name(int stat);

typedef struct pl_limit {
    pl_metric_t metric;
    int stat;
    bool above;      /* else below */
    bool is_percent; /* else ns or tokens */
    double change;
} pl_limit_t;

/* PL_OK, or PL_ERR_ARGUMENT with one line that says what was expected where. */
PL_MUST_CHECK pl_status_t pl_limit_parse(const char *text, const pl_log_t *log,
                                         pl_limit_t *limit_p);

/* Is it broken by a value that was a and is b?  A percentage of 0 is without
 * bounds. */
bool pl_limit_is_broken(const pl_limit_t *limit, double a, double b);

#endif /* PL_CLI_LIMIT_H */
