/* pool/store.h - how pages lie in memory: one definition for every tier.
 *
 * Two stores: the latent rows that attention reads, and the index rows (key and
 * scale) that the indexer reads.  Device, host and decode pools all have the
 * same layout, so that a copy between tiers is a copy of whole pages:
 *
 *     [store][layer][slot][page bytes]       the arrays, layer first
 *     [store][layer][slot]{guard, digest}    their headers, beside the pages
 *
 *     latent page   P rows of latent_row_bytes, padded to a multiple of 16
 *     index page    planar: P keys of index_key_bytes, then P scales of
 *                   index_scale_bytes, padded to a multiple of 16
 *
 * P is 1 .. PL_MAX_PAGE_TOKENS.  A layer may have no index (later models share
 * it between layers); it then has no array in that store.  Index rows travel
 * with the latent rows of their page in every copy.
 *
 * Pure functions of the layout.  Offsets and sizes are bytes, slots are places
 * of pages.  The memory belongs to whoever made it.
 */
#ifndef PL_POOL_STORE_H
#define PL_POOL_STORE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "verify/digest.h"

enum { PL_STORE_LATENT, PL_STORE_INDEX, PL_STORES };

#define PL_PAGE_ALIGN 16 /* of page strides */

typedef struct pl_store_layout {
    int32_t page_tokens; /* P */
    int32_t n_layers;
    int32_t latent_row_bytes;
    int32_t index_key_bytes;
    int32_t index_scale_bytes;
    int32_t n_slots;
    const uint8_t *has_index; /* [n_layers], borrowed; NULL: every layer */
} pl_store_layout_t;

/* Beside each page, per layer and store. */
typedef struct pl_page_header {
    uint64_t guard;  /* verify/guard.h; 0: nobody wrote this slot */
    uint64_t digest; /* sum of the hashes of its rows, by the writer */
} pl_page_header_t;

/* Beside each slot: which rows its page holds. */
typedef struct pl_page_tag {
    int32_t position; /* of its first row in its request */
    int32_t rows;
} pl_page_tag_t;

/* The layout of --stamp-row-bytes R: latent rows of R bytes, index keys of R-4
 * bytes with 4-byte scales. */
pl_store_layout_t pl_store_layout_stamp(int32_t page_tokens, int32_t n_layers,
                                        int32_t row_bytes, int32_t n_slots);

/* Sizes in range and the arrays within an int64: PL_ERR_ARGUMENT with one
 * line. */
PL_MUST_CHECK pl_status_t pl_store_layout_check(const pl_store_layout_t *layout,
                                                const pl_log_t *log);

static inline bool pl_store_has(const pl_store_layout_t *layout, int store,
                                int32_t layer)
{
    return (store == PL_STORE_LATENT) || (layout->has_index == NULL) ||
           (layout->has_index[layer] != 0);
}

static inline pl_page_form_t pl_store_form(const pl_store_layout_t *layout,
                                           int store)
{
    pl_page_form_t form = {layout->page_tokens, layout->latent_row_bytes, 0};

    if (store == PL_STORE_INDEX) {
        form.key_bytes   = layout->index_key_bytes;
        form.scale_bytes = layout->index_scale_bytes;
    }
    return form;
}

/* Bytes from one page to the next in an array of the store. */
static inline size_t pl_store_stride(const pl_store_layout_t *layout, int store)
{
    pl_page_form_t form = pl_store_form(layout, store);
    size_t bytes        = (size_t)form.page_tokens * pl_row_bytes(&form);

    return (bytes + PL_PAGE_ALIGN - 1) / PL_PAGE_ALIGN * PL_PAGE_ALIGN;
}

/* Layers that have an array in the store. */
int32_t pl_store_n_arrays(const pl_store_layout_t *layout, int store);

/* Where the array of (store, layer) begins; the layer must have it. */
size_t pl_store_array(const pl_store_layout_t *layout, int store,
                      int32_t layer);
/* The same in headers, from the first header. */
size_t pl_store_header_array(const pl_store_layout_t *layout, int store,
                             int32_t layer);

/* One page, all layers and stores, without headers: what a copy moves. */
size_t pl_store_page_bytes(const pl_store_layout_t *layout);
/* The most of it that one of n_ranks ranks keeps if each has a run of layers
 * (pl_first_layer). */
size_t pl_store_run_bytes(const pl_store_layout_t *layout, int n_ranks);
/* All arrays; all headers. */
size_t pl_store_bytes(const pl_store_layout_t *layout);
size_t pl_store_n_headers(const pl_store_layout_t *layout);

/* Memory of one tier of one rank in that layout. */
typedef struct pl_store {
    pl_store_layout_t layout;
    uint8_t *bytes;            /* [pl_store_bytes] */
    pl_page_header_t *headers; /* [pl_store_n_headers] */
    pl_page_tag_t *tags;       /* [n_slots] */
    size_t stride[PL_STORES];
    pl_page_form_t form[PL_STORES];
} pl_store_t;

/* Describe memory of the caller's; n_slots 0: no such tier here. */
pl_store_t pl_store_make(const pl_store_layout_t *layout, uint8_t *bytes,
                         pl_page_header_t *headers, pl_page_tag_t *tags);

static inline uint8_t *pl_store_page(const pl_store_t *store, int which,
                                     int32_t layer, int32_t slot)
{
    assert((slot >= 0) && (slot < store->layout.n_slots));
    return store->bytes + pl_store_array(&store->layout, which, layer) +
           (size_t)slot * store->stride[which];
}

static inline pl_page_header_t *
pl_store_header(const pl_store_t *store, int which, int32_t layer, int32_t slot)
{
    assert((slot >= 0) && (slot < store->layout.n_slots));
    return store->headers +
           pl_store_header_array(&store->layout, which, layer) + slot;
}

/* Put the content of one row, in one piece, where row `row` of a page lies. */
void pl_row_put(const pl_page_form_t *form, uint8_t *page, int32_t row,
                const uint8_t *content);
/* And back. */
void pl_row_get(const pl_page_form_t *form, const uint8_t *page, int32_t row,
                uint8_t *content);

#endif /* PL_POOL_STORE_H */
