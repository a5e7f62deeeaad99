#include "verify/digest.h"

#include <assert.h>
#include <string.h>

/* Rows are short and there are very many of them: the hash is inlined here, and
 * here alone, and the usual row sizes are constants to the compiler. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t pl_digest_row(uint64_t base, int64_t position, const void *content,
                       size_t n_bytes)
{
    return XXH3_64bits_withSeed(content, n_bytes,
                                pl_digest_seed(base, position));
}

static inline __attribute__((always_inline)) uint64_t
sum_plain(const uint8_t *rows, size_t bytes, int32_t n, int64_t position,
          uint64_t base)
{
    uint64_t sum = 0;

    for (int32_t i = 0; i < n; i++) {
        sum += XXH3_64bits_withSeed(rows + (size_t)i * bytes, bytes,
                                    pl_digest_seed(base, position + i));
    }
    return sum;
}

static inline __attribute__((always_inline)) uint64_t
sum_planar(const uint8_t *keys, size_t key_bytes, const uint8_t *scales,
           size_t scale_bytes, uint8_t *row, int32_t n, int64_t position,
           uint64_t base)
{
    uint64_t sum = 0;

    for (int32_t i = 0; i < n; i++) {
        memcpy(row, keys + (size_t)i * key_bytes, key_bytes);
        memcpy(row + key_bytes, scales + (size_t)i * scale_bytes, scale_bytes);
        sum += XXH3_64bits_withSeed(row, key_bytes + scale_bytes,
                                    pl_digest_seed(base, position + i));
    }
    return sum;
}

/* Keys of 60 bytes and scales of 4, put together so that each word that the
 * hash reads was written by one store: a read that spans two of them has to
 * wait. */
static uint64_t sum_planar_64(const uint8_t *keys, const uint8_t *scales,
                              int32_t n, int64_t position, uint64_t base)
{
    uint64_t sum = 0;

    for (int32_t i = 0; i < n; i++) {
        uint64_t row[8];
        uint8_t tail[8];

        memcpy(row, keys + (size_t)i * 60, 56);
        memcpy(tail, keys + (size_t)i * 60 + 56, 4);
        memcpy(tail + 4, scales + (size_t)i * 4, 4);
        memcpy(&row[7], tail, 8);
        sum +=
            XXH3_64bits_withSeed(row, 64, pl_digest_seed(base, position + i));
    }
    return sum;
}

uint64_t pl_digest_rows(const pl_page_form_t *form, const uint8_t *page,
                        int32_t first_row, int32_t n_rows, int64_t position,
                        uint64_t base)
{
    const uint8_t *keys   = page + pl_row_key(form, first_row);
    const uint8_t *scales = page + pl_row_scale(form, first_row);
    size_t key_bytes      = (size_t)form->key_bytes;
    size_t scale_bytes    = (size_t)form->scale_bytes;

    assert((first_row >= 0) && (n_rows >= 0) &&
           (first_row + n_rows <= form->page_tokens));
    if (scale_bytes == 0) {
        return key_bytes == 64
                   ? sum_plain(keys, 64, n_rows, position, base)
                   : sum_plain(keys, key_bytes, n_rows, position, base);
    }
    if ((key_bytes == 60) && (scale_bytes == 4)) {
        return sum_planar_64(keys, scales, n_rows, position, base);
    } else {
        uint8_t row[PL_ROW_BYTES_MAX];

        return sum_planar(keys, key_bytes, scales, scale_bytes, row, n_rows,
                          position, base);
    }
}
