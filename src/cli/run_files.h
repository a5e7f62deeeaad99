/* cli/run_files.h - the way to the disk of each rank of this process: one for
 * all that a run writes, the storage tier and snapshots, so that what --inject
 * breaks is broken for all of it.
 */
#ifndef PL_CLI_RUN_FILES_H
#define PL_CLI_RUN_FILES_H

#include "store/file.h"

/* Zeroed: nothing is open. */
typedef struct pl_run_files {
    pl_files_t **ranks; /* [n_ranks], of those that are here; the others NULL */

    /* private */
    pl_files_journal_t *journal;
    int n_ranks;
} pl_run_files_t;

/* Of ranks [first, first + n) of n_ranks.  PL_OK, PL_ERR_MEMORY; the caller
 * closes it after any status. */
PL_MUST_CHECK pl_status_t pl_run_files_open(pl_run_files_t *files,
                                            const pl_inject_t *inject,
                                            int n_ranks, int first, int n);
void pl_run_files_close(pl_run_files_t *files);

#endif /* PL_CLI_RUN_FILES_H */
