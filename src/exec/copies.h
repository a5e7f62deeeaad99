/* exec/copies.h - lists of copies between two arrays of pages. */
#ifndef PL_EXEC_COPIES_H
#define PL_EXEC_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

typedef struct pl_slot_pair {
    int32_t src, dst;
} pl_slot_pair_t;

/* Copies of `stride` bytes from slot src of one array to slot dst of another,
 * in the order given.  Neighbours become one copy only where both sides are
 * consecutive: pages that lie side by side need not be neighbours in the
 * request, nor at the other end.  copies has room for n; returns how many. */
int32_t pl_copies_build(const pl_slot_pair_t *pairs, int32_t n,
                        const uint8_t *src, uint8_t *dst, size_t stride,
                        pl_copy_t *copies);

#endif /* PL_EXEC_COPIES_H */
