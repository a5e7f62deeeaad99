/* cli/report_data.h - what a report is made from: a snapshot, read whole.
 *
 *   report_html.c      the verb
 *   report_data.c      columns, values, and how its requests waited
 *   report_advice.c    headline, tiles, advice
 *   report_limits.c    the limits of --slo, and who keeps them
 *   report_fleet.c     several instances: what limits them, how busy each is
 *   report_series.c    over time: hits, memory, queues, lanes
 *   report_times.c     where time goes, distributions, misses, the slowest
 *   report_curve.c     the exact LRU curve of the run's trace
 *   report_perfetto.c  requests and operations as a trace
 *
 * cli/html.h knows nothing of snapshots: a report of another kind of file is
 * another set of sections.
 */
#ifndef PL_CLI_REPORT_DATA_H
#define PL_CLI_REPORT_DATA_H

#include "cli/events.h"
#include "cli/fleet_file.h"
#include "cli/fleet_limit.h"
#include "cli/fleet_sides.h"
#include "cli/html.h"
#include "cli/inspect.h"
#include "sim/metrics.h"
#include "sim/sweep.h"
#include "trace/lru.h"

/* A value beside a group. */
typedef struct pl_report_fact {
    const char *group; /* "config", "engine", ... */
    char *name, *text; /* owned */
    int64_t number;    /* of numbers */
} pl_report_fact_t;

enum {
    PL_REPORT_DEVICE,
    PL_REPORT_HOST,
    PL_REPORT_DECODE,
    PL_REPORT_DECODE_HOST,
    PL_REPORT_TIERS
};

/* /lanes; column `free` has [sample][lane or home]. */
typedef struct pl_report_lanes {
    size_t n;
    pl_snapshot_column_t time, running, waiting;
    pl_snapshot_column_t free[PL_REPORT_TIERS];
    /* That a lane can hold; without a limit, the most that one held. */
    int64_t pages[PL_REPORT_TIERS];
    bool used[PL_REPORT_TIERS]; /* it held some, at some sample */
} pl_report_lanes_t;

/* Times summed over completed requests.  A request waits from arrival to
 * admission, and is in prefill from then to its first token. */
typedef struct pl_report_waits {
    int64_t queue_ns, prefill_ns, transfer_ns, decode_ns;
    int64_t behind_prefill_ns;  /* of queue_ns, while others were in prefill */
    int64_t prefill_at_work_ns; /* of the run, while any was */
} pl_report_waits_t;

/* Several instances; file.n is 0: it was one engine. */
typedef struct pl_report_fleet {
    pl_fleet_file_t file;
    pl_outcome_t outcome; /* borrows all it has */
    pl_fleet_sides_t sides;
    pl_fleet_limit_t limit;
    const char *slo_text; /* borrowed; NULL: no request has a limit */
    pl_snapshot_column_t running, waiting, busy_ns; /* [sample][instance] */
} pl_report_fleet_t;

typedef struct pl_report_data {
    const pl_cli_t *cli;
    const pl_snapshot_t *snapshot; /* borrowed */
    pl_inspect_layout_t layout;
    pl_record_t *records;
    int32_t n;
    pl_metrics_t metrics;
    pl_report_waits_t waits;
    pl_report_lanes_t lanes;
    pl_report_fleet_t fleet;
    PL_ARRAY(pl_report_fact_t) facts;
    pl_snapshot_column_t shared_pages; /* rows is 0: the file has none */
    bool has_events, whole_events;
    pl_events_t events;
    pl_snapshot_column_t moved_bytes; /* by event; rows is 0: there are none */
    bool has_curve;
    pl_lru_curve_t curve; /* of the run's trace, in pages */
} pl_report_data_t;

/* Read it.  Statuses of store/reader.h; pl_report_free after any of them. */
PL_MUST_CHECK pl_status_t pl_report_load(const pl_cli_t *cli,
                                         const pl_snapshot_t *snapshot,
                                         pl_report_data_t *data);
