/* engine/event_log.h - the events of a run, in columns, all or the newest; and
 * the lanes over time.
 *
 * The log is an event sink: hand pl_event_log_sink() to pl_engine_open, then
 * call pl_event_log_sample() once a tick, after commit.  One array per field of
 * an event; pages and other are flat, event i has those from its offset up to
 * the next one's (as they stand in a snapshot).
 *
 * With a limit the newest events are kept and the others dropped; at most twice
 * as many lie in memory.
 *
 * The lane history has at most PL_LANE_SAMPLES samples: each tick at first,
 * then every second, fourth, ... tick (a power of two that depends on the
 * number of ticks alone, so all ranks and all runs keep the same), and always
 * the last.  Of several engines ticks are counted over all of them, and where
 * these are very many, samples are fewer: PL_LANE_NUMBERS numbers in all.
 *
 * Not collective, not thread-safe.  A failed allocation is remembered: what
 * comes after it is dropped, and pl_event_log_status tells.
 */
#ifndef PL_ENGINE_EVENT_LOG_H
#define PL_ENGINE_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/event.h>
#include <pagelane/status.h>

#include "base/array.h"
#include "engine/engine.h"

#define PL_LANE_SAMPLES 4096
/* Of several engines, but for the least number of samples. */
#define PL_LANE_NUMBERS       (1 << 22)
#define PL_LANE_LEAST_SAMPLES 64

/* Columns of n events each; read-only for others. */
typedef struct pl_event_columns {
    size_t n;
    const int64_t *tick, *time_ns, *node, *op, *value, *value2;
    const int32_t *kind; /* pl_event_kind_t */
    const int32_t *request;
    const int64_t *pages_offset, *other_offset; /* [n + 1] */
    const pl_page_t *pages, *other;
} pl_event_columns_t;

/* Columns of n samples each, taken at the end of their tick.  Rows of
 * device_free and host_free have n_lanes items, those of decode_free and
 * decode_host_free n_homes, those of instance_... n_instances: 0 of a single
 * engine. */
typedef struct pl_lane_history {
    size_t n;
    int n_lanes;
    int32_t n_homes, n_instances;
    const int64_t *tick, *time_ns;
    const int32_t *device_free, *host_free;
    const int32_t *decode_free, *decode_host_free;
    const int32_t *running, *waiting; /* requests, over all homes */
    const int32_t *instance_running, *instance_waiting;
    const int64_t *instance_busy_ns; /* in which it computed, up to then */
} pl_lane_history_t;

/* Several engines in one virtual time (sim/fleet.h), after a tick of any of
 * them.  Lanes are those of all that prefill, one engine behind the other, and
 * homes those of all that have some. */
typedef struct pl_log_fleet {
    int64_t tick, time_ns;             /* ticks are those of all, from 0 */
    const pl_engine_t *const *engines; /* [n] those that prefill come first */
    const int32_t *waiting; /* [n] requests, for their first chunk or step */
    int32_t n, n_prefill;
} pl_log_fleet_t;

typedef struct pl_event_log pl_event_log_t; /* opaque */

#define PL_EVENTS_ALL INT64_MAX

/* Keeps the newest `most_events` events; 0: the lane history only.  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_event_log_open(int64_t most_events,
                                            pl_event_log_t **log_p);
void pl_event_log_close(pl_event_log_t *log); /* NULL is allowed */

/* Valid until the log is closed. */
pl_event_sink_t pl_event_log_sink(pl_event_log_t *log);

/* The state of `engine` at the end of its tick; before the first tick nothing
 * happens.  Samples of one log are all of one engine, ticks ascending. */
void pl_event_log_sample(pl_event_log_t *log, const pl_engine_t *engine);

/* The same of several engines, the same ones every time.  Only samples of ticks
 * that are due need be given, and that of the last tick. */
void pl_event_log_sample_fleet(pl_event_log_t *log,
                               const pl_log_fleet_t *fleet);
bool pl_event_log_is_due(const pl_event_log_t *log, int64_t tick);

/* PL_OK or PL_ERR_MEMORY: the log is not whole. */
pl_status_t pl_event_log_status(const pl_event_log_t *log);

/* Both borrowed until the next event, sample or close, or the next call of the
 * same function. */
pl_event_columns_t pl_event_log_events(pl_event_log_t *log);
pl_lane_history_t pl_event_log_lanes(pl_event_log_t *log);
/* Are events kept at all? */
bool pl_event_log_has_events(const pl_event_log_t *log);
/* Events that came before the first one of pl_event_log_events. */
int64_t pl_event_log_dropped(pl_event_log_t *log);

/* The text of a kind as it stands in files; "?" for what is none. */
const char *pl_event_kind_text(pl_event_kind_t kind);

#endif /* PL_ENGINE_EVENT_LOG_H */
