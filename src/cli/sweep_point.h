/* cli/sweep_point.h - one point of a sweep: a simulation, or several of other
 * seeds.
 *
 * A lab keeps the traces that it has read: points that take the same requests
 * share one.  Not collective; one thread.
 */
#ifndef PL_CLI_SWEEP_POINT_H
#define PL_CLI_SWEEP_POINT_H

#include <stdint.h>

#include "cli/cli.h"
#include "cli/sweep_grid.h"
#include "store/sweep.h"

typedef struct pl_sweep_lab pl_sweep_lab_t; /* opaque */

/* `cli` is borrowed.  `tick` (may be NULL) is called at the end of every tick
 * of a simulation.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_lab_open(const pl_cli_t *cli,
                                            void (*tick)(void *context),
                                            void *context,
                                            pl_sweep_lab_t **lab_p);
void pl_sweep_lab_close(pl_sweep_lab_t *lab); /* NULL is allowed */

/* How long a point takes (sim/sweep.h), if it can be run.  The same on every
 * rank.  Reads the trace.  PL_ERR_ARGUMENT, PL_ERR_INPUT (the trace),
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_lab_estimate(pl_sweep_lab_t *lab,
                                                size_t index,
                                                double *estimate_p);

/* Run it.  A point whose options do not go together, or that needs more than it
 * has, is an outcome like any other (point->status, point->why); what is left
 * to fail is PL_ERR_MEMORY, PL_ERR_INTERNAL, and the trace's.  *point_p is
 * zeroed; pl_sweep_point_free it after any status. */
PL_MUST_CHECK pl_status_t pl_sweep_lab_run(pl_sweep_lab_t *lab, size_t index,
                                           pl_sweep_point_t *point_p);

#endif /* PL_CLI_SWEEP_POINT_H */
