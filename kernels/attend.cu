/* Sparse MLA attention in absorbed form: one query's heads over its selected
 * rows.
 *
 * bf16 and fp8 stores at 512 + 64: tensor cores.  A block has one query and 64
 * heads; tiles of 64 selected rows come in as bf16, the next one while the last
 * is worked on.  Each of the two warpgroups makes the tile's logits and their
 * softmax for itself and sums its own half of the 512 latent dimensions: the
 * products are made twice, and nothing has to be passed between the two.
 *
 * Everything else: float32, one block a query and head. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "launch.cuh"
#include "wgmma.cuh"

namespace
{

constexpr int LATENT  = 512;
constexpr int ROPE    = 64;
constexpr int BLOCKS  = (LATENT + ROPE) / 64; /* columns of 64 */
constexpr int HEADS   = 64;
constexpr int ROWS    = 64; /* of a tile */
constexpr int THREADS = 256;
constexpr int HALF    = LATENT / 2; /* of a warpgroup */
constexpr int PART    = 64 * 128;   /* bytes of 64 rows of a column block */
constexpr int TILE    = BLOCKS * PART;
constexpr int SHARED  = 3 * TILE + 1024; /* queries, two tiles, alignment */

__device__ uint32_t two_bf16(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);

    return *(uint32_t *)&both;
}

__device__ void put_shared(uint32_t address, uint4 v)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

__device__ uint4 eight_bf16(const float *from)
{
    float4 a = __ldg((const float4 *)from);
    float4 b = __ldg((const float4 *)from + 1);

    return make_uint4(two_bf16(a.x, a.y), two_bf16(a.z, a.w),
                      two_bf16(b.x, b.y), two_bf16(b.z, b.w));
}

/* The queries of 64 heads as bf16; piece p of a head is its values 8p to 8p+7.
 */
__device__ void load_queries(const float *q_latent, const float *q_rope,
                             uint32_t to)
{
    constexpr int PIECES = (LATENT + ROPE) / 8;

    for (int i = (int)threadIdx.x; i < HEADS * PIECES; i += THREADS) {
        int head = i / PIECES, piece = i % PIECES;
        const float *from = piece < LATENT / 8
                                ? q_latent + head * LATENT + piece * 8
                                : q_rope + head * ROPE + piece * 8 - LATENT;

        put_shared(to + (uint32_t)(piece / 8) * PART +
                       pl_swizzled(head, piece % 8),
                   eight_bf16(from));
    }
}

__device__ const uint8_t *row_of(const pl_cuda_view_t &view, int32_t position)
{
    int32_t page = position / view.form.page_tokens;
    int32_t row  = position - page * view.form.page_tokens;

    return view.bytes + (size_t)__ldg(view.rows + page) * view.stride +
           (size_t)row * (size_t)view.form.key_bytes;
}

/* ---- tiles of bf16 rows: copied as they are ---- */

__device__ void copy_piece(uint32_t to, const void *from, bool is_there)
{
    int n = is_there ? 16 : 0; /* else zeros */

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "r"(n)
                 : "memory");
}

__device__ void fetch_bf16(const pl_cuda_view_t &view, const int32_t *positions,
                           int32_t n, uint32_t to)
{
    /* Four threads a row, so that a row's pieces are read side by side. */
    const int row       = (int)threadIdx.x / 4;
    const bool is_there = row < n;
    const uint8_t *from =
        row_of(view, is_there ? __ldg(positions + row) : __ldg(positions));

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int piece = (int)threadIdx.x % 4 + i * 4;

            copy_piece(to + (uint32_t)b * PART + pl_swizzled(row, piece),
                       from + b * 128 + piece * 16, is_there);
        }
    }
}

/* ---- tiles of fp8 rows: read, then made bf16 ---- */

struct fp8_piece_t {
    uint4 codes[LATENT / 16 / 4]; /* of a quarter of a row */
    float scales[LATENT / 128];
    uint4 rope[2];
};

/* Thread t: pieces of 16 codes t % 4, t % 4 + 4, ... of row t / 4. */
__device__ void fetch_fp8(const pl_cuda_view_t &view, const int32_t *positions,
                          int32_t n, fp8_piece_t *held)
{
    const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;
    const uint4 *from;

    if (row >= n) {
        *held = {};
        return;
    }
    from = (const uint4 *)row_of(view, __ldg(positions + row));
#pragma unroll
    for (int i = 0; i < LATENT / 16 / 4; i++) {
        held->codes[i] = __ldg(from + i * 4 + part);
    }
    *(uint4 *)held->scales = __ldg(from + LATENT / 16);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        held->rope[i] = __ldg(from + LATENT / 16 + 1 + i * 4 + part);
    }
}

