/* sample_ops.h - random values and weights. */
#ifndef SAMPLE_OPS_H
#define SAMPLE_OPS_H

#include "base/rng.h"
#include "model/weights.h"

/* n of them, uniform in [-1, 1); the caller frees. */
float *sample_floats(pl_rng_t *rng, size_t n);
/* Uniform in first .. last. */
int32_t sample_between(pl_rng_t *rng, int32_t first, int32_t last);

/* Random weights of a dtype, at an address of no alignment, and the same as
 * float32. */
typedef struct sample_weights {
    pl_tensor_t tensor;
    float *values; /* [rows][cols] */
    float *scale;
    uint8_t *bytes;
} sample_weights_t;

sample_weights_t sample_weights_open(pl_rng_t *rng, pl_dtype_t dtype,
                                     int32_t rows, int32_t cols);
void sample_weights_close(sample_weights_t *weights);

#endif /* SAMPLE_OPS_H */
