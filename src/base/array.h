/* base/array.h - growable arrays of one type, without void pointers.
 *
 *   PL_ARRAY(int32_t) pages = {0};
 *   status = PL_ARRAY_PUSH(&pages, 7);      PL_OK or PL_ERR_MEMORY
 *   pages.items[i], pages.n
 *   PL_ARRAY_FREE(&pages);                  empty again, usable again
 *
 * Zero-initialised means empty.  A failed growth leaves the array as it was.
 * Items move when it grows: keep indices, not pointers.
 */
#ifndef PL_BASE_ARRAY_H
#define PL_BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

#include <pagelane/status.h>

#define PL_ARRAY(type)                                                         \
    struct {                                                                   \
        type *items;                                                           \
        size_t n;                                                              \
        size_t capacity;                                                       \
    }

/* Grow *items_p to hold `want` items of item_bytes (doubling); see above. */
pl_status_t pl_array_grow(void **items_p, size_t *capacity_p, size_t want,
                          size_t item_bytes);

/* Room for `want` items in all. */
#define PL_ARRAY_RESERVE(array, want)                                          \
    (((want) <= (array)->capacity)                                             \
         ? PL_OK                                                               \
         : pl_array_grow((void **)&(array)->items, &(array)->capacity, (want), \
                         sizeof(*(array)->items)))

/* Append one item; the item expression is evaluated once, on success. */
#define PL_ARRAY_PUSH(array, item)                                             \
    ((PL_ARRAY_RESERVE((array), (array)->n + 1) == PL_OK)                      \
         ? ((array)->items[(array)->n++] = (item), PL_OK)                      \
         : PL_ERR_MEMORY)

#define PL_ARRAY_FREE(array)                                                   \
    do {                                                                       \
        free((array)->items);                                                  \
        (array)->items    = NULL;                                              \
        (array)->n        = 0;                                                 \
        (array)->capacity = 0;                                                 \
    } while (0)

#endif /* PL_BASE_ARRAY_H */
