#include "cli/report_sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output_file.h"
#include "sim/sweep.h"

/* ---- what is asked for ---- */

static pl_status_t read_goal(pl_sweep_view_t *view)
{
    const pl_sweep_table_t *table = &view->table;
    pl_sweep_goal_t *goal         = &view->goal;
    const char *text              = table->objective;

    goal->largest = strncmp(text, "max:", 4) == 0;
    if (goal->largest || (strncmp(text, "min:", 4) == 0)) {
        goal->metric = pl_sweep_metric(table, text + 4);
        (void)snprintf(goal->title, sizeof(goal->title), "%s",
                       goal->metric == NULL ? text + 4 : goal->metric->said);
    } else {
        (void)snprintf(goal->title, sizeof(goal->title), "%s",
                       table->costs.rows > 0 ? "cost" : "GPU hours");
    }
    /* of points none of which ran there are no numbers */
    if ((strcmp(text, "cost") == 0) || (goal->metric != NULL) ||
        (view->n_ran == 0)) {
        return PL_OK;
    }
    return pl_snapshot_refuse(view->snapshot, "/config/objective",
                              "is '%.60s'; expected cost, or min: or max: and "
                              "a number of /metrics",
                              text);
}

double pl_sweep_goal_at(const pl_sweep_view_t *view, size_t point)
{
    const pl_sweep_table_t *table = &view->table;

    if (view->goal.metric != NULL) {
        return pl_sweep_mean_at(view->goal.metric, point);
    }
    return (double)(table->costs.rows > 0 ? table->costs : table->hours)
               .items[point] /
           1e6;
}

/* Cost is in proportion to the time that the run takes. */
double pl_sweep_goal_half(const pl_sweep_view_t *view, size_t point)
{
    const pl_sweep_metric_t *time = pl_sweep_metric(&view->table, "duration");
    double mean                   = pl_sweep_mean_at(time, point);

    if (view->goal.metric != NULL) {
        return pl_sweep_half_at(view->goal.metric, point);
    }
    return mean > 0 ? pl_sweep_goal_at(view, point) *
                          pl_sweep_half_at(time, point) / mean
                    : 0;
}

double pl_sweep_score_at(const pl_sweep_view_t *view, size_t point)
{
    return view->n_meet > 0 ? pl_sweep_goal_at(view, point)
                            : 100 * pl_sweep_kept(&view->table, point);
}

const char *pl_sweep_score_title(const pl_sweep_view_t *view)
{
    return view->n_meet > 0                ? view->goal.title
           : view->table.limits[0] == '\0' ? "requests answered, %"
                                           : "requests in limits, %";
}

void pl_sweep_say_goal(const pl_sweep_view_t *view, double goal, char *text,
                       size_t n)
{
    const pl_sweep_metric_t *metric = view->goal.metric;
    const char *unit                = metric == NULL ? "" : metric->unit;

    if (strcmp(unit, "ns") == 0) {
        (void)snprintf(text, n, "%.2f ms", goal);
    } else if (strcmp(unit, "us") == 0) {
        (void)snprintf(text, n, "%.3f s", goal);
    } else { /* no exponent: it is read by people */
        (void)snprintf(text, n, fabs(goal) >= 9999.5 ? "%.0f" : "%.4g", goal);
    }
}

/* "costs 12.5", "takes 4 GPU hours", "has 310 ms". */
static void say_has(const pl_sweep_view_t *view, size_t point, char *text,
                    size_t n)
{
    bool priced = view->table.costs.rows > 0;
    bool hours  = (view->goal.metric == NULL) && !priced;
    char goal[64];

    pl_sweep_say_goal(view, pl_sweep_goal_at(view, point), goal, sizeof(goal));
    (void)snprintf(text, n, "%s %s%s",
                   view->goal.metric != NULL ? "has"
                   : priced                  ? "costs"
                                             : "takes",
                   goal, hours ? " GPU hours" : "");
}

