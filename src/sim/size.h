/* sim/size.h - what of a model's KV fits on which hardware.
 *
 * Of a group of C context-parallel ranks, a GPU each, under three ways to own
 * the pages of the cache:
 *
 *   replicated   every rank keeps every page
 *   shared       every page is kept once, in the lane of one rank (zigzag); a
 *                rank reads a layer through a view of the whole request
 *   layer-split  every rank keeps a run of layers of every page; the others
 *                read them through a copy that holds one layer of all pages
 *
 * docs/size.md has the formulas, their sources, and what is not counted.  Pure
 * arithmetic in integers: the same on every machine.  Sizes are bytes of one
 * GPU or rank, unless a name says otherwise.
 */
#ifndef PL_SIM_SIZE_H
#define PL_SIM_SIZE_H

#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/status.h>

#include "attn/rows.h"
#include "model/census.h"
#include "model/config.h"
#include "sim/hardware.h"

#define PL_SIZE_WHOLE INT64_C(1000000000) /* of mem_billionths */

typedef struct pl_size_params {
    const pl_model_config_t *model;
    const pl_hardware_t *hardware;
    int32_t cp;              /* C, 1 .. PL_MAX_RANKS */
    int32_t ep;              /* GPUs that share the experts, 1 .. n_experts */
    int32_t tp;              /* GPUs that split all else; 0: 1 */
    pl_kv_dtype_t kv_dtype;  /* of the cache */
    pl_dtype_t weight_dtype; /* PL_BF16 or PL_F8_E4M3 */
    int32_t mtp_layers;      /* counted in; n_layers + them <= PL_MAX_LAYERS */
    int64_t mem_billionths;  /* share of the memory for weights and KV */
    int64_t host_bytes;      /* of a rank; 0: no host tier */
    int32_t context_tokens;  /* of a session, 1 .. max_positions */
    int32_t page_tokens;     /* 1 .. PL_MAX_PAGE_TOKENS */
} pl_size_params_t;

/* What one tier holds. */
typedef struct pl_size_tier {
    int64_t pages;          /* of a rank; on the device one is scratch */
    int64_t tokens;         /* of the group, each counted once */
    int64_t longest_tokens; /* one prompt alone, at most max_positions */
    int64_t sessions;       /* of context_tokens, at the same time */
} pl_size_tier_t;

enum {
    PL_SIZE_REPLICATED,
    PL_SIZE_SHARED,
    PL_SIZE_LAYER_SPLIT,
    PL_SIZE_OWNERSHIPS
};

typedef struct pl_size_ownership {
    int64_t page_bytes; /* that one of its pages takes on a rank */
    int64_t view_bytes; /* scratch to read what others keep */
    pl_size_tier_t device, host;
} pl_size_ownership_t;

typedef struct pl_size {
    pl_census_t census;                  /* of the model, one copy */
    int64_t gpu_weights[PL_PARTS];       /* bytes */
    int64_t latent_layers, index_layers; /* MTP included */
    int64_t latent_token_bytes, index_token_bytes, mtp_token_bytes;
    int64_t token_bytes;  /* all of them */
    int64_t weight_bytes; /* of gpu_weights */
    int64_t budget_bytes; /* memory for weights and KV */
    int64_t kv_bytes;     /* what the weights leave; below 0: so much is
                             missing, and the tiers are all 0 */
    pl_size_ownership_t ownership[PL_SIZE_OWNERSHIPS];
} pl_size_t;

/* Bytes of a page, as the pool lays it, in all layers of the model and of
 * multi-token prediction. */
int64_t pl_size_page_bytes(const pl_model_config_t *model,
                           pl_kv_dtype_t kv_dtype, int32_t page_tokens,
                           int32_t mtp_layers);
/* The most of it that one of n_ranks ranks has if each keeps a run of layers;
 * the model's and mtp_layers are PL_MAX_LAYERS at most. */
int64_t pl_size_run_bytes(const pl_model_config_t *model,
                          pl_kv_dtype_t kv_dtype, int32_t page_tokens,
                          int32_t mtp_layers, int n_ranks);

/* PL_SIZE_ of a rule. */
int pl_size_which(pl_ownership_kind_t kind);

/* PL_OK, also if the weights do not fit; or PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_size_make(const pl_size_params_t *params,
                                       pl_size_t *size_p);

/* The fewest GPUs, in whole groups, to share the experts so that the weights
 * fit and leave something; 0: so many do not help. */
int32_t pl_size_least_ep(const pl_size_params_t *params, const pl_size_t *size);

#endif /* PL_SIM_SIZE_H */
