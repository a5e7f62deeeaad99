/* cli/sweep_print.h - a sweep on stdout: the best first, what limits each. */
#ifndef PL_CLI_SWEEP_PRINT_H
#define PL_CLI_SWEEP_PRINT_H

#include "cli/cli.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_judge.h"

/* Tables, or with --json all numbers.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_sweep_print(const pl_cli_t *cli,
                                         const pl_sweep_point_t *points,
                                         const pl_sweep_verdict_t *verdict);

#endif /* PL_CLI_SWEEP_PRINT_H */
