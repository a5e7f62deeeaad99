/* The second half of a layer: a dense MLP, or routed and shared experts.
 *
 * What an expert adds to a token is added in ascending order of experts,
 * starting from zero, then the shared expert: an order that does not know which
 * other tokens there are. */
#include "model/transformer_internal.h"

#include <string.h>

static pl_mlp_scratch_t scratch_of(const pl_host_forward_t *forward)
{
    pl_mlp_scratch_t scratch = {
        .row = forward->row, .gate = forward->gate, .up = forward->up};

    return scratch;
}

/* y += MLP(x) for all tokens, tile by tile. */
static void add_mlp(pl_host_forward_t *forward, const pl_mlp_weights_t *mlp,
                    float *y)
{
    int32_t hidden           = forward->config->hidden;
    pl_mlp_scratch_t scratch = scratch_of(forward);

    for (int32_t first = 0; first < forward->n; first += PL_FORWARD_TILE) {
        int32_t n = forward->n - first;

        pl_mlp(mlp, pl_forward_row(forward->x, first, hidden),
               n < PL_FORWARD_TILE ? n : PL_FORWARD_TILE, hidden, 1.0F,
               &scratch, pl_forward_row(y, first, hidden));
    }
}

/* Pairs order[0 .. n-1], at most a tile, are tokens that go to this expert. */
static void add_expert(pl_host_forward_t *forward,
                       const pl_mlp_weights_t *expert, const int32_t *order,
                       int32_t n)
{
    int32_t hidden           = forward->config->hidden;
    int32_t per_token        = forward->config->experts_per_token;
    pl_mlp_scratch_t scratch = scratch_of(forward);

    for (int32_t i = 0; i < n; i++) {
        memcpy(pl_forward_row(forward->gathered, i, hidden),
               pl_forward_row(forward->x, order[i] / per_token, hidden),
               (size_t)hidden * sizeof(float));
    }
    memset(forward->out, 0, (size_t)n * (size_t)hidden * sizeof(float));
    pl_mlp(expert, forward->gathered, n, hidden, 1.0F, &scratch, forward->out);
    for (int32_t i = 0; i < n; i++) {
        const float *out = pl_forward_row(forward->out, i, hidden);
        float *sum = pl_forward_row(forward->moe, order[i] / per_token, hidden);
        float weight = forward->expert_weights[order[i]];

        for (int32_t c = 0; c < hidden; c++) {
            float part = weight * out[c];

            sum[c] += part;
        }
    }
}

static void add_experts(pl_host_forward_t *forward,
                        const pl_layer_weights_t *weights)
{
    const pl_model_config_t *config = forward->config;
    int32_t per_token               = config->experts_per_token;

    for (int32_t i = 0; i < forward->n; i++) {
        size_t pair = (size_t)i * (size_t)per_token;

        pl_route(config, &weights->router, &weights->router_bias,
                 pl_forward_row(forward->x, i, config->hidden), forward->route,
                 forward->experts + pair, forward->expert_weights + pair);
    }
    pl_expert_sort(forward->experts, forward->n * per_token, config->n_experts,
                   forward->order, forward->starts);
    for (int32_t expert = 0; expert < config->n_experts; expert++) {
        int32_t end = forward->starts[expert + 1];

        for (int32_t at = forward->starts[expert]; at < end;
             at += PL_FORWARD_TILE) {
            add_expert(forward, &weights->experts[expert], forward->order + at,
                       end - at < PL_FORWARD_TILE ? end - at : PL_FORWARD_TILE);
        }
    }
}

void pl_forward_mlp(pl_host_forward_t *forward, int32_t layer)
{
    const pl_model_config_t *config   = forward->config;
    const pl_layer_weights_t *weights = &forward->weights->layers[layer];
    size_t n_values = (size_t)forward->n * (size_t)config->hidden;

    for (int32_t i = 0; i < forward->n; i++) {
        pl_rms_norm(&weights->post_norm, config->norm_eps,
                    pl_forward_row(forward->h, i, config->hidden),
                    pl_forward_row(forward->x, i, config->hidden));
    }
    if (!config->sparse_mlp[layer]) {
        add_mlp(forward, &weights->dense, forward->h);
        return;
    }
    memset(forward->moe, 0, n_values * sizeof(*forward->moe));
    add_experts(forward, weights);
    if (config->n_shared > 0) {
        add_mlp(forward, &weights->shared, forward->moe);
    }
    for (size_t i = 0; i < n_values; i++) {
        forward->h[i] += forward->moe[i];
    }
}
