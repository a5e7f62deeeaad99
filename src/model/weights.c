#include "model/weights.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/tensor.h"
#include "model/weights_internal.h"

void pl_tensor_row(const pl_tensor_t *tensor, int32_t r, float *out)
{
    assert((r >= 0) && (r < tensor->rows));
    pl_tensor_part(tensor, r, 0, tensor->cols, out);
}

typedef struct walk {
    const pl_model_config_t *config;
    pl_tensor_visit_t visit;
    void *context;
    int32_t layer;
} walk_t;

static pl_status_t visit_top(const walk_t *walk, const char *name,
                             pl_tensor_kind_t kind, int32_t rows, int32_t cols,
                             pl_tensor_t *tensor)
{
    pl_tensor_place_t place = {
        .kind = kind, .rows = rows, .cols = cols, .tensor = tensor};

    (void)snprintf(place.name, sizeof(place.name), "%s", name);
    return walk->visit(walk->context, &place);
}

static pl_status_t visit_layer(const walk_t *walk, const char *name,
                               pl_tensor_kind_t kind, int32_t rows,
                               int32_t cols, pl_tensor_t *tensor)
{
    char whole[128];

    (void)snprintf(whole, sizeof(whole), "model.layers.%d.%.96s",
                   (int)walk->layer, name);
    return visit_top(walk, whole, kind, rows, cols, tensor);
}

static pl_status_t visit_attention(const walk_t *walk,
                                   pl_layer_weights_t *layer)
{
    const pl_model_config_t *config = walk->config;
    int32_t d                       = config->hidden;
    int32_t heads                   = config->n_heads;
    const struct {
        const char *name;
        pl_tensor_t *tensor;
        pl_tensor_kind_t kind;
        int32_t rows, cols;
        bool of_indexer;
    } tensors[] = {
        {"input_layernorm.weight", &layer->input_norm, PL_TENSOR_NORM, 1, d,
         false},
        {"post_attention_layernorm.weight", &layer->post_norm, PL_TENSOR_NORM,
         1, d, false},
        {"self_attn.q_a_proj.weight", &layer->q_a, PL_TENSOR_MATRIX,
         config->q_lora, d, false},
        {"self_attn.q_a_layernorm.weight", &layer->q_a_norm, PL_TENSOR_NORM, 1,
         config->q_lora, false},
        {"self_attn.q_b_proj.weight", &layer->q_b, PL_TENSOR_MATRIX,
         heads * (config->nope + config->rope), config->q_lora, false},
        {"self_attn.kv_a_proj_with_mqa.weight", &layer->kv_a, PL_TENSOR_MATRIX,
         config->kv_lora + config->rope, d, false},
        {"self_attn.kv_a_layernorm.weight", &layer->kv_a_norm, PL_TENSOR_NORM,
         1, config->kv_lora, false},
        {"self_attn.kv_b_proj.weight", &layer->kv_b, PL_TENSOR_MATRIX,
         heads * (config->nope + config->v_dim), config->kv_lora, false},
        {"self_attn.o_proj.weight", &layer->o, PL_TENSOR_MATRIX, d,
         heads * config->v_dim, false},
        {"self_attn.indexer.wq_b.weight", &layer->index_q_b, PL_TENSOR_MATRIX,
         config->index_heads * config->index_dim, config->q_lora, true},
        {"self_attn.indexer.wk.weight", &layer->index_k, PL_TENSOR_MATRIX,
         config->index_dim, d, true},
        {"self_attn.indexer.k_norm.weight", &layer->index_k_norm,
         PL_TENSOR_NORM, 1, config->index_dim, true},
        {"self_attn.indexer.k_norm.bias", &layer->index_k_norm_bias,
         PL_TENSOR_NORM_BIAS, 1, config->index_dim, true},
        {"self_attn.indexer.weights_proj.weight", &layer->index_weights,
         PL_TENSOR_MATRIX, config->index_heads, d, true},
    };

    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++) {
        if (!tensors[i].of_indexer || config->full_indexer[walk->layer]) {
            PL_TRY(visit_layer(walk, tensors[i].name, tensors[i].kind,
                               tensors[i].rows, tensors[i].cols,
                               tensors[i].tensor));
        }
    }
    return PL_OK;
}

static pl_status_t visit_mlp(const walk_t *walk, const char *prefix,
                             int32_t width, pl_mlp_weights_t *mlp)
{
    int32_t d = walk->config->hidden;
    char name[128];

    (void)snprintf(name, sizeof(name), "%s.gate_proj.weight", prefix);
    PL_TRY(visit_layer(walk, name, PL_TENSOR_MATRIX, width, d, &mlp->gate));
    (void)snprintf(name, sizeof(name), "%s.up_proj.weight", prefix);
    PL_TRY(visit_layer(walk, name, PL_TENSOR_MATRIX, width, d, &mlp->up));
    (void)snprintf(name, sizeof(name), "%s.down_proj.weight", prefix);
    return visit_layer(walk, name, PL_TENSOR_MATRIX, d, width, &mlp->down);
}

/* One matrix of a routed expert, alone or within all experts' (the gate's
 * rows, then the up projection's). */
static pl_status_t visit_expert(const walk_t *walk, int32_t expert,
                                const char *name, const char *fused,
                                int32_t rows, int32_t cols, int32_t fused_rows,
                                int32_t first_row, pl_tensor_t *tensor)
{
    pl_tensor_place_t place = {.kind       = PL_TENSOR_MATRIX,
                               .rows       = rows,
                               .cols       = cols,
                               .tensor     = tensor,
                               .expert     = expert,
                               .fused_rows = fused_rows,
                               .first_row  = first_row};

    (void)snprintf(place.name, sizeof(place.name),
                   "model.layers.%d.mlp.experts.%d.%s.weight", (int)walk->layer,
                   (int)expert, name);
    (void)snprintf(place.fused, sizeof(place.fused),
                   "model.layers.%d.mlp.experts.%s", (int)walk->layer, fused);
    return walk->visit(walk->context, &place);
}

