/* cli/fleet_tables.h - what instances and their sides came to, as tables and
 * JSON: of a simulation, or of its snapshot (docs/fleet.md). */
#ifndef PL_CLI_FLEET_TABLES_H
#define PL_CLI_FLEET_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/fleet_sides.h"
#include "cli/json.h"
#include "sim/metrics.h"
#include "sim/outcome.h"

/* What is said of an instance; shares are of the run's duration. */
typedef struct pl_fleet_said {
    bool prefills, decodes;
    double hits; /* share of the prompt tokens that were not computed */
    double batch;
    double prefill_busy, decode_busy, link_busy;
    double wait_ms; /* the mean */
} pl_fleet_said_t;

/* homes: of an instance that decodes, here and below. */
pl_fleet_said_t pl_fleet_said(const pl_outcome_t *outcome, int64_t duration_ns,
                              int32_t homes, int32_t i);

/* On stdout.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_fleet_print_instances(const pl_outcome_t *outcome,
                                                   const pl_metrics_t *metrics,
                                                   int32_t homes);
PL_MUST_CHECK pl_status_t pl_fleet_print_sides(const pl_fleet_sides_t *sides,
                                               const pl_metrics_t *metrics);

/* Members of `object`: "instances" is a list. */
void pl_fleet_sides_json(json_object *object, const pl_fleet_sides_t *sides);
void pl_fleet_instances_json(json_object *object, const pl_outcome_t *outcome,
                             const pl_metrics_t *metrics, int32_t homes);

/* What the mean request waits for, in order. */
#define PL_FLEET_WAITS 4
typedef struct pl_fleet_wait {
    const char *name; /* in words */
    double ns;
} pl_fleet_wait_t;
void pl_fleet_list_waits(const pl_fleet_sides_t *sides,
                         pl_fleet_wait_t waits[PL_FLEET_WAITS]);

#endif /* PL_CLI_FLEET_TABLES_H */
