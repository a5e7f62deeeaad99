/* model/transformer_internal.h - what the parts of a forward pass share.
 *
 *   transformer.c            memory, the order of things, logits
 *   transformer_attention.c  queries, selection, attention
 *   transformer_mlp.c        dense layers and experts
 *
 * Tokens are computed in tiles where a value per token is large; rows do not
 * know of tiles (model/ops.h), so that the tile is a matter of memory alone.
 */
#ifndef PL_MODEL_TRANSFORMER_INTERNAL_H
#define PL_MODEL_TRANSFORMER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "model/ops.h"
#include "model/transformer.h"

#define PL_FORWARD_TILE   64 /* tokens */
#define PL_FORWARD_SCORED 8  /* tokens whose scores are held at a time */

typedef struct pl_host_forward {
    pl_forward_t forward;
    const pl_model_config_t *config;
    const pl_weights_t *weights;
    const pl_log_t *log;
    pl_row_layout_t rows;
    pl_selected_t selected;
    void *selected_context;
    float *frequencies; /* [rope / 2] */

    int32_t room_tokens, room_positions;
    void *memory; /* everything below */

    /* the tokens of the step */
    int32_t n;
    int32_t layer;          /* whose kv was computed last, or -1 */
    int32_t *positions;     /* [n] */
    float *h;               /* [n][hidden] */
    float *x;               /* [n][hidden], normed */
    float *cosines, *sines; /* [n][rope / 2] */
    float *kv;              /* [n][kv_lora + rope], as it is to be stored */
    float *keys;            /* [n][index_dim], likewise */
    int32_t *selection;     /* [n][select_room], ascending */
    int32_t *n_selected;    /* [n] */
    int32_t *everything;    /* [select_room] 0, 1, 2, ... */
    int32_t select_room;    /* min(index_topk, room_positions) */

    /* a tile */
    float *q_resid;           /* [tile][q_lora] */
    float *q;                 /* [tile][n_heads][nope + rope] */
    float *q_latent, *latent; /* [tile][n_heads][kv_lora]: in, out */
    float *q_rope;            /* [tile][n_heads][rope] */
    float *values;            /* [tile][n_heads][v_dim] */
    float *index_q;           /* [tile][index_heads][index_dim] */
    float *index_weights;     /* [tile][index_heads] */
    float *out;               /* [tile][hidden] */
    float *gathered;          /* [tile][hidden] */
    float *gate, *up;         /* [tile][the widest MLP] */

    /* a token */
    float *row;     /* [the longest row of any weight] */
    float *route;   /* scratch of pl_route */
    float *attend;  /* scratch of pl_attend */
    float *logits;  /* [vocab_size] where nobody wants them */
    float *scores;  /* [PL_FORWARD_SCORED][room_positions] */
    uint32_t *topk; /* [room_positions] scratch of pl_topk */

    /* experts */
    float *moe;            /* [n][hidden] */
    int32_t *experts;      /* [n][experts_per_token] */
    float *expert_weights; /* likewise */
    int32_t *order;        /* [n * experts_per_token] */
    int32_t *starts;       /* [n_experts + 1] */
} pl_host_forward_t;

static inline float *pl_forward_row(float *rows, int32_t i, int32_t width)
{
    return rows + (size_t)i * (size_t)width;
}

/* Rotate the first dimensions of an index query or key: the indexer's layout
 * belongs to the family. */
static inline void pl_forward_rotate_index(const pl_model_config_t *config,
                                           float *x, const float *cosines,
                                           const float *sines)
{
    if (config->family == PL_FAMILY_GLM_MOE_DSA) {
        pl_rope_interleaved(x, config->rope, cosines, sines);
    } else {
        pl_rope_half_split(x, config->rope, cosines, sines);
    }
}

/* h += attention(x) for tokens first .. first + n - 1, at most a tile. */
void pl_forward_attention(pl_host_forward_t *forward, int32_t layer,
                          int32_t first, int32_t n, const pl_view_t *latent,
                          const pl_view_t *index);

/* h += MLP(norm(h)) for all tokens. */
void pl_forward_mlp(pl_host_forward_t *forward, int32_t layer);

/* Selected positions of token i, ascending. */
const int32_t *pl_forward_selection(const pl_host_forward_t *forward, int32_t i,
                                    int32_t *n_p);

#endif /* PL_MODEL_TRANSFORMER_INTERNAL_H */
