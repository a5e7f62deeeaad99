/* kernels/grouped.cuh - what the kernels of grouped products share: which tiles
 * of the output there are, and which block makes which.
 *
 * The number of tiles is known on the device only, so the grid is as large as
 * the chip, and block b makes tiles b, b + n_blocks, ...  A tile has places of
 * one expert.  Tiles are in the order of experts; within one, first the columns
 * of PL_GROUP_TILES rows of tiles, so that blocks at work at the same time
 * share both weights and rows while these are in the cache.
 */
#ifndef PL_KERNELS_GROUPED_CUH
#define PL_KERNELS_GROUPED_CUH

#include "launch.cuh"
#include "scan.cuh"
#include "values.cuh"

#define PL_GROUP_TILES 16

struct pl_grouped_t {
    pl_cuda_groups_t groups;
    pl_cuda_experts_t experts;
    pl_cuda_rows_t x, out;
};

/* bf16 products of columns in whole 8s: grouped_mma.cu. */
pl_status_t pl_grouped_mma(const pl_grouped_t &product, int n_processors,
                           pl_cuda_stream_t stream);

struct pl_schedule_t {
    int32_t starts[PL_CUDA_MOST_EXPERTS + 1];
    int32_t ends[PL_CUDA_MOST_EXPERTS]; /* tiles of this expert and before it */
    int32_t sums[32];
};

struct pl_tile_t {
    int32_t expert;
    int32_t first, n; /* places */
    int32_t column;   /* in widths of a tile */
};

/* All threads of a block of WARPS warps call it. */
template <int HEIGHT, int WARPS>
__device__ void pl_make_schedule(const pl_cuda_groups_t &groups,
                                 int32_t n_columns, pl_schedule_t *schedule)
{
    constexpr int THREADS = WARPS * 32;
    int32_t before        = 0;

    for (int32_t e = (int32_t)threadIdx.x; e <= groups.n_experts;
         e += THREADS) {
        schedule->starts[e] =
            groups.starts != nullptr ? groups.starts[e] : e * groups.n_pairs;
    }
    __syncthreads();
    for (int32_t from = 0; from < groups.n_experts; from += THREADS) {
        const int32_t e   = from + (int32_t)threadIdx.x;
        const bool is_one = e < groups.n_experts;
        const int32_t n =
            is_one ? schedule->starts[e + 1] - schedule->starts[e] : 0;
        const int32_t ends = pl_sum_up_to<WARPS>(
            (n + HEIGHT - 1) / HEIGHT * n_columns, schedule->sums);

        if (is_one) {
            schedule->ends[e] = before + ends;
        }
        before += schedule->sums[WARPS - 1];
    }
    __syncthreads();
}

/* Is there a tile t?  Which is it? */
template <int HEIGHT>
__device__ bool pl_find_tile(const pl_schedule_t &schedule, int32_t n_experts,
                             int32_t n_columns, int32_t t, pl_tile_t *tile)
{
    const int32_t per_group = PL_GROUP_TILES * n_columns;
    int32_t low = 0, high = n_experts;
    int32_t n, above, tall;

    while (low < high) {
        const int32_t middle = (low + high) / 2;

        if (schedule.ends[middle] <= t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == n_experts) {
        return false;
    }
    t -= low > 0 ? schedule.ends[low - 1] : 0;
    n     = schedule.starts[low + 1] - schedule.starts[low];
    above = t / per_group * PL_GROUP_TILES;
    tall  = min(PL_GROUP_TILES, (n + HEIGHT - 1) / HEIGHT - above);
    t %= per_group;
    above = (above + t % tall) * HEIGHT;

    tile->expert = low;
    tile->first  = schedule.starts[low] + above;
    tile->n      = min(HEIGHT, n - above);
    tile->column = t / tall;
    return true;
}

__device__ inline size_t pl_row_of(const pl_cuda_groups_t &groups,
                                   pl_cuda_row_of_t row_of, int32_t place)
{
    switch (row_of) {
    case PL_CUDA_ROW_OF_PAIR:
        return (size_t)__ldg(groups.order + place);
    case PL_CUDA_ROW_OF_TOKEN:
        return (size_t)(__ldg(groups.order + place) / groups.per_token);
    case PL_CUDA_ROW_OF_PLACE:
    default:
        return (size_t)place;
    }
}

/* silu(gate) * up, rounded at each step: the compiler must not fuse these in
 * one place and not in another. */
__device__ inline float pl_gated(float gate, float up)
{
    return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0F, expf(-gate))), up);
}

/* Blocks of a grid, no more than there are tiles at most; 0: too many tiles to
 * number. */
static inline unsigned pl_grouped_blocks(const pl_cuda_groups_t &groups,
                                         int height, int64_t n_columns,
                                         int64_t n_at_once)
{
    const int64_t partial =
        groups.n_pairs < groups.n_experts ? groups.n_pairs : groups.n_experts;
    const int64_t most = (groups.n_pairs / height + partial) * n_columns;

    if (most > INT32_MAX / 2) {
        return 0;
    }
    return (unsigned)(most < n_at_once ? most : n_at_once);
}

#endif /* PL_KERNELS_GROUPED_CUH */
