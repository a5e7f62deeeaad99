/* attn/rows.h - a token's KV as it is stored: float32, bf16 or fp8.
 *
 * Latent row: kv_lora values (after the norm), then `rope` values (after the
 * rotation).  Index row: index_dim values (after norm and rotation).
 *
 *   f32   latent: (kv_lora + rope) float32;  index: index_dim float32, no scale
 *   bf16  latent: (kv_lora + rope) bf16;     index: fp8 as below
 *   fp8   latent: kv_lora e4m3, then one float32 scale per 128 of them
 *         (rounded up; the values padded to a multiple of 4 bytes so that
 *         scales are aligned), then rope bf16; padded to a multiple of 16: 656
 *         bytes at 512 + 64
 *         index: index_dim e4m3, and as scale bytes one float32 scale
 *
 * Quantised by scale = amax / 448 (an all-zero tile: scale 1, so that no NaN
 * arises), round to nearest even, saturating; bf16 rounds to nearest even.
 * Attention reads rows only in this form, also those of the current chunk.
 */
#ifndef PL_ATTN_ROWS_H
#define PL_ATTN_ROWS_H

#include <stdint.h>

#include <pagelane/status.h>

typedef enum pl_kv_dtype { PL_KV_F32, PL_KV_BF16, PL_KV_FP8 } pl_kv_dtype_t;

typedef struct pl_row_layout {
    pl_kv_dtype_t dtype;
    int32_t kv_lora, rope, index_dim;
    int32_t latent_bytes;      /* of a row */
    int32_t index_key_bytes;   /* of a key */
    int32_t index_scale_bytes; /* 0 or 4 */
} pl_row_layout_t;

pl_row_layout_t pl_row_layout_make(pl_kv_dtype_t dtype, int32_t kv_lora,
                                   int32_t rope, int32_t index_dim);

/* values [kv_lora + rope] -> row [latent_bytes]; padding is zeroed.  And back:
 * what attention sees. */
void pl_latent_store(const pl_row_layout_t *layout, const float *values,
                     uint8_t *row);
void pl_latent_load(const pl_row_layout_t *layout, const uint8_t *row,
                    float *values);
/* values [index_dim] -> key [index_key_bytes] and scale [index_scale_bytes]. */
void pl_index_store(const pl_row_layout_t *layout, const float *values,
                    uint8_t *key, uint8_t *scale);
void pl_index_load(const pl_row_layout_t *layout, const uint8_t *key,
                   const uint8_t *scale, float *values);

/* One value; e4m3fn: bias 7, largest 448, no infinity, NaN 0x7f and 0xff. */
uint8_t pl_e4m3_from_f32(float value);
float pl_e4m3_to_f32(uint8_t code);
uint16_t pl_bf16_from_f32(float value);
float pl_bf16_to_f32(uint16_t bits);
float pl_f16_to_f32(uint16_t bits);

#endif /* PL_ATTN_ROWS_H */
