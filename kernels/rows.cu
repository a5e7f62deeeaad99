/* A chunk's float32 rows into pages, as attn/rows.h stores them: bit for bit
 * what the plain C version writes. */
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "launch.cuh"

namespace
{

constexpr int TILE      = 128; /* values that share a scale */
constexpr float FP8_MAX = 448.0F;

/* Where a row goes; nullptr: nowhere. */
struct target_t {
    uint8_t *key, *scale;
};

__device__ target_t target_of(const pl_page_form_t &form, uint8_t *pages,
                              size_t stride, int32_t row)
{
    target_t target = {nullptr, nullptr};

    if (row >= 0) {
        uint8_t *page = pages + (size_t)(row / form.page_tokens) * stride;
        int32_t i     = row % form.page_tokens;

        target.key   = page + (size_t)i * (size_t)form.key_bytes;
        target.scale = page +
                       (size_t)form.page_tokens * (size_t)form.key_bytes +
                       (size_t)i * (size_t)form.scale_bytes;
    }
    return target;
}

__device__ float warp_max(float value)
{
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        value = fmaxf(value, __shfl_xor_sync(~0U, value, by));
    }
    return value;
}

/* Scales of a planar page need not be aligned. */
__device__ void put_float(uint8_t *to, float value)
{
    uint32_t bits = __float_as_uint(value);

#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(bits >> (8 * i));
    }
}

