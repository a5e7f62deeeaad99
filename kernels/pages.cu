/* Whole pages from one place to another, by the bulk copy engine of each
 * multiprocessor: a block is one thread that keeps a ring of pieces in shared
 * memory filling and emptying.  No data goes through registers, so the number
 * of bytes under way, which is what speed takes, costs nothing else. */
#include "bulk.cuh"
#include "launch.cuh"

namespace
{

struct place_t {
    uint8_t *base;
    const int32_t *slots;
    const void *const *bases;
    int32_t n_lanes;
    size_t stride;

    explicit place_t(const pl_page_place_t &place)
        : base((uint8_t *)place.base), slots(place.slots), bases(place.bases),
          n_lanes(place.n_lanes), stride(place.stride)
    {
    }

    __device__ uint8_t *page(uint32_t i) const
    {
        int32_t slot = slots != nullptr ? __ldg(slots + i) : (int32_t)i;

        if (bases != nullptr) {
            return (uint8_t *)__ldg((const uint64_t *)bases + slot % n_lanes) +
                   (size_t)(slot / n_lanes) * stride;
        }
        return base + (size_t)slot * stride;
    }
};

/* Pages cut into pieces of `bytes`, the last one of a page shorter. */
struct pieces_t {
    uint32_t bytes, page_bytes, per_page, n;

    __device__ uint32_t size(uint32_t part) const
    {
        return min(bytes, page_bytes - part * bytes);
    }
};

/* Piece i into a stage; its barrier opens when all bytes are there. */
__device__ void fetch(const place_t &from, const pieces_t &pieces, uint32_t i,
                      uint32_t stage, uint32_t barrier)
{
    const uint32_t part = i % pieces.per_page;
    const uint32_t n    = pieces.size(part);
    const uint8_t *at =
        from.page(i / pieces.per_page) + (size_t)part * pieces.bytes;

    bulk_load(stage, at, n, barrier);
}

__device__ void deliver(const place_t &to, const pieces_t &pieces, uint32_t i,
                        uint32_t stage)
{
    const uint32_t part = i % pieces.per_page;
    uint8_t *at = to.page(i / pieces.per_page) + (size_t)part * pieces.bytes;

    bulk_store(at, stage, pieces.size(part));
}

/* The first pieces are the first blocks', the others the other blocks': what is
 * near need not wait in one ring with what comes over a link. */
struct split_t {
    uint32_t n_first, n_first_blocks;
};

__global__ void __launch_bounds__(32)
    copy_pages(place_t from, place_t to, pieces_t pieces, split_t split)
{
    extern __shared__ __align__(128) uint8_t ring[]; /* [BULK_STAGES][bytes] */
    __shared__ __align__(8) uint64_t barriers[BULK_STAGES];
    const bool is_first = blockIdx.x < split.n_first_blocks;
    const uint32_t step =
        is_first ? split.n_first_blocks : gridDim.x - split.n_first_blocks;
    const uint32_t begin =
        is_first ? blockIdx.x
                 : split.n_first + blockIdx.x - split.n_first_blocks;
    const uint32_t end = is_first ? split.n_first : pieces.n;
    uint32_t next      = begin; /* piece to fetch */
    uint32_t n_fetched = 0, n_done = 0;

    if (threadIdx.x != 0) {
        return;
    }
    bulk_make_barriers(barriers);
    for (; (n_fetched < BULK_STAGES - 1) && (next < end); next += step) {
        fetch(from, pieces, next,
              pl_shared_address(ring) + n_fetched * pieces.bytes,
              pl_shared_address(barriers + n_fetched));
        n_fetched++;
    }
    for (uint32_t i = begin; i < end; i += step, n_done++) {
        const uint32_t s = n_done % BULK_STAGES;

        pl_barrier_wait(pl_shared_address(barriers + s),
                        n_done / BULK_STAGES % 2);
        deliver(to, pieces, i, pl_shared_address(ring) + s * pieces.bytes);
        if (next < end) {
            const uint32_t f = n_fetched % BULK_STAGES;

            /* All but the delivery just begun have left their stages. */
            bulk_stages_left_but_one();
            fetch(from, pieces, next,
                  pl_shared_address(ring) + f * pieces.bytes,
                  pl_shared_address(barriers + f));
            n_fetched++;
            next += step;
        }
    }
    bulk_stores_done();
}

bool is_sound(const pl_page_place_t *place)
{
    return (place->stride % 16 == 0) && ((uintptr_t)place->base % 16 == 0);
}

/* Pieces begin at multiples of what a link or memory moves at a time. */
pieces_t cut(size_t page_bytes, uint32_t most)
{
    const uint32_t by = bulk_piece_bytes((uint32_t)page_bytes, most);

    return {by, (uint32_t)page_bytes,
            (uint32_t)pl_ceil_div((int64_t)page_bytes, by), 0};
}

uint32_t least(int64_t blocks, uint32_t n_pieces)
{
    return blocks < n_pieces ? (uint32_t)blocks : n_pieces;
}

} // namespace

pl_status_t pl_cuda_gather_pages(const pl_page_place_t *from,
                                 const pl_page_place_t *to, int32_t n_far,
                                 int32_t n_near, size_t page_bytes,
                                 int32_t n_blocks, pl_cuda_stream_t stream)
{
    const bool is_far     = n_blocks > 0;
    const int64_t n_pages = (int64_t)n_far + n_near;
    pieces_t pieces;
    split_t split;
    uint32_t blocks;

    if (!is_sound(from) || !is_sound(to) || (page_bytes % 16 != 0) ||
        (page_bytes == 0) || (page_bytes >= (size_t)1 << 31) ||
        (to->bases != nullptr) || (n_far < 0) || (n_near < 0) ||
        (n_blocks < 0)) {
        return PL_ERR_ARGUMENT;
    }
    pieces = cut(page_bytes, is_far ? BULK_FAR_MOST : BULK_NEAR_MOST);
    if (n_pages * pieces.per_page > INT32_MAX) {
        return PL_ERR_ARGUMENT;
    }
    pieces.n      = (uint32_t)n_pages * pieces.per_page;
    split.n_first = (uint32_t)n_far * pieces.per_page;
    split.n_first_blocks =
        least(is_far ? n_blocks : bulk_near_blocks(), split.n_first);
    blocks =
        split.n_first_blocks +
        least(is_far ? n_blocks : bulk_near_blocks(), pieces.n - split.n_first);
    if (pieces.n > 0) {
        copy_pages<<<blocks, 32, BULK_STAGES * pieces.bytes, stream>>>(
            place_t(*from), place_t(*to), pieces, split);
    }
    return pl_launched();
}

pl_status_t pl_cuda_copy_pages(const pl_page_place_t *from,
                               const pl_page_place_t *to, int32_t n_pages,
                               size_t page_bytes, int32_t n_blocks,
                               pl_cuda_stream_t stream)
{
    return pl_cuda_gather_pages(from, to, n_pages, 0, page_bytes, n_blocks,
                                stream);
}
