/* model/weights_internal.h - every tensor of a model, by name and place. */
#ifndef PL_MODEL_WEIGHTS_INTERNAL_H
#define PL_MODEL_WEIGHTS_INTERNAL_H

#include "base/array.h"
#include "model/safetensors.h"
#include "model/weights.h"

typedef enum pl_tensor_kind {
    PL_TENSOR_MATRIX,
    PL_TENSOR_EMBED, /* a matrix too */
    PL_TENSOR_NORM,  /* from here on vectors */
    PL_TENSOR_NORM_BIAS,
    PL_TENSOR_ROUTER_BIAS
} pl_tensor_kind_t;

/* Where a tensor belongs, and what it must look like. */
typedef struct pl_tensor_place {
    char name[128]; /* Hugging Face's */
    pl_tensor_kind_t kind;
    int32_t rows, cols; /* a vector: 1 row */
    pl_tensor_t *tensor;

    /* A routed expert's matrix is also rows first_row .. first_row+rows-1 of
     * [expert] of a tensor [n_experts][fused_rows][cols]. */
    char fused[128]; /* that tensor's name; "": there is none */
    int32_t expert, fused_rows, first_row;
} pl_tensor_place_t;

typedef pl_status_t (*pl_tensor_visit_t)(void *context,
                                         const pl_tensor_place_t *place);

/* Call visit for each tensor of the config, in a fixed order, until one
 * fails.  Not for a tied head. */
PL_MUST_CHECK pl_status_t pl_weights_each(const pl_model_config_t *config,
                                          pl_weights_t *weights,
                                          pl_tensor_visit_t visit,
                                          void *context);

/* What the tensors' bytes lie in. */
struct pl_weights_memory {
    PL_ARRAY(pl_safetensors_t *) files;
    PL_ARRAY(void *) buffers;
};

/* Weights without bytes; pl_weights_close() frees them. */
PL_MUST_CHECK pl_status_t pl_weights_make(const pl_model_config_t *config,
                                          pl_weights_t **weights_p);

/* n_bytes that live as long as the weights. */
PL_MUST_CHECK pl_status_t pl_weights_buffer(pl_weights_t *weights,
                                            size_t n_bytes, void **buffer_p);

#endif /* PL_MODEL_WEIGHTS_INTERNAL_H */
