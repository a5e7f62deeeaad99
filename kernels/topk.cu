/* Exact top-k of each row, in the total order of attn/topk.c: one block a row.
 *
 * A sample of the row tells a score that somewhat more than k of it surely (by
 * five deviations) reach; one pass over the row lists all that do.  If at least
 * k were found and the list had room, the k best are among them, and the rest
 * happens in shared memory: the k-th key of the list by radix selection, then
 * its ties in ascending order of position.  Else (many equal scores, an unlucky
 * sample) passes over the row find the k-th key digit by digit.  What is chosen
 * is the same in either case.  It becomes a bit for each position, and the bits
 * ascending positions. */
#include "launch.cuh"
#include "scan.cuh"

namespace
{

constexpr int THREADS   = 1024;
constexpr int WARPS     = THREADS / 32;
constexpr int DIGITS    = 256;
constexpr int LISTED    = 8192;    /* candidates that fit, and keys sampled */
constexpr int MOST_KEYS = 1 << 20; /* bits in shared memory: 128 KiB */

/* Larger key: higher score.  -0.0 counts as 0.0; NaN as -inf. */
__device__ uint32_t order_key(float score)
{
    uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0F));
    uint32_t key  = bits ^ ((bits >> 31) != 0 ? UINT32_MAX : UINT32_C(1) << 31);

    return (bits & 0x7FFFFFFF) > 0x7F800000 ? UINT32_C(0x007FFFFF) : key;
}

/* The least score with that key; -inf for keys that no score has. */
__device__ float least_score(uint32_t key)
{
    if (key <= UINT32_C(0x007FFFFF)) {
        return -INFINITY;
    }
    return __uint_as_float((key >> 31) != 0 ? key ^ UINT32_C(1) << 31 : ~key);
}

struct shared_t {
    uint32_t keys[LISTED];
    int32_t places[LISTED];
    uint32_t histogram[DIGITS];
    int32_t warp_sums[WARPS];
    uint32_t low, high; /* of the keys listed */
    uint32_t digit;     /* in which the key wanted lies */
    int32_t rank;       /* of it among those with that digit, from 1 */
    int32_t n_listed;
};

__device__ void clear(uint32_t *words, int32_t n)
{
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        words[i] = 0;
    }
    __syncthreads();
}

/* Equal digits of a warp count together. */
__device__ void count_digit(uint32_t *histogram, uint32_t digit, bool counts)
{
    const uint32_t these = __match_any_sync(~0U, counts ? digit : DIGITS);

    if (counts && ((int)(threadIdx.x % 32) == __ffs((int)these) - 1)) {
        atomicAdd(histogram + digit, (uint32_t)__popc(these));
    }
}

/* The digit in which the rank-th largest lies. */
__device__ void find_digit(shared_t *shared, int32_t rank)
{
    const int digit = DIGITS - 1 - (int)threadIdx.x; /* the largest first */
    int32_t count, above;

    __syncthreads();
    count = digit >= 0 ? (int32_t)shared->histogram[digit] : 0;
    above = pl_sum_up_to<WARPS>(count, shared->warp_sums) - count;
    if ((above < rank) && (above + count >= rank)) {
        shared->digit = (uint32_t)digit;
        shared->rank  = rank - above;
    }
    __syncthreads();
}

/* The rank-th largest of n listed keys; *rank_p its rank among its equals. */
__device__ uint32_t select_listed(shared_t *shared, int32_t n, int32_t *rank_p)
{
    uint32_t low = UINT32_MAX, high = 0, prefix;
    int shift;

    /* Only bits in which the keys differ. */
    if (threadIdx.x == 0) {
        shared->low  = UINT32_MAX;
        shared->high = 0;
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        low  = min(low, shared->keys[i]);
        high = max(high, shared->keys[i]);
    }
    low  = __reduce_min_sync(~0U, low);
    high = __reduce_max_sync(~0U, high);
    if (threadIdx.x % 32 == 0) {
        atomicMin(&shared->low, low);
        atomicMax(&shared->high, high);
    }
    __syncthreads();
    shift  = 32 - __clz((int)(shared->low ^ shared->high));
    prefix = shift < 32 ? shared->high >> shift : 0;
    while (shift > 0) {
        const int n_bits = min(shift, 8);
        const int next   = shift - n_bits;

        clear(shared->histogram, DIGITS);
        for (int32_t from = 0; from < n; from += THREADS) {
            int32_t i    = from + (int32_t)threadIdx.x;
            uint32_t key = i < n ? shared->keys[i] : 0;
            bool counts =
                (i < n) && ((shift < 32 ? key >> shift : 0) == prefix);

            count_digit(shared->histogram, (key >> next) & ((1U << n_bits) - 1),
                        counts);
        }
        find_digit(shared, *rank_p);
        prefix  = prefix << n_bits | shared->digit;
        *rank_p = shared->rank;
        shift   = next;
    }
    return prefix;
}

