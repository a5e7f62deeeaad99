#include "store/sweep_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 128 };

/* ---- names ---- */

/* Datasets of a group, by name. */
typedef struct names {
    const pl_snapshot_t *snapshot;
    const char *group;
    PL_ARRAY(char *) items; /* owned */
} names_t;

/* [a-z0-9][a-z0-9_]*: it becomes part of other names. */
static bool is_plain_name(const char *name)
{
    size_t n = strlen(name);

    return (n > 0) && (n < PL_SWEEP_NAME_BYTES) && (name[0] != '_') &&
           (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n);
}

/* Nothing can be asked meanwhile, so that what is wrong is told later. */
static pl_status_t note_name(void *context, const pl_snapshot_member_t *member)
{
    names_t *names = context;
    char *name     = strdup(member->name);

    if ((name == NULL) || (PL_ARRAY_PUSH(&names->items, name) != PL_OK)) {
        free(name);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static void free_names(names_t *names)
{
    for (size_t i = 0; i < names->items.n; i++) {
        free(names->items.items[i]);
    }
    PL_ARRAY_FREE(&names->items);
}

static pl_status_t list_names(names_t *names)
{
    PL_TRY(
        pl_snapshot_members(names->snapshot, names->group, note_name, names));
    for (size_t i = 0; i < names->items.n; i++) {
        if (!is_plain_name(names->items.items[i])) {
            return pl_snapshot_refuse(
                names->snapshot, names->group,
                "'%.60s' in it is no name; expected at most %d of a to z, 0 to "
                "9 and _",
                names->items.items[i], PL_SWEEP_NAME_BYTES - 1);
        }
    }
    return PL_OK;
}

/* `read` each dataset of the group. */
static pl_status_t for_each(const pl_snapshot_t *snapshot, const char *group,
                            pl_status_t (*read)(const pl_snapshot_t *snapshot,
                                                pl_sweep_table_t *table,
                                                const char *name),
                            pl_sweep_table_t *table)
{
    names_t names      = {.snapshot = snapshot, .group = group};
    pl_status_t status = list_names(&names);

    for (size_t i = 0; (i < names.items.n) && (status == PL_OK); i++) {
        status = read(snapshot, table, names.items.items[i]);
    }
    free_names(&names);
    return status;
}

/* ---- columns ---- */

static pl_status_t read_option(const pl_snapshot_t *snapshot,
                               pl_sweep_table_t *table, const char *name)
{
    pl_sweep_option_t option = {.name = ""};
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "/options/%s", name);
    PL_TRY(pl_snapshot_read_texts(snapshot, path, table->n, &option.values));
    (void)snprintf(option.name, sizeof(option.name), "%s", name);
    for (char *at = option.name; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    if (PL_ARRAY_PUSH(&table->options, option) != PL_OK) {
        pl_snapshot_texts_free(&option.values);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t read_unit(const pl_snapshot_t *snapshot, const char *path,
                             pl_sweep_metric_t *metric)
{
    char *unit         = NULL;
    pl_status_t status = pl_snapshot_text(snapshot, path, "unit", &unit);

    if ((status == PL_OK) && (strlen(unit) >= sizeof(metric->unit))) {
        status = pl_snapshot_refuse(snapshot, path, "'%.60s' is no unit", unit);
    }
    if (status == PL_OK) {
        (void)snprintf(metric->unit, sizeof(metric->unit), "%s", unit);
        (void)snprintf(metric->said, sizeof(metric->said), "%s%s", metric->name,
                       strcmp(unit, "ns") == 0 ? "_ms" : "");
    }
    free(unit);
    return status;
}

static pl_status_t read_metric(const pl_snapshot_t *snapshot,
                               pl_sweep_table_t *table, const char *name)
{
    pl_sweep_metric_t metric = {.name = ""};
    char path[PATH_BYTES];

    (void)snprintf(metric.name, sizeof(metric.name), "%s", name);
    (void)snprintf(path, sizeof(path), "/metrics/%s", name);
    PL_TRY(read_unit(snapshot, path, &metric));
    PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I64, table->n, 0,
                            &metric.means));
    if (PL_ARRAY_PUSH(&table->metrics, metric) != PL_OK) {
        pl_snapshot_column_free(&metric.means);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t read_halves(const pl_snapshot_t *snapshot,
                               pl_sweep_table_t *table)
{
    char path[PATH_BYTES];

    for (size_t i = 0; i < table->metrics.n; i++) {
        (void)snprintf(path, sizeof(path), "/interval/%s",
                       table->metrics.items[i].name);
        PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I64, table->n, 0,
                                &table->metrics.items[i].halves));
    }
    return PL_OK;
}

static pl_status_t read_outcome(const pl_snapshot_t *snapshot,
                                pl_sweep_table_t *table)
{
    PL_TRY(pl_snapshot_read(snapshot, "/outcome/place", PL_ITEM_I64,
                            PL_ANY_ROWS, 0, &table->place));
    table->n = table->place.rows;
    if (table->n == 0) {
        return pl_snapshot_refuse(snapshot, "/outcome/place",
                                  "has no rows; expected one a point");
    }
    PL_TRY(pl_snapshot_read(snapshot, "/outcome/meets_limits", PL_ITEM_U8,
                            table->n, 0, &table->meets));
    PL_TRY(pl_snapshot_read(snapshot, "/outcome/gpu_hours", PL_ITEM_I64,
                            table->n, 0, &table->hours));
    PL_TRY(pl_snapshot_read(snapshot, "/outcome/seeds", PL_ITEM_I64, table->n,
                            0, &table->seeds));
    PL_TRY(pl_snapshot_read_texts(snapshot, "/outcome/status", table->n,
                                  &table->status));
    PL_TRY(pl_snapshot_read_texts(snapshot, "/outcome/message", table->n,
                                  &table->message));
    PL_TRY(pl_snapshot_read_texts(snapshot, "/outcome/limited_by", table->n,
                                  &table->limited_by));
    if (pl_snapshot_has_dataset(snapshot, "/outcome/lacks")) {
        PL_TRY(pl_snapshot_read_texts(snapshot, "/outcome/lacks", table->n,
                                      &table->lacks));
    }
    return pl_snapshot_has_dataset(snapshot, "/outcome/cost")
               ? pl_snapshot_read(snapshot, "/outcome/cost", PL_ITEM_I64,
                                  table->n, 0, &table->costs)
               : PL_OK;
}

static pl_status_t read_config(const pl_snapshot_t *snapshot,
                               pl_sweep_table_t *table)
{
    char *text = NULL;
    char *end  = NULL;
    bool good;

    PL_TRY(
        pl_snapshot_text(snapshot, "/config", "objective", &table->objective));
    PL_TRY(pl_snapshot_text(snapshot, "/config", "slo", &table->limits));
    PL_TRY(pl_snapshot_text(snapshot, "/config", "attain", &text));
    table->attain = strtod(text, &end);
    good          = (end != text) && (*end == '\0') && (table->attain >= 0) &&
           (table->attain <= 1);
    free(text);
    return good ? PL_OK
                : pl_snapshot_refuse(snapshot, "/config/attain",
                                     "is no share; expected 0 to 1");
}

/* ---- what columns say of each other ---- */

static pl_status_t fill_order(const pl_snapshot_t *snapshot,
                              pl_sweep_table_t *table)
{
    for (size_t i = 0; i < table->n; i++) {
        table->order[i] = table->n;
    }
    for (size_t i = 0; i < table->n; i++) {
        int64_t place = table->place.items[i];

        if ((place < 1) || ((uint64_t)place > table->n) ||
            (table->order[place - 1] != table->n)) {
            return pl_snapshot_refuse(snapshot, "/outcome/place",
                                      "%" PRId64 " is no place, or that of two "
                                      "points; expected 1 to %zu, each once",
                                      place, table->n);
        }
        table->order[place - 1] = i;
    }
    return PL_OK;
}

/* Each point that ran, then the others. */
static pl_status_t check_last(const pl_snapshot_t *snapshot,
                              const pl_sweep_table_t *table)
{
    for (size_t k = 1; k < table->n; k++) {
        size_t i = table->order[k];

        if (pl_sweep_ran(table, i) &&
            !pl_sweep_ran(table, table->order[k - 1])) {
            return pl_snapshot_refuse(snapshot, "/outcome/place",
                                      "point %zu ran and stands behind one "
                                      "that cannot be run",
                                      i);
        }
    }
    return PL_OK;
}

static pl_status_t check_meets(const pl_snapshot_t *snapshot,
                               const pl_sweep_table_t *table)
{
    bool others = false; /* one that does not has come by */

    for (size_t k = 0; k < table->n; k++) {
        size_t i      = table->order[k];
        int64_t meets = table->meets.items[i];

        if ((meets > 1) || ((meets == 1) && !pl_sweep_ran(table, i))) {
            return pl_snapshot_refuse(snapshot, "/outcome/meets_limits",
                                      "point %zu has %" PRId64
                                      "; expected 0 or 1, and 0 of a point "
                                      "that cannot be run",
                                      i, meets);
        }
        if ((meets == 1) && others) {
            return pl_snapshot_refuse(snapshot, "/outcome/place",
                                      "point %zu meets the limits and stands "
                                      "behind one that does not",
                                      i);
        }
        others = others || (meets == 0);
    }
    return PL_OK;
}

pl_status_t pl_sweep_table_read(const pl_snapshot_t *snapshot,
                                pl_sweep_table_t *table)
{
    PL_TRY(read_outcome(snapshot, table));
    PL_TRY(read_config(snapshot, table));
    PL_TRY(for_each(snapshot, "/options", read_option, table));
    PL_TRY(for_each(snapshot, "/metrics", read_metric, table));
    if (pl_snapshot_has(snapshot, "/interval")) {
        PL_TRY(read_halves(snapshot, table));
    }
    table->order = calloc(table->n, sizeof(*table->order));
    if (table->order == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(fill_order(snapshot, table));
    PL_TRY(check_last(snapshot, table));
    return check_meets(snapshot, table);
}

void pl_sweep_table_free(pl_sweep_table_t *table)
{
    pl_snapshot_column_t *columns[] = {&table->place, &table->meets,
                                       &table->hours, &table->costs,
                                       &table->seeds};

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        pl_snapshot_column_free(columns[i]);
    }
    for (size_t i = 0; i < table->options.n; i++) {
        pl_snapshot_texts_free(&table->options.items[i].values);
    }
    for (size_t i = 0; i < table->metrics.n; i++) {
        pl_snapshot_column_free(&table->metrics.items[i].means);
        pl_snapshot_column_free(&table->metrics.items[i].halves);
    }
    PL_ARRAY_FREE(&table->options);
    PL_ARRAY_FREE(&table->metrics);
    pl_snapshot_texts_free(&table->status);
    pl_snapshot_texts_free(&table->message);
    pl_snapshot_texts_free(&table->limited_by);
    pl_snapshot_texts_free(&table->lacks);
    free(table->order);
    free(table->objective);
    free(table->limits);
    *table = (pl_sweep_table_t){0};
}

/* ---- numbers ---- */

bool pl_sweep_ran(const pl_sweep_table_t *table, size_t point)
{
    return strcmp(pl_snapshot_text_at(&table->status, point), "ok") == 0;
}

/* Is `name` a word of the text? */
static bool has_word(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = strstr(text, name); at != NULL;
         at             = strstr(at + n, name)) {
        if (((at == text) || (at[-1] == ' ')) &&
            ((at[n] == ' ') || (at[n] == '\0'))) {
            return true;
        }
    }
    return false;
}

bool pl_sweep_has(const pl_sweep_table_t *table,
                  const pl_sweep_metric_t *metric, size_t point)
{
    return pl_sweep_ran(table, point) &&
           ((table->lacks.n == 0) ||
            !has_word(pl_snapshot_text_at(&table->lacks, point), metric->name));
}

const pl_sweep_metric_t *pl_sweep_metric(const pl_sweep_table_t *table,
                                         const char *name)
{
    for (size_t i = 0; i < table->metrics.n; i++) {
        const pl_sweep_metric_t *metric = &table->metrics.items[i];

        if ((strcmp(metric->name, name) == 0) ||
            (strcmp(metric->said, name) == 0)) {
            return metric;
        }
    }
    return NULL;
}

static double number_at(const pl_sweep_metric_t *metric,
                        const pl_snapshot_column_t *column, size_t point)
{
    double number = (double)column->items[point];

    return pl_sweep_is_millionths(metric->unit) ? number / 1e6 : number;
}

double pl_sweep_mean_at(const pl_sweep_metric_t *metric, size_t point)
{
    return metric == NULL ? 0 : number_at(metric, &metric->means, point);
}

double pl_sweep_half_at(const pl_sweep_metric_t *metric, size_t point)
{
    return (metric == NULL) || (metric->halves.rows == 0)
               ? 0
               : number_at(metric, &metric->halves, point);
}

double pl_sweep_kept(const pl_sweep_table_t *table, size_t point)
{
    static const char *const ALL[] = {"completed", "failed", "unfinished"};
    const char *good =
        table->limits[0] != '\0' ? "good_completed" : "completed";
    double all = 0;

    for (size_t i = 0; i < sizeof(ALL) / sizeof(ALL[0]); i++) {
        all += pl_sweep_mean_at(pl_sweep_metric(table, ALL[i]), point);
    }
    return all > 0 ? pl_sweep_mean_at(pl_sweep_metric(table, good), point) / all
                   : 0;
}
