/* gpu.h - memory of the GPU for tests, and random values. */
#ifndef GPU_H
#define GPU_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "kernels.h"

/* Is there a GPU?  If not, says why. */
int gpu_is_there(void);

/* Freed by gpu_close, which each test ends with.  `bytes` may be NULL: 0xFF. */
void *gpu_upload(const void *bytes, size_t n);
void gpu_download(void *to, const void *from, size_t n); /* waits first */
/* Pinned host memory, reached by the GPU at the same address. */
void *gpu_pinned(size_t n);
void gpu_close(void);

#define GPU_UPLOAD(array, n) gpu_upload(array, (size_t)(n) * sizeof(*(array)))

/* Host memory, freed by gpu_close. */
void *host_bytes(size_t n);
float *host_floats(pl_rng_t *rng, size_t n); /* uniform in [-1, 1) */
/* 0 .. n-1 in a random order. */
int32_t *host_order(pl_rng_t *rng, int32_t n);

/* Uniform in first .. last. */
int32_t between(pl_rng_t *rng, int32_t first, int32_t last);

/* ||a - b|| / ||b|| */
double relative_error(const float *a, const float *b, size_t n);

TCase *case_pages(void);
TCase *case_rows(void);
TCase *case_scores(void);
TCase *case_topk(void);
TCase *case_attend(void);
TCase *case_layers(void);
TCase *case_grouped(void);
TCase *case_products(void);
TCase *case_forward(void);

TCase *case_profile(void);
TCase *case_device(void);
/* The program again as a peer, `test_gpu_kernels <DEVICE_CHILD> <gpu>`: its
 * exit status. */
#define DEVICE_CHILD "--device-child"
int device_child(const char *gpu);

#endif /* GPU_H */
