/* Stored rows: exact conversions, layouts, quantisation. */
#include "test_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/rows.h"
#include "sample.h"
#include "support/seed.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* What the bits mean: sign, `exponent_bits`, the rest mantissa. */
static double meaning(uint32_t bits, int exponent_bits, int mantissa_bits)
{
    int bias        = (1 << (exponent_bits - 1)) - 1;
    int exponent    = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = bits & ((1U << mantissa_bits) - 1);
    double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;

    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    }
    return sign * ldexp(mantissa + ldexp(1.0, mantissa_bits),
                        exponent - bias - mantissa_bits);
}

START_TEST(e4m3_codes_mean_what_the_format_says_and_come_back)
{
    for (uint32_t code = 0; code < 256; code++) {
        float value = pl_e4m3_to_f32((uint8_t)code);

        if ((code & 0x7F) == 0x7F) {
            ck_assert(isnan(value));
        } else {
            ck_assert(value == (float)meaning(code, 4, 3));
            ck_assert_int_eq(signbit(value) != 0, code >> 7);
        }
        ck_assert_uint_eq(pl_e4m3_from_f32(value), code);
    }
    ck_assert(pl_e4m3_to_f32(0x7E) == 448.0F);
    ck_assert(pl_e4m3_to_f32(0x01) == 0x1p-9F);
}
END_TEST

/* Between two neighbours: the nearer one, and half way the even one. */
START_TEST(e4m3_rounds_to_nearest_even)
{
    for (uint8_t low = 0; low < 0x7E; low++) {
        uint8_t high = (uint8_t)(low + 1);
        uint8_t even = low % 2 == 0 ? low : high;
        float middle = 0.5F * (pl_e4m3_to_f32(low) + pl_e4m3_to_f32(high));

        ck_assert_uint_eq(pl_e4m3_from_f32(middle), even);
        ck_assert_uint_eq(pl_e4m3_from_f32(-middle), even | 0x80);
        ck_assert_uint_eq(pl_e4m3_from_f32(nextafterf(middle, 0.0F)), low);
        ck_assert_uint_eq(pl_e4m3_from_f32(nextafterf(middle, 1e9F)), high);
        ck_assert_uint_eq(pl_e4m3_from_f32(-nextafterf(middle, 1e9F)),
                          high | 0x80);
    }
}
END_TEST

START_TEST(e4m3_saturates)
{
    static const float large[] = {448.0F, 456.0F, 464.0F,  465.0F,
                                  480.0F, 1e30F,  INFINITY};

    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        ck_assert_uint_eq(pl_e4m3_from_f32(large[i]), 0x7E);
        ck_assert_uint_eq(pl_e4m3_from_f32(-large[i]), 0xFE);
    }
    ck_assert_uint_eq(pl_e4m3_from_f32(0x1p-149F), 0x00);
    ck_assert_uint_eq(pl_e4m3_from_f32(-0x1p-149F), 0x80);
    ck_assert_uint_eq(pl_e4m3_from_f32(NAN) & 0x7F, 0x7F);
}
END_TEST

START_TEST(bf16_and_f16_mean_what_the_formats_say)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float brain = pl_bf16_to_f32((uint16_t)bits);
        float half  = pl_f16_to_f32((uint16_t)bits);

        ck_assert_uint_eq(bits_of(brain), bits << 16);
        if (isnan(brain)) {
            ck_assert(isnan(pl_bf16_to_f32(pl_bf16_from_f32(brain))));
        } else {
            ck_assert_uint_eq(pl_bf16_from_f32(brain), bits);
        }
        if ((bits & 0x7C00) != 0x7C00) {
            ck_assert_uint_eq(bits_of(half),
                              bits_of((float)meaning(bits, 5, 10)));
        } else {
            ck_assert((bits & 0x3FF) != 0 ? isnan(half) : isinf(half));
            ck_assert_int_eq(signbit(half) != 0, bits >> 15);
        }
    }
}
END_TEST

START_TEST(bf16_rounds_to_nearest_even)
{
    for (uint32_t low = 0; low < 0x7F80; low++) { /* the last one: to inf */
        float middle  = pl_bf16_to_f32((uint16_t)low);
        uint32_t even = low + low % 2;
        uint32_t bits = bits_of(middle) | 0x8000;
        float below, above;

        memcpy(&middle, &bits, sizeof(bits));
        bits--;
        memcpy(&below, &bits, sizeof(bits));
        bits += 2;
        memcpy(&above, &bits, sizeof(bits));
        ck_assert_uint_eq(pl_bf16_from_f32(middle), even);
        ck_assert_uint_eq(pl_bf16_from_f32(-middle), even | 0x8000);
        ck_assert_uint_eq(pl_bf16_from_f32(below), low);
        ck_assert_uint_eq(pl_bf16_from_f32(above), low + 1);
    }
    /* a NaN whose payload is all in the bits that go */
    {
        uint32_t bits = 0xFF800001;
        float nan;

        memcpy(&nan, &bits, sizeof(bits));
        ck_assert(isnan(pl_bf16_to_f32(pl_bf16_from_f32(nan))));
        ck_assert_uint_eq(pl_bf16_from_f32(nan) >> 15, 1);
    }
}
END_TEST

