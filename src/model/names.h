/* model/names.h - tensor names, found by hash.
 *
 * A name stands for the index it was added with.  Names are borrowed and must
 * outlive the table.  Nothing is decided by the order of the slots.
 */
#ifndef PL_MODEL_NAMES_H
#define PL_MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#define PL_NAMES_NONE SIZE_MAX

typedef struct pl_names {
    const char **name; /* [n_slots]; NULL: free */
    size_t *index;     /* [n_slots] */
    size_t n_slots;    /* a power of two, more than twice the names */
} pl_names_t;

/* A table for at most n names.  PL_OK or PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_names_open(size_t n, pl_names_t *names_p);
void pl_names_close(pl_names_t *names); /* zero-initialised is allowed */

/* Add `name`, unless it is there.  The index it now stands for. */
size_t pl_names_add(pl_names_t *names, const char *name, size_t index);

/* PL_NAMES_NONE: not there. */
size_t pl_names_find(const pl_names_t *names, const char *name);

#endif /* PL_MODEL_NAMES_H */
