/* What to try next, and what of a sweep is not to be believed. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_sweep.h"

/* A share that is not worth a word. */
#define LITTLE 0.01

/* ---- the edge of the grid ---- */

/* A number with what stands behind it ("64", "50GB"); false: it is none. */
static bool read_number(const char *text, double *number_p, const char **rest_p)
{
    char *end = NULL;

    *number_p = strtod(text, &end);
    *rest_p   = end;
    return (end != text) && isfinite(*number_p) && (strlen(end) <= 4) &&
           (strpbrk(end, "0123456789.,:") == NULL);
}

/* The values on both sides of one; values[option].n: there is none.  false:
 * they have no order. */
static bool find_beside(const pl_sweep_view_t *view, size_t option, size_t at,
                        size_t beside[2])
{
    const pl_sweep_values_t *values = &view->values[option];
    double number, nearest[2] = {-INFINITY, INFINITY}, other;
    const char *rest, *others;

    beside[0] = beside[1] = values->n;
    if (!read_number(pl_sweep_value(view, option, at), &number, &rest)) {
        return false;
    }
    for (size_t v = 0; v < values->n; v++) {
        if (!read_number(pl_sweep_value(view, option, v), &other, &others) ||
            (strcmp(rest, others) != 0)) {
            return false;
        }
        if ((other < number) && (other > nearest[0])) {
            nearest[0] = other;
            beside[0]  = v;
        } else if ((other > number) && (other < nearest[1])) {
            nearest[1] = other;
            beside[1]  = v;
        }
    }
    return true;
}

/* Is the best better than the point with that value, by more than what counts
 * as little?  Not if that did not run: it tells nothing. */
static bool beats(const pl_sweep_view_t *view, size_t option, size_t value)
{
    size_t other = pl_sweep_other(view, view->best, option, value);
    double here, there;

    if ((other >= view->table.n) || !pl_sweep_ran(&view->table, other)) {
        return false;
    }
    here  = pl_sweep_score_at(view, view->best);
    there = pl_sweep_score_at(view, other);
    return (view->table.meets.items[other] <
            view->table.meets.items[view->best]) ||
           ((pl_sweep_is_largest(view) ? here - there : there - here) >
            LITTLE * fabs(here));
}

static void say_edge(pl_html_t *page, const pl_sweep_view_t *view,
                     size_t option)
{
    const char *name = view->table.options.items[option].name;
    size_t at        = view->values[option].of[view->best];
    const char *text = pl_sweep_value(view, option, at);
    char title[128];
    size_t beside[2];
    bool is_least, is_most;

    if (!find_beside(view, option, at, beside)) {
        return;
    }
    is_least = beside[0] == view->values[option].n;
    is_most  = beside[1] == view->values[option].n;
    /* below 0 and 1 there is nothing */
    if ((is_least == is_most) ||
        (is_least && (strtod(text, NULL) >= 0) && (strtod(text, NULL) <= 1)) ||
        !beats(view, option, beside[is_least ? 1 : 0])) {
        return;
    }
    (void)snprintf(title, sizeof(title),
                   "The best point lies at the edge of the grid: %s %s.", name,
                   text);
    pl_html_advice(
        page, PL_HTML_ADVICE, title,
        "It is the %s of its %zu values, and the next one, %s, does worse with "
        "all else the same: sweep `--%s` further on that side.",
        is_least ? "least" : "largest", view->values[option].n,
        pl_sweep_value(view, option, beside[is_least ? 1 : 0]), name);
}

/* ---- options that do little ---- */

static void say_effect(pl_html_t *page, const pl_sweep_view_t *view,
                       size_t option)
{
    const pl_sweep_effect_t *effect = &view->effects[option];
    const char *name                = view->table.options.items[option].name;
    char title[128];

    if (effect->n_groups == 0) {
        return;
    }
    if (!effect->matters) {
        (void)snprintf(title, sizeof(title), "%s makes no difference.", name);
        pl_html_advice(
            page, PL_HTML_NOTE, title,
            "All numbers are the same wherever points differ in `--%s` alone "
            "(%zu times): leave it out of the sweep.",
            name, effect->n_groups);
    } else if (!effect->decides && (effect->spread < LITTLE)) {
        (void)snprintf(title, sizeof(title), "%s hardly changes %s.", name,
                       pl_sweep_score_title(view));
        pl_html_advice(
            page, PL_HTML_NOTE, title,
            "Where points differ in `--%s` alone (%zu times), it changes by "
            "%.2g %% at most; other numbers change.",
            name, effect->n_groups, 100 * effect->spread);
    }
}

