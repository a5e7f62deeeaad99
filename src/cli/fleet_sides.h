/* cli/fleet_sides.h - how busy the sides of a fleet were, what requests waited
 * for, and so which side limits (docs/fleet.md). */
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
    double batch;     /* decode: requests at the same time in a home, mean */
    int64_t tokens;   /* that they computed */
    int64_t most_waiting;
} pl_fleet_side_t;

typedef enum pl_fleet_limit {
    PL_FLEET_LIMIT_NONE, /* waiting is next to nothing of all time */
    PL_FLEET_LIMIT_PREFILL,
    PL_FLEET_LIMIT_DECODE,
    PL_FLEET_LIMIT_LINK
} pl_fleet_limit_t;

typedef struct pl_fleet_sides {
    pl_fleet_side_t prefill, decode;
    /* ns, of the mean request */
    double for_prefill, for_home, for_transfer, for_batch;
    pl_fleet_limit_t limit;
} pl_fleet_sides_t;

/* "prefill", "decode", "link" or "none". */
const char *pl_fleet_limit_text(pl_fleet_limit_t limit);

/* homes: of one instance that decodes. */
pl_fleet_sides_t pl_fleet_sides(const pl_outcome_t *outcome,
                                const pl_metrics_t *metrics, int32_t homes);

/* Requests at the same time in a home of this instance, over the run. */
double pl_fleet_batch(const pl_outcome_t *outcome, int64_t duration_ns,
                      int32_t instance, int32_t homes);

#endif /* PL_CLI_FLEET_SIDES_H */
