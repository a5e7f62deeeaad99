/* kernels/nccl.cuh - NCCL, for src/comm/nccl.c.
 *
 * libnccl.so.2 is opened at first use, so that the module is whole without it.
 * NVLink multicast (NVLS) is left as the environment has it: it is for
 * reductions and all-gathers, and a program that uses it can put GPUs which
 * others share out of service, so such machines have NCCL_NVLS_ENABLE=0.
 *
 * Communicators are nonblocking, and whatever the host waits for has an end
 * after timeout_s: a peer that died ends in PL_ERR_COMM, never in a hang.
 */
#ifndef PL_KERNELS_NCCL_CUH
#define PL_KERNELS_NCCL_CUH

#include "device/cuda_module.h"

extern const pl_nccl_ops_t PL_CUDA_NCCL;

#endif /* PL_KERNELS_NCCL_CUH */
