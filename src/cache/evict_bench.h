/* cache/evict_bench.h - what a victim costs under each policy.
 *
 * Prompts of some families come by at random, few of them often, through a
 * prefix tree that holds a third of their pages; each page that is short is
 * made room for by victims, and what picking one and taking its device pages
 * from it costs is timed.
 */
#ifndef PL_CACHE_EVICT_BENCH_H
#define PL_CACHE_EVICT_BENCH_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/policy.h"

typedef struct pl_evict_bench_result {
    int64_t n_nodes;     /* in the tree at the end */
    int64_t n_evictions; /* timed */
    double evict_ns;     /* the mean of one, in the best of three runs */
} pl_evict_bench_result_t;

/* Not collective.  Well under a second.  All follows from `seed` but the time.
 * PL_OK, PL_ERR_MEMORY, PL_ERR_INTERNAL (the tree is unsound). */
PL_MUST_CHECK pl_status_t pl_evict_bench(const pl_log_t *log, uint64_t seed,
                                         const pl_policy_ops_t *policy,
                                         pl_evict_bench_result_t *result_p);

#endif /* PL_CACHE_EVICT_BENCH_H */
