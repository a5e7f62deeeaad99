/* sim/validate.h - predicted beside measured, request by request.
 *
 *   error of a time: |predicted - measured| / measured
 *
 *   MAPE: the mean of that over the requests that have both; beside it the
 *   median
 *
 *   r: Pearson's correlation of both, over the same requests
 */
#ifndef PL_SIM_VALIDATE_H
#define PL_SIM_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "sim/bench.h"
#include "sim/calibrate.h"

typedef enum pl_validate_time {
    PL_VALIDATE_TTFT,
    PL_VALIDATE_TPOT,
    PL_VALIDATE_E2E,
    PL_VALIDATE_TIMES
} pl_validate_time_t;

/* Times in ns; 0: there is none. */
typedef struct pl_validate_pair {
    int64_t number; /* of the request in the file, from 1 */
    int32_t input_tokens, output_tokens;
    int64_t start_ns, end_ns; /* measured; end 0: not known */
    int64_t predicted_ns[PL_VALIDATE_TIMES], measured_ns[PL_VALIDATE_TIMES];
} pl_validate_pair_t;

typedef struct pl_validate_metric {
    int64_t n; /* pairs that have both */
    double mape;
    double median_error; /* nearest rank */
    double r; /* NAN: one of both does not vary, or there are fewer than two */
    int64_t predicted_p50_ns, measured_p50_ns; /* nearest rank */
    double median_ratio; /* of measured / predicted; 0: there is none */
} pl_validate_metric_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_validate_metric(const pl_validate_pair_t *pairs,
                                             size_t n, pl_validate_time_t which,
                                             pl_validate_metric_t *metric_p);

/* The largest error of its times; *which_p: whose.  -1: it has none. */
double pl_validate_error(const pl_validate_pair_t *pair,
                         pl_validate_time_t *which_p);

/* Sort so that the largest errors come first; ties by number. */
void pl_validate_sort(pl_validate_pair_t *pairs, size_t n);

/* How many of spans starts[i] .. ends[i] (end > start) there are at the same
 * time at most; one that ends where another starts is over.  Sorts both. */
int32_t pl_validate_most(int64_t *starts, int64_t *ends, size_t n);

/* The range that the pairs cover, into fit; its factors stay.  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_validate_cover(const pl_validate_pair_t *pairs,
                                            size_t n, pl_fit_t *fit);

/* One step towards factors by which medians agree: a part of the way, since
 * waiting grows faster than the work does.  True: the factors are as good as
 * they get by this (a thousandth, or at a limit). */
bool pl_validate_step(const pl_validate_metric_t *ttft,
                      const pl_validate_metric_t *tpot, pl_fit_t *fit);

#endif /* PL_SIM_VALIDATE_H */
