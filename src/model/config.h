/* model/config.h - what config.json says of a model, checked.
 *
 * Two families: deepseek_v32 (DeepSeek-V3.2) and glm_moe_dsa (GLM-5 and later).
 * Numerics are those of Hugging Face transformers in float32, with its two
 * surprises: the norms of the q and kv latents use eps 1e-6 whatever
 * rms_norm_eps says, and the indexer's rope layout belongs to the family
 * (GLM: interleaved pairs; DeepSeek: half-split), whatever the file says.
 */
#ifndef PL_MODEL_CONFIG_H
#define PL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef enum pl_family {
    PL_FAMILY_DEEPSEEK_V32,
    PL_FAMILY_GLM_MOE_DSA
} pl_family_t;

typedef struct pl_rope {
    double theta;
    bool yarn;
    double factor, beta_fast, beta_slow, mscale, mscale_all_dim;
    int32_t original_positions;
    double attention_factor; /* cosines and sines are multiplied by it: 1, but
                                for yarn with mscale != mscale_all_dim */
} pl_rope_t;

#define PL_MAX_LAYERS 512
#define PL_MAX_EOS    16

typedef struct pl_model_config {
    pl_family_t family;
    int32_t vocab_size, hidden, n_layers;
    int32_t n_heads;
    int32_t q_lora, kv_lora;                    /* ranks of the latents */
    int32_t nope, rope, v_dim;                  /* per head; rope is even */
    int32_t index_heads, index_dim, index_topk; /* index_dim >= rope */
    int32_t dense_width;                        /* intermediate_size */
    int32_t expert_width;                       /* moe_intermediate_size */
    int32_t n_experts, n_shared, experts_per_token;
    int32_t n_group, topk_group;
    bool norm_topk; /* norm_topk_prob */
    float routed_scale;
    float norm_eps;        /* rms_norm_eps */
    float latent_norm_eps; /* 1e-6 */
    int32_t max_positions;
    bool tied; /* tie_word_embeddings: the head is the embedding */
    pl_rope_t rope_params;
    float softmax_scale; /* (nope + rope)^-0.5, times mscale^2 for yarn */
    bool sparse_mlp[PL_MAX_LAYERS];   /* layer has experts */
    bool full_indexer[PL_MAX_LAYERS]; /* layer has an indexer; else it reuses
                                         the last full layer's selection */
    int32_t eos[PL_MAX_EOS];          /* all below vocab_size */
    int32_t n_eos;
} pl_model_config_t;

/* Read and check DIR/config.json, or the file itself.  An unknown architecture,
 * rope type, activation or layer type, or sizes that do not go together, are
 * named with file, field and remedy: PL_ERR_INPUT.
 *
 * Sizes of tensors must be in the file.  Absent options have the defaults of
 * Hugging Face's class of the family (n_group, topk_group, rms_norm_eps,
 * norm_topk_prob, routed_scaling_factor, first_k_dense_replace, beta_fast,
 * beta_slow); fields without a meaning here are passed over.  End-of-sequence
 * ids are those of generation_config.json beside it, else of config.json. */
PL_MUST_CHECK pl_status_t pl_model_config_read(const char *path,
                                               const pl_log_t *log,
                                               pl_model_config_t *config_p);

/* The same of a text; `name` is for messages.  There is no file beside it. */
PL_MUST_CHECK pl_status_t pl_model_config_parse(const char *name,
                                                const char *text,
                                                size_t n_bytes,
                                                const pl_log_t *log,
                                                pl_model_config_t *config_p);

#endif /* PL_MODEL_CONFIG_H */
