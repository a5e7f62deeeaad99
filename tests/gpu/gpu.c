#include "gpu.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

typedef enum kind { ON_GPU, PINNED, ON_HOST } kind_t;

static struct {
    void *at[MOST];
    kind_t kind[MOST];
    int n;
} held;

static void *hold(void *memory, kind_t kind)
{
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_lt(held.n, MOST);
    held.at[held.n]     = memory;
    held.kind[held.n++] = kind;
    return memory;
}

static void must(cudaError_t error)
{
    ck_assert_msg(error == cudaSuccess, "%s", cudaGetErrorString(error));
}

int gpu_is_there(void)
{
    int n             = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if ((error != cudaSuccess) || (n == 0)) {
        printf("no GPU: %s\n",
               error == cudaSuccess ? "none found" : cudaGetErrorString(error));
    }
    return (error == cudaSuccess) && (n > 0);
}

void *gpu_upload(const void *bytes, size_t n)
{
    void *memory = NULL;

    must(cudaMalloc(&memory, n > 0 ? n : 1));
    if (bytes == NULL) {
        must(cudaMemset(memory, 0xFF, n));
    } else {
        must(cudaMemcpy(memory, bytes, n, cudaMemcpyHostToDevice));
    }
    return hold(memory, ON_GPU);
}

void gpu_download(void *to, const void *from, size_t n)
{
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(to, from, n, cudaMemcpyDeviceToHost));
}

void *gpu_pinned(size_t n)
{
    void *memory = NULL;

    must(cudaHostAlloc(&memory, n, cudaHostAllocMapped));
    return hold(memory, PINNED);
}

void gpu_close(void)
{
    must(cudaDeviceSynchronize());
    for (int i = 0; i < held.n; i++) {
        switch (held.kind[i]) {
        case ON_GPU:
            must(cudaFree(held.at[i]));
            break;
        case PINNED:
            must(cudaFreeHost(held.at[i]));
            break;
        case ON_HOST:
            free(held.at[i]);
            break;
        }
    }
    held.n = 0;
}

void *host_bytes(size_t n)
{
    return hold(calloc(n > 0 ? n : 1, 1), ON_HOST);
}

float *host_floats(pl_rng_t *rng, size_t n)
{
    float *values = host_bytes(n * sizeof(*values));

    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(pl_rng_unit(rng) * 2.0 - 1.0);
    }
    return values;
}

int32_t between(pl_rng_t *rng, int32_t first, int32_t last)
{
    return first + (int32_t)pl_rng_below(rng, (uint64_t)(last - first) + 1);
}

int32_t *host_order(pl_rng_t *rng, int32_t n)
{
    int32_t *order = host_bytes((size_t)n * sizeof(*order));

    for (int32_t i = 0; i < n; i++) {
        int32_t j = between(rng, 0, i);

        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

double relative_error(const float *a, const float *b, size_t n)
{
    double off = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return all > 0 ? sqrt(off / all) : sqrt(off);
}
