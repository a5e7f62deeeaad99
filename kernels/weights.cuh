/* kernels/weights.cuh - a model's weights on a GPU, as its forward pass wants
 * them.
 *
 * All forwards of a process on one GPU share them.  With float32 stores of KV
 * all are float32; else matrices are bf16 (rounded once, here), but for the
 * router's, and norms float32.  Rows of matrices are padded to 16 bytes, except
 * those of experts.
 */
#ifndef PL_KERNELS_WEIGHTS_CUH
#define PL_KERNELS_WEIGHTS_CUH

#include <stddef.h>
#include <stdint.h>

#include "device.cuh"
#include "kernels.h"

/* gate over up [2 * width][hidden], down [hidden][width] */
struct pl_gpu_mlp_t {
    void *gate_up, *down;
};

struct pl_gpu_layer_t {
    float *input_norm, *post_norm, *q_a_norm, *kv_a_norm;
    float *index_k_norm, *index_k_norm_bias;
    void
        *in; /* q_a over kv_a and, with an indexer, over its keys and weights */
    void *q_b, *index_q_b, *kv_b, *o;
    pl_gpu_mlp_t dense, shared;
    float *router, *router_bias;
    const void **gate, **up, **down; /* [n_experts] on the device */
};

/* Plans of products.cu. */
struct pl_gpu_plans_t {
    int in[2]; /* without an indexer, with one */
    int q_b, index_q_b, absorb, values, o;
    int dense[2], shared[2]; /* gate_up, down */
    int router, head;
};

/* Widths of rows, in elements. */
struct pl_gpu_widths_t {
    size_t hidden; /* of x, padded; also where it is float32 */
    size_t q_lora, kv_lora, nope;
    size_t latent; /* of a head's latent on the way to its values */
    size_t values; /* of all heads */
    size_t dense, shared, expert;
    int32_t in[2]; /* as plans */
};

struct pl_gpu_weights_t {
    const pl_weights_t *source;
    int gpu, n_users;
    pl_cuda_dtype_t dtype;
    pl_gpu_widths_t widths;
    pl_cuda_products_t *products;
    pl_gpu_plans_t plans;
    void *memory;
    void *embed, *head; /* the same if tied */
    float *norm;
    pl_gpu_layer_t *layers;
};

/* The weights on the device's GPU, which the calling thread has entered;
 * uploaded by the first that asks.  The host waits.  PL_ERR_MEMORY,
 * PL_ERR_DEVICE, one line. */
PL_MUST_CHECK pl_status_t pl_gpu_weights_take(const pl_device_t *device,
                                              const pl_model_config_t *config,
                                              const pl_weights_t *source,
                                              pl_cuda_dtype_t dtype,
                                              const pl_log_t *log,
                                              pl_gpu_weights_t **weights_p);
/* The last one that gives them back frees them.  NULL is allowed. */
void pl_gpu_weights_give(pl_gpu_weights_t *weights);

static inline size_t pl_item_bytes(pl_cuda_dtype_t dtype)
{
    return dtype == PL_CUDA_BF16 ? 2 : sizeof(float);
}

/* One block, cut into arrays; with base NULL it is only measured. */
struct pl_cutter_t {
    uint8_t *base;
    size_t used;

    void *cut(size_t bytes)
    {
        const size_t at = used;

        used += (bytes + 255) / 256 * 256;
        return base == nullptr ? nullptr : base + at;
    }
    template <typename T> T *of(size_t n)
    {
        return (T *)cut(n * sizeof(T));
    }
};

#endif /* PL_KERNELS_WEIGHTS_CUH */
