/* kernels/forward_rows.cuh - what the forward pass does to rows between its
 * products, in as few passes as it can.
 *
 * Launchers as in kernels.h: they queue and return.  A row's result depends on
 * that row alone, in an order that its width alone decides.
 */
#ifndef PL_KERNELS_FORWARD_ROWS_CUH
#define PL_KERNELS_FORWARD_ROWS_CUH

#include <stdint.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* h[i] = row tokens[i] of embed, rows of embed_stride. */
pl_status_t pl_rows_embed(const void *embed, pl_cuda_dtype_t dtype,
                          size_t embed_stride, const int32_t *tokens, int32_t n,
                          int32_t hidden, float *h, pl_cuda_stream_t stream);

/* out = RMS norm of x, as pl_rms_norm, in `dtype`; and the same as float32 in
 * also, rows of out_stride, unless that is NULL. */
pl_status_t pl_rows_norm(const float *w, float eps, const float *x,
                         size_t x_stride, int32_t n, int32_t width, void *out,
                         pl_cuda_dtype_t dtype, size_t out_stride, float *also,
                         pl_cuda_stream_t stream);

/* A row of the layer's first product: [q_lora] [kv_lora] [rope] and, with an
 * indexer, [index_dim] [index_heads]. */
typedef struct pl_rows_in {
    int32_t q_lora, kv_lora, rope, index_dim, index_heads;
    int32_t width;
    bool has_index, interleaved; /* the index's rotation */
} pl_rows_in_t;

typedef struct pl_rows_norms {
    const float *kv_a;
    float eps;
    const float *index_k, *index_k_bias; /* with an indexer */
} pl_rows_norms_t;

/* Rows as they are to be stored: kv [n][kv_lora + rope] normed and rotated, as
 * pl_rms_norm and (the same bits) pl_rope_interleaved; keys [n][index_dim] as
 * pl_layer_norm and one of the two rotations.  cosines, sines [n][rope / 2]. */
pl_status_t pl_rows_to_store(const pl_rows_in_t *form,
                             const pl_rows_norms_t *norms, const float *in,
                             int32_t n, const float *cosines,
                             const float *sines, float *kv, float *keys,
                             pl_cuda_stream_t stream);

/* Queries of n tokens: q [n][heads][nope + rope] parted into nope (of `dtype`,
 * heads of nope_stride) and rope (rotated).  With an indexer index_q
 * [n][index_heads][index_dim] is rotated in place, and its weights, times
 * index_scale, come out of `in` to index_weights [n][index_heads]. */
typedef struct pl_rows_queries {
    int32_t heads, nope;
    size_t nope_stride;
    const float *q, *in;
    void *q_nope;
    float *q_rope, *index_q, *index_weights;
    float index_scale;
} pl_rows_queries_t;
pl_status_t pl_rows_part_queries(const pl_rows_in_t *form,
                                 const pl_rows_queries_t *queries,
                                 pl_cuda_dtype_t dtype, int32_t n,
                                 const float *cosines, const float *sines,
                                 pl_cuda_stream_t stream);

/* n rows of `width` as bf16, rows of to_stride. */
pl_status_t pl_rows_to_bf16(const float *x, int64_t n, int32_t width, void *to,
                            size_t to_stride, pl_cuda_stream_t stream);

/* out[i][c] = silu(gate_up[i][c]) * gate_up[i][width + c] in `dtype`. */
pl_status_t pl_rows_silu(const float *gate_up, int32_t n, int32_t width,
                         void *out, pl_cuda_dtype_t dtype, size_t out_stride,
                         pl_cuda_stream_t stream);

/* y += x, n values. */
pl_status_t pl_rows_add(float *y, const float *x, int64_t n,
                        pl_cuda_stream_t stream);

/* As pl_greedy. */
pl_status_t pl_rows_greedy(const float *logits, int32_t n, int32_t *token,
                           pl_cuda_stream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* PL_KERNELS_FORWARD_ROWS_CUH */
