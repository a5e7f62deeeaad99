/* Whole pages from one place to another, by the bulk copy engine of each
 * multiprocessor: a block is one thread that keeps a ring of pieces in shared
 * memory filling and emptying.  No data goes through registers, so the number of
 * bytes under way, which is what speed takes, costs nothing else. */
#include "launch.cuh"

namespace {

constexpr int STAGES         = 6;
constexpr uint32_t NEAR_MOST = 2688; /* bytes of a piece within the device */
constexpr uint32_t FAR_MOST  = 7168; /* over a link */
constexpr int NEAR_BLOCKS    = 10;   /* of a multiprocessor */

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

__device__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Piece i into a stage; its barrier opens when all bytes are there. */
__device__ void fetch(const place_t &from, const pieces_t &pieces, uint32_t i,
                      uint32_t stage, uint32_t barrier)
{
    const uint32_t part = i % pieces.per_page;
    const uint32_t n    = pieces.size(part);
    const uint8_t *at =
        from.page(i / pieces.per_page) + (size_t)part * pieces.bytes;

    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
        "r"(n)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, [%3];" ::"r"(stage),
                 "l"(at), "r"(n), "r"(barrier)
                 : "memory");
}

__device__ void wait(uint32_t barrier, uint32_t phase)
{
    uint32_t is_open = 0;

    while (is_open == 0) {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}\n"
                     : "=r"(is_open)
                     : "r"(barrier), "r"(phase)
                     : "memory");
    }
}

__device__ void deliver(const place_t &to, const pieces_t &pieces, uint32_t i,
                        uint32_t stage)
{
    const uint32_t part = i % pieces.per_page;
    uint8_t *at = to.page(i / pieces.per_page) + (size_t)part * pieces.bytes;

    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(at),
        "r"(stage), "r"(pieces.size(part))
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__global__ void __launch_bounds__(32)
    copy_pages(place_t from, place_t to, pieces_t pieces)
{
    extern __shared__ __align__(128) uint8_t ring[]; /* [STAGES][bytes] */
    __shared__ __align__(8) uint64_t barriers[STAGES];
    uint32_t next = blockIdx.x; /* piece to fetch */
    uint32_t n_fetched = 0, n_done = 0;

    if (threadIdx.x != 0) {
        return;
    }
    for (int s = 0; s < STAGES; s++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
            shared_address(barriers + s)));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (; (n_fetched < STAGES - 1) && (next < pieces.n); next += gridDim.x) {
        fetch(from, pieces, next, shared_address(ring) + n_fetched * pieces.bytes,
              shared_address(barriers + n_fetched));
        n_fetched++;
    }
    for (uint32_t i = blockIdx.x; i < pieces.n; i += gridDim.x, n_done++) {
        const uint32_t s = n_done % STAGES;

        wait(shared_address(barriers + s), n_done / STAGES % 2);
        deliver(to, pieces, i, shared_address(ring) + s * pieces.bytes);
        if (next < pieces.n) {
            const uint32_t f = n_fetched % STAGES;

            /* All but the delivery just begun have left their stages. */
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            fetch(from, pieces, next,
                  shared_address(ring) + f * pieces.bytes,
                  shared_address(barriers + f));
            n_fetched++;
            next += gridDim.x;
        }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

bool is_sound(const pl_page_place_t *place)
{
    return (place->stride % 16 == 0) && ((uintptr_t)place->base % 16 == 0);
}

/* Pieces begin at multiples of what a link or memory moves at a time. */
pieces_t cut(size_t page_bytes, uint32_t most)
{
    constexpr uint32_t LINE = 128;
    const uint32_t n        = (uint32_t)pl_ceil_div((int64_t)page_bytes, most);
    const uint32_t by =
        (uint32_t)pl_ceil_div((int64_t)page_bytes, n * LINE) * LINE;

    return {by, (uint32_t)page_bytes,
            (uint32_t)pl_ceil_div((int64_t)page_bytes, by), 0};
}

int near_blocks()
{
    int device = 0, n_processors = 0;

    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&n_processors,
                                 cudaDevAttrMultiProcessorCount, device);
    return n_processors * NEAR_BLOCKS;
}

} // namespace

pl_status_t pl_cuda_copy_pages(const pl_page_place_t *from,
                               const pl_page_place_t *to, int32_t n_pages,
                               size_t page_bytes, int32_t n_blocks,
                               pl_cuda_stream_t stream)
{
    const bool is_far = n_blocks > 0;
    pieces_t pieces;
    int64_t blocks;

    if (!is_sound(from) || !is_sound(to) || (page_bytes % 16 != 0) ||
        (page_bytes == 0) || (page_bytes >= (size_t)1 << 31) ||
        (to->bases != nullptr) || (n_pages < 0) || (n_blocks < 0)) {
        return PL_ERR_ARGUMENT;
    }
    pieces = cut(page_bytes, is_far ? FAR_MOST : NEAR_MOST);
    if ((int64_t)n_pages * pieces.per_page > INT32_MAX) {
        return PL_ERR_ARGUMENT;
    }
    pieces.n = (uint32_t)n_pages * pieces.per_page;
    blocks   = is_far ? n_blocks : near_blocks();
    blocks   = blocks < pieces.n ? blocks : pieces.n;
    if (pieces.n > 0) {
        copy_pages<<<(unsigned)blocks, 32, STAGES * pieces.bytes, stream>>>(
            place_t(*from), place_t(*to), pieces);
    }
    return pl_launched();
}
