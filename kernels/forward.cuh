/* kernels/forward.cuh - table model/transformer.h on a GPU. */
#ifndef PL_KERNELS_FORWARD_CUH
#define PL_KERNELS_FORWARD_CUH

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "device/cuda_module.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pl_model_config;
struct pl_weights;
struct pl_forward;

/* open_forward of device/cuda_module.h: `device` is one of pl_cuda_device_open;
 * kv_dtype a pl_kv_dtype_t.  PL_ERR_ARGUMENT (one line): a model that the
 * kernels cannot take. */
PL_MUST_CHECK pl_status_t
pl_cuda_open_forward(pl_device_t *device, const struct pl_model_config *config,
                     const struct pl_weights *weights, int kv_dtype,
                     const pl_log_t *log, struct pl_forward **forward_p);

#ifdef __cplusplus
}
#endif

#endif /* PL_KERNELS_FORWARD_CUH */
