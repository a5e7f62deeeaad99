/* The forward pass against the same thing written down plainly, for random
 * models of both families; odd head counts and sizes, one or two shared experts
 * or none, routing with and without normalisation, all kinds of layers. */
#include "test_transformer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "forward_rig.h"
#include "plain.h"
#include "support/random_model.h"

#define TOKENS 90
/* Of the logits' spread.  Float32 against double: a few 1e-6 are usual.  A
 * choice (a key, an expert) that hangs on the last digit would show as far
 * more; the seeds below have none. */
#define TOLERANCE 1e-4
#define MODELS    40

static double spread(const double *values, int64_t n)
{
    double mean = 0.0, variance = 0.0;

    for (int64_t i = 0; i < n; i++) {
        mean += values[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        variance += (values[i] - mean) * (values[i] - mean) / (double)n;
    }
    return sqrt(variance);
}

START_TEST(agrees_with_the_plain_one)
{
    uint64_t seed            = UINT64_C(1000) + (uint64_t)_i;
    pl_rng_t rng             = pl_rng_seed(seed);
    pl_model_config_t config = pl_test_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, seed);
    int64_t n_values         = (int64_t)TOKENS * config.vocab_size;
    int32_t tokens[TOKENS];
    rig_t *rig;
    double *want;
    double worst = 0.0, scale;

    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)pl_rng_below(&rng, (uint64_t)config.vocab_size);
    }
    rig = rig_open(&config, weights, PL_KV_F32, 5, tokens, TOKENS, &rng);
    rig_chunk(rig, 0, TOKENS, NULL);
    want  = plain_logits(&config, weights, tokens, TOKENS);
    scale = spread(want, n_values);
    for (int64_t i = 0; i < n_values; i++) {
        double off = fabs((double)rig->logits[i] - want[i]);

        worst = off > worst ? off : worst;
    }
    ck_assert_msg(worst <= TOLERANCE * scale,
                  "seed %" PRIu64 ": off by %g of a spread of %g", seed, worst,
                  scale);
    free(want);
    rig_close(rig);
    pl_weights_close(weights);
}
END_TEST

TCase *transformer_reference_case(void)
{
    TCase *tcase = tcase_create("reference");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, agrees_with_the_plain_one, 0, MODELS);
    return tcase;
}
