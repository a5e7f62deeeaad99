/* sim/outcome.h - what a simulation came to, whoever carried it out: the
 * records of all requests, the engines that took part, and the sums of what
 * these counted. */
#ifndef PL_SIM_OUTCOME_H
#define PL_SIM_OUTCOME_H

#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"
#include "sim/fleet.h"

typedef struct pl_outcome {
    pl_record_t *records; /* [n] owned, by number */
    int32_t n;
    const pl_engine_t **engines; /* [n_engines] the array is owned; those that
                                    prefill come first */
    int32_t n_engines, n_prefill;
    /* Of a fleet: [n_engines], owned, and of all of them; NULL: it was one
     * engine. */
    pl_fleet_usage_t *usages;
    pl_fleet_waits_t waits;
    pl_engine_counters_t counters; /* of all engines; those by rank are 0 */
    pl_hicache_counters_t caches;  /* of those that prefill */
} pl_outcome_t;

/* Of one engine, which is borrowed.  Free it after any status.  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_outcome_of_engine(const pl_engine_t *engine,
                                               pl_outcome_t *outcome_p);
/* The same of the instances of a fleet that has run, whose engines are
 * borrowed. */
PL_MUST_CHECK pl_status_t pl_outcome_of_fleet(const pl_fleet_t *fleet,
                                              int32_t n_requests,
                                              int32_t n_prefill,
                                              pl_outcome_t *outcome_p);
void pl_outcome_free(pl_outcome_t *outcome);

/* Of those that prefill, which are all alike. */
const pl_engine_config_t *pl_outcome_config(const pl_outcome_t *outcome);

#endif /* PL_SIM_OUTCOME_H */
