/* pagelane inspect A diff B: where two runs part. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/events.h"
#include "cli/frame.h"
#include "cli/inspect.h"
#include "cli/table.h"

/* A part of the file; parts are looked at in this order, and within one, its
 * groups.  What no part names comes last. */
typedef struct part {
    const char *name;
    const char *groups[4]; /* NULL at the end */
    const char *const *order;
} part_t;

static const char *const NO_ORDER[] = {NULL};

static const part_t PARTS[] = {
    {"config", {"/config"}, NO_ORDER},
    {"layout", {"/layout"}, NO_ORDER},
    {"requests", {"/requests"}, PL_FRAME_REQUESTS},
    {"events", {"/events"}, PL_FRAME_EVENTS},
    {"nodes", {"/hicache/nodes", "/hicache"}, PL_FRAME_NODES},
    {"counters", {"/counters"}, NO_ORDER},
    {"lanes", {"/lanes"}, PL_FRAME_LANES},
    {"other", {"/"}, NO_ORDER},
};

enum { N_PARTS = sizeof(PARTS) / sizeof(PARTS[0]), OTHER = N_PARTS - 1 };

/* What was found in one part. */
typedef struct finding {
    int64_t n_different; /* values of groups, rows of tables */
    char *first;         /* the first of them, in words; owned */
} finding_t;

typedef struct diff {
    const pl_snapshot_t *snapshots[2]; /* A, B */
    finding_t *finding;                /* of the part being looked at */
    pl_status_t status;
} diff_t;

/* ---- saying what differs ---- */

static void differ(diff_t *diff, int64_t n, const char *format, ...)
    PL_TEXT_FORMAT(3, 4);

static void differ(diff_t *diff, int64_t n, const char *format, ...)
{
    pl_text_t text = {0};
    va_list arguments;

    diff->finding->n_different += n;
    if (diff->finding->first != NULL) {
        return;
    }
    va_start(arguments, format);
    pl_text_add_list(&text, format, arguments);
    va_end(arguments);
    diff->status = pl_text_take(&text, &diff->finding->first);
}

/* ---- values of a group ---- */

typedef struct pair {
    char *name, *text;
} pair_t;

typedef struct pairs {
    PL_ARRAY(pair_t) list; /* by name */
} pairs_t;

