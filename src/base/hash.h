/* base/hash.h - xxHash behind names of ours; results are the same on every
 * machine (the library's canonical little-endian results). */
#ifndef PL_BASE_HASH_H
#define PL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct pl_hash128 {
    uint64_t lo, hi;
} pl_hash128_t;

/* XXH3, 64 bits, seeded. */
uint64_t pl_hash64(const void *bytes, size_t n_bytes, uint64_t seed);

/* XXH3, 128 bits, seeded. */
pl_hash128_t pl_hash128(const void *bytes, size_t n_bytes, uint64_t seed);

/* A bijective mixer of one word (splitmix64's finaliser). */
static inline uint64_t pl_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 27;
    x *= UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return x;
}

/* Fold `value` into the running hash `h`; order matters. */
static inline uint64_t pl_fold64(uint64_t h, uint64_t value)
{
    return pl_mix64(h ^ (value + UINT64_C(0x9E3779B97F4A7C15) + (h << 6)));
}

#endif /* PL_BASE_HASH_H */
