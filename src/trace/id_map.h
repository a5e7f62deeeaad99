/* trace/id_map.h - numbers for things known by two words, in the order in which
 * they first came.  Zero-initialised is empty. */
#ifndef PL_TRACE_ID_MAP_H
#define PL_TRACE_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

typedef struct pl_id_entry {
    uint64_t a, b;
    uint64_t value; /* + 1; 0: the entry is free */
} pl_id_entry_t;

typedef struct pl_id_map {
    pl_id_entry_t *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t n;
} pl_id_map_t;

void pl_id_map_free(pl_id_map_t *map);

/* The number of (a, b): of a new one, how many there were before.  PL_OK,
 * PL_ERR_MEMORY. */
pl_status_t pl_id_map_number(pl_id_map_t *map, uint64_t a, uint64_t b,
                             uint64_t *number_p);

/* The same with a value of the caller's, which replaces an earlier one. */
pl_status_t pl_id_map_put(pl_id_map_t *map, uint64_t a, uint64_t b,
                          uint64_t value);
bool pl_id_map_find(const pl_id_map_t *map, uint64_t a, uint64_t b,
                    uint64_t *value_p);

#endif /* PL_TRACE_ID_MAP_H */