START_TEST(layouts_of_the_real_models)
{
    pl_row_layout_t fp8  = pl_row_layout_make(PL_KV_FP8, 512, 64, 128);
    pl_row_layout_t bf16 = pl_row_layout_make(PL_KV_BF16, 512, 64, 128);
    pl_row_layout_t f32  = pl_row_layout_make(PL_KV_F32, 512, 64, 128);

    ck_assert_int_eq(fp8.latent_bytes, 656);
    ck_assert_int_eq(fp8.index_key_bytes + fp8.index_scale_bytes, 132);
    ck_assert_int_eq(bf16.latent_bytes, 1152);
    ck_assert_int_eq(bf16.index_key_bytes + bf16.index_scale_bytes, 132);
    ck_assert_int_eq(f32.latent_bytes, 2304);
    ck_assert_int_eq(f32.index_key_bytes, 512);
    ck_assert_int_eq(f32.index_scale_bytes, 0);
}
END_TEST

/* Where a scale lies in an fp8 row, found from outside: tile t is the largest
 * value alone, so that its scale is 1 and nothing else is. */
START_TEST(fp8_scales_are_aligned_and_rows_padded)
{
    for (int32_t kv_lora = 1; kv_lora <= 300; kv_lora++) {
        int32_t rope   = 2 * (1 + kv_lora % 40);
        int32_t tiles  = (kv_lora + 127) / 128;
        int32_t scales = (kv_lora + 3) / 4 * 4;
        pl_row_layout_t layout =
            pl_row_layout_make(PL_KV_FP8, kv_lora, rope, 8);
        float values[512] = {0};
        uint8_t row[2048];

        for (int32_t i = 0; i < kv_lora; i += 128) {
            values[i] = 448.0F * ldexpf(1.0F, i / 128);
        }
        values[kv_lora + rope - 1] = 1.0F;
        pl_latent_store(&layout, values, row);
        ck_assert_int_eq(layout.latent_bytes % 16, 0);
        ck_assert_int_ge(layout.latent_bytes, scales + 4 * tiles + 2 * rope);
        ck_assert_int_lt(layout.latent_bytes,
                         scales + 4 * tiles + 2 * rope + 16);
        for (int32_t tile = 0; tile < tiles; tile++) {
            float scale;

            memcpy(&scale, row + scales + 4 * tile, sizeof(scale));
            ck_assert(scale == ldexpf(1.0F, tile));
            ck_assert_uint_eq(row[tile * 128], 0x7E);
        }
        ck_assert_uint_eq(row[scales + 4 * tiles + 2 * rope - 1], 0x3F);
        ck_assert_uint_eq(row[scales + 4 * tiles + 2 * rope - 2], 0x80);
    }
}
END_TEST

/* Every byte of a row is written, none behind it. */
START_TEST(store_writes_its_row_and_no_more)
{
    uint64_t seed = pl_test_seed("store_writes_its_row_and_no_more");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 300; round++) {
        pl_row_layout_t layout = pl_row_layout_make(
            (pl_kv_dtype_t)(round % 3), sample_between(&rng, 1, 300),
            2 * sample_between(&rng, 1, 40), sample_between(&rng, 1, 200));
        size_t latent = (size_t)layout.latent_bytes;
        size_t key    = (size_t)layout.index_key_bytes;
        float *values = sample_values(&rng, 400);
        uint8_t a[2048], b[2048], scale[8];

        memset(a, 0x00, sizeof(a));
        memset(b, 0xAA, sizeof(b));
        pl_latent_store(&layout, values, a);
        pl_latent_store(&layout, values, b);
        ck_assert_mem_eq(a, b, latent);
        ck_assert_uint_eq(a[latent], 0x00);
        ck_assert_uint_eq(b[latent], 0xAA);
        memset(b, 0xAA, sizeof(b));
        memset(scale, 0xAA, sizeof(scale));
        pl_index_store(&layout, values, b, scale);
        ck_assert_uint_eq(b[key], 0xAA);
        ck_assert_uint_eq(scale[layout.index_scale_bytes], 0xAA);
        free(values);
    }
}
END_TEST

