/* Rows between products: norms, rotations, what is parted and made bf16. */
#include "forward_rows.cuh"

#include "launch.cuh"
#include "values.cuh"

namespace
{

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

/* ---- embeddings and norms ---- */

template <typename value_t>
__global__ void embed_rows(const value_t *embed, size_t stride,
                           const int32_t *tokens, int32_t hidden, float *h)
{
    const value_t *row = embed + (size_t)tokens[blockIdx.x] * stride;
    float *to          = h + blockIdx.x * (size_t)hidden;

    for (int32_t c = (int32_t)threadIdx.x; c < hidden; c += THREADS) {
        to[c] = pl_get(row + c);
    }
}

__device__ float norm_factor(const float *x, int32_t width, float eps)
{
    float sum = 0.0F;

    for (int32_t c = (int32_t)threadIdx.x; c < width; c += THREADS) {
        sum = fmaf(x[c], x[c], sum);
    }
    return 1.0F / sqrtf(block_sum(sum) / (float)width + eps);
}

template <typename value_t>
__global__ void __launch_bounds__(THREADS)
    norm_rows(const float *w, float eps, const float *x, size_t x_stride,
              int32_t width, value_t *out, size_t out_stride, float *also)
{
    const float *row   = x + blockIdx.x * x_stride;
    const float factor = norm_factor(row, width, eps);

    for (int32_t c = (int32_t)threadIdx.x; c < width; c += THREADS) {
        const float value = w[c] * (row[c] * factor);

        pl_put(out + blockIdx.x * out_stride + c, value);
        if (also != nullptr) {
            also[blockIdx.x * out_stride + c] = value;
        }
    }
}

/* ---- rotations ---- */

/* A pair turned, rounded step by step as on the host: no fused product. */
__device__ float2 turned(float a, float b, float cosine, float sine)
{
    return make_float2(__fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)),
                       __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine)));
}

/* Pair `pair` of from comes to `to`; they may be the same. */
__device__ void turn(const float *from, float *to, int32_t pair, int32_t half,
                     bool interleaved, float cosine, float sine)
{
    const int32_t first  = interleaved ? 2 * pair : pair;
    const int32_t second = interleaved ? first + 1 : pair + half;
    const float2 both    = turned(from[first], from[second], cosine, sine);

    to[first]  = both.x;
    to[second] = both.y;
}

/* ---- rows to store ---- */

__device__ void layer_norm(const float *from, const float *w, const float *bias,
                           int32_t n, float *to)
{
    float sum = 0.0F, squares = 0.0F, mean, factor;

    for (int32_t c = (int32_t)threadIdx.x; c < n; c += THREADS) {
        sum += from[c];
    }
    mean = block_sum(sum) / (float)n;
    for (int32_t c = (int32_t)threadIdx.x; c < n; c += THREADS) {
        squares = fmaf(from[c] - mean, from[c] - mean, squares);
    }
    factor = 1.0F / sqrtf(block_sum(squares) / (float)n + LAYER_NORM_EPS);
    for (int32_t c = (int32_t)threadIdx.x; c < n; c += THREADS) {
        to[c] = (from[c] - mean) * factor * w[c] + bias[c];
    }
}

__global__ void __launch_bounds__(THREADS)
    rows_to_store(pl_rows_in_t form, pl_rows_norms_t norms, const float *in,
                  const float *cosines, const float *sines, float *kv,
                  float *keys)
{
    const int32_t half  = form.rope / 2;
    const size_t row    = blockIdx.x;
    const float *latent = in + row * (size_t)form.width + form.q_lora;
    const float *rope   = latent + form.kv_lora;
    float *to           = kv + row * (size_t)(form.kv_lora + form.rope);
    float *key          = keys + row * (size_t)form.index_dim;
    const float factor  = norm_factor(latent, form.kv_lora, norms.eps);

    cosines += row * (size_t)half;
    sines += row * (size_t)half;
    for (int32_t c = (int32_t)threadIdx.x; c < form.kv_lora; c += THREADS) {
        to[c] = norms.kv_a[c] * (latent[c] * factor);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < half; i += THREADS) {
        turn(rope, to + form.kv_lora, i, half, true, cosines[i], sines[i]);
    }
    if (!form.has_index) {
        return;
    }
    layer_norm(rope + form.rope, norms.index_k, norms.index_k_bias,
               form.index_dim, key);
    __syncthreads(); /* the key is whole */
    for (int32_t i = (int32_t)threadIdx.x; i < half; i += THREADS) {
        turn(key, key, i, half, form.interleaved, cosines[i], sines[i]);
    }
}