static pl_status_t add_pair(void *context, const char *name, const char *text,
                            bool is_number)
{
    pairs_t *pairs = context;
    pair_t pair    = {strdup(name), strdup(text)};

    (void)is_number;
    if ((pair.name == NULL) || (pair.text == NULL) ||
        (PL_ARRAY_PUSH(&pairs->list, pair) != PL_OK)) {
        free(pair.name);
        free(pair.text);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static void free_pairs(pairs_t *pairs)
{
    for (size_t i = 0; i < pairs->list.n; i++) {
        free(pairs->list.items[i].name);
        free(pairs->list.items[i].text);
    }
    PL_ARRAY_FREE(&pairs->list);
}

/* Both lists ascend by name. */
static void compare_pairs(diff_t *diff, const char *prefix, const pairs_t *a,
                          const pairs_t *b)
{
    size_t i = 0, j = 0;

    while ((i < a->list.n) || (j < b->list.n)) {
        const pair_t *x = i < a->list.n ? &a->list.items[i] : NULL;
        const pair_t *y = j < b->list.n ? &b->list.items[j] : NULL;
        int order = x == NULL ? 1 : y == NULL ? -1 : strcmp(x->name, y->name);

        if (order < 0) {
            differ(diff, 1, "%s%s: '%s' in A, missing in B", prefix, x->name,
                   x->text);
        } else if (order > 0) {
            differ(diff, 1, "%s%s: missing in A, '%s' in B", prefix, y->name,
                   y->text);
        } else if (strcmp(x->text, y->text) != 0) {
            differ(diff, 1, "%s%s: '%s' in A, '%s' in B", prefix, x->name,
                   x->text, y->text);
        }
        i += order <= 0 ? 1 : 0;
        j += order >= 0 ? 1 : 0;
    }
}

static pl_status_t compare_values(diff_t *diff, const char *group,
                                  const char *prefix)
{
    pairs_t pairs[2]   = {{{0}}, {{0}}};
    pl_status_t status = PL_OK;

    for (int f = 0; (f < 2) && (status == PL_OK); f++) {
        status = pl_snapshot_attributes(diff->snapshots[f], group, add_pair,
                                        &pairs[f]);
    }
    if (status == PL_OK) {
        compare_pairs(diff, prefix, &pairs[0], &pairs[1]);
        status = diff->status;
    }
    free_pairs(&pairs[0]);
    free_pairs(&pairs[1]);
    return status;
}

/* ---- tables ---- */

/* A table of each file, and what names its rows. */
typedef struct tables {
    const char *group;
    pl_frame_t frames[2];
    pl_snapshot_texts_t kinds[2]; /* of events */
} tables_t;

static bool is_kind(const tables_t *tables, const pl_frame_column_t *column)
{
    return (tables->kinds[0].n > 0) && (strcmp(column->name, "kind") == 0);
}

static const char *kind_text(const tables_t *tables, int f, int64_t kind)
{
    return (kind >= 0) && (kind < (int64_t)tables->kinds[f].n)
               ? pl_snapshot_text_at(&tables->kinds[f], (size_t)kind)
               : "?";
}

static bool same_cell(const tables_t *tables, const pl_frame_column_t *a,
                      const pl_frame_column_t *b, size_t row)
{
    size_t n, m;
    const int64_t *x = pl_frame_cell(a, row, &n);
    const int64_t *y = pl_frame_cell(b, row, &m);

    if (is_kind(tables, a)) {
        return strcmp(kind_text(tables, 0, x[0]), kind_text(tables, 1, y[0])) ==
               0;
    }
    return (n == m) && ((n == 0) || (memcmp(x, y, n * sizeof(*x)) == 0));
}

static void add_cell(const tables_t *tables, int f,
                     const pl_frame_column_t *column, size_t row,
                     pl_text_t *text)
{
    size_t n;
    const int64_t *items = pl_frame_cell(column, row, &n);

    if (is_kind(tables, column)) {
        pl_text_add(text, "%s", kind_text(tables, f, items[0]));
    } else if (n > 16) {
        pl_text_add(text, "%zu items", n);
    } else {
        pl_frame_cell_text(column, row, text);
    }
}

/* "request 17", "event 120, tick 5, alloc", "node 8", "row 3". */
static void add_row_name(const tables_t *tables, size_t row, pl_text_t *text)
{
    const pl_frame_t *a           = &tables->frames[0];
    const pl_frame_column_t *tick = pl_frame_find(a, "tick");
    const pl_frame_column_t *kind = pl_frame_find(a, "kind");
    const pl_frame_column_t *id   = pl_frame_find(a, "id");
    bool is_event                 = tables->kinds[0].n > 0;

    if (strcmp(tables->group, "/requests") == 0) {
        pl_text_add(text, "request %zu", row);
    } else if (is_event && (tick != NULL) && (kind != NULL)) {
        pl_text_add(text, "event %zu, tick %" PRId64 ", %s", row,
                    tick->items.items[row],
                    kind_text(tables, 0, kind->items.items[row]));
    } else if ((id != NULL) && id->is_flat) {
        pl_text_add(text, "node %" PRId64, id->items.items[row]);
    } else if ((tick != NULL) && tick->is_flat) {
        pl_text_add(text, "sample %zu, tick %" PRId64, row,
                    tick->items.items[row]);
    } else {
        pl_text_add(text, "row %zu of %s", row, tables->group);
    }
}

static void row_differs(diff_t *diff, const tables_t *tables, size_t row,
                        const pl_frame_column_t *a, const pl_frame_column_t *b)
{
    pl_text_t text = {0};
    char *line     = NULL;

    if (diff->finding->first != NULL) {
        diff->finding->n_different++;
        return;
    }
    add_row_name(tables, row, &text);
    pl_text_add(&text, ": %s: ", a->name);
    add_cell(tables, 0, a, row, &text);
    pl_text_add(&text, " in A, ");
    add_cell(tables, 1, b, row, &text);
    pl_text_add(&text, " in B");
    diff->status = pl_text_take(&text, &line);
    if (diff->status == PL_OK) {
        differ(diff, 1, "%s", line);
        free(line);
    }
}

/* Columns that only one of them has. */
static void compare_columns(diff_t *diff, const tables_t *tables)
{
    for (int f = 0; f < 2; f++) {
        const pl_frame_t *mine   = &tables->frames[f];
        const pl_frame_t *theirs = &tables->frames[1 - f];

        for (size_t c = 0; c < mine->columns.n; c++) {
            const char *name = mine->columns.items[c].name;

            if (pl_frame_find(theirs, name) == NULL) {
                differ(diff, 1, "%s/%s: only in %c", tables->group, name,
                       f == 0 ? 'A' : 'B');
            }
        }
    }
}

static void compare_row(diff_t *diff, const tables_t *tables, size_t row)
{
    const pl_frame_t *a = &tables->frames[0];

    for (size_t c = 0; c < a->columns.n; c++) {
        const pl_frame_column_t *x = &a->columns.items[c];
        const pl_frame_column_t *y = pl_frame_find(&tables->frames[1], x->name);

        if ((y != NULL) && !same_cell(tables, x, y, row)) {
            row_differs(diff, tables, row, x, y);
            return;
        }
    }
}

static pl_status_t compare_frames(diff_t *diff, const tables_t *tables)
{
    size_t n = tables->frames[0].n_rows;
    size_t m = tables->frames[1].n_rows;

    compare_columns(diff, tables);
    for (size_t row = 0; (row < n) && (row < m) && (diff->status == PL_OK);
         row++) {
        compare_row(diff, tables, row);
    }
    if (n != m) {
        differ(diff, (int64_t)(n > m ? n - m : m - n),
               "%s: %zu rows in A, %zu in B", tables->group, n, m);
    }
    return diff->status;
}

/* `only` NULL: all columns. */
static pl_status_t compare_table(diff_t *diff, const char *group,
                                 const char *const *order, const char *only)
{
    tables_t tables    = {.group = group};
    pl_status_t status = PL_OK;

    for (int f = 0; (f < 2) && (status == PL_OK); f++) {
        status = only == NULL ? pl_frame_load(diff->snapshots[f], group, order,
                                              &tables.frames[f])
                              : pl_frame_load_column(diff->snapshots[f], group,
                                                     only, &tables.frames[f]);
        if ((status == PL_OK) && (strcmp(group, "/events") == 0)) {
            status = pl_snapshot_read_texts(diff->snapshots[f], "/events/kinds",
                                            PL_ANY_ROWS, &tables.kinds[f]);
        }
    }
    if (status == PL_OK) {
        status = compare_frames(diff, &tables);
    }
    for (int f = 0; f < 2; f++) {
        pl_frame_free(&tables.frames[f]);
        pl_snapshot_texts_free(&tables.kinds[f]);
    }
    return status;
}

/* ---- groups ---- */

/* Names of groups, or of datasets. */
typedef struct names {
    PL_ARRAY(char *) list;
    bool groups;
} names_t;

static pl_status_t add_name(void *context, const pl_snapshot_member_t *member)
{
    names_t *names = context;
    char *name;

    if (member->is_group != names->groups) {
        return PL_OK;
    }
    for (size_t i = 0; i < names->list.n; i++) {
        if (strcmp(names->list.items[i], member->name) == 0) {
            return PL_OK;
        }
    }
    name = strdup(member->name);
    if ((name == NULL) || (PL_ARRAY_PUSH(&names->list, name) != PL_OK)) {
        free(name);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

/* Those that one of the two files has in the group. */
static pl_status_t list_names(const diff_t *diff, const char *group,
                              names_t *names)
{
    PL_TRY(pl_snapshot_members(diff->snapshots[0], group, add_name, names));
    return pl_snapshot_members(diff->snapshots[1], group, add_name, names);
}

static void free_names(names_t *names)
{
    for (size_t i = 0; i < names->list.n; i++) {
        free(names->list.items[i]);
    }
    PL_ARRAY_FREE(&names->list);
}

/* Of a group that we do not know as a table, each dataset is one. */
static pl_status_t compare_datasets(diff_t *diff, const char *group)
{
    names_t names      = {.groups = false};
    pl_status_t status = list_names(diff, group, &names);

    for (size_t i = 0; (i < names.list.n) && (status == PL_OK); i++) {
        status = compare_table(diff, group, NO_ORDER, names.list.items[i]);
    }
    free_names(&names);
    return status;
}

/* Is it another part's, or (/timing) nobody's? */
static bool is_taken(const char *path, const char *by)
{
    if (strcmp(path, "/timing") == 0) {
        return true;
    }
    for (size_t p = 0; p < N_PARTS; p++) {
        for (const char *const *g = PARTS[p].groups; *g != NULL; g++) {
            if ((strcmp(*g, by) != 0) && (strcmp(*g, path) == 0)) {
                return true;
            }
        }
    }
    return false;
}

enum { DEEPEST = 8 };

static pl_status_t compare_group(diff_t *diff, const char *group,
                                 const char *const *order, int depth);

/* The groups below. */
static pl_status_t compare_below(diff_t *diff, const char *group, int depth)
{
    names_t names      = {.groups = true};
    pl_status_t status = list_names(diff, group, &names);

    for (size_t i = 0; (i < names.list.n) && (status == PL_OK); i++) {
        char path[256];

        (void)snprintf(path, sizeof(path), "%s/%s",
                       strcmp(group, "/") == 0 ? "" : group,
                       names.list.items[i]);
        if (!is_taken(path, group)) {
            status = compare_group(diff, path, NO_ORDER, depth + 1);
        }
    }
    free_names(&names);
    return status;
}

static pl_status_t compare_group(diff_t *diff, const char *group,
                                 const char *const *order, int depth)
{
    bool in_a = pl_snapshot_has(diff->snapshots[0], group);
    bool in_b = pl_snapshot_has(diff->snapshots[1], group);
    char prefix[264];

    if (!in_a || !in_b) {
        if (in_a != in_b) {
            differ(diff, 1, "%s: only in %c", group, in_a ? 'A' : 'B');
        }
        return diff->status;
    }
    if (depth > DEEPEST) {
        return pl_snapshot_refuse(diff->snapshots[0], group,
                                  "groups lie too deep in each other");
    }
    if (strcmp(group, "/") != 0) { /* its values are the format's */
        (void)snprintf(prefix, sizeof(prefix), "%s/", group);
        PL_TRY(compare_values(diff, group, prefix));
        PL_TRY(*order == NULL ? compare_datasets(diff, group)
                              : compare_table(diff, group, order, NULL));
    }
    return compare_below(diff, group, depth);
}

static pl_status_t compare_part(diff_t *diff, const part_t *part)
{
    for (const char *const *group = part->groups; *group != NULL; group++) {
        /* the first group is the table */
        PL_TRY(compare_group(
            diff, *group, group == part->groups ? part->order : NO_ORDER, 0));
    }
    return diff->status;
}

/* ---- printing ---- */

static const finding_t *first_of(const finding_t *findings, size_t *part_p)
{
    for (size_t p = 0; p < N_PARTS; p++) {
        if (findings[p].n_different > 0) {
            *part_p = p;
            return &findings[p];
        }
    }
    return NULL;
}

static pl_status_t print_table(const diff_t *diff, const finding_t *findings)
{
    size_t part            = 0;
    const finding_t *first = first_of(findings, &part);
    pl_table_t *table;
    pl_status_t status;

    printf("A %s\nB %s\n", pl_snapshot_path(diff->snapshots[0]),
           pl_snapshot_path(diff->snapshots[1]));
    if (first == NULL) {
        printf("equal but for /timing, which is each run's own\n");
        return PL_OK;
    }
    printf("first difference, in %s: %s\n\n", PARTS[part].name, first->first);
    table = pl_table_open("part<,different>,the first of them<");
    for (size_t p = 0; p < N_PARTS; p++) {
        pl_table_cell(table, "%s", PARTS[p].name);
        pl_table_cell(table, "%" PRId64, findings[p].n_different);
        pl_table_cell(table, "%s",
                      findings[p].first == NULL ? "" : findings[p].first);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_json(const diff_t *diff, const finding_t *findings)
{
    json_object *object    = json_object_new_object();
    json_object *array     = json_object_new_array();
    size_t part            = 0;
    const finding_t *first = first_of(findings, &part);

    pl_json_text(object, "a", pl_snapshot_path(diff->snapshots[0]));
    pl_json_text(object, "b", pl_snapshot_path(diff->snapshots[1]));
    json_object_object_add(object, "equal",
                           json_object_new_boolean(first == NULL));
    if (first != NULL) {
        pl_json_text(object, "part", PARTS[part].name);
        pl_json_text(object, "first", first->first);
    }
    for (size_t p = 0; p < N_PARTS; p++) {
        json_object *item = json_object_new_object();

        pl_json_text(item, "part", PARTS[p].name);
        pl_json_integer(item, "different", findings[p].n_different);
        if (findings[p].first != NULL) {
            pl_json_text(item, "first", findings[p].first);
        }
        json_object_array_add(array, item);
    }
    json_object_object_add(object, "parts", array);
    return pl_json_print(object, stdout);
}

static pl_status_t compare_all(diff_t *diff, finding_t *findings, bool json)
{
    size_t part = 0;

    for (size_t p = 0; p < N_PARTS; p++) {
        diff->finding = &findings[p];
        PL_TRY(compare_part(diff, &PARTS[p]));
    }
    PL_TRY(json ? print_json(diff, findings) : print_table(diff, findings));
    return first_of(findings, &part) == NULL ? PL_OK : PL_ERR_VIOLATION;
}

pl_status_t pl_inspect_diff(const pl_inspect_t *inspect)
{
    pl_snapshot_t *other        = NULL;
    finding_t findings[N_PARTS] = {{0}};
    diff_t diff                 = {.snapshots = {inspect->snapshot, NULL}};
    pl_status_t status;

    PL_TRY(
        pl_snapshot_open(inspect->cli->words[2], &inspect->cli->log, &other));
    diff.snapshots[1] = other;
    status            = compare_all(&diff, findings, inspect->json);
    for (size_t p = 0; p < N_PARTS; p++) {
        free(findings[p].first);
    }
    pl_snapshot_close(other);
    return status;
}