/* |stored - value| is at most half a step of e4m3 at this scale. */
static void check_fp8(const float *values, const float *loaded, int32_t n)
{
    double largest = 0.0;

    for (int32_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)values[i]));
    }
    for (int32_t i = 0; i < n; i++) {
        double magnitude = fabs((double)values[i]);
        double step      = fmax(magnitude / 16, largest / 448 * 0x1p-10);

        ck_assert_msg(
            fabs((double)loaded[i] - (double)values[i]) <= step * (1 + 1e-6),
            "value %g stored as %g", (double)values[i], (double)loaded[i]);
    }
}

START_TEST(rows_come_back_rounded_as_their_type_says)
{
    uint64_t seed = pl_test_seed("rows_come_back");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 300; round++) {
        pl_row_layout_t layout = pl_row_layout_make(
            (pl_kv_dtype_t)(round % 3), sample_between(&rng, 1, 300),
            2 * sample_between(&rng, 1, 40), sample_between(&rng, 1, 200));
        int32_t n     = layout.kv_lora + layout.rope;
        float *values = sample_values(&rng, 400);
        float loaded[400];
        uint8_t row[2048], scale[4];
        int32_t exact = layout.dtype == PL_KV_FP8 ? layout.kv_lora : 0;

        for (int32_t i = 0; i < 400; i += 128) { /* tiles of unlike sizes */
            values[i] *= ldexpf(1.0F, sample_between(&rng, -20, 20));
        }
        pl_latent_store(&layout, values, row);
        pl_latent_load(&layout, row, loaded);
        for (int32_t i = 0; i < exact; i += 128) {
            check_fp8(values + i, loaded + i,
                      exact - i < 128 ? exact - i : 128);
        }
        for (int32_t i = exact; i < n; i++) {
            float want = layout.dtype == PL_KV_F32
                             ? values[i]
                             : pl_bf16_to_f32(pl_bf16_from_f32(values[i]));

            ck_assert_uint_eq(bits_of(loaded[i]), bits_of(want));
        }
        pl_index_store(&layout, values, row, scale);
        pl_index_load(&layout, row, scale, loaded);
        if (layout.dtype == PL_KV_F32) {
            ck_assert_mem_eq(loaded, values,
                             sizeof(float) * (size_t)layout.index_dim);
        } else {
            check_fp8(values, loaded, layout.index_dim);
        }
        free(values);
    }
}
END_TEST

/* Zeros, and values too small for a scale, are zeros: never NaN. */
START_TEST(empty_tiles_are_safe)
{
    static const float tiny[] = {0.0F, -0.0F, 0x1p-149F, 0x1p-142F};
    pl_row_layout_t layout    = pl_row_layout_make(PL_KV_FP8, 130, 2, 70);
    float values[132]         = {0};
    float loaded[132];
    uint8_t row[512], scale[4];

    for (size_t t = 0; t < sizeof(tiny) / sizeof(tiny[0]); t++) {
        for (int i = 0; i < 128; i++) {
            values[i] = tiny[t];
        }
        values[128] = 3.0F;
        pl_latent_store(&layout, values, row);
        pl_latent_load(&layout, row, loaded);
        for (int i = 0; i < 128; i++) {
            ck_assert(fabsf(loaded[i]) <= 0x1p-142F);
        }
        ck_assert(loaded[128] == 3.0F);
        pl_index_store(&layout, values, row, scale);
        pl_index_load(&layout, row, scale, loaded);
        ck_assert(fabsf(loaded[69]) <= 0x1p-142F);
    }
    memset(values, 0, sizeof(values));
    pl_index_store(&layout, values, row, scale);
    ck_assert_mem_eq(scale, "\0\0\x80\x3f", 4); /* 1.0 */
}
END_TEST

TCase *rows_case(void)
{
    TCase *tcase = tcase_create("rows");

    tcase_add_test(tcase, e4m3_codes_mean_what_the_format_says_and_come_back);
    tcase_add_test(tcase, e4m3_rounds_to_nearest_even);
    tcase_add_test(tcase, e4m3_saturates);
    tcase_add_test(tcase, bf16_and_f16_mean_what_the_formats_say);
    tcase_add_test(tcase, bf16_rounds_to_nearest_even);
    tcase_add_test(tcase, layouts_of_the_real_models);
    tcase_add_test(tcase, fp8_scales_are_aligned_and_rows_padded);
    tcase_add_test(tcase, store_writes_its_row_and_no_more);
    tcase_add_test(tcase, rows_come_back_rounded_as_their_type_says);
    tcase_add_test(tcase, empty_tiles_are_safe);
    return tcase;
}
