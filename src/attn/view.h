/* attn/view.h - all rows of a request in one layer of one store, as attention
 * reads them. */
#ifndef PL_ATTN_VIEW_H
#define PL_ATTN_VIEW_H

#include <stdint.h>

#include "verify/digest.h"

/* Page i lies at bytes + rows[i] * stride.  bytes == NULL: the layer has none.
 */
typedef struct pl_view {
    const uint8_t *bytes;
    size_t stride;
    const int32_t *rows;
    pl_page_form_t form;
    int32_t n_tokens;
} pl_view_t;

static inline const uint8_t *pl_view_page(const pl_view_t *view,
                                          int32_t position)
{
    return view->bytes +
           (size_t)view->rows[position / view->form.page_tokens] * view->stride;
}

/* The key (or latent row) of a position. */
static inline const uint8_t *pl_view_key(const pl_view_t *view,
                                         int32_t position)
{
    return pl_view_page(view, position) +
           pl_row_key(&view->form, position % view->form.page_tokens);
}

/* The scale of a position; forms with scale_bytes > 0. */
static inline const uint8_t *pl_view_scale(const pl_view_t *view,
                                           int32_t position)
{
    return pl_view_page(view, position) +
           pl_row_scale(&view->form, position % view->form.page_tokens);
}

#endif /* PL_ATTN_VIEW_H */
