/* Drives forward passes as ranks do: each computes some tokens of a chunk and
 * reads the rows of all from a store of pages in disorder. */
#ifndef PL_TESTS_FORWARD_RIG_H
#define PL_TESTS_FORWARD_RIG_H

#include "base/rng.h"
#include "model/transformer.h"
#include "pool/store.h"

#define RIG_RANKS 4

typedef struct rig {
    const pl_model_config_t *config;
    pl_forward_t *ranks[RIG_RANKS];
    pl_store_t store;
    int32_t *slots; /* [page] */
    int32_t n_tokens;
    int32_t *tokens; /* [n_tokens], borrowed */
    float *logits;   /* [n_tokens][vocab_size] */
    int32_t *owner;  /* [n_tokens] scratch: rank of a token */
    int32_t *local;  /* [n_tokens] scratch: its index there */
} rig_t;

/* Page places are drawn from rng; NULL: in order. */
rig_t *rig_open(const pl_model_config_t *config, const pl_weights_t *weights,
                pl_kv_dtype_t dtype, int32_t page_tokens, int32_t *tokens,
                int32_t n_tokens, pl_rng_t *rng);
void rig_close(rig_t *rig);

/* Tokens first .. first + n - 1, each on rank owner[position] (NULL: 0). */
void rig_chunk(rig_t *rig, int32_t first, int32_t n, const int32_t *owner);

const float *rig_logits(const rig_t *rig, int32_t position);

/* The stored rows of both are the same, byte for byte, wherever they lie. */
void rig_same_rows(const rig_t *a, const rig_t *b);

#endif /* PL_TESTS_FORWARD_RIG_H */
