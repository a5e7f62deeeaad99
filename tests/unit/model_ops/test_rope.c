/* Rotations: frequencies, YaRN, and what both layouts leave alone. */
#include "test_model_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ops.h"
#include "sample_ops.h"
#include "support/seed.h"

static const pl_rope_t deepseek = {.theta              = 10000,
                                   .yarn               = true,
                                   .factor             = 40,
                                   .beta_fast          = 32,
                                   .beta_slow          = 1,
                                   .mscale             = 1,
                                   .mscale_all_dim     = 1,
                                   .original_positions = 4096,
                                   .attention_factor   = 1};

static void check_close(float got, double want)
{
    ck_assert_msg(fabs((double)got - want) <= 3e-7 * fabs(want),
                  "%.9g not %.9g", (double)got, want);
}

START_TEST(plain_frequencies_are_powers)
{
    static const double thetas[] = {1e4, 1e6, 8e6};
    float frequencies[64];

    for (int t = 0; t < 3; t++) {
        pl_rope_t rope = {.theta = thetas[t], .attention_factor = 1};

        for (int32_t dim = 2; dim <= 128; dim += 2) {
            pl_rope_frequencies(&rope, dim, frequencies);
            ck_assert(frequencies[0] == 1.0F);
            for (int32_t i = 0; i < dim / 2; i++) {
                /* the exponent itself is a float32: log(theta) * 2^-24 */
                double want = pow(thetas[t], -2.0 * i / dim);

                ck_assert(fabs((double)frequencies[i] - want) < 2e-6 * want);
            }
        }
    }
}
END_TEST

/* DeepSeek-V3.2: whole below frequency 10, a fortieth above 23, a straight
 * line of shares between. */
START_TEST(yarn_stretches_what_turns_seldom)
{
    pl_rope_t plain = deepseek;
    float stretched[32], whole[32];

    plain.yarn = false;
    pl_rope_frequencies(&deepseek, 64, stretched);
    pl_rope_frequencies(&plain, 64, whole);
    for (int i = 0; i < 32; i++) {
        double share = fmin(fmax((i - 10) / 13.0, 0.0), 1.0);

        check_close(stretched[i],
                    (double)whole[i] * (share / 40.0 + 1.0 - share));
    }
}
END_TEST

/* A ramp of no width, and bounds cut at 0 and dim - 1. */
START_TEST(yarn_bounds_are_cut)
{
    pl_rope_t plain = deepseek;
    pl_rope_t few   = deepseek;
    pl_rope_t many  = deepseek;
    float whole[32], f[32];

    plain.yarn = false;
    /* even frequency 0 turns less than once: low is cut to 0, high is 0 */
    few.original_positions = 6;
    pl_rope_frequencies(&plain, 64, whole);
    pl_rope_frequencies(&few, 64, f);
    check_close(f[0], (double)whole[0]); /* at the bound */
    for (int i = 1; i < 32; i++) {
        check_close(f[i], (double)whole[i] / 40.0);
    }
    /* high would be 69: it is cut to 63; low is 20 */
    many.original_positions = INT32_MAX;
    many.beta_fast          = 1e6;
    pl_rope_frequencies(&many, 64, f);
    for (int i = 20; i < 32; i++) {
        double share = (i - 20) / 43.0;

        check_close(f[i], (double)whole[i] * (share / 40.0 + 1.0 - share));
    }
}
END_TEST

START_TEST(angles_are_positions_times_frequencies)
{
    pl_rope_t rope = deepseek;
    float f[32], c[32], s[32];

    rope.attention_factor = 1.25;
    pl_rope_frequencies(&rope, 64, f);
    for (int32_t position = 0; position < 200000; position += 997) {
        pl_rope_angles(&rope, f, 64, position, c, s);
        for (int i = 0; i < 32; i++) {
            float angle = (float)position * f[i];

            ck_assert(fabs((double)c[i] - 1.25 * cos((double)angle)) < 2e-7);
            ck_assert(fabs((double)s[i] - 1.25 * sin((double)angle)) < 2e-7);
        }
    }
}
END_TEST

typedef void (*rotate_t)(float *x, int32_t dim, const float *c, const float *s);

static double dot(const float *a, const float *b, int32_t n)
{
    double sum = 0.0;

    for (int32_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* q at m and k at n: the product depends on m - n only; nothing behind `dim`
 * is touched. */
START_TEST(products_depend_on_the_distance)
{
    static const rotate_t layouts[] = {pl_rope_interleaved, pl_rope_half_split};
    uint64_t seed  = pl_test_seed("products_depend_on_the_distance");
    pl_rng_t rng   = pl_rng_seed(seed);
    pl_rope_t rope = {.theta = 1e4, .attention_factor = 1};
    float f[32], c[32], s[32];

    for (int32_t dim = 2; dim <= 64; dim += 2) {
        pl_rope_frequencies(&rope, dim, f);
        for (int l = 0; l < 2; l++) {
            double first = 0.0;

            for (int32_t shift = 0; shift < 500; shift += 100) {
                pl_rng_t same = rng;
                float *q      = sample_floats(&same, (size_t)dim + 1);
                float *k      = sample_floats(&same, (size_t)dim + 1);
                float last    = q[dim];

                pl_rope_angles(&rope, f, dim, 37 + shift, c, s);
                layouts[l](q, dim, c, s);
                pl_rope_angles(&rope, f, dim, 5 + shift, c, s);
                layouts[l](k, dim, c, s);
                first = shift == 0 ? dot(q, k, dim) : first;
                ck_assert(fabs(dot(q, k, dim) - first) < 2e-4);
                ck_assert(q[dim] == last);
                free(q);
                free(k);
            }
        }
        (void)pl_rng_next(&rng);
    }
}
END_TEST

/* The pairs of each layout, and the direction of the turn. */
START_TEST(layouts_turn_their_pairs)
{
    float c[2]     = {0, 0.5F};
    float s[2]     = {1, 0.5F};
    float pairs[4] = {1, 2, 3, 4};
    float split[4] = {1, 3, 2, 4};

    pl_rope_interleaved(pairs, 4, c, s);
    ck_assert(pairs[0] == -2.0F && pairs[1] == 1.0F);
    ck_assert(pairs[2] == -0.5F && pairs[3] == 3.5F);
    pl_rope_half_split(split, 4, c, s);
    ck_assert(split[0] == -2.0F && split[2] == 1.0F);
    ck_assert(split[1] == -0.5F && split[3] == 3.5F);
}
END_TEST

TCase *rope_case(void)
{
    TCase *tcase = tcase_create("rope");

    tcase_add_test(tcase, plain_frequencies_are_powers);
    tcase_add_test(tcase, yarn_stretches_what_turns_seldom);
    tcase_add_test(tcase, yarn_bounds_are_cut);
    tcase_add_test(tcase, angles_are_positions_times_frequencies);
    tcase_add_test(tcase, products_depend_on_the_distance);
    tcase_add_test(tcase, layouts_turn_their_pairs);
    return tcase;
}
