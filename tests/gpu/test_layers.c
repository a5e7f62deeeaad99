/* Norms, rotations, experts and digests beside the plain C versions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/rows.h"
#include "device/device.h"
#include "forward_rows.cuh"
#include "gpu.h"
#include "model/ops.h"
#include "model/transformer.h"
#include "support/seed.h"

static pl_tensor_t tensor_of(const float *values, int32_t rows, int32_t cols)
{
    pl_tensor_t tensor = {0};

    tensor.dtype = PL_F32;
    tensor.rows  = rows;
    tensor.cols  = cols;
    tensor.bytes = values;
    return tensor;
}

/* What came, float32 or bf16, is what was wanted but for rounding. */
static void check_values(const void *got, pl_cuda_dtype_t dtype,
                         const float *want, size_t n, double bound)
{
    const uint16_t *halves = got;
    float *values          = host_bytes(n * sizeof(*values));

    if (dtype == PL_CUDA_F32) {
        memcpy(values, got, n * sizeof(*values));
    } else {
        bound += 0x1p-9; /* half a unit of bf16's last place */
        for (size_t i = 0; i < n; i++) {
            values[i] = pl_bf16_to_f32(halves[i]);
        }
    }
    ck_assert_double_lt(relative_error(values, want, n), bound);
}

START_TEST(norms_are_those_of_the_reference)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const pl_cuda_dtype_t dtype =
            round % 2 == 0 ? PL_CUDA_F32 : PL_CUDA_BF16;
        const int32_t n = between(&rng, 1, 40), width = between(&rng, 1, 3000);
        const size_t all   = (size_t)n * (size_t)width;
        const size_t bytes = all * (dtype == PL_CUDA_F32 ? 4 : 2);
        float *x           = host_floats(&rng, all);
        float *w           = host_floats(&rng, (size_t)width);
        float *want        = host_bytes(all * sizeof(*want));
        void *got          = host_bytes(bytes);
        float *also        = host_bytes(all * sizeof(*also));
        void *on_gpu       = gpu_upload(NULL, bytes);
        float *also_gpu    = gpu_upload(NULL, all * sizeof(*also));
        pl_tensor_t w_t    = tensor_of(w, 1, width);

        for (int32_t i = 0; i < n; i++) {
            pl_rms_norm(&w_t, 1e-5F, x + (size_t)i * (size_t)width,
                        want + (size_t)i * (size_t)width);
        }
        ck_assert_int_eq(pl_rows_norm(GPU_UPLOAD(w, width), 1e-5F,
                                      GPU_UPLOAD(x, all), (size_t)width, n,
                                      width, on_gpu, dtype, (size_t)width,
                                      also_gpu, NULL),
                         PL_OK);
        gpu_download(got, on_gpu, bytes);
        gpu_download(also, also_gpu, all * sizeof(*also));
        check_values(got, dtype, want, all, 1e-6);
        check_values(also, PL_CUDA_F32, want, all, 1e-6);
        gpu_close();
    }
}
END_TEST

static void rotate(float *x, int32_t dim, bool interleaved,
                   const float *cosines, const float *sines)
{
    if (interleaved) {
        pl_rope_interleaved(x, dim, cosines, sines);
    } else {
        pl_rope_half_split(x, dim, cosines, sines);
    }
}

/* Rows of random widths, every other time with half-split rotations. */
static pl_rows_in_t random_form(pl_rng_t *rng, int round)
{
    pl_rows_in_t form = {.q_lora      = between(rng, 1, 300),
                         .kv_lora     = between(rng, 1, 600),
                         .rope        = 2 * between(rng, 1, 40),
                         .index_heads = between(rng, 1, 40),
                         .has_index   = true,
                         .interleaved = round % 2 == 0};

    form.index_dim = form.rope + between(rng, 16, 70);
    form.width     = form.q_lora + form.kv_lora + form.rope + form.index_dim +
                 form.index_heads;
    return form;
}

