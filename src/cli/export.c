/* pagelane export F TABLE: a table of a snapshot, or the points of a sweep, for
 * other programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/export_sweep.h"
#include "cli/fields.h"
#include "cli/fleet_file.h"
#include "cli/frame.h"
#include "cli/output_file.h"

/* A table: a group of columns, or (values) the values beside groups. */
typedef struct table {
    const char *name;
    const char *group;
    const char *const *order; /* NULL: values */
    const char *row;          /* the first column, a number; NULL: none */
    bool of_sweep, of_snapshot;
} table_t;

static const table_t TABLES[] = {
    {"requests", "/requests", PL_FRAME_REQUESTS, "request", false, true},
    {"nodes", "/hicache/nodes", PL_FRAME_NODES, NULL, false, true},
    {"events", "/events", PL_FRAME_EVENTS, "event", false, true},
    {"lanes", "/lanes", PL_FRAME_LANES, NULL, false, true},
    {"instances", "/instances", PL_FRAME_INSTANCES, "instance", false, true},
    {"config", "/config", NULL, NULL, true, true},
    {"layout", "/layout", NULL, NULL, false, true},
    {"counters", "/counters", NULL, NULL, false, true},
    {"points", "/outcome", NULL, NULL, true, false},
};

enum { N_TABLES = sizeof(TABLES) / sizeof(TABLES[0]) };

typedef struct export
{
    const pl_cli_t *cli;
    const pl_snapshot_t *snapshot;
    const table_t *table;
    pl_fields_t fields;
    pl_frame_t frame;
    pl_frame_t owners;         /* of nodes: stands beside them in the file */
    pl_snapshot_texts_t kinds; /* of events */
    pl_sweep_table_t points;   /* of a sweep */
}
export_t;

/* ---- cells ---- */

static void put_number(export_t *x, pl_item_t item, int64_t value)
{
    if (item == PL_ITEM_U64) {
        fprintf(x->fields.file, "%" PRIu64, (uint64_t)value);
    } else {
        fprintf(x->fields.file, "%" PRId64, value);
    }
}

/* A list: in CSV with blanks between. */
static void put_list(export_t *x, const pl_frame_column_t *column, size_t row)
{
    size_t n;
    const int64_t *items = pl_frame_cell(column, row, &n);

    fprintf(x->fields.file, "%s", x->fields.json ? "[" : "");
    for (size_t i = 0; i < n; i++) {
        fprintf(x->fields.file, "%s",
                i == 0           ? ""
                : x->fields.json ? ", "
                                 : " ");
        put_number(x, column->item, items[i]);
    }
    fprintf(x->fields.file, "%s", x->fields.json ? "]" : "");
}

static void put_cell(export_t *x, const pl_frame_column_t *column, size_t row)
{
    size_t n;
    const int64_t *items = pl_frame_cell(column, row, &n);
    char digest[32];

    pl_fields_begin(&x->fields, column->name);
    if (!column->is_flat) {
        put_list(x, column, row);
    } else if ((x->kinds.n > 0) && (strcmp(column->name, "kind") == 0)) {
        bool known = (items[0] >= 0) && (items[0] < (int64_t)x->kinds.n);

        pl_fields_text(&x->fields,
                       known ? pl_snapshot_text_at(&x->kinds, (size_t)items[0])
                             : "?");
    } else if (strcmp(column->name, "digest") == 0) {
        (void)snprintf(digest, sizeof(digest), "%016" PRIx64,
                       (uint64_t)items[0]);
        pl_fields_text(&x->fields, digest);
    } else {
        put_number(x, column->item, items[0]);
    }
}

/* ---- tables of columns ---- */

/* A column of a fixed number of items is as many columns in CSV. */
static bool is_spread(const export_t *x, const pl_frame_column_t *column)
{
    return !x->fields.json && !column->is_flat && !column->is_list;
}

static void put_titles(export_t *x, const pl_frame_t *frame)
{
    for (size_t c = 0; c < frame->columns.n; c++) {
        const pl_frame_column_t *column = &frame->columns.items[c];

        for (size_t i = 0; i < (is_spread(x, column) ? column->width : 1);
             i++) {
            pl_fields_begin(&x->fields, column->name);
            if (is_spread(x, column)) {
                fprintf(x->fields.file, "%s_%zu", column->name, i);
            } else {
                pl_fields_text(&x->fields, column->name);
            }
        }
    }
}

static void put_cells(export_t *x, const pl_frame_t *frame, size_t row)
{
    for (size_t c = 0; c < frame->columns.n; c++) {
        const pl_frame_column_t *column = &frame->columns.items[c];
        size_t n;
        const int64_t *items = pl_frame_cell(column, row, &n);

        if (!is_spread(x, column)) {
            put_cell(x, column, row);
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            pl_fields_begin(&x->fields, column->name);
            put_number(x, column->item, items[i]);
        }
    }
}