__device__ uint2 four_bf16(uint32_t codes, float scale)
{
    __half2_raw low =
        __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3);
    __half2_raw high = __nv_cvt_fp8x2_to_halfraw2(
        (__nv_fp8x2_storage_t)(codes >> 16), __NV_E4M3);
    float2 a = __half22float2(low), b = __half22float2(high);

    return make_uint2(two_bf16(a.x * scale, a.y * scale),
                      two_bf16(b.x * scale, b.y * scale));
}

__device__ void put_fp8(const fp8_piece_t &held, uint32_t to)
{
    const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;

#pragma unroll
    for (int i = 0; i < LATENT / 16 / 4; i++) {
        const int at      = i * 4 + part; /* of 16 values */
        const float scale = held.scales[i / 2];
        const uint2 a     = four_bf16(held.codes[i].x, scale);
        const uint2 b     = four_bf16(held.codes[i].y, scale);
        const uint2 c     = four_bf16(held.codes[i].z, scale);
        const uint2 d     = four_bf16(held.codes[i].w, scale);
        const uint32_t in = to + (uint32_t)(at / 4) * PART;

        put_shared(in + pl_swizzled(row, (at % 4) * 2),
                   make_uint4(a.x, a.y, b.x, b.y));
        put_shared(in + pl_swizzled(row, (at % 4) * 2 + 1),
                   make_uint4(c.x, c.y, d.x, d.y));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        put_shared(to + (BLOCKS - 1) * PART + pl_swizzled(row, i * 4 + part),
                   held.rope[i]);
    }
}

/* ---- a tile's work ---- */

/* What a thread knows of its two heads, g and g + 8 of its warp's 16. */
struct state_t {
    float out[HALF / 2]; /* 64 heads x 256 dimensions over 128 threads */
    float most[2], sum[2];
};

__device__ void make_logits(float (&logits)[32], uint32_t queries,
                            uint32_t tile)
{
    pl_wgmma_begin();
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t at = (uint32_t)b * PART + (uint32_t)k * 32;

            pl_wgmma_64x64(logits, pl_descriptor(queries + at, 16, 1024),
                           pl_descriptor(tile + at, 16, 1024), b + k > 0);
        }
    }
    pl_wgmma_end();
}

/* Softmax so far: logits become weights, relative to the largest yet. */
__device__ void weigh(state_t *state, float (&logits)[32], float scale,
                      int32_t n)
{
    const int lane = (int)(threadIdx.x % 32);
    float most[2]  = {state->most[0], state->most[1]};
    float shrink[2];

#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int row = (i / 4) * 8 + (lane % 4) * 2 + i % 2;

        logits[i]         = row < n ? logits[i] * scale : -INFINITY;
        most[(i / 2) % 2] = fmaxf(most[(i / 2) % 2], logits[i]);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h]        = fmaxf(most[h], __shfl_xor_sync(~0U, most[h], 1));
        most[h]        = fmaxf(most[h], __shfl_xor_sync(~0U, most[h], 2));
        shrink[h]      = exp2f(state->most[h] - most[h]);
        state->most[h] = most[h];
        state->sum[h] *= shrink[h];
    }
#pragma unroll
    for (int i = 0; i < 32; i++) {
        logits[i] = exp2f(logits[i] - most[(i / 2) % 2]);
        state->sum[(i / 2) % 2] += logits[i];
    }
    if (__any_sync(~0U, (shrink[0] < 1.0F) || (shrink[1] < 1.0F))) {
#pragma unroll
        for (int i = 0; i < HALF / 2; i++) {
            state->out[i] *= shrink[(i / 2) % 2];
        }
    }
}

__device__ void add_rows(state_t *state, const float (&weights)[32],
                         uint32_t tile)
{
    uint32_t a[ROWS / 16][4];

#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[k][i] =
                two_bf16(weights[k * 8 + i * 2], weights[k * 8 + i * 2 + 1]);
        }
    }
    pl_wgmma_begin();
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
        pl_wgmma_64x256(
            state->out, a[k],
            pl_descriptor(tile + (uint32_t)k * 16 * 128, PART, 1024));
    }
    pl_wgmma_end();
}

