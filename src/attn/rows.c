#include "attn/rows.h"

#include <string.h>

#include "attn/convert.h"
#include "attn/kernels.h"

#define FP8_TILE 128 /* values that share a scale */
#define FP8_MAX  448.0F

static int32_t round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

/* Where the parts of an fp8 latent row begin. */
static int32_t latent_scales(const pl_row_layout_t *layout)
{
    return round_up(layout->kv_lora, (int32_t)sizeof(float));
}

static int32_t latent_rope(const pl_row_layout_t *layout)
{
    return latent_scales(layout) + round_up(layout->kv_lora, FP8_TILE) /
                                       FP8_TILE * (int32_t)sizeof(float);
}

pl_row_layout_t pl_row_layout_make(pl_kv_dtype_t dtype, int32_t kv_lora,
                                   int32_t rope, int32_t index_dim)
{
    pl_row_layout_t layout = {.dtype             = dtype,
                              .kv_lora           = kv_lora,
                              .rope              = rope,
                              .index_dim         = index_dim,
                              .index_key_bytes   = index_dim,
                              .index_scale_bytes = (int32_t)sizeof(float)};

    switch (dtype) {
    case PL_KV_F32:
        layout.latent_bytes      = (kv_lora + rope) * (int32_t)sizeof(float);
        layout.index_key_bytes   = index_dim * (int32_t)sizeof(float);
        layout.index_scale_bytes = 0;
        break;
    case PL_KV_BF16:
        layout.latent_bytes = (kv_lora + rope) * (int32_t)sizeof(uint16_t);
        break;
    case PL_KV_FP8:
        layout.latent_bytes = round_up(
            latent_rope(&layout) + rope * (int32_t)sizeof(uint16_t), 16);
        break;
    }
    return layout;
}

static void store_bf16(const float *values, int32_t n, uint8_t *bytes)
{
    for (int32_t i = 0; i < n; i++) {
        uint16_t bits = pl_convert_to_bf16(values[i]);

        memcpy(bytes + (size_t)i * sizeof(bits), &bits, sizeof(bits));
    }
}

/* Quantise a tile; returns its scale. */
static float store_tile(const float *values, int32_t n, uint8_t *codes)
{
    float largest = 0.0F;
    float scale;

    for (int32_t i = 0; i < n; i++) {
        float magnitude = values[i] < 0.0F ? -values[i] : values[i];

        largest = magnitude > largest ? magnitude : largest;
    }
    scale = largest / FP8_MAX;
    if (scale == 0.0F) { /* all zero, or too small for a quotient */
        scale = 1.0F;
    }
    for (int32_t i = 0; i < n; i++) {
        codes[i] = pl_convert_to_e4m3(values[i] / scale);
    }
    return scale;
}

static void store_fp8(const pl_row_layout_t *layout, const float *values,
                      uint8_t *row)
{
    uint8_t *scales = row + latent_scales(layout);

    for (int32_t i = 0; i < layout->kv_lora; i += FP8_TILE) {
        int32_t rest = layout->kv_lora - i;
        float scale =
            store_tile(values + i, rest < FP8_TILE ? rest : FP8_TILE, row + i);

        memcpy(scales, &scale, sizeof(scale));
        scales += sizeof(scale);
    }
    store_bf16(values + layout->kv_lora, layout->rope,
               row + latent_rope(layout));
}

void pl_latent_store(const pl_row_layout_t *layout, const float *values,
                     uint8_t *row)
{
    switch (layout->dtype) {
    case PL_KV_F32:
        memcpy(row, values, (size_t)layout->latent_bytes);
        break;
    case PL_KV_BF16:
        store_bf16(values, layout->kv_lora + layout->rope, row);
        break;
    case PL_KV_FP8:
        memset(row, 0, (size_t)layout->latent_bytes);
        store_fp8(layout, values, row);
        break;
    }
}

static void load_fp8(const pl_row_layout_t *layout, const uint8_t *row,
                     float *values)
{
    const pl_kernels_t *kernels = pl_kernels();
    const uint8_t *scales       = row + latent_scales(layout);

    for (int32_t i = 0; i < layout->kv_lora; i += FP8_TILE) {
        int32_t rest = layout->kv_lora - i;
        float scale;

        memcpy(&scale, scales, sizeof(scale));
        scales += sizeof(scale);
        kernels->from_e4m3(row + i, rest < FP8_TILE ? rest : FP8_TILE, scale,
                           values + i);
    }
    kernels->from_bf16(row + latent_rope(layout), layout->rope,
                       values + layout->kv_lora);
}

void pl_latent_load(const pl_row_layout_t *layout, const uint8_t *row,
                    float *values)
{
    switch (layout->dtype) {
    case PL_KV_F32:
        memcpy(values, row, (size_t)layout->latent_bytes);
        break;
    case PL_KV_BF16:
        pl_kernels()->from_bf16(row, layout->kv_lora + layout->rope, values);
        break;
    case PL_KV_FP8:
        load_fp8(layout, row, values);
        break;
    }
}

void pl_index_store(const pl_row_layout_t *layout, const float *values,
                    uint8_t *key, uint8_t *scale)
{
    float tile_scale;

    if (layout->dtype == PL_KV_F32) {
        memcpy(key, values, (size_t)layout->index_key_bytes);
        return;
    }
    tile_scale = store_tile(values, layout->index_dim, key);
    memcpy(scale, &tile_scale, sizeof(tile_scale));
}

void pl_index_load(const pl_row_layout_t *layout, const uint8_t *key,
                   const uint8_t *scale, float *values)
{
    float tile_scale;

    if (layout->dtype == PL_KV_F32) {
        memcpy(values, key, (size_t)layout->index_key_bytes);
        return;
    }
    memcpy(&tile_scale, scale, sizeof(tile_scale));
    pl_kernels()->from_e4m3(key, layout->index_dim, tile_scale, values);
}

uint8_t pl_e4m3_from_f32(float value)
{
    return pl_convert_to_e4m3(value);
}

float pl_e4m3_to_f32(uint8_t code)
{
    return pl_convert_from_e4m3(code);
}

uint16_t pl_bf16_from_f32(float value)
{
    return pl_convert_to_bf16(value);
}

float pl_bf16_to_f32(uint16_t bits)
{
    return pl_convert_from_bf16(bits);
}

float pl_f16_to_f32(uint16_t bits)
{
    return pl_convert_from_f16(bits);
}
