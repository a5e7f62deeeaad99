/* cli/export_sweep.h - the points of a sweep for other programs. */
#ifndef PL_CLI_EXPORT_SWEEP_H
#define PL_CLI_EXPORT_SWEEP_H

#include "cli/fields.h"
#include "store/sweep_table.h"

/* A row a point, in the order of the grid: what came of it, then its options,
 * numbers and halves of intervals under the names of their groups
 * (`options.cp`), numbers as `sim --json` has them.  A point that cannot be run
 * has no numbers. */
void pl_export_points(pl_fields_t *fields, const pl_sweep_table_t *table);

#endif /* PL_CLI_EXPORT_SWEEP_H */