void pl_report_free(pl_report_data_t *data); /* zeroed before is fine */

/* NULL, or 0: there is none. */
const char *pl_report_text(const pl_report_data_t *data, const char *group,
                           const char *name);
int64_t pl_report_number(const pl_report_data_t *data, const char *group,
                         const char *name);

/* Lanes of a tier; pages that one, or all, held at a sample. */
extern const char *const PL_REPORT_TIER_NAMES[PL_REPORT_TIERS];
size_t pl_report_lanes_of(const pl_report_data_t *data, int tier);
int64_t pl_report_held(const pl_report_data_t *data, int tier, size_t sample,
                       size_t lane);
int64_t pl_report_held_by_all(const pl_report_data_t *data, int tier,
                              size_t sample);

/* 100 part / whole; 0 of nothing. */
double pl_report_percent(int64_t part, int64_t whole);

/* Add a value >= 0 (less is passed over) to a sum that ends at INT64_MAX: what
 * stands in a file may be anything. */
void pl_report_add(int64_t *sum, int64_t value);

/* ---- limits ---- */

typedef struct pl_report_limits {
    const char *text;  /* --slo; borrowed */
    int64_t n, n_good; /* requests; those that keep all limits */
    pl_sweep_broken_t broken;
} pl_report_limits_t;

/* false: the run had none, or the file does not tell. */
bool pl_report_limits(const pl_report_data_t *data, pl_report_limits_t *limits);

/* "62.50 % of the requests keep ttft:2s; ttft is broken most, by 37.50 %" */
void pl_report_say_limits(const pl_report_limits_t *limits, char *text,
                          size_t n);
void pl_report_put_limits(pl_html_t *page, const pl_report_limits_t *limits);

/* ---- several instances: report_fleet.c ---- */

/* After all else is loaded; nothing of a file of one engine. */
PL_MUST_CHECK pl_status_t pl_report_load_fleet(pl_report_data_t *data);
void pl_report_free_fleet(pl_report_data_t *data);

/* The rest is of files of several instances alone, but pl_report_put_fleet,
 * which does nothing of others. */
void pl_report_describe_fleet(const pl_report_data_t *data, char *text,
                              size_t n);
/* The caller frees both texts.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_report_fleet_headline(const pl_report_data_t *data,
                                                   char **head_p, char **why_p);
void pl_report_fleet_tiles(pl_html_t *page, const pl_report_data_t *data);
void pl_report_fleet_advice(pl_html_t *page, const pl_report_data_t *data);
void pl_report_put_fleet(pl_html_t *page, const pl_report_data_t *data);
/* Requests that wait on a side at a sample. */
int64_t pl_report_fleet_waiting(const pl_report_data_t *data, size_t sample,
                                bool prefills);

/* ---- parts of the page ---- */

PL_MUST_CHECK pl_status_t pl_report_put_advice(pl_html_t *page,
                                               const pl_report_data_t *data);
void pl_report_put_series(pl_html_t *page, const pl_report_data_t *data);
PL_MUST_CHECK pl_status_t pl_report_put_times(pl_html_t *page,
                                              const pl_report_data_t *data);
void pl_report_put_curve(pl_html_t *page, const pl_report_data_t *data);
void pl_report_put_facts(pl_html_t *page, const pl_report_data_t *data);

/* Read the run's trace, which `path` names, and reckon the curve.  PL_ERR_INPUT
 * if it is not that of the run, with one line. */
PL_MUST_CHECK pl_status_t pl_report_load_curve(const char *path,
                                               pl_report_data_t *data);

/* Of the trace's first pages; false: the file does not tell. */
bool pl_report_begin_alike(const pl_report_data_t *data);

/* Trace events as Chrome's format has them.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO.
 */
PL_MUST_CHECK pl_status_t pl_report_perfetto(const pl_report_data_t *data,
                                             FILE *file);

#endif /* PL_CLI_REPORT_DATA_H */
