/* trace/key_set.h - a set of 128-bit keys that counts how often each came.
 * Zero-initialised is empty.  Its order is never seen. */
#ifndef PL_TRACE_KEY_SET_H
#define PL_TRACE_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>
#include <pagelane/trace.h>

typedef struct pl_key_set {
    pl_page_key_t *keys;
    uint32_t *uses;  /* of keys[i], up to UINT32_MAX; 0 = free */
    size_t capacity; /* a power of two, or 0 */
    size_t n;
} pl_key_set_t;

void pl_key_set_free(pl_key_set_t *set);

/* Count `key`; *known_p: was it there before? */
pl_status_t pl_key_set_use(pl_key_set_t *set, pl_page_key_t key, bool *known_p);

/* How many keys came exactly once. */
size_t pl_key_set_once(const pl_key_set_t *set);

#endif /* PL_TRACE_KEY_SET_H */
