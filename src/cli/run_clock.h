/* cli/run_clock.h - what a run's requests took in time of day.
 *
 * A run plays its trace in virtual time and waits for nothing that nobody does:
 * between two requests virtual time jumps.  This clock says how late it was at
 * any moment of virtual time: each tick took as long as it really took, a
 * moment within a tick lies as far in the one as in the other, and a jump while
 * no request is under way takes what it takes in virtual time.  Rank 0's clock.
 */
#ifndef PL_CLI_RUN_CLOCK_H
#define PL_CLI_RUN_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "engine/engine.h"

typedef struct pl_run_tick {
    int64_t virtual_ns; /* when it began */
    int64_t real_ns;    /* when it ended, since the first began */
    bool is_jump;       /* to when something comes: nothing was computed */
} pl_run_tick_t;

/* Zero-initialised; one thread's. */
typedef struct pl_run_clock {
    PL_ARRAY(pl_run_tick_t) ticks;
    struct timespec began;
    int64_t n_jumps;
    pl_status_t status;
} pl_run_clock_t;

/* Of each request, in ns of the clock; -1: it has none. */
typedef struct pl_run_times {
    int64_t *arrival_ns, *first_token_ns, *finished_ns; /* [requests] */
} pl_run_times_t;

void pl_run_clock_begin(pl_run_clock_t *clock); /* before the first tick */
void pl_run_clock_tick(pl_run_clock_t *clock, const pl_engine_t *engine);

/* After the last tick.  PL_OK; PL_ERR_MEMORY, now or in a tick.  The caller
 * frees *times_p after any status. */
PL_MUST_CHECK pl_status_t pl_run_clock_times(const pl_run_clock_t *clock,
                                             const pl_engine_t *engine,
                                             pl_run_times_t *times_p);
/* The same of `records`, for tests. */
PL_MUST_CHECK pl_status_t pl_run_clock_times_of(const pl_run_clock_t *clock,
                                                const pl_record_t *records,
                                                int32_t n,
                                                pl_run_times_t *times_p);
void pl_run_times_free(pl_run_times_t *times);

void pl_run_clock_free(pl_run_clock_t *clock);

#endif /* PL_CLI_RUN_CLOCK_H */