/* ---- the rest ---- */

static pl_status_t say_failed(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_sweep_table_t *table = &view->table;
    size_t failed                 = table->n - view->n_ran;
    pl_text_t text                = {0};
    char *first                   = NULL;
    char title[128];

    if ((failed == 0) || (view->n_ran == 0)) {
        return PL_OK;
    }
    pl_sweep_add_point(view, table->order[view->n_ran], &text);
    pl_text_add(&text, ": ");
    pl_html_add_plain(
        &text, pl_snapshot_text_at(&table->message, table->order[view->n_ran]));
    PL_TRY(pl_text_take(&text, &first));
    (void)snprintf(title, sizeof(title), "%zu of %zu points cannot be run.",
                   failed, table->n);
    pl_html_advice(page, PL_HTML_WARNING, title, "%s%s", first,
                   failed > 1 ? " (all of them are below)" : "");
    free(first);
    return PL_OK;
}

/* Of the best point and the next ones: what the seeds leave open. */
static void say_seeds(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_sweep_table_t *table = &view->table;
    size_t n        = view->n_meet > 0 ? view->n_meet : view->n_ran;
    double best     = n > 0 ? pl_sweep_goal_at(view, view->best) : 0;
    double half     = n > 0 ? pl_sweep_goal_half(view, view->best) : 0;
    size_t overlaps = 0;
    size_t first    = 0;

    for (size_t k = 1; k < n; k++) {
        size_t i      = table->order[k];
        double halves = half + pl_sweep_goal_half(view, i);

        if ((halves > 0) &&
            (fabs(pl_sweep_goal_at(view, i) - best) <= halves)) {
            first = overlaps == 0 ? i : first;
            overlaps++;
        }
    }
    if (overlaps > 0) {
        pl_html_advice(
            page, PL_HTML_WARNING, "Seeds do not tell the best from others.",
            "Its %s is %.4g, give or take %.2g; of %zu other point%s the 95 %% "
            "intervals overlap with that, as %.4g, give or take %.2g, of the "
            "point at place %" PRId64 ". More seeds (`--repeat`, %" PRId64
            " now) would tell.",
            view->goal.title, best, half, overlaps,
            pl_text_s((int64_t)overlaps), pl_sweep_goal_at(view, first),
            pl_sweep_goal_half(view, first), table->place.items[first],
            table->seeds.items[view->best]);
    }
}

static void say_lost(pl_html_t *page, const pl_sweep_view_t *view)
{
    double lost =
        pl_sweep_mean_at(pl_sweep_metric(&view->table, "failed"), view->best) +
        pl_sweep_mean_at(pl_sweep_metric(&view->table, "unfinished"),
                         view->best);

    if (lost > 0) {
        pl_html_advice(page, PL_HTML_WARNING,
                       "Requests failed at the best point.",
                       "%.6g of them; `--attain` allows it.", lost);
    }
}

/* The calibration was fitted to other requests. */
static void say_beyond(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_sweep_metric_t *beyond =
        pl_sweep_metric(&view->table, "extrapolated");
    size_t n = 0;

    for (size_t i = 0; i < view->table.n; i++) {
        n += pl_sweep_mean_at(beyond, i) > 0;
    }
    if (n > 0) {
        pl_html_advice(
            page, PL_HTML_WARNING,
            pl_sweep_mean_at(beyond, view->best) > 0
                ? "The best point is beyond what the calibration was fitted to."
                : "Points are beyond what the calibration was fitted to.",
            "Requests of %zu of %zu points go beyond the range of the "
            "measurements behind `--calibrate`; measure there before you rely "
            "on it.",
            n, view->n_ran);
    }
}

pl_status_t pl_sweep_put_advice(pl_html_t *page, const pl_sweep_view_t *view)
{
    PL_TRY(say_failed(page, view));
    if (view->n_ran == 0) {
        return PL_OK;
    }
    if (view->n_meet > 0) {
        say_lost(page, view);
    }
    say_beyond(page, view);
    say_seeds(page, view);
    for (size_t k = 0; k < view->table.options.n; k++) {
        say_edge(page, view, k);
    }
    for (size_t k = 0; k < view->table.options.n; k++) {
        say_effect(page, view, k);
    }
    return PL_OK;
}
