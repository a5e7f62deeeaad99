#include <string.h>

#include "attn/attention.h"
#include "attn/kernels.h"

#define GROUP 64 /* heads whose products are held at a time */

/* The next PL_LANES keys, as they are stored; a lane without a key repeats the
 * first one. */
typedef struct lanes {
    const void *keys[PL_LANES];
    float scales[PL_LANES];
    int32_t n;
} lanes_t;

/* Walks over positions without dividing. */
typedef struct walk {
    const pl_view_t *view;
    const uint8_t *page;
    int32_t position, row, end;
} walk_t;

static void next_lanes(walk_t *walk, lanes_t *lanes)
{
    const pl_page_form_t *form = &walk->view->form;
    int32_t rest               = walk->end - walk->position;

    lanes->n = rest < PL_LANES ? rest : PL_LANES;
    for (int32_t j = 0; j < lanes->n; j++, walk->position++, walk->row++) {
        if (walk->page == NULL || walk->row == form->page_tokens) {
            walk->page = pl_view_page(walk->view, walk->position);
            walk->row  = 0;
        }
        lanes->keys[j]   = walk->page + pl_row_key(form, walk->row);
        lanes->scales[j] = 1.0F;
        if (form->scale_bytes > 0) {
            memcpy(&lanes->scales[j],
                   walk->page + pl_row_scale(form, walk->row), sizeof(float));
        }
    }
    for (int32_t j = lanes->n; j < PL_LANES; j++) {
        lanes->keys[j]   = lanes->keys[0];
        lanes->scales[j] = lanes->scales[0];
    }
}

/* Dimensions first .. first+k-1 of all lanes as a panel. */
static void pack_keys(const pl_kernels_t *kernels, bool stored_f32,
                      const lanes_t *lanes, int32_t first, int32_t k,
                      float *panel)
{
    float decoded[PL_LANES][PL_DEPTH];
    const void *rows[PL_LANES];

    if (stored_f32) {
        kernels->pack(lanes->keys, first, k, panel);
        return;
    }
    for (int32_t j = 0; j < PL_LANES; j++) {
        rows[j] = decoded[j];
        kernels->from_e4m3((const uint8_t *)lanes->keys[j] + first, k,
                           lanes->scales[j], decoded[j]);
    }
    kernels->pack(rows, 0, k, panel);
}

void pl_index_scores(const pl_view_t *index, const pl_row_layout_t *layout,
                     const float *q, const float *weights, int32_t n_heads,
                     float scale, int32_t n_keys, float *scores)
{
    const pl_kernels_t *kernels = pl_kernels();
    const size_t dim            = (size_t)layout->index_dim;
    walk_t walk                 = {.view = index, .end = n_keys};
    float panel[PL_DEPTH * PL_LANES], products[GROUP * PL_LANES];
    float sums[PL_LANES];
    lanes_t lanes;

    for (int32_t s = 0; s < n_keys; s += lanes.n) {
        next_lanes(&walk, &lanes);
        memset(sums, 0, sizeof(sums));
        for (int32_t h = 0; h < n_heads; h += GROUP) {
            int32_t heads = n_heads - h < GROUP ? n_heads - h : GROUP;

            for (int32_t d = 0; d < layout->index_dim; d += PL_DEPTH) {
                int32_t rest = layout->index_dim - d;
                int32_t k    = rest < PL_DEPTH ? rest : PL_DEPTH;

                pack_keys(kernels, layout->dtype == PL_KV_F32, &lanes, d, k,
                          panel);
                kernels->product(q + (size_t)h * dim + d, dim, heads, panel,
                                 PL_LANES, k, products, PL_LANES, PL_LANES,
                                 d > 0);
            }
            kernels->relu_sum(products, weights + h, heads, scale, sums);
        }
        memcpy(scores + s, sums, (size_t)lanes.n * sizeof(float));
    }
}
