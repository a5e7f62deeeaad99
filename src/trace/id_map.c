#include "trace/id_map.h"

#include <stdlib.h>

#include "base/hash.h"

void pl_id_map_free(pl_id_map_t *map)
{
    free(map->entries);
    map->entries  = NULL;
    map->capacity = 0;
    map->n        = 0;
}

/* The entry of (a, b), or the free one where it belongs. */
static pl_id_entry_t *entry_of(pl_id_entry_t *entries, size_t capacity,
                               uint64_t a, uint64_t b)
{
    size_t i = (size_t)pl_mix64(b ^ pl_mix64(a)) & (capacity - 1);

    while ((entries[i].value > 0) &&
           ((entries[i].a != a) || (entries[i].b != b))) {
        i = (i + 1) & (capacity - 1);
    }
    return &entries[i];
}

/* Room for one more, a third of the table free. */
static pl_status_t make_room(pl_id_map_t *map)
{
    size_t capacity = map->capacity > 0 ? 2 * map->capacity : 1024;
    pl_id_entry_t *entries;

    if (3 * (map->n + 1) <= 2 * map->capacity) {
        return PL_OK;
    }
    entries = calloc(capacity, sizeof(*entries));
    if (entries == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        const pl_id_entry_t *old = &map->entries[i];

        if (old->value > 0) {
            *entry_of(entries, capacity, old->a, old->b) = *old;
        }
    }
    free(map->entries);
    map->entries  = entries;
    map->capacity = capacity;
    return PL_OK;
}

static pl_status_t enter(pl_id_map_t *map, uint64_t a, uint64_t b,
                         pl_id_entry_t **entry_p)
{
    PL_TRY(make_room(map));
    *entry_p = entry_of(map->entries, map->capacity, a, b);
    if ((*entry_p)->value == 0) {
        **entry_p = (pl_id_entry_t){a, b, map->n + 1};
        map->n++;
    }
    return PL_OK;
}

pl_status_t pl_id_map_number(pl_id_map_t *map, uint64_t a, uint64_t b,
                             uint64_t *number_p)
{
    pl_id_entry_t *entry = NULL;

    PL_TRY(enter(map, a, b, &entry));
    *number_p = entry->value - 1;
    return PL_OK;
}

pl_status_t pl_id_map_put(pl_id_map_t *map, uint64_t a, uint64_t b,
                          uint64_t value)
{
    pl_id_entry_t *entry = NULL;

    PL_TRY(enter(map, a, b, &entry));
    entry->value = value + 1;
    return PL_OK;
}

bool pl_id_map_find(const pl_id_map_t *map, uint64_t a, uint64_t b,
                    uint64_t *value_p)
{
    const pl_id_entry_t *entry;

    if (map->capacity == 0) {
        return false;
    }
    entry = entry_of(map->entries, map->capacity, a, b);
    if (entry->value == 0) {
        return false;
    }
    *value_p = entry->value - 1;
    return true;
}
