/* Grouped products of bf16 on the tensor cores.
 *
 * A block makes tiles of 128 places x 256 rows of weights (with up: 128 of each
 * matrix).  Four warps fill a ring of four stages of 64 columns, each warp the
 * stage that is its own, so that it can wait for its copies while the others'
 * are under way.  Two warpgroups multiply: each has its own half of the 256
 * rows of weights and all places, in blocks of 64 of which the second is left
 * out where the expert has no places for it.
 *
 * A value's sum is a chain of one instruction, m64n128k16, over ascending
 * columns, whatever else is in the tile.  Rows that no place or weight fills
 * hold anything: a row of either side reaches its own row or column of the
 * product alone, and those are not written.  Columns beyond the last are zero
 * on both sides. */
#include "barrier.cuh"
#include "grouped.cuh"
#include "wgmma.cuh"

namespace
{

constexpr int HEIGHT          = 128; /* places of a tile */
constexpr int WIDTH           = 256; /* rows of weights of a tile */
constexpr int STEP            = 64;  /* columns of a stage */
constexpr int STAGES          = 4;
constexpr int LINE            = STEP * 2; /* bytes of a row in a stage */
constexpr int X_BYTES         = HEIGHT * LINE;
constexpr int STAGE           = X_BYTES + WIDTH * LINE;
constexpr int BLOCK           = 64; /* places or weights of one matrix */
constexpr int SHARED          = STAGES * STAGE + 1024; /* with alignment */
constexpr int MAKERS          = 256; /* threads that multiply */
constexpr int THREADS         = MAKERS + STAGES * 32;
constexpr int N_MATRIX_BLOCKS = WIDTH / BLOCK;

/* Shared memory of a block: stages from `ring`; barriers of 8 bytes each. */
struct ring_t {
    uint32_t stages;
    uint32_t full;  /* [STAGES]: the warp that fills it arrives */
    uint32_t empty; /* [STAGES]: each warp that multiplies arrives */
};

/* For the whole warp, which has done its part. */
__device__ void arrive(uint32_t barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
                     : "memory");
    }
}

/* ---- filling ---- */

/* 16 bytes, or as many zeros; a line of memory brings the next one with it. */
__device__ void copy_piece(uint32_t to, const uint8_t *from, int n)
{
    asm volatile(
        "cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to),
        "l"(from), "r"(n)
        : "memory");
}

/* Lane l copies piece l % 8 of rows l / 8, l / 8 + 4, ...: where that is in a
 * stage for an even and for an odd row of this lane. */
struct lane_t {
    int row, piece;
    uint32_t even, odd;

    __device__ lane_t()
        : row((int)(threadIdx.x % 32) / 8), piece((int)threadIdx.x % 8)
    {
        even = pl_swizzled(row, piece);
        odd  = pl_swizzled(row + 4, piece);
    }

    __device__ uint32_t place(int i) const
    {
        return (uint32_t)(i / 2 * 8 * LINE) + (i % 2 == 0 ? even : odd);
    }
};

/* Where the rows of x of a tile are: lane l knows rows l, l + 32, ...  After
 * the last comes the last again, which costs no other access to memory. */
struct rows_t {
    uint32_t at[HEIGHT / 32];

    __device__ rows_t(const pl_grouped_t &product, const pl_tile_t &tile)
    {
#pragma unroll
        for (int i = 0; i < HEIGHT / 32; i++) {
            const int32_t row = i * 32 + (int32_t)threadIdx.x % 32;

            at[i] = (uint32_t)pl_row_of(product.groups, product.x.row_of,
                                        tile.first + min(row, tile.n - 1));
        }
    }
};

/* Offset and n: of this lane's piece in a row, and its bytes. */
__device__ void fill_x(const pl_cuda_rows_t &x, const pl_tile_t &tile,
                       const rows_t &rows, const lane_t &lane, size_t offset,
                       int n, uint32_t to)
{
    const uint8_t *from = (const uint8_t *)x.at + offset;
    const size_t stride = x.stride * 2;

#pragma unroll
    for (int g = 0; g < HEIGHT / 32; g++) {
        if (g * 32 >= tile.n) {
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t row = __shfl_sync(~0U, rows.at[g], i * 4 + lane.row);

            copy_piece(to + lane.place(g * 8 + i), from + row * stride, n);
        }
    }
}

