#include "trace/key_set.h"

#include <stdlib.h>

#include "base/hash.h"

void pl_key_set_free(pl_key_set_t *set)
{
    free(set->keys);
    free(set->uses);
    set->keys     = NULL;
    set->uses     = NULL;
    set->capacity = 0;
    set->n        = 0;
}

/* Where `key` is, or the free place where it belongs. */
static size_t place_of(const pl_key_set_t *set, pl_page_key_t key)
{
    size_t i =
        (size_t)pl_mix64(key.lo ^ pl_mix64(key.hi)) & (set->capacity - 1);

    while ((set->uses[i] > 0) &&
           ((set->keys[i].lo != key.lo) || (set->keys[i].hi != key.hi))) {
        i = (i + 1) & (set->capacity - 1);
    }
    return i;
}

/* Room for one more key, a third of the table free. */
static pl_status_t make_room(pl_key_set_t *set)
{
    pl_key_set_t larger = {0};

    if (3 * (set->n + 1) <= 2 * set->capacity) {
        return PL_OK;
    }
    larger.n        = set->n;
    larger.capacity = set->capacity > 0 ? 2 * set->capacity : 1024;
    larger.keys     = malloc(larger.capacity * sizeof(*larger.keys));
    larger.uses     = calloc(larger.capacity, sizeof(*larger.uses));
    if ((larger.keys == NULL) || (larger.uses == NULL)) {
        pl_key_set_free(&larger);
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->uses[i] > 0) {
            size_t place = place_of(&larger, set->keys[i]);

            larger.keys[place] = set->keys[i];
            larger.uses[place] = set->uses[i];
        }
    }
    pl_key_set_free(set);
    *set = larger;
    return PL_OK;
}

pl_status_t pl_key_set_use(pl_key_set_t *set, pl_page_key_t key, bool *known_p)
{
    size_t i;

    PL_TRY(make_room(set));
    i        = place_of(set, key);
    *known_p = set->uses[i] > 0;
    if (!*known_p) {
        set->keys[i] = key;
        set->n++;
    }
    if (set->uses[i] < UINT32_MAX) {
        set->uses[i]++;
    }
    return PL_OK;
}

size_t pl_key_set_once(const pl_key_set_t *set)
{
    size_t n = 0;

    for (size_t i = 0; i < set->capacity; i++) {
        n += set->uses[i] == 1;
    }
    return n;
}
