/* device/cuda_module.h - what pagelane_cuda.so gives to the program.
 *
 * All code that needs CUDA, cuBLAS or NCCL is in that one file; the program
 * opens it at run time (device/cuda.h), so one program serves machines with and
 * without GPUs.
 */
#ifndef PL_DEVICE_CUDA_MODULE_H
#define PL_DEVICE_CUDA_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PL_CUDA_MODULE_FILE   "pagelane_cuda.so"
#define PL_CUDA_MODULE_SYMBOL "pl_cuda_module"
#define PL_CUDA_MODULE_ABI    1

typedef struct pl_cuda_about {
    char name[64];
    int major, minor; /* compute capability */
    int n_processors;
    uint64_t bytes; /* of device memory */
} pl_cuda_about_t;

/* One figure of `pagelane bench kernels`, beside its yardstick. */
typedef struct pl_cuda_figure {
    const char *key;  /* in JSON */
    const char *name; /* for people */
    const char *unit;
    double value;
    const char *yardstick_name; /* "": there is none */
    double yardstick;           /* in the same unit, same run */
    const char *reach;          /* what is asked of it, or "" */
} pl_cuda_figure_t;

typedef struct pl_cuda_figures {
    void (*take)(void *context, const pl_cuda_figure_t *figure);
    void *context;
} pl_cuda_figures_t;

typedef struct pl_cuda_module {
    uint32_t abi; /* PL_CUDA_MODULE_ABI */

    /* GPUs that can be used; 0 with a reason in why[room]. */
    int (*count)(char *why, size_t room);
    pl_status_t (*describe)(int device, pl_cuda_about_t *about);
    /* Kernels on GPU 0 and, where there is a second, reads from it.  One line
     * and PL_ERR_DEVICE, PL_ERR_MEMORY. */
    pl_status_t (*bench_kernels)(const pl_log_t *log,
                                 const pl_cuda_figures_t *figures);
} pl_cuda_module_t;

/* The symbol's type. */
typedef const pl_cuda_module_t *(*pl_cuda_module_get_t)(void);

#ifdef __cplusplus
}
#endif

#endif /* PL_DEVICE_CUDA_MODULE_H */