/* 64 rows of weights, of which there are n_rows. */
__device__ void fill_block(const uint8_t *from, size_t line, int32_t n_rows,
                           const lane_t &lane, int n, uint32_t to)
{
    if (n_rows >= BLOCK) {
#pragma unroll
        for (int i = 0; i < BLOCK / 4; i++) {
            copy_piece(to + lane.place(i), from, n);
            from += 4 * line;
        }
    } else {
#pragma unroll 1
        for (int i = 0; i * 4 + lane.row < n_rows; i++) {
            copy_piece(to + lane.place(i), from, n);
            from += 4 * line;
        }
    }
}

/* With up, blocks of each matrix in turn. */
template <bool is_gated>
__device__ void fill_weights(const pl_cuda_experts_t &experts,
                             const pl_tile_t &tile, const lane_t &lane,
                             size_t offset, int n, uint32_t to)
{
    constexpr int N_MATRICES = is_gated ? 2 : 1;
    const size_t line        = (size_t)experts.cols * 2;

#pragma unroll
    for (int b = 0; b < N_MATRIX_BLOCKS; b++) {
        const void *const *matrices =
            is_gated && (b % 2 == 1) ? experts.up : experts.weights;
        const uint64_t matrix = __ldg((const uint64_t *)matrices + tile.expert);
        const int32_t first =
            (tile.column * (N_MATRIX_BLOCKS / N_MATRICES) + b / N_MATRICES) *
            BLOCK;

        fill_block((const uint8_t *)matrix + (size_t)(first + lane.row) * line +
                       offset,
                   line, experts.rows - first, lane, n,
                   to + (uint32_t)(b * BLOCK * LINE));
    }
}

/* The steps of a tile that fall to this warp's stage; the tile's first step is
 * the block's number `turn`. */
template <bool is_gated>
__device__ void fill_tile(const pl_grouped_t &product, const pl_tile_t &tile,
                          const ring_t &ring, uint32_t turn, int32_t n_steps)
{
    const uint32_t stage = (threadIdx.x - MAKERS) / 32;
    const uint32_t to    = ring.stages + stage * STAGE;
    const lane_t lane;
    const rows_t rows(product, tile);

    for (int32_t k = (int32_t)((stage - turn) % STAGES); k < n_steps;
         k += STAGES) {
        const int32_t column = k * STEP + lane.piece * 8;
        const bool is_there  = column < product.experts.cols;
        const size_t offset  = is_there ? (size_t)column * 2 : 0;

        pl_barrier_wait(ring.empty + stage * 8,
                        ((turn + (uint32_t)k) / STAGES + 1) % 2);
        fill_weights<is_gated>(product.experts, tile, lane, offset,
                               is_there ? 16 : 0, to + X_BYTES);
        fill_x(product.x, tile, rows, lane, offset, is_there ? 16 : 0, to);
        asm volatile("cp.async.wait_all;" ::: "memory");
        pl_wgmma_publish();
        arrive(ring.full + stage * 8);
    }
}

/* ---- multiplying ---- */

/* d [64][128] += a [64][16] b [128][16]^T; both in shared memory, row by row.
 */
__device__ __forceinline__ void wgmma_64x128(float (&d)[64], uint64_t a,
                                             uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
        "%64, %65, 1, 1, 1, 0, 0;\n"
        : PL_R32(d, 0), PL_R32(d, 32)
        : "l"(a), "l"(b));
}

/* No arithmetic on these crosses this line: the compiler does not know that the
 * instructions above work on after they have been issued. */
__device__ __forceinline__ void pin(float (&d)[64])
{
    asm volatile("" : PL_R32(d, 0), PL_R32(d, 32)::"memory");
}

