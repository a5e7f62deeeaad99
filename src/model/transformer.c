/* The forward pass: memory, rows to store, the order of a layer, logits. */
#include "model/transformer_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- memory ---- */

/* One block, cut into arrays; with base NULL the block is only measured. */
typedef struct cutter {
    uint8_t *base;
    size_t used;
} cutter_t;

#define CUT_ALIGN 64

static void *cut(cutter_t *cutter, int64_t n, size_t item_bytes)
{
    size_t at = cutter->used;

    cutter->used +=
        ((size_t)n * item_bytes + CUT_ALIGN - 1) / CUT_ALIGN * CUT_ALIGN;
    return cutter->base == NULL ? NULL : cutter->base + at;
}

static float *cut_floats(cutter_t *cutter, int64_t n)
{
    return cut(cutter, n, sizeof(float));
}

static int32_t *cut_ints(cutter_t *cutter, int64_t n)
{
    return cut(cutter, n, sizeof(int32_t));
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t widest_mlp(const pl_model_config_t *config)
{
    int32_t shared = config->n_shared * config->expert_width;

    return max_of(config->dense_width, max_of(config->expert_width, shared));
}

static int32_t longest_row(const pl_model_config_t *config)
{
    int32_t latent = max_of(config->q_lora, config->kv_lora);
    int32_t heads  = config->n_heads * config->v_dim;

    return max_of(max_of(config->hidden, latent),
                  max_of(heads, widest_mlp(config)));
}

static void cut_tokens(pl_host_forward_t *forward, cutter_t *cutter, int64_t n)
{
    const pl_model_config_t *config = forward->config;

    forward->positions = cut_ints(cutter, n);
    forward->h         = cut_floats(cutter, n * config->hidden);
    forward->x         = cut_floats(cutter, n * config->hidden);
    forward->cosines   = cut_floats(cutter, n * (config->rope / 2));
    forward->sines     = cut_floats(cutter, n * (config->rope / 2));
    forward->kv   = cut_floats(cutter, n * (config->kv_lora + config->rope));
    forward->keys = cut_floats(cutter, n * config->index_dim);
    forward->selection      = cut_ints(cutter, n * forward->select_room);
    forward->n_selected     = cut_ints(cutter, n);
    forward->moe            = cut_floats(cutter, n * config->hidden);
    forward->experts        = cut_ints(cutter, n * config->experts_per_token);
    forward->expert_weights = cut_floats(cutter, n * config->experts_per_token);
    forward->order          = cut_ints(cutter, n * config->experts_per_token);
    forward->starts         = cut_ints(cutter, (int64_t)config->n_experts + 1);
}

static void cut_tile(pl_host_forward_t *forward, cutter_t *cutter, int64_t n)
{
    const pl_model_config_t *config = forward->config;
    int64_t heads                   = n * config->n_heads;
    int64_t index_heads             = n * config->index_heads;

    forward->q_resid = cut_floats(cutter, n * config->q_lora);
    forward->q = cut_floats(cutter, heads * (config->nope + config->rope));
    forward->q_latent = cut_floats(cutter, heads * config->kv_lora);
    forward->latent   = cut_floats(cutter, heads * config->kv_lora);
    forward->q_rope   = cut_floats(cutter, heads * config->rope);
    forward->values   = cut_floats(cutter, heads * config->v_dim);
    forward->index_q  = cut_floats(cutter, index_heads * config->index_dim);
    forward->index_weights = cut_floats(cutter, index_heads);
    forward->out           = cut_floats(cutter, n * config->hidden);
    forward->gathered      = cut_floats(cutter, n * config->hidden);
    forward->gate          = cut_floats(cutter, n * widest_mlp(config));
    forward->up            = cut_floats(cutter, n * widest_mlp(config));
}

static void cut_token(pl_host_forward_t *forward, cutter_t *cutter,
                      int64_t n_positions)
{
    const pl_model_config_t *config = forward->config;

    forward->row    = cut_floats(cutter, longest_row(config));
    forward->route  = cut_floats(cutter, (int64_t)config->hidden +
                                             3 * (int64_t)config->n_experts);
    forward->attend = cut_floats(
        cutter, (int64_t)pl_attend_scratch(&forward->rows, config->n_heads,
                                           forward->select_room));
    forward->scores     = cut_floats(cutter, n_positions * PL_FORWARD_SCORED);
    forward->logits     = cut_floats(cutter, config->vocab_size);
    forward->topk       = cut(cutter, n_positions, sizeof(*forward->topk));
    forward->everything = cut_ints(cutter, forward->select_room);
}

static void cut_all(pl_host_forward_t *forward, cutter_t *cutter, int32_t n,
                    int32_t n_positions)
{
    int32_t topk         = forward->config->index_topk;
    forward->select_room = topk < n_positions ? topk : n_positions;

    cut_tokens(forward, cutter, n);
    cut_tile(forward, cutter, n < PL_FORWARD_TILE ? n : PL_FORWARD_TILE);
    cut_token(forward, cutter, n_positions);
}

static pl_status_t host_reserve(pl_forward_t *self, int32_t n,
                                int32_t n_positions)
{
    pl_host_forward_t *forward = (pl_host_forward_t *)self;
    cutter_t cutter            = {0};

    if ((n <= forward->room_tokens) &&
        (n_positions <= forward->room_positions)) {
        return PL_OK;
    }
    n           = max_of(n, forward->room_tokens);
    n_positions = max_of(n_positions, forward->room_positions);
    free(forward->memory);
    forward->room_tokens    = 0;
    forward->room_positions = 0;
    cut_all(forward, &cutter, n, n_positions);
    forward->memory = aligned_alloc(CUT_ALIGN, cutter.used);
    if (forward->memory == NULL) {
        pl_log(forward->log, PL_LOG_ERROR,
               "no memory for %zu bytes of hidden states of %" PRId32
               " tokens: lower --chunk",
               cutter.used, n);
        return PL_ERR_MEMORY;
    }
    cutter.base = forward->memory;
    cutter.used = 0;
    cut_all(forward, &cutter, n, n_positions);
    for (int32_t i = 0; i < forward->select_room; i++) {
        forward->everything[i] = i;
    }
    forward->room_tokens    = n;
    forward->room_positions = n_positions;
    return PL_OK;
}

static void host_close(pl_forward_t *self)
{
    pl_host_forward_t *forward = (pl_host_forward_t *)self;

    free(forward->memory);
    free(forward->frequencies);
    free(forward);
}

void pl_forward_close(pl_forward_t *forward)
{
    if (forward != NULL) {
        forward->ops->close(forward);
    }
}

/* ---- layers ---- */

static pl_status_t host_begin(pl_forward_t *self, const int32_t *tokens,
                              const int32_t *positions, int32_t n)
{
    pl_host_forward_t *forward      = (pl_host_forward_t *)self;
    const pl_model_config_t *config = forward->config;
    int32_t half                    = config->rope / 2;

    assert(n <= forward->room_tokens);
    forward->n     = n;
    forward->layer = -1;
    for (int32_t i = 0; i < n; i++) {
        assert((tokens[i] >= 0) && (tokens[i] < config->vocab_size));
        assert(positions[i] < forward->room_positions);
        forward->positions[i] = positions[i];
        pl_tensor_row(&forward->weights->embed, tokens[i],
                      pl_forward_row(forward->h, i, config->hidden));
        pl_rope_angles(&config->rope_params, forward->frequencies, config->rope,
                       positions[i], pl_forward_row(forward->cosines, i, half),
                       pl_forward_row(forward->sines, i, half));
    }
    return PL_OK;
}

/* The index key: norm first, then the rotation of its first dimensions. */
static void make_keys(pl_host_forward_t *forward,
                      const pl_layer_weights_t *layer)
{
    const pl_model_config_t *config = forward->config;
    int32_t half                    = config->rope / 2;

    pl_linear(&layer->index_k, 0, config->index_dim, forward->x, forward->n,
              config->hidden, forward->row, forward->keys, config->index_dim);
    for (int32_t i = 0; i < forward->n; i++) {
        float *key = pl_forward_row(forward->keys, i, config->index_dim);

        pl_layer_norm(&layer->index_k_norm, &layer->index_k_norm_bias, key,
                      key);
        pl_forward_rotate_index(config, key,
                                pl_forward_row(forward->cosines, i, half),
                                pl_forward_row(forward->sines, i, half));
    }
}

static void make_kv(pl_host_forward_t *forward, int32_t layer)
{
    const pl_model_config_t *config   = forward->config;
    const pl_layer_weights_t *weights = &forward->weights->layers[layer];
    int32_t half                      = config->rope / 2;
    int32_t width                     = config->kv_lora + config->rope;

    for (int32_t i = 0; i < forward->n; i++) {
        pl_rms_norm(&weights->input_norm, config->norm_eps,
                    pl_forward_row(forward->h, i, config->hidden),
                    pl_forward_row(forward->x, i, config->hidden));
    }
    pl_linear(&weights->kv_a, 0, width, forward->x, forward->n, config->hidden,
              forward->row, forward->kv, width);
    for (int32_t i = 0; i < forward->n; i++) {
        float *kv = pl_forward_row(forward->kv, i, width);

        pl_rms_norm(&weights->kv_a_norm, config->latent_norm_eps, kv, kv);
        pl_rope_interleaved(kv + config->kv_lora, config->rope,
                            pl_forward_row(forward->cosines, i, half),
                            pl_forward_row(forward->sines, i, half));
    }
    if (config->full_indexer[layer]) {
        make_keys(forward, weights);
    }
    forward->layer = layer;
}

static uint8_t *page_of(const pl_forward_pages_t *pages, int32_t row)
{
    return pages->pages +
           (size_t)(row / pages->form.page_tokens) * pages->stride;
}

static pl_status_t host_store(pl_forward_t *self, int32_t layer, int32_t first,
                              int32_t n, const int32_t *rows,
                              const pl_forward_pages_t *latent,
                              const pl_forward_pages_t *index)
{
    pl_host_forward_t *forward      = (pl_host_forward_t *)self;
    const pl_model_config_t *config = forward->config;
    int32_t width                   = config->kv_lora + config->rope;

    assert((first >= 0) && (first + n <= forward->n));
    if (forward->layer != layer) {
        make_kv(forward, layer);
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t row = rows[i] % latent->form.page_tokens;

        pl_latent_store(
            &forward->rows, pl_forward_row(forward->kv, first + i, width),
            page_of(latent, rows[i]) + pl_row_key(&latent->form, row));
        if (config->full_indexer[layer]) {
            uint8_t *page = page_of(index, rows[i]);

            pl_index_store(
                &forward->rows,
                pl_forward_row(forward->keys, first + i, config->index_dim),
                page + pl_row_key(&index->form, row),
                page + pl_row_scale(&index->form, row));
        }
    }
    return PL_OK;
}

static pl_status_t host_mix(pl_forward_t *self, int32_t layer,
                            const pl_view_t *latent, const pl_view_t *index)
{
    pl_host_forward_t *forward = (pl_host_forward_t *)self;

    if (forward->n == 0) {
        return PL_OK;
    }
    if (forward->layer != layer) {
        make_kv(forward, layer);
    }
    for (int32_t first = 0; first < forward->n; first += PL_FORWARD_TILE) {
        int32_t n = forward->n - first;

        pl_forward_attention(forward, layer, first,
                             n < PL_FORWARD_TILE ? n : PL_FORWARD_TILE, latent,
                             index);
    }
    pl_forward_mlp(forward, layer);
    return PL_OK;
}

/* ---- results ---- */

static pl_status_t host_end(pl_forward_t *self, int32_t i, float *logits,
                            int32_t *token_p)
{
    pl_host_forward_t *forward      = (pl_host_forward_t *)self;
    const pl_model_config_t *config = forward->config;
    float *x = pl_forward_row(forward->x, i, config->hidden);

    assert((i >= 0) && (i < forward->n));
    logits = logits != NULL ? logits : forward->logits;
    pl_rms_norm(&forward->weights->norm, config->norm_eps,
                pl_forward_row(forward->h, i, config->hidden), x);
    pl_linear(&forward->weights->head, 0, config->vocab_size, x, 1,
              config->hidden, forward->row, logits, config->vocab_size);
    *token_p = pl_greedy(logits, config->vocab_size);
    return PL_OK;
}

int32_t pl_greedy(const float *logits, int32_t n)
{
    int32_t best = 0;
    float most   = -INFINITY;

    for (int32_t i = 0; i < n; i++) {
        if (logits[i] > most) {
            most = logits[i];
            best = i;
        }
    }
    return best;
}

static void host_watch(pl_forward_t *self, pl_selected_t selected,
                       void *context)
{
    pl_host_forward_t *forward = (pl_host_forward_t *)self;

    forward->selected         = selected;
    forward->selected_context = context;
}

/* ---- open ---- */

static const pl_forward_ops_t host_ops = {
    .reserve = host_reserve,
    .begin   = host_begin,
    .store   = host_store,
    .mix     = host_mix,
    .end     = host_end,
    .watch   = host_watch,
    .close   = host_close,
};

pl_status_t pl_forward_open(const pl_model_config_t *config,
                            const pl_weights_t *weights, pl_kv_dtype_t dtype,
                            const pl_log_t *log, pl_forward_t **forward_p)
{
    pl_host_forward_t *forward = calloc(1, sizeof(*forward));

    if (forward == NULL) {
        return PL_ERR_MEMORY;
    }
    forward->forward.ops = &host_ops;
    forward->config      = config;
    forward->weights     = weights;
    forward->log         = log;
    forward->layer       = -1;
    forward->rows = pl_row_layout_make(dtype, config->kv_lora, config->rope,
                                       config->index_dim);
    forward->frequencies =
        malloc((size_t)config->rope / 2 * sizeof(*forward->frequencies));
    if (forward->frequencies == NULL) {
        free(forward);
        return PL_ERR_MEMORY;
    }
    pl_rope_frequencies(&config->rope_params, config->rope,
                        forward->frequencies);
    *forward_p = &forward->forward;
    return PL_OK;
}
