/* property/engine/drive.h - an engine without ranks: plans are carried out by
 * saying so, and failures are drawn from a seed.
 *
 * The driver keeps a small model of what the ranks' memory would hold: each
 * slot of each tier knows whose bytes (which prompt prefix and page) it has. So
 * a chunk, a load-back, a backup or a send that reads a page nobody wrote, or
 * another's, is found at once. */
#ifndef PL_TESTS_ENGINE_DRIVE_H
#define PL_TESTS_ENGINE_DRIVE_H

#include "base/rng.h"
#include "engine/engine.h"

typedef struct drive_params {
    pl_engine_config_t config;
    uint64_t seed;
    int32_t n_requests;
    int32_t longest_prompt; /* tokens */
    int32_t longest_output; /* tokens */
    int32_t n_families;     /* prompts of a family share a prefix */
    int64_t gap_ns;         /* largest time between arrivals */
    double p_fail;          /* of each operation that can fail */
} drive_params_t;

typedef struct drive_result {
    uint64_t decisions; /* hash over all plans and events */
    pl_engine_counters_t counters;
    pl_hicache_counters_t cache;
    int64_t device_hits, host_hits; /* requests with some */
    int32_t n_failed;
} drive_result_t;

/* Run to the end; fails the Check test on any broken law.  check_every: ticks
 * between full self-checks (1: each). */
void drive(const drive_params_t *params, int check_every,
           drive_result_t *result);

#endif /* PL_TESTS_ENGINE_DRIVE_H */
