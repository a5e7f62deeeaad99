/* Indexer, top-k and sparse attention beside the plain C versions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attention.h"
#include "gpu.h"
#include "support/seed.h"

/* A view of n rows in shuffled pages, on both sides. */
typedef struct both {
    pl_view_t host;
    pl_cuda_view_t gpu;
} both_t;

static both_t make_view(pl_rng_t *rng, pl_page_form_t form, int32_t n)
{
    const int32_t n_pages = (n + form.page_tokens - 1) / form.page_tokens;
    const size_t stride =
        ((size_t)form.page_tokens * pl_row_bytes(&form) + 15) / 16 * 16;
    uint8_t *bytes = host_bytes(stride * (size_t)n_pages);
    int32_t *rows  = host_order(rng, n_pages);
    both_t made    = {.host = {bytes, stride, rows, form, n}};

    return made;
}

static void send_view(both_t *view)
{
    const pl_view_t *host = &view->host;
    const int32_t n_pages =
        (host->n_tokens + host->form.page_tokens - 1) / host->form.page_tokens;

    view->gpu = (pl_cuda_view_t){
        .bytes  = gpu_upload(host->bytes, host->stride * (size_t)n_pages),
        .stride = host->stride,
        .rows   = GPU_UPLOAD(host->rows, n_pages),
        .form   = host->form};
}

static uint8_t *writable(const pl_view_t *view, const uint8_t *at)
{
    return (uint8_t *)(uintptr_t)view->bytes + (at - view->bytes);
}

static both_t make_index(pl_rng_t *rng, const pl_row_layout_t *layout,
                         int32_t n, int32_t page_tokens)
{
    pl_page_form_t form = {page_tokens, layout->index_key_bytes,
                           layout->index_scale_bytes};
    both_t view         = make_view(rng, form, n);
    size_t width        = (size_t)layout->index_dim;
    float *values       = host_floats(rng, (size_t)n * width);

    for (int32_t i = 0; i < n; i++) {
        pl_index_store(layout, values + (size_t)i * width,
                       writable(&view.host, pl_view_key(&view.host, i)),
                       writable(&view.host, pl_view_scale(&view.host, i)));
    }
    send_view(&view);
    return view;
}

static both_t make_latent(pl_rng_t *rng, const pl_row_layout_t *layout,
                          int32_t n, int32_t page_tokens)
{
    pl_page_form_t form = {page_tokens, layout->latent_bytes, 0};
    both_t view         = make_view(rng, form, n);
    size_t width        = (size_t)(layout->kv_lora + layout->rope);
    float *values       = host_floats(rng, (size_t)n * width);

    for (int32_t i = 0; i < n; i++) {
        pl_latent_store(layout, values + (size_t)i * width,
                        writable(&view.host, pl_view_key(&view.host, i)));
    }
    send_view(&view);
    return view;
}

/* ---- indexer ---- */

/* What a score of query i could be at most, for keys of [-1, 1)^dim. */
static double most_score(const float *weights, const float *q, int32_t i,
                         int32_t n_heads, int32_t dim)
{
    double most = 0;

    for (int32_t h = i * n_heads; h < (i + 1) * n_heads; h++) {
        double square = 0;

        for (int32_t d = 0; d < dim; d++) {
            square += (double)q[h * dim + d] * (double)q[h * dim + d];
        }
        most += fabs((double)weights[h]) * 0.25 * sqrt(square * dim);
    }
    return most;
}

static void check_close(const float *got, const float *want, int32_t n,
                        double most, double part)
{
    for (int32_t s = 0; s < n; s++) {
        ck_assert_double_lt(fabs((double)got[s] - (double)want[s]),
                            part * most);
    }
}

