/* Norms, rotations, experts and digests beside the plain C versions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "model/ops.h"
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

START_TEST(norms_are_those_of_the_reference)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const int32_t n = between(&rng, 1, 40), width = between(&rng, 1, 3000);
        const size_t all = (size_t)n * (size_t)width;
        float *x         = host_floats(&rng, all);
        float *w         = host_floats(&rng, (size_t)width);
        float *bias      = host_floats(&rng, (size_t)width);
        float *want      = host_bytes(all * sizeof(*want));
        float *got       = host_bytes(all * sizeof(*got));
        float *on_gpu    = GPU_UPLOAD(x, all);
        float *w_gpu     = GPU_UPLOAD(w, width);
        pl_tensor_t w_t  = tensor_of(w, 1, width);
        pl_tensor_t b_t  = tensor_of(bias, 1, width);

        for (int32_t i = 0; i < n; i++) {
            pl_rms_norm(&w_t, 1e-5F, x + (size_t)i * (size_t)width,
                        want + (size_t)i * (size_t)width);
        }
        ck_assert_int_eq(pl_cuda_rms_norm(w_gpu, 1e-5F, on_gpu, (size_t)width,
                                          n, width, on_gpu, (size_t)width,
                                          NULL),
                         PL_OK);
        gpu_download(got, on_gpu, all * sizeof(*got));
        ck_assert_double_lt(relative_error(got, want, all), 1e-6);
        on_gpu = GPU_UPLOAD(x, all);
        for (int32_t i = 0; i < n; i++) {
            pl_layer_norm(&w_t, &b_t, x + (size_t)i * (size_t)width,
                          want + (size_t)i * (size_t)width);
        }
        ck_assert_int_eq(pl_cuda_layer_norm(w_gpu, GPU_UPLOAD(bias, width),
                                            on_gpu, n, width, NULL),
                         PL_OK);
        gpu_download(got, on_gpu, all * sizeof(*got));
        ck_assert_double_lt(relative_error(got, want, all), 1e-5);
        gpu_close();
    }
}
END_TEST

START_TEST(rotations_have_the_same_bits)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const int32_t n = between(&rng, 1, 30), heads = between(&rng, 1, 70);
        const int32_t dim  = 2 * between(&rng, 1, 40);
        const int32_t head = dim + between(&rng, 0, 9);
        const size_t row   = (size_t)heads * (size_t)head;
        const size_t all   = (size_t)n * row;
        float *x           = host_floats(&rng, all);
        float *cosines     = host_floats(&rng, (size_t)(n * dim / 2));
        float *sines       = host_floats(&rng, (size_t)(n * dim / 2));
        float *got         = host_bytes(all * sizeof(*got));
        float *on_gpu      = GPU_UPLOAD(x, all);
        bool interleaved   = round % 2 == 0;

        ck_assert_int_eq(pl_cuda_rope(on_gpu, row, n, heads, (size_t)head, dim,
                                      interleaved,
                                      GPU_UPLOAD(cosines, n * dim / 2),
                                      GPU_UPLOAD(sines, n * dim / 2), NULL),
                         PL_OK);
        gpu_download(got, on_gpu, all * sizeof(*got));
        for (int32_t i = 0; i < n * heads; i++) {
            size_t angle = (size_t)(i / heads) * (size_t)(dim / 2);
            float *at    = x + (size_t)i * (size_t)head;

            if (interleaved) {
                pl_rope_interleaved(at, dim, cosines + angle, sines + angle);
            } else {
                pl_rope_half_split(at, dim, cosines + angle, sines + angle);
            }
        }
        ck_assert_mem_eq(got, x, all * sizeof(*got));
        gpu_close();
    }
}
END_TEST

START_TEST(silu_is_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));
    enum { N = 10007 };
    float *gate   = host_floats(&rng, N);
    float *up     = host_floats(&rng, N);
    float *got    = host_bytes(N * sizeof(*got));
    float *on_gpu = GPU_UPLOAD(gate, N);

    ck_assert_int_eq(pl_cuda_silu_product(on_gpu, GPU_UPLOAD(up, N), N, NULL),
                     PL_OK);
    gpu_download(got, on_gpu, N * sizeof(*got));
    for (int i = 0; i < N; i++) {
        double want = gate[i] / (1.0 + exp(-(double)gate[i])) * up[i];

        ck_assert_double_lt(fabs(got[i] - want), 1e-6);
    }
    gpu_close();
}
END_TEST

/* A router whose logits are its input: the identity. */
static void check_route(pl_rng_t *rng, int32_t group_size, int32_t n_group)
{
    pl_model_config_t *config = host_bytes(sizeof(*config));
    const int32_t n_experts   = group_size * n_group;
    const int32_t n           = between(rng, 1, 50);
    const int32_t topk_group  = between(rng, 1, n_group);
    const int32_t k =
        between(rng, 1, topk_group * group_size < 16 ? topk_group * group_size
                                                     : 16);
    float *identity = host_bytes((size_t)(n_experts * n_experts) * 4);
    float *bias     = host_floats(rng, (size_t)n_experts);
    float *logits   = host_floats(rng, (size_t)(n * n_experts));
    float *scratch  = host_bytes((size_t)(4 * n_experts) * 4);
    int32_t *want   = host_bytes((size_t)k * 4);
    float *shares   = host_bytes((size_t)k * 4);
    int32_t *got    = host_bytes((size_t)(n * k) * 4);
    float *weights  = host_bytes((size_t)(n * k) * 4);
    int32_t *chosen = gpu_upload(NULL, (size_t)(n * k) * 4);
    float *weighed  = gpu_upload(NULL, (size_t)(n * k) * 4);
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
    of_gpu = (pl_cuda_router_t){n_experts,  k, n_group,
                                topk_group, config->norm_topk, 2.5F};
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
    const size_t page =
        (size_t)form.page_tokens * pl_row_bytes(&form);
    const size_t stride = (page + 15) / 16 * 16;
    const uint64_t base = pl_digest_base(3, 1);
    uint8_t *pages      = host_bytes(stride * SLOTS);
    int32_t *order      = host_order(rng, SLOTS);
    pl_cuda_digest_t what[SLOTS];
    uint64_t got[SLOTS];
    uint64_t *on_gpu = gpu_upload(NULL, sizeof(got));

    for (size_t i = 0; i < stride * SLOTS; i++) {
        pages[i] = (uint8_t)pl_rng_next(rng);
    }
    for (int i = 0; i < SLOTS; i++) {
        what[i] = (pl_cuda_digest_t){order[i], between(rng, 0, form.page_tokens),
                                     between(rng, 0, 1 << 30)};
    }
    ck_assert_int_eq(pl_cuda_digest_pages(&form,
                                          gpu_upload(pages, stride * SLOTS),
                                          stride,
                                          gpu_upload(what, sizeof(what)), SLOTS,
                                          base, on_gpu, NULL),
                     PL_OK);
    gpu_download(got, on_gpu, sizeof(got));
    for (int i = 0; i < SLOTS; i++) {
        ck_assert_uint_eq(got[i],
                          pl_digest_rows(&form,
                                         pages + (size_t)what[i].slot * stride,
                                         0, what[i].rows, what[i].position,
                                         base));
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
    tcase_add_test(tc, rotations_have_the_same_bits);
    tcase_add_test(tc, silu_is_close);
    tcase_add_test(tc, tokens_go_to_the_same_experts);
    tcase_add_test(tc, pairs_are_sorted_stably);
    tcase_add_test(tc, digests_are_those_of_the_reference);
    return tc;
}
