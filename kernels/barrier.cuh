/* kernels/barrier.cuh - barriers in shared memory (mbarrier), by their address
 * there: 8 bytes each.
 *
 * A phase is over when as many have arrived as were said, and all bytes that
 * were expected have come; then the next one begins.
 */
#ifndef PL_KERNELS_BARRIER_CUH
#define PL_KERNELS_BARRIER_CUH

#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t pl_shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* By one thread; the others may use it after __syncthreads. */
static __device__ __forceinline__ void pl_barrier_make(uint32_t barrier,
                                                       int n_arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
                 "r"(n_arrivals)
                 : "memory");
}

/* Until the phase of that parity is over: 0 the first one, then 1, 0, ... */
static __device__ __forceinline__ void pl_barrier_wait(uint32_t barrier,
                                                       uint32_t parity)
{
    uint32_t is_over = 0;

    while (is_over == 0) {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}\n"
                     : "=r"(is_over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    }
}

#endif /* PL_KERNELS_BARRIER_CUH */
