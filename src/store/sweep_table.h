/* store/sweep_table.h - the file of a sweep (store/sweep.h), read whole and
 * without trusting it (store/reader.h).
 *
 *   pl_snapshot_open_any; pl_snapshot_is_sweep; pl_sweep_table_read
 *
 * A number is found under its name in the file, or under that of `sim --json`,
 * in whose units it is given: times in ms (`mean_ttft_ms`), seconds, ratios.
 */
#ifndef PL_STORE_SWEEP_TABLE_H
#define PL_STORE_SWEEP_TABLE_H

#include "store/reader.h"
#include "store/sweep.h"

/* An option that has several values. */
typedef struct pl_sweep_option {
    char name[PL_SWEEP_NAME_BYTES]; /* as the command line has it */
    pl_snapshot_texts_t values;     /* by point */
} pl_sweep_option_t;

typedef struct pl_sweep_metric {
    char name[PL_SWEEP_NAME_BYTES];     /* as the file has it */
    char said[PL_SWEEP_NAME_BYTES + 4]; /* as `sim --json` has it */
    char unit[PL_SWEEP_UNIT_BYTES];
    pl_snapshot_column_t means; /* by point */
    pl_snapshot_column_t
        halves; /* of their intervals; rows 0: there are none */
} pl_sweep_metric_t;

/* All owned.  Zeroed: nothing is held. */
typedef struct pl_sweep_table {
    size_t n; /* points, 1 or more */
    PL_ARRAY(pl_sweep_option_t) options;
    PL_ARRAY(pl_sweep_metric_t) metrics;
    pl_snapshot_texts_t status;     /* "ok", or why it cannot be run */
    pl_snapshot_texts_t message;    /* what is said of that */
    pl_snapshot_texts_t limited_by; /* in words */
    pl_snapshot_column_t place;     /* from 1, each once; those that meet the
                                       limits first */
    pl_snapshot_column_t meets;     /* 0 or 1; 0 if it did not run */
    pl_snapshot_column_t hours;     /* of all GPUs, in millionths */
    pl_snapshot_column_t costs;     /* likewise; rows 0: there is no price */
    pl_snapshot_column_t seeds;
    pl_snapshot_texts_t lacks; /* names of numbers that it does not have; n 0:
                                  an older file, of which nobody knows */
    size_t *order;             /* [n] the best first; what cannot be run last */
    char *objective;           /* --objective */
    char *limits;              /* --slo; "": there are none */
    double attain;             /* --attain, 0 .. 1 */
} pl_sweep_table_t;

/* Free it after any status.  Those of store/reader.h; nothing may be said of a
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_table_read(const pl_snapshot_t *snapshot,
                                              pl_sweep_table_t *table);
void pl_sweep_table_free(pl_sweep_table_t *table);

bool pl_sweep_ran(const pl_sweep_table_t *table, size_t point);

/* Has it the number?  If not, 0 stands for it.  false of a point that cannot be
 * run. */
bool pl_sweep_has(const pl_sweep_table_t *table,
                  const pl_sweep_metric_t *metric, size_t point);

/* NULL: there is none of that name. */
const pl_sweep_metric_t *pl_sweep_metric(const pl_sweep_table_t *table,
                                         const char *name);

/* In the unit of `sim --json`; 0 of NULL. */
double pl_sweep_mean_at(const pl_sweep_metric_t *metric, size_t point);
double pl_sweep_half_at(const pl_sweep_metric_t *metric, size_t point);

/* Share of the point's requests that keep the limits (without: complete). */
double pl_sweep_kept(const pl_sweep_table_t *table, size_t point);

#endif /* PL_STORE_SWEEP_TABLE_H */