/* Two floats side by side, of which the row has room for n_left. */
template <typename out_t>
__device__ void put_two(out_t *to, float first, float second, int32_t n_left)
{
    if (n_left > 0) {
        pl_put(to, first);
    }
    if (n_left > 1) {
        pl_put(to + 1, second);
    }
}

__device__ void put_both(float *to, float first, float second)
{
    *(float2 *)to = make_float2(first, second);
}

__device__ void put_both(__nv_bfloat16 *to, float first, float second)
{
    *(__nv_bfloat162 *)to = __floats2bfloat162_rn(first, second);
}

/* A thread has columns 8 c + (lane % 4) * 2 and the next one of two rows. */
template <bool is_gated, typename out_t>
__device__ __forceinline__ void write_out(const pl_grouped_t &product,
                                          const pl_tile_t &tile, int block,
                                          const float (&sums)[64])
{
    constexpr int COLUMNS = is_gated ? 64 : 128; /* of a warpgroup */
    const int lane        = (int)(threadIdx.x % 32);
    const int warp        = (int)(threadIdx.x % 128) / 32;
    const int32_t left =
        (tile.column * 2 + (int32_t)threadIdx.x / 128) * COLUMNS +
        (lane % 4) * 2;
    const bool is_even = product.out.stride % 2 == 0;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int32_t row = block * BLOCK + warp * 16 + lane / 4 + h * 8;

        if (row >= tile.n) {
            return;
        }
        out_t *to =
            (out_t *)product.out.at +
            pl_row_of(product.groups, product.out.row_of, tile.first + row) *
                product.out.stride;

#pragma unroll
        for (int c = 0; c < COLUMNS / 8; c++) {
            const int i          = c * 4 + h * 2;
            const int32_t column = left + c * 8;
            const int32_t n_left = product.experts.rows - column;
            const float first =
                is_gated ? pl_gated(sums[i], sums[(i + 32) % 64]) : sums[i];
            const float second =
                is_gated ? pl_gated(sums[i + 1], sums[(i + 33) % 64])
                         : sums[i + 1];

            if (is_even && (n_left > 1)) {
                put_both(to + column, first, second);
            } else {
                put_two(to + column, first, second, n_left);
            }
        }
    }
}

/* N_BLOCKS of 64 places, of this warpgroup's half of the weights. */
template <bool is_gated, typename out_t, int N_BLOCKS>
__device__ __forceinline__ void
make_tile(const pl_grouped_t &product, const pl_tile_t &tile,
          const ring_t &ring, uint32_t turn, int32_t n_steps)
{
    const uint32_t half = threadIdx.x / 128 * (WIDTH / 2 * LINE);
    float sums[N_BLOCKS][64];

#pragma unroll
    for (int b = 0; b < N_BLOCKS; b++) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            sums[b][i] = 0.0F;
        }
        pin(sums[b]);
    }
    for (int32_t k = 0; k < n_steps; k++, turn++) {
        const uint32_t stage = turn % STAGES;
        const uint32_t x     = ring.stages + stage * STAGE;
        const uint32_t w     = x + X_BYTES + half;

        pl_barrier_wait(ring.full + stage * 8, turn / STAGES % 2);
        pl_wgmma_begin();
#pragma unroll
        for (int at = 0; at < LINE; at += 32) {
#pragma unroll
            for (int b = 0; b < N_BLOCKS; b++) {
                wgmma_64x128(sums[b],
                             pl_descriptor(x + b * BLOCK * LINE + at, 16, 1024),
                             pl_descriptor(w + at, 16, 1024));
            }
        }
        /* The step before is over once this one alone is under way. */
        asm volatile("wgmma.commit_group.sync.aligned;\n"
                     "wgmma.wait_group.sync.aligned 1;" ::
                         : "memory");
        if (k > 0) {
            arrive(ring.empty + (turn - 1) % STAGES * 8);
        }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    arrive(ring.empty + (turn - 1) % STAGES * 8);
#pragma unroll
    for (int b = 0; b < N_BLOCKS; b++) {
        pin(sums[b]);
        write_out<is_gated, out_t>(product, tile, b, sums[b]);
    }
}

/* ---- a block ---- */

