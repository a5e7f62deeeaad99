/* model/weights.h - the tensors of a model, by place, as they lie in the file.
 *
 * A checkpoint (model.safetensors, or shards with model.safetensors.index.json)
 * is mapped into memory, so that a rank touches only what it uses; names and
 * shapes are checked against the config when it is opened.  Layers beyond
 * n_layers (MTP) are skipped.  Or the weights are drawn at random,
 * counter-based, from a seed: the same on every rank and machine, whatever is
 * read first. Weights are replicated over ranks.
 */
#ifndef PL_MODEL_WEIGHTS_H
#define PL_MODEL_WEIGHTS_H

#include <stdint.h>

#include "model/config.h"

typedef enum pl_dtype {
    PL_F32,
    PL_BF16,
    PL_F16,
    PL_F8_E4M3,
    PL_DRAWN /* no bytes: values are drawn when they are asked for */
} pl_dtype_t;

/* What the values of a random tensor are drawn from: value i is that of
 * pl_drawn_value (model/tensor.h). */
typedef struct pl_drawing {
    uint64_t stream;
    float mean, scale;
} pl_drawing_t;

/* A matrix [rows][cols] (row = output), or a vector (rows = 1).  F8_E4M3 has
 * one float32 scale per 128 x 128 block: scale[(r / 128) * scale_cols + c /
 * 128]. */
typedef struct pl_tensor {
    pl_dtype_t dtype;
    int32_t rows, cols;
    const void *bytes;  /* row-major; NULL: DRAWN, or (rows 0) the tensor is
                           not there */
    const float *scale; /* F8_E4M3 only */
    int32_t scale_cols;
    pl_drawing_t drawing; /* DRAWN only */
} pl_tensor_t;

/* Row r as float32 (cols of them). */
void pl_tensor_row(const pl_tensor_t *tensor, int32_t r, float *out);

typedef struct pl_mlp_weights {
    pl_tensor_t gate, up, down;
} pl_mlp_weights_t;

typedef struct pl_layer_weights {
    pl_tensor_t input_norm, post_norm;
    pl_tensor_t q_a, q_a_norm, q_b;
    pl_tensor_t kv_a, kv_a_norm, kv_b, o;
    pl_tensor_t index_q_b, index_k, index_k_norm, index_k_norm_bias,
        index_weights;               /* full indexer layers only */
    pl_mlp_weights_t dense;          /* dense layers */
    pl_tensor_t router, router_bias; /* sparse layers, and: */
    pl_mlp_weights_t *experts;       /* [n_experts] */
    pl_mlp_weights_t shared;         /* width n_shared * expert_width; rows 0 if
                                        n_shared is 0 */
} pl_layer_weights_t;

typedef struct pl_weights {
    pl_tensor_t embed, norm, head;    /* head = embed if tied */
    pl_layer_weights_t *layers;       /* [n_layers] */
    struct pl_weights_memory *memory; /* maps and buffers; private */
} pl_weights_t;

/* Open DIR's checkpoint for `config`.  PL_ERR_INPUT names file, tensor, what
 * was expected and the remedy; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_weights_open(const char *dir,
                                          const pl_model_config_t *config,
                                          const pl_log_t *log,
                                          pl_weights_t **weights_p);

/* Random float32 weights of the config's shapes from `seed`; norms near 1,
 * matrices with standard deviation 1.3 / sqrt(cols), so that a deep random
 * model stays alive. */
PL_MUST_CHECK pl_status_t pl_weights_random(const pl_model_config_t *config,
                                            uint64_t seed, const pl_log_t *log,
                                            pl_weights_t **weights_p);

/* The same values in tensors of dtype DRAWN, which take no memory: for a GPU,
 * which draws them itself.  What computes on the host (model/ops.h) takes none
 * of these. */
PL_MUST_CHECK pl_status_t pl_weights_drawn(const pl_model_config_t *config,
                                           uint64_t seed, const pl_log_t *log,
                                           pl_weights_t **weights_p);
void pl_weights_close(pl_weights_t *weights); /* NULL is allowed */

#endif /* PL_MODEL_WEIGHTS_H */
