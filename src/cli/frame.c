#include "cli/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define MISS(name, text) "miss_" text,
const char *const PL_FRAME_REQUESTS[] = {"arrival_ns",
                                         "admitted_ns",
                                         "first_token_ns",
                                         "decode_ns",
                                         "finished_ns",
                                         "admitted_tick",
                                         "finished_tick",
                                         "prompt_tokens",
                                         "output_tokens",
                                         "generated_tokens",
                                         "device_hit_tokens",
                                         "host_hit_tokens",
                                         "storage_hit_tokens",
                                         "cut_pages",
                                         "home",
                                         "preemptions",
                                         "reentries",
                                         "readmissions",
                                         PL_MISS_LIST(MISS) "failed",
                                         "skipped",
                                         "shared_with",
                                         "shared_pages",
                                         "prefill_instance",
                                         "decode_instance",
                                         "digest",
                                         "tokens",
                                         NULL};
#undef MISS
const char *const PL_FRAME_NODES[] = {
    "id",          "parent",       "name_space", "first_page",
    "n_pages",     "device",       "host",       "hits",
    "last_access", "lock_ref",     "pin_ref",    "write_op",
    "load_op",     "device_pages", "host_pages", NULL};
const char *const PL_FRAME_EVENTS[] = {
    "tick",        "time_ns",     "kind",       "request", "node",
    "op",          "value",       "value2",     "pages",   "other",
    "moved_pages", "moved_bytes", "moved_hash", NULL};
const char *const PL_FRAME_LANES[]     = {"tick",
                                          "time_ns",
                                          "device_free",
                                          "host_free",
                                          "decode_free",
                                          "decode_host_free",
                                          "running",
                                          "waiting",
                                          "instance_running",
                                          "instance_waiting",
                                          "instance_busy_ns",
                                          NULL};
const char *const PL_FRAME_INSTANCES[] = {
    "prefills",       "decodes",         "gpus",
    "lanes",          "homes",           "requests",
    "prompt_tokens",  "computed_tokens", "decode_steps",
    "prefill_ns",     "decode_ns",       "stepping_ns",
    "waiting_ns",     "refused_ns",      "most_waiting",
    "batch_wait_ns",  "refusals",        "sent_bytes",
    "received_bytes", "link_ns",         NULL};

/* ---- what stands in the group ---- */

static pl_status_t note_member(void *context,
                               const pl_snapshot_member_t *member)
{
    pl_frame_t *frame        = context;
    pl_frame_column_t column = {.item = member->item, .width = member->columns};

    if (member->is_group || (member->item == PL_ITEM_TEXT)) {
        return PL_OK;
    }
    (void)snprintf(column.name, sizeof(column.name), "%s", member->name);
    return PL_ARRAY_PUSH(&frame->columns, column);
}

static int place_in(const char *const *order, const char *name)
{
    int i = 0;

    while ((order[i] != NULL) && (strcmp(order[i], name) != 0)) {
        i++;
    }
    return i;
}

/* Known columns first; both parts keep their order (few columns: insertion). */
static void sort_columns(pl_frame_t *frame, const char *const *order)
{
    pl_frame_column_t *columns = frame->columns.items;

    for (size_t i = 1; i < frame->columns.n; i++) {
        pl_frame_column_t column = columns[i];
        int place                = place_in(order, column.name);
        size_t at                = i;

        while ((at > 0) && (place_in(order, columns[at - 1].name) > place)) {
            columns[at] = columns[at - 1];
            at--;
        }
        columns[at] = column;
    }
}

const pl_frame_column_t *pl_frame_find(const pl_frame_t *frame,
                                       const char *name)
{
    for (size_t i = 0; i < frame->columns.n; i++) {
        if (strcmp(frame->columns.items[i].name, name) == 0) {
            return &frame->columns.items[i];
        }
    }
    return NULL;
}

/* The dataset that says where the cells of a list begin; NULL: it is none. */
static const pl_frame_column_t *offsets_of(const pl_frame_t *frame,
                                           const char *name)
{
    char offsets[PL_FRAME_NAME_BYTES + 8];
    const pl_frame_column_t *found;

    (void)snprintf(offsets, sizeof(offsets), "%s_offset", name);
    found = pl_frame_find(frame, offsets);
    return found != NULL ? found : pl_frame_find(frame, "offset");
}

static bool is_offsets(const pl_frame_t *frame, const char *name)
{
    static const char END[] = "_offset";
    size_t n                = strlen(name);
    char items[PL_FRAME_NAME_BYTES];

    if (strcmp(name, "offset") == 0) {
        return true;
    }
    if ((n <= strlen(END)) || (strcmp(name + n - strlen(END), END) != 0)) {
        return false;
    }
    (void)snprintf(items, sizeof(items), "%.*s", (int)(n - strlen(END)), name);
    return pl_frame_find(frame, items) != NULL;
}

/* ---- reading ---- */

static void path_of(const char *group, const char *name, char path[256])
{
    (void)snprintf(path, 256, "%s/%s", group, name);
}