static void check_stored(const pl_rows_in_t *form, const float *in,
                         const float *const *norms, const float *cosines,
                         const float *sines, const float *kv, const float *key)
{
    pl_tensor_t kv_a  = tensor_of(norms[0], 1, form->kv_lora);
    pl_tensor_t w     = tensor_of(norms[1], 1, form->index_dim);
    pl_tensor_t bias  = tensor_of(norms[2], 1, form->index_dim);
    const size_t rope = (size_t)form->rope, keys = (size_t)form->index_dim;
    const float *from = in + form->q_lora;
    float *want =
        host_bytes(((size_t)form->kv_lora + rope + keys) * sizeof(*want));
    float *want_rope = want + form->kv_lora, *want_key = want_rope + rope;

    pl_rms_norm(&kv_a, 1e-5F, from, want);
    ck_assert_double_lt(relative_error(kv, want, (size_t)form->kv_lora), 1e-6);
    memcpy(want_rope, from + form->kv_lora, rope * sizeof(*want));
    pl_rope_interleaved(want_rope, form->rope, cosines, sines);
    ck_assert_mem_eq(kv + form->kv_lora, want_rope, rope * sizeof(*want));
    pl_layer_norm(&w, &bias, from + form->kv_lora + form->rope, want_key);
    rotate(want_key, form->rope, form->interleaved, cosines, sines);
    ck_assert_double_lt(relative_error(key, want_key, keys), 1e-5);
}

START_TEST(rows_to_store_are_normed_and_rotated)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const pl_rows_in_t form = random_form(&rng, round);
        const int32_t n         = between(&rng, 1, 30);
        const size_t width = (size_t)form.width, rows = (size_t)n;
        const size_t wide           = (size_t)(form.kv_lora + form.rope);
        const size_t half           = (size_t)form.rope / 2;
        const size_t keys           = (size_t)form.index_dim;
        float *in                   = host_floats(&rng, rows * width);
        float *cosines              = host_floats(&rng, rows * half);
        float *sines                = host_floats(&rng, rows * half);
        const float *weights[]      = {host_floats(&rng, (size_t)form.kv_lora),
                                       host_floats(&rng, keys),
                                       host_floats(&rng, keys)};
        const pl_rows_norms_t norms = {GPU_UPLOAD(weights[0], form.kv_lora),
                                       1e-5F, GPU_UPLOAD(weights[1], keys),
                                       GPU_UPLOAD(weights[2], keys)};
        float *kv                   = host_bytes(rows * wide * sizeof(*kv));
        float *key                  = host_bytes(rows * keys * sizeof(*key));
        float *kv_gpu  = gpu_upload(NULL, rows * wide * sizeof(*kv));
        float *key_gpu = gpu_upload(NULL, rows * keys * sizeof(*key));

        ck_assert_int_eq(pl_rows_to_store(&form, &norms,
                                          GPU_UPLOAD(in, rows * width), n,
                                          GPU_UPLOAD(cosines, rows * half),
                                          GPU_UPLOAD(sines, rows * half),
                                          kv_gpu, key_gpu, NULL),
                         PL_OK);
        gpu_download(kv, kv_gpu, rows * wide * sizeof(*kv));
        gpu_download(key, key_gpu, rows * keys * sizeof(*key));
        for (size_t i = 0; i < rows; i++) {
            check_stored(&form, in + i * width, weights, cosines + i * half,
                         sines + i * half, kv + i * wide, key + i * keys);
        }
        gpu_close();
    }
}
END_TEST

typedef struct queries {
    int32_t n, heads, nope;
    size_t nope_stride;
    pl_cuda_dtype_t dtype;
    float *q, *in, *index_q, *cosines, *sines; /* what is asked of */
    uint8_t *q_nope;
    float *q_rope, *got_index, *weights; /* what came */
} queries_t;

static void take_queries(const pl_rows_in_t *form, queries_t *of)
{
    const size_t rows = (size_t)of->n, all = rows * (size_t)of->heads;
    const size_t item               = of->dtype == PL_CUDA_F32 ? 4 : 2;
    const size_t wide               = (size_t)(of->nope + form->rope);
    const size_t heads              = rows * (size_t)form->index_heads;
    const size_t half               = rows * (size_t)form->rope / 2;
    const size_t nope               = all * of->nope_stride * item;
    const size_t rope               = all * (size_t)form->rope * sizeof(float);
    const size_t index              = heads * (size_t)form->index_dim;
    const pl_rows_queries_t queries = {
        .heads         = of->heads,
        .nope          = of->nope,
        .nope_stride   = of->nope_stride,
        .q             = GPU_UPLOAD(of->q, all * wide),
        .in            = GPU_UPLOAD(of->in, rows * (size_t)form->width),
        .q_nope        = gpu_upload(NULL, nope),
        .q_rope        = gpu_upload(NULL, rope),
        .index_q       = GPU_UPLOAD(of->index_q, index),
        .index_weights = gpu_upload(NULL, heads * sizeof(float)),
        .index_scale   = 0.3F};

    ck_assert_int_eq(pl_rows_part_queries(form, &queries, of->dtype, of->n,
                                          GPU_UPLOAD(of->cosines, half),
                                          GPU_UPLOAD(of->sines, half), NULL),
                     PL_OK);
    of->q_nope    = host_bytes(nope);
    of->q_rope    = host_bytes(rope);
    of->got_index = host_bytes(index * sizeof(float));
    of->weights   = host_bytes(heads * sizeof(float));
    gpu_download(of->q_nope, queries.q_nope, nope);
    gpu_download(of->q_rope, queries.q_rope, rope);
    gpu_download(of->got_index, queries.index_q, index * sizeof(float));
    gpu_download(of->weights, queries.index_weights, heads * sizeof(float));
}

