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

#endif /* PL_DEVICE_CUDA_H */
