/* cli/run_storage.h - the storage tier of a run: what --storage, --from and
 * --resume come to.
 *
 * Rank 0 looks at the folder, takes its lock and reads its index; all ranks get
 * what it found.  Whatever cannot be used is told in one line and missed.
 */
#ifndef PL_CLI_RUN_STORAGE_H
#define PL_CLI_RUN_STORAGE_H

#include <pagelane/trace.h>

#include "cli/cli.h"
#include "cli/run_files.h"
#include "cli/run_model.h"
#include "cli/run_prior.h"
#include "exec/run.h"
#include "store/tier.h"

/* Zeroed: no storage. */
typedef struct pl_run_storage {
    /* borrowed, set before anything else */
    const pl_cli_t *cli;
    const pl_log_t *log; /* of what all ranks find alike: rank 0's, or NULL */
    const pl_run_files_t *files;

    const char *requests;  /* their hash as text, once it was opened; or NULL */
    char computation[384]; /* what else results depend on (pl_run_work_t); ""
                              if nobody may ask */
    const char *place;     /* rank 0: the folder's absolute path; or NULL */
    pl_run_prior_t prior;  /* --resume */

    /* private */
    char *from;      /* rank 0: folder to start with, or NULL */
    char *absolute;  /* of place */
    bool read_only;  /* nothing is stored */
    bool in_use;     /* there is a tier */
    int32_t n_slots; /* of a rank's share */
    char model[64], tokens[96], hash[PL_RUN_HASH_TEXT];
    pl_store_layout_t layout;
    pl_tier_identity_t identity;
    uint64_t trace; /* rank 0: a hash of requests and computation; not 0 */
    pl_inject_t inject;
    pl_tier_lock_t *lock; /* rank 0 */
    pl_tier_content_t content;
    int32_t n_prefill;
    pl_storage_opener_t opener;
} pl_run_storage_t;

/* Not collective: how many pages --host-gb, --storage-pages and --storage-gb
 * are, into params->engine, with the policies.  PL_ERR_ARGUMENT, one line. */
PL_MUST_CHECK pl_status_t pl_run_storage_sizes(pl_run_storage_t *storage,
                                               pl_run_params_t *params);

/* Collective (comm NULL: all ranks are in this process), after everything else
 * of `params` is filled in: opens, and fills in what the run needs of it.
 * PL_OK; PL_ERR_ARGUMENT, PL_ERR_INPUT, PL_ERR_IO, PL_ERR_MEMORY, one line. */
PL_MUST_CHECK pl_status_t pl_run_storage_open(pl_run_storage_t *storage,
                                              const pl_trace_t *trace,
                                              const pl_cli_model_t *model,
                                              pl_comm_t *comm,
                                              pl_run_params_t *params);

/* Once it is open, on every rank: how many pages the tier starts with. */
int64_t pl_run_storage_started(const pl_run_storage_t *storage);

/* After the run, when its doors are closed. */
void pl_run_storage_close(pl_run_storage_t *storage);

#endif /* PL_CLI_RUN_STORAGE_H */
