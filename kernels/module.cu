#include "device/cuda_module.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "bench.cuh"
#include "device.cuh"
#include "forward.cuh"
#include "nccl.cuh"

namespace
{

int count(char *why, size_t room)
{
    int n             = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error != cudaSuccess) {
        (void)snprintf(why, room, "%s", cudaGetErrorString(error));
        return 0;
    }
    if (n == 0) {
        (void)snprintf(why, room, "the driver sees no GPU");
    }
    return n;
}

pl_status_t describe(int device, pl_cuda_about_t *about)
{
    cudaDeviceProp properties;

    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
        return PL_ERR_DEVICE;
    }
    memset(about, 0, sizeof(*about));
    (void)snprintf(about->name, sizeof(about->name), "%s", properties.name);
    about->major        = properties.major;
    about->minor        = properties.minor;
    about->n_processors = properties.multiProcessorCount;
    about->bytes        = properties.totalGlobalMem;
    return PL_OK;
}

pl_cuda_module_t make_module()
{
    pl_cuda_module_t module = {};

    module.abi           = PL_CUDA_MODULE_ABI;
    module.count         = count;
    module.describe      = describe;
    module.bench_kernels = pl_cuda_bench_kernels;
    module.open_device   = pl_cuda_device_open;
    module.open_forward  = pl_cuda_open_forward;
    module.nccl          = &PL_CUDA_NCCL;
    return module;
}

const pl_cuda_module_t MODULE = make_module();

} // namespace

extern "C" __attribute__((visibility("default"))) const pl_cuda_module_t *
pl_cuda_module(void)
{
    return &MODULE;
}