/* Head h of token i of attention: the bits of what was there. */
static void check_query(const pl_rows_in_t *form, const queries_t *of,
                        int32_t i, int32_t h)
{
    const size_t at   = (size_t)(i * of->heads + h);
    const size_t rope = (size_t)form->rope, half = rope / 2;
    const size_t item  = of->dtype == PL_CUDA_F32 ? 4 : 2;
    const uint8_t *got = of->q_nope + at * of->nope_stride * item;
    float *q           = of->q + at * ((size_t)of->nope + rope);

    for (int32_t c = 0; c < of->nope; c++) {
        uint16_t rounded = pl_bf16_from_f32(q[c]);
        const void *want = item == 4 ? (const void *)&q[c] : &rounded;

        ck_assert_mem_eq(got + (size_t)c * item, want, item);
    }
    pl_rope_interleaved(q + of->nope, form->rope,
                        of->cosines + (size_t)i * half,
                        of->sines + (size_t)i * half);
    ck_assert_mem_eq(of->q_rope + at * rope, q + of->nope,
                     rope * sizeof(float));
}

static void check_index_query(const pl_rows_in_t *form, const queries_t *of,
                              int32_t i, int32_t h)
{
    const size_t at   = (size_t)(i * form->index_heads + h);
    const size_t half = (size_t)form->rope / 2;
    float *q          = of->index_q + at * (size_t)form->index_dim;
    float weight      = of->in[(size_t)(i + 1) * (size_t)form->width -
                          (size_t)(form->index_heads - h)];

    rotate(q, form->rope, form->interleaved, of->cosines + (size_t)i * half,
           of->sines + (size_t)i * half);
    ck_assert_mem_eq(of->got_index + at * (size_t)form->index_dim, q,
                     (size_t)form->index_dim * sizeof(float));
    ck_assert(of->weights[at] == weight * 0.3F);
}

START_TEST(queries_are_parted_and_rotated)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const pl_rows_in_t form = random_form(&rng, round);
        queries_t of            = {.n     = between(&rng, 1, 20),
                                   .heads = between(&rng, 1, 70),
                                   .nope  = between(&rng, 1, 130),
                                   .dtype = round % 4 < 2 ? PL_CUDA_F32 : PL_CUDA_BF16};
        const size_t rows = (size_t)of.n, half = (size_t)form.rope / 2;

        of.nope_stride = (size_t)(of.nope + between(&rng, 0, 7));
        of.q           = host_floats(&rng, rows * (size_t)of.heads *
                                               (size_t)(of.nope + form.rope));
        of.in          = host_floats(&rng, rows * (size_t)form.width);
        of.index_q     = host_floats(&rng, rows * (size_t)form.index_heads *
                                               (size_t)form.index_dim);
        of.cosines     = host_floats(&rng, rows * half);
        of.sines       = host_floats(&rng, rows * half);
        take_queries(&form, &of);
        for (int32_t i = 0; i < of.n; i++) {
            for (int32_t h = 0; h < of.heads; h++) {
                check_query(&form, &of, i, h);
            }
            for (int32_t h = 0; h < form.index_heads; h++) {
                check_index_query(&form, &of, i, h);
            }
        }
        gpu_close();
    }
}
END_TEST

START_TEST(silu_is_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));
    enum { N = 7, WIDTH = 1009 };
    float *gate_up = host_floats(&rng, (size_t)N * 2 * WIDTH);
    float *got     = host_bytes((size_t)N * WIDTH * sizeof(*got));
    float *on_gpu  = gpu_upload(NULL, (size_t)N * WIDTH * sizeof(*got));

    ck_assert_int_eq(pl_rows_silu(GPU_UPLOAD(gate_up, N * 2 * WIDTH), N, WIDTH,
                                  on_gpu, PL_CUDA_F32, WIDTH, NULL),
                     PL_OK);
    gpu_download(got, on_gpu, (size_t)N * WIDTH * sizeof(*got));
    for (int i = 0; i < N * WIDTH; i++) {
        const float *gate = gate_up + i / WIDTH * 2 * WIDTH + i % WIDTH;
        double want = gate[0] / (1.0 + exp(-(double)gate[0])) * gate[WIDTH];

        ck_assert_double_lt(fabs(got[i] - want), 1e-6);
    }
    gpu_close();
}
END_TEST

