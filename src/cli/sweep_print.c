#include "cli/sweep_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/covered.h"
#include "cli/json.h"
#include "cli/report.h"
#include "cli/table.h"

enum { MOST_ROWS = 20 };

static const char *item_of(const pl_grid_t *grid, size_t point, size_t axis)
{
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(grid, &n);

    return axes[axis].items.items[pl_grid_choice(grid, point, axis)];
}

/* ---- the decision ---- */

static void say_point(const pl_grid_t *grid, size_t point)
{
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(grid, &n);
    const char *blank     = "";

    for (size_t a = 0; a < n; a++) {
        if (axes[a].items.n > 1) {
            printf("%s--%s %s", blank, axes[a].option->name,
                   item_of(grid, point, a));
            blank = " ";
        }
    }
}

static void say_cost(const pl_sweep_verdict_t *v, size_t point)
{
    printf(v->priced ? "%.4g" : "%.4g GPU hours", v->costs[point]);
}

/* "Best of 64 points: --cp 8 --host-gb 64, 12.5 GPU hours; ..." */
static void say_decision(const pl_cli_t *cli, const pl_sweep_verdict_t *v,
                         const pl_sweep_point_t *points)
{
    const pl_options_t *o = &cli->options;
    double attain         = (double)o->attain_billionths / 1e7;
    size_t best           = v->order[0];

    if (v->meets[best] == 0) {
        printf("No point keeps %s%s for %.6g %% of its requests; the nearest, "
               "with %.2f %%: ",
               o->slo_text == NULL ? "going" : "",
               o->slo_text == NULL ? "" : o->slo_text, attain,
               100 * v->kept[best]);
    } else if (o->slo_text != NULL) {
        printf("Keeps %s for %.6g %% of its requests, best by %s: ",
               o->slo_text, attain, o->objective);
    } else {
        printf("Best by %s: ", o->objective);
    }
    say_point(cli->grid, best);
    printf(" (");
    say_cost(v, best);
    printf(")");
    if ((v->n > 1) && (points[v->order[1]].status == PL_OK)) {
        printf("; next: ");
        say_point(cli->grid, v->order[1]);
        printf(" (");
        say_cost(v, v->order[1]);
        printf(")");
    }
    printf("\n\n");
}

/* ---- the table ---- */

static pl_table_t *open_table(const pl_cli_t *cli, const pl_sweep_verdict_t *v)
{
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(cli->grid, &n);
    pl_table_t *table     = NULL;
    pl_text_t text        = {0};
    char *columns         = NULL;

    pl_text_add(&text, "place>");
    for (size_t a = 0; a < n; a++) {
        if (axes[a].items.n > 1) {
            pl_text_add(&text, ",%s>", axes[a].option->name);
        }
    }
    pl_text_add(&text,
                ",%s>%s,TTFT ms>,p99>,TPOT ms>,p99>,hits>,tokens/s>,"
                "limited by<",
                v->priced ? "cost" : "GPU hours",
                cli->options.slo_text == NULL ? "" : ",kept>");
    if (pl_text_take(&text, &columns) == PL_OK) {
        table = pl_table_open(columns);
    }
    free(columns);
    return table;
}

static void add_numbers(pl_table_t *table, const pl_cli_t *cli,
                        const pl_sweep_point_t *point,
                        const pl_sweep_verdict_t *v, size_t i)
{
    static const char *const TIMES[] = {"mean_ttft_ms", "p99_ttft_ms",
                                        "mean_tpot_ms", "p99_tpot_ms"};

    pl_table_cell(table, "%.4g", v->costs[i]);
    if (cli->options.slo_text != NULL) {
        pl_table_cell(table, "%.2f %%", 100 * v->kept[i]);
    }
    for (size_t t = 0; t < sizeof(TIMES) / sizeof(TIMES[0]); t++) {
        pl_table_cell(table, "%.1f", pl_sweep_number(point, TIMES[t]));
    }
    pl_table_cell(table, "%.2f %%", 100 * pl_sweep_number(point, "hit_rate"));
    pl_table_cell(table, "%.1f", pl_sweep_number(point, "output_throughput"));
}

/* Does it go beyond what its calibration was fitted to? */
static bool is_outside(const pl_sweep_point_t *point)
{
    return pl_sweep_number(point, PL_COVERED_NAME) > 0;
}

