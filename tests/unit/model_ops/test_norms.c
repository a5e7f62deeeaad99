/* Norms against their formulas in double. */
#include "test_model_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ops.h"
#include "sample_ops.h"
#include "support/seed.h"

START_TEST(rms_norm_is_the_formula)
{
    uint64_t seed = pl_test_seed("rms_norm_is_the_formula");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int32_t n = 1; n <= 600; n += n < 70 ? 1 : 37) {
        static const float eps[] = {1e-6F, 1e-5F, 0.5F};
        float e                  = eps[n % 3];
        sample_weights_t w =
            sample_weights_open(&rng, (pl_dtype_t)(n % 4), 1, n);
        float *x       = sample_floats(&rng, (size_t)n);
        float *y       = malloc((size_t)n * sizeof(*y));
        double squares = 0.0;

        for (int32_t i = 0; i < n; i++) {
            squares += (double)x[i] * (double)x[i];
        }
        pl_rms_norm(&w.tensor, e, x, y);
        for (int32_t i = 0; i < n; i++) {
            double want = (double)w.values[i] * (double)x[i] /
                          sqrt(squares / n + (double)e);

            ck_assert(fabs((double)y[i] - want) < 1e-6 * fabs(want) + 1e-12);
        }
        pl_rms_norm(&w.tensor, e, x, x); /* in place: the same */
        ck_assert_mem_eq(x, y, (size_t)n * sizeof(*y));
        free(x);
        free(y);
        sample_weights_close(&w);
    }
}
END_TEST

START_TEST(layer_norm_is_the_formula)
{
    uint64_t seed = pl_test_seed("layer_norm_is_the_formula");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int32_t n = 2; n <= 600; n += n < 70 ? 1 : 37) {
        sample_weights_t w =
            sample_weights_open(&rng, (pl_dtype_t)(n % 4), 1, n);
        sample_weights_t b = sample_weights_open(&rng, PL_BF16, 1, n);
        float *x           = sample_floats(&rng, (size_t)n);
        float *y           = malloc((size_t)n * sizeof(*y));
        double mean = 0.0, variance = 0.0;

        for (int32_t i = 0; i < n; i++) {
            x[i] += 2.0F;
            mean += (double)x[i] / n;
        }
        for (int32_t i = 0; i < n; i++) {
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
        }
        pl_layer_norm(&w.tensor, &b.tensor, x, y);
        for (int32_t i = 0; i < n; i++) {
            double want = ((double)x[i] - mean) / sqrt(variance + 1e-6) *
                              (double)w.values[i] +
                          (double)b.values[i];

            /* two values may lie close: their mean is known to 1e-7 only */
            ck_assert(fabs((double)y[i] - want) <
                      1e-6 * (1.0 + fabs((double)w.values[i])) *
                          (1.0 + 1.0 / sqrt(variance + 1e-6)));
        }
        free(x);
        free(y);
        sample_weights_close(&w);
        sample_weights_close(&b);
    }
}
END_TEST

TCase *norms_case(void)
{
    TCase *tcase = tcase_create("norms");

    tcase_add_test(tcase, rms_norm_is_the_formula);
    tcase_add_test(tcase, layer_norm_is_the_formula);
    return tcase;
}
