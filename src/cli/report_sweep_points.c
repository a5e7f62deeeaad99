/* Sections of a sweep's page: its points, what each option does, the rest. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_sweep.h"

/* Numbers that the table of points always has, in this order. */
static const char *const MAIN[] = {"mean_ttft", "p99_ttft",
                                   "mean_tpot", "p99_tpot",
                                   "hit_rate",  "output_throughput"};

enum { N_MAIN = sizeof(MAIN) / sizeof(MAIN[0]) };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return (n >= m) && (strcmp(text + n - m, end) == 0);
}

/* ---- numbers ---- */

static bool is_share(const pl_sweep_metric_t *metric)
{
    return (strcmp(metric->unit, "1e-6") == 0) &&
           ends_with(metric->name, "hit_rate");
}

static pl_html_kind_t kind_of(const pl_sweep_metric_t *metric)
{
    return strcmp(metric->unit, "ns") == 0        ? PL_HTML_NS
           : is_share(metric)                     ? PL_HTML_SHARE
           : pl_sweep_is_millionths(metric->unit) ? PL_HTML_REAL
                                                  : PL_HTML_COUNT;
}

/* "metrics.mean_ttft_ns": what the CSV has. */
static void put_metric_column(pl_html_table_t *table, const char *group,
                              const pl_sweep_metric_t *metric)
{
    pl_html_kind_t kind = kind_of(metric);
    char name[96], title[96];

    (void)snprintf(name, sizeof(name), "%s.%s%s", group, metric->name,
                   kind == PL_HTML_NS      ? "_ns"
                   : kind == PL_HTML_SHARE ? "_percent"
                                           : "");
    (void)snprintf(title, sizeof(title), "%s%s", metric->name,
                   strcmp(group, "interval") == 0 ? " \302\261" : "");
    for (char *at = title; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
    pl_html_column(table, name, title, kind, 0);
}

static void put_metric(pl_html_table_t *table, const pl_sweep_metric_t *metric,
                       const pl_snapshot_column_t *column, size_t point)
{
    switch (kind_of(metric)) {
    case PL_HTML_SHARE:
        pl_html_real(table, (double)column->items[point] / 1e4);
        break;
    case PL_HTML_REAL:
        pl_html_real(table, (double)column->items[point] / 1e6);
        break;
    default:
        pl_html_integer(table, column->items[point]);
        break;
    }
}

/* All points that ran have it, and the same. */
static bool is_same(const pl_sweep_view_t *view,
                    const pl_sweep_metric_t *metric)
{
    for (size_t i = 0; i < view->table.n; i++) {
        if (!pl_sweep_ran(&view->table, i)) {
            continue;
        }
        if (!pl_sweep_has(&view->table, metric, i) ||
            (metric->means.items[i] != metric->means.items[view->best])) {
            return false;
        }
    }
    return true;
}

static bool is_main(const pl_sweep_metric_t *metric)
{
    for (size_t m = 0; m < N_MAIN; m++) {
        if (strcmp(metric->name, MAIN[m]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- all points ---- */

typedef struct columns {
    const pl_sweep_metric_t *main[N_MAIN]; /* NULL: the file has none */
    PL_ARRAY(const pl_sweep_metric_t *) more;
    size_t n; /* that have been added */
    pl_html_axes_t axes;
    bool kept; /* there are limits */
} columns_t;

static void add_column(pl_html_table_t *table, columns_t *columns,
                       const char *name, const char *title, pl_html_kind_t kind)
{
    pl_html_column(table, name, title, kind, 0);
    columns->n++;
}

/* The option that changes the score most. */
static size_t strongest(const pl_sweep_view_t *view)
{
    size_t most = 0;

    for (size_t k = 1; k < view->table.options.n; k++) {
        most = view->effects[k].spread > view->effects[most].spread ? k : most;
    }
    return most;
}

/* Columns that the HTML has. */
static void add_shown(const pl_sweep_view_t *view, pl_html_table_t *table,
                      columns_t *columns)
{
    bool priced = view->table.costs.rows > 0;
    char name[96];

    add_column(table, columns, "place", "place", PL_HTML_COUNT);
    add_column(table, columns, "meets", "meets limits", PL_HTML_TEXT);
    columns->axes.colour = columns->n + strongest(view);
    for (size_t k = 0; k < view->table.options.n; k++) {
        const char *option = view->table.options.items[k].name;

        (void)snprintf(name, sizeof(name), "options.%s", option);
        add_column(table, columns, name, option, PL_HTML_TEXT);
    }
    columns->axes.x = columns->n;
    add_column(table, columns, priced ? "cost" : "gpu_hours",
               priced ? "cost" : "GPU hours", PL_HTML_REAL);
    columns->axes.y = columns->axes.x;
    if (columns->kept) {
        columns->axes.y = columns->n; /* if no point meets them */
        add_column(table, columns, "kept_percent", "kept", PL_HTML_SHARE);
    }
    for (size_t m = 0; m < N_MAIN; m++) {
        columns->main[m] = pl_sweep_metric(&view->table, MAIN[m]);
        if (columns->main[m] != NULL) {
            if ((view->n_meet > 0) && (strcmp(MAIN[m], "p99_ttft") == 0)) {
                columns->axes.y = columns->n;
            }
            put_metric_column(table, "metrics", columns->main[m]);
            columns->n++;
        }
    }
    add_column(table, columns, "limited_by", "limited by", PL_HTML_TEXT);
}

/* Columns for the chart and the CSV: what differs between points. */
static pl_status_t add_more(const pl_sweep_view_t *view, pl_html_table_t *table,
                            columns_t *columns)
{
    columns->axes.good = columns->n;
    pl_html_more(table);
    add_column(table, columns, "meets_limits", "meets limits: 1",
               PL_HTML_COUNT);
    add_column(table, columns, "point", "point of the grid", PL_HTML_COUNT);
    for (size_t m = 0; m < view->table.metrics.n; m++) {
        const pl_sweep_metric_t *metric = &view->table.metrics.items[m];

        if (is_main(metric) || is_same(view, metric)) {
            continue;
        }
        if (metric == view->goal.metric) {
            columns->axes.y = columns->n;
        }
        put_metric_column(table, "metrics", metric);
        columns->n++;
        PL_TRY(PL_ARRAY_PUSH(&columns->more, metric));
    }
    for (size_t m = 0; m < N_MAIN; m++) {
        if ((columns->main[m] != NULL) && (columns->main[m]->halves.rows > 0)) {
            put_metric_column(table, "interval", columns->main[m]);
        }
    }
    return PL_OK;
}

static void put_or_none(pl_html_table_t *table, bool ran, double value)
{
    if (ran) {
        pl_html_real(table, value);
    } else {
        pl_html_none(table);
    }
}

static void put_metrics(pl_html_table_t *table, const pl_sweep_table_t *of,
                        const pl_sweep_metric_t *const *metrics, size_t n,
                        bool halves, size_t point)
{
    for (size_t m = 0; m < n; m++) {
        if ((metrics[m] == NULL) ||
            (halves && (metrics[m]->halves.rows == 0))) {
            continue;
        }
        if (pl_sweep_has(of, metrics[m], point)) {
            put_metric(table, metrics[m],
                       halves ? &metrics[m]->halves : &metrics[m]->means,
                       point);
        } else {
            pl_html_none(table);
        }
    }
}

static void put_point(const pl_sweep_view_t *view, pl_html_table_t *table,
                      const columns_t *columns, size_t i)
{
    const pl_sweep_table_t *t = &view->table;
    bool ran                  = pl_sweep_ran(t, i);

    pl_html_integer(table, t->place.items[i]);
    pl_html_text(table, "%s",
                 !ran                     ? "cannot be run"
                 : t->meets.items[i] != 0 ? "yes"
                                          : "no");
    for (size_t k = 0; k < t->options.n; k++) {
        pl_html_text(table, "%s",
                     pl_snapshot_text_at(&t->options.items[k].values, i));
    }
    put_or_none(table, ran,
                (double)(t->costs.rows > 0 ? t->costs : t->hours).items[i] /
                    1e6);
    if (columns->kept) {
        put_or_none(table, ran, 100 * pl_sweep_kept(t, i));
    }
    put_metrics(table, t, columns->main, N_MAIN, false, i);
    pl_html_text(table, "%s", pl_snapshot_text_at(&t->limited_by, i));
    pl_html_integer(table, t->meets.items[i]);
    pl_html_integer(table, (int64_t)i);
    put_metrics(table, t, columns->more.items, columns->more.n, false, i);
    put_metrics(table, t, columns->main, N_MAIN, true, i);
}

static pl_status_t put_all(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_html_section_t section = {
        .id    = "points",
        .title = "All points",
        .text =
            "Choose what to see over what; filled points meet the limits. "
            "A click on a point or on a row shows it in both; a title sorts "
            "the table.",
        .chart = PL_HTML_SCATTER};
    pl_html_table_t *table = pl_html_section(page, &section);
    columns_t columns      = {.kept = view->table.limits[0] != '\0'};
    pl_status_t status;

    add_shown(view, table, &columns);
    status = add_more(view, table, &columns);
    for (size_t k = 0; (status == PL_OK) && (k < view->table.n); k++) {
        put_point(view, table, &columns, view->table.order[k]);
    }
    pl_html_axes(table, columns.axes);
    PL_ARRAY_FREE(&columns.more);
    return status;
}

/* ---- what an option does ---- */

/* How near a score comes to the best of all, in percent. */
static double nearness(const pl_sweep_view_t *view, double value)
{
    bool largest = pl_sweep_is_largest(view);
    double best  = pl_sweep_score_at(view, view->best);
    double part  = largest ? value : best;
    double whole = largest ? best : value;

    if (value == best) {
        return 100;
    }
    return (whole > 0) && (part > 0) ? fmin(100, 100 * part / whole) : 0;
}

typedef struct sum {
    size_t n_ran, n_meet;
    double scores; /* of those that ran */
    size_t best;   /* SIZE_MAX: none that is to be compared */
} sum_t;

static void sum_up(const pl_sweep_view_t *view, size_t option, sum_t *sums)
{
    const pl_sweep_table_t *t = &view->table;

    for (size_t v = 0; v < view->values[option].n; v++) {
        sums[v] = (sum_t){.best = SIZE_MAX};
    }
    for (size_t k = 0; k < t->n; k++) {
        size_t i   = t->order[k];
        sum_t *sum = &sums[view->values[option].of[i]];

        if (!pl_sweep_ran(t, i)) {
            continue;
        }
        sum->n_ran++;
        sum->n_meet += t->meets.items[i] != 0;
        sum->scores += pl_sweep_score_at(view, i);
        if ((sum->best == SIZE_MAX) &&
            ((t->meets.items[i] != 0) || (view->n_meet == 0))) {
            sum->best = i;
        }
    }
}

static void put_effect_row(pl_html_table_t *table, const pl_sweep_view_t *view,
                           const char *value, const sum_t *sum)
{
    bool found  = sum->best != SIZE_MAX;
    double best = found ? pl_sweep_score_at(view, sum->best) : 0;

    pl_html_text(table, "%s", value);
    pl_html_integer(table, (int64_t)sum->n_ran);
    pl_html_integer(table, (int64_t)sum->n_meet);
    put_or_none(table, found, best);
    put_or_none(table, sum->n_ran > 0,
                sum->n_ran > 0 ? sum->scores / (double)sum->n_ran : 0);
    pl_html_real(table, found ? nearness(view, best) : 0);
}

static pl_status_t put_effect(pl_html_t *page, const pl_sweep_view_t *view,
                              size_t option)
{
    const char *name = view->table.options.items[option].name;
    const char *what = pl_sweep_score_title(view);
    char id[96], title[96], text[256];
    const pl_html_section_t section = {.id    = id,
                                       .title = title,
                                       .text  = text,
                                       .chart = PL_HTML_BARS,
                                       .half  = true};
    sum_t *sums = calloc(view->values[option].n, sizeof(*sums));
    pl_html_table_t *table;

    if (sums == NULL) {
        return PL_ERR_MEMORY;
    }
    (void)snprintf(id, sizeof(id), "effect_%s", name);
    for (char *at = id; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : *at;
    }
    (void)snprintf(title, sizeof(title), "What %s does", name);
    (void)snprintf(text, sizeof(text),
                   "%s: the best with each value%s, the mean of all that ran, "
                   "and how near the best comes to the best of all.",
                   what, view->n_meet > 0 ? " that meets the limits" : "");
    table = pl_html_section(page, &section);
    pl_html_column(table, "value", name, PL_HTML_TEXT, 0);
    pl_html_column(table, "ran", "points", PL_HTML_COUNT, 0);
    pl_html_column(table, "meet", "meet", PL_HTML_COUNT, 0);
    pl_html_column(table, "best", "best", PL_HTML_REAL, 0);
    pl_html_column(table, "mean", "mean", PL_HTML_REAL, 0);
    pl_html_column(table, "near_percent", "near the best", PL_HTML_SHARE, 0);
    sum_up(view, option, sums);
    for (size_t v = 0; v < view->values[option].n; v++) {
        put_effect_row(table, view, pl_sweep_value(view, option, v), &sums[v]);
    }
    free(sums);
    return PL_OK;
}

/* ---- the rest ---- */

/* No prose: as it stands. */
static pl_status_t put_options(pl_html_table_t *table,
                               const pl_sweep_view_t *view, size_t point)
{
    pl_text_t text = {0};
    char *options  = NULL;

    for (size_t k = 0; k < view->table.options.n; k++) {
        const pl_sweep_option_t *option = &view->table.options.items[k];

        pl_text_add(&text, "%s%s %s", k == 0 ? "" : ", ", option->name,
                    pl_snapshot_text_at(&option->values, point));
    }
    pl_text_add(&text, "%s",
                view->table.options.n == 0 ? "the only point" : "");
    PL_TRY(pl_text_take(&text, &options));
    pl_html_text(table, "%s", options);
    free(options);
    return PL_OK;
}

static pl_status_t put_failed(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_html_section_t section = {.id    = "failed",
                                       .title = "Points that cannot be run",
                                       .chart = PL_HTML_TABLE};
    const pl_sweep_table_t *t       = &view->table;
    pl_html_table_t *table;

    if (view->n_ran == t->n) {
        return PL_OK;
    }
    table = pl_html_section(page, &section);
    pl_html_column(table, "options", "options", PL_HTML_TEXT, 0);
    pl_html_column(table, "status", "status", PL_HTML_TEXT, 0);
    pl_html_column(table, "message", "why", PL_HTML_TEXT, 0);
    for (size_t k = 0; k < t->n; k++) {
        size_t i = t->order[k];

        if (!pl_sweep_ran(t, i)) {
            PL_TRY(put_options(table, view, i));
            pl_html_text(table, "%s", pl_snapshot_text_at(&t->status, i));
            pl_html_text(table, "%s", pl_snapshot_text_at(&t->message, i));
        }
    }
    return PL_OK;
}

/* Numbers that are no column of the points, since all have the same. */
static void put_same(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_html_section_t section = {
        .id    = "same",
        .title = "Numbers that are the same at all points",
        .chart = PL_HTML_TABLE,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "name", "number", PL_HTML_TEXT, 0);
    pl_html_column(table, "value", "value", PL_HTML_REAL, 0);
    for (size_t m = 0; m < view->table.metrics.n; m++) {
        const pl_sweep_metric_t *metric = &view->table.metrics.items[m];

        if (!is_main(metric) && is_same(view, metric)) {
            pl_html_text(table, "%s", metric->said);
            pl_html_real(table, pl_sweep_mean_at(metric, view->best));
        }
    }
}

static pl_status_t add_option(void *context, const char *name, const char *text,
                              bool is_number)
{
    (void)is_number;
    pl_html_text(context, "%s", name);
    pl_html_text(context, "%s", text);
    return PL_OK;
}

pl_status_t pl_sweep_put_sections(pl_html_t *page, const pl_sweep_view_t *view)
{
    const pl_html_section_t config = {
        .id    = "config",
        .title = "Options that are the same at all points",
        .chart = PL_HTML_TABLE,
        .half  = true};
    pl_html_table_t *table;

    PL_TRY(put_all(page, view));
    for (size_t k = 0; (k < view->table.options.n) && (view->n_ran > 0); k++) {
        PL_TRY(put_effect(page, view, k));
    }
    PL_TRY(put_failed(page, view));
    if (view->n_ran > 0) {
        put_same(page, view);
    }
    table = pl_html_section(page, &config);
    pl_html_column(table, "option", "option", PL_HTML_TEXT, 0);
    pl_html_column(table, "value", "value", PL_HTML_TEXT, 0);
    return pl_snapshot_attributes(view->snapshot, "/config", add_option, table);
}
