#include "base/array.h"

#include <stdint.h>

pl_status_t pl_array_grow(void **items_p, size_t *capacity_p, size_t want,
                          size_t item_bytes)
{
    size_t capacity = *capacity_p > 0 ? *capacity_p : 8;
    void *items;

    while (capacity < want) {
        if (capacity > SIZE_MAX / 2) {
            return PL_ERR_MEMORY;
        }
        capacity *= 2;
    }
    if (capacity > SIZE_MAX / item_bytes) {
        return PL_ERR_MEMORY;
    }
    items = realloc(*items_p, capacity * item_bytes);
    if (items == NULL) {
        return PL_ERR_MEMORY;
    }
    *items_p    = items;
    *capacity_p = capacity;
    return PL_OK;
}
