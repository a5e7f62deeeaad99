#include "sample_ops.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "attn/rows.h"

float *sample_floats(pl_rng_t *rng, size_t n)
{
    float *values = malloc((n > 0 ? n : 1) * sizeof(*values));

    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(pl_rng_unit(rng) * 2.0 - 1.0);
    }
    return values;
}

int32_t sample_between(pl_rng_t *rng, int32_t first, int32_t last)
{
    return first + (int32_t)pl_rng_below(rng, (uint64_t)(last - first) + 1);
}

/* Value (r, c) as it is stored, and what it is then. */
static float store_value(sample_weights_t *w, int32_t r, int32_t c, float value)
{
    const pl_tensor_t *tensor = &w->tensor;
    size_t at                 = (size_t)r * (size_t)tensor->cols + (size_t)c;
    uint8_t *bytes            = w->bytes + 1;
    uint16_t half;

    switch (tensor->dtype) {
    case PL_F32:
        memcpy(bytes + at * sizeof(value), &value, sizeof(value));
        return value;
    case PL_BF16:
        half = pl_bf16_from_f32(value);
        memcpy(bytes + at * sizeof(half), &half, sizeof(half));
        return pl_bf16_to_f32(half);
    case PL_F16:
        half = (uint16_t)((value < 0.0F ? 0x8000 : 0) |
                          (0x3000 + (int)(value * value * 2000.0F)));
        memcpy(bytes + at * sizeof(half), &half, sizeof(half));
        return pl_f16_to_f32(half);
    default:
        bytes[at] = pl_e4m3_from_f32(value * 100.0F);
        return pl_e4m3_to_f32(bytes[at]) *
               w->scale[r / 128 * tensor->scale_cols + c / 128];
    }
}

sample_weights_t sample_weights_open(pl_rng_t *rng, pl_dtype_t dtype,
                                     int32_t rows, int32_t cols)
{
    size_t n           = (size_t)rows * (size_t)cols;
    int32_t scale_cols = (cols + 127) / 128;
    int32_t scale_rows = (rows + 127) / 128;
    sample_weights_t w = {
        .tensor = {.dtype      = dtype,
                   .rows       = rows,
                   .cols       = cols,
                   .scale_cols = dtype == PL_F8_E4M3 ? scale_cols : 0},
        .values = sample_floats(rng, n),
        .scale  = sample_floats(rng, (size_t)scale_cols * (size_t)scale_rows),
        .bytes  = malloc(n * sizeof(float) + 1)};

    ck_assert_ptr_nonnull(w.bytes);
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t c = 0; c < cols; c++) {
            float *value = &w.values[(size_t)r * (size_t)cols + (size_t)c];

            *value = store_value(&w, r, c, *value);
        }
    }
    w.tensor.bytes = w.bytes + 1;
    w.tensor.scale = dtype == PL_F8_E4M3 ? w.scale : NULL;
    return w;
}

void sample_weights_close(sample_weights_t *weights)
{
    free(weights->values);
    free(weights->scale);
    free(weights->bytes);
}
