/* kernels/scan.cuh - sums over the threads of a block. */
#ifndef PL_KERNELS_SCAN_CUH
#define PL_KERNELS_SCAN_CUH

#include <stdint.h>

/* Sum of the values of this thread and those before it; all threads of a block
 * of WARPS warps call it.  warp_sums: [WARPS] of shared memory, free of use by
 * others until the next barrier; its last is then the sum of all. */
template <int WARPS>
__device__ int32_t pl_sum_up_to(int32_t value, int32_t *warp_sums)
{
    const int lane = (int)(threadIdx.x % 32);
    const int warp = (int)(threadIdx.x / 32);
    int32_t sum    = value;

#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        int32_t left = __shfl_up_sync(~0U, sum, by);

        sum += lane >= by ? left : 0;
    }
    __syncthreads(); /* the sums of the last call have been read */
    if (lane == 31) {
        warp_sums[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        int32_t whole = lane < WARPS ? warp_sums[lane] : 0;

#pragma unroll
        for (int by = 1; by < WARPS; by *= 2) {
            int32_t left = __shfl_up_sync(~0U, whole, by);

            whole += lane >= by ? left : 0;
        }
        if (lane < WARPS) {
            warp_sums[lane] = whole;
        }
    }
    __syncthreads();
    return sum + (warp > 0 ? warp_sums[warp - 1] : 0);
}

#endif /* PL_KERNELS_SCAN_CUH */
