#include "model/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

pl_status_t pl_names_open(size_t n, pl_names_t *names_p)
{
    pl_names_t names = {.n_slots = 4};

    while ((names.n_slots / 2 <= n) && (names.n_slots < SIZE_MAX / 2)) {
        names.n_slots *= 2;
    }
    names.name  = calloc(names.n_slots, sizeof(*names.name));
    names.index = calloc(names.n_slots, sizeof(*names.index));
    if ((names.name == NULL) || (names.index == NULL)) {
        pl_names_close(&names);
        return PL_ERR_MEMORY;
    }
    *names_p = names;
    return PL_OK;
}

void pl_names_close(pl_names_t *names)
{
    free(names->name);
    free(names->index);
    memset(names, 0, sizeof(*names));
}

/* The slot of `name`, or the free one where it would lie. */
static size_t slot_of(const pl_names_t *names, const char *name)
{
    size_t slot =
        (size_t)pl_hash64(name, strlen(name), 0) & (names->n_slots - 1);

    while ((names->name[slot] != NULL) &&
           (strcmp(names->name[slot], name) != 0)) {
        slot = (slot + 1) & (names->n_slots - 1);
    }
    return slot;
}

size_t pl_names_add(pl_names_t *names, const char *name, size_t index)
{
    size_t slot = slot_of(names, name);

    assert(index != PL_NAMES_NONE);
    if (names->name[slot] == NULL) {
        names->name[slot]  = name;
        names->index[slot] = index;
    }
    return names->index[slot];
}

size_t pl_names_find(const pl_names_t *names, const char *name)
{
    size_t slot;

    if (names->n_slots == 0) {
        return PL_NAMES_NONE;
    }
    slot = slot_of(names, name);
    return names->name[slot] != NULL ? names->index[slot] : PL_NAMES_NONE;
}
