/* cli/sweep_judge.h - which points of a sweep are good, and what limits each.
 */
#ifndef PL_CLI_SWEEP_JUDGE_H
#define PL_CLI_SWEEP_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "store/sweep.h"

/* Zeroed: nothing is held. */
typedef struct pl_sweep_verdict {
    size_t *order;   /* [n] the best first */
    int64_t *places; /* [n] 1: the best */
    uint8_t *meets;  /* [n] */
    double *kept;    /* [n] share of requests that keep the limits */
    double *hours;   /* [n] of all GPUs */
    double *costs;   /* [n] of these hours; as many, without a price */
    char **limits;   /* [n] what limits it; owned */
    size_t n;
    bool priced;
} pl_sweep_verdict_t;

/* Do --slo, --objective and --gpu-hour-cost say something, together too?
 * PL_ERR_ARGUMENT (one line). */
PL_MUST_CHECK pl_status_t pl_sweep_judge_check(const pl_options_t *options,
                                               const pl_log_t *log);

/* Has a point that ran what --objective asks for?  PL_ERR_ARGUMENT (one line).
 */
PL_MUST_CHECK pl_status_t pl_sweep_judge_has(const pl_options_t *options,
                                             const pl_sweep_point_t *point,
                                             const pl_log_t *log);

/* Of options that have been checked.  Free it after any status.  PL_OK,
 * PL_ERR_ARGUMENT, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_judge(const pl_options_t *options,
                                         const pl_sweep_point_t *points,
                                         size_t n, const pl_log_t *log,
                                         pl_sweep_verdict_t *verdict_p);
void pl_sweep_verdict_free(pl_sweep_verdict_t *verdict);

/* A number of a point as `sim --json` says it; 0 if it has none. */
double pl_sweep_number(const pl_sweep_point_t *point, const char *name);

#endif /* PL_CLI_SWEEP_JUDGE_H */
