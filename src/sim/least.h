/* sim/least.h - least squares with factors that are not negative.
 */
#ifndef PL_SIM_LEAST_H
#define PL_SIM_LEAST_H

#include <stddef.h>

enum { PL_LEAST_COLUMNS = 5 };

/* One equation: the sum of factor x column is to be `wanted`; being off by
 * `unit` counts as being off by 1. */
typedef struct pl_least_row {
    double columns[PL_LEAST_COLUMNS];
    double wanted, unit; /* unit > 0 */
} pl_least_row_t;

/* Factors >= 0 with the least sum of squares of all that is off.  A column that
 * is 0 in all rows gets 0; so do those that others make up for. */
void pl_least_squares(const pl_least_row_t *rows, size_t n,
                      double factors[PL_LEAST_COLUMNS]);

#endif /* PL_SIM_LEAST_H */
