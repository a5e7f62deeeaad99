#include "model/fingerprint.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"

enum { SAMPLE_BYTES = 64, SAMPLES = 8, BLOCK = 128 };

/* ---- config ---- */

static uint64_t fold_real(uint64_t h, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return pl_fold64(h, bits);
}

static uint64_t fold_rope(uint64_t h, const pl_rope_t *rope)
{
    const double reals[] = {rope->theta,           rope->factor,
                            rope->beta_fast,       rope->beta_slow,
                            rope->mscale,          rope->mscale_all_dim,
                            rope->attention_factor};

    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        h = fold_real(h, reals[i]);
    }
    h = pl_fold64(h, rope->yarn ? 1 : 0);
    return pl_fold64(h, (uint64_t)rope->original_positions);
}

static uint64_t fold_config(uint64_t h, const pl_model_config_t *c)
{
    const int32_t sizes[] = {
        (int32_t)c->family, c->vocab_size,  c->hidden,
        c->n_layers,        c->n_heads,     c->q_lora,
        c->kv_lora,         c->nope,        c->rope,
        c->v_dim,           c->index_heads, c->index_dim,
        c->index_topk,      c->dense_width, c->expert_width,
        c->n_experts,       c->n_shared,    c->experts_per_token,
        c->n_group,         c->topk_group,  c->norm_topk ? 1 : 0};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        h = pl_fold64(h, (uint64_t)(uint32_t)sizes[i]);
    }
    h = fold_real(h, (double)c->routed_scale);
    h = fold_real(h, (double)c->norm_eps);
    h = fold_real(h, (double)c->latent_norm_eps);
    h = fold_real(h, (double)c->softmax_scale);
    h = fold_rope(h, &c->rope_params);
    for (int32_t i = 0; i < c->n_layers; i++) {
        h = pl_fold64(h, (c->sparse_mlp[i] ? 1U : 0U) |
                             (c->full_indexer[i] ? 2U : 0U));
    }
    return h;
}

/* ---- tensors ---- */

static size_t item_bytes(pl_dtype_t dtype)
{
    switch (dtype) {
    case PL_F32:
        return 4;
    case PL_BF16:
    case PL_F16:
        return 2;
    case PL_F8_E4M3:
    case PL_DRAWN:
        break;
    }
    return 1;
}

/* Samples whose middles are as far from each other as from the ends. */
static uint64_t fold_bytes(uint64_t h, const void *bytes, size_t n,
                           size_t n_samples)
{
    const uint8_t *from = bytes;

    if (n <= n_samples * SAMPLE_BYTES) {
        return pl_hash64(from, n, h);
    }
    for (size_t i = 0; i < n_samples; i++) {
        size_t middle = n / (2 * n_samples) * (2 * i + 1);

        h = pl_hash64(from + middle - SAMPLE_BYTES / 2, SAMPLE_BYTES, h);
    }
    return h;
}

static uint64_t fold_tensor(uint64_t h, const pl_tensor_t *t, size_t n_samples)
{
    size_t n = (size_t)t->rows * (size_t)t->cols * item_bytes(t->dtype);

    h = pl_fold64(h, (uint64_t)t->dtype);
    h = pl_fold64(h, (uint64_t)(uint32_t)t->rows);
    h = pl_fold64(h, (uint64_t)(uint32_t)t->cols);
    if (t->dtype == PL_DRAWN) {
        h = pl_fold64(h, t->drawing.stream);
        h = fold_real(h, (double)t->drawing.mean);
        return fold_real(h, (double)t->drawing.scale);
    }
    if ((t->bytes == NULL) || (n == 0)) {
        return pl_fold64(h, 0);
    }
    h = fold_bytes(h, t->bytes, n, n_samples);
    if (t->scale != NULL) {
        n = (size_t)((t->rows + BLOCK - 1) / BLOCK) * (size_t)t->scale_cols *
            sizeof(*t->scale);
        h = fold_bytes(h, t->scale, n, n_samples);
    }
    return h;
}

static uint64_t fold_mlp(uint64_t h, const pl_mlp_weights_t *mlp,
                         size_t n_samples)
{
    h = fold_tensor(h, &mlp->gate, n_samples);
    h = fold_tensor(h, &mlp->up, n_samples);
    return fold_tensor(h, &mlp->down, n_samples);
}

static uint64_t fold_layer(uint64_t h, const pl_layer_weights_t *layer,
                           int32_t n_experts)
{
    const pl_tensor_t *const tensors[] = {
        &layer->input_norm,        &layer->post_norm,     &layer->q_a,
        &layer->q_a_norm,          &layer->q_b,           &layer->kv_a,
        &layer->kv_a_norm,         &layer->kv_b,          &layer->o,
        &layer->index_q_b,         &layer->index_k,       &layer->index_k_norm,
        &layer->index_k_norm_bias, &layer->index_weights, &layer->router,
        &layer->router_bias};

    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        h = fold_tensor(h, tensors[i], SAMPLES);
    }
    h = fold_mlp(h, &layer->dense, SAMPLES);
    h = fold_mlp(h, &layer->shared, SAMPLES);
    for (int32_t i = 0; (layer->experts != NULL) && (i < n_experts); i++) {
        h = fold_mlp(h, &layer->experts[i], 1);
    }
    return h;
}

uint64_t pl_model_fingerprint(const pl_model_config_t *config,
                              const pl_weights_t *weights)
{
    uint64_t h = fold_config(0, config);

    h = fold_tensor(h, &weights->embed, SAMPLES);
    h = fold_tensor(h, &weights->norm, SAMPLES);
    h = fold_tensor(h, &weights->head, SAMPLES);
    for (int32_t i = 0; i < config->n_layers; i++) {
        h = fold_layer(h, &weights->layers[i],
                       config->sparse_mlp[i] ? config->n_experts : 0);
    }
    return h;
}
