/* store/content.h - what will stand in an HDF5 file, before there is a file.
 *
 * Groups, attributes and datasets in the order of their creation, the same list
 * on every rank: from it rank 0 lays the skeleton and every rank finds the rows
 * it writes.  No HDF5 here.
 *
 * Zero-initialised means empty.  A failed addition is remembered (as in
 * base/text.h), so only pl_content_status has to be looked at.  Not collective.
 */
#ifndef PL_STORE_CONTENT_H
#define PL_STORE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"

typedef enum pl_item {
    PL_ITEM_I8,
    PL_ITEM_U8,
    PL_ITEM_I32,
    PL_ITEM_U32,
    PL_ITEM_I64,
    PL_ITEM_U64,
    PL_ITEM_TEXT /* fixed length, null-terminated; one dimension */
} pl_item_t;

/* Bytes of one item; `text_bytes` for PL_ITEM_TEXT. */
size_t pl_item_bytes(pl_item_t item, size_t text_bytes);

/* The writer of what all ranks have alike: rank 0. */
#define PL_REPLICATED (-1)

typedef struct pl_dataset {
    char *path; /* owned */
    pl_item_t item;
    size_t text_bytes; /* PL_ITEM_TEXT: of one item, final NUL included */
    int n_dims;        /* 1 or 2 */
    uint64_t dims[2];
    const char *labels[2];   /* of the dimensions; static text */
    const char *unit;        /* static text; "1" for a pure number */
    const char *description; /* static text */
    const void *data;        /* all rows; of a rank's own: on that rank and 0 */
    void *owned;             /* data that goes with the content, or NULL */
    int writer;              /* the rank that has it, or PL_REPLICATED */
} pl_dataset_t;

typedef struct pl_attribute {
    char *group; /* path; owned */
    char *name;  /* owned */
    char *text;  /* owned; NULL: integers */
    int64_t integers[2];
    int n_integers; /* 0: a scalar in integers[0] */
} pl_attribute_t;

typedef struct pl_content {
    PL_ARRAY(char *) groups; /* owned; parents before children */
    PL_ARRAY(pl_attribute_t) attributes;
    PL_ARRAY(pl_dataset_t) datasets;
    pl_status_t status;
} pl_content_t;

void pl_content_free(pl_content_t *content); /* empty again, usable again */

/* PL_OK, or PL_ERR_MEMORY once an addition failed. */
pl_status_t pl_content_status(const pl_content_t *content);

void pl_content_group(pl_content_t *content, const char *path);

/* `name` gets '_' for what is no letter, digit or '_'. */
void pl_content_integer(pl_content_t *content, const char *group,
                        const char *name, int64_t value);
void pl_content_text(pl_content_t *content, const char *group, const char *name,
                     const char *text);
void pl_content_version(pl_content_t *content, const char *group,
                        const char *name, int64_t major, int64_t minor);

/* Add a dataset; its path is set here.  With dataset.data == NULL zeroed memory
 * for all its items comes with the content and is returned, for the caller to
 * fill; NULL: out of memory, or data was given. */
void *pl_content_add(pl_content_t *content, const char *path,
                     pl_dataset_t dataset);

/* Copy all data that is borrowed: afterwards nothing points out of the content.
 * PL_OK, PL_ERR_MEMORY (as a failed addition). */
PL_MUST_CHECK pl_status_t pl_content_own(pl_content_t *content);

uint64_t pl_dataset_items(const pl_dataset_t *dataset);
size_t pl_dataset_bytes(const pl_dataset_t *dataset);
size_t pl_dataset_row_bytes(const pl_dataset_t *dataset);

/* Columns of this many bytes and more are packed if they are replicated; what
 * ranks write side by side lies in one piece, at a place known beforehand. */
#define PL_PACK_LEAST_BYTES (16 * 1024)

/* Rows of one chunk of a packed dataset; 0: it is not packed. */
uint64_t pl_dataset_chunk_rows(const pl_dataset_t *dataset);

#endif /* PL_STORE_CONTENT_H */
