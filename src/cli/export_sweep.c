#include "cli/export_sweep.h"

/* A row that is put: of a point, or of titles. */
typedef struct row {
    pl_fields_t *fields;
    const pl_sweep_table_t *table;
    size_t point;
    bool is_title;
    bool ran;
} row_t;

/* Begins a field; true: its value is to follow. */
static bool begin(const row_t *row, const char *group, const char *name,
                  bool is_there)
{
    char title[128];

    (void)snprintf(title, sizeof(title), "%s%s%s", group,
                   group[0] == '\0' ? "" : ".", name);
    pl_fields_begin(row->fields, title);
    if (row->is_title) {
        pl_fields_text(row->fields, title);
    } else if (!is_there) {
        pl_fields_nothing(row->fields);
    }
    return !row->is_title && is_there;
}

static void put_integer(const row_t *row, const char *name, int64_t value)
{
    if (begin(row, "", name, true)) {
        pl_fields_integer(row->fields, value);
    }
}

static void put_text(const row_t *row, const char *group, const char *name,
                     const pl_snapshot_texts_t *texts)
{
    if (begin(row, group, name, true)) {
        pl_fields_text(row->fields, pl_snapshot_text_at(texts, row->point));
    }
}

static void put_real(const row_t *row, const char *name, double value)
{
    if (begin(row, "", name, row->ran)) {
        pl_fields_real(row->fields, value);
    }
}

static void put_metric(const row_t *row, const char *group,
                       const pl_sweep_metric_t *metric, bool half)
{
    if (!begin(row, group, metric->said,
               row->is_title || pl_sweep_has(row->table, metric, row->point))) {
        return;
    }
    if (pl_sweep_is_millionths(metric->unit)) {
        pl_fields_real(row->fields, half
                                        ? pl_sweep_half_at(metric, row->point)
                                        : pl_sweep_mean_at(metric, row->point));
    } else {
        pl_fields_integer(
            row->fields,
            (half ? &metric->halves : &metric->means)->items[row->point]);
    }
}

static void put_outcome(const row_t *row)
{
    const pl_sweep_table_t *t = row->table;
    size_t i                  = row->point;

    put_integer(row, "point", (int64_t)i);
    put_integer(row, "place", t->place.items[i]);
    put_text(row, "", "status", &t->status);
    put_integer(row, "meets_limits", t->meets.items[i]);
    put_real(row, "kept", pl_sweep_kept(t, i));
    put_real(row, "gpu_hours", (double)t->hours.items[i] / 1e6);
    if (t->costs.rows > 0) {
        put_real(row, "cost", (double)t->costs.items[i] / 1e6);
    }
    put_integer(row, "seeds", t->seeds.items[i]);
    put_text(row, "", "limited_by", &t->limited_by);
    put_text(row, "", "message", &t->message);
}

static void put_row(const row_t *row, bool is_first)
{
    const pl_sweep_table_t *t = row->table;

    pl_fields_begin_row(row->fields, is_first);
    put_outcome(row);
    for (size_t i = 0; i < t->options.n; i++) {
        put_text(row, "options", t->options.items[i].name,
                 &t->options.items[i].values);
    }
    for (size_t i = 0; i < t->metrics.n; i++) {
        put_metric(row, "metrics", &t->metrics.items[i], false);
    }
    for (size_t i = 0; i < t->metrics.n; i++) {
        if (t->metrics.items[i].halves.rows > 0) {
            put_metric(row, "interval", &t->metrics.items[i], true);
        }
    }
    pl_fields_end_row(row->fields);
}

void pl_export_points(pl_fields_t *fields, const pl_sweep_table_t *table)
{
    row_t row = {.fields = fields, .table = table};

    if (!fields->json) {
        row.is_title = true;
        put_row(&row, true);
        row.is_title = false;
    }
    for (size_t i = 0; i < table->n; i++) {
        row.point = i;
        row.ran   = pl_sweep_ran(table, i);
        put_row(&row, i == 0);
    }
}
