/* attn/kernels_body.h - the text of kernels.h's loops.  Included once by each
 * kernels_<width>.c, which defines PL_WIDTH (floats of a vector register),
 * PL_KERNELS_TABLE (the table) and PL_KERNELS_NAME, and is compiled for that
 * width. */
#include <math.h>
#include <string.h>

#include "attn/convert.h"
#include "attn/kernels.h"
#include "attn/kernels_table.h"

#define PARTS    (PL_LANES / PL_WIDTH) /* vectors of a panel row */
#define TILE     (8 / PARTS)           /* rows at a time: 8 sums under way */
#define ALWAYS   static inline __attribute__((always_inline))
#define N_GROUPS (PL_LANES / 4)

typedef float vector_t __attribute__((vector_size(PL_WIDTH * sizeof(float))));
typedef int32_t mask_t __attribute__((vector_size(PL_WIDTH * sizeof(float))));
typedef float four_t __attribute__((vector_size(4 * sizeof(float))));

ALWAYS vector_t load(const float *from)
{
    vector_t v;

    memcpy(&v, from, sizeof(v));
    return v;
}

ALWAYS void store(float *to, vector_t v)
{
    memcpy(to, &v, sizeof(v));
}

/* `rows` rows of a product; a constant wherever it is inlined, so that the sums
 * stay in registers. */
ALWAYS void product_tile(int rows, const float *x, size_t x_stride,
                         const float *panel, size_t panel_stride, int32_t k,
                         float *y, size_t y_stride, int32_t columns, bool add)
{
    vector_t sums[TILE][PARTS];
    float line[PL_LANES];

    memset(sums, 0, sizeof(sums));
    for (int32_t t = 0; t < k; t++, panel += panel_stride, x++) {
        for (int j = 0; j < PARTS; j++) {
            vector_t column = load(panel + j * PL_WIDTH);

            for (int i = 0; i < rows; i++) {
                sums[i][j] += column * x[(size_t)i * x_stride];
            }
        }
    }
    for (int i = 0; i < rows; i++, y += y_stride) {
        float *to = y;

        if (columns < PL_LANES) {
            memset(line, 0, sizeof(line));
            memcpy(line, y, (size_t)columns * sizeof(float));
            to = line;
        }
        for (int j = 0; j < PARTS; j++) {
            float *part = to + j * PL_WIDTH;

            store(part, add ? load(part) + sums[i][j] : sums[i][j]);
        }
        if (columns < PL_LANES) {
            memcpy(y, line, (size_t)columns * sizeof(float));
        }
    }
}

static void product(const float *x, size_t x_stride, int32_t m,
                    const float *panel, size_t panel_stride, int32_t k,
                    float *y, size_t y_stride, int32_t columns, bool add)
{
    for (; m >= TILE; m -= TILE, x += TILE * x_stride, y += TILE * y_stride) {
        product_tile(TILE, x, x_stride, panel, panel_stride, k, y, y_stride,
                     columns, add);
    }
#if TILE > 4
    if (m >= 4) {
        product_tile(4, x, x_stride, panel, panel_stride, k, y, y_stride,
                     columns, add);
        m -= 4, x += 4 * x_stride, y += 4 * y_stride;
    }
#endif
#if TILE > 2
    if (m >= 2) {
        product_tile(2, x, x_stride, panel, panel_stride, k, y, y_stride,
                     columns, add);
        m -= 2, x += 2 * x_stride, y += 2 * y_stride;
    }
#endif
    if (m >= 1) {
        product_tile(1, x, x_stride, panel, panel_stride, k, y, y_stride,
                     columns, add);
    }
}

#define SHUFFLE __builtin_shufflevector

/* Four values each of four rows, transposed. */
ALWAYS void pack_square(const char *const *from, float *to)
{
    four_t a, b, c, d, low0, low1, high0, high1;

    memcpy(&a, from[0], sizeof(a));
    memcpy(&b, from[1], sizeof(b));
    memcpy(&c, from[2], sizeof(c));
    memcpy(&d, from[3], sizeof(d));
    low0  = SHUFFLE(a, b, 0, 4, 1, 5);
    low1  = SHUFFLE(c, d, 0, 4, 1, 5);
    high0 = SHUFFLE(a, b, 2, 6, 3, 7);
    high1 = SHUFFLE(c, d, 2, 6, 3, 7);
    a     = SHUFFLE(low0, low1, 0, 1, 4, 5);
    b     = SHUFFLE(low0, low1, 2, 3, 6, 7);
    c     = SHUFFLE(high0, high1, 0, 1, 4, 5);
    d     = SHUFFLE(high0, high1, 2, 3, 6, 7);
    memcpy(to, &a, sizeof(a));
    memcpy(to + PL_LANES, &b, sizeof(b));
    memcpy(to + 2 * PL_LANES, &c, sizeof(c));
    memcpy(to + 3 * PL_LANES, &d, sizeof(d));
}

static void pack(const void *const *rows, int32_t first, int32_t k,
                 float *panel)
{
    for (int group = 0; group < N_GROUPS; group++) {
        const char *from[4];
        float *to = panel + group * 4;
        int32_t t = 0;

        for (int j = 0; j < 4; j++) {
            from[j] = (const char *)rows[group * 4 + j] +
                      (size_t)first * sizeof(float);
        }
        for (; t + 4 <= k; t += 4, to += (ptrdiff_t)4 * PL_LANES) {
            pack_square(from, to);
            for (int j = 0; j < 4; j++) {
                from[j] += 4 * sizeof(float);
            }
        }
        for (; t < k; t++, to += PL_LANES) {
            for (int j = 0; j < 4; j++) {
                memcpy(to + j, from[j], sizeof(float));
                from[j] += sizeof(float);
            }
        }
    }
}