__device__ ring_t make_ring(uint8_t *memory, uint64_t *barriers)
{
    ring_t ring;

    ring.stages = (pl_shared_address(memory) + 1023) / 1024 * 1024;
    ring.full   = pl_shared_address(barriers);
    ring.empty  = ring.full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            pl_barrier_make(ring.full + s * 8, 1);
            pl_barrier_make(ring.empty + s * 8, MAKERS / 32);
        }
    }
    return ring;
}

/* The tiles of this block, one after the other, for each of its threads. */
template <bool is_gated> struct walk_t {
    int32_t n_steps, n_columns;
    int32_t t;     /* number of the next tile */
    uint32_t turn; /* steps up to the end of this one */
    pl_tile_t tile;

    __device__ explicit walk_t(const pl_cuda_experts_t &experts)
        : n_steps((experts.cols + STEP - 1) / STEP), t((int32_t)blockIdx.x),
          turn(0)
    {
        constexpr int32_t MINE = is_gated ? WIDTH / 2 : WIDTH;

        n_columns = (experts.rows + MINE - 1) / MINE;
    }

    __device__ bool next(const pl_schedule_t &schedule, int32_t n_experts)
    {
        const bool is_one =
            pl_find_tile<HEIGHT>(schedule, n_experts, n_columns, t, &tile);

        t += (int32_t)gridDim.x;
        turn += (uint32_t)n_steps;
        return is_one;
    }
};

template <bool is_gated, typename out_t>
__global__ void __launch_bounds__(THREADS, 1) make_tiles(pl_grouped_t product)
{
    extern __shared__ uint8_t memory[];
    __shared__ pl_schedule_t schedule;
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    const ring_t ring       = make_ring(memory, barriers);
    const int32_t n_experts = product.groups.n_experts;
    walk_t<is_gated> walk(product.experts);

    /* When this returns, all threads see the barriers, too. */
    pl_make_schedule<HEIGHT, THREADS / 32>(product.groups, walk.n_columns,
                                           &schedule);
    /* Registers go from those that fill to those that multiply. */
    if (threadIdx.x >= MAKERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
        while (walk.next(schedule, n_experts)) {
            fill_tile<is_gated>(product, walk.tile, ring,
                                walk.turn - (uint32_t)walk.n_steps,
                                walk.n_steps);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
        while (walk.next(schedule, n_experts)) {
            const uint32_t turn = walk.turn - (uint32_t)walk.n_steps;

            if (walk.tile.n > BLOCK) {
                make_tile<is_gated, out_t, 2>(product, walk.tile, ring, turn,
                                              walk.n_steps);
            } else {
                make_tile<is_gated, out_t, 1>(product, walk.tile, ring, turn,
                                              walk.n_steps);
            }
        }
    }
}

template <bool is_gated, typename out_t>
pl_status_t launch(const pl_grouped_t &product, int n_processors,
                   pl_cuda_stream_t stream)
{
    const unsigned n_blocks = pl_grouped_blocks(
        product.groups, HEIGHT,
        pl_ceil_div(product.experts.rows, is_gated ? WIDTH / 2 : WIDTH),
        n_processors);

    if (n_blocks == 0) {
        return PL_ERR_ARGUMENT;
    }
    if (!pl_allow_shared<make_tiles<is_gated, out_t>>()) {
        return PL_ERR_DEVICE;
    }
    make_tiles<is_gated, out_t><<<n_blocks, THREADS, SHARED, stream>>>(product);
    return pl_launched();
}

} // namespace

pl_status_t pl_grouped_mma(const pl_grouped_t &product, int n_processors,
                           pl_cuda_stream_t stream)
{
    const bool is_gated = product.experts.up != nullptr;

    if (product.out.dtype == PL_CUDA_F32) {
        return is_gated ? launch<true, float>(product, n_processors, stream)
                        : launch<false, float>(product, n_processors, stream);
    }
    return is_gated
               ? launch<true, __nv_bfloat16>(product, n_processors, stream)
               : launch<false, __nv_bfloat16>(product, n_processors, stream);
}
