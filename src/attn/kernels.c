#include "attn/kernels.h"

#include "attn/kernels_table.h"

#if defined(PL_KERNELS_X86)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
}
#endif

const pl_kernels_t *pl_kernels(void)
{
#if defined(PL_KERNELS_X86)
    if (has_avx512()) {
        return &pl_kernels_avx512;
    }
    if (has_avx2()) {
        return &pl_kernels_avx2;
    }
#endif
    return &pl_kernels_plain;
}

const pl_kernels_t *pl_kernels_at(int i)
{
#if defined(PL_KERNELS_X86)
    if (i == 1 && has_avx2()) {
        return &pl_kernels_avx2;
    }
    if (i == 2 && has_avx512()) {
        return &pl_kernels_avx512;
    }
#endif
    return i == 0 ? &pl_kernels_plain : NULL;
}
