/* store/reader.h - read a snapshot, or the file of a sweep, of schema 1 without
 * trusting it.
 *
 * A file from outside is hostile input: every name, type, size and offset is
 * checked before it is used; links out of the file, unknown filters and sizes
 * that the file cannot hold are refused; a dataset's bytes must have the digest
 * that stands beside them.  HDF5 itself parses the file's structure.  The seal
 * at its end protects that from damage (store/seal.h), not from intent: so HDF5
 * reads in a process of its own, and if a file breaks it, or keeps it busy for
 * PL_SNAPSHOT_SECONDS, then the file is refused like any other.
 *
 *   pl_snapshot_open -> pl_snapshot_integer, _text, _read, _read_offsets, ...
 *                    -> pl_snapshot_close
 *
 * Not collective.  Everything that is not as docs/schema.md says ends with one
 * line that names file and object, and PL_ERR_INPUT; also PL_ERR_MEMORY.  A
 * snapshot stays usable after any status.  One thread at a time may use it.
 */
#ifndef PL_STORE_READER_H
#define PL_STORE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "store/content.h"

typedef struct pl_snapshot pl_snapshot_t; /* opaque */

#define PL_SNAPSHOT_SECONDS 60 /* for one call */

/* Open a snapshot for reading and check format and version.  `log` is borrowed
 * until the close.  On another status *snapshot_p is left alone. */
PL_MUST_CHECK pl_status_t pl_snapshot_open(const char *path,
                                           const pl_log_t *log,
                                           pl_snapshot_t **snapshot_p);
void pl_snapshot_close(pl_snapshot_t *snapshot); /* NULL is allowed */

/* The same of a snapshot or the file of a sweep (store/sweep.h): which of them
 * it is. */
PL_MUST_CHECK pl_status_t pl_snapshot_open_any(const char *path,
                                               const pl_log_t *log,
                                               pl_snapshot_t **snapshot_p);
bool pl_snapshot_is_sweep(const pl_snapshot_t *snapshot);

/* The version in the file: major is PL_SNAPSHOT_MAJOR, or PL_SWEEP_MAJOR. */
int64_t pl_snapshot_minor(const pl_snapshot_t *snapshot);

/* The path it was opened by. */
const char *pl_snapshot_path(const pl_snapshot_t *snapshot);

/* Is there such a group, or such a dataset?  (An optional one; silent.) */
bool pl_snapshot_has(const pl_snapshot_t *snapshot, const char *path);
bool pl_snapshot_has_dataset(const pl_snapshot_t *snapshot, const char *path);

/* One number of a group, within min .. max. */
PL_MUST_CHECK pl_status_t pl_snapshot_integer(const pl_snapshot_t *snapshot,
                                              const char *group,
                                              const char *name, int64_t min,
                                              int64_t max, int64_t *value_p);

/* One text of a group, or of a dataset; the caller frees it. */
PL_MUST_CHECK pl_status_t pl_snapshot_text(const pl_snapshot_t *snapshot,
                                           const char *group, const char *name,
                                           char **text_p);

/* All attributes of a group by name, numbers as text; the first status that is
 * not PL_OK ends it. */
typedef pl_status_t (*pl_snapshot_visit_t)(void *context, const char *name,
                                           const char *text, bool is_number);
PL_MUST_CHECK pl_status_t pl_snapshot_attributes(const pl_snapshot_t *snapshot,
                                                 const char *group,
                                                 pl_snapshot_visit_t visit,
                                                 void *context);

/* A dataset of integers, each as int64 (U64: the same bits). */
typedef struct pl_snapshot_column {
    int64_t *items; /* [rows][columns]; never NULL after PL_OK */
    size_t rows, columns;
} pl_snapshot_column_t;

#define PL_ANY_ROWS SIZE_MAX

/* Read it whole.  It must be of that item type, have that many rows and, if
 * columns > 0, be two-dimensional with that many columns.  Free it with
 * pl_snapshot_column_free. */
PL_MUST_CHECK pl_status_t pl_snapshot_read(const pl_snapshot_t *snapshot,
                                           const char *path, pl_item_t item,
                                           size_t rows, size_t columns,
                                           pl_snapshot_column_t *column_p);

/* The offsets of a ragged array: n + 1 of them, from 0, never falling, the last
 * one equal to n_items. */
PL_MUST_CHECK pl_status_t pl_snapshot_read_offsets(
    const pl_snapshot_t *snapshot, const char *path, size_t n, size_t n_items,
    pl_snapshot_column_t *column_p);

void pl_snapshot_column_free(pl_snapshot_column_t *column);

/* A dataset of texts.  Zeroed: none. */
typedef struct pl_snapshot_texts {
    char *bytes;   /* [n][stride], each ends with a NUL */
    size_t stride; /* at most PL_SNAPSHOT_TEXT_BYTES + 1 */
    size_t n;
} pl_snapshot_texts_t;

#define PL_SNAPSHOT_TEXT_BYTES 65536 /* longer ones are refused */

/* Read it whole; it must have that many, and some.  Free it with
 * pl_snapshot_texts_free. */
PL_MUST_CHECK pl_status_t pl_snapshot_read_texts(const pl_snapshot_t *snapshot,
                                                 const char *path, size_t rows,
                                                 pl_snapshot_texts_t *texts_p);
void pl_snapshot_texts_free(pl_snapshot_texts_t *texts);

static inline const char *pl_snapshot_text_at(const pl_snapshot_texts_t *texts,
                                              size_t i)
{
    return texts->bytes + i * texts->stride;
}

/* What stands in a group. */
typedef struct pl_snapshot_member {
    const char *name; /* borrowed for the call */
    bool is_group;    /* else a dataset */
    pl_item_t item;   /* of a dataset */
    size_t columns;   /* of a dataset of two dimensions; 0: it has one */
} pl_snapshot_member_t;

/* All of them by name; the first status that is not PL_OK ends it.  `visit`
 * must not ask the snapshot anything. */
typedef pl_status_t (*pl_snapshot_member_visit_t)(
    void *context, const pl_snapshot_member_t *member);
PL_MUST_CHECK pl_status_t pl_snapshot_members(const pl_snapshot_t *snapshot,
                                              const char *group,
                                              pl_snapshot_member_visit_t visit,
                                              void *context);

/* Are these n nodes a tree?  Ids ascend from 1; a parent is the root, 0, or one
 * of them; and none is above itself.  `object` names the parents in the line.
 * PL_OK, PL_ERR_INPUT, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_snapshot_check_tree(const pl_snapshot_t *snapshot,
                                                 const char *object,
                                                 const int64_t *ids,
                                                 const int64_t *parents,
                                                 size_t n);

/* One line that names the file and an object of it; returns PL_ERR_INPUT.  For
 * callers who find more than types and sizes. */
pl_status_t pl_snapshot_refuse(const pl_snapshot_t *snapshot,
                               const char *object, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#endif /* PL_STORE_READER_H */
