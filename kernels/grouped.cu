/* Products over experts: the launcher, float32 arithmetic, and the sum of what
 * a token's experts gave.  grouped.cuh has the tiles, grouped_mma.cu the tensor
 * cores.
 *
 * Here a block of 256 threads makes 64 x 64 values, 16 of each thread, from
 * steps of 16 columns in shared memory, the next ones on their way in
 * registers. A value is one chain of multiply-adds over ascending columns; the
 * zeros beyond the last column do not change it. */
#include "grouped.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int SIDE    = 64; /* of a tile */
constexpr int STEP    = 16;
constexpr int PER     = 4;        /* a thread has 4 x 4 values */
constexpr int ROW     = SIDE + 4; /* in shared memory, against bank conflicts */
constexpr int N_BLOCKS = 4;       /* of a multiprocessor */

/* 64 rows, of which thread t reads column t % 16 of rows t / 16 + 16 i, and
 * 16 columns of them in shared memory, by column. */
template <typename in_t> struct side_t {
    const in_t *rows[PER]; /* or nullptr: zeros */
    float held[PER];

    __device__ void fetch(int32_t step, int32_t cols)
    {
        const int32_t c = step + (int32_t)threadIdx.x % STEP;

#pragma unroll
        for (int i = 0; i < PER; i++) {
            held[i] =
                (rows[i] != nullptr) && (c < cols) ? pl_get(rows[i] + c) : 0.0F;
        }
    }

    __device__ void put(float (*to)[ROW]) const
    {
#pragma unroll
        for (int i = 0; i < PER; i++) {
            to[threadIdx.x % STEP][threadIdx.x / STEP + STEP * i] = held[i];
        }
    }
};

template <typename in_t>
__device__ void find_x(const pl_grouped_t &product, const pl_tile_t &tile,
                       side_t<in_t> *side)
{
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int32_t row = (int32_t)threadIdx.x / STEP + STEP * i;

        side->rows[i] = nullptr;
        if (row < tile.n) {
            side->rows[i] =
                (const in_t *)product.x.at +
                pl_row_of(product.groups, product.x.row_of, tile.first + row) *
                    product.x.stride;
        }
    }
}

template <typename in_t>
__device__ void find_weights(const pl_cuda_experts_t &experts,
                             const void *const *weights, const pl_tile_t &tile,
                             side_t<in_t> *side)
{
    const in_t *matrix = (const in_t *)weights[tile.expert];

#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int32_t row =
            tile.column * SIDE + (int32_t)threadIdx.x / STEP + STEP * i;

        side->rows[i] = row < experts.rows
                            ? matrix + (size_t)row * (size_t)experts.cols
                            : nullptr;
    }
}

__device__ void multiply(const float (*x)[ROW], const float (*w)[ROW],
                         float (&sums)[PER][PER])
{
    const int down = (int)threadIdx.x / STEP, across = (int)threadIdx.x % STEP;

#pragma unroll
    for (int c = 0; c < STEP; c++) {
        const float4 a      = *(const float4 *)(x[c] + down * PER);
        const float4 b      = *(const float4 *)(w[c] + across * PER);
        const float of_x[4] = {a.x, a.y, a.z, a.w};
        const float of_w[4] = {b.x, b.y, b.z, b.w};

#pragma unroll
        for (int i = 0; i < PER; i++) {
#pragma unroll
            for (int j = 0; j < PER; j++) {
                sums[i][j] = fmaf(of_x[i], of_w[j], sums[i][j]);
            }
        }
    }
}