/* Of equals the lowest id; never NaN or -inf, and 0 if there is nothing else.
 */
START_TEST(the_greedy_token_is_that_of_the_reference)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 60; round++) {
        const int32_t n    = between(&rng, 1, round % 2 == 0 ? 5000 : 40);
        const int32_t most = between(&rng, 0, 3); /* many equals */
        float *logits      = host_bytes((size_t)n * sizeof(*logits));
        int32_t *on_gpu    = gpu_upload(NULL, sizeof(*on_gpu));
        int32_t got        = -1;

        for (int32_t i = 0; i < n; i++) {
            const int32_t value = between(&rng, -2, most);

            logits[i] = value == -2   ? NAN
                        : value == -1 ? -INFINITY
                                      : (float)value;
        }
        if (round % 10 == 9) {
            for (int32_t i = 0; i < n; i++) {
                logits[i] = i % 2 == 0 ? NAN : -INFINITY;
            }
        }
        ck_assert_int_eq(pl_rows_greedy(GPU_UPLOAD(logits, n), n, on_gpu, NULL),
                         PL_OK);
        gpu_download(&got, on_gpu, sizeof(got));
        ck_assert_int_eq(got, pl_greedy(logits, n));
        gpu_close();
    }
}
END_TEST

/* A router whose logits are its input: the identity. */
static void check_route(pl_rng_t *rng, int32_t group_size, int32_t n_group)
{
    pl_model_config_t *config = host_bytes(sizeof(*config));
    const int32_t n_experts   = group_size * n_group;
    const int32_t n           = between(rng, 1, 50);
    const int32_t topk_group  = between(rng, 1, n_group);
    const int32_t k           = between(
                  rng, 1, topk_group * group_size < 16 ? topk_group * group_size : 16);
    float *identity    = host_bytes((size_t)(n_experts * n_experts) * 4);
    float *bias        = host_floats(rng, (size_t)n_experts);
    float *logits      = host_floats(rng, (size_t)(n * n_experts));
    float *scratch     = host_bytes((size_t)(4 * n_experts) * 4);
    int32_t *want      = host_bytes((size_t)k * 4);
    float *shares      = host_bytes((size_t)k * 4);
    int32_t *got       = host_bytes((size_t)(n * k) * 4);
    float *weights     = host_bytes((size_t)(n * k) * 4);
    int32_t *chosen    = gpu_upload(NULL, (size_t)(n * k) * 4);
    float *weighed     = gpu_upload(NULL, (size_t)(n * k) * 4);
    pl_tensor_t router = tensor_of(identity, n_experts, n_experts);
    pl_tensor_t offset = tensor_of(bias, 1, n_experts);
    pl_cuda_router_t of_gpu;

    for (int32_t e = 0; e < n_experts; e++) {
        identity[e * n_experts + e] = 1.0F;
    }
    config->hidden            = n_experts;
    config->n_experts         = n_experts;
    config->experts_per_token = k;
    config->n_group           = n_group;
    config->topk_group        = topk_group;
    config->norm_topk         = between(rng, 0, 1) == 1;
    config->routed_scale      = 2.5F;
    of_gpu = (pl_cuda_router_t){n_experts,         k,   n_group, topk_group,
                                config->norm_topk, 2.5F};
    ck_assert_int_eq(pl_cuda_route(&of_gpu, GPU_UPLOAD(logits, n * n_experts),
                                   GPU_UPLOAD(bias, n_experts), n, chosen,
                                   weighed, NULL),
                     PL_OK);
    gpu_download(got, chosen, (size_t)(n * k) * 4);
    gpu_download(weights, weighed, (size_t)(n * k) * 4);
    for (int32_t i = 0; i < n; i++) {
        pl_route(config, &router, &offset, logits + (size_t)(i * n_experts),
                 scratch, want, shares);
        ck_assert_mem_eq(got + (size_t)(i * k), want, (size_t)k * 4);
        ck_assert_double_lt(
            relative_error(weights + (size_t)(i * k), shares, (size_t)k), 1e-6);
    }
}

START_TEST(tokens_go_to_the_same_experts)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 30; round++) {
        check_route(&rng, between(&rng, 1, 40),
                    round % 3 == 0 ? 1 : between(&rng, 2, 8));
        gpu_close();
    }
}
END_TEST