static void put_frame(export_t *x)
{
    if (!x->fields.json) {
        pl_fields_begin_row(&x->fields, true);
        if (x->table->row != NULL) {
            pl_fields_begin(&x->fields, "");
            pl_fields_text(&x->fields, x->table->row);
        }
        put_titles(x, &x->frame);
        put_titles(x, &x->owners);
        pl_fields_end_row(&x->fields);
    }
    for (size_t row = 0; row < x->frame.n_rows; row++) {
        pl_fields_begin_row(&x->fields, row == 0);
        if (x->table->row != NULL) {
            pl_fields_begin(&x->fields, x->table->row);
            fprintf(x->fields.file, "%zu", row);
        }
        put_cells(x, &x->frame, row);
        put_cells(x, &x->owners, row);
        pl_fields_end_row(&x->fields);
    }
}

static pl_status_t load_frame(export_t *x)
{
    static const char OWNERS[] = "page_owners";

    if (!pl_snapshot_has(x->snapshot, x->table->group)) {
        PL_TRY(pl_fleet_refuse(x->snapshot, x->table->name));
        return pl_snapshot_refuse(x->snapshot, x->table->group,
                                  "is missing: the run %s",
                                  x->table->order == PL_FRAME_INSTANCES
                                      ? "was of one engine"
                                      : "kept none");
    }
    PL_TRY(pl_frame_load(x->snapshot, x->table->group, x->table->order,
                         &x->frame));
    if (strcmp(x->table->name, "events") == 0) {
        PL_TRY(pl_snapshot_read_texts(x->snapshot, "/events/kinds", PL_ANY_ROWS,
                                      &x->kinds));
    }
    if (strcmp(x->table->name, "nodes") == 0) {
        PL_TRY(
            pl_frame_load_column(x->snapshot, "/hicache", OWNERS, &x->owners));
    }
    if ((x->owners.columns.n > 0) && (x->owners.n_rows != x->frame.n_rows)) {
        return pl_snapshot_refuse(x->snapshot, "/hicache/page_owners",
                                  "has %zu rows, but there are %zu nodes",
                                  x->owners.n_rows, x->frame.n_rows);
    }
    return PL_OK;
}

/* ---- tables of values ---- */

typedef struct values {
    export_t *x;
    const char *group; /* in front of the names; NULL: none */
    bool any;
} values_t;

static pl_status_t put_value(void *context, const char *name, const char *text,
                             bool is_number)
{
    values_t *values = context;
    export_t *x      = values->x;

    pl_fields_begin_row(&x->fields, !values->any);
    values->any = true;
    if (values->group != NULL) {
        pl_fields_begin(&x->fields, "group");
        pl_fields_text(&x->fields, values->group);
    }
    pl_fields_begin(&x->fields, "name");
    pl_fields_text(&x->fields, name);
    pl_fields_begin(&x->fields, "value");
    if (is_number && x->fields.json) {
        fprintf(x->fields.file, "%s", text);
    } else {
        pl_fields_text(&x->fields, text);
    }
    pl_fields_end_row(&x->fields);
    return PL_OK;
}

/* Groups below the table's, in order. */
typedef struct groups {
    PL_ARRAY(char *) names;
} groups_t;

