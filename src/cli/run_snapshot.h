/* cli/run_snapshot.h - what `run` writes down as snapshots: one at its end, and
 * with --snapshot-every some on the way. */
#ifndef PL_CLI_RUN_SNAPSHOT_H
#define PL_CLI_RUN_SNAPSHOT_H

#include <time.h>

#include "cli/cli.h"
#include "cli/run_clock.h"
#include "cli/run_files.h"
#include "engine/event_log.h"
#include "exec/run.h"
#include "store/snapshot_series.h"

/* Members above the line are the run's, borrowed and set before anything else;
 * zero-initialised otherwise. */
typedef struct pl_run_snapshot {
    const pl_cli_t *cli;
    const char *command;
    const pl_run_files_t *files;      /* NULL: the plain way to the disk */
    const pl_snapshot_fleet_t *fleet; /* NULL: of one engine */
    pl_event_log_t *const *logs;      /* by rank */
    const int32_t *shared;            /* on rank 0; engine/sharing.h */
    const char *requests;             /* on rank 0: their hash (run_prior.h) */
    const char *computation;          /* on rank 0: as in pl_run_work_t */
    const char *storage;   /* on rank 0: folder of the tier, or NULL */
    int64_t started_pages; /* that the tier held when the run began */
    struct timespec started;
    const pl_run_clock_t *clock; /* rank 0's on rank 0; NULL: times of requests
                                    are not written, on no rank */

    pl_series_t *series; /* rank 0 with --snapshot-every, else NULL */
    int64_t next;        /* is due: requests finished, or ns since the start */
} pl_run_snapshot_t;

/* Rank 0, if --snapshot is given: could it be written, and, with
 * --snapshot-every, the recorder of the run.  PL_OK; PL_ERR_IO, PL_ERR_MEMORY,
 * one line. */
PL_MUST_CHECK pl_status_t pl_run_snapshot_open(pl_run_snapshot_t *snapshot,
                                               pl_run_recorder_t *recorder_p);

/* Collective, after a good run: finish the one under way, write the last. */
PL_MUST_CHECK pl_status_t pl_run_snapshot_write(
    pl_run_snapshot_t *snapshot, pl_comm_t *comm, const pl_engine_t *engine,
    const pl_run_results_t *results);

/* One line on what the snapshots on the way have cost, if there were any. */
void pl_run_snapshot_tell(const pl_run_snapshot_t *snapshot);

void pl_run_snapshot_close(pl_run_snapshot_t *snapshot);

#endif /* PL_CLI_RUN_SNAPSHOT_H */
