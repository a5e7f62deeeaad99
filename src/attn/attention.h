/* attn/attention.h - lightning indexer, exact top-k, sparse MLA attention.
 *
 * Query tokens over a view of all rows of their request: what a row
 * computes depends on that row alone, in an order of operations that does not
 * know the batch, the chunk, the ranks or the place of the pages.  Float32.
 * Pure functions; scratch is the caller's.
 */
#ifndef PL_ATTN_ATTENTION_H
#define PL_ATTN_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "attn/rows.h"
#include "attn/view.h"

/* Queries of one request, n >= 1.  Together they are faster than one by one: a
 * stored key is decoded once for several. */
typedef struct pl_index_queries {
    const float *q;       /* [n][n_heads][dim] */
    const float *weights; /* [n][n_heads] */
    int32_t n, n_heads;
    float scale;
    const int32_t *n_keys; /* [n] */
} pl_index_queries_t;

/* Scores of keys 0 .. n_keys[i]-1 for each query i:
 *
 *   score(i, s) = sum_h weights[i][h] * relu(scale * q[i][h] . key(s))
 *
 * Heads are summed in ascending order, dimensions in a fixed one.  The scores
 * of query i begin at scores + i * stride; what lies behind its n_keys[i]
 * stays. */
void pl_index_scores(const pl_view_t *index, const pl_row_layout_t *layout,
                     const pl_index_queries_t *queries, float *scores,
                     size_t stride);

/* The k best of n scores in the total order: higher score first, then lower
 * position; -0.0 counts as 0.0; NaN as -inf.  Writes min(k, n) positions in
 * ascending order of position and returns how many.  Deterministic; O(n).
 * scratch: n uint32. */
int32_t pl_topk(const float *scores, int32_t n, int32_t k, uint32_t *scratch,
                int32_t *positions);

/* Absorbed MLA over selected rows, one query, all heads:
 *
 *   logit(h, s) = scale * (q_latent[h] . c_s + q_rope[h] . r_s)
 *   out[h] = sum_s softmax_s(logit(h, .)) c_s          [n_heads][kv_lora]
 *
 * Positions ascend, n_positions >= 1.  scratch: at least pl_attend_scratch()
 * floats. */
void pl_attend(const pl_view_t *latent, const pl_row_layout_t *layout,
               const float *q_latent, const float *q_rope, int32_t n_heads,
               float scale, const int32_t *positions, int32_t n_positions,
               float *scratch, float *out);
size_t pl_attend_scratch(const pl_row_layout_t *layout, int32_t n_heads,
                         int32_t n_positions);

#endif /* PL_ATTN_ATTENTION_H */