/* ---- queries ---- */

/* A block a token and some of its heads: heads of attention, then of the
 * indexer. */
template <typename value_t>
__global__ void part_queries(pl_rows_in_t form, pl_rows_queries_t queries,
                             const float *cosines, const float *sines)
{
    const int32_t half = form.rope / 2;
    const size_t token = blockIdx.x;
    const int32_t head = (int32_t)(blockIdx.y * blockDim.y + threadIdx.y);

    cosines += token * (size_t)half;
    sines += token * (size_t)half;
    if (head < queries.heads) {
        const size_t at = token * (size_t)queries.heads + (size_t)head;
        const float *q  = queries.q + at * (size_t)(queries.nope + form.rope);
        value_t *nope   = (value_t *)queries.q_nope + at * queries.nope_stride;
        float *rope     = queries.q_rope + at * (size_t)form.rope;

        for (int32_t c = (int32_t)threadIdx.x; c < queries.nope; c += 32) {
            pl_put(nope + c, q[c]);
        }
        for (int32_t i = (int32_t)threadIdx.x; i < half; i += 32) {
            turn(q + queries.nope, rope, i, half, true, cosines[i], sines[i]);
        }
    } else if (form.has_index && (head < queries.heads + form.index_heads)) {
        const int32_t h = head - queries.heads;
        const size_t at = token * (size_t)form.index_heads + (size_t)h;
        float *q        = queries.index_q + at * (size_t)form.index_dim;
        const float *weights =
            queries.in + (token + 1) * (size_t)form.width - form.index_heads;

        for (int32_t i = (int32_t)threadIdx.x; i < half; i += 32) {
            turn(q, q, i, half, form.interleaved, cosines[i], sines[i]);
        }
        if (threadIdx.x == 0) {
            queries.index_weights[at] = weights[h] * queries.index_scale;
        }
    }
}

/* ---- values ---- */

__global__ void to_bf16(const float *x, int32_t width, __nv_bfloat16 *to,
                        size_t to_stride)
{
    const size_t row = blockIdx.x;

    for (int32_t c = (int32_t)threadIdx.x; c < width; c += (int)blockDim.x) {
        to[row * to_stride + c] =
            __float2bfloat16_rn(x[row * (size_t)width + c]);
    }
}

template <typename value_t>
__global__ void silu_rows(const float *gate_up, int32_t width, value_t *out,
                          size_t out_stride)
{
    const size_t row  = blockIdx.x;
    const int32_t c   = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    const float *gate = gate_up + row * 2 * (size_t)width;

    if (c < width) {
        const float g = gate[c];

        pl_put(out + row * out_stride + c,
               g / (1.0F + expf(-g)) * gate[width + c]);
    }
}

__global__ void add(float *y, const float *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n) {
        y[i] += x[i];
    }
}

/* ---- the greedy token ---- */

constexpr int JUDGES = 1024;

struct best_t {
    float value;
    int32_t at;
};

__device__ best_t better(best_t a, best_t b)
{
    return (b.value > a.value) || ((b.value == a.value) && (b.at < a.at)) ? b
                                                                          : a;
}

__device__ best_t warp_best(best_t best)
{
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        const best_t other = {__shfl_xor_sync(~0U, best.value, by),
                              __shfl_xor_sync(~0U, best.at, by)};

        best = better(best, other);
    }
    return best;
}

/* One block.  NaN and -inf are never taken; if there is nothing else, 0. */
__global__ void __launch_bounds__(JUDGES)
    greedy(const float *logits, int32_t n, int32_t *token)
{
    __shared__ best_t of_warps[JUDGES / 32];
    best_t best = {-INFINITY, INT32_MAX};

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += JUDGES) {
        if (logits[i] > best.value) {
            best = {logits[i], i};
        }
    }
    best = warp_best(best);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = best;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        best = warp_best(of_warps[threadIdx.x]);
        if (threadIdx.x == 0) {
            *token = best.at == INT32_MAX ? 0 : best.at;
        }
    }
}

} // namespace

