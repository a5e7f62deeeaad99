/* cli/fleet_sides.h - how busy the sides of a fleet were, and what requests
 * waited for (docs/fleet.md). */
#ifndef PL_CLI_FLEET_SIDES_H
#define PL_CLI_FLEET_SIDES_H

#include <stdint.h>

#include "sim/fleet.h"
#include "sim/metrics.h"
#include "sim/outcome.h"

/* Of all prefill instances, or of all that decode. */
typedef struct pl_fleet_side {
    int32_t n;        /* instances */
    double busy;      /* share of the run in which they computed, mean */
    double link_busy; /* in which a transfer of theirs was under way, mean */
    double imbalance; /* tokens that the busiest computed over the mean */
    double batch;     /* decode: requests that step at the same time in a home,
                         over the run, mean */
    int64_t tokens;   /* that they computed */
    int64_t most_waiting;
} pl_fleet_side_t;

typedef struct pl_fleet_sides {
    pl_fleet_side_t prefill, decode;
    /* ns, of the mean request */
    double for_prefill, for_home, for_transfer, for_batch;
} pl_fleet_sides_t;

/* homes: of one instance that decodes. */
pl_fleet_sides_t pl_fleet_sides(const pl_outcome_t *outcome,
                                const pl_metrics_t *metrics, int32_t homes);

/* Requests that step at the same time in a home of an instance, over the run.
 */
double pl_fleet_batch(const pl_fleet_usage_t *usage, int64_t duration_ns,
                      int32_t homes);

#endif /* PL_CLI_FLEET_SIDES_H */
