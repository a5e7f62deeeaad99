/* Every vector width gives the bits of the loops that kernels.h describes. */
#include "test_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kernels.h"
#include "attn/rows.h"
#include "sample.h"
#include "support/seed.h"

#define EACH_WIDTH(kernels)                                                    \
    for (int width_ = 0; ((kernels) = pl_kernels_at(width_)) != NULL; width_++)

START_TEST(product_sums_in_order)
{
    uint64_t seed = pl_test_seed("product_sums_in_order");
    pl_rng_t rng  = pl_rng_seed(seed);
    const pl_kernels_t *kernels;

    for (int round = 0; round < 400; round++) {
        int32_t m       = sample_between(&rng, 1, 21);
        int32_t k       = sample_between(&rng, 1, PL_DEPTH);
        int32_t columns = sample_between(&rng, 1, PL_LANES);
        size_t x_stride = (size_t)sample_between(&rng, k, k + 9);
        size_t p_stride = (size_t)sample_between(&rng, PL_LANES, 40);
        size_t y_stride = (size_t)sample_between(&rng, columns, columns + 9);
        float *x        = sample_values(&rng, (size_t)m * x_stride);
        float *panel    = sample_values(&rng, (size_t)k * p_stride);
        float *before   = sample_values(&rng, (size_t)m * y_stride);
        size_t bytes    = (size_t)m * y_stride * sizeof(float);
        float *want     = malloc(bytes);
        float *y        = malloc(bytes);

        memcpy(want, before, bytes);
        for (int32_t i = 0; i < m; i++) {
            for (int32_t c = 0; c < columns; c++) {
                float *to = &want[(size_t)i * y_stride + (size_t)c];
                float sum = 0.0F;

                for (int32_t t = 0; t < k; t++) {
                    float part = panel[(size_t)t * p_stride + (size_t)c] *
                                 x[(size_t)i * x_stride + (size_t)t];

                    sum += part;
                }
                *to = round % 2 == 0 ? *to + sum : sum;
            }
        }
        EACH_WIDTH(kernels)
        {
            memcpy(y, before, bytes);
            kernels->product(x, x_stride, m, panel, p_stride, k, y, y_stride,
                             columns, round % 2 == 0);
            ck_assert_msg(memcmp(y, want, bytes) == 0, "%s: m %d k %d",
                          kernels->name, m, k);
        }
        free(x);
        free(panel);
        free(before);
        free(want);
        free(y);
    }
}
END_TEST

START_TEST(pack_transposes)
{
    uint64_t seed = pl_test_seed("pack_transposes");
    pl_rng_t rng  = pl_rng_seed(seed);
    const pl_kernels_t *kernels;
    float panel[40 * PL_LANES + 1];

    for (int32_t k = 1; k <= 40; k++) {
        int32_t first = sample_between(&rng, 0, 5);
        const void *rows[PL_LANES];
        float *values[PL_LANES];

        for (int j = 0; j < PL_LANES; j++) {
            values[j] = sample_values(&rng, (size_t)(first + k));
            rows[j]   = values[j];
        }
        EACH_WIDTH(kernels)
        {
            panel[k * PL_LANES] = 7.0F;
            kernels->pack(rows, first, k, panel);
            for (int32_t i = 0; i < k * PL_LANES; i++) {
                ck_assert(panel[i] ==
                          values[i % PL_LANES][first + i / PL_LANES]);
            }
            ck_assert(panel[k * PL_LANES] == 7.0F);
        }
        for (int j = 0; j < PL_LANES; j++) {
            free(values[j]);
        }
    }
}
END_TEST

/* All codes, at an odd address. */
START_TEST(conversions_are_those_of_one_value)
{
    static uint8_t bytes[2 * 65536 + 1];
    static float out[65536];
    const pl_kernels_t *kernels;
    uint16_t bits;

    for (uint32_t i = 0; i < 65536; i++) {
        bits = (uint16_t)i;
        memcpy(bytes + 1 + 2 * (size_t)i, &bits, sizeof(bits));
    }
    EACH_WIDTH(kernels)
    {
        kernels->from_bf16(bytes + 1, 65536, out);
        for (uint32_t i = 0; i < 65536; i++) {
            float want = pl_bf16_to_f32((uint16_t)i);

            ck_assert_mem_eq(&out[i], &want, sizeof(want));
        }
        kernels->from_f16(bytes + 1, 65536, out);
        for (uint32_t i = 0; i < 65536; i++) {
            float want = pl_f16_to_f32((uint16_t)i);

            ck_assert_mem_eq(&out[i], &want, sizeof(want));
        }
        kernels->from_e4m3(bytes, 65536, 0.3F, out);
        for (uint32_t i = 0; i < 65536; i++) {
            float want = pl_e4m3_to_f32(bytes[i]) * 0.3F;

            ck_assert(isnan(want) ? isnan(out[i]) : out[i] == want);
        }
    }
}
END_TEST

START_TEST(relu_comes_before_the_weight)
{
    uint64_t seed = pl_test_seed("relu_comes_before_the_weight");
    pl_rng_t rng  = pl_rng_seed(seed);
    const pl_kernels_t *kernels;

    for (int32_t heads = 1; heads <= 40; heads++) {
        float *products = sample_values(&rng, (size_t)heads * PL_LANES);
        float *weights  = sample_values(&rng, (size_t)heads);
        float *before   = sample_values(&rng, PL_LANES);
        float got[PL_LANES];

        EACH_WIDTH(kernels)
        {
            memcpy(got, before, sizeof(got));
            kernels->relu_sum(products, weights, heads, 0.7F, got);
            for (int32_t c = 0; c < PL_LANES; c++) {
                float want = before[c];

                for (int32_t h = 0; h < heads; h++) {
                    float value = products[h * PL_LANES + c] * 0.7F;

                    value = (value > 0.0F ? value : 0.0F) * weights[h];
                    want += value;
                }
                ck_assert(got[c] == want);
            }
        }
        free(products);
        free(weights);
        free(before);
    }
}
END_TEST

