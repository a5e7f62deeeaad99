/* What a layer does besides products and attention: norms, rotations, SiLU.
 * One block a row, sums in an order that the row's length alone decides. */
#include "launch.cuh"

namespace {

constexpr int THREADS          = 256;
constexpr float LAYER_NORM_EPS = 1e-6F;

/* Sum over the block, the same on every thread. */
__device__ float block_sum(float value)
{
    __shared__ float sums[THREADS / 32];
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);

#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        value += __shfl_xor_sync(~0U, value, by);
    }
    __syncthreads(); /* the sums of the last call have been read */
    if (lane == 0) {
        sums[warp] = value;
    }
    __syncthreads();
    value = 0.0F;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) {
        value += sums[w];
    }
    return value;
}

__global__ void __launch_bounds__(THREADS)
    rms_norm(const float *w, float eps, const float *x, size_t x_stride,
             int32_t n, float *y, size_t y_stride)
{
    const float *from = x + blockIdx.x * x_stride;
    float *to         = y + blockIdx.x * y_stride;
    float sum = 0.0F, factor;

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        sum = fmaf(from[i], from[i], sum);
    }
    factor = 1.0F / sqrtf(block_sum(sum) / (float)n + eps);
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        to[i] = w[i] * (from[i] * factor);
    }
}

__global__ void __launch_bounds__(THREADS)
    layer_norm(const float *w, const float *bias, float *x, int32_t n)
{
    float *row = x + (size_t)blockIdx.x * (size_t)n;
    float sum = 0.0F, squares = 0.0F, mean, factor;

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        sum += row[i];
    }
    mean = block_sum(sum) / (float)n;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        squares = fmaf(row[i] - mean, row[i] - mean, squares);
    }
    factor = 1.0F / sqrtf(block_sum(squares) / (float)n + LAYER_NORM_EPS);
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        row[i] = (row[i] - mean) * factor * w[i] + bias[i];
    }
}

/* One thread a pair. */
__global__ void rotate(float *x, size_t row_stride, int32_t n_heads,
                       size_t head_stride, int32_t half, bool interleaved,
                       const float *cosines, const float *sines)
{
    const int32_t i = (int32_t)(blockIdx.y * blockDim.x + threadIdx.x);
    const int32_t head = i / half, pair = i - head * half;
    const size_t angle = (size_t)blockIdx.x * (size_t)half + (size_t)pair;
    float *at;
    int32_t first, second;
    float a, b;

    if (head >= n_heads) {
        return;
    }
    at     = x + blockIdx.x * row_stride + (size_t)head * head_stride;
    first  = interleaved ? 2 * pair : pair;
    second = interleaved ? 2 * pair + 1 : pair + half;
    a      = at[first];
    b      = at[second];
    /* Rounded step by step, as the plain C version: no fused product. */
    at[first]  = __fsub_rn(__fmul_rn(a, cosines[angle]),
                           __fmul_rn(b, sines[angle]));
    at[second] = __fadd_rn(__fmul_rn(b, cosines[angle]),
                           __fmul_rn(a, sines[angle]));
}

__global__ void silu_product(float *gate, const float *up, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n) {
        gate[i] = gate[i] / (1.0F + expf(-gate[i])) * up[i];
    }
}

} // namespace

pl_status_t pl_cuda_rms_norm(const float *w, float eps, const float *x,
                             size_t x_stride, int32_t n, int32_t width,
                             float *y, size_t y_stride, pl_cuda_stream_t stream)
{
    if ((n < 0) || (width < 1)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        rms_norm<<<(unsigned)n, THREADS, 0, stream>>>(w, eps, x, x_stride,
                                                      width, y, y_stride);
    }
    return pl_launched();
}

pl_status_t pl_cuda_layer_norm(const float *w, const float *bias, float *x,
                               int32_t n, int32_t width,
                               pl_cuda_stream_t stream)
{
    if ((n < 0) || (width < 1)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        layer_norm<<<(unsigned)n, THREADS, 0, stream>>>(w, bias, x, width);
    }
    return pl_launched();
}

pl_status_t pl_cuda_rope(float *x, size_t row_stride, int32_t n,
                         int32_t n_heads, size_t head_stride, int32_t dim,
                         bool interleaved, const float *cosines,
                         const float *sines, pl_cuda_stream_t stream)
{
    if ((n < 0) || (n_heads < 1) || (dim < 2) || (dim % 2 != 0)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        const int64_t pairs = (int64_t)n_heads * (dim / 2);

        rotate<<<dim3((unsigned)n, (unsigned)pl_ceil_div(pairs, THREADS)),
                 THREADS, 0, stream>>>(x, row_stride, n_heads, head_stride,
                                       dim / 2, interleaved, cosines, sines);
    }
    return pl_launched();
}

pl_status_t pl_cuda_silu_product(float *gate, const float *up, int64_t n,
                                 pl_cuda_stream_t stream)
{
    if (n < 0) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        silu_product<<<(unsigned)pl_ceil_div(n, THREADS), THREADS, 0,
                       stream>>>(gate, up, n);
    }
    return pl_launched();
}