/* MATRICES: 1, or 2 with up. */
template <typename out_t, int MATRICES>
__device__ void write_out(const pl_grouped_t &product, const pl_tile_t &tile,
                          const float (&sums)[MATRICES][PER][PER])
{
    const int32_t down = (int32_t)threadIdx.x / STEP * PER;
    const int32_t column =
        tile.column * SIDE + (int32_t)threadIdx.x % STEP * PER;

#pragma unroll
    for (int i = 0; i < PER; i++) {
        if (down + i >= tile.n) {
            return;
        }
        out_t *to = (out_t *)product.out.at + pl_row_of(product.groups,
                                                        product.out.row_of,
                                                        tile.first + down + i) *
                                                  product.out.stride;

#pragma unroll
        for (int j = 0; j < PER; j++) {
            if (column + j < product.experts.rows) {
                pl_put(to + column + j,
                       MATRICES == 2
                           ? pl_gated(sums[0][i][j], sums[MATRICES - 1][i][j])
                           : sums[0][i][j]);
            }
        }
    }
}

template <typename in_t, typename out_t, int MATRICES>
__device__ void make_tile(const pl_grouped_t &product, const pl_tile_t &tile,
                          float (*shared)[STEP][ROW])
{
    const int32_t cols = product.experts.cols;
    side_t<in_t> sides[1 + MATRICES];
    float sums[MATRICES][PER][PER] = {};

    find_x(product, tile, sides);
    find_weights(product.experts, product.experts.weights, tile, sides + 1);
    if (MATRICES == 2) {
        find_weights(product.experts, product.experts.up, tile,
                     sides + MATRICES);
    }
#pragma unroll
    for (int m = 0; m <= MATRICES; m++) {
        sides[m].fetch(0, cols);
    }
    for (int32_t step = 0; step < cols; step += STEP) {
        __syncthreads(); /* the last step's columns have been read */
#pragma unroll
        for (int m = 0; m <= MATRICES; m++) {
            sides[m].put(shared[m]);
        }
        __syncthreads();
#pragma unroll
        for (int m = 0; m <= MATRICES; m++) {
            sides[m].fetch(step + STEP, cols);
        }
#pragma unroll
        for (int m = 0; m < MATRICES; m++) {
            multiply(shared[0], shared[1 + m], sums[m]);
        }
    }
    write_out<out_t, MATRICES>(product, tile, sums);
}

template <typename in_t, typename out_t, int MATRICES>
__global__ void __launch_bounds__(THREADS) make_plain(pl_grouped_t product)
{
    __shared__ pl_schedule_t schedule;
    __shared__ __align__(16) float shared[1 + MATRICES][STEP][ROW];
    const int32_t n_columns = (product.experts.rows + SIDE - 1) / SIDE;
    pl_tile_t tile;

    pl_make_schedule<SIDE, THREADS / 32>(product.groups, n_columns, &schedule);
    for (int32_t t = (int32_t)blockIdx.x; pl_find_tile<SIDE>(
             schedule, product.groups.n_experts, n_columns, t, &tile);
         t += (int32_t)gridDim.x) {
        make_tile<in_t, out_t, MATRICES>(product, tile, shared);
    }
}

template <typename in_t, typename out_t>
pl_status_t launch_plain(const pl_grouped_t &product, int n_processors,
                         pl_cuda_stream_t stream)
{
    const unsigned n_blocks = pl_grouped_blocks(
        product.groups, SIDE, pl_ceil_div(product.experts.rows, SIDE),
        (int64_t)n_processors * N_BLOCKS);

    if (n_blocks == 0) {
        return PL_ERR_ARGUMENT;
    }
    if (product.experts.up != nullptr) {
        make_plain<in_t, out_t, 2><<<n_blocks, THREADS, 0, stream>>>(product);
    } else {
        make_plain<in_t, out_t, 1><<<n_blocks, THREADS, 0, stream>>>(product);
    }
    return pl_launched();
}

/* ---- the sum of a token's experts ---- */