/* As a shell takes them. */
static void add_line(const pl_sweep_view_t *view, size_t point, pl_text_t *text)
{
    pl_text_t line = {0};

    for (size_t k = 0; k < view->table.options.n; k++) {
        const pl_sweep_option_t *option = &view->table.options.items[k];

        pl_text_add(&line, "%s--%s ", k == 0 ? "" : " ", option->name);
        pl_cli_add_word(&line, pl_snapshot_text_at(&option->values, point));
    }
    if (line.status != PL_OK) {
        text->status = line.status;
    } else {
        pl_html_add_plain(text, line.n == 0 ? "" : line.bytes);
    }
    pl_text_free(&line);
}

void pl_sweep_add_point(const pl_sweep_view_t *view, size_t point,
                        pl_text_t *text)
{
    for (size_t k = 0; k < view->table.options.n; k++) {
        const pl_sweep_option_t *option = &view->table.options.items[k];

        pl_text_add(text, "%s%s ", k == 0 ? "" : ", ", option->name);
        pl_html_add_plain(text, pl_snapshot_text_at(&option->values, point));
    }
    if (view->table.options.n == 0) {
        pl_text_add(text, "the only point");
    }
}

/* ---- the decision ---- */

/* What the sweep has put in order by it (sim/sweep.h). */
static double key_at(const pl_sweep_view_t *view, size_t place)
{
    double goal = pl_sweep_goal_at(view, view->table.order[place]);

    return view->goal.largest ? -goal : goal;
}

/* Points in front that are as good as each other, the best of them included. */
static size_t count_alike(const pl_sweep_view_t *view)
{
    double least = INFINITY;
    size_t k     = 0;

    for (size_t i = 0; i < view->n_meet; i++) {
        least = fmin(least, key_at(view, i));
    }
    while ((k < view->n_meet) &&
           (pl_sweep_steps(key_at(view, k), least) <= 0)) {
        k++;
    }
    return k > 0 ? k : 1;
}

/* What the point after the best has: "the next best, cp 4, costs 2 (+3.1 %)".
 * Points that are as good are passed over, and counted. */
static void add_next(const pl_sweep_view_t *view, pl_text_t *text)
{
    const pl_sweep_table_t *table = &view->table;
    double best                   = pl_sweep_goal_at(view, view->best);
    size_t k                      = count_alike(view);
    char has[96];
    double next;

    if (k > 1) {
        pl_text_add(text,
                    "%zu other point%s as good, to one part in a hundred; ",
                    k - 1, k == 2 ? " is" : "s are");
    }
    if (k >= view->n_meet) {
        pl_text_add(text, "%s.",
                    view->n_meet == table->n
                        ? "there is no other point"
                        : "no other point meets the limits");
        return;
    }
    next = pl_sweep_goal_at(view, table->order[k]);
    say_has(view, table->order[k], has, sizeof(has));
    pl_text_add(text, "the next best (");
    pl_sweep_add_point(view, table->order[k], text);
    pl_text_add(text, ") %s", has);
    if (best != 0) {
        pl_text_add(text, " (%+.2g %%)", 100 * (next - best) / fabs(best));
    }
    pl_text_add(text, ".");
}

/* "keep `ttft:2s` for 99 %", or "answer 99 %". */
static void say_limits(const pl_sweep_table_t *table, char *text, size_t n)
{
    bool limited = table->limits[0] != '\0';

    (void)snprintf(text, n, "%s%s%s %.6g %%", limited ? "keep `" : "answer",
                   table->limits, limited ? "` for" : "", 100 * table->attain);
}

/* Takes both texts over. */
static pl_status_t put_texts(pl_html_t *page, pl_text_t *headline,
                             pl_text_t *why)
{
    char *texts[2]     = {NULL, NULL};
    pl_status_t status = pl_text_take(headline, &texts[0]);

    if (status == PL_OK) {
        status = pl_text_take(why, &texts[1]);
    }
    if (status == PL_OK) {
        pl_html_headline(page, texts[0], texts[1]);
    }
    pl_text_free(why);
    free(texts[0]);
    free(texts[1]);
    return status;
}

