#include "sample.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

float sample_value(pl_rng_t *rng)
{
    return (float)(pl_rng_unit(rng) * 2.0 - 1.0);
}

float *sample_values(pl_rng_t *rng, size_t n)
{
    float *values = malloc((n > 0 ? n : 1) * sizeof(*values));

    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++) {
        values[i] = sample_value(rng);
    }
    return values;
}

int32_t sample_between(pl_rng_t *rng, int32_t first, int32_t last)
{
    return first + (int32_t)pl_rng_below(rng, (uint64_t)(last - first) + 1);
}

/* Empty pages of one form, in a random order. */
static sample_view_t open_view(pl_page_form_t form, int32_t n, pl_rng_t *rng)
{
    int32_t n_pages = (n + form.page_tokens - 1) / form.page_tokens;
    size_t page     = (size_t)form.page_tokens * pl_row_bytes(&form);
    size_t stride   = page + 4 * (size_t)sample_between(rng, 0, 5);
    sample_view_t made;

    made.bytes = malloc(stride * (size_t)(n_pages + 1));
    made.rows  = malloc(sizeof(*made.rows) * (size_t)(n_pages + 1));
    ck_assert_ptr_nonnull(made.bytes);
    ck_assert_ptr_nonnull(made.rows);
    memset(made.bytes, 0xFF, stride * (size_t)(n_pages + 1));
    for (int32_t i = 0; i < n_pages; i++) {
        int32_t j = sample_between(rng, 0, i);

        made.rows[i] = made.rows[j];
        made.rows[j] = i;
    }
    made.view = (pl_view_t){.bytes    = made.bytes,
                            .stride   = stride,
                            .rows     = made.rows,
                            .form     = form,
                            .n_tokens = n};
    return made;
}

/* The place that reading uses, to write. */
static uint8_t *writable(const sample_view_t *view, const uint8_t *at)
{
    return view->bytes + (at - view->bytes);
}

sample_view_t sample_latent_view(const pl_row_layout_t *layout,
                                 const float *values, int32_t n,
                                 int32_t page_tokens, pl_rng_t *rng)
{
    pl_page_form_t form = {page_tokens, layout->latent_bytes, 0};
    sample_view_t made  = open_view(form, n, rng);
    size_t width        = (size_t)(layout->kv_lora + layout->rope);

    for (int32_t i = 0; i < n; i++) {
        pl_latent_store(layout, values + (size_t)i * width,
                        writable(&made, pl_view_key(&made.view, i)));
    }
    return made;
}

sample_view_t sample_index_view(const pl_row_layout_t *layout,
                                const float *values, int32_t n,
                                int32_t page_tokens, pl_rng_t *rng)
{
    pl_page_form_t form = {page_tokens, layout->index_key_bytes,
                           layout->index_scale_bytes};
    sample_view_t made  = open_view(form, n, rng);

    for (int32_t i = 0; i < n; i++) {
        pl_index_store(layout, values + (size_t)i * (size_t)layout->index_dim,
                       writable(&made, pl_view_key(&made.view, i)),
                       writable(&made, pl_view_scale(&made.view, i)));
    }
    return made;
}

void sample_view_close(sample_view_t *view)
{
    free(view->bytes);
    free(view->rows);
}
