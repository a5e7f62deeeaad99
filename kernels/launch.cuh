/* kernels/launch.cuh - what launchers share. */
#ifndef PL_KERNELS_LAUNCH_CUH
#define PL_KERNELS_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include <atomic>

#include "kernels.h"

static inline pl_status_t pl_launched(void)
{
    return cudaGetLastError() == cudaSuccess ? PL_OK : PL_ERR_DEVICE;
}

/* The kernel may take all shared memory that a block can have.  Said once for
 * each GPU, and always the same: the attribute belongs to all threads of the
 * process, and one that asked for less would take it from the launch of
 * another. */
template <auto kernel> static bool pl_allow_shared()
{
    static std::atomic<uint64_t> said{0};
    cudaFuncAttributes its = {};
    int gpu = 0, most = 0;
    bool is_good       = cudaGetDevice(&gpu) == cudaSuccess;
    const uint64_t bit = UINT64_C(1) << (gpu % 64);

    if (is_good && ((said.load() & bit) != 0)) {
        return true;
    }
    is_good =
        is_good &&
        (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                gpu) == cudaSuccess) &&
        (cudaFuncGetAttributes(&its, kernel) == cudaSuccess) &&
        (cudaFuncSetAttribute(kernel,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - (int)its.sharedSizeBytes) == cudaSuccess);
    if (is_good) {
        said.fetch_or(bit);
    }
    return is_good;
}

static inline int64_t pl_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Division of an index below 2^31 by a number known at launch: a
 * multiplication. */
struct pl_divisor_t {
    uint32_t by, multiply, shift;

    explicit pl_divisor_t(uint32_t divisor) : by(divisor), multiply(0), shift(0)
    {
        while ((shift < 32) && ((UINT64_C(1) << shift) < divisor)) {
            shift++;
        }
        multiply = (uint32_t)(((UINT64_C(1) << 32) *
                               ((UINT64_C(1) << shift) - divisor)) /
                                  divisor +
                              1);
    }

    __device__ uint32_t quotient(uint32_t n) const
    {
        return (uint32_t)(((uint64_t)__umulhi(n, multiply) + n) >> shift);
    }
};

#endif /* PL_KERNELS_LAUNCH_CUH */
