/* Lightning indexer: scores of all keys for each query.
 *
 * Keys stored as e4m3 and index_dim 128: tensor cores.  A warp holds the heads
 * of one query (32 of them; several warps if there are more) as float16 in
 * registers, each head divided by its largest value; a block's warps share
 * tiles of keys, which e4m3 -> float16 takes exactly.  Head factors and the sum
 * over heads are float32, in an order that is the same for all queries and
 * keys.
 *
 * Everything else: float32, one thread a key. */
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "launch.cuh"

namespace
{

constexpr int DIM     = 128;
constexpr int HEADS   = 32; /* of a warp */
constexpr int KEYS    = 64; /* of a tile */
constexpr int WARPS   = 8;
constexpr int THREADS = WARPS * 32;
constexpr int ROW     = DIM + 8; /* float16, padded against bank conflicts */
constexpr int STEPS   = DIM / 16;

struct tile_t {
    __half keys[KEYS * ROW];
    float scales[KEYS];
};

struct shared_t {
    tile_t tiles[2];
    float sums[2][WARPS][KEYS];
};

/* A key's codes on their way from memory to a tile: a quarter of a key each. */
struct fetched_t {
    uint4 codes[2];
    float scale;
};

__device__ const uint8_t *page_of(const pl_cuda_view_t &view, int32_t position,
                                  int32_t *row_p)
{
    int32_t page = position / view.form.page_tokens;

    *row_p = position - page * view.form.page_tokens;
    return view.bytes + (size_t)__ldg(view.rows + page) * view.stride;
}

__device__ float get_float(const uint8_t *from)
{
    uint32_t bits = 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        bits |= (uint32_t)from[i] << (8 * i);
    }
    return __uint_as_float(bits);
}

/* Thread t has part t % 4 of key t / 4 of the tile; keys beyond the last are
 * zero. */
__device__ fetched_t fetch(const pl_cuda_view_t &view, int32_t first,
                           int32_t n_keys)
{
    const int32_t position = first + (int32_t)threadIdx.x / 4;
    const int part         = (int)(threadIdx.x % 4);
    fetched_t fetched      = {};

    if (position < n_keys) {
        int32_t row;
        const uint8_t *page = page_of(view, position, &row);
        const uint4 *codes =
            (const uint4 *)(page + (size_t)row * DIM) + part * 2;

        fetched.codes[0] = __ldg(codes);
        fetched.codes[1] = __ldg(codes + 1);
        if (part == 0) {
            fetched.scale = get_float(
                page + (size_t)view.form.page_tokens * DIM + (size_t)row * 4);
        }
    }
    return fetched;
}

__device__ uint32_t as_halves(uint32_t codes, int which)
{
    __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(
        (__nv_fp8x2_storage_t)(codes >> (16 * which)), __NV_E4M3);

    return (uint32_t)halves.x | (uint32_t)halves.y << 16;
}

__device__ void put(tile_t *tile, const fetched_t &fetched)
{
    const int key  = (int)threadIdx.x / 4;
    const int part = (int)threadIdx.x % 4;
    uint4 *to      = (uint4 *)(tile->keys + key * ROW + part * 32);

#pragma unroll
    for (int c = 0; c < 2; c++) {
        uint4 codes = fetched.codes[c];

        to[c * 2] = make_uint4(as_halves(codes.x, 0), as_halves(codes.x, 1),
                               as_halves(codes.y, 0), as_halves(codes.y, 1));
        to[c * 2 + 1] =
            make_uint4(as_halves(codes.z, 0), as_halves(codes.z, 1),
                       as_halves(codes.w, 0), as_halves(codes.w, 1));
    }
    if (part == 0) {
        tile->scales[key] = fetched.scale;
    }
}

/* The heads of a warp: float16 fragments and what a head's products count. */
struct heads_t {
    uint32_t q[2][STEPS][4]; /* [16 heads][16 dimensions] */
    float factor[4];         /* heads g, g + 8, g + 16, g + 24; g = lane / 4 */
};

__device__ uint32_t two_halves(float2 value, float divisor)
{
    __half2 halves = __floats2half2_rn(value.x / divisor, value.y / divisor);

    return *(uint32_t *)&halves;
}

__device__ void load_heads(heads_t *heads, const float *q, const float *weights,
                           int32_t n_heads, int32_t first_head, float scale)
{
    const int lane = (int)(threadIdx.x % 32);

#pragma unroll
    for (int h = 0; h < 4; h++) {
        const int32_t head = first_head + lane / 4 + 8 * h;
        const bool is_one  = head < n_heads;
        float2 values[STEPS][2];
        float largest = 0.0F;

#pragma unroll
        for (int s = 0; s < STEPS; s++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int32_t d = s * 16 + half * 8 + (lane % 4) * 2;

                values[s][half] =
                    is_one ? *(const float2 *)(q + (size_t)head * DIM + d)
                           : make_float2(0.0F, 0.0F);
                largest = fmaxf(largest, fmaxf(fabsf(values[s][half].x),
                                               fabsf(values[s][half].y)));
            }
        }
        largest          = fmaxf(largest, __shfl_xor_sync(~0U, largest, 1));
        largest          = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
        largest          = largest > 0.0F ? largest : 1.0F;
        heads->factor[h] = is_one ? weights[head] * (scale * largest) : 0.0F;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            heads->q[h / 2][s][h % 2]     = two_halves(values[s][0], largest);
            heads->q[h / 2][s][h % 2 + 2] = two_halves(values[s][1], largest);
        }
    }
}