static void add_row(pl_table_t *table, const pl_cli_t *cli,
                    const pl_sweep_point_t *point, const pl_sweep_verdict_t *v,
                    size_t i)
{
    int n_numbers         = 7 + (cli->options.slo_text != NULL);
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(cli->grid, &n);

    pl_table_cell(table, "%" PRId64 "%s%s", v->places[i],
                  v->meets[i] != 0 ? "" : "!", is_outside(point) ? "~" : "");
    for (size_t a = 0; a < n; a++) {
        if (axes[a].items.n > 1) {
            pl_table_cell(table, "%s", item_of(cli->grid, i, a));
        }
    }
    if (point->status == PL_OK) {
        add_numbers(table, cli, point, v, i);
    } else {
        for (int c = 0; c < n_numbers; c++) {
            pl_table_cell(table, "-");
        }
    }
    pl_table_cell(table, "%.80s", v->limits[i]);
}

static pl_status_t print_tables(const pl_cli_t *cli,
                                const pl_sweep_point_t *points,
                                const pl_sweep_verdict_t *v)
{
    pl_table_t *table = open_table(cli, v);
    bool any          = false;

    say_decision(cli, v, points);
    for (size_t i = 0; (i < v->n) && (i < MOST_ROWS); i++) {
        add_row(table, cli, &points[v->order[i]], v, v->order[i]);
        any = any || is_outside(&points[v->order[i]]);
    }
    PL_TRY(pl_report_table(table));
    if (any) {
        printf("~ extrapolated: beyond what the calibration was fitted to "
               "(docs/sim.md).\n\n");
    }
    if (v->n > MOST_ROWS) {
        printf("%zu more point%s: in %s.\n", v->n - MOST_ROWS,
               pl_text_s((int64_t)(v->n - MOST_ROWS)), cli->options.output);
    }
    return PL_OK;
}

/* ---- JSON ---- */

static void add_value(json_object *object, const pl_sweep_value_t *value,
                      int64_t number)
{
    char name[PL_SWEEP_NAME_BYTES + 4];
    bool is_ms = strcmp(value->unit, "ns") == 0;

    (void)snprintf(name, sizeof(name), "%s%s", value->name, is_ms ? "_ms" : "");
    if (pl_sweep_is_millionths(value->unit)) {
        pl_json_real(object, name, (double)number / 1e6);
    } else {
        pl_json_integer(object, name, number);
    }
}

static json_object *numbers_of(const pl_sweep_point_t *point, bool halves)
{
    json_object *object = json_object_new_object();

    for (size_t v = 0; v < point->values.n; v++) {
        const pl_sweep_value_t *value = &point->values.items[v];

        add_value(object, value, halves ? value->half : value->mean);
    }
    return object;
}

static void put(json_object *object, const char *name, json_object *part)
{
    if ((object == NULL) || (json_object_object_add(object, name, part) != 0)) {
        json_object_put(part);
    }
}

static json_object *point_of(const pl_cli_t *cli, const pl_sweep_point_t *point,
                             const pl_sweep_verdict_t *v, size_t i)
{
    json_object *object   = json_object_new_object();
    json_object *options  = json_object_new_object();
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(cli->grid, &n);

    for (size_t a = 0; a < n; a++) {
        if (axes[a].items.n > 1) {
            pl_json_text(options, axes[a].option->name,
                         item_of(cli->grid, i, a));
        }
    }
    pl_json_integer(object, "place", v->places[i]);
    pl_json_integer(object, "point", (int64_t)i);
    put(object, "options", options);
    pl_json_text(object, "limited_by", v->limits[i]);
    pl_json_integer(object, "exit_status", pl_status_exit(point->status));
    if (point->status == PL_OK) {
        pl_json_integer(object, "meets_limits", v->meets[i]);
        pl_json_real(object, "kept", v->kept[i]);
        pl_json_real(object, "gpu_hours", v->hours[i]);
        if (v->priced) {
            pl_json_real(object, "cost", v->costs[i]);
        }
        pl_json_integer(object, "seeds", point->n_seeds);
        put(object, "metrics", numbers_of(point, false));
        if (point->n_seeds > 1) {
            put(object, "interval", numbers_of(point, true));
        }
    }
    return object;
}

static pl_status_t print_json(const pl_cli_t *cli,
                              const pl_sweep_point_t *points,
                              const pl_sweep_verdict_t *v)
{
    json_object *root  = json_object_new_object();
    json_object *array = json_object_new_array();

    pl_json_text(root, "objective", cli->options.objective);
    for (size_t i = 0; (array != NULL) && (i < v->n); i++) {
        size_t at           = v->order[i];
        json_object *object = point_of(cli, &points[at], v, at);

        if (json_object_array_add(array, object) != 0) {
            json_object_put(object);
        }
    }
    put(root, "points", array);
    return pl_json_print(root, stdout);
}

pl_status_t pl_sweep_print(const pl_cli_t *cli, const pl_sweep_point_t *points,
                           const pl_sweep_verdict_t *verdict)
{
    return cli->options.json ? print_json(cli, points, verdict)
                             : print_tables(cli, points, verdict);
}