START_TEST(pairs_are_sorted_stably)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 30; round++) {
        const int32_t n         = between(&rng, 0, 20000);
        const int32_t n_experts = between(&rng, 1, round == 0 ? 1024 : 300);
        const size_t bytes      = (size_t)n * sizeof(int32_t);
        const size_t ends       = ((size_t)n_experts + 1) * sizeof(int32_t);
        int32_t *experts        = host_bytes(bytes);
        int32_t *order = host_bytes(bytes), *starts = host_bytes(ends);
        int32_t *got = host_bytes(bytes), *got_starts = host_bytes(ends);
        int32_t *order_gpu  = gpu_upload(NULL, bytes);
        int32_t *starts_gpu = gpu_upload(NULL, ends);
        int32_t *scratch    = gpu_upload(
               NULL, (size_t)pl_cuda_expert_sort_scratch(n, n_experts) * 4);

        for (int32_t i = 0; i < n; i++) {
            experts[i] = between(&rng, 0, n_experts - 1);
        }
        pl_expert_sort(experts, n, n_experts, order, starts);
        ck_assert_int_eq(pl_cuda_expert_sort(GPU_UPLOAD(experts, n), n,
                                             n_experts, order_gpu, starts_gpu,
                                             scratch, NULL),
                         PL_OK);
        gpu_download(got, order_gpu, bytes);
        gpu_download(got_starts, starts_gpu, ends);
        ck_assert_mem_eq(got_starts, starts, ends);
        if (n > 0) {
            ck_assert_mem_eq(got, order, bytes);
        }
        gpu_close();
    }
}
END_TEST

static void check_digests(pl_rng_t *rng, pl_page_form_t form)
{
    enum { SLOTS = 9 };
    const size_t page   = (size_t)form.page_tokens * pl_row_bytes(&form);
    const size_t stride = (page + 15) / 16 * 16;
    uint8_t *pages      = host_bytes(stride * SLOTS);
    int32_t *order      = host_order(rng, SLOTS);
    pl_digest_job_t jobs[SLOTS], on_host[SLOTS];
    uint64_t got[SLOTS];
    uint64_t *on_gpu = gpu_upload(NULL, sizeof(got));
    const uint8_t *pages_gpu;

    for (size_t i = 0; i < stride * SLOTS; i++) {
        pages[i] = (uint8_t)pl_rng_next(rng);
    }
    pages_gpu = gpu_upload(pages, stride * SLOTS);
    for (int i = 0; i < SLOTS; i++) {
        const int32_t first = between(rng, 0, form.page_tokens);
        const size_t at     = (size_t)order[i] * stride;

        on_host[i] =
            (pl_digest_job_t){.page  = pages + at,
                              .form  = form,
                              .first = first,
                              .rows = between(rng, 0, form.page_tokens - first),
                              .position = between(rng, 0, 1 << 30),
                              .base     = pl_digest_base(3, i % 2)};
        jobs[i]      = on_host[i];
        jobs[i].page = pages_gpu + at;
    }
    ck_assert_int_eq(pl_cuda_digest_jobs(gpu_upload(jobs, sizeof(jobs)), SLOTS,
                                         on_gpu, NULL),
                     PL_OK);
    gpu_download(got, on_gpu, sizeof(got));
    for (int i = 0; i < SLOTS; i++) {
        const pl_digest_job_t *job = &on_host[i];

        ck_assert_uint_eq(got[i],
                          pl_digest_rows(&form, job->page, job->first,
                                         job->rows, job->position, job->base));
    }
}

START_TEST(digests_are_those_of_the_reference)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int32_t bytes = 1; bytes < 300; bytes++) { /* each way of the hash */
        check_digests(&rng, (pl_page_form_t){between(&rng, 1, 70), bytes, 0});
        check_digests(&rng, (pl_page_form_t){between(&rng, 1, 70), bytes, 4});
        gpu_close();
    }
    for (int round = 0; round < 30; round++) {
        check_digests(&rng, (pl_page_form_t){between(&rng, 1, 70),
                                             between(&rng, 300, 9000), 0});
        gpu_close();
    }
}
END_TEST

TCase *case_layers(void)
{
    TCase *tc = tcase_create("layers");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, norms_are_those_of_the_reference);
    tcase_add_test(tc, rows_to_store_are_normed_and_rotated);
    tcase_add_test(tc, queries_are_parted_and_rotated);
    tcase_add_test(tc, silu_is_close);
    tcase_add_test(tc, the_greedy_token_is_that_of_the_reference);
    tcase_add_test(tc, tokens_go_to_the_same_experts);
    tcase_add_test(tc, pairs_are_sorted_stably);
    tcase_add_test(tc, digests_are_those_of_the_reference);
    return tc;
}
