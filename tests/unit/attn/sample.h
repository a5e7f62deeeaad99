/* sample.h - random values, and views over rows of them. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "attn/rows.h"
#include "attn/view.h"
#include "base/rng.h"

/* Uniform in [-1, 1). */
float sample_value(pl_rng_t *rng);
/* n of them; the caller frees. */
float *sample_values(pl_rng_t *rng, size_t n);
/* Uniform in first .. last. */
int32_t sample_between(pl_rng_t *rng, int32_t first, int32_t last);

/* Rows of values [n][kv_lora + rope], or keys [n][index_dim], stored in pages
 * that lie in a random order with gaps between them; sample_view_close frees
 * all.  Bytes that no row has are 0xFF. */
typedef struct sample_view {
    pl_view_t view;
    uint8_t *bytes;
    int32_t *rows;
} sample_view_t;

sample_view_t sample_latent_view(const pl_row_layout_t *layout,
                                 const float *values, int32_t n,
                                 int32_t page_tokens, pl_rng_t *rng);
sample_view_t sample_index_view(const pl_row_layout_t *layout,
                                const float *values, int32_t n,
                                int32_t page_tokens, pl_rng_t *rng);
void sample_view_close(sample_view_t *view);

#endif /* SAMPLE_H */
