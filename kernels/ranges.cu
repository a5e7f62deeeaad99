/* Lists of ranges, each somewhere else and of any size, in one launch: the list
 * travels as the kernel's argument, so it needs no memory that would have to
 * outlive the call.  A full list is 32 KB, the most that an argument may be. */
#include "bulk.cuh"
#include "device/device.h"
#include "launch.cuh"

namespace
{

constexpr uint32_t MOST_BYTES  = 1U << 30; /* of a range; longer ones are cut */
constexpr uint32_t PLAIN_MOST  = 16384;    /* bytes of a piece */
constexpr int PLAIN_THREADS    = 256;
constexpr int PLAIN_FAR_BLOCKS = 32;

constexpr int FEW = 32, MORE = 256, FULL = 1360; /* ranges of a list */

struct range_t {
    uint8_t *dst;
    const uint8_t *src; /* plain kernel: NULL is a filling */
    uint32_t bytes;
    uint32_t first; /* of its pieces, in the list's count */
};

template <int MOST> struct list_t {
    uint32_t n, n_pieces;
    range_t ranges[MOST];
};

static_assert(sizeof(list_t<FULL>) + sizeof(uint32_t) <= 32764,
              "an argument of a kernel is 32,764 bytes at most");

struct piece_t {
    uint8_t *dst;
    const uint8_t *src;
    uint32_t bytes;
};

/* Piece i; it is in range *at or a later one, and *at becomes that one. */
template <int MOST>
__device__ __forceinline__ piece_t piece_of(const list_t<MOST> &list,
                                            uint32_t i, uint32_t *at)
{
    uint32_t low = *at, high = list.n;
    uint32_t end, by, offset;
    piece_t piece;

    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;

        if (list.ranges[middle].first <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *at = low;
    end = low + 1 < list.n ? list.ranges[low + 1].first : list.n_pieces;
    /* As bulk_piece_bytes: the number of pieces gives their size again. */
    by          = (end - list.ranges[low].first) * BULK_LINE;
    by          = (list.ranges[low].bytes + by - 1) / by * BULK_LINE;
    offset      = (i - list.ranges[low].first) * by;
    piece.dst   = list.ranges[low].dst + offset;
    piece.src   = list.ranges[low].src;
    piece.src   = piece.src != nullptr ? piece.src + offset : nullptr;
    piece.bytes = min(by, list.ranges[low].bytes - offset);
    return piece;
}

/* Ranges in multiples of 16, as pages.cu copies pages. */
template <int MOST>
__global__ void __launch_bounds__(32)
    copy_bulk(const __grid_constant__ list_t<MOST> list, uint32_t stage_bytes)
{
    extern __shared__ __align__(128) uint8_t ring[]; /* [STAGES][bytes] */
    __shared__ __align__(8) uint64_t barriers[BULK_STAGES];
    __shared__ piece_t pieces[BULK_STAGES];
    const uint32_t n_mine =
        (list.n_pieces - blockIdx.x + gridDim.x - 1) / gridDim.x;
    uint32_t n_fetched = 0, at = 0;

    if (threadIdx.x != 0) {
        return;
    }
    auto fetch = [&] {
        const uint32_t s = n_fetched % BULK_STAGES;
        const piece_t piece =
            piece_of(list, blockIdx.x + n_fetched * gridDim.x, &at);

        pieces[s] = piece;
        bulk_load(pl_shared_address(ring) + s * stage_bytes, piece.src,
                  piece.bytes, pl_shared_address(barriers + s));
        n_fetched++;
    };
    bulk_make_barriers(barriers);
    while ((n_fetched < BULK_STAGES - 1) && (n_fetched < n_mine)) {
        fetch();
    }
    for (uint32_t n_done = 0; n_done < n_mine; n_done++) {
        const uint32_t s = n_done % BULK_STAGES;

        pl_barrier_wait(pl_shared_address(barriers + s),
                        n_done / BULK_STAGES % 2);
        bulk_store(pieces[s].dst, pl_shared_address(ring) + s * stage_bytes,
                   pieces[s].bytes);
        if (n_fetched < n_mine) {
            bulk_stages_left_but_one();
            fetch();
        }
    }
    bulk_stores_done();
}

/* A block's threads copy a piece, or fill it, T by T. */
template <typename T>
__device__ void spread(const piece_t &piece, const T &value)
{
    T *dst       = (T *)piece.dst;
    const T *src = (const T *)piece.src;

    for (uint32_t i = threadIdx.x; i < piece.bytes / sizeof(T);
         i += PLAIN_THREADS) {
        dst[i] = src != nullptr ? src[i] : value;
    }
}

template <int MOST>
__global__ void __launch_bounds__(PLAIN_THREADS)
    copy_plain(const __grid_constant__ list_t<MOST> list, uint32_t byte)
{
    const uint32_t word = byte * 0x01010101U;
    uint32_t at         = 0;

    for (uint32_t i = blockIdx.x; i < list.n_pieces; i += gridDim.x) {
        const piece_t piece  = piece_of(list, i, &at);
        const uintptr_t bits = (uintptr_t)piece.dst | (uintptr_t)piece.src |
                               (uintptr_t)piece.bytes;

        if (bits % 16 == 0) {
            spread(piece, make_uint4(word, word, word, word));
        } else if (bits % 4 == 0) {
            spread(piece, word);
        } else {
            spread(piece, (uint8_t)byte);
        }
    }
}

/* ---- lists, on the host ---- */

/* Gathers ranges and launches whenever the list is full. */
class launcher_t
{
  public:
    /* value: bytes of a stage, or the byte to fill with */
    launcher_t(bool bulk, uint32_t piece_most, uint32_t value, int n_blocks,
               cudaStream_t to)
        : is_bulk(bulk), most(piece_most), argument(value), blocks(n_blocks),
          stream(to), error(cudaSuccess)
    {
        list.n = list.n_pieces = 0;
    }

    void add(void *dst, const void *src, size_t bytes)
    {
        uint8_t *to         = (uint8_t *)dst;
        const uint8_t *from = (const uint8_t *)src;

        while (bytes > 0) {
            const uint32_t part =
                bytes < MOST_BYTES ? (uint32_t)bytes : MOST_BYTES;

            add_part(to, from, part);
            to += part;
            from = from != nullptr ? from + part : nullptr;
            bytes -= part;
        }
    }

    pl_status_t finish()
    {
        launch();
        return error == cudaSuccess ? PL_OK : PL_ERR_DEVICE;
    }

  private:
    void add_part(uint8_t *dst, const uint8_t *src, uint32_t bytes)
    {
        range_t *last = list.n > 0 ? &list.ranges[list.n - 1] : nullptr;

        /* Neighbours become one range. */
        if ((last != nullptr) && (dst == last->dst + last->bytes) &&
            (bytes <= MOST_BYTES - last->bytes) &&
            (src ==
             (last->src != nullptr ? last->src + last->bytes : nullptr))) {
            last->bytes += bytes;
        } else {
            if (list.n == FULL) {
                launch();
            }
            last  = &list.ranges[list.n++];
            *last = {dst, src, bytes, list.n_pieces};
        }
        const uint32_t by = bulk_piece_bytes(last->bytes, most);

        list.n_pieces = last->first + (last->bytes + by - 1) / by;
    }

    /* A kernel for shorter lists takes the beginning of this one. */
    const void *kernel() const
    {
        if (list.n <= FEW) {
            return is_bulk ? (const void *)copy_bulk<FEW>
                           : (const void *)copy_plain<FEW>;
        }
        if (list.n <= MORE) {
            return is_bulk ? (const void *)copy_bulk<MORE>
                           : (const void *)copy_plain<MORE>;
        }
        return is_bulk ? (const void *)copy_bulk<FULL>
                       : (const void *)copy_plain<FULL>;
    }

    void launch()
    {
        const unsigned n =
            list.n_pieces < (uint32_t)blocks ? list.n_pieces : (unsigned)blocks;
        void *arguments[] = {&list, &argument};

        if ((list.n > 0) && (error == cudaSuccess)) {
            error = cudaLaunchKernel(
                kernel(), dim3(n), dim3(is_bulk ? 32 : PLAIN_THREADS),
                arguments, is_bulk ? (size_t)BULK_STAGES * most : 0, stream);
            (void)cudaGetLastError(); /* it is in `error` */
        }
        list.n = list.n_pieces = 0;
    }

    bool is_bulk;
    uint32_t most, argument;
    int blocks;
    cudaStream_t stream;
    cudaError_t error;
    list_t<FULL> list;
};

bool in_sixteens(const pl_copy_t &copy)
{
    return ((uintptr_t)copy.dst | (uintptr_t)copy.src | copy.bytes) % 16 == 0;
}

} // namespace

pl_status_t pl_cuda_copy_ranges(const pl_copy_t *copies, int32_t n,
                                int32_t n_blocks, pl_cuda_stream_t stream)
{
    const bool is_far   = n_blocks > 0;
    const uint32_t most = is_far ? BULK_FAR_MOST : BULK_NEAR_MOST;
    bool is_ragged      = false;

    if ((n < 0) || (n_blocks < 0)) {
        return PL_ERR_ARGUMENT;
    }
    launcher_t bulk(true, most, most, is_far ? n_blocks : bulk_near_blocks(),
                    stream);
    for (int32_t i = 0; i < n; i++) {
        if (in_sixteens(copies[i])) {
            bulk.add(copies[i].dst, copies[i].src, copies[i].bytes);
        } else {
            is_ragged = true;
        }
    }
    PL_TRY(bulk.finish());
    if (!is_ragged) {
        return PL_OK;
    }
    launcher_t plain(false, PLAIN_MOST, 0,
                     is_far ? PLAIN_FAR_BLOCKS : bulk_near_blocks(), stream);
    for (int32_t i = 0; i < n; i++) {
        if (!in_sixteens(copies[i])) {
            plain.add(copies[i].dst, copies[i].src, copies[i].bytes);
        }
    }
    return plain.finish();
}

pl_status_t pl_cuda_fill_ranges(const pl_span_t *spans, int32_t n, uint8_t byte,
                                pl_cuda_stream_t stream)
{
    if (n < 0) {
        return PL_ERR_ARGUMENT;
    }
    launcher_t plain(false, PLAIN_MOST, byte, bulk_near_blocks(), stream);
    for (int32_t i = 0; i < n; i++) {
        plain.add(spans[i].mem, nullptr, spans[i].bytes);
    }
    return plain.finish();
}

bool pl_cuda_kernels_run_here(void)
{
    cudaFuncAttributes attributes;
    const bool they_do =
        cudaFuncGetAttributes(&attributes, (const void *)copy_bulk<FEW>) ==
        cudaSuccess;

    (void)cudaGetLastError(); /* or the next launch seems to have failed */
    return they_do;
}
