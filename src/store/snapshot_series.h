/* store/snapshot_series.h - snapshots while a run goes on: beside F.h5 stand
 * F.0001.h5, F.0002.h5, ..., the newest few of them.
 *
 *   pl_series_open -> (pl_series_take, pl_series_step ...) ... ->
 *   pl_series_finish -> pl_series_close
 *
 * take() copies the state as it is; each step() then does one slice of the work
 * (pack 8 MB of columns, write 8 MB, ...), and a thread waits for the disk, so
 * that the run never waits long.  A file is published whole; then the oldest
 * go, down to the limit.
 * Numbers go on behind the highest that stands there, so no file that was
 * published is ever written to.
 *
 * A file that cannot be written is left out: one warning, the first time, and
 * the next is tried again.  Nothing here fails a run.
 *
 * Not collective: rank 0's alone.  Wall times are measured, and decide nothing.
 */
#ifndef PL_STORE_SNAPSHOT_SERIES_H
#define PL_STORE_SNAPSHOT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "store/snapshot.h"

typedef struct pl_series pl_series_t; /* opaque */

/* What it came to.  taken = written + failed, once nothing is under way. */
typedef struct pl_series_cost {
    int64_t taken, written, failed;
    int64_t skipped; /* one was still being written */
    int64_t bytes;   /* of the files written */
    int64_t loop_ns; /* in take, step and finish */
} pl_series_cost_t;

/* `path` is the final snapshot's, `keep` >= 1 files stay.  PL_OK,
 * PL_ERR_MEMORY (one line).  `log` is borrowed. */
PL_MUST_CHECK pl_status_t pl_series_open(const char *path, int keep,
                                         const pl_log_t *log,
                                         pl_series_t **series_p);

/* Copy the state, or count it as skipped while one is under way, but for the
 * disk, which is waited for: what is skipped depends on the calls alone. */
void pl_series_take(pl_series_t *series, const pl_snapshot_input_t *input);

/* One slice of the one under way, if there is one. */
void pl_series_step(pl_series_t *series);

/* All of the rest of it. */
void pl_series_finish(pl_series_t *series);

pl_series_cost_t pl_series_cost(const pl_series_t *series);

/* What is under way is dropped.  NULL is allowed. */
void pl_series_close(pl_series_t *series);

#endif /* PL_STORE_SNAPSHOT_SERIES_H */