static void check_scores(pl_rng_t *rng, pl_kv_dtype_t dtype, int32_t dim,
                         int32_t n_heads, int32_t n, int32_t most)
{
    pl_row_layout_t layout = pl_row_layout_make(dtype, 32, 8, dim);
    both_t view      = make_index(rng, &layout, most, between(rng, 1, 80));
    size_t per_query = (size_t)n_heads * (size_t)dim;
    float *q         = host_floats(rng, (size_t)n * per_query);
    float *weights   = host_floats(rng, (size_t)(n * n_heads));
    float *want      = host_bytes((size_t)most * sizeof(*want));
    float *got       = host_bytes((size_t)(n * most) * sizeof(*got));
    float *alone     = host_bytes((size_t)most * sizeof(*alone));
    int32_t *n_keys  = host_bytes((size_t)n * sizeof(*n_keys));
    float *on_gpu    = gpu_upload(NULL, (size_t)(n * most) * sizeof(*got));
    float *one       = gpu_upload(NULL, (size_t)most * sizeof(*got));
    float *q_gpu     = GPU_UPLOAD(q, (size_t)n * per_query);
    float *w_gpu     = GPU_UPLOAD(weights, n * n_heads);
    int32_t *n_gpu;

    for (int32_t i = 0; i < n; i++) {
        n_keys[i] = i == 0 ? most : between(rng, 1, most);
    }
    n_gpu = GPU_UPLOAD(n_keys, n);
    ck_assert_int_eq(pl_cuda_index_scores(&view.gpu, &layout, q_gpu, w_gpu,
                                          n_heads, 0.25F, n_gpu, n, most,
                                          on_gpu, (size_t)most, NULL),
                     PL_OK);
    gpu_download(got, on_gpu, (size_t)(n * most) * sizeof(*got));
    for (int32_t i = 0; i < n; i++) {
        const float *mine = got + (size_t)i * (size_t)most;

        const pl_index_queries_t query = {
            .q       = q + (size_t)i * per_query,
            .weights = weights + (size_t)i * (size_t)n_heads,
            .n       = 1,
            .n_heads = n_heads,
            .scale   = 0.25F,
            .n_keys  = &n_keys[i]};

        pl_index_scores(&view.host, &layout, &query, want, (size_t)most);
        check_close(mine, want, n_keys[i],
                    most_score(weights, q, i, n_heads, dim),
                    dtype == PL_KV_F32 ? 1e-6 : 1e-3);
        /* alone, the same bits as among others */
        ck_assert_int_eq(pl_cuda_index_scores(
                             &view.gpu, &layout, q_gpu + (size_t)i * per_query,
                             w_gpu + (size_t)i * (size_t)n_heads, n_heads,
                             0.25F, n_gpu + i, 1, n_keys[i], one, (size_t)most,
                             NULL),
                         PL_OK);
        gpu_download(alone, one, (size_t)n_keys[i] * sizeof(*alone));
        ck_assert_mem_eq(alone, mine, (size_t)n_keys[i] * sizeof(*alone));
    }
}

START_TEST(scores_are_those_of_the_reference)
{
    static const int32_t heads[] = {32, 64, 4, 96, 40, 1};
    pl_rng_t rng                 = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 12; round++) {
        check_scores(&rng, (pl_kv_dtype_t)(round % 3), 128, heads[round % 6],
                     between(&rng, 1, 20), between(&rng, 1, 900));
        gpu_close();
        check_scores(&rng, (pl_kv_dtype_t)(round % 3), 24, heads[round % 6],
                     between(&rng, 1, 5), between(&rng, 1, 200));
        gpu_close();
    }
}
END_TEST

/* ---- top-k ---- */

/* Scores of a kind: spread out, with many ties, all equal, odd ones. */
static void fill_scores(pl_rng_t *rng, float *scores, int32_t n, int kind)
{
    static const float odd[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-44F};

    for (int32_t i = 0; i < n; i++) {
        switch (kind) {
        case 0:
            break;
        case 1:
            scores[i] = (float)between(rng, 0, 9);
            break;
        case 2:
            scores[i] = 1.5F;
            break;
        default:
            scores[i] = odd[between(rng, 0, 5)];
            break;
        }
    }
}

static void check_topk(pl_rng_t *rng, int32_t n, int32_t most, int32_t k,
                       int kind)
{
    size_t stride      = (size_t)most + (size_t)between(rng, 0, 5);
    float *scores      = host_floats(rng, (size_t)n * stride);
    uint32_t *scratch  = host_bytes((size_t)most * sizeof(*scratch));
    int32_t *want      = host_bytes((size_t)k * sizeof(*want));
    int32_t *got       = host_bytes((size_t)(n * k) * sizeof(*got));
    int32_t *n_keys    = host_bytes((size_t)n * sizeof(*n_keys));
    int32_t *n_taken   = host_bytes((size_t)n * sizeof(*n_taken));
    int32_t *positions = gpu_upload(NULL, (size_t)(n * k) * sizeof(*got));
    int32_t *taken     = gpu_upload(NULL, (size_t)n * sizeof(*taken));

    for (int32_t i = 0; i < n; i++) {
        n_keys[i] = i == 0 ? most : between(rng, 1, most);
        fill_scores(rng, scores + (size_t)i * stride, n_keys[i], kind);
    }
    ck_assert_int_eq(pl_cuda_topk(GPU_UPLOAD(scores, (size_t)n * stride),
                                  stride, GPU_UPLOAD(n_keys, n), n, most, k,
                                  positions, taken, NULL),
                     PL_OK);
    gpu_download(got, positions, (size_t)(n * k) * sizeof(*got));
    gpu_download(n_taken, taken, (size_t)n * sizeof(*n_taken));
    for (int32_t i = 0; i < n; i++) {
        int32_t count =
            pl_topk(scores + (size_t)i * stride, n_keys[i], k, scratch, want);

        ck_assert_int_eq(n_taken[i], count);
        ck_assert_mem_eq(got + (size_t)i * (size_t)k, want,
                         (size_t)count * sizeof(*want));
    }
}

