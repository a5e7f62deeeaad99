/* trace/turns.h - fields of JSON lines by which requests wait for others:
 *
 *   request_id          a name for the request
 *   wait_for            names of requests that must have ended first
 *   session_id          likewise the request before it in its session
 *   delay (delay_ms)    ms to wait after that
 *   tool_wait_ms        ms to wait after that too
 *
 * Names are strings or whole numbers.  A turn of a session without a delay
 * waits as long as lies between its timestamp and that of the turn before it.
 */
#ifndef PL_TRACE_TURNS_H
#define PL_TRACE_TURNS_H

#include "base/array.h"
#include "trace/id_map.h"
#include "trace/jsonl.h"

typedef struct pl_turn_name {
    size_t row;      /* that waits */
    uint64_t lo, hi; /* for this one */
} pl_turn_name_t;

typedef struct pl_turn_names {
    pl_id_map_t requests; /* by name: the row */
    pl_id_map_t sessions; /* by name: its last row */
    PL_ARRAY(pl_turn_name_t) wanted;
    int64_t free_line; /* the first row that waits for nobody; 0: none yet */
    bool has_times;    /* it says when it comes, and so must all like it */
} pl_turn_names_t;

void pl_turns_free(pl_turn_names_t *names);

/* Read them for `row`, which is to be the next in `rows`; its time is read
 * already.  *waits_p: does it wait for others?  Then it may have no time. */
pl_status_t pl_turns_read(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                          pl_trace_rows_t *rows, pl_trace_row_t *row,
                          bool *waits_p);

/* A row that waits for nobody is read: such rows have a time all or none, for
 * half of them would have no order. */
pl_status_t pl_turns_check_time(pl_turn_names_t *names, const pl_jsonl_t *jsonl,
                                const pl_trace_row_t *row);

/* When all rows are read: wait_for names requests that may come later. */
pl_status_t pl_turns_resolve(pl_turn_names_t *names,
                             const pl_trace_source_t *source,
                             pl_trace_rows_t *rows);

#endif /* PL_TRACE_TURNS_H */
