#include "pool/store.h"

#include <inttypes.h>
#include <string.h>

pl_store_layout_t pl_store_layout_stamp(int32_t page_tokens, int32_t n_layers,
                                        int32_t row_bytes, int32_t n_slots)
{
    pl_store_layout_t layout = {.page_tokens       = page_tokens,
                                .n_layers          = n_layers,
                                .latent_row_bytes  = row_bytes,
                                .index_key_bytes   = row_bytes - 4,
                                .index_scale_bytes = 4,
                                .n_slots           = n_slots};

    return layout;
}

/* Total bytes as a product of factors that may each be large. */
static bool too_large(const pl_store_layout_t *layout)
{
    uint64_t page = pl_store_stride(layout, PL_STORE_LATENT) +
                    pl_store_stride(layout, PL_STORE_INDEX) +
                    PL_STORES * sizeof(pl_page_header_t);
    uint64_t slots = (uint64_t)layout->n_layers * (uint64_t)layout->n_slots;

    return (slots != 0) && (page > (uint64_t)INT64_MAX / slots);
}

pl_status_t pl_store_layout_check(const pl_store_layout_t *layout,
                                  const pl_log_t *log)
{
    int64_t index_row =
        (int64_t)layout->index_key_bytes + layout->index_scale_bytes;

    if ((layout->page_tokens < 1) ||
        (layout->page_tokens > PL_MAX_PAGE_TOKENS)) {
        pl_log(log, PL_LOG_ERROR,
               "a page of %" PRId32 " tokens: give 1 to %d (--page-size)",
               layout->page_tokens, PL_MAX_PAGE_TOKENS);
        return PL_ERR_ARGUMENT;
    }
    if ((layout->latent_row_bytes < 1) ||
        (layout->latent_row_bytes > PL_ROW_BYTES_MAX) ||
        (layout->index_key_bytes < 1) || (layout->index_scale_bytes < 0) ||
        (index_row > PL_ROW_BYTES_MAX)) {
        pl_log(log, PL_LOG_ERROR,
               "rows of %" PRId32 " latent and %" PRId32 " + %" PRId32
               " index bytes: 1 to %d are possible",
               layout->latent_row_bytes, layout->index_key_bytes,
               layout->index_scale_bytes, PL_ROW_BYTES_MAX);
        return PL_ERR_ARGUMENT;
    }
    if ((layout->n_layers < 1) || (layout->n_slots < 0) || too_large(layout)) {
        pl_log(log, PL_LOG_ERROR,
               "%" PRId32 " pages of %" PRId32
               " layers are more bytes than can be counted: lower the pages "
               "or the layers",
               layout->n_slots, layout->n_layers);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* Layers before `layer` that have an array in the store. */
static int32_t arrays_before(const pl_store_layout_t *layout, int store,
                             int32_t layer)
{
    int32_t n = 0;

    if ((store == PL_STORE_LATENT) || (layout->has_index == NULL)) {
        return layer;
    }
    for (int32_t i = 0; i < layer; i++) {
        n += layout->has_index[i] != 0 ? 1 : 0;
    }
    return n;
}

int32_t pl_store_n_arrays(const pl_store_layout_t *layout, int store)
{
    return arrays_before(layout, store, layout->n_layers);
}

/* One array of the store: the pages of one layer. */
static size_t array_bytes(const pl_store_layout_t *layout, int store)
{
    return (size_t)layout->n_slots * pl_store_stride(layout, store);
}

size_t pl_store_array(const pl_store_layout_t *layout, int store, int32_t layer)
{
    size_t offset = (size_t)arrays_before(layout, store, layer) *
                    array_bytes(layout, store);

    assert((layer >= 0) && (layer < layout->n_layers) &&
           pl_store_has(layout, store, layer));
    if (store == PL_STORE_INDEX) {
        offset += (size_t)pl_store_n_arrays(layout, PL_STORE_LATENT) *
                  array_bytes(layout, PL_STORE_LATENT);
    }
    return offset;
}

size_t pl_store_header_array(const pl_store_layout_t *layout, int store,
                             int32_t layer)
{
    size_t arrays = (size_t)arrays_before(layout, store, layer);

    if (store == PL_STORE_INDEX) {
        arrays += (size_t)pl_store_n_arrays(layout, PL_STORE_LATENT);
    }
    return arrays * (size_t)layout->n_slots;
}

size_t pl_store_page_bytes(const pl_store_layout_t *layout)
{
    size_t bytes = 0;

    for (int store = 0; store < PL_STORES; store++) {
        bytes += (size_t)pl_store_n_arrays(layout, store) *
                 pl_store_stride(layout, store);
    }
    return bytes;
}

size_t pl_store_run_bytes(const pl_store_layout_t *layout, int n_ranks)
{
    size_t most = 0;

    for (int rank = 0; rank < n_ranks; rank++) {
        int32_t first = pl_first_layer(layout->n_layers, n_ranks, rank);
        int32_t end   = pl_first_layer(layout->n_layers, n_ranks, rank + 1);
        size_t bytes  = 0;

        for (int store = 0; store < PL_STORES; store++) {
            bytes += (size_t)(arrays_before(layout, store, end) -
                              arrays_before(layout, store, first)) *
                     pl_store_stride(layout, store);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t pl_store_bytes(const pl_store_layout_t *layout)
{
    return pl_store_page_bytes(layout) * (size_t)layout->n_slots;
}

size_t pl_store_n_headers(const pl_store_layout_t *layout)
{
    size_t arrays = 0;

    for (int store = 0; store < PL_STORES; store++) {
        arrays += (size_t)pl_store_n_arrays(layout, store);
    }
    return arrays * (size_t)layout->n_slots;
}

pl_store_t pl_store_make(const pl_store_layout_t *layout, uint8_t *bytes,
                         pl_page_header_t *headers, pl_page_tag_t *tags)
{
    pl_store_t store = {
        .layout = *layout, .bytes = bytes, .headers = headers, .tags = tags};

    for (int which = 0; which < PL_STORES; which++) {
        store.stride[which] = pl_store_stride(layout, which);
        store.form[which]   = pl_store_form(layout, which);
    }
    return store;
}

void pl_row_put(const pl_page_form_t *form, uint8_t *page, int32_t row,
                const uint8_t *content)
{
    assert((row >= 0) && (row < form->page_tokens));
    memcpy(page + pl_row_key(form, row), content, (size_t)form->key_bytes);
    memcpy(page + pl_row_scale(form, row), content + form->key_bytes,
           (size_t)form->scale_bytes);
}

void pl_row_get(const pl_page_form_t *form, const uint8_t *page, int32_t row,
                uint8_t *content)
{
    assert((row >= 0) && (row < form->page_tokens));
    memcpy(content, page + pl_row_key(form, row), (size_t)form->key_bytes);
    memcpy(content + form->key_bytes, page + pl_row_scale(form, row),
           (size_t)form->scale_bytes);
}
