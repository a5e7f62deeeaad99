/* kernels/bulk.cuh - the bulk copy engine of a multiprocessor: pieces of memory
 * into shared memory and out of it, asked for by one thread.
 *
 * A kernel keeps a ring of BULK_STAGES pieces filling and emptying.  Addresses
 * and sizes are multiples of 16; over PCIe pieces that begin at multiples of
 * 128 move at 51 GB/s, others at 33.
 */
#ifndef PL_KERNELS_BULK_CUH
#define PL_KERNELS_BULK_CUH

#include "barrier.cuh"

constexpr int BULK_STAGES         = 6;
constexpr uint32_t BULK_LINE      = 128;
constexpr uint32_t BULK_NEAR_MOST = 2688; /* bytes within the device */
constexpr uint32_t BULK_FAR_MOST  = 7168; /* over a link */
constexpr int BULK_NEAR_BLOCKS    = 10;   /* of a multiprocessor */

/* Each opens when one load's bytes are there. */
static __device__ __forceinline__ void
bulk_make_barriers(uint64_t (&barriers)[BULK_STAGES])
{
    for (int s = 0; s < BULK_STAGES; s++) {
        pl_barrier_make(pl_shared_address(barriers + s), 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void
bulk_load(uint32_t stage, const void *at, uint32_t bytes, uint32_t barrier)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
        "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, [%3];" ::"r"(stage),
                 "l"(at), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* One group a store. */
static __device__ __forceinline__ void bulk_store(void *at, uint32_t stage,
                                                  uint32_t bytes)
{
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(at),
        "r"(stage), "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* All stores but the last have left their stages. */
static __device__ __forceinline__ void bulk_stages_left_but_one(void)
{
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

static __device__ __forceinline__ void bulk_stores_done(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Bytes of the pieces that `bytes` are cut into, none above `most` (whole
 * lines), all but the last alike and whole lines. */
static inline uint32_t bulk_piece_bytes(uint32_t bytes, uint32_t most)
{
    const uint32_t n = (bytes + most - 1) / most;

    return (bytes + n * BULK_LINE - 1) / (n * BULK_LINE) * BULK_LINE;
}

/* Blocks that fill the current device. */
static inline int bulk_near_blocks(void)
{
    int device = 0, n_processors = 0;

    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount,
                                 device);
    return n_processors * BULK_NEAR_BLOCKS;
}

#endif /* PL_KERNELS_BULK_CUH */
