/* Attention of a tile of tokens: queries, selection, absorbed MLA, output. */
#include "model/transformer_internal.h"

#include <math.h>
#include <string.h>

/* What a tile's steps share: tokens first .. first + n - 1 of the forward. */
typedef struct tile {
    pl_host_forward_t *forward;
    const pl_model_config_t *config;
    const pl_layer_weights_t *weights;
    int32_t layer;
    int32_t first, n;
} tile_t;

static const float *cosines_of(const tile_t *tile, int32_t i)
{
    return pl_forward_row(tile->forward->cosines, tile->first + i,
                          tile->config->rope / 2);
}

static const float *sines_of(const tile_t *tile, int32_t i)
{
    return pl_forward_row(tile->forward->sines, tile->first + i,
                          tile->config->rope / 2);
}

/* ---- queries ---- */

static void make_queries(const tile_t *tile)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    int32_t width = config->n_heads * (config->nope + config->rope);

    pl_linear(&tile->weights->q_a, 0, config->q_lora,
              pl_forward_row(forward->x, tile->first, config->hidden), tile->n,
              config->hidden, forward->row, forward->q_resid, config->q_lora);
    for (int32_t i = 0; i < tile->n; i++) {
        float *resid = pl_forward_row(forward->q_resid, i, config->q_lora);

        pl_rms_norm(&tile->weights->q_a_norm, config->latent_norm_eps, resid,
                    resid);
    }
    pl_linear(&tile->weights->q_b, 0, width, forward->q_resid, tile->n,
              config->q_lora, forward->row, forward->q, width);
}

/* Queries as they meet the stored rows: the key's projection absorbed, the rope
 * part rotated. */
static void absorb_queries(const tile_t *tile)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    int32_t head_width              = config->nope + config->rope;
    int32_t width                   = config->n_heads * head_width;
    int32_t latent                  = config->n_heads * config->kv_lora;

    for (int32_t head = 0; head < config->n_heads; head++) {
        pl_linear_transposed(
            &tile->weights->kv_b, head * (config->nope + config->v_dim),
            config->nope, forward->q + (size_t)head * (size_t)head_width,
            tile->n, width, forward->row,
            forward->q_latent + (size_t)head * (size_t)config->kv_lora, latent);
    }
    for (int32_t i = 0; i < tile->n; i++) {
        for (int32_t head = 0; head < config->n_heads; head++) {
            const float *q = pl_forward_row(forward->q, i, width) +
                             (size_t)head * (size_t)head_width + config->nope;
            float *rope = pl_forward_row(
                forward->q_rope, i * config->n_heads + head, config->rope);

            memcpy(rope, q, (size_t)config->rope * sizeof(*rope));
            pl_rope_interleaved(rope, config->rope, cosines_of(tile, i),
                                sines_of(tile, i));
        }
    }
}

/* ---- selection ---- */

static void make_index_queries(const tile_t *tile)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    int32_t heads                   = config->index_heads;
    int32_t width                   = heads * config->index_dim;
    float scale                     = (float)(1.0 / sqrt((double)heads));

    pl_linear(&tile->weights->index_q_b, 0, width, forward->q_resid, tile->n,
              config->q_lora, forward->row, forward->index_q, width);
    pl_linear(&tile->weights->index_weights, 0, heads,
              pl_forward_row(forward->x, tile->first, config->hidden), tile->n,
              config->hidden, forward->row, forward->index_weights, heads);
    for (int32_t i = 0; i < tile->n; i++) {
        for (int32_t head = 0; head < heads; head++) {
            pl_forward_rotate_index(config,
                                    pl_forward_row(forward->index_q,
                                                   i * heads + head,
                                                   config->index_dim),
                                    cosines_of(tile, i), sines_of(tile, i));
            forward->index_weights[(size_t)i * (size_t)heads + (size_t)head] *=
                scale;
        }
    }
}

/* Positions that a token attends to, of all up to its own, which has these
 * scores. */
static void select_token(const tile_t *tile, int32_t token, const float *scores)
{
    pl_host_forward_t *forward = tile->forward;
    int32_t n_keys             = forward->positions[token] + 1;
    int32_t topk               = tile->config->index_topk;

    forward->n_selected[token] = n_keys;
    if (n_keys > topk) {
        forward->n_selected[token] = pl_topk(
            scores, n_keys, topk, forward->topk,
            forward->selection + (size_t)token * (size_t)forward->select_room);
    }
    if (forward->selected != NULL) {
        int32_t n                = 0;
        const int32_t *positions = pl_forward_selection(forward, token, &n);

        forward->selected(forward->selected_context, tile->layer, n_keys - 1,
                          positions, n, scores, n_keys);
    }
}