START_TEST(the_k_best_are_exact)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 60; round++) {
        check_topk(&rng, between(&rng, 1, 12), between(&rng, 1, 30000),
                   between(&rng, 1, round % 2 == 0 ? 64 : PL_CUDA_TOPK_MAX),
                   round % 4);
        gpu_close();
    }
    check_topk(&rng, 3, 1 << 20, 2048, 0);
    gpu_close();
}
END_TEST

/* ---- attention ---- */

static void check_attend(pl_rng_t *rng, const pl_row_layout_t *layout,
                         int32_t n_heads, int32_t n, int32_t most, double close)
{
    int32_t n_rows = most + between(rng, 0, 300);
    both_t view    = make_latent(rng, layout, n_rows, between(rng, 1, 80));
    size_t latent  = (size_t)n_heads * (size_t)layout->kv_lora;
    size_t rope    = (size_t)n_heads * (size_t)layout->rope;
    float *q       = host_floats(rng, (size_t)n * latent);
    float *q_rope  = host_floats(rng, (size_t)n * rope);
    float *want    = host_bytes(latent * sizeof(*want));
    float *alone   = host_bytes(latent * sizeof(*alone));
    float *got     = host_bytes((size_t)n * latent * sizeof(*got));
    int32_t *n_of  = host_bytes((size_t)n * sizeof(*n_of));
    int32_t *at    = host_bytes((size_t)(n * most) * sizeof(*at));
    float *scratch = host_bytes(pl_attend_scratch(layout, n_heads, most) * 4);
    float *on_gpu  = gpu_upload(NULL, (size_t)n * latent * sizeof(*got));
    float *one     = gpu_upload(NULL, latent * sizeof(*got));
    float *q_gpu   = GPU_UPLOAD(q, (size_t)n * latent);
    float *r_gpu   = GPU_UPLOAD(q_rope, (size_t)n * rope);
    int32_t *at_gpu, *n_gpu;

    for (int32_t i = 0; i < n; i++) {
        int32_t skip = n_rows - most;

        n_of[i] = i == 0 ? most : between(rng, 1, most);
        for (int32_t k = 0, row = 0; k < n_of[i]; k++, row++) {
            for (; (skip > 0) && (between(rng, 0, 2) == 0); skip--) {
                row++;
            }
            at[(size_t)i * (size_t)most + (size_t)k] = row;
        }
    }
    at_gpu = GPU_UPLOAD(at, n * most);
    n_gpu  = GPU_UPLOAD(n_of, n);
    ck_assert_int_eq(pl_cuda_attend(&view.gpu, layout, q_gpu, r_gpu, n_heads,
                                    0.06F, at_gpu, n_gpu, n, most, on_gpu,
                                    NULL),
                     PL_OK);
    gpu_download(got, on_gpu, (size_t)n * latent * sizeof(*got));
    for (int32_t i = 0; i < n; i++) {
        const size_t mine = (size_t)i * latent;

        pl_attend(&view.host, layout, q + mine, q_rope + (size_t)i * rope,
                  n_heads, 0.06F, at + (size_t)i * (size_t)most, n_of[i],
                  scratch, want);
        ck_assert_double_lt(relative_error(got + mine, want, latent), close);
        ck_assert_int_eq(pl_cuda_attend(&view.gpu, layout, q_gpu + mine,
                                        r_gpu + (size_t)i * rope, n_heads,
                                        0.06F,
                                        at_gpu + (size_t)i * (size_t)most,
                                        n_gpu + i, 1, most, one, NULL),
                         PL_OK);
        gpu_download(alone, one, latent * sizeof(*alone));
        ck_assert_mem_eq(alone, got + mine, latent * sizeof(*alone));
    }
}

START_TEST(attention_is_that_of_the_reference)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 9; round++) {
        pl_kv_dtype_t dtype  = (pl_kv_dtype_t)(round % 3);
        pl_row_layout_t odd  = pl_row_layout_make(dtype, 130, 6, 16);
        pl_row_layout_t real = pl_row_layout_make(dtype, 512, 64, 128);

        check_attend(&rng, &odd, between(&rng, 1, 9), between(&rng, 1, 4),
                     between(&rng, 1, 300), 1e-5);
        gpu_close();
        check_attend(&rng, &real, round % 2 == 0 ? 64 : 128,
                     between(&rng, 1, 4), between(&rng, 1, 400),
                     dtype == PL_KV_F32 ? 1e-5 : 1e-2);
        gpu_close();
    }
}
END_TEST

static TCase *case_of(const char *name, const TTest *test)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test);
    return tc;
}

TCase *case_scores(void)
{
    return case_of("scores", scores_are_those_of_the_reference);
}

TCase *case_topk(void)
{
    return case_of("topk", the_k_best_are_exact);
}

TCase *case_attend(void)
{
    return case_of("attend", attention_is_that_of_the_reference);
}