static pl_status_t put_found(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_sweep_table_t *table = &view->table;
    bool cheapest                 = view->goal.metric == NULL;
    bool limited                  = table->limits[0] != '\0';
    pl_text_t headline            = {0};
    pl_text_t why                 = {0};
    char has[96], limits[256];

    say_has(view, view->best, has, sizeof(has));
    say_limits(&view->table, limits, sizeof(limits));
    pl_text_add(&headline, "%s%s%s: ",
                cheapest             ? "Cheapest"
                : view->goal.largest ? "Largest "
                                     : "Smallest ",
                cheapest ? "" : view->goal.title,
                limited ? " that meets the limits" : "");
    pl_sweep_add_point(view, view->best, &headline);
    pl_text_add(&why, "It %s; ", has);
    add_next(view, &why);
    pl_text_add(&why, " %zu of %zu points %s of their requests. ", view->n_meet,
                table->n, limits);
    if (table->options.n > 0) {
        pl_text_add(&why, "To take it: `");
        add_line(view, view->best, &why);
        pl_text_add(&why, "`");
    }
    return put_texts(page, &headline, &why);
}

/* Which limits the point breaks, and how far: "ttft is broken by 64.5 % (p99
 * 3148 ms)". */
static void say_broken(const pl_sweep_view_t *view, size_t point, char *text,
                       size_t n)
{
    static const char *const LIMITS[][3] = {{"broke_ttft", "ttft", "p99_ttft"},
                                            {"broke_tpot", "tpot", "p99_tpot"},
                                            {"broke_e2el", "e2e", "p99_e2el"}};
    const pl_sweep_table_t *table        = &view->table;
    double all  = pl_sweep_mean_at(pl_sweep_metric(table, "completed"), point);
    double lost = pl_sweep_mean_at(pl_sweep_metric(table, "failed"), point) +
                  pl_sweep_mean_at(pl_sweep_metric(table, "unfinished"), point);
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; (i < 3) && (at < n); i++) {
        double broken =
            pl_sweep_mean_at(pl_sweep_metric(table, LIMITS[i][0]), point);
        double p99 =
            pl_sweep_mean_at(pl_sweep_metric(table, LIMITS[i][2]), point);

        if ((broken > 0) && (all > 0)) {
            at += (size_t)snprintf(text + at, n - at,
                                   " `%s` is broken by %.1f %% (p99 %.2f ms).",
                                   LIMITS[i][1], 100 * broken / all, p99);
        }
    }
    if ((lost > 0) && (at < n)) {
        (void)snprintf(text + at, n - at, " %.6g requests failed.", lost);
    }
}

static pl_status_t put_nearest(pl_html_t *page, const pl_sweep_view_t *view)
{
    pl_text_t headline = {0};
    pl_text_t why      = {0};
    char limits[256], broken[512];

    say_limits(&view->table, limits, sizeof(limits));
    say_broken(view, view->best, broken, sizeof(broken));
    pl_text_add(&headline, "No point meets the limits; the nearest: ");
    pl_sweep_add_point(view, view->best, &headline);
    pl_text_add(&why,
                "Points are to %s of their requests; the nearest does for "
                "%.2f %%.%s",
                limits, 100 * pl_sweep_kept(&view->table, view->best), broken);
    return put_texts(page, &headline, &why);
}

static pl_status_t put_headline(pl_html_t *page, const pl_sweep_view_t *view)
{
    pl_text_t headline = {0};
    pl_text_t why      = {0};

    if (view->n_meet > 0) {
        return put_found(page, view);
    }
    if (view->n_ran > 0) {
        return put_nearest(page, view);
    }
    pl_text_add(&headline, "No point can be run");
    pl_html_add_plain(&why,
                      pl_snapshot_text_at(&view->table.message, view->best));
    return put_texts(page, &headline, &why);
}

/* ---- tiles ---- */

/* A number of the best point; nothing if it has none. */
static void put_tile(pl_html_t *page, const pl_sweep_view_t *view,
                     const char *name, const char *metric, const char *format,
                     double scale, const char *note)
{
    const pl_sweep_metric_t *m = pl_sweep_metric(&view->table, metric);
    char value[64];

    if (m != NULL) {
        (void)snprintf(value, sizeof(value), format,
                       scale * pl_sweep_mean_at(m, view->best));
        pl_html_tile(page, name, value, note);
    }
}

