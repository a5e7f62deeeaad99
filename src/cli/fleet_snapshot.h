/* cli/fleet_snapshot.h - the snapshot of `sim` of several instances.
 *
 * Zeroed -> pl_fleet_snapshot_open, before the run -> _begin, with the fleet
 * that is to run -> _tick after each of its ticks -> _write -> _close.  Without
 * --snapshot all of them do nothing.
 */
#ifndef PL_CLI_FLEET_SNAPSHOT_H
#define PL_CLI_FLEET_SNAPSHOT_H

#include <stdint.h>
#include <time.h>

#include <pagelane/status.h>

#include "cli/cli.h"
#include "cli/fleet_shape.h"
#include "engine/event_log.h"
#include "sim/fleet.h"
#include "sim/outcome.h"

typedef struct pl_fleet_snapshot {
    const pl_cli_t *cli; /* borrowed; NULL: there is nothing to write */
    char *command;
    int32_t *shared; /* engine/sharing.h: with, then pages */
    pl_event_log_t *log;
    const pl_fleet_t *fleet;     /* borrowed */
    const pl_engine_t **engines; /* [n] */
    int32_t *waiting;            /* [n] */
    int32_t n, n_prefill;
    int64_t n_ticks;
} pl_fleet_snapshot_t;

/* Could it be written?  PL_OK; PL_ERR_IO with one line; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t
pl_fleet_snapshot_open(pl_fleet_snapshot_t *snapshot, const pl_cli_t *cli,
                       const pl_engine_source_t *source);
PL_MUST_CHECK pl_status_t pl_fleet_snapshot_begin(pl_fleet_snapshot_t *snapshot,
                                                  const pl_fleet_t *fleet,
                                                  int32_t n_prefill);
void pl_fleet_snapshot_tick(pl_fleet_snapshot_t *snapshot);
PL_MUST_CHECK pl_status_t pl_fleet_snapshot_write(
    pl_fleet_snapshot_t *snapshot, const pl_outcome_t *outcome,
    const pl_fleet_shape_t *shape, const struct timespec *started);
void pl_fleet_snapshot_close(pl_fleet_snapshot_t *snapshot);

#endif /* PL_CLI_FLEET_SNAPSHOT_H */
