/* pool/lanes_bench.h - what a page costs to take and to give back.
 *
 * Opens a pool of its own, wears it with random operations until its free
 * slots are scattered, and then times owner-ordered takes and frees, all
 * checks on, beside two yardsticks in the same run: one plain stack of ids per
 * lane without any check, and memcpy of the list of ids.
 */
#ifndef PL_POOL_LANES_BENCH_H
#define PL_POOL_LANES_BENCH_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* Shape of the measurement, and nanoseconds a page: of each batch of calls the
 * median, of these the best. */
typedef struct pl_lanes_bench_result {
    int n_lanes;
    int32_t pages_per_lane;
    int32_t n_pages;      /* per call */
    int64_t n_operations; /* random ones before and between the calls */
    double used;          /* share of the pool that is handed out meanwhile */

    double take_ns;       /* zigzag owners: a cold prefill */
    double free_ns;       /* free checks range, lane and double free */
    double take_mixed_ns; /* random owners: the worst load-back */
    double free_mixed_ns;
    double stack_take_ns; /* yardstick, zigzag owners */
    double stack_free_ns;
    double memcpy_ns; /* yardstick */
} pl_lanes_bench_result_t;

/* Not collective.  A second or so.  The random operations follow from `seed`.
 * PL_OK, PL_ERR_MEMORY, or the allocator's own error. */
PL_MUST_CHECK pl_status_t pl_lanes_bench(const pl_log_t *log, uint64_t seed,
                                         pl_lanes_bench_result_t *result_p);

#endif /* PL_POOL_LANES_BENCH_H */
