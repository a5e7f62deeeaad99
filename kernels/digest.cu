/* Digests of pages, as verify/digest.h: XXH3-64 of each row, seeded by its
 * position, summed over the page's rows.  One thread a row; the hash is written
 * after the specification of XXH3 (xxHash 0.8, doc/xxhash_spec.md). */
#include "device/device.h"
#include "launch.cuh"

namespace
{

constexpr uint64_t PRIME32_1 = 0x9E3779B1U;
constexpr uint64_t PRIME32_2 = 0x85EBCA77U;
constexpr uint64_t PRIME32_3 = 0xC2B2AE3DU;
constexpr uint64_t PRIME64_1 = UINT64_C(0x9E3779B185EBCA87);
constexpr uint64_t PRIME64_2 = UINT64_C(0xC2B2AE3D27D4EB4F);
constexpr uint64_t PRIME64_3 = UINT64_C(0x165667B19E3779F9);
constexpr uint64_t PRIME64_4 = UINT64_C(0x85EBCA77C2B2AE63);
constexpr uint64_t PRIME64_5 = UINT64_C(0x27D4EB2F165667C5);
constexpr uint64_t PRIME_MX1 = UINT64_C(0x165667919E3779F9);
constexpr uint64_t PRIME_MX2 = UINT64_C(0x9FB21C651E98DF25);

constexpr int STRIPE  = 64;
constexpr int SECRET  = 192;
constexpr int STRIPES = (SECRET - STRIPE) / 8; /* of a block */

/* The default secret, as little-endian words. */
__constant__ uint64_t secret_words[SECRET / 8] = {
    UINT64_C(0xbe4ba423396cfeb8), UINT64_C(0x1cad21f72c81017c),
    UINT64_C(0xdb979083e96dd4de), UINT64_C(0x1f67b3b7a4a44072),
    UINT64_C(0x78e5c0cc4ee679cb), UINT64_C(0x2172ffcc7dd05a82),
    UINT64_C(0x8e2443f7744608b8), UINT64_C(0x4c263a81e69035e0),
    UINT64_C(0xcb00c391bb52283c), UINT64_C(0xa32e531b8b65d088),
    UINT64_C(0x4ef90da297486471), UINT64_C(0xd8acdea946ef1938),
    UINT64_C(0x3f349ce33f76faa8), UINT64_C(0x1d4f0bc7c7bbdcf9),
    UINT64_C(0x3159b4cd4be0518a), UINT64_C(0x647378d9c97e9fc8),
    UINT64_C(0xc3ebd33483acc5ea), UINT64_C(0xeb6313faffa081c5),
    UINT64_C(0x49daf0b751dd0d17), UINT64_C(0x9e68d429265516d3),
    UINT64_C(0xfca1477d58be162b), UINT64_C(0xce31d07ad1b8f88f),
    UINT64_C(0x280416958f3acb45), UINT64_C(0x7e404bbbcafbd7af)};

/* 8 bytes of the secret from any offset. */
__device__ uint64_t secret_at(int offset)
{
    const uint64_t low = secret_words[offset / 8];
    const int by       = offset % 8 * 8;

    return by == 0 ? low
                   : low >> by | secret_words[offset / 8 + 1] << (64 - by);
}

/* A row's content: its key bytes, then its scale bytes. */
struct row_t {
    const uint8_t *key, *scale;
    int n_key, n;