__device__ void load_matrices(uint32_t (&b)[4], const __half *from)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(from);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(at));
}

__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0),
                   "r"(b1));
}

/* Sums over the 8 lanes that share lane % 4, of four values each; afterwards
 * lane l has the sum of value (l / 16) * 2 + (l / 8) % 2. */
__device__ float sum_heads(const float (&sums)[4])
{
    const int lane   = (int)(threadIdx.x % 32);
    const bool upper = lane >= 16;
    const bool odd   = (lane / 8) % 2 != 0;
    float kept[2], sum;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        float other = __shfl_xor_sync(~0U, upper ? sums[i] : sums[2 + i], 16);

        kept[i] = (upper ? sums[2 + i] : sums[i]) + other;
    }
    sum = (odd ? kept[1] : kept[0]) +
          __shfl_xor_sync(~0U, odd ? kept[0] : kept[1], 8);
    return sum + __shfl_xor_sync(~0U, sum, 4);
}

/* 16 keys of a tile from `first`, for the heads of this warp. */
__device__ void score_keys(const heads_t &heads, const tile_t *tile, int first,
                           float *sums)
{
    const int lane     = (int)(threadIdx.x % 32);
    const __half *from = tile->keys +
                         (first + lane % 8 + (lane / 16) * 8) * ROW +
                         ((lane / 8) % 2) * 8;
    float c[2][2][4] = {};
    float of_head[4];
    int key;

#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        uint32_t b[4];

        load_matrices(b, from + s * 16);
#pragma unroll
        for (int m = 0; m < 2; m++) {
            multiply(c[m][0], heads.q[m][s], b[0], b[1]);
            multiply(c[m][1], heads.q[m][s], b[2], b[3]);
        }
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = fmaxf(c[0][j][i], 0.0F) * heads.factor[0];

            sum = fmaf(fmaxf(c[0][j][i + 2], 0.0F), heads.factor[1], sum);
            sum = fmaf(fmaxf(c[1][j][i], 0.0F), heads.factor[2], sum);
            of_head[j * 2 + i] =
                fmaf(fmaxf(c[1][j][i + 2], 0.0F), heads.factor[3], sum);
        }
    }
    key        = first + (lane / 16) * 8 + (lane % 4) * 2 + (lane / 8) % 2;
    of_head[0] = sum_heads(of_head);
    if ((lane / 4) % 2 == 0) {
        sums[key] = of_head[0] * tile->scales[key];
    }
}

/* A tile's sums of all head groups of a query, in their order. */
__device__ void write_scores(const float (*sums)[KEYS], int n_groups,
                             int32_t query, int32_t first, int32_t n_keys,
                             float *scores, size_t score_stride)
{
    const int warp = (int)(threadIdx.x / 32);

    for (int k = (int)(threadIdx.x % 32); k < KEYS; k += 32) {
        float sum = sums[warp][k];

        for (int g = 1; g < n_groups; g++) {
            sum += sums[warp + g][k];
        }
        if (first + k < n_keys) {
            __stcs(scores + (size_t)query * score_stride + first + k, sum);
        }
    }
}

__global__ void __launch_bounds__(THREADS, 2)
    score_tiles(pl_cuda_view_t view, const float *q, const float *weights,
                int32_t n_heads, float scale, const int32_t *n_keys, int32_t n,
                int32_t keys_per_split, float *scores, size_t score_stride)
{
    extern __shared__ uint4 memory[];
    shared_t *shared    = (shared_t *)memory;
    const int warp      = (int)(threadIdx.x / 32);
    const int n_groups  = (n_heads + HEADS - 1) / HEADS;
    const int per_block = WARPS / n_groups;
    const int32_t query = (int32_t)blockIdx.x * per_block + warp / n_groups;
    const bool works    = (warp / n_groups < per_block) && (query < n);
    const int32_t mine  = works ? n_keys[query] : 0;
    const int32_t begin = (int32_t)blockIdx.y * keys_per_split;
    int32_t end         = 0;
    heads_t heads;
    fetched_t fetched;

    for (int i = 0; i < per_block; i++) {
        int32_t other = (int32_t)blockIdx.x * per_block + i;

        end = other < n ? max(end, n_keys[other]) : end;
    }
    end = min(end, begin + keys_per_split);
    if (begin >= end) {
        return;
    }
    if (works) {
        load_heads(&heads, q + (size_t)query * (size_t)n_heads * DIM,
                   weights + (size_t)query * (size_t)n_heads, n_heads,
                   (warp % n_groups) * HEADS, scale);
    }
    fetched = fetch(view, begin, end);
    for (int32_t first = begin, turn = 0; first < end;
         first += KEYS, turn ^= 1) {
        put(&shared->tiles[turn], fetched);
        __syncthreads(); /* the tile is whole; the last sums have been read */
        fetched = fetch(view, first + KEYS, end);
        if (works && (first < mine)) {
#pragma unroll
            for (int k = 0; k < KEYS; k += 16) {
                score_keys(heads, &shared->tiles[turn], k,
                           shared->sums[turn][warp]);
            }
        }
        if (n_groups > 1) {
            __syncthreads();
        } else {
            __syncwarp();
        }
        if (works && (warp % n_groups == 0)) {
            write_scores(shared->sums[turn], n_groups, query, first, mine,
                         scores, score_stride);
        }
    }
}

