/* device/cuda.h - opening the file that has all that needs CUDA.
 *
 * It lies beside the library.  A program without it, or on a machine without a
 * driver or GPU, is whole: it is told why.
 */
#ifndef PL_DEVICE_CUDA_H
#define PL_DEVICE_CUDA_H

#include <stddef.h>

#include "device/cuda_module.h"

/* The module, open until the program ends; NULL with one line of text in
 * why[room].  Thread-safe. */
const pl_cuda_module_t *pl_cuda_open(char *why, size_t room);

/* GPUs that a device can be opened on; 0 without module or driver. */
int pl_cuda_gpus(void);

/* The device on one of them, counted from 0.  PL_ERR_RESOURCE: there is none,
 * and one line says why; PL_ERR_DEVICE, PL_ERR_MEMORY with one line. */
PL_MUST_CHECK pl_status_t pl_device_open_cuda(int gpu, const pl_log_t *log,
                                              pl_device_t **device_p);

#endif /* PL_DEVICE_CUDA_H */