static void from_e4m3(const void *codes, int32_t n, float scale, float *out)
{
    const uint8_t *code = codes;

    for (int32_t i = 0; i < n; i++) {
        out[i] = pl_convert_from_e4m3(code[i]) * scale;
    }
}

static void from_bf16(const void *bits, int32_t n, float *out)
{
    const char *at = bits;
    uint16_t half;

    for (int32_t i = 0; i < n; i++) {
        memcpy(&half, at + (size_t)i * sizeof(half), sizeof(half));
        out[i] = pl_convert_from_bf16(half);
    }
}

static void from_f16(const void *bits, int32_t n, float *out)
{
    const char *at = bits;
    uint16_t half;

    for (int32_t i = 0; i < n; i++) {
        memcpy(&half, at + (size_t)i * sizeof(half), sizeof(half));
        out[i] = pl_convert_from_f16(half);
    }
}

static void relu_sum(const float *products, const float *weights, int32_t heads,
                     float scale, float *scores)
{
    vector_t sums[PARTS];

    for (int j = 0; j < PARTS; j++) {
        sums[j] = load(scores + j * PL_WIDTH);
    }
    for (int32_t h = 0; h < heads; h++, products += PL_LANES) {
        for (int j = 0; j < PARTS; j++) {
            vector_t value = load(products + j * PL_WIDTH) * scale;
            mask_t below   = value < 0.0F; /* NaN is not, and stays */

            value = (vector_t)((mask_t)value & ~below);
            sums[j] += value * weights[h];
        }
    }
    for (int j = 0; j < PARTS; j++) {
        store(scores + j * PL_WIDTH, sums[j]);
    }
}

/* Partial sums to one: halves added to halves. */
ALWAYS float fold(float *lanes)
{
    for (int n = PL_LANES / 2; n > 0; n /= 2) {
        for (int i = 0; i < n; i++) {
            lanes[i] += lanes[i + n];
        }
    }
    return lanes[0];
}

ALWAYS float sum_of(const float *x, int32_t n, float shift, bool square)
{
    vector_t sums[PARTS];
    float lanes[PL_LANES];
    int32_t i = 0;

    memset(sums, 0, sizeof(sums));
    for (; i + PL_LANES <= n; i += PL_LANES) {
        for (int j = 0; j < PARTS; j++) {
            vector_t value = load(x + i + j * PL_WIDTH) - shift;

            sums[j] += square ? value * value : value;
        }
    }
    for (int j = 0; j < PARTS; j++) {
        store(lanes + j * PL_WIDTH, sums[j]);
    }
    for (int lane = 0; i < n; i++, lane++) {
        float value = x[i] - shift;

        lanes[lane] += square ? value * value : value;
    }
    return fold(lanes);
}

static float sum(const float *x, int32_t n, float shift)
{
    return sum_of(x, n, shift, false);
}

static float square_sum(const float *x, int32_t n, float shift)
{
    return sum_of(x, n, shift, true);
}

/* e^x, rounded from double: the same on every machine, unlike a library's.
 * 2^r for |r| <= 1/2 by its series (the next term is below 2^-36), and 2^k by
 * the exponent bits. */
ALWAYS float exponential(float x)
{
    static const double shift = 0x1.8p52; /* rounds to the nearest integer */
    double power              = (double)x * 1.4426950408889634074;
    double whole, r, p;
    uint64_t bits, exponent;

    power = power < -200.0 ? -200.0 : power;
    power = power > 200.0 ? 200.0 : power;
    whole = power + shift;
    memcpy(&exponent, &whole, sizeof(exponent));
    r = (power - (whole - shift)) * 0.69314718055994530942;
    p = 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    memcpy(&bits, &p, sizeof(bits));
    bits += exponent << 52;
    memcpy(&p, &bits, sizeof(p));
    return x != x ? x : (float)p;
}

/* The largest of n >= 1 values; NaN is passed over. */
ALWAYS float largest(const float *x, int32_t n)
{
    float lanes[PL_LANES];
    float most = -INFINITY;
    int32_t i  = 0;

    for (int j = 0; j < PL_LANES; j++) {
        lanes[j] = -INFINITY;
    }
    for (; i + PL_LANES <= n; i += PL_LANES) {
        for (int j = 0; j < PL_LANES; j++) {
            lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
        }
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int j = 0; j < PL_LANES; j++) {
        most = lanes[j] > most ? lanes[j] : most;
    }
    return most;
}

static void softmax(float *x, int32_t n)
{
    const float most = largest(x, n);
    float all;

    for (int32_t i = 0; i < n; i++) {
        x[i] = exponential(x[i] - most);
    }
    all = sum_of(x, n, 0.0F, false);
    for (int32_t i = 0; i < n; i++) {
        x[i] /= all;
    }
}

static void silu_product(float *gate, const float *up, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        gate[i] = gate[i] / (1.0F + exponential(-gate[i])) * up[i];
    }
}

const pl_kernels_t PL_KERNELS_TABLE = {.name         = PL_KERNELS_NAME,
                                       .product      = product,
                                       .pack         = pack,
                                       .from_e4m3    = from_e4m3,
                                       .from_bf16    = from_bf16,
                                       .from_f16     = from_f16,
                                       .relu_sum     = relu_sum,
                                       .sum          = sum,
                                       .square_sum   = square_sum,
                                       .softmax      = softmax,
                                       .silu_product = silu_product};