__global__ void __launch_bounds__(THREADS)
    combine(const float *out, const float *weights, int32_t per_token,
            int32_t width, bool adds, float *y)
{
    const size_t token = blockIdx.x;
    const int32_t c    = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    float sum          = 0.0F;

    if (c >= width) {
        return;
    }
    out += token * (size_t)per_token * (size_t)width + (size_t)c;
    weights += token * (size_t)per_token;
    y += token * (size_t)width + (size_t)c;
#pragma unroll 8
    for (int32_t j = 0; j < per_token; j++) {
        /* Rounded step by step, as the plain C version: no fused product. */
        sum = __fadd_rn(
            sum, __fmul_rn(__ldg(weights + j), __ldg(out + (size_t)j * width)));
    }
    *y = adds ? __fadd_rn(*y, sum) : sum;
}

/* ---- what can be asked for ---- */

bool are_sound(const pl_cuda_groups_t &groups)
{
    return (groups.n_pairs >= 0) && (groups.n_experts >= 1) &&
           (groups.n_experts <= PL_CUDA_MOST_EXPERTS) &&
           (groups.per_token >= 1) &&
           ((groups.starts != nullptr) || (groups.n_experts == 1));
}

bool are_sound(const pl_cuda_groups_t &groups, const pl_cuda_rows_t &rows,
               int32_t width)
{
    return ((groups.order != nullptr) ||
            (rows.row_of == PL_CUDA_ROW_OF_PLACE)) &&
           ((uintptr_t)rows.at % 16 == 0) && (rows.stride >= (size_t)width);
}

bool is_sound(const pl_grouped_t &product)
{
    const pl_cuda_experts_t &experts = product.experts;

    return are_sound(product.groups) && (experts.rows >= 1) &&
           (experts.cols >= 1) && (product.x.dtype == experts.dtype) &&
           ((product.out.dtype == PL_CUDA_F32) ||
            (experts.dtype == PL_CUDA_BF16)) &&
           (product.out.row_of != PL_CUDA_ROW_OF_TOKEN) &&
           are_sound(product.groups, product.x, experts.cols) &&
           are_sound(product.groups, product.out, experts.rows);
}

bool find_processors(int *n_p)
{
    int device = 0;

    return (cudaGetDevice(&device) == cudaSuccess) &&
           (cudaDeviceGetAttribute(n_p, cudaDevAttrMultiProcessorCount,
                                   device) == cudaSuccess);
}

} // namespace

pl_status_t pl_cuda_grouped_product(const pl_cuda_groups_t *groups,
                                    const pl_cuda_experts_t *experts,
                                    const pl_cuda_rows_t *x,
                                    const pl_cuda_rows_t *out,
                                    pl_cuda_stream_t stream)
{
    const pl_grouped_t product = {*groups, *experts, *x, *out};
    int n_processors           = 0;

    if (!is_sound(product)) {
        return PL_ERR_ARGUMENT;
    }
    if (groups->n_pairs == 0) {
        return PL_OK;
    }
    if (!find_processors(&n_processors)) {
        return PL_ERR_DEVICE;
    }
    if (experts->dtype == PL_CUDA_F32) {
        return launch_plain<float, float>(product, n_processors, stream);
    }
    if ((experts->cols % 8 == 0) && (x->stride % 8 == 0)) {
        return pl_grouped_mma(product, n_processors, stream);
    }
    return out->dtype == PL_CUDA_F32
               ? launch_plain<__nv_bfloat16, float>(product, n_processors,
                                                    stream)
               : launch_plain<__nv_bfloat16, __nv_bfloat16>(
                     product, n_processors, stream);
}

pl_status_t pl_cuda_combine_experts(const float *out, const float *weights,
                                    int32_t n, int32_t per_token, int32_t width,
                                    bool adds, float *y,
                                    pl_cuda_stream_t stream)
{
    const int64_t blocks = pl_ceil_div(width, THREADS);

    if ((n < 0) || (per_token < 1) || (width < 1) || (blocks > 65535)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        combine<<<dim3((unsigned)n, (unsigned)blocks), THREADS, 0, stream>>>(
            out, weights, per_token, width, adds, y);
    }
    return pl_launched();
}
