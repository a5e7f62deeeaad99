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

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PL_CUDA_MODULE_FILE   "pagelane_cuda.so"
#define PL_CUDA_MODULE_SYMBOL "pl_cuda_module"
#define PL_CUDA_MODULE_ABI    4

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

struct pl_forward;
struct pl_model_config;
struct pl_weights;

/* NCCL among the ranks that have one GPU each; src/comm/nccl.c drives it. */
#define PL_NCCL_ID_BYTES 128
typedef struct pl_nccl pl_nccl_t; /* opaque: one rank's communicator */

/* Pages that one rank has and all want: those of rank r are counts[r] pages
 * from row first[r] of the view. */
typedef struct pl_nccl_gather {
    const pl_page_t *pages;        /* [counts[rank]] own ones, in view order */
    const uint8_t *store;          /* page g at (g div n) * stride */
    const int32_t *first, *counts; /* [n] */
    size_t stride;
    uint8_t *view;
} pl_nccl_gather_t;

typedef struct pl_nccl_ops {
    /* On one rank; the others get the bytes by other means. */
    pl_status_t (*make_id)(const pl_log_t *log, uint8_t id[PL_NCCL_ID_BYTES]);
    /* Collective over the n ranks.  PL_ERR_COMM, PL_ERR_DEVICE (one line). */
    pl_status_t (*open)(pl_device_t *device, const uint8_t *id, int rank, int n,
                        double timeout_s, pl_nccl_t **nccl_p);
    /* Collective; queued on PL_STREAM_GATHER of the device. */
    pl_status_t (*gather)(pl_nccl_t *nccl, const pl_nccl_gather_t *gather);
    /* PL_OK, or PL_ERR_COMM with one line: an asynchronous error. */
    pl_status_t (*look)(pl_nccl_t *nccl);
    void (*abort)(pl_nccl_t *nccl); /* its work on the device ends */
    void (*close)(pl_nccl_t *nccl); /* NULL is allowed */
    /* What tells GPUs apart, on one machine and between machines; zeros if
     * nobody knows. */
    void (*gpu_id)(const pl_device_t *device, uint8_t id[16]);
    /* Collective; a yardstick: NCCL's own, of `bytes` of each rank.  Queued on
     * PL_STREAM_GATHER. */
    pl_status_t (*all_gather)(pl_nccl_t *nccl, const void *mine, void *all,
                              size_t bytes);
} pl_nccl_ops_t;

typedef struct pl_cuda_module {
    uint32_t abi; /* PL_CUDA_MODULE_ABI */

    /* GPUs that can be used; 0 with a reason in why[room]. */
    int (*count)(char *why, size_t room);
    pl_status_t (*describe)(int device, pl_cuda_about_t *about);
    /* Kernels on GPU 0 and, where there is a second, reads from it.  One line
     * and PL_ERR_DEVICE, PL_ERR_MEMORY. */
    pl_status_t (*bench_kernels)(const pl_log_t *log,
                                 const pl_cuda_figures_t *figures);

    /* A device of table device/device.h on GPU `gpu`.  PL_ERR_DEVICE,
     * PL_ERR_MEMORY. */
    pl_status_t (*open_device)(int gpu, const pl_log_t *log,
                               pl_device_t **device_p);
    /* A forward of table model/transformer.h on such a device; weights are
     * copied to the GPU once for all forwards of this process on it. */
    pl_status_t (*open_forward)(pl_device_t *device,
                                const struct pl_model_config *config,
                                const struct pl_weights *weights, int kv_dtype,
                                const pl_log_t *log,
                                struct pl_forward **forward_p);
    const pl_nccl_ops_t *nccl;
} pl_cuda_module_t;

/* The symbol's type. */
typedef const pl_cuda_module_t *(*pl_cuda_module_get_t)(void);

#ifdef __cplusplus
}
#endif

#endif /* PL_DEVICE_CUDA_MODULE_H */
