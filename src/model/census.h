/* model/census.h - how many parameters and bytes a model's weights are.
 *
 * Counts exactly the tensors that a checkpoint of the config has
 * (model/weights.h), without opening one.  Layers of multi-token prediction
 * (MTP), which pagelane does not run, can be counted in: each is a layer with
 * experts and an indexer of its own, and the joint before it (eh_proj
 * [hidden][2 hidden] and three norms); embedding and head are the model's.
 *
 *   bf16  two bytes a parameter, four for the routers' bias
 *   fp8   a byte a parameter and one float32 scale for 128 x 128 of them, for
 *         the matrices that the published checkpoints convert: all but
 *         embedding, head, routers, indexer.weights_proj and eh_proj, which
 *         stay bf16 as the vectors do
 */
#ifndef PL_MODEL_CENSUS_H
#define PL_MODEL_CENSUS_H

#include <stdint.h>

#include <pagelane/status.h>

#include "model/config.h"
#include "model/weights.h"

typedef enum pl_part {
    PL_PART_EXPERTS,    /* routed experts */
    PL_PART_ATTENTION,  /* projections and latent norms */
    PL_PART_INDEXER,    /* on full layers */
    PL_PART_SHARED,     /* shared experts */
    PL_PART_LAYER,      /* dense MLPs, routers, norms of the layers */
    PL_PART_VOCABULARY, /* embedding, head, last norm */
    PL_PART_MTP,        /* the joints */
    PL_PARTS
} pl_part_t;

typedef struct pl_census {
    int64_t n_tensors;
    int64_t n_scales; /* tensors of scales beside them */
    int64_t parameters[PL_PARTS];
    int64_t bytes[PL_PARTS]; /* scales included */
    /* Of these, what tensor parallelism splits: by heads, by the width of an
     * MLP, by tokens of the vocabulary.  Experts are none of it. */
    int64_t split_parameters[PL_PARTS];
    int64_t split_bytes[PL_PARTS];
} pl_census_t;

/* dtype: PL_BF16 or PL_F8_E4M3; n_layers + mtp_layers <= PL_MAX_LAYERS.
 * PL_OK or PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_model_census(const pl_model_config_t *config,
                                          int32_t mtp_layers, pl_dtype_t dtype,
                                          pl_census_t *census_p);

/* Parameters or bytes of a part on each of tp GPUs that split it. */
int64_t pl_census_parameters(const pl_census_t *census, pl_part_t part,
                             int32_t tp);
int64_t pl_census_bytes(const pl_census_t *census, pl_part_t part, int32_t tp);

#endif /* PL_MODEL_CENSUS_H */
