/* Exact top-k by radix selection: the k-th key, digit by digit from the top,
 * among ever fewer candidates; then one pass over all. */
#include <string.h>

#include "attn/attention.h"
#include "attn/convert.h"

#define DIGITS 256
#define COPIES 4 /* of the first histogram: equal digits follow each other */

/* Larger key: higher score.  -0.0 + 0.0 is 0.0; NaN is -inf. */
static inline uint32_t order_key(float score)
{
    uint32_t bits = pl_float_bits(score + 0.0F);
    uint32_t key  = bits ^ (bits >> 31 != 0 ? UINT32_MAX : UINT32_C(1) << 31);

    /* -inf is 0xFF800000, its key the complement */
    return (bits & 0x7FFFFFFF) > 0x7F800000 ? UINT32_C(0x007FFFFF) : key;
}

/* The digit in which the k-th largest lies; k becomes its rank within. */
static uint32_t digit_of(const uint32_t *histogram, uint32_t *k)
{
    uint32_t digit = DIGITS - 1;

    while (histogram[digit] < *k) {
        *k -= histogram[digit];
        digit--;
    }
    return digit;
}

/* Make keys; the digit at the top of the k-th. */
static uint32_t first_digit(const float *scores, uint32_t n, uint32_t *keys,
                            uint32_t *k)
{
    uint32_t histogram[COPIES][DIGITS];

    memset(histogram, 0, sizeof(histogram));
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = order_key(scores[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        histogram[i % COPIES][keys[i] >> 24]++;
    }
    for (int digit = 0; digit < DIGITS; digit++) {
        for (int copy = 1; copy < COPIES; copy++) {
            histogram[0][digit] += histogram[copy][digit];
        }
    }
    return digit_of(histogram[0], k);
}

/* The k-th largest key, 1 <= k <= n; k becomes its rank among equals. */
static uint32_t select_key(const float *scores, uint32_t n, uint32_t *keys,
                           uint32_t *k)
{
    uint32_t prefix = first_digit(scores, n, keys, k);

    for (int shift = 16; shift >= 0; shift -= 8) {
        uint32_t histogram[DIGITS] = {0};
        uint32_t kept              = 0;

        for (uint32_t i = 0; i < n; i++) {
            uint32_t key = keys[i];

            keys[kept] = key; /* kept <= i */
            kept += (uint32_t)(key >> (shift + 8) == prefix);
        }
        for (uint32_t i = 0; i < kept; i++) {
            histogram[(keys[i] >> shift) & (DIGITS - 1)]++;
        }
        n      = kept;
        prefix = prefix << 8 | digit_of(histogram, k);
    }
    return prefix;
}

int32_t pl_topk(const float *scores, int32_t n, int32_t k, uint32_t *scratch,
                int32_t *positions)
{
    uint32_t ties = (uint32_t)(k < 0 ? 0 : k);
    int32_t taken = 0;
    uint32_t least;

    if (k >= n) {
        for (int32_t i = 0; i < n; i++) {
            positions[i] = i;
        }
        return n < 0 ? 0 : n;
    }
    if (k <= 0) {
        return 0;
    }
    least = select_key(scores, (uint32_t)n, scratch, &ties);
    for (int32_t i = 0; taken < k; i++) { /* without branches to mispredict */
        uint32_t key = order_key(scores[i]);
        uint32_t tie = (uint32_t)(key == least) & (uint32_t)(ties > 0);

        positions[taken] = i;
        taken += (int32_t)((uint32_t)(key > least) | tie);
        ties -= tie;
    }
    return taken;
}
