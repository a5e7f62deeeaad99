/* pagelane compare A B: the same requests in two runs, one by one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/limit.h"
#include "cli/table.h"
#include "sim/metrics.h"

/* Of one metric: A, B, and what B has more than A, request by request. */
enum { IN_A, IN_B, CHANGE, SIDES };

typedef struct measured {
    int64_t n; /* pairs */
    double stats[SIDES][PL_STATS];
} measured_t;

typedef struct option_change {
    char *name, *a, *b; /* NULL: the file has none */
} option_change_t;

typedef struct compare {
    const pl_cli_t *cli;
    pl_snapshot_t *snapshots[2];
    pl_record_t *records[2];
    int32_t n;
    int64_t n_pairs; /* requests that count in both */
    measured_t measured[PL_METRICS];
    PL_ARRAY(option_change_t) options;
    PL_ARRAY(pl_limit_t) limits;
} compare_t;

/* ---- configurations ---- */

/* Options come by name, those of A first. */
static pl_status_t add_option(void *context, const char *name, const char *text,
                              bool is_number)
{
    compare_t *compare     = context;
    option_change_t change = {strdup(name), strdup(text), NULL};

    (void)is_number;
    if ((change.name == NULL) || (change.a == NULL) ||
        (PL_ARRAY_PUSH(&compare->options, change) != PL_OK)) {
        free(change.name);
        free(change.a);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t add_other(void *context, const char *name, const char *text,
                             bool is_number)
{
    compare_t *compare    = context;
    option_change_t fresh = {NULL, NULL, strdup(text)};

    (void)is_number;
    if (fresh.b == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < compare->options.n; i++) {
        option_change_t *change = &compare->options.items[i];

        if (strcmp(change->name, name) == 0) {
            free(change->b);
            change->b = fresh.b;
            return PL_OK;
        }
    }
    fresh.name = strdup(name);
    if ((fresh.name == NULL) ||
        (PL_ARRAY_PUSH(&compare->options, fresh) != PL_OK)) {
        free(fresh.name);
        free(fresh.b);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static bool is_changed(const option_change_t *change)
{
    return (change->a == NULL) || (change->b == NULL) ||
           (strcmp(change->a, change->b) != 0);
}

/* ---- pairs ---- */

/* Are these two runs of the same requests? */
static pl_status_t check_pairs(const compare_t *compare, int32_t n_b)
{
    const char *b = pl_snapshot_path(compare->snapshots[1]);

    if (compare->n != n_b) {
        pl_log(&compare->cli->log, PL_LOG_ERROR,
               "%s: %" PRId32 " requests, but A has %" PRId32
               "; only runs of the same requests can be compared",
               b, n_b, compare->n);
        return PL_ERR_INPUT;
    }
    for (int32_t i = 0; i < n_b; i++) {
        if (compare->records[0][i].prompt_tokens !=
            compare->records[1][i].prompt_tokens) {
            pl_log(&compare->cli->log, PL_LOG_ERROR,
                   "%s: request %" PRId32 " has %" PRId32
                   " prompt tokens, in A %" PRId32
                   "; only runs of the same requests can be compared",
                   b, i, compare->records[1][i].prompt_tokens,
                   compare->records[0][i].prompt_tokens);
            return PL_ERR_INPUT;
        }
    }
    return PL_OK;
}

/* False: the request has none. */
static bool value_of(const pl_record_t *record, pl_metric_t metric,
                     int64_t *value_p)
{
    switch (metric) {
    case PL_METRIC_IS_TTFT:
        return pl_metrics_time(record, PL_METRIC_TTFT, value_p);
    case PL_METRIC_IS_E2E:
        return pl_metrics_time(record, PL_METRIC_E2E, value_p);
    case PL_METRIC_IS_TPOT:
        return pl_metrics_time(record, PL_METRIC_TPOT, value_p);
    case PL_METRIC_IS_QUEUEING:
        return pl_metrics_time(record, PL_METRIC_QUEUE, value_p);
    case PL_METRIC_IS_DEVICE_HIT:
        *value_p = record->device_hit_tokens;
        return true;
    case PL_METRIC_IS_HOST_HIT:
        *value_p = record->host_hit_tokens;
        return true;
    case PL_METRIC_IS_STORAGE_HIT:
        *value_p = record->storage_hit_tokens;
        return true;
    case PL_METRIC_IS_COMPUTED:
        *value_p = (int64_t)record->prompt_tokens - record->device_hit_tokens -
                   record->host_hit_tokens - record->storage_hit_tokens;
        return true;
    case PL_METRICS:
        break;
    }
    return false;
}

static void take_stats(int64_t *values, int64_t n, double stats[PL_STATS])
{
    pl_spread_t spread = pl_metrics_spread(values, n);

    stats[PL_STAT_MEAN] = spread.mean;
    stats[PL_STAT_P50]  = (double)spread.p50_ns;
    stats[PL_STAT_P90]  = (double)spread.p90_ns;
    stats[PL_STAT_P99]  = (double)spread.p99_ns;
}

/* values: [SIDES][n] scratch. */
static void measure(compare_t *compare, pl_metric_t metric, int64_t *values)
{
    measured_t *measured = &compare->measured[metric];
    size_t n             = (size_t)compare->n;

    for (int32_t i = 0; i < compare->n; i++) {
        const pl_record_t *a = &compare->records[0][i];
        const pl_record_t *b = &compare->records[1][i];
        int64_t x, y;

        if (pl_metrics_counts(a) && pl_metrics_counts(b) &&
            value_of(a, metric, &x) && value_of(b, metric, &y)) {
            values[measured->n]                 = x;
            values[n + (size_t)measured->n]     = y;
            values[2 * n + (size_t)measured->n] = y - x;
            measured->n++;
        }
    }
    for (int side = 0; side < SIDES; side++) {
        take_stats(values + (size_t)side * n, measured->n,
                   measured->stats[side]);
    }
}

static pl_status_t measure_all(compare_t *compare)
{
    int64_t *values =
        malloc((SIDES * (size_t)compare->n + 1) * sizeof(*values));

    if (values == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int m = 0; m < PL_METRICS; m++) {
        measure(compare, (pl_metric_t)m, values);
    }
    compare->n_pairs = compare->measured[PL_METRIC_IS_TTFT].n;
    free(values);
    return PL_OK;
}

/* ---- for people ---- */

/* Times are told in ms. */
static double shown(pl_metric_t metric, double value)
{
    return pl_metric_is_time(metric) ? value / 1e6 : value;
}

static double stat_of(const compare_t *compare, pl_metric_t metric, int side,
                      int stat)
{
    return compare->measured[metric].stats[side][stat];
}

static void percent_cell(pl_table_t *table, double a, double b)
{
    if ((a == 0) && (b != 0)) {
        pl_table_cell(table, "-"); /* of nothing */
    } else {
        pl_table_cell(table, "%+.2f %%",
                      a == 0 ? 0.0 : 100 * (b - a) / fabs(a));
    }
}

static void metric_row(pl_table_t *table, const compare_t *compare,
                       pl_metric_t metric, int stat)
{
    double a = stat_of(compare, metric, IN_A, stat);
    double b = stat_of(compare, metric, IN_B, stat);

    pl_table_cell(table, "%s.%s", pl_metric_name(metric), pl_stat_name(stat));
    pl_table_cell(table, "%s", pl_metric_is_time(metric) ? "ms" : "tokens");
    pl_table_cell(table, "%.3f", shown(metric, a));
    pl_table_cell(table, "%.3f", shown(metric, b));
    pl_table_cell(table, "%+.3f", shown(metric, b - a));
    percent_cell(table, a, b);
    pl_table_cell(table, "%+.3f",
                  shown(metric, stat_of(compare, metric, CHANGE, stat)));
}

static pl_status_t print_metrics(const compare_t *compare)
{
    pl_table_t *table =
        pl_table_open("metric<,unit<,A>,B>,B - A>,of A>,by request>");
    pl_status_t status;

    for (int m = 0; m < PL_METRICS; m++) {
        for (int stat = 0; stat < PL_STATS; stat++) {
            metric_row(table, compare, (pl_metric_t)m, stat);
        }
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_options(const compare_t *compare)
{
    pl_table_t *table = pl_table_open("option<,A<,B<");
    bool any          = false;
    pl_status_t status;

    for (size_t i = 0; i < compare->options.n; i++) {
        const option_change_t *change = &compare->options.items[i];

        if (is_changed(change)) {
            any = true;
            pl_table_cell(table, "%s", change->name);
            pl_table_cell(table, "%s", change->a == NULL ? "-" : change->a);
            pl_table_cell(table, "%s", change->b == NULL ? "-" : change->b);
        }
    }
    if (any) {
        status = pl_table_print(table, stdout);
    } else {
        printf("the same options\n");
        status = PL_OK;
    }
    printf("\n");
    pl_table_close(table);
    return status;
}

/* No request has a value in both. */
static bool has_nothing(const compare_t *compare, size_t i)
{
    return compare->measured[compare->limits.items[i].metric].n == 0;
}

/* What could not be looked at does not hold either. */
static bool is_broken(const compare_t *compare, size_t i)
{
    const pl_limit_t *limit = &compare->limits.items[i];

    return has_nothing(compare, i) ||
           pl_limit_is_broken(
               limit, stat_of(compare, limit->metric, IN_A, limit->stat),
               stat_of(compare, limit->metric, IN_B, limit->stat));
}

static void print_limit(const compare_t *compare, size_t i)
{
    const pl_limit_t *limit = &compare->limits.items[i];
    const char *text        = compare->cli->options.fail_if.items[i];

    if (has_nothing(compare, i)) {
        printf("%s: no request has %s in both: nothing to compare: FAILS\n",
               text, pl_metric_name(limit->metric));
        return;
    }
    printf("%s: %.3f in A, %.3f in B: %s\n", text,
           shown(limit->metric,
                 stat_of(compare, limit->metric, IN_A, limit->stat)),
           shown(limit->metric,
                 stat_of(compare, limit->metric, IN_B, limit->stat)),
           is_broken(compare, i) ? "FAILS" : "good");
}

static void print_limits(const compare_t *compare)
{
    for (size_t i = 0; i < compare->limits.n; i++) {
        printf("%s", i == 0 ? "\n" : "");
        print_limit(compare, i);
    }
}

static pl_status_t print_tables(const compare_t *compare)
{
    printf("A %s\nB %s\n%" PRId64 " of %" PRId32
           " request%s completed in both\n\n",
           pl_snapshot_path(compare->snapshots[0]),
           pl_snapshot_path(compare->snapshots[1]), compare->n_pairs,
           compare->n, pl_text_s(compare->n));
    PL_TRY(print_options(compare));
    PL_TRY(print_metrics(compare));
    print_limits(compare);
    return PL_OK;
}

/* ---- for programs ---- */

static json_object *stats_json(const compare_t *compare, pl_metric_t metric,
                               int side)
{
    json_object *object = json_object_new_object();

    for (int stat = 0; stat < PL_STATS; stat++) {
        pl_json_real(object, pl_stat_name(stat),
                     shown(metric, stat_of(compare, metric, side, stat)));
    }
    return object;
}

static json_object *metric_json(const compare_t *compare, pl_metric_t metric)
{
    json_object *object     = json_object_new_object();
    json_object *difference = json_object_new_object();
    json_object *percent    = json_object_new_object();

    for (int stat = 0; stat < PL_STATS; stat++) {
        double a = stat_of(compare, metric, IN_A, stat);
        double b = stat_of(compare, metric, IN_B, stat);

        pl_json_real(difference, pl_stat_name(stat), shown(metric, b - a));
        if ((a != 0) || (b == 0)) { /* of nothing there is no percentage */
            pl_json_real(percent, pl_stat_name(stat),
                         a == 0 ? 0 : 100 * (b - a) / fabs(a));
        }
    }
    pl_json_text(object, "unit", pl_metric_is_time(metric) ? "ms" : "tokens");
    pl_json_integer(object, "pairs", compare->measured[metric].n);
    json_object_object_add(object, "a", stats_json(compare, metric, IN_A));
    json_object_object_add(object, "b", stats_json(compare, metric, IN_B));
    json_object_object_add(object, "difference", difference);
    json_object_object_add(object, "percent", percent);
    json_object_object_add(object, "by_request",
                           stats_json(compare, metric, CHANGE));
    return object;
}

static json_object *options_json(const compare_t *compare)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < compare->options.n; i++) {
        const option_change_t *change = &compare->options.items[i];

        if (is_changed(change)) {
            json_object *object = json_object_new_object();

            pl_json_text(object, "option", change->name);
            if (change->a != NULL) {
                pl_json_text(object, "a", change->a);
            }
            if (change->b != NULL) {
                pl_json_text(object, "b", change->b);
            }
            json_object_array_add(array, object);
        }
    }
    return array;
}

static json_object *limits_json(const compare_t *compare)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < compare->limits.n; i++) {
        json_object *object = json_object_new_object();

        pl_json_text(object, "fail_if", compare->cli->options.fail_if.items[i]);
        pl_json_integer(object, "pairs",
                        compare->measured[compare->limits.items[i].metric].n);
        json_object_object_add(object, "fails",
                               json_object_new_boolean(is_broken(compare, i)));
        json_object_array_add(array, object);
    }
    return array;
}

static pl_status_t print_json(const compare_t *compare)
{
    json_object *object  = json_object_new_object();
    json_object *metrics = json_object_new_object();

    pl_json_text(object, "a", pl_snapshot_path(compare->snapshots[0]));
    pl_json_text(object, "b", pl_snapshot_path(compare->snapshots[1]));
    pl_json_integer(object, "requests", compare->n);
    pl_json_integer(object, "pairs", compare->n_pairs);
    json_object_object_add(object, "options", options_json(compare));
    for (int m = 0; m < PL_METRICS; m++) {
        json_object_object_add(metrics, pl_metric_name((pl_metric_t)m),
                               metric_json(compare, (pl_metric_t)m));
    }
    json_object_object_add(object, "metrics", metrics);
    json_object_object_add(object, "fail_if", limits_json(compare));
    return pl_json_print(object, stdout);
}

/* ---- the verb ---- */

static pl_status_t parse_limits(compare_t *compare)
{
    const pl_option_strings_t *texts = &compare->cli->options.fail_if;

    for (size_t i = 0; i < texts->n; i++) {
        pl_limit_t limit;

        PL_TRY(pl_limit_parse(texts->items[i], &compare->cli->log, &limit));
        PL_TRY(PL_ARRAY_PUSH(&compare->limits, limit));
    }
    return PL_OK;
}

static pl_status_t load(compare_t *compare)
{
    int32_t n_b = 0;

    for (int f = 0; f < 2; f++) {
        PL_TRY(pl_snapshot_open(compare->cli->words[f], &compare->cli->log,
                                &compare->snapshots[f]));
    }
    PL_TRY(pl_inspect_records(compare->snapshots[0], &compare->records[0],
                              &compare->n));
    PL_TRY(
        pl_inspect_records(compare->snapshots[1], &compare->records[1], &n_b));
    PL_TRY(check_pairs(compare, n_b));
    PL_TRY(pl_snapshot_attributes(compare->snapshots[0], "/config", add_option,
                                  compare));
    return pl_snapshot_attributes(compare->snapshots[1], "/config", add_other,
                                  compare);
}

static void unload(compare_t *compare)
{
    for (size_t i = 0; i < compare->options.n; i++) {
        free(compare->options.items[i].name);
        free(compare->options.items[i].a);
        free(compare->options.items[i].b);
    }
    PL_ARRAY_FREE(&compare->options);
    PL_ARRAY_FREE(&compare->limits);
    free(compare->records[0]);
    free(compare->records[1]);
    pl_snapshot_close(compare->snapshots[1]);
    pl_snapshot_close(compare->snapshots[0]);
}

static pl_status_t compare_files(compare_t *compare)
{
    bool broken = false;

    PL_TRY(parse_limits(compare));
    PL_TRY(load(compare));
    PL_TRY(measure_all(compare));
    PL_TRY(compare->cli->options.json ? print_json(compare)
                                      : print_tables(compare));
    for (size_t i = 0; i < compare->limits.n; i++) {
        broken = broken || is_broken(compare, i);
    }
    return broken ? PL_ERR_VIOLATION : PL_OK;
}

int pl_cli_compare(const pl_cli_t *cli)
{
    compare_t compare  = {.cli = cli};
    pl_status_t status = compare_files(&compare);

    unload(&compare);
    return pl_status_exit(status);
}
