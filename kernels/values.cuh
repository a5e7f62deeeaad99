/* kernels/values.cuh - float32 and bf16 values in memory, read and written as
 * float32; bf16 rounds to nearest even. */
#ifndef PL_KERNELS_VALUES_CUH
#define PL_KERNELS_VALUES_CUH

#include <cuda_bf16.h>

static __device__ __forceinline__ void pl_put(float *to, float value)
{
    *to = value;
}

static __device__ __forceinline__ void pl_put(__nv_bfloat16 *to, float value)
{
    *to = __float2bfloat16_rn(value);
}

static __device__ __forceinline__ float pl_get(const float *from)
{
    return *from;
}

static __device__ __forceinline__ float pl_get(const __nv_bfloat16 *from)
{
    return __bfloat162float(*from);
}

#endif /* PL_KERNELS_VALUES_CUH */