static void put_time(pl_html_t *page, const pl_sweep_view_t *view,
                     const char *name, const char *p99, const char *mean)
{
    char note[64];

    (void)snprintf(
        note, sizeof(note), "p99; mean %.2f ms",
        pl_sweep_mean_at(pl_sweep_metric(&view->table, mean), view->best));
    put_tile(page, view, name, p99, "%.2f ms", 1, note);
}

static void put_tiles(pl_html_t *page, const pl_sweep_view_t *view)
{
    char value[64], note[128];

    (void)snprintf(value, sizeof(value), "%zu", view->table.n);
    (void)snprintf(note, sizeof(note), "%zu meet the limits, %zu cannot be run",
                   view->n_meet, view->table.n - view->n_ran);
    pl_html_tile(page, "points", value, note);
    if (view->n_ran == 0) {
        return;
    }
    pl_sweep_say_goal(view, pl_sweep_goal_at(view, view->best), value,
                      sizeof(value));
    pl_html_tile(page, view->goal.title, value,
                 view->n_meet > 0 ? "of the best" : "of the nearest");
    put_tile(page, view, "GPUs", "gpus", "%.6g", 1, "prefill and decode");
    put_time(page, view, "time to first token", "p99_ttft", "mean_ttft");
    put_time(page, view, "time per output token", "p99_tpot", "mean_tpot");
    put_tile(page, view, "hit rate", "hit_rate", "%.2f %%", 100,
             "of prompt tokens");
    put_tile(page, view, "output tokens", "output_throughput", "%.1f/s", 1,
             "of all GPUs");
}

/* ---- the whole ---- */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static pl_status_t put_page(void *context, FILE *file)
{
    const pl_sweep_view_t *view = context;
    char title[320], about[256];
    pl_html_t *page;
    pl_status_t status;

    (void)snprintf(title, sizeof(title), "pagelane report of %s",
                   file_name(view->cli->words[0]));
    (void)snprintf(about, sizeof(about),
                   "A sweep over %zu options, best by %.80s; times are "
                   "virtual.",
                   view->table.options.n, view->table.objective);
    page   = pl_html_open(title, about);
    status = put_headline(page, view);
    if (status == PL_OK) {
        put_tiles(page, view);
        status = pl_sweep_put_advice(page, view);
    }
    if (status == PL_OK) {
        status = pl_sweep_put_sections(page, view);
    }
    if (status == PL_OK) {
        status = pl_html_write(page, file);
    }
    pl_html_close(page);
    return status;
}

static pl_status_t load(pl_sweep_view_t *view)
{
    PL_TRY(pl_sweep_table_read(view->snapshot, &view->table));
    for (size_t i = 0; i < view->table.n; i++) {
        view->n_ran += pl_sweep_ran(&view->table, i);
        view->n_meet += view->table.meets.items[i] != 0;
    }
    view->best = view->table.order[0];
    PL_TRY(read_goal(view));
    return pl_sweep_view_grid(view);
}

/* Options of a snapshot's report that a sweep has nothing for. */
static pl_status_t check_options(const pl_cli_t *cli)
{
    const pl_options_t *o = &cli->options;

    if ((o->perfetto == NULL) && (o->trace == NULL)) {
        return PL_OK;
    }
    pl_log(&cli->log, PL_LOG_ERROR,
           "option --%s: %s is a sweep, which has no requests; leave it out, "
           "or name a snapshot",
           o->perfetto != NULL ? "perfetto" : "trace", cli->words[0]);
    return PL_ERR_ARGUMENT;
}

pl_status_t pl_report_sweep(const pl_cli_t *cli, const pl_snapshot_t *snapshot)
{
    pl_sweep_view_t view = {.cli = cli, .snapshot = snapshot};
    pl_status_t status   = check_options(cli);

    if (status == PL_OK) {
        status = load(&view);
    }
    if (status == PL_OK) {
        status = pl_output_write(cli, "output", cli->options.output, put_page,
                                 &view);
    }
    pl_sweep_view_grid_free(&view);
    pl_sweep_table_free(&view.table);
    return status;
}
