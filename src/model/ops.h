/* model/ops.h - the arithmetic of a layer besides attention.
 *
 * Every result row is computed in an order of operations that depends on that
 * row alone: the same bits whether it is computed in a batch of one or of a
 * thousand (no blocking over rows shows), whatever the width of the machine's
 * vectors: attn/kernels.h has the order.  Float32.  Pure functions.
 */
#ifndef PL_MODEL_OPS_H
#define PL_MODEL_OPS_H

#include <stdint.h>

#include "model/config.h"
#include "model/weights.h"

/* y[i][o] = w row (first_row + o) . x[i], o < n_rows.  x [n][w->cols] with
 * x_stride floats from row to row, y [n][n_rows] with y_stride.  `scratch`: at
 * least w->cols floats.  Any dtype of w. */
void pl_linear(const pl_tensor_t *w, int32_t first_row, int32_t n_rows,
               const float *x, int32_t n, int32_t x_stride, float *scratch,
               float *y, int32_t y_stride);

/* y[i][c] = sum_r x[i][r] * w[first_row + r][c] (the transpose's product:
 * absorbs keys into queries).  x [n][n_rows], y [n][w->cols]. */
void pl_linear_transposed(const pl_tensor_t *w, int32_t first_row,
                          int32_t n_rows, const float *x, int32_t n,
                          int32_t x_stride, float *scratch, float *y,
                          int32_t y_stride);

/* y = w * (x * rsqrt(mean(x^2) + eps)); one row.  x == y is allowed. */
void pl_rms_norm(const pl_tensor_t *w, float eps, const float *x, float *y);
/* Layer norm with weight and bias, biased variance, eps 1e-6; one row. */
void pl_layer_norm(const pl_tensor_t *w, const pl_tensor_t *bias,
                   const float *x, float *y);

/* Angles of one position: cos and sin of [dim / 2] frequencies, times the
 * attention factor, as Hugging Face computes them (YaRN included). */
void pl_rope_frequencies(const pl_rope_t *rope, int32_t dim,
                         float *frequencies);
void pl_rope_angles(const pl_rope_t *rope, const float *frequencies,
                    int32_t dim, int32_t position, float *cosines,
                    float *sines);
/* Rotate `dim` values in place: pairs (2i, 2i+1), or (i, i + dim/2). */
void pl_rope_interleaved(float *x, int32_t dim, const float *cosines,
                         const float *sines);
void pl_rope_half_split(float *x, int32_t dim, const float *cosines,
                        const float *sines);

/* y[i] += MLP(x[i]): down(silu(gate x) * up x).  x, y [n][hidden]. */
typedef struct pl_mlp_scratch {
    float *row;       /* [longest row of any weight] */
    float *gate, *up; /* [n][width] */
} pl_mlp_scratch_t;
void pl_mlp(const pl_mlp_weights_t *mlp, const float *x, int32_t n,
            int32_t hidden, float scale, const pl_mlp_scratch_t *scratch,
            float *y);

/* Which experts a token goes to: group-limited sigmoid routing.  experts
 * [experts_per_token] ascending, weights likewise.  x [hidden]; scratch at
 * least hidden + 3 * n_experts floats. */
void pl_route(const pl_model_config_t *config, const pl_tensor_t *router,
              const pl_tensor_t *bias, const float *x, float *scratch,
              int32_t *experts, float *weights);

/* Pairs (token, expert) sorted by expert, stably: a counting sort.  order
 * [n * k] out: pair indices (token * k + j); starts [n_experts + 1] out. */
void pl_expert_sort(const int32_t *experts, int32_t n_pairs, int32_t n_experts,
                    int32_t *order, int32_t *starts);

#endif /* PL_MODEL_OPS_H */
