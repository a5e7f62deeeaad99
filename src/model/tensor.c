#include "model/tensor.h"

#include <string.h>

#include "attn/kernels.h"

#define SCALE_BLOCK 128 /* rows and columns that share a scale */

static void part_e4m3(const pl_tensor_t *tensor, const uint8_t *row, int32_t r,
                      int32_t first, int32_t n, float *out)
{
    const pl_kernels_t *kernels = pl_kernels();
    const float *scales =
        tensor->scale + (size_t)(r / SCALE_BLOCK) * (size_t)tensor->scale_cols;

    while (n > 0) {
        int32_t room  = SCALE_BLOCK - first % SCALE_BLOCK;
        int32_t count = n < room ? n : room;
        float scale;

        memcpy(&scale, scales + first / SCALE_BLOCK, sizeof(scale));
        kernels->from_e4m3(row + first, count, scale, out);
        first += count;
        out += count;
        n -= count;
    }
}

void pl_tensor_part(const pl_tensor_t *tensor, int32_t r, int32_t first,
                    int32_t n, float *out)
{
    const size_t row     = (size_t)r * (size_t)tensor->cols;
    const size_t at      = row + (size_t)first;
    const uint8_t *bytes = tensor->bytes;

    switch (tensor->dtype) {
    case PL_F32:
        memcpy(out, bytes + at * sizeof(float), (size_t)n * sizeof(float));
        break;
    case PL_BF16:
        pl_kernels()->from_bf16(bytes + at * sizeof(uint16_t), n, out);
        break;
    case PL_F16:
        pl_kernels()->from_f16(bytes + at * sizeof(uint16_t), n, out);
        break;
    case PL_F8_E4M3:
        part_e4m3(tensor, bytes + row, r, first, n, out);
        break;
    case PL_DRAWN:
        for (int32_t i = 0; i < n; i++) {
            out[i] = pl_drawn_value(&tensor->drawing, at + (size_t)i);
        }
        break;
    }
}