__device__ uint16_t to_bf16(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

/* One warp: up to TILE values as e4m3, four a thread; returns their scale. */
__device__ float store_tile(const float *values, int32_t n, uint8_t *codes)
{
    const int lane = (int)(threadIdx.x % 32);
    float held[TILE / 32];
    float largest = 0.0F;
    float scale;

#pragma unroll
    for (int k = 0; k < TILE / 32; k++) {
        int32_t i = k * 32 + lane;

        held[k] = i < n ? values[i] : 0.0F;
        largest = fmaxf(largest, fabsf(held[k]));
    }
    scale = __fdiv_rn(warp_max(largest), FP8_MAX);
    if (scale == 0.0F) { /* all zero, or too small for a quotient */
        scale = 1.0F;
    }
#pragma unroll
    for (int k = 0; k < TILE / 32; k++) {
        int32_t i = k * 32 + lane;

        if (i < n) {
            codes[i] = __nv_cvt_float_to_fp8(__fdiv_rn(held[k], scale),
                                             __NV_SATFINITE, __NV_E4M3);
        }
    }
    return scale;
}

__device__ void store_bf16(const float *values, int32_t n, uint8_t *bytes,
                           int thread, int n_threads)
{
    for (int32_t i = thread; i < n; i += n_threads) {
        ((uint16_t *)bytes)[i] = to_bf16(values[i]);
    }
}

__device__ void store_f32(const float *values, int32_t n, uint8_t *bytes,
                          int thread, int n_threads)
{
    for (int32_t i = thread; i < n; i += n_threads) {
        ((float *)bytes)[i] = values[i];
    }
}

/* One block a row: its warps share the tiles, then the rope part. */
__device__ void store_fp8(const pl_row_layout_t &layout, const float *values,
                          uint8_t *row)
{
    const int warp        = (int)(threadIdx.x / 32);
    const int n_warps     = (int)(blockDim.x / 32);
    const int32_t scales  = (layout.kv_lora + 3) / 4 * 4;
    const int32_t n_tiles = (layout.kv_lora + TILE - 1) / TILE;
    const int32_t rope    = scales + n_tiles * (int32_t)sizeof(float);
    const int32_t used    = rope + layout.rope * (int32_t)sizeof(uint16_t);

    for (int32_t t = warp; t < n_tiles; t += n_warps) {
        float scale =
            store_tile(values + t * TILE, min(layout.kv_lora - t * TILE, TILE),
                       row + t * TILE);

        if (threadIdx.x % 32 == 0) {
            ((float *)(row + scales))[t] = scale;
        }
    }
    store_bf16(values + layout.kv_lora, layout.rope, row + rope,
               (int)threadIdx.x, (int)blockDim.x);
    for (int32_t i = layout.kv_lora + (int32_t)threadIdx.x; i < scales;
         i += (int32_t)blockDim.x) {
        row[i] = 0;
    }
    for (int32_t i = used + (int32_t)threadIdx.x; i < layout.latent_bytes;
         i += (int32_t)blockDim.x) {
        row[i] = 0;
    }
}

__global__ void store_latent(pl_row_layout_t layout, pl_page_form_t form,
                             const float *values, const int32_t *rows,
                             uint8_t *pages, size_t stride)
{
    const int32_t width = layout.kv_lora + layout.rope;
    target_t target     = target_of(form, pages, stride, rows[blockIdx.x]);

    values += (size_t)blockIdx.x * (size_t)width;
    if (target.key == nullptr) {
        return;
    }
    switch (layout.dtype) {
    case PL_KV_F32:
        store_f32(values, width, target.key, (int)threadIdx.x, (int)blockDim.x);
        break;
    case PL_KV_BF16:
        store_bf16(values, width, target.key, (int)threadIdx.x,
                   (int)blockDim.x);
        break;
    case PL_KV_FP8:
        store_fp8(layout, values, target.key);
        break;
    }
}

/* One warp a row; a tile is as wide as the key. */
__global__ void store_index(pl_row_layout_t layout, pl_page_form_t form,
                            const float *values, int32_t n, const int32_t *rows,
                            uint8_t *pages, size_t stride)
{
    const int lane  = (int)(threadIdx.x % 32);
    const int32_t i = (int32_t)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    target_t target;

    if (i >= n) {
        return;
    }
    target = target_of(form, pages, stride, rows[i]);
    values += (size_t)i * (size_t)layout.index_dim;
    if (target.key == nullptr) {
        return;
    }
    if (layout.dtype == PL_KV_F32) {
        store_f32(values, layout.index_dim, target.key, lane, 32);
    } else {
        float largest = 0.0F;
        float scale;

        for (int32_t d = lane; d < layout.index_dim; d += 32) {
            largest = fmaxf(largest, fabsf(values[d]));
        }
        scale = __fdiv_rn(warp_max(largest), FP8_MAX);
        scale = scale == 0.0F ? 1.0F : scale;
        for (int32_t d = lane; d < layout.index_dim; d += 32) {
            target.key[d] = __nv_cvt_float_to_fp8(__fdiv_rn(values[d], scale),
                                                  __NV_SATFINITE, __NV_E4M3);
        }
        if (lane == 0) {
            put_float(target.scale, scale);
        }
    }
}

} // namespace

pl_status_t pl_cuda_store_latent(const pl_row_layout_t *layout,
                                 const pl_page_form_t *form,
                                 const float *values, int32_t n,
                                 const int32_t *rows, uint8_t *pages,
                                 size_t stride, pl_cuda_stream_t stream)
{
    constexpr unsigned THREADS = 128;

    if ((n < 0) || (form->key_bytes != layout->latent_bytes)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        store_latent<<<(unsigned)n, THREADS, 0, stream>>>(
            *layout, *form, values, rows, pages, stride);
    }
    return pl_launched();
}

pl_status_t pl_cuda_store_index(const pl_row_layout_t *layout,
                                const pl_page_form_t *form, const float *values,
                                int32_t n, const int32_t *rows, uint8_t *pages,
                                size_t stride, pl_cuda_stream_t stream)
{
    constexpr int THREADS = 128;

    if ((n < 0) || (form->key_bytes != layout->index_key_bytes) ||
        (form->scale_bytes != layout->index_scale_bytes)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        store_index<<<(unsigned)pl_ceil_div(n, THREADS / 32), THREADS, 0,
                      stream>>>(*layout, *form, values, n, rows, pages, stride);
    }
    return pl_launched();
}
