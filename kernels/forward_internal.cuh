/* kernels/forward_internal.cuh - what the parts of a GPU's forward pass share.
 *
 *   forward.cu         memory, what the host hands over, the order of things
 *   forward_layers.cu  a layer: rows to store, attention, experts
 *   forward_rows.cu    kernels on rows between products
 *   weights.cu         the weights, shared by all forwards on a GPU
 *
 * As on the host tokens are computed in tiles where a value per token is large,
 * and rows do not know of tiles.  The memory of a tile is bounded: that of
 * attention by ATTENTION_TILE tokens and SCORE_TILE rows of scores, that of
 * experts by MLP_TILE tokens; the two lie in the same place.
 */
#ifndef PL_KERNELS_FORWARD_INTERNAL_CUH
#define PL_KERNELS_FORWARD_INTERNAL_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include "device.cuh"
#include "forward_rows.cuh"
#include "profile.cuh"
#include "weights.cuh"

extern "C" {
#include "model/transformer.h"
}

constexpr int32_t ATTENTION_TILE = 1024;
constexpr int32_t SCORE_TILE     = 256;
constexpr int32_t MLP_TILE       = 4096; /* experts are read once a tile */

/* Values of the host on their way to the GPU.  Two pinned copies take turns, so
 * that one can be filled while the other is still read. */
struct pl_staged_t {
    uint8_t *pinned[2];
    uint8_t *device;
    cudaEvent_t done[2]; /* the pinned copy has been read */
    int turn;            /* which was filled last */
    size_t held;         /* bytes of it that the GPU has */
};

/* The arrays of a step: all tokens. */
struct pl_gpu_step_t {
    float *h;            /* [n][hidden] */
    void *x;             /* [n][widths.hidden], normed */
    float *x_f32;        /* the same, where x is bf16 */
    float *in;           /* [n][widths.in]: the layer's first product */
    float *kv, *keys;    /* rows to store */
    int32_t *selection;  /* [n][select_room] */
    int32_t *n_selected; /* [n] */
};

/* A tile of attention. */
struct pl_gpu_attention_t {
    void *q_resid;            /* [n][widths.q_lora] */
    float *q;                 /* [n][heads][nope + rope] */
    void *q_nope;             /* [n][heads][widths.nope] */
    float *q_rope;            /* [n][heads][rope] */
    float *index_q;           /* [n][index_heads][index_dim] */
    float *index_weights;     /* [n][index_heads] */
    float *q_latent, *latent; /* [n][heads][kv_lora] */
    void *latent_bf16;        /* [n][heads][widths.latent] */
    void *values;             /* [n][widths.values] */
    float *scores;            /* [SCORE_TILE][score_stride] */
};

/* A tile of experts, or of a dense layer. */
struct pl_gpu_mixture_t {
    float *gate_up;           /* [n][2 * width] dense and shared */
    void *act;                /* [n][its padded width] */
    float *logits;            /* [n][n_experts] */
    int32_t *experts, *order; /* [n][per_token] */
    float *weights;           /* [n][per_token] */
    int32_t *starts;          /* [n_experts + 1] */
    int32_t *sort;            /* scratch */
    void *pair_act;           /* [n * per_token][widths.expert] */
    float *pair_out;          /* [n * per_token][hidden] */
    float *sum;               /* [n][hidden] */
};

struct pl_gpu_forward_t {
    pl_forward_t forward; /* first */
    pl_device_t *device;
    cudaStream_t stream;
    const pl_model_config_t *config;
    const pl_log_t *log;
    pl_gpu_weights_t *weights;
    pl_cuda_dtype_t dtype; /* of products */
    pl_row_layout_t rows;
    float *frequencies; /* [rope / 2] of the host */
    pl_selected_t selected;
    void *selected_context;

    int32_t room_tokens, room_positions, select_room;
    size_t score_stride;
    void *memory, *pinned;
    int32_t *host_positions; /* [room_tokens] */

    /* from the host */
    pl_staged_t tokens; /* of a step: see pl_gpu_tokens_t */
    pl_staged_t to_rows;
    pl_staged_t maps[2]; /* of the latent view, of the index view */

    int32_t n;
    int32_t layer; /* whose kv was computed last, or -1 */
    pl_gpu_step_t step;
    pl_gpu_attention_t attention;
    pl_gpu_mixture_t mixture;
    float *logits;       /* [vocab_size] */
    int32_t *token;      /* the greedy one */
    int32_t *host_token; /* pinned */
};

/* The parts of what `tokens` brings. */
struct pl_gpu_tokens_t {
    int32_t *tokens, *n_keys; /* [n] */
    float *cosines, *sines;   /* [n][rope / 2] */
};

static inline pl_gpu_tokens_t pl_gpu_tokens(const pl_gpu_forward_t *forward,
                                            void *at)
{
    const size_t n    = (size_t)forward->n;
    const size_t half = (size_t)(forward->config->rope / 2);
    pl_gpu_tokens_t parts;

    parts.tokens  = (int32_t *)at;
    parts.n_keys  = parts.tokens + n;
    parts.cosines = (float *)(parts.n_keys + n);
    parts.sines   = parts.cosines + n * half;
    return parts;
}

template <typename T>
static inline T *pl_row_at(T *rows, int32_t i, size_t width)
{
    return rows + (size_t)i * width;
}

/* Row i of rows of `width` products' operands. */
static inline void *pl_operand_at(const pl_gpu_forward_t *forward, void *rows,
                                  int32_t i, size_t width)
{
    return (uint8_t *)rows + (size_t)i * width * pl_item_bytes(forward->dtype);
}

/* What was queued went well; else one line that names it. */
static inline pl_status_t pl_queued(const pl_gpu_forward_t *forward,
                                    pl_status_t status, const char *what)
{
    return pl_cuda_device_launched(forward->device, PL_STREAM_COMPUTE, status,
                                   what);
}

/* What is queued from here on is such work. */
static inline void pl_now(const pl_gpu_forward_t *forward, pl_work_t work)
{
    (void)pl_cuda_mark(forward->device, PL_STREAM_COMPUTE, work);
}

/* Queue a product. */
static inline pl_status_t pl_multiply(const pl_gpu_forward_t *forward, int plan,
                                      const void *w, const void *x, int32_t n,
                                      void *y, bool adds, const char *what)
{
    return pl_queued(forward,
                     pl_cuda_product(forward->weights->products, plan, w, x, n,
                                     y, adds, forward->stream),
                     what);
}

/* ---- forward_layers.cu ---- */

/* Rows to store of all tokens. */
PL_MUST_CHECK pl_status_t pl_gpu_make_kv(pl_gpu_forward_t *forward,
                                         int32_t layer);
/* h += attention for tokens first .. first + n - 1, at most a tile. */
PL_MUST_CHECK pl_status_t pl_gpu_attention(pl_gpu_forward_t *forward,
                                           int32_t layer, int32_t first,
                                           int32_t n,
                                           const pl_cuda_view_t *latent,
                                           const pl_cuda_view_t *index);
/* h += MLP for such tokens. */
PL_MUST_CHECK pl_status_t pl_gpu_mlp(pl_gpu_forward_t *forward, int32_t layer,
                                     int32_t first, int32_t n);

#endif /* PL_KERNELS_FORWARD_INTERNAL_CUH */