pl_status_t pl_rows_embed(const void *embed, pl_cuda_dtype_t dtype,
                          size_t embed_stride, const int32_t *tokens, int32_t n,
                          int32_t hidden, float *h, pl_cuda_stream_t stream)
{
    if (dtype == PL_CUDA_BF16) {
        embed_rows<<<(unsigned)n, THREADS, 0, stream>>>(
            (const __nv_bfloat16 *)embed, embed_stride, tokens, hidden, h);
    } else {
        embed_rows<<<(unsigned)n, THREADS, 0, stream>>>(
            (const float *)embed, embed_stride, tokens, hidden, h);
    }
    return pl_launched();
}

pl_status_t pl_rows_norm(const float *w, float eps, const float *x,
                         size_t x_stride, int32_t n, int32_t width, void *out,
                         pl_cuda_dtype_t dtype, size_t out_stride, float *also,
                         pl_cuda_stream_t stream)
{
    if (dtype == PL_CUDA_BF16) {
        norm_rows<<<(unsigned)n, THREADS, 0, stream>>>(
            w, eps, x, x_stride, width, (__nv_bfloat16 *)out, out_stride, also);
    } else {
        norm_rows<<<(unsigned)n, THREADS, 0, stream>>>(
            w, eps, x, x_stride, width, (float *)out, out_stride, also);
    }
    return pl_launched();
}

pl_status_t pl_rows_to_store(const pl_rows_in_t *form,
                             const pl_rows_norms_t *norms, const float *in,
                             int32_t n, const float *cosines,
                             const float *sines, float *kv, float *keys,
                             pl_cuda_stream_t stream)
{
    rows_to_store<<<(unsigned)n, THREADS, 0, stream>>>(
        *form, *norms, in, cosines, sines, kv, keys);
    return pl_launched();
}

pl_status_t pl_rows_part_queries(const pl_rows_in_t *form,
                                 const pl_rows_queries_t *queries,
                                 pl_cuda_dtype_t dtype, int32_t n,
                                 const float *cosines, const float *sines,
                                 pl_cuda_stream_t stream)
{
    constexpr int HEADS = 8; /* of a block: a warp each */
    const int32_t heads =
        queries->heads + (form->has_index ? form->index_heads : 0);
    const dim3 grid((unsigned)n, (unsigned)pl_ceil_div(heads, HEADS));

    if (dtype == PL_CUDA_BF16) {
        part_queries<__nv_bfloat16><<<grid, dim3(32, HEADS), 0, stream>>>(
            *form, *queries, cosines, sines);
    } else {
        part_queries<float><<<grid, dim3(32, HEADS), 0, stream>>>(
            *form, *queries, cosines, sines);
    }
    return pl_launched();
}

pl_status_t pl_rows_to_bf16(const float *x, int64_t n, int32_t width, void *to,
                            size_t to_stride, pl_cuda_stream_t stream)
{
    to_bf16<<<(unsigned)n, 128, 0, stream>>>(x, width, (__nv_bfloat16 *)to,
                                             to_stride);
    return pl_launched();
}

pl_status_t pl_rows_silu(const float *gate_up, int32_t n, int32_t width,
                         void *out, pl_cuda_dtype_t dtype, size_t out_stride,
                         pl_cuda_stream_t stream)
{
    const dim3 grid((unsigned)n, (unsigned)pl_ceil_div(width, THREADS));

    if (dtype == PL_CUDA_BF16) {
        silu_rows<<<grid, THREADS, 0, stream>>>(
            gate_up, width, (__nv_bfloat16 *)out, out_stride);
    } else {
        silu_rows<<<grid, THREADS, 0, stream>>>(gate_up, width, (float *)out,
                                                out_stride);
    }
    return pl_launched();
}

pl_status_t pl_rows_add(float *y, const float *x, int64_t n,
                        pl_cuda_stream_t stream)
{
    add<<<(unsigned)pl_ceil_div(n, THREADS), THREADS, 0, stream>>>(y, x, n);
    return pl_launched();
}

pl_status_t pl_rows_greedy(const float *logits, int32_t n, int32_t *token,
                           pl_cuda_stream_t stream)
{
    greedy<<<1, JUDGES, 0, stream>>>(logits, n, token);
    return pl_launched();
}