    __device__ uint32_t byte(int i) const
    {
        return i < n_key ? __ldg(key + i) : __ldg(scale + (i - n_key));
    }
    __device__ uint32_t word32(int i) const
    {
        if ((i + 4 <= n_key) && ((uintptr_t)(key + i) % 4 == 0)) {
            return __ldg((const uint32_t *)(key + i));
        }
        return byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 |
               byte(i + 3) << 24;
    }
    __device__ uint64_t word64(int i) const
    {
        if ((i + 8 <= n_key) && ((uintptr_t)(key + i) % 8 == 0)) {
            return __ldg((const unsigned long long *)(key + i));
        }
        return (uint64_t)word32(i) | (uint64_t)word32(i + 4) << 32;
    }
};

__device__ uint64_t fold_product(uint64_t a, uint64_t b)
{
    return a * b ^ __umul64hi(a, b);
}

__device__ uint64_t xxh64_avalanche(uint64_t h)
{
    h ^= h >> 33;
    h *= PRIME64_2;
    h ^= h >> 29;
    h *= PRIME64_3;
    return h ^ h >> 32;
}

__device__ uint64_t avalanche(uint64_t h)
{
    h ^= h >> 37;
    h *= PRIME_MX1;
    return h ^ h >> 32;
}

__device__ uint64_t swap64(uint64_t x)
{
    return (uint64_t)__byte_perm((uint32_t)x, 0, 0x0123) << 32 |
           __byte_perm((uint32_t)(x >> 32), 0, 0x0123);
}

/* ---- up to 16 bytes ---- */

__device__ uint64_t hash_1_to_3(const row_t &row, uint64_t seed)
{
    const uint32_t first = row.byte(0), middle = row.byte(row.n / 2);
    const uint32_t last = row.byte(row.n - 1);
    const uint32_t combined =
        first << 16 | middle << 24 | last | (uint32_t)row.n << 8;
    const uint64_t flip =
        ((uint32_t)secret_at(0) ^ (uint32_t)secret_at(4)) + seed;

    return xxh64_avalanche((uint64_t)combined ^ flip);
}

__device__ uint64_t hash_4_to_8(const row_t &row, uint64_t seed)
{
    const uint64_t n = (uint64_t)row.n;
    uint64_t flip, keyed;

    seed ^= (uint64_t)__byte_perm((uint32_t)seed, 0, 0x0123) << 32;
    flip = (secret_at(8) ^ secret_at(16)) - seed;
    keyed =
        ((uint64_t)row.word32(row.n - 4) + ((uint64_t)row.word32(0) << 32)) ^
        flip;
    keyed ^= (keyed << 49 | keyed >> 15) ^ (keyed << 24 | keyed >> 40);
    keyed *= PRIME_MX2;
    keyed ^= (keyed >> 35) + n;
    keyed *= PRIME_MX2;
    return keyed ^ keyed >> 28;
}

__device__ uint64_t hash_9_to_16(const row_t &row, uint64_t seed)
{
    const uint64_t flip1 = (secret_at(24) ^ secret_at(32)) + seed;
    const uint64_t flip2 = (secret_at(40) ^ secret_at(48)) - seed;
    const uint64_t low   = row.word64(0) ^ flip1;
    const uint64_t high  = row.word64(row.n - 8) ^ flip2;

    return avalanche((uint64_t)row.n + swap64(low) + high +
                     fold_product(low, high));
}

__device__ uint64_t hash_short(const row_t &row, uint64_t seed)
{
    if (row.n > 8) {
        return hash_9_to_16(row, seed);
    }
    if (row.n >= 4) {
        return hash_4_to_8(row, seed);
    }
    if (row.n > 0) {
        return hash_1_to_3(row, seed);
    }
    return xxh64_avalanche(seed ^ secret_at(56) ^ secret_at(64));
}

/* ---- up to 240 bytes ---- */

__device__ uint64_t mix16(const row_t &row, int at, int secret, uint64_t seed)
{
    return fold_product(row.word64(at) ^ (secret_at(secret) + seed),
                        row.word64(at + 8) ^ (secret_at(secret + 8) - seed));
}

__device__ uint64_t hash_17_to_128(const row_t &row, uint64_t seed)
{
    uint64_t sum = (uint64_t)row.n * PRIME64_1;

    for (int i = (row.n - 1) / 32; i >= 0; i--) {
        sum += mix16(row, i * 16, i * 32, seed);
        sum += mix16(row, row.n - 16 * (i + 1), i * 32 + 16, seed);
    }
    return avalanche(sum);
}

__device__ uint64_t hash_129_to_240(const row_t &row, uint64_t seed)
{
    uint64_t sum = (uint64_t)row.n * PRIME64_1;

    for (int i = 0; i < 8; i++) {
        sum += mix16(row, i * 16, i * 16, seed);
    }
    sum = avalanche(sum);
    for (int i = 8; i < row.n / 16; i++) {
        sum += mix16(row, i * 16, (i - 8) * 16 + 3, seed);
    }
    sum += mix16(row, row.n - 16, 136 - 17, seed);
    return avalanche(sum);
}

/* ---- longer ---- */

/* Word i of the secret that belongs to a seed; and from any offset. */
__device__ uint64_t seeded_word(int i, uint64_t seed)
{
    return i % 2 == 0 ? secret_words[i] + seed : secret_words[i] - seed;
}

__device__ uint64_t seeded_at(int offset, uint64_t seed)
{
    const uint64_t low = seeded_word(offset / 8, seed);
    const int by       = offset % 8 * 8;

    return by == 0 ? low
                   : low >> by | seeded_word(offset / 8 + 1, seed) << (64 - by);
}

__device__ void accumulate(uint64_t (&acc)[8], const row_t &row, int at,
                           int secret, uint64_t seed)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint64_t value = row.word64(at + i * 8);
        const uint64_t keyed = value ^ seeded_at(secret + i * 8, seed);

