/* base/rng.h - seeded random numbers, the same on every machine.
 *
 * A generator is a value; copying it forks the stream.  splitmix64: any seed
 * is good, 2^64 period.  Not for secrets.
 */
#ifndef PL_BASE_RNG_H
#define PL_BASE_RNG_H

#include <stdint.h>

#include "base/hash.h"

typedef struct pl_rng {
    uint64_t state;
} pl_rng_t;

static inline pl_rng_t pl_rng_seed(uint64_t seed)
{
    pl_rng_t rng = {pl_mix64(seed + UINT64_C(0x9E3779B97F4A7C15))};
    return rng;
}

static inline uint64_t pl_rng_next(pl_rng_t *rng)
{
    rng->state += UINT64_C(0x9E3779B97F4A7C15);
    return pl_mix64(rng->state);
}

/* Uniform in 0 .. n-1, n > 0, without bias (rejection). */
static inline uint64_t pl_rng_below(pl_rng_t *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - (UINT64_MAX % n + 1) % n;
    uint64_t x;

    do {
        x = pl_rng_next(rng);
    } while (x > limit);
    return x % n;
}

/* Uniform in [0, 1) with 53 bits. */
static inline double pl_rng_unit(pl_rng_t *rng)
{
    return (double)(pl_rng_next(rng) >> 11) * 0x1p-53;
}

#endif /* PL_BASE_RNG_H */
