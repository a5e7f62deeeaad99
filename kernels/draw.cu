/* Random weights where they are used: the bits of model/weights_random.c.  No
 * step is rounded but the last one: the sum of integers is exact, and the scale
 * has few enough bits that its product is. */
#include "launch.cuh"
#include "values.cuh"

namespace
{

constexpr int THREADS        = 256;
constexpr uint64_t GOLDEN    = UINT64_C(0x9E3779B97F4A7C15);
constexpr int32_t SUM_OF_ALL = 12 * 65535 / 2; /* the mean of a sum */

__device__ uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 27;
    x *= UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

__device__ int32_t sum_of_words(uint64_t word)
{
    return (int32_t)((word & 0xFFFF) + (word >> 16 & 0xFFFF) +
                     (word >> 32 & 0xFFFF) + (word >> 48));
}

__device__ float drawn(const pl_drawing_t &drawing, uint64_t i)
{
    int32_t sum = -SUM_OF_ALL;

#pragma unroll
    for (uint64_t k = 1; k <= 3; k++) {
        sum += sum_of_words(mix(drawing.stream + GOLDEN * (3 * i + k)));
    }
    return (float)((double)drawing.mean +
                   (double)drawing.scale * (sum * 0x1p-16));
}

template <typename value_t>
__global__ void draw(pl_drawing_t drawing, int32_t cols, value_t *to,
                     size_t to_stride)
{
    const size_t row = blockIdx.x;

    for (int32_t c = (int32_t)threadIdx.x; c < cols; c += THREADS) {
        pl_put(to + row * to_stride + c,
               drawn(drawing, row * (size_t)cols + (size_t)c));
    }
}

} // namespace

pl_status_t pl_cuda_draw(const pl_drawing_t *drawing, int32_t rows,
                         int32_t cols, void *to, size_t to_stride,
                         pl_cuda_dtype_t dtype, pl_cuda_stream_t stream)
{
    if ((rows < 1) || (cols < 1)) {
        return PL_ERR_ARGUMENT;
    }
    if (dtype == PL_CUDA_BF16) {
        draw<<<(unsigned)rows, THREADS, 0, stream>>>(
            *drawing, cols, (__nv_bfloat16 *)to, to_stride);
    } else {
        draw<<<(unsigned)rows, THREADS, 0, stream>>>(*drawing, cols,
                                                     (float *)to, to_stride);
    }
    return pl_launched();
}