static pl_status_t read_list(const pl_snapshot_t *snapshot, const char *group,
                             const char *offsets, pl_frame_column_t *column,
                             size_t *rows_p)
{
    char path[256];
    pl_snapshot_column_t raw = {0};
    size_t n;

    path_of(group, column->name, path);
    PL_TRY(pl_snapshot_read(snapshot, path, column->item, PL_ANY_ROWS, 0,
                            &column->items));
    path_of(group, offsets, path);
    PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I64, PL_ANY_ROWS, 0, &raw));
    n = raw.rows;
    pl_snapshot_column_free(&raw);
    if (n == 0) {
        return pl_snapshot_refuse(snapshot, path, "is empty; expected a 0");
    }
    column->is_list = true;
    *rows_p         = n - 1;
    return pl_snapshot_read_offsets(snapshot, path, n - 1, column->items.rows,
                                    &column->offsets);
}

static pl_status_t read_column(const pl_snapshot_t *snapshot, const char *group,
                               const char *offsets, pl_frame_column_t *column,
                               size_t *rows_p)
{
    char path[256];

    if (offsets != NULL) {
        return read_list(snapshot, group, offsets, column, rows_p);
    }
    path_of(group, column->name, path);
    PL_TRY(pl_snapshot_read(snapshot, path, column->item, PL_ANY_ROWS,
                            column->width, &column->items));
    column->is_flat = column->width == 0;
    column->width   = column->width == 0 ? 1 : column->width;
    *rows_p         = column->items.rows;
    return PL_OK;
}

/* docs/schema.md: so that a name stands for itself in CSV and JSON. */
static pl_status_t check_name(const pl_snapshot_t *snapshot, const char *group,
                              const char *name)
{
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0') {
        return pl_snapshot_refuse(snapshot, group,
                                  "has a column with a name that no snapshot "
                                  "has; expected a-z, 0-9 and _");
    }
    return PL_OK;
}

/* Read all columns, or (`only` not NULL) one. */
static pl_status_t read_columns(const pl_snapshot_t *snapshot,
                                const char *group, const char *only,
                                pl_frame_t *all, pl_frame_t *frame)
{
    for (size_t i = 0; i < all->columns.n; i++) {
        pl_frame_column_t *column        = &all->columns.items[i];
        const pl_frame_column_t *offsets = offsets_of(all, column->name);
        size_t rows                      = 0;
        pl_status_t status;

        if (is_offsets(all, column->name) ||
            ((only != NULL) && (strcmp(only, column->name) != 0))) {
            continue;
        }
        PL_TRY(check_name(snapshot, group, column->name));
        PL_TRY(PL_ARRAY_PUSH(&frame->columns, *column));
        column = &frame->columns.items[frame->columns.n - 1];
        status =
            read_column(snapshot, group, offsets == NULL ? NULL : offsets->name,
                        column, &rows);
        if (status != PL_OK) {
            return status;
        }
        if ((frame->columns.n > 1) && (rows != frame->n_rows)) {
            char path[256];

            path_of(group, column->name, path);
            return pl_snapshot_refuse(
                snapshot, path, "has %zu rows, but %s %zu", rows,
                frame->columns.items[0].name, frame->n_rows);
        }
        frame->n_rows = rows;
    }
    return PL_OK;
}

static pl_status_t load(const pl_snapshot_t *snapshot, const char *group,
                        const char *const *order, const char *only,
                        pl_frame_t *frame)
{
    pl_frame_t all = {0};
    pl_status_t status =
        pl_snapshot_members(snapshot, group, note_member, &all);

    if (status == PL_OK) {
        sort_columns(&all, order);
        status = read_columns(snapshot, group, only, &all, frame);
    }
    PL_ARRAY_FREE(&all.columns);
    return status;
}

pl_status_t pl_frame_load(const pl_snapshot_t *snapshot, const char *group,
                          const char *const *order, pl_frame_t *frame)
{
    return load(snapshot, group, order, NULL, frame);
}

pl_status_t pl_frame_load_column(const pl_snapshot_t *snapshot,
                                 const char *group, const char *name,
                                 pl_frame_t *frame)
{
    static const char *const NO_ORDER[] = {NULL};

    return load(snapshot, group, NO_ORDER, name, frame);
}

void pl_frame_free(pl_frame_t *frame)
{
    for (size_t i = 0; i < frame->columns.n; i++) {
        pl_snapshot_column_free(&frame->columns.items[i].items);
        pl_snapshot_column_free(&frame->columns.items[i].offsets);
    }
    PL_ARRAY_FREE(&frame->columns);
    frame->n_rows = 0;
}

/* ---- cells ---- */

const int64_t *pl_frame_cell(const pl_frame_column_t *column, size_t row,
                             size_t *n_p)
{
    if (column->is_list) {
        const int64_t *offsets = column->offsets.items;

        *n_p = (size_t)(offsets[row + 1] - offsets[row]);
        return column->items.items + offsets[row];
    }
    *n_p = column->width;
    return column->items.items + row * column->width;
}

void pl_frame_item_text(pl_item_t item, int64_t value, pl_text_t *text)
{
    if (item == PL_ITEM_U64) {
        pl_text_add(text, "%" PRIu64, (uint64_t)value);
    } else {
        pl_text_add(text, "%" PRId64, value);
    }
}

void pl_frame_cell_text(const pl_frame_column_t *column, size_t row,
                        pl_text_t *text)
{
    size_t n;
    const int64_t *items = pl_frame_cell(column, row, &n);

    pl_text_add(text, "%s", ""); /* an empty cell is a text too */
    for (size_t i = 0; i < n; i++) {
        pl_text_add(text, "%s", i > 0 ? " " : "");
        pl_frame_item_text(column->item, items[i], text);
    }
}