        acc[i ^ 1] += value;
        acc[i] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
    }
}

__device__ void scramble(uint64_t (&acc)[8], uint64_t seed)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        acc[i] ^= acc[i] >> 47;
        acc[i] ^= seeded_at(SECRET - STRIPE + i * 8, seed);
        acc[i] *= PRIME32_1;
    }
}

__device__ uint64_t merge(const uint64_t (&acc)[8], int secret, uint64_t seed,
                          uint64_t start)
{
    uint64_t sum = start;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum +=
            fold_product(acc[2 * i] ^ seeded_at(secret + 16 * i, seed),
                         acc[2 * i + 1] ^ seeded_at(secret + 16 * i + 8, seed));
    }
    return avalanche(sum);
}

__device__ uint64_t hash_long(const row_t &row, uint64_t seed)
{
    uint64_t acc[8]     = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                           PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    const int n_stripes = (row.n - 1) / STRIPE;

    for (int s = 0; s < n_stripes; s++) {
        accumulate(acc, row, s * STRIPE, s % STRIPES * 8, seed);
        if (s % STRIPES == STRIPES - 1) {
            scramble(acc, seed);
        }
    }
    accumulate(acc, row, row.n - STRIPE, SECRET - STRIPE - 7, seed);
    return merge(acc, 11, seed, (uint64_t)row.n * PRIME64_1);
}

__device__ uint64_t hash_row(const row_t &row, uint64_t seed)
{
    if (row.n <= 16) {
        return hash_short(row, seed);
    }
    if (row.n <= 128) {
        return hash_17_to_128(row, seed);
    }
    return row.n <= 240 ? hash_129_to_240(row, seed) : hash_long(row, seed);
}

__device__ uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 27;
    x *= UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* One warp a job; the sum is in each of its lanes. */
__device__ uint64_t digest_rows(const pl_digest_job_t &job)
{
    const pl_page_form_t &form = job.form;
    uint64_t sum               = 0;

    for (int32_t i = (int32_t)(threadIdx.x % 32); i < job.rows; i += 32) {
        const int64_t position = (int64_t)job.position + i;
        const size_t r         = (size_t)(job.first + i);
        row_t row;

        row.key   = job.page + r * (size_t)form.key_bytes;
        row.scale = job.page +
                    (size_t)form.page_tokens * (size_t)form.key_bytes +
                    r * (size_t)form.scale_bytes;
        row.n_key = form.key_bytes;
        row.n     = form.key_bytes + form.scale_bytes;
        sum +=
            hash_row(row, mix64(job.base + (uint64_t)position *
                                               UINT64_C(0x9E3779B97F4A7C15)));
    }
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        sum += __shfl_xor_sync(~0U, sum, by);
    }
    return sum;
}

__global__ void digest_jobs(const pl_digest_job_t *jobs, int32_t n,
                            uint64_t *digests)
{
    const int32_t i = (int32_t)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    uint64_t sum;

    if (i >= n) {
        return;
    }
    sum = digest_rows(jobs[i]);
    if (threadIdx.x % 32 == 0) {
        digests[i] = sum;
    }
}

constexpr int THREADS = 128;

} // namespace

pl_status_t pl_cuda_digest_jobs(const pl_digest_job_t *jobs, int32_t n,
                                uint64_t *digests, pl_cuda_stream_t stream)
{
    if (n < 0) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        digest_jobs<<<(unsigned)pl_ceil_div(n, THREADS / 32), THREADS, 0,
                      stream>>>(jobs, n, digests);
    }
    return pl_launched();
}