START_TEST(a_score_of_nan_stays_nan)
{
    float products[PL_LANES] = {[3] = NAN};
    float weight             = 1.0F;
    const pl_kernels_t *kernels;

    EACH_WIDTH(kernels)
    {
        float got[PL_LANES] = {0};

        kernels->relu_sum(products, &weight, 1, 1.0F, got);
        for (int c = 0; c < PL_LANES; c++) {
            ck_assert(c == 3 ? isnan(got[c]) : got[c] == 0.0F);
        }
    }
}
END_TEST

/* The same partial sums whatever the width, and close to the sum. */
START_TEST(sums_have_fixed_partial_sums)
{
    uint64_t seed = pl_test_seed("sums_have_fixed_partial_sums");
    pl_rng_t rng  = pl_rng_seed(seed);
    const pl_kernels_t *kernels;

    for (int32_t n = 1; n <= 150; n++) {
        float *x                 = sample_values(&rng, (size_t)n);
        float shift              = sample_value(&rng);
        float lanes[2][PL_LANES] = {{0}};
        double sum = 0.0, squares = 0.0;

        for (int32_t i = 0; i < n; i++) {
            float value  = x[i] - shift;
            float square = value * value;

            lanes[0][i % PL_LANES] += value;
            lanes[1][i % PL_LANES] += square;
            sum += (double)x[i] - (double)shift;
            squares +=
                ((double)x[i] - (double)shift) * ((double)x[i] - (double)shift);
        }
        for (int half = PL_LANES / 2; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) {
                lanes[0][i] += lanes[0][i + half];
                lanes[1][i] += lanes[1][i + half];
            }
        }
        ck_assert(fabs((double)lanes[0][0] - sum) < 5e-5);
        ck_assert(fabs((double)lanes[1][0] - squares) < 1e-6 * squares + 1e-6);
        EACH_WIDTH(kernels)
        {
            ck_assert(kernels->sum(x, n, shift) == lanes[0][0]);
            ck_assert(kernels->square_sum(x, n, shift) == lanes[1][0]);
        }
        free(x);
    }
}
END_TEST

START_TEST(softmax_is_one_in_all)
{
    uint64_t seed = pl_test_seed("softmax_is_one_in_all");
    pl_rng_t rng  = pl_rng_seed(seed);
    const pl_kernels_t *kernels;

    for (int32_t n = 1; n <= 70; n++) {
        float *x     = sample_values(&rng, (size_t)n);
        size_t bytes = (size_t)n * sizeof(*x);
        float *first = malloc(bytes);
        float *got   = malloc(bytes);
        double most = -INFINITY, all = 0.0;

        for (int32_t i = 0; i < n; i++) {
            x[i] *= n % 3 == 0 ? 300.0F : 5.0F;
            most = fmax(most, (double)x[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            all += exp((double)x[i] - most);
        }
        EACH_WIDTH(kernels)
        {
            memcpy(got, x, bytes);
            kernels->softmax(got, n);
            memcpy(width_ == 0 ? first : got, got, width_ == 0 ? bytes : 0);
            ck_assert_mem_eq(got, first, bytes);
        }
        for (int32_t i = 0; i < n; i++) {
            double below = most - (double)x[i]; /* itself rounded */
            double want  = exp(-below) / all;

            ck_assert(fabs((double)first[i] - want) <
                      (1e-6 + 1e-7 * below) * want + 1e-37);
        }
        free(x);
        free(first);
        free(got);
    }
}
END_TEST

START_TEST(silu_from_end_to_end)
{
    const pl_kernels_t *kernels;
    float gate[4001], up[4001], first[4001];

    EACH_WIDTH(kernels)
    {
        for (int i = 0; i <= 4000; i++) {
            gate[i] = (float)(i - 2000) * 0.1F;
            up[i]   = 1.5F;
        }
        kernels->silu_product(gate, up, 4001);
        if (width_ == 0) {
            memcpy(first, gate, sizeof(gate));
        }
        ck_assert_mem_eq(gate, first, sizeof(gate));
    }
    for (int i = 0; i <= 4000; i++) {
        double x    = (double)((float)(i - 2000) * 0.1F);
        double want = x / (1.0 + exp(-x)) * 1.5;

        /* below -88, e^-x is infinite in float32 */
        ck_assert_msg(fabs((double)first[i] - want) < 3e-7 * fabs(want) + 1e-36,
                      "silu(%g) * 1.5 = %g, not %g", x, (double)first[i], want);
    }
}
END_TEST

TCase *kernels_case(void)
{
    TCase *tcase = tcase_create("kernels");

    tcase_add_test(tcase, product_sums_in_order);
    tcase_add_test(tcase, pack_transposes);
    tcase_add_test(tcase, conversions_are_those_of_one_value);
    tcase_add_test(tcase, relu_comes_before_the_weight);
    tcase_add_test(tcase, a_score_of_nan_stays_nan);
    tcase_add_test(tcase, sums_have_fixed_partial_sums);
    tcase_add_test(tcase, softmax_is_one_in_all);
    tcase_add_test(tcase, silu_from_end_to_end);
    return tcase;
}