/* Keys of LISTED positions in lines all over the row; then a key that more
 * than k of its n scores reach, and not many more.  0: all of them. */
__device__ uint32_t sample_key(shared_t *shared, const float *row, int32_t n,
                               int32_t k)
{
    constexpr int LINES  = LISTED / 32;
    const float expected = (float)k * LISTED / (float)n;
    int32_t rank         = (int32_t)(expected + 5.0F * sqrtf(expected)) + 8;

    if (rank >= LISTED) {
        return 0;
    }
    for (int line = (int)(threadIdx.x / 32); line < LINES; line += WARPS) {
        int32_t first = (int32_t)((int64_t)line * (n - 32) / (LINES - 1));

        shared->keys[line * 32 + (int)(threadIdx.x % 32)] =
            order_key(__ldg(row + first + threadIdx.x % 32));
    }
    __syncthreads();
    return select_listed(shared, LISTED, &rank);
}

/* Call what(position, score) for all positions of the row; four at a time where
 * the row is aligned. */
template <typename what_t>
__device__ void for_each(const float *row, int32_t n, what_t what)
{
    constexpr int UNROLL = 4;
    const int32_t whole =
        ((uintptr_t)row % 16 == 0) ? n / (4 * UNROLL * THREADS) : 0;
    int32_t at = (int32_t)threadIdx.x * 4;

    for (int32_t tile = 0; tile < whole; tile++) {
        float4 held[UNROLL];

#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            held[u] = __ldg((const float4 *)(row + at + u * 4 * THREADS));
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            int32_t i = at + u * 4 * THREADS;

            what(i, held[u].x);
            what(i + 1, held[u].y);
            what(i + 2, held[u].z);
            what(i + 3, held[u].w);
        }
        at += 4 * UNROLL * THREADS;
    }
    for (int32_t i = whole * 4 * UNROLL * THREADS + (int32_t)threadIdx.x; i < n;
         i += THREADS) {
        what(i, __ldg(row + i));
    }
    __syncthreads();
}

__device__ void set_bit(uint32_t *bits, int32_t i)
{
    atomicOr(bits + i / 32, 1U << (i % 32));
}

/* List what reaches `least`; n_listed counts also what has no room. */
__device__ void list_candidates(shared_t *shared, const float *row, int32_t n,
                                uint32_t least)
{
    const float least_of = least_score(least);

    for_each(row, n, [=](int32_t i, float score) {
        if (!(score < least_of)) { /* a NaN too */
            uint32_t key = order_key(score);

            if (key >= least) {
                int32_t at = atomicAdd(&shared->n_listed, 1);

                if (at < LISTED) {
                    shared->keys[at]   = key;
                    shared->places[at] = i;
                }
            }
        }
    });
}

/* The k best of the list: their bits. */
__device__ void choose_listed(shared_t *shared, int32_t k, uint32_t *bits)
{
    const int32_t n    = shared->n_listed;
    int32_t n_ties     = k;
    const uint32_t kth = select_listed(shared, n, &n_ties);

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        uint32_t key   = shared->keys[i];
        int32_t place  = shared->places[i];
        int32_t before = 0;

        if (key == kth) { /* of the ties those with lower positions first */
            for (int32_t j = 0; j < n; j++) {
                before +=
                    (shared->keys[j] == kth) && (shared->places[j] < place) ? 1
                                                                            : 0;
            }
        }
        if ((key > kth) || ((key == kth) && (before < n_ties))) {
            set_bit(bits, place);
        }
    }
    __syncthreads();
}

/* The same by passes over the row: the k-th key digit by digit, then its ties
 * in ascending order. */
