/* cli/sweep_files.h - a sweep as text, so that it can be told from another one;
 * and its HDF5 file.
 */
#ifndef PL_CLI_SWEEP_FILES_H
#define PL_CLI_SWEEP_FILES_H

#include "cli/cli.h"
#include "cli/sweep_judge.h"
#include "store/sweep.h"

/* What decides what points come to, a `name = value` a line: this program, all
 * axes with their values, what else simulations are given, and a hash of each
 * file that is named.  The caller frees it.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_identity(const pl_cli_t *cli, char **text_p);

typedef struct pl_sweep_times {
    int n_ranks;
    int64_t wall_ns;
} pl_sweep_times_t;

/* Write --output by way of `partial`; `identity` is that of its points.  Statuses of pl_sweep_write. */
PL_MUST_CHECK pl_status_t pl_sweep_save(const pl_cli_t *cli,
                                        const pl_sweep_point_t *points,
                                        const pl_sweep_verdict_t *verdict,
                                        const pl_sweep_times_t *times,
                                        const char *identity,
                                        const char *partial);

#endif /* PL_CLI_SWEEP_FILES_H */
