/* attn/kernels.h - the inner loops of attention and of the layers, once per
 * vector width, with the same bits from each.
 *
 * What makes the bits equal: a lane of a vector is one result, so that a width
 * only says how many results are computed at a time; sums over a row have
 * PL_LANES partial sums whatever the width; nothing is contracted into fused
 * multiply-adds.  What makes a row's result independent of the other rows: each
 * value of a product is a sum over blocks of PL_DEPTH terms, blocks in
 * ascending order, the terms of a block one by one from 0.0 in ascending order;
 * who else is in the tile does not enter.
 *
 * Pure functions on float32 and on stored values.  Pointers into stored bytes
 * need no alignment.
 */
#ifndef PL_ATTN_KERNELS_H
#define PL_ATTN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PL_LANES 16  /* columns of a panel, and partial sums of a row */
#define PL_DEPTH 128 /* terms of a block */

typedef struct pl_kernels {
    const char *name;

    /* One block of a product: y[i][c] (+)= sum over t < k of x[i][t] *
     * panel[t][c], for i < m, c < columns <= PL_LANES; k <= PL_DEPTH.  `add`
     * adds the block's sum to what is there.  All PL_LANES values of a panel
     * row are read.  Strides in floats. */
    void (*product)(const float *x, size_t x_stride, int32_t m,
                    const float *panel, size_t panel_stride, int32_t k,
                    float *y, size_t y_stride, int32_t columns, bool add);

    /* Values first .. first+k-1 of PL_LANES rows of float32 become a panel
     * [k][PL_LANES], one row a lane. */
    void (*pack)(const void *const *rows, int32_t first, int32_t k,
                 float *panel);

    /* Stored values as float32; e4m3 times `scale`. */
    void (*from_e4m3)(const void *codes, int32_t n, float scale, float *out);
    void (*from_bf16)(const void *bits, int32_t n, float *out);
    void (*from_f16)(const void *bits, int32_t n, float *out);

    /* scores[c] += weights[h] * relu(scale * products[h][c]), h ascending,
     * c < PL_LANES. */
    void (*relu_sum)(const float *products, const float *weights, int32_t heads,
                     float scale, float *scores);

    /* Sums of n terms in PL_LANES partial sums: of x - shift, and of
     * (x - shift)^2. */
    float (*sum)(const float *x, int32_t n, float shift);
    float (*square_sum)(const float *x, int32_t n, float shift);

    void (*softmax)(float *x, int32_t n); /* in place, n >= 1 */
    /* gate = silu(gate) * up */
    void (*silu_product)(float *gate, const float *up, int32_t n);
} pl_kernels_t;

/* The widest this machine can run. */
const pl_kernels_t *pl_kernels(void);

/* All it can run, for tests: i = 0 is the plainest; NULL after the last. */
const pl_kernels_t *pl_kernels_at(int i);

#endif /* PL_ATTN_KERNELS_H */
