#include "random_model.h"

#include <math.h>
#include <stdlib.h>

static int32_t between(pl_rng_t *rng, int32_t low, int32_t high)
{
    return low + (int32_t)pl_rng_below(rng, (uint64_t)(high - low) + 1);
}

static bool coin(pl_rng_t *rng)
{
    return pl_rng_below(rng, 2) != 0;
}

static void draw_rope(pl_model_config_t *config, pl_rng_t *rng)
{
    pl_rope_t *rope = &config->rope_params;
    double mscale;

    rope->theta            = coin(rng) ? 1e4 : 8e6;
    rope->attention_factor = 1.0;
    config->softmax_scale =
        (float)(1.0 / sqrt((double)(config->nope + config->rope)));
    if (coin(rng)) {
        return;
    }
    rope->yarn               = true;
    rope->factor             = 4.0;
    rope->beta_fast          = 32.0;
    rope->beta_slow          = 1.0;
    rope->mscale             = 1.0;
    rope->mscale_all_dim     = 1.0;
    rope->original_positions = 1024;
    mscale                   = 0.1 * log(rope->factor) + 1.0;
    config->softmax_scale *= (float)(mscale * mscale);
}

static void draw_experts(pl_model_config_t *config, pl_rng_t *rng)
{
    int32_t group = between(rng, 2, 5); /* experts in one */

    config->n_group           = between(rng, 1, 4);
    config->topk_group        = between(rng, 1, config->n_group);
    config->n_experts         = group * config->n_group;
    config->experts_per_token = between(rng, 1, config->topk_group * group);
    config->n_shared          = between(rng, 0, 2);
    config->expert_width      = between(rng, 1, 40);
    config->norm_topk         = coin(rng);
    config->routed_scale      = coin(rng) ? 2.5F : 1.0F;
}

pl_model_config_t pl_test_config(pl_rng_t *rng)
{
    pl_model_config_t config = {
        .family = coin(rng) ? PL_FAMILY_GLM_MOE_DSA : PL_FAMILY_DEEPSEEK_V32,
        .vocab_size  = between(rng, 2, 90),
        .hidden      = between(rng, 1, 70),
        .n_layers    = between(rng, 1, 4),
        .n_heads     = between(rng, 1, 5),
        .q_lora      = between(rng, 1, 40),
        .kv_lora     = between(rng, 1, 140),
        .nope        = between(rng, 1, 30),
        .rope        = 2 * between(rng, 1, 9),
        .v_dim       = between(rng, 1, 30),
        .index_heads = between(rng, 1, 20),
        .index_topk  = between(rng, 1, 40),
        .dense_width = between(rng, 1, 80),
        .norm_eps    = coin(rng) ? 1e-2F : 1e-6F, /* where it is used shows */
        .latent_norm_eps = 1e-6F,
        .max_positions   = 4096};

    config.index_dim = config.rope + between(rng, 0, 20);
    draw_experts(&config, rng);
    draw_rope(&config, rng);
    for (int32_t layer = 0; layer < config.n_layers; layer++) {
        config.sparse_mlp[layer]   = coin(rng);
        config.full_indexer[layer] = (layer == 0) || coin(rng);
    }
    return config;
}

pl_weights_t *pl_test_weights(const pl_model_config_t *config, uint64_t seed)
{
    pl_weights_t *weights = NULL;

    if (pl_weights_random(config, seed, NULL, &weights) != PL_OK) {
        abort();
    }
    return weights;
}
