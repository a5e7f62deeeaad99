/* Pages by owner, chosen on the GPU: the free lists of lanes as bits. */
#include "launch.cuh"
#include "scan.cuh"

namespace
{

constexpr int THREADS = 1024;
constexpr int WARPS   = THREADS / 32;

/* Sum over the threads before this one; *total_p over all.  All threads. */
__device__ int32_t sum_before(int32_t value, int32_t *warp_sums,
                              int32_t *total_p)
{
    int32_t sum = pl_sum_up_to<WARPS>(value, warp_sums);

    *total_p = warp_sums[WARPS - 1];
    return sum - value;
}

/* One block a lane: how many of its pages are wanted, how many are lacking. */
__global__ void count_lanes(const uint64_t *free_bits, int32_t n_words,
                            const pl_owner_t *owners, int32_t n,
                            int32_t *short_p, int32_t *counts)
{
    __shared__ int32_t warp_sums[WARPS];
    const uint64_t *bits = free_bits + (size_t)blockIdx.x * (size_t)n_words;
    int32_t wanted = 0, there = 0, n_wanted, n_there;

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        wanted += owners[i] == (pl_owner_t)blockIdx.x ? 1 : 0;
    }
    for (int32_t i = (int32_t)threadIdx.x; i < n_words; i += THREADS) {
        there += __popcll(bits[i]);
    }
    (void)sum_before(wanted, warp_sums, &n_wanted);
    (void)sum_before(there, warp_sums, &n_there);
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = n_wanted;
        if (n_wanted > n_there) {
            atomicAdd(short_p, n_wanted - n_there);
        }
    }
}

/* The free slots of a lane that are wanted, lowest first; their bits go. */
__device__ void take_slots(uint64_t *bits, int32_t n_words, int32_t wanted,
                           int32_t *warp_sums, int32_t *slots)
{
    int32_t done = 0, in_tile;

    for (int32_t from = 0; (from < n_words) && (done < wanted);
         from += THREADS) {
        int32_t w      = from + (int32_t)threadIdx.x;
        uint64_t word  = w < n_words ? bits[w] : 0;
        int32_t n_bits = __popcll(word);
        int32_t before = done + sum_before(n_bits, warp_sums, &in_tile);
        int32_t take   = min(max(wanted - before, 0), n_bits);

        for (int32_t k = 0; k < take; k++) {
            slots[before + k] = w * 64 + __ffsll((long long)word) - 1;
            word &= word - 1;
        }
        if (take > 0) {
            bits[w] = word;
        }
        done += in_tile;
    }
}

/* One block a lane: its slots in the order of its requests.  slots: [n]
 * scratch, lane after lane. */
__global__ void take_lanes(uint64_t *free_bits, int32_t n_lanes,
                           int32_t n_words, const pl_owner_t *owners, int32_t n,
                           pl_page_t *pages, const int32_t *short_p,
                           const int32_t *counts, int32_t *slots)
{
    __shared__ int32_t warp_sums[WARPS];
    const int32_t lane = (int32_t)blockIdx.x;
    int32_t done       = 0, in_tile;

    if (*short_p > 0) {
        return;
    }
    for (int32_t before = 0; before < lane; before++) {
        slots += counts[before];
    }
    take_slots(free_bits + (size_t)lane * (size_t)n_words, n_words,
               counts[lane], warp_sums, slots);
    __syncthreads();
    for (int32_t from = 0; from < n; from += THREADS) {
        int32_t i     = from + (int32_t)threadIdx.x;
        bool is_mine  = (i < n) && (owners[i] == (pl_owner_t)lane);
        int32_t order = done + sum_before(is_mine ? 1 : 0, warp_sums, &in_tile);

        if (is_mine) {
            pages[i] = slots[order] * n_lanes + lane;
        }
        done += in_tile;
    }
}

} // namespace

pl_status_t pl_cuda_take_pages(uint64_t *free_bits, int32_t n_lanes,
                               int32_t n_words, const pl_owner_t *owners,
                               int32_t n, pl_page_t *pages, int32_t *short_p,
                               int32_t *scratch, pl_cuda_stream_t stream)
{
    if ((n_lanes < 1) || (n_lanes > PL_MAX_RANKS) || (n_words < 0) || (n < 0)) {
        return PL_ERR_ARGUMENT;
    }
    if (cudaMemsetAsync(short_p, 0, sizeof(*short_p), stream) != cudaSuccess) {
        return PL_ERR_DEVICE;
    }
    count_lanes<<<(unsigned)n_lanes, THREADS, 0, stream>>>(
        free_bits, n_words, owners, n, short_p, scratch);
    take_lanes<<<(unsigned)n_lanes, THREADS, 0, stream>>>(
        free_bits, n_lanes, n_words, owners, n, pages, short_p, scratch,
        scratch + n_lanes);
    return pl_launched();
}
