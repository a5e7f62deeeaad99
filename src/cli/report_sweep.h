/* cli/report_sweep.h - the page of a sweep: which point to take, and what the
 * others came to.
 *
 *   report_sweep.c         what it is made from, the page, headline, tiles
 *   report_sweep_grid.c    points by the values of an option
 *   report_sweep_advice.c  what to try next
 *   report_sweep_points.c  sections: all points, each option's effect, the rest
 *
 * Options are known by name and text alone: any may be swept.
 */
#ifndef PL_CLI_REPORT_SWEEP_H
#define PL_CLI_REPORT_SWEEP_H

#include "cli/cli.h"
#include "cli/html.h"
#include "store/sweep_table.h"

/* What is to be small or large: a number of the points. */
typedef struct pl_sweep_goal {
    const pl_sweep_metric_t *metric; /* NULL: cost, or GPU hours */
    bool largest;                    /* it is to be large */
    char title[PL_SWEEP_NAME_BYTES + 4];
} pl_sweep_goal_t;

/* An option's values, each once, in the order in which points have them first.
 */
typedef struct pl_sweep_values {
    size_t n;
    size_t *first; /* [n] a point that has it */
    size_t *of;    /* [points] which value it is */
} pl_sweep_values_t;

/* What an option does where all others are the same. */
typedef struct pl_sweep_effect {
    size_t n_groups; /* of two or more points that ran */
    bool matters;    /* some number differs within one */
    bool decides;    /* some meet the limits within one, and others do not */
    double spread;   /* of the score: the largest share that it changes by */
} pl_sweep_effect_t;

typedef struct pl_sweep_view {
    const pl_cli_t *cli;
    const pl_snapshot_t *snapshot; /* borrowed */
    pl_sweep_table_t table;
    pl_sweep_goal_t goal;
    size_t n_ran, n_meet;
    size_t best;                /* the first of all; it ran, if any did */
    pl_sweep_values_t *values;  /* [table.options.n] */
    pl_sweep_effect_t *effects; /* [table.options.n]; n_groups 0: not known */
    /* Points by their values, the last option fastest; table.n: there is none.
     * NULL: they are too few for their values to be looked up. */
    size_t *at;
} pl_sweep_view_t;

/* Read it, write the page.  Statuses of the verb. */
PL_MUST_CHECK pl_status_t pl_report_sweep(const pl_cli_t *cli,
                                          const pl_snapshot_t *snapshot);

/* The goal's number of a point, and half of its interval over seeds. */
double pl_sweep_goal_at(const pl_sweep_view_t *view, size_t point);
double pl_sweep_goal_half(const pl_sweep_view_t *view, size_t point);

/* What points are compared by: the goal's number or, where none meets the
 * limits, the percentage of requests that keep them. */
double pl_sweep_score_at(const pl_sweep_view_t *view, size_t point);
const char *pl_sweep_score_title(const pl_sweep_view_t *view);

/* Is the best that with the largest score? */
static inline bool pl_sweep_is_largest(const pl_sweep_view_t *view)
{
    return (view->n_meet == 0) || view->goal.largest;
}

/* Texts: "310 ms"; "cp 8, page-size 64", for prose (cli/html.h). */
void pl_sweep_say_goal(const pl_sweep_view_t *view, double goal, char *text,
                       size_t n);
void pl_sweep_add_point(const pl_sweep_view_t *view, size_t point,
                        pl_text_t *text);

/* ---- report_sweep_grid.c ---- */

/* Fill values, at and effects.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sweep_view_grid(pl_sweep_view_t *view);
void pl_sweep_view_grid_free(pl_sweep_view_t *view);

/* The point that differs in that option alone; table.n: there is none. */
size_t pl_sweep_other(const pl_sweep_view_t *view, size_t point, size_t option,
                      size_t value);

static inline const char *pl_sweep_value(const pl_sweep_view_t *view,
                                         size_t option, size_t value)
{
    return pl_snapshot_text_at(&view->table.options.items[option].values,
                               view->values[option].first[value]);
}

/* ---- parts of the page ---- */

/* Statuses of store/reader.h. */
PL_MUST_CHECK pl_status_t pl_sweep_put_advice(pl_html_t *page,
                                              const pl_sweep_view_t *view);
PL_MUST_CHECK pl_status_t pl_sweep_put_sections(pl_html_t *page,
                                                const pl_sweep_view_t *view);

#endif /* PL_CLI_REPORT_SWEEP_H */
