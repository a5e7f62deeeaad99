/* cli/covered.h - does a run stay within what its calibration was fitted to?
 * (docs/sim.md, Beside a benchmark.)  A calibration without a fit covers
 * whatever there is. */
#ifndef PL_CLI_COVERED_H
#define PL_CLI_COVERED_H

#include "cli/cli.h"
#include "cli/json.h"
#include "sim/calibrate.h"
#include "sim/outcome.h"

typedef struct pl_covered {
    pl_fit_t fit;       /* n_requests 0: none, and the rest says nothing */
    int64_t n_inputs;   /* prompts outside, of n_requests */
    int64_t n_outputs;  /* answers outside */
    int64_t n_outside;  /* requests of which either is */
    int64_t n_requests; /* that were completed */
    int32_t most_concurrent;
} pl_covered_t;

/* Looks at --calibrate and at completed requests.  PL_OK, PL_ERR_INPUT,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_covered_find(const pl_cli_t *cli,
                                          const pl_outcome_t *outcome,
                                          pl_covered_t *covered_p);

bool pl_covered_is_outside(const pl_covered_t *covered);

/* A line on stdout for each thing that is outside. */
void pl_covered_print(const pl_covered_t *covered);
/* Members of `object`, if there is a fit; the first says, by 1, that something
 * is outside. */
#define PL_COVERED_NAME "extrapolated"
void pl_covered_json(json_object *object, const pl_covered_t *covered);

#endif /* PL_CLI_COVERED_H */