__device__ void write_out(const state_t &state, float *out)
{
    const int lane = (int)(threadIdx.x % 32);
    const int warp = (int)(threadIdx.x % 128) / 32;
    float part[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = state.sum[h];

        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        part[h] = 1.0F / sum;
    }
#pragma unroll
    for (int i = 0; i < HALF / 2; i += 2) {
        const int head = warp * 16 + lane / 4 + ((i / 2) % 2) * 8;
        const int d    = (i / 4) * 8 + (lane % 4) * 2;

        *(float2 *)(out + head * LATENT + d) =
            make_float2(state.out[i] * part[(i / 2) % 2],
                        state.out[i + 1] * part[(i / 2) % 2]);
    }
}

template <bool is_fp8>
__global__ void __launch_bounds__(THREADS, 1)
    attend_tiles(pl_cuda_view_t view, const float *q_latent,
                 const float *q_rope, int32_t n_heads, float scale,
                 const int32_t *positions, const int32_t *n_positions,
                 int32_t most, float *out)
{
    extern __shared__ uint8_t memory[];
    const uint32_t queries =
        ((uint32_t)__cvta_generic_to_shared(memory) + 1023) / 1024 * 1024;
    const uint32_t tiles = queries + TILE;
    const int32_t n      = n_positions[blockIdx.x];
    const size_t head =
        (size_t)blockIdx.x * (size_t)n_heads + (size_t)blockIdx.y * HEADS;
    const int half = (int)(threadIdx.x / 128);
    state_t state  = {};
    fp8_piece_t held;

    positions += (size_t)blockIdx.x * (size_t)most;
    state.most[0] = state.most[1] = -INFINITY;
    if (is_fp8) {
        fetch_fp8(view, positions, min(n, ROWS), &held);
    } else {
        fetch_bf16(view, positions, min(n, ROWS), tiles);
    }
    load_queries(q_latent + head * LATENT, q_rope + head * ROPE, queries);
    for (int32_t first = 0, turn = 0; first < n; first += ROWS, turn ^= 1) {
        const int32_t rest   = n - first;
        const uint32_t tile  = tiles + (uint32_t)turn * TILE;
        const uint32_t other = tiles + (uint32_t)(turn ^ 1) * TILE;
        float logits[32];

        if (is_fp8) {
            put_fp8(held, tile);
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        pl_wgmma_publish();
        __syncthreads(); /* the tile is whole, the other one free */
        if (rest > ROWS) {
            if (is_fp8) {
                fetch_fp8(view, positions + first + ROWS,
                          min(rest - ROWS, ROWS), &held);
            } else {
                fetch_bf16(view, positions + first + ROWS,
                           min(rest - ROWS, ROWS), other);
            }
        }
        make_logits(logits, queries, tile);
        weigh(&state, logits, scale * 1.44269504F, rest);
        add_rows(&state, logits, tile + (uint32_t)half * 4 * PART);
    }
    write_out(state, out + head * LATENT + half * HALF);
}

/* ---- float32 ---- */

struct row_reader_t {
    pl_row_layout_t layout;
    int32_t scales, rope; /* where they begin in an fp8 row */

    explicit row_reader_t(const pl_row_layout_t &of)
        : layout(of), scales((of.kv_lora + 3) / 4 * 4),
          rope(scales + (of.kv_lora + 127) / 128 * 4)
    {
    }

    __device__ float value(const uint8_t *row, int32_t d) const
    {
        switch (layout.dtype) {
        case PL_KV_F32:
            return ((const float *)row)[d];
        case PL_KV_BF16:
            return __bfloat162float(((const __nv_bfloat16 *)row)[d]);
        case PL_KV_FP8:
        default:
            if (d >= layout.kv_lora) {
                return __bfloat162float(
                    ((const __nv_bfloat16 *)(row + rope))[d - layout.kv_lora]);
            }
            return __half2float(__nv_cvt_fp8_to_halfraw(row[d], __NV_E4M3)) *
                   ((const float *)(row + scales))[d / 128];
        }
    }
};

constexpr int PLAIN = 128;

__device__ float block_sum(float value, float *sums, bool is_max)
{
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);

#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        float other = __shfl_xor_sync(~0U, value, by);

        value = is_max ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (lane == 0) {
        sums[warp] = value;
    }
    __syncthreads();
    value = sums[0];
    for (int w = 1; w < PLAIN / 32; w++) {
        value = is_max ? fmaxf(value, sums[w]) : value + sums[w];
    }
    return value;
}