/* Tokens first .. first+n-1 of the tile, n <= PL_FORWARD_SCORED.  While there
 * are no more keys than may be kept, all are, and nobody needs their scores. */
static void select_tokens(const tile_t *tile, int32_t first, int32_t n,
                          const pl_view_t *index)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    size_t stride                   = (size_t)forward->room_positions;
    int32_t n_keys[PL_FORWARD_SCORED];
    pl_index_queries_t queries = {
        .q = pl_forward_row(forward->index_q, first * config->index_heads,
                            config->index_dim),
        .weights =
            pl_forward_row(forward->index_weights, first, config->index_heads),
        .n       = n,
        .n_heads = config->index_heads,
        .scale   = (float)(1.0 / sqrt((double)config->index_dim)),
        .n_keys  = n_keys};

    for (int32_t i = 0; i < n; i++) {
        int32_t keys = forward->positions[tile->first + first + i] + 1;
        bool needed  = keys > config->index_topk || forward->selected != NULL;

        n_keys[i] = needed ? keys : 0;
    }
    pl_index_scores(index, &forward->rows, &queries, forward->scores, stride);
    for (int32_t i = 0; i < n; i++) {
        select_token(tile, tile->first + first + i,
                     forward->scores + (size_t)i * stride);
    }
}

const int32_t *pl_forward_selection(const pl_host_forward_t *forward, int32_t i,
                                    int32_t *n_p)
{
    bool all = forward->positions[i] < forward->config->index_topk;

    *n_p = forward->n_selected[i];
    return all ? forward->everything
               : forward->selection + (size_t)i * (size_t)forward->select_room;
}

/* ---- the rest ---- */

static void attend(const tile_t *tile, const pl_view_t *latent)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    int32_t heads                   = config->n_heads;

    for (int32_t i = 0; i < tile->n; i++) {
        int32_t n = 0;
        const int32_t *positions =
            pl_forward_selection(forward, tile->first + i, &n);

        pl_attend(latent, &forward->rows,
                  pl_forward_row(forward->q_latent, i * heads, config->kv_lora),
                  pl_forward_row(forward->q_rope, i * heads, config->rope),
                  heads, config->softmax_scale, positions, n, forward->attend,
                  pl_forward_row(forward->latent, i * heads, config->kv_lora));
    }
}

/* h += W_o [W_UV latent] */
static void add_output(const tile_t *tile)
{
    const pl_model_config_t *config = tile->config;
    pl_host_forward_t *forward      = tile->forward;
    int32_t width                   = config->n_heads * config->v_dim;
    float *h = pl_forward_row(forward->h, tile->first, config->hidden);
    size_t n = (size_t)tile->n * (size_t)config->hidden;

    for (int32_t head = 0; head < config->n_heads; head++) {
        pl_linear(
            &tile->weights->kv_b,
            head * (config->nope + config->v_dim) + config->nope, config->v_dim,
            forward->latent + (size_t)head * (size_t)config->kv_lora, tile->n,
            config->n_heads * config->kv_lora, forward->row,
            forward->values + (size_t)head * (size_t)config->v_dim, width);
    }
    pl_linear(&tile->weights->o, 0, config->hidden, forward->values, tile->n,
              width, forward->row, forward->out, config->hidden);
    for (size_t i = 0; i < n; i++) {
        h[i] += forward->out[i];
    }
}

void pl_forward_attention(pl_host_forward_t *forward, int32_t layer,
                          int32_t first, int32_t n, const pl_view_t *latent,
                          const pl_view_t *index)
{
    tile_t tile = {.forward = forward,
                   .config  = forward->config,
                   .weights = &forward->weights->layers[layer],
                   .layer   = layer,
                   .first   = first,
                   .n       = n};

    make_queries(&tile);
    if (forward->config->full_indexer[layer]) {
        make_index_queries(&tile);
        for (int32_t i = 0; i < n; i += PL_FORWARD_SCORED) {
            select_tokens(&tile, i,
                          n - i < PL_FORWARD_SCORED ? n - i : PL_FORWARD_SCORED,
                          index);
        }
    }
    absorb_queries(&tile);
    attend(&tile, latent);
    add_output(&tile);
}
