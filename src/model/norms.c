#include <math.h>

#include "attn/kernels.h"
#include "model/ops.h"
#include "model/tensor.h"

#define PIECE          256 /* weights made float32 at a time */
#define LAYER_NORM_EPS 1e-6F

void pl_rms_norm(const pl_tensor_t *w, float eps, const float *x, float *y)
{
    const int32_t n = w->cols;
    float mean      = pl_kernels()->square_sum(x, n, 0.0F) / (float)n;
    float factor    = 1.0F / sqrtf(mean + eps);
    float weights[PIECE];

    for (int32_t c = 0; c < n; c += PIECE) {
        int32_t piece = n - c < PIECE ? n - c : PIECE;

        pl_tensor_part(w, 0, c, piece, weights);
        for (int32_t i = 0; i < piece; i++) {
            y[c + i] = weights[i] * (x[c + i] * factor);
        }
    }
}

void pl_layer_norm(const pl_tensor_t *w, const pl_tensor_t *bias,
                   const float *x, float *y)
{
    const int32_t n = w->cols;
    float mean      = pl_kernels()->sum(x, n, 0.0F) / (float)n;
    float variance  = pl_kernels()->square_sum(x, n, mean) / (float)n;
    float factor    = 1.0F / sqrtf(variance + LAYER_NORM_EPS);
    float weights[PIECE], offsets[PIECE];

    for (int32_t c = 0; c < n; c += PIECE) {
        int32_t piece = n - c < PIECE ? n - c : PIECE;

        pl_tensor_part(w, 0, c, piece, weights);
        pl_tensor_part(bias, 0, c, piece, offsets);
        for (int32_t i = 0; i < piece; i++) {
            y[c + i] = (x[c + i] - mean) * factor * weights[i] + offsets[i];
        }
    }
}