static pl_status_t visit_experts(const walk_t *walk, pl_layer_weights_t *layer)
{
    int32_t d     = walk->config->hidden;
    int32_t width = walk->config->expert_width;

    for (int32_t e = 0; e < walk->config->n_experts; e++) {
        pl_mlp_weights_t *expert = &layer->experts[e];

        PL_TRY(visit_expert(walk, e, "gate_proj", "gate_up_proj", width, d,
                            2 * width, 0, &expert->gate));
        PL_TRY(visit_expert(walk, e, "up_proj", "gate_up_proj", width, d,
                            2 * width, width, &expert->up));
        PL_TRY(visit_expert(walk, e, "down_proj", "down_proj", d, width, d, 0,
                            &expert->down));
    }
    return PL_OK;
}

static pl_status_t visit_sparse(const walk_t *walk, pl_layer_weights_t *layer)
{
    const pl_model_config_t *config = walk->config;

    PL_TRY(visit_layer(walk, "mlp.gate.weight", PL_TENSOR_MATRIX,
                       config->n_experts, config->hidden, &layer->router));
    PL_TRY(visit_layer(walk, "mlp.gate.e_score_correction_bias",
                       PL_TENSOR_ROUTER_BIAS, 1, config->n_experts,
                       &layer->router_bias));
    PL_TRY(visit_experts(walk, layer));
    if (config->n_shared == 0) {
        return PL_OK;
    }
    return visit_mlp(walk, "mlp.shared_experts",
                     config->n_shared * config->expert_width, &layer->shared);
}

pl_status_t pl_weights_each(const pl_model_config_t *config,
                            pl_weights_t *weights, pl_tensor_visit_t visit,
                            void *context)
{
    walk_t walk = {.config = config, .visit = visit, .context = context};

    PL_TRY(visit_top(&walk, "model.embed_tokens.weight", PL_TENSOR_EMBED,
                     config->vocab_size, config->hidden, &weights->embed));
    for (walk.layer = 0; walk.layer < config->n_layers; walk.layer++) {
        pl_layer_weights_t *layer = &weights->layers[walk.layer];

        PL_TRY(visit_attention(&walk, layer));
        if (config->sparse_mlp[walk.layer]) {
            PL_TRY(visit_sparse(&walk, layer));
        } else {
            PL_TRY(visit_mlp(&walk, "mlp", config->dense_width, &layer->dense));
        }
    }
    PL_TRY(visit_top(&walk, "model.norm.weight", PL_TENSOR_NORM, 1,
                     config->hidden, &weights->norm));
    if (config->tied) {
        return PL_OK;
    }
    return visit_top(&walk, "lm_head.weight", PL_TENSOR_MATRIX,
                     config->vocab_size, config->hidden, &weights->head);
}

pl_status_t pl_weights_make(const pl_model_config_t *config,
                            pl_weights_t **weights_p)
{
    pl_weights_t *weights = calloc(1, sizeof(*weights));
    size_t n_layers       = (size_t)config->n_layers;
    int32_t n_sparse      = 0;
    pl_mlp_weights_t *experts;
    void *buffer;

    if (weights == NULL) {
        return PL_ERR_MEMORY;
    }
    weights->memory = calloc(1, sizeof(*weights->memory));
    weights->layers = calloc(n_layers, sizeof(*weights->layers));
    if ((weights->memory == NULL) || (weights->layers == NULL)) {
        goto err_close;
    }
    for (size_t i = 0; i < n_layers; i++) {
        n_sparse += config->sparse_mlp[i];
    }
    /* All layers' experts in one piece. */
    if (pl_weights_buffer(weights,
                          (size_t)n_sparse * (size_t)config->n_experts *
                              sizeof(*experts),
                          &buffer) != PL_OK) {
        goto err_close;
    }
    experts = buffer;
    for (size_t i = 0; i < n_layers; i++) {
        if (config->sparse_mlp[i]) {
            weights->layers[i].experts = experts;
            experts += config->n_experts;
        }
    }
    *weights_p = weights;
    return PL_OK;

err_close:
    pl_weights_close(weights);
    return PL_ERR_MEMORY;
}

pl_status_t pl_weights_buffer(pl_weights_t *weights, size_t n_bytes,
                              void **buffer_p)
{
    struct pl_weights_memory *memory = weights->memory;
    void *buffer;

    PL_TRY(PL_ARRAY_RESERVE(&memory->buffers, memory->buffers.n + 1));
    buffer = calloc(n_bytes > 0 ? n_bytes : 1, 1);
    if (buffer == NULL) {
        return PL_ERR_MEMORY;
    }
    memory->buffers.items[memory->buffers.n++] = buffer;

    *buffer_p = buffer;
    return PL_OK;
}

void pl_weights_close(pl_weights_t *weights)
{
    if (weights == NULL) {
        return;
    }
    if (weights->memory != NULL) {
        for (size_t i = 0; i < weights->memory->files.n; i++) {
            pl_safetensors_close(weights->memory->files.items[i]);
        }
        for (size_t i = 0; i < weights->memory->buffers.n; i++) {
            free(weights->memory->buffers.items[i]);
        }
        PL_ARRAY_FREE(&weights->memory->files);
        PL_ARRAY_FREE(&weights->memory->buffers);
        free(weights->memory);
    }
    free(weights->layers);
    free(weights);
}
