/* attn/convert.h - one stored value as float32 and back, without branches, so
 * that loops over them become vectors.  rows.h has the formats. */
#ifndef PL_ATTN_CONVERT_H
#define PL_ATTN_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t pl_float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float pl_bits_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float pl_convert_from_bf16(uint16_t bits)
{
    return pl_bits_float((uint32_t)bits << 16);
}

static inline uint16_t pl_convert_to_bf16(float value)
{
    uint32_t bits = pl_float_bits(value);
    uint32_t even = (bits >> 16) & 1;

    /* a NaN keeps its sign; its payload must not round away into infinity */
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000
                          ? (bits >> 16) | 0x40
                          : (bits + 0x7FFF + even) >> 16);
}

static inline float pl_convert_from_f16(uint16_t half)
{
    uint32_t sign      = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7FFF;
    uint32_t normal    = (magnitude << 13) + (112U << 23);
    uint32_t special   = (magnitude << 13) | 0x7F800000;
    uint32_t small     = pl_float_bits((float)(int32_t)magnitude * 0x1p-24F);
    uint32_t bits      = magnitude >= 0x7C00 ? special : normal;

    return pl_bits_float((magnitude < 0x400 ? small : bits) | sign);
}

static inline float pl_convert_from_e4m3(uint8_t code)
{
    uint32_t sign      = (uint32_t)(code & 0x80) << 24;
    uint32_t magnitude = code & 0x7F;
    uint32_t normal    = (magnitude << 20) + (120U << 23);
    uint32_t small     = pl_float_bits((float)(int32_t)magnitude * 0x1p-9F);
    uint32_t bits      = magnitude == 0x7F ? 0x7FC00000 : normal;

    return pl_bits_float((magnitude < 8 ? small : bits) | sign);
}

static inline uint8_t pl_convert_to_e4m3(float value)
{
    uint32_t bits      = pl_float_bits(value);
    uint32_t sign      = (bits >> 24) & 0x80;
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t even      = (magnitude >> 20) & 1;
    uint32_t normal    = (magnitude - (120U << 23) + 0x7FFFF + even) >> 20;
    /* 2^14 has a unit in the last place of 2^-9, the step of subnormals: the
     * addition itself rounds to nearest even */
    uint32_t small = pl_float_bits(pl_bits_float(magnitude) + 0x1p14F) -
                     pl_float_bits(0x1p14F);
    uint32_t code = magnitude < (121U << 23) ? small : normal;

    code = magnitude >= (135U << 23) + 0x600000 ? 0x7E : code; /* 448 */
    code = magnitude > 0x7F800000 ? 0x7F : code;
    return (uint8_t)(code | sign);
}

#endif /* PL_ATTN_CONVERT_H */
