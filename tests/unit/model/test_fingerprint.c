/* model/fingerprint.h: whatever changes KV rows changes it, and nothing else.
 */
#include <check.h>
#include <string.h>

#include "model/fingerprint.h"
#include "support/check_main.h"
#include "support/random_model.h"

static pl_model_config_t config;

static void start(void)
{
    pl_rng_t rng = pl_rng_seed(7);

    do {
        config = pl_test_config(&rng);
    } while (!config.sparse_mlp[config.n_layers - 1]);
}

START_TEST(weights_count)
{
    pl_weights_t *one   = pl_test_weights(&config, 1);
    pl_weights_t *again = pl_test_weights(&config, 1);
    pl_weights_t *two   = pl_test_weights(&config, 2);

    ck_assert_uint_eq(pl_model_fingerprint(&config, one),
                      pl_model_fingerprint(&config, again));
    ck_assert_uint_ne(pl_model_fingerprint(&config, one),
                      pl_model_fingerprint(&config, two));
    pl_weights_close(one);
    pl_weights_close(again);
    pl_weights_close(two);
}
END_TEST

/* Put another model's tensor in the place of one. */
START_TEST(every_tensor_counts)
{
    pl_weights_t *one              = pl_test_weights(&config, 1);
    pl_weights_t *two              = pl_test_weights(&config, 2);
    int32_t last                   = config.n_layers - 1;
    int32_t expert                 = config.n_experts - 1;
    uint64_t was                   = pl_model_fingerprint(&config, one);
    const pl_layer_weights_t *from = &two->layers[last];
    pl_layer_weights_t *to         = &one->layers[last];
    pl_tensor_t *tensors[]         = {&one->embed,
                                      &one->norm,
                                      &to->input_norm,
                                      &to->q_a,
                                      &to->kv_a,
                                      &to->kv_b,
                                      &to->o,
                                      &to->router,
                                      &to->experts[0].gate,
                                      &to->experts[expert].down};
    const pl_tensor_t *others[]    = {&two->embed,
                                      &two->norm,
                                      &from->input_norm,
                                      &from->q_a,
                                      &from->kv_a,
                                      &from->kv_b,
                                      &from->o,
                                      &from->router,
                                      &from->experts[0].gate,
                                      &from->experts[expert].down};

    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        pl_tensor_t kept = *tensors[i];

        *tensors[i] = *others[i];
        ck_assert_msg(pl_model_fingerprint(&config, one) != was, "tensor %zu",
                      i);
        *tensors[i] = kept;
        ck_assert_uint_eq(pl_model_fingerprint(&config, one), was);
    }
    pl_weights_close(one);
    pl_weights_close(two);
}
END_TEST

START_TEST(what_is_computed_counts)
{
    pl_weights_t *weights = pl_test_weights(&config, 1);
    uint64_t was          = pl_model_fingerprint(&config, weights);
    pl_model_config_t other[8];

    for (size_t i = 0; i < 8; i++) {
        other[i] = config;
    }
    other[0].index_topk++;
    other[1].rope_params.theta *= 2;
    other[2].softmax_scale *= 2;
    other[3].norm_eps *= 2;
    other[4].experts_per_token++;
    other[5].full_indexer[0] = !config.full_indexer[0];
    other[6].routed_scale += 1;
    other[7].family = config.family == PL_FAMILY_GLM_MOE_DSA
                          ? PL_FAMILY_DEEPSEEK_V32
                          : PL_FAMILY_GLM_MOE_DSA;
    for (size_t i = 0; i < 8; i++) {
        ck_assert_msg(pl_model_fingerprint(&other[i], weights) != was,
                      "config %zu", i);
    }
    other[0] = config;
    other[0].max_positions *= 2;
    other[0].n_eos = 0;
    ck_assert_uint_eq(pl_model_fingerprint(&other[0], weights), was);
    pl_weights_close(weights);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("fingerprint");

    tcase_add_checked_fixture(tcase, start, NULL);
    tcase_add_test(tcase, weights_count);
    tcase_add_test(tcase, every_tensor_counts);
    tcase_add_test(tcase, what_is_computed_counts);
    return tcase;
}

PL_CHECK_MAIN("fingerprint", all())
