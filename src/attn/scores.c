#include <string.h>

#include "attn/attention.h"
#include "attn/kernels.h"

/* Products that are held at a time: of so many queries, of so many heads of
 * each, with so many keys. */
#define BATCH    8
#define GROUP    64
#define PRODUCTS (GROUP * PL_LANES)

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

/* Queries that share decoded keys; first .. first+n-1 of all. */
typedef struct batch {
    const pl_view_t *index;
    const pl_row_layout_t *layout;
    const pl_index_queries_t *queries;
    int32_t first, n;
} batch_t;

static int32_t most_keys(const batch_t *batch)
{
    int32_t most = 0;

    for (int32_t i = 0; i < batch->n; i++) {
        int32_t n = batch->queries->n_keys[batch->first + i];

        most = n > most ? n : most;
    }
    return most;
}

/* Of heads h .. h+heads-1, for each query that has a key here. */
static void multiply(const batch_t *batch, const lanes_t *lanes, int32_t at,
                     int32_t h, int32_t heads, float (*products)[PRODUCTS])
{
    const pl_kernels_t *kernels = pl_kernels();
    const size_t dim            = (size_t)batch->layout->index_dim;
    const size_t n_heads        = (size_t)batch->queries->n_heads;
    float panel[PL_DEPTH * PL_LANES];

    for (int32_t d = 0; d < batch->layout->index_dim; d += PL_DEPTH) {
        int32_t rest = batch->layout->index_dim - d;
        int32_t k    = rest < PL_DEPTH ? rest : PL_DEPTH;

        pack_keys(kernels, batch->layout->dtype == PL_KV_F32, lanes, d, k,
                  panel);
        for (int32_t i = 0; i < batch->n; i++) {
            size_t query = (size_t)(batch->first + i);

            if (batch->queries->n_keys[query] > at) {
                kernels->product(batch->queries->q +
                                     (query * n_heads + (size_t)h) * dim + d,
                                 dim, heads, panel, PL_LANES, k, products[i],
                                 PL_LANES, PL_LANES, d > 0);
            }
        }
    }
}

/* Scores of the keys in `lanes`, which begin at position `at`. */
static void score_lanes(const batch_t *batch, const lanes_t *lanes, int32_t at,
                        float (*sums)[PL_LANES])
{
    const pl_index_queries_t *queries = batch->queries;
    float products[BATCH][PRODUCTS];

    memset(sums, 0, BATCH * sizeof(*sums));
    for (int32_t h = 0; h < queries->n_heads; h += GROUP) {
        int32_t rest  = queries->n_heads - h;
        int32_t heads = rest < GROUP ? rest : GROUP;

        multiply(batch, lanes, at, h, heads, products);
        for (int32_t i = 0; i < batch->n; i++) {
            size_t query = (size_t)(batch->first + i);

            if (queries->n_keys[query] > at) {
                pl_kernels()->relu_sum(products[i],
                                       queries->weights +
                                           query * (size_t)queries->n_heads + h,
                                       heads, queries->scale, sums[i]);
            }
        }
    }
}

static void score_batch(const batch_t *batch, float *scores, size_t stride)
{
    walk_t walk = {.view = batch->index, .end = most_keys(batch)};
    float sums[BATCH][PL_LANES];
    lanes_t lanes;

    for (int32_t at = 0; at < walk.end; at += lanes.n) {
        next_lanes(&walk, &lanes);
        score_lanes(batch, &lanes, at, sums);
        for (int32_t i = 0; i < batch->n; i++) {
            int32_t query = batch->first + i;
            int32_t rest  = batch->queries->n_keys[query] - at;
            int32_t n     = rest < lanes.n ? rest : lanes.n;

            if (n > 0) {
                memcpy(scores + (size_t)query * stride + at, sums[i],
                       (size_t)n * sizeof(float));
            }
        }
    }
}

void pl_index_scores(const pl_view_t *index, const pl_row_layout_t *layout,
                     const pl_index_queries_t *queries, float *scores,
                     size_t stride)
{
    batch_t batch = {.index = index, .layout = layout, .queries = queries};

    for (; batch.first < queries->n; batch.first += BATCH) {
        int32_t rest = queries->n - batch.first;

        batch.n = rest < BATCH ? rest : BATCH;
        score_batch(&batch, scores, stride);
    }
}