__device__ void choose_by_passes(shared_t *shared, const float *row, int32_t n,
                                 int32_t k, uint32_t *bits)
{
    uint32_t prefix   = 0;
    int32_t n_ties    = k;
    int32_t ties_done = 0;

    for (int shift = 24; shift >= 0; shift -= 8) {
        clear(shared->histogram, DIGITS);
        for (int32_t from = 0; from < n; from += THREADS) {
            int32_t i    = from + (int32_t)threadIdx.x;
            uint32_t key = i < n ? order_key(__ldg(row + i)) : 0;
            bool counts  = (i < n) && ((uint64_t)key >> (shift + 8) == prefix);

            count_digit(shared->histogram, (key >> shift) & (DIGITS - 1),
                        counts);
        }
        find_digit(shared, n_ties);
        prefix = prefix << 8 | shared->digit;
        n_ties = shared->rank;
    }
    for (int32_t from = 0; from < n; from += THREADS) {
        int32_t i    = from + (int32_t)threadIdx.x;
        uint32_t key = i < n ? order_key(__ldg(row + i)) : 0;
        bool is_tie  = (i < n) && (key == prefix);
        int32_t tie =
            ties_done + pl_sum_up_to<WARPS>(is_tie ? 1 : 0, shared->warp_sums);
        uint32_t word = __ballot_sync(~0U, ((i < n) && (key > prefix)) ||
                                               (is_tie && (tie <= n_ties)));

        if ((threadIdx.x % 32 == 0) && (i < n)) {
            bits[i / 32] = word;
        }
        ties_done += shared->warp_sums[WARPS - 1];
        __syncthreads();
    }
}

/* The set bits as ascending positions. */
__device__ void write_positions(shared_t *shared, const uint32_t *bits,
                                int32_t n, int32_t *positions)
{
    const int32_t n_words = (n + 31) / 32;
    int32_t done          = 0;

    for (int32_t from = 0; from < n_words; from += THREADS) {
        int32_t w     = from + (int32_t)threadIdx.x;
        uint32_t word = w < n_words ? bits[w] : 0;
        int32_t count = __popc(word);
        int32_t at =
            done + pl_sum_up_to<WARPS>(count, shared->warp_sums) - count;

        for (; word != 0; word &= word - 1) {
            positions[at++] = w * 32 + __ffs((int)word) - 1;
        }
        done += shared->warp_sums[WARPS - 1];
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS, 2)
    topk(const float *scores, size_t score_stride, const int32_t *n_keys,
         int32_t k, int32_t *positions, int32_t *n_taken)
{
    extern __shared__ uint32_t memory[];
    shared_t *shared = (shared_t *)memory;
    uint32_t *bits   = memory + sizeof(shared_t) / sizeof(uint32_t);
    const float *row = scores + (size_t)blockIdx.x * score_stride;
    const int32_t n  = n_keys[blockIdx.x];
    int32_t *out     = positions + (size_t)blockIdx.x * (size_t)k;

    if (threadIdx.x == 0) {
        n_taken[blockIdx.x] = min(n, k);
        shared->n_listed    = 0;
    }
    if (n <= k) {
        for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
            out[i] = i;
        }
        return;
    }
    clear(bits, (n + 31) / 32);
    list_candidates(shared, row, n,
                    n <= LISTED ? 0 : sample_key(shared, row, n, k));
    if ((shared->n_listed >= k) && (shared->n_listed <= LISTED)) {
        choose_listed(shared, k, bits);
    } else {
        choose_by_passes(shared, row, n, k, bits);
    }
    write_positions(shared, bits, n, out);
}

} // namespace

pl_status_t pl_cuda_topk(const float *scores, size_t score_stride,
                         const int32_t *n_keys, int32_t n, int32_t most_keys,
                         int32_t k, int32_t *positions, int32_t *n_taken,
                         pl_cuda_stream_t stream)
{
    const size_t bytes = sizeof(shared_t) +
                         (size_t)pl_ceil_div(most_keys, 32) * sizeof(uint32_t);

    if ((n < 0) || (k < 1) || (k > PL_CUDA_TOPK_MAX) || (most_keys < 0) ||
        (most_keys > MOST_KEYS)) {
        return PL_ERR_ARGUMENT;
    }
    if (!pl_allow_shared<topk>()) {
        return PL_ERR_DEVICE;
    }
    if (n > 0) {
        topk<<<(unsigned)n, THREADS, bytes, stream>>>(
            scores, score_stride, n_keys, k, positions, n_taken);
    }
    return pl_launched();
}
