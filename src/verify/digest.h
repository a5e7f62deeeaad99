/* verify/digest.h - digests of KV bytes that do not know where they lie.
 *
 *   row hash        XXH3-64 of the row's content, seeded by (position, layer,
 *                   store)
 *   page digest     sum of the hashes of the rows it holds, mod 2^64
 *   request digest  sum over its prompt rows, all layers and stores
 *
 * So a digest is the same for every page size, number of ranks, slot and tier,
 * and digests of disjoint rows add up.  A row's content is its stored bytes
 * without guard word and padding: in a planar index page the token's key bytes,
 * then its scale bytes.
 *
 * Pure functions.  Positions are tokens of the request, from 0.
 */
#ifndef PL_VERIFY_DIGEST_H
#define PL_VERIFY_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define PL_ROW_BYTES_MAX 65536 /* content of one row */

/* How rows lie in a page: page_tokens keys of key_bytes one after another, then
 * page_tokens scales of scale_bytes.  A latent page is the case scale_bytes ==
 * 0.  key_bytes + scale_bytes is 1 .. PL_ROW_BYTES_MAX. */
typedef struct pl_page_form {
    int32_t page_tokens;
    int32_t key_bytes;
    int32_t scale_bytes;
} pl_page_form_t;

static inline size_t pl_row_bytes(const pl_page_form_t *form)
{
    return (size_t)form->key_bytes + (size_t)form->scale_bytes;
}

/* Row i of a page: where its key and its scale begin. */
static inline size_t pl_row_key(const pl_page_form_t *form, int32_t i)
{
    return (size_t)i * (size_t)form->key_bytes;
}

static inline size_t pl_row_scale(const pl_page_form_t *form, int32_t i)
{
    return (size_t)form->page_tokens * (size_t)form->key_bytes +
           (size_t)i * (size_t)form->scale_bytes;
}

/* The seed of a row: one base per (layer, store), then one mix per position. */
static inline uint64_t pl_digest_base(int32_t layer, int32_t store)
{
    return pl_mix64(((uint64_t)(uint32_t)layer << 8) +
                    (uint64_t)(uint32_t)store + UINT64_C(0x706167656C616E65));
}

static inline uint64_t pl_digest_seed(uint64_t base, int64_t position)
{
    return pl_mix64(base + (uint64_t)position * UINT64_C(0x9E3779B97F4A7C15));
}

/* The hash of a row whose content lies in one piece. */
uint64_t pl_digest_row(uint64_t base, int64_t position, const void *content,
                       size_t n_bytes);

/* Sum of the hashes of rows first_row .. first_row + n_rows - 1 of a page;
 * `position` is that of row first_row.  n_rows 0 gives 0. */
uint64_t pl_digest_rows(const pl_page_form_t *form, const uint8_t *page,
                        int32_t first_row, int32_t n_rows, int64_t position,
                        uint64_t base);

#endif /* PL_VERIFY_DIGEST_H */
