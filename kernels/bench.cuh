/* kernels/bench.cuh - each kernel beside its yardstick, in the same run. */
#ifndef PL_KERNELS_BENCH_CUH
#define PL_KERNELS_BENCH_CUH

#include "device/cuda_module.h"

pl_status_t pl_cuda_bench_kernels(const pl_log_t *log,
                                  const pl_cuda_figures_t *figures);

#endif /* PL_KERNELS_BENCH_CUH */
