#include "exec/copies.h"

int32_t pl_copies_build(const pl_slot_pair_t *pairs, int32_t n,
                        const uint8_t *src, uint8_t *dst, size_t stride,
                        pl_copy_t *copies)
{
    int32_t n_copies = 0;

    for (int32_t i = 0; i < n; i++) {
        if ((i > 0) && (pairs[i].src == pairs[i - 1].src + 1) &&
            (pairs[i].dst == pairs[i - 1].dst + 1)) {
            copies[n_copies - 1].bytes += stride;
            continue;
        }
        copies[n_copies].src   = src + (size_t)pairs[i].src * stride;
        copies[n_copies].dst   = dst + (size_t)pairs[i].dst * stride;
        copies[n_copies].bytes = stride;
        n_copies++;
    }
    return n_copies;
}
