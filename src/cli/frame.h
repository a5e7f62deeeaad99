/* cli/frame.h - a group of a snapshot as one table: a row an item, a column a
 * dataset.
 *
 * A dataset `x` beside `x_offset` (or any, in a group that has `offset`) is a
 * list in each cell; one with two dimensions has a fixed number of items in
 * each.  Texts are left out.  The columns of `order` come first, in that order;
 * what else the file has follows by name, so that later minor versions need no
 * change here.
 */
#ifndef PL_CLI_FRAME_H
#define PL_CLI_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "base/text.h"
#include "store/reader.h"

#define PL_FRAME_NAME_BYTES 64

typedef struct pl_frame_column {
    char name[PL_FRAME_NAME_BYTES];
    pl_item_t item;
    size_t width;                 /* items of a cell, if it is no list */
    bool is_list;                 /* cell i: those between its offsets */
    bool is_flat;                 /* one item a cell */
    pl_snapshot_column_t items;   /* owned */
    pl_snapshot_column_t offsets; /* owned; of a list */
} pl_frame_column_t;

typedef struct pl_frame {
    PL_ARRAY(pl_frame_column_t) columns;
    size_t n_rows;
} pl_frame_t;

/* Read the group; `order` ends with NULL.  All columns must have as many rows.
 * After any status pl_frame_free releases *frame (zeroed before). */
PL_MUST_CHECK pl_status_t pl_frame_load(const pl_snapshot_t *snapshot,
                                        const char *group,
                                        const char *const *order,
                                        pl_frame_t *frame);
/* The same with the column of that name alone, or with none if there is none.
 */
PL_MUST_CHECK pl_status_t pl_frame_load_column(const pl_snapshot_t *snapshot,
                                               const char *group,
                                               const char *name,
                                               pl_frame_t *frame);
void pl_frame_free(pl_frame_t *frame);

/* NULL: there is none. */
const pl_frame_column_t *pl_frame_find(const pl_frame_t *frame,
                                       const char *name);

/* The items of a cell. */
const int64_t *pl_frame_cell(const pl_frame_column_t *column, size_t row,
                             size_t *n_p);

/* Its items as text, a blank between them. */
void pl_frame_cell_text(const pl_frame_column_t *column, size_t row,
                        pl_text_t *text);
/* One item: a U64 is unsigned. */
void pl_frame_item_text(pl_item_t item, int64_t value, pl_text_t *text);

/* The columns of the tables we know, in the order of docs/schema.md. */
extern const char *const PL_FRAME_REQUESTS[];
extern const char *const PL_FRAME_NODES[];
extern const char *const PL_FRAME_EVENTS[];
extern const char *const PL_FRAME_LANES[];
extern const char *const PL_FRAME_INSTANCES[];

#endif /* PL_CLI_FRAME_H */