static pl_status_t note_group(void *context, const pl_snapshot_member_t *member)
{
    groups_t *groups = context;
    char *name       = member->is_group ? strdup(member->name) : NULL;

    if (!member->is_group) {
        return PL_OK;
    }
    if ((name == NULL) || (PL_ARRAY_PUSH(&groups->names, name) != PL_OK)) {
        free(name);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t put_groups(export_t *x, values_t *values)
{
    groups_t groups = {{0}};
    pl_status_t status =
        pl_snapshot_members(x->snapshot, x->table->group, note_group, &groups);

    for (size_t i = 0; (i < groups.names.n) && (status == PL_OK); i++) {
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/%s", x->table->group,
                       groups.names.items[i]);
        values->group = groups.names.items[i];
        status = pl_snapshot_attributes(x->snapshot, path, put_value, values);
    }
    for (size_t i = 0; i < groups.names.n; i++) {
        free(groups.names.items[i]);
    }
    PL_ARRAY_FREE(&groups.names);
    return status;
}

static pl_status_t put_values(export_t *x)
{
    values_t values = {.x = x};
    bool grouped    = strcmp(x->table->name, "counters") == 0;

    if (!x->fields.json) {
        fprintf(x->fields.file, "%sname,value\r\n", grouped ? "group," : "");
    }
    return grouped ? put_groups(x, &values)
                   : pl_snapshot_attributes(x->snapshot, x->table->group,
                                            put_value, &values);
}

/* ---- where it goes ---- */

static pl_status_t put_table(export_t *x)
{
    pl_status_t status = PL_OK;

    if (x->fields.json) {
        fprintf(x->fields.file, "{\n  \"%s\": [\n", x->table->name);
    }
    if (x->points.n > 0) {
        pl_export_points(&x->fields, &x->points);
    } else if (x->table->order == NULL) {
        status = put_values(x);
    } else {
        put_frame(x);
    }
    if (x->fields.json) {
        fprintf(x->fields.file, "\n  ]\n}\n");
    }
    return status;
}

/* What is read must not be written over, nor what is no file. */
static pl_status_t check_output(const export_t *x, const char *path)
{
    struct stat in, out;

    if (stat(path, &out) != 0) {
        return PL_OK; /* writing will tell */
    }
    if ((stat(x->cli->words[0], &in) == 0) && (in.st_dev == out.st_dev) &&
        (in.st_ino == out.st_ino)) {
        pl_log(&x->cli->log, PL_LOG_ERROR,
               "option --output %s: it is read too; name another file", path);
        return PL_ERR_ARGUMENT;
    }
    if (!S_ISREG(out.st_mode)) {
        pl_log(&x->cli->log, PL_LOG_ERROR,
               "option --output %s: it is no regular file; leave the option "
               "out and send stdout there",
               path);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t put_to_file(export_t *x, const char *path)
{
    char *bytes = NULL;
    size_t n    = 0;
    pl_status_t status;
    bool whole;

    PL_TRY(check_output(x, path));
    x->fields.file = open_memstream(&bytes, &n);
    if (x->fields.file == NULL) {
        return PL_ERR_MEMORY;
    }
    status = put_table(x);
    whole  = (fflush(x->fields.file) == 0) && !ferror(x->fields.file);
    whole  = (fclose(x->fields.file) == 0) && whole;
    if ((status == PL_OK) && !whole) {
        pl_log(&x->cli->log, PL_LOG_ERROR, "%s: out of memory", path);
        status = PL_ERR_MEMORY;
    }
    if (status == PL_OK) {
        status = pl_output_publish(&x->cli->log, path, bytes, n);
    }
    free(bytes);
    return status;
}

/* ---- the verb ---- */

static const table_t *find_table(const pl_cli_t *cli)
{
    for (size_t i = 0; i < N_TABLES; i++) {
        if (strcmp(cli->words[1], TABLES[i].name) == 0) {
            return &TABLES[i];
        }
    }
    pl_log(&cli->log, PL_LOG_ERROR,
           "export: there is no table '%.64s'; expected requests, nodes, "
           "events, lanes, instances, config, layout or counters, of a sweep "
           "points or config (see pagelane export --help)",
           cli->words[1]);
    return NULL;
}

static pl_status_t export_table(export_t *x)
{
    const char *path = x->cli->options.output;
    bool is_sweep    = pl_snapshot_is_sweep(x->snapshot);

    if (is_sweep ? !x->table->of_sweep : !x->table->of_snapshot) {
        pl_log(&x->cli->log, PL_LOG_ERROR,
               "export: %s is a %s and has no table %s; it has %s",
               x->cli->words[0], is_sweep ? "sweep" : "snapshot",
               x->table->name,
               is_sweep ? "points and config"
                        : "requests, nodes, events, lanes, instances, config, "
                          "layout and counters");
        return PL_ERR_ARGUMENT;
    }
    if (!x->table->of_snapshot) {
        PL_TRY(pl_sweep_table_read(x->snapshot, &x->points));
    }
    if (x->table->order != NULL) {
        PL_TRY(load_frame(x));
    }
    if (path != NULL) {
        return put_to_file(x, path);
    }
    x->fields.file = stdout;
    return put_table(x);
}

int pl_cli_export(const pl_cli_t *cli)
{
    pl_snapshot_t *snapshot = NULL;
    export_t x              = {.cli    = cli,
                               .table  = find_table(cli),
                               .fields = {.json = cli->options.json}};
    pl_status_t status;

    if (x.table == NULL) {
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    if (cli->options.csv && x.fields.json) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --csv: --json is given too; leave one out");
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    status = pl_snapshot_open_any(cli->words[0], &cli->log, &snapshot);
    if (status == PL_OK) {
        x.snapshot = snapshot;
        status     = export_table(&x);
    }
    pl_frame_free(&x.frame);
    pl_frame_free(&x.owners);
    pl_snapshot_texts_free(&x.kinds);
    pl_sweep_table_free(&x.points);
    pl_snapshot_close(snapshot);
    return pl_status_exit(status);
}
