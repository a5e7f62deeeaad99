/* sim/sweep.h - many runs beside each other: numbers over seeds, what kept a
 * run from its limits, in which order points are computed and shown.
 *
 * Everything is a function of its arguments alone: the same on every rank.
 */
#ifndef PL_SIM_SWEEP_H
#define PL_SIM_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "sim/detail.h"

/* Mean of values[n], n >= 1, to the nearest; *half_p: half of its 95 % interval
 * by Student's t (n - 1 degrees of freedom), rounded up; 0 if n is 1. */
int64_t pl_sweep_mean(const int64_t *values, size_t n, int64_t *half_p);

/* Completed requests that took longer than a limit; 0 for those not set. */
typedef struct pl_sweep_broken {
    int64_t ttft, tpot, e2e;
} pl_sweep_broken_t;

pl_sweep_broken_t pl_sweep_broken(const pl_outcome_t *outcome,
                                  const pl_slo_t *slo);

/* How long a simulation takes, in no unit: to tell long ones from short ones.
 * A request counts as much as 100 pages (measured, docs/sweep.md). */
double pl_sweep_estimate(int64_t requests, int64_t prompt_tokens,
                         int32_t page_tokens);

/* order[n] becomes a permutation of 0 .. n - 1: the largest first, of equals
 * the first.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_longest_first(const double *estimates,
                                                 size_t n, size_t *order);

/* A point among others. */
typedef struct pl_sweep_standing {
    bool ran;    /* else it cannot be run */
    bool meets;  /* its limits */
    double kept; /* share of requests that keep them */
    double key;  /* what is to be small */
    double ttft; /* mean, in any unit */
} pl_sweep_standing_t;

/* How many hundredths of `least`, whole ones, `key` is above it: what is nearer
 * than one is as good.  Of least 0: how much. */
double pl_sweep_steps(double key, double least);

/* order[n]: those that meet their limits, by the steps of their keys from the
 * least of them, then kept, ttft and the key itself; those that do not, by kept
 * first and then likewise; those that cannot be run.  Of equals the first.
 * PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_best_first(const pl_sweep_standing_t *points,
                                              size_t n, size_t *order);

#endif /* PL_SIM_SWEEP_H */
