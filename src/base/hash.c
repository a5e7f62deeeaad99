#include "base/hash.h"

#include <xxhash.h>

uint64_t pl_hash64(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n_bytes, seed);
}

pl_hash128_t pl_hash128(const void *bytes, size_t n_bytes, uint64_t seed)
{
    XXH128_hash_t h     = XXH3_128bits_withSeed(bytes, n_bytes, seed);
    pl_hash128_t result = {h.low64, h.high64};

    return result;
}