__global__ void attend_plain(pl_cuda_view_t view, row_reader_t reader,
                             const float *q_latent, const float *q_rope,
                             int32_t n_heads, float scale,
                             const int32_t *positions,
                             const int32_t *n_positions, int32_t most,
                             float *out)
{
    extern __shared__ float weights[]; /* [most] */
    __shared__ float sums[PLAIN / 32];
    const int32_t kv = reader.layout.kv_lora, rope = reader.layout.rope;
    const int32_t n   = n_positions[blockIdx.x];
    const int lane    = (int)(threadIdx.x % 32);
    const size_t head = (size_t)blockIdx.x * (size_t)n_heads + blockIdx.y;
    float largest = -INFINITY, sum = 0.0F;

    positions += (size_t)blockIdx.x * (size_t)most;
    q_latent += head * (size_t)kv;
    q_rope += head * (size_t)rope;
    for (int32_t i = (int32_t)threadIdx.x / 32; i < n; i += PLAIN / 32) {
        const uint8_t *row = row_of(view, positions[i]);
        float product      = 0.0F;

        for (int32_t d = lane; d < kv + rope; d += 32) {
            product = fmaf(d < kv ? q_latent[d] : q_rope[d - kv],
                           reader.value(row, d), product);
        }
#pragma unroll
        for (int by = 16; by > 0; by /= 2) {
            product += __shfl_xor_sync(~0U, product, by);
        }
        if (lane == 0) {
            weights[i] = product * scale;
        }
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += PLAIN) {
        largest = fmaxf(largest, weights[i]);
    }
    largest = block_sum(largest, sums, true);
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += PLAIN) {
        weights[i] = expf(weights[i] - largest);
        sum += weights[i];
    }
    sum = block_sum(sum, sums, false);
    for (int32_t d = (int32_t)threadIdx.x; d < kv; d += PLAIN) {
        float mixed = 0.0F;

        for (int32_t i = 0; i < n; i++) {
            mixed = fmaf(weights[i],
                         reader.value(row_of(view, positions[i]), d), mixed);
        }
        out[head * (size_t)kv + (size_t)d] = mixed / sum;
    }
}

bool takes_tensor_cores(const pl_cuda_view_t *view,
                        const pl_row_layout_t *layout, int32_t n_heads)
{
    return (layout->dtype != PL_KV_F32) && (layout->kv_lora == LATENT) &&
           (layout->rope == ROPE) && (n_heads % HEADS == 0) &&
           (view->stride % 16 == 0) && ((uintptr_t)view->bytes % 16 == 0);
}

} // namespace

pl_status_t pl_cuda_attend(const pl_cuda_view_t *latent,
                           const pl_row_layout_t *layout, const float *q_latent,
                           const float *q_rope, int32_t n_heads, float scale,
                           const int32_t *positions, const int32_t *n_positions,
                           int32_t n, int32_t most, float *out,
                           pl_cuda_stream_t stream)
{
    const bool is_fp8 = layout->dtype == PL_KV_FP8;

    if ((n < 0) || (n_heads < 1) || (most < 1)) {
        return PL_ERR_ARGUMENT;
    }
    if (n == 0) {
        return PL_OK;
    }
    if (takes_tensor_cores(latent, layout, n_heads)) {
        auto kernel = is_fp8 ? attend_tiles<true> : attend_tiles<false>;

        if (!(is_fp8 ? pl_allow_shared<attend_tiles<true>>()
                     : pl_allow_shared<attend_tiles<false>>())) {
            return PL_ERR_DEVICE;
        }
        kernel<<<dim3((unsigned)n, (unsigned)(n_heads / HEADS)), THREADS,
                 SHARED, stream>>>(*latent, q_latent, q_rope, n_heads, scale,
                                   positions, n_positions, most, out);
    } else {
        /* in whole vectors, which is how the compiler may read them */
        const size_t bytes = (size_t)pl_ceil_div(most, 4) * sizeof(float4);

        if (!pl_allow_shared<attend_plain>()) {
            return PL_ERR_DEVICE;
        }
        attend_plain<<<dim3((unsigned)n, (unsigned)n_heads), PLAIN, bytes,
                       stream>>>(*latent, row_reader_t(*layout), q_latent,
                                 q_rope, n_heads, scale, positions, n_positions,
                                 most, out);
    }
    return pl_launched();
}
