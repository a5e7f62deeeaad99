/* exec/model_internal.h - a request computed cold; shared by model.c and
 * model_cold.c. */
#ifndef PL_EXEC_MODEL_INTERNAL_H
#define PL_EXEC_MODEL_INTERNAL_H

#include "exec/model.h"
#include "model/transformer.h"

/* A forward of the source, or the host's if it has none. */
PL_MUST_CHECK pl_status_t pl_model_forward(const pl_model_params_t *params,
                                           pl_forward_t **forward_p);

/* Tokens that the model knows: PL_ERR_INPUT with one line if not. */
PL_MUST_CHECK pl_status_t pl_model_check_tokens(const pl_model_params_t *params,
                                                int32_t request, int32_t first,
                                                const int32_t *tokens,
                                                int32_t n);

/* What a cold computation keeps between its pieces; {0} is closed. */
typedef struct pl_model_cold {
    pl_device_t *device; /* borrowed */
    pl_forward_t *forward;
    pl_store_t store; /* memory of the device: pages in order, of this request
                         alone */
    int32_t *slots;   /* [page] the identity */
    int32_t *tokens;  /* [piece] */
    int32_t *positions;
    int32_t *rows;
    int32_t room; /* tokens in the store */
} pl_model_cold_t;

/* One piece more of `cold` (exec/compute.h).  PL_ERR_MEMORY, PL_ERR_INPUT, what
 * the device says. */
PL_MUST_CHECK pl_status_t pl_model_cold_piece(const pl_model_params_t *params,
                                              pl_model_cold_t *state,
                                              pl_cold_t *cold);
void pl_model_cold_close(pl_model_cold_t *state);

#endif /* PL_EXEC_MODEL_INTERNAL_H */