/* ---- float32 ---- */

__device__ float value_at(const pl_row_layout_t &layout, const uint8_t *key,
                          float scale, int32_t d)
{
    if (layout.dtype == PL_KV_F32) {
        return ((const float *)key)[d];
    }
    return __half2float(__nv_cvt_fp8_to_halfraw(key[d], __NV_E4M3)) * scale;
}

__global__ void score_plain(pl_cuda_view_t view, pl_row_layout_t layout,
                            const float *q, const float *weights,
                            int32_t n_heads, float scale, const int32_t *n_keys,
                            float *scores, size_t score_stride)
{
    const int32_t s   = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int32_t dim = layout.index_dim;
    const uint8_t *page, *key;
    float key_scale = 1.0F, sum = 0.0F;
    int32_t row;

    if (s >= n_keys[blockIdx.y]) {
        return;
    }
    q += (size_t)blockIdx.y * (size_t)n_heads * (size_t)dim;
    weights += (size_t)blockIdx.y * (size_t)n_heads;
    page = page_of(view, s, &row);
    key  = page + (size_t)row * (size_t)view.form.key_bytes;
    if (view.form.scale_bytes > 0) {
        key_scale = get_float(
            page + (size_t)view.form.page_tokens * view.form.key_bytes +
            (size_t)row * 4);
    }
    for (int32_t h = 0; h < n_heads; h++) {
        float product = 0.0F;

        for (int32_t d = 0; d < dim; d++) {
            product = fmaf(q[(size_t)h * (size_t)dim + d],
                           value_at(layout, key, key_scale, d), product);
        }
        sum = fmaf(weights[h], fmaxf(scale * product, 0.0F), sum);
    }
    scores[(size_t)blockIdx.y * score_stride + s] = sum;
}

bool takes_tensor_cores(const pl_cuda_view_t *view,
                        const pl_row_layout_t *layout, int32_t n_heads)
{
    return (layout->dtype != PL_KV_F32) && (layout->index_dim == DIM) &&
           (n_heads <= WARPS * HEADS) && (view->stride % 16 == 0) &&
           ((uintptr_t)view->bytes % 16 == 0);
}

} // namespace

pl_status_t pl_cuda_index_scores(const pl_cuda_view_t *index,
                                 const pl_row_layout_t *layout, const float *q,
                                 const float *weights, int32_t n_heads,
                                 float scale, const int32_t *n_keys, int32_t n,
                                 int32_t most_keys, float *scores,
                                 size_t score_stride, pl_cuda_stream_t stream)
{
    if ((n < 0) || (n_heads < 1) || (most_keys < 0)) {
        return PL_ERR_ARGUMENT;
    }
    if ((n == 0) || (most_keys == 0)) {
        return PL_OK;
    }
    if (takes_tensor_cores(index, layout, n_heads)) {
        const int per_block   = WARPS / (int)pl_ceil_div(n_heads, HEADS);
        const int64_t blocks  = pl_ceil_div(n, per_block);
        const int64_t n_tiles = pl_ceil_div(most_keys, KEYS);
        /* Enough blocks to fill the chip a few times, tiles permitting. */
        const int64_t splits = pl_ceil_div(2048, blocks) < n_tiles
                                   ? pl_ceil_div(2048, blocks)
                                   : n_tiles;
        const int64_t tiles  = pl_ceil_div(n_tiles, splits);

        if (!pl_allow_shared<score_tiles>()) {
            return PL_ERR_DEVICE;
        }
        score_tiles<<<dim3((unsigned)blocks,
                           (unsigned)pl_ceil_div(n_tiles, tiles)),
                      THREADS, sizeof(shared_t), stream>>>(
            *index, q, weights, n_heads, scale, n_keys, n,
            (int32_t)(tiles * KEYS), scores, score_stride);
    } else {
        constexpr int PLAIN = 128;

        score_plain<<<dim3((unsigned)pl_ceil_div(most_keys, PLAIN),
                           (unsigned)n),
                      PLAIN, 0, stream>>>(*index, *layout, q, weights, n_heads,
                                          scale, n_keys, scores, score_stride);
    }
    return pl_launched();
}
