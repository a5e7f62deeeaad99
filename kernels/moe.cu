/* Experts: who goes where, and the pairs (token, expert) in the order of their
 * experts. */
#include "launch.cuh"

namespace
{

/* ---- routing: one warp a token ---- */

/* Is value a (of expert i) before value b (of expert j): larger, or equal and
 * earlier?  NaN comes last, and no expert (-1) after that. */
__device__ bool comes_before(float a, int32_t i, float b, int32_t j)
{
    if ((i < 0) || (j < 0)) {
        return i >= 0;
    }
    if (isnan(a) || isnan(b)) {
        return isnan(a) == isnan(b) ? i < j : !isnan(a);
    }
    return (a > b) || ((a == b) && (i < j));
}

/* The best of a warp's candidates, on all lanes. */
__device__ int32_t warp_best(float value, int32_t place)
{
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        float other         = __shfl_xor_sync(~0U, value, by);
        int32_t other_place = __shfl_xor_sync(~0U, place, by);

        if (comes_before(other, other_place, value, place)) {
            value = other;
            place = other_place;
        }
    }
    return place;
}

/* A group is worth the sum of its two best; lane g of the warp (and g + 32,
 * ...) looks at group g.  Experts outside of the best groups: -inf. */
__device__ void limit_groups(const pl_cuda_router_t &router, float *choices,
                             float *scores)
{
    const int lane     = (int)(threadIdx.x % 32);
    const int32_t size = router.n_experts / router.n_group;

    for (int32_t g = lane; g < router.n_group; g += 32) {
        float first = -INFINITY, second = -INFINITY;

        for (int32_t i = 0; i < size; i++) {
            float choice = choices[g * size + i];

            second = choice > first ? first : fmaxf(second, choice);
            first  = fmaxf(first, choice);
        }
        scores[g] = size == 1 ? first : first + second;
    }
    __syncwarp();
    for (int32_t g = lane; g < router.n_group; g += 32) {
        int32_t better = 0;

        for (int32_t other = 0; other < router.n_group; other++) {
            better +=
                (other != g) && comes_before(scores[other], other, scores[g], g)
                    ? 1
                    : 0;
        }
        for (int32_t i = 0; (better >= router.topk_group) && (i < size); i++) {
            choices[g * size + i] = -INFINITY;
        }
    }
    __syncwarp();
}

/* choices, scores, marks: [n_experts] of shared memory each, of this warp. */
__device__ void choose(const pl_cuda_router_t &router, const float *choices,
                       const float *scores, float *marks, int32_t *experts,
                       float *weights)
{
    const int lane    = (int)(threadIdx.x % 32);
    const int32_t n   = router.n_experts;
    const int32_t k   = router.experts_per_token;
    float total       = 0.0F;
    int32_t n_written = 0;

    for (int32_t i = lane; i < n; i += 32) {
        marks[i] = 0.0F;
    }
    __syncwarp();
    for (int32_t taken = 0; taken < k; taken++) {
        float best    = 0.0F;
        int32_t place = -1;

        for (int32_t i = lane; i < n; i += 32) {
            if ((marks[i] == 0.0F) &&
                comes_before(choices[i], i, best, place)) {
                best  = choices[i];
                place = i;
            }
        }
        place = warp_best(best, place);
        if (lane == 0) {
            marks[place] = 1.0F;
        }
        __syncwarp();
    }
    /* Ascending experts; the sum in that order. */
    for (int32_t from = 0; from < n; from += 32) {
        const int32_t i      = from + lane;
        const bool is_taken  = (i < n) && (marks[i] != 0.0F);
        const uint32_t taken = __ballot_sync(~0U, is_taken);

        if (is_taken) {
            int32_t at = n_written + __popc(taken & ((1U << lane) - 1));

            experts[at] = i;
            weights[at] = scores[i];
        }
        n_written += __popc(taken);
    }
    __syncwarp();
    for (int32_t j = 0; j < k; j++) {
        total += weights[j];
    }
    __syncwarp();
    for (int32_t j = lane; j < k; j += 32) {
        float weight = weights[j];

        weight     = router.norm_topk ? weight / (total + 1e-20F) : weight;
        weights[j] = weight * router.routed_scale;
    }
}

__global__ void route(pl_cuda_router_t router, const float *logits,
                      const float *bias, int32_t n, int32_t *experts,
                      float *weights)
{
    extern __shared__ float memory[]; /* [warps][3 * n_experts] */
    const int lane      = (int)(threadIdx.x % 32);
    const int warp      = (int)(threadIdx.x / 32);
    const int32_t token = (int32_t)(blockIdx.x * (blockDim.x / 32)) + warp;
    float *scores       = memory + (size_t)warp * 3 * router.n_experts;
    float *choices      = scores + router.n_experts;

    if (token >= n) {
        return;
    }
    logits += (size_t)token * (size_t)router.n_experts;
    for (int32_t i = lane; i < router.n_experts; i += 32) {
        scores[i]  = 1.0F / (1.0F + (float)exp(-(double)logits[i]));
        choices[i] = scores[i] + bias[i];
    }
    __syncwarp();
    if (router.n_group > 1) {
        limit_groups(router, choices, choices + router.n_experts);
    }
    choose(router, choices, scores, choices + router.n_experts,
           experts + (size_t)token * (size_t)router.experts_per_token,
           weights + (size_t)token * (size_t)router.experts_per_token);
}

/* ---- the counting sort ---- */

constexpr int SORTERS = 1024; /* pairs of a block */
constexpr int WARPS   = SORTERS / 32;

__global__ void count_experts(const int32_t *experts, int32_t n_pairs,
                              int32_t n_experts, int32_t *counts)
{
    extern __shared__ int32_t mine[]; /* [n_experts] */
    const int32_t i = (int32_t)(blockIdx.x * SORTERS + threadIdx.x);

    for (int32_t e = (int32_t)threadIdx.x; e < n_experts; e += SORTERS) {
        mine[e] = 0;
    }
    __syncthreads();
    if (i < n_pairs) {
        atomicAdd(mine + experts[i], 1);
    }
    __syncthreads();
    for (int32_t e = (int32_t)threadIdx.x; e < n_experts; e += SORTERS) {
        counts[(size_t)blockIdx.x * (size_t)n_experts + (size_t)e] = mine[e];
    }
}

/* One block, a thread an expert (or several): counts of blocks become where
 * their pairs begin, relative to the expert's start; then the starts. */
__global__ void place_experts(int32_t n_blocks, int32_t n_experts,
                              int32_t *counts, int32_t *starts)
{
    __shared__ int32_t before; /* pairs of the experts of earlier rounds */
    __shared__ int32_t totals[SORTERS];

    if (threadIdx.x == 0) {
        before    = 0;
        starts[0] = 0;
    }
    for (int32_t from = 0; from < n_experts; from += SORTERS) {
        const int32_t e = from + (int32_t)threadIdx.x;
        int32_t total   = 0;

        for (int32_t b = 0; (e < n_experts) && (b < n_blocks); b++) {
            int32_t *count = counts + (size_t)b * (size_t)n_experts + e;
            int32_t held   = *count;

            *count = total;
            total += held;
        }
        totals[threadIdx.x] = total;
        __syncthreads();
        for (int by = 1; by < SORTERS; by *= 2) {
            int32_t left =
                (int)threadIdx.x >= by ? totals[threadIdx.x - by] : 0;

            __syncthreads();
            totals[threadIdx.x] += left;
            __syncthreads();
        }
        if (e < n_experts) {
            starts[e + 1] = before + totals[threadIdx.x];
        }
        __syncthreads();
        if (threadIdx.x == SORTERS - 1) {
            before += totals[threadIdx.x];
        }
        __syncthreads();
    }
}

/* Each pair to its place: stable, since pairs of a block keep their order. */
__global__ void __launch_bounds__(SORTERS)
    scatter_pairs(const int32_t *experts, int32_t n_pairs, int32_t n_experts,
                  const int32_t *counts, const int32_t *starts, int32_t *order)
{
    extern __shared__ int32_t of_warp[]; /* [WARPS][n_experts] */
    const int lane       = (int)(threadIdx.x % 32);
    const int warp       = (int)(threadIdx.x / 32);
    const int32_t i      = (int32_t)(blockIdx.x * SORTERS + threadIdx.x);
    const int32_t expert = i < n_pairs ? experts[i] : n_experts;
    const uint32_t same  = __match_any_sync(~0U, expert);
    const int32_t before = __popc(same & ((1U << lane) - 1));

    for (int32_t k = (int32_t)threadIdx.x; k < WARPS * n_experts;
         k += SORTERS) {
        of_warp[k] = 0;
    }
    __syncthreads();
    if ((i < n_pairs) && (before == 0)) {
        of_warp[warp * n_experts + expert] = __popc(same);
    }
    __syncthreads();
    for (int32_t e = (int32_t)threadIdx.x; e < n_experts; e += SORTERS) {
        int32_t sum = 0;

        for (int w = 0; w < WARPS; w++) {
            int32_t held = of_warp[w * n_experts + e];

            of_warp[w * n_experts + e] = sum;
            sum += held;
        }
    }
    __syncthreads();
    if (i < n_pairs) {
        order[starts[expert] +
              counts[(size_t)blockIdx.x * (size_t)n_experts + expert] +
              of_warp[warp * n_experts + expert] + before] = i;
    }
}

} // namespace

pl_status_t pl_cuda_route(const pl_cuda_router_t *router, const float *logits,
                          const float *bias, int32_t n, int32_t *experts,
                          float *weights, pl_cuda_stream_t stream)
{
    constexpr int PER_BLOCK = 4;
    const size_t bytes =
        (size_t)router->n_experts * 3 * PER_BLOCK * sizeof(float);

    if ((n < 0) || (router->n_experts < 1) ||
        (router->n_experts > PL_CUDA_MOST_EXPERTS) || (router->n_group < 1) ||
        (router->n_experts % router->n_group != 0) ||
        (router->experts_per_token < 1) ||
        (router->experts_per_token > router->n_experts)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        route<<<(unsigned)pl_ceil_div(n, PER_BLOCK), PER_BLOCK * 32, bytes,
                stream>>>(*router, logits, bias, n, experts, weights);
    }
    return pl_launched();
}

int64_t pl_cuda_expert_sort_scratch(int32_t n_pairs, int32_t n_experts)
{
    return pl_ceil_div(n_pairs, SORTERS) * n_experts;
}

pl_status_t pl_cuda_expert_sort(const int32_t *experts, int32_t n_pairs,
                                int32_t n_experts, int32_t *order,
                                int32_t *starts, int32_t *scratch,
                                pl_cuda_stream_t stream)
{
    const size_t counts  = (size_t)n_experts * sizeof(int32_t);
    const int32_t blocks = (int32_t)pl_ceil_div(n_pairs, SORTERS);

    if ((n_pairs < 0) || (n_experts < 1) ||
        (n_experts > PL_CUDA_MOST_EXPERTS)) {
        return PL_ERR_ARGUMENT;
    }
    if (!pl_allow_shared<scatter_pairs>()) {
        return PL_ERR_DEVICE;
    }
    if (blocks > 0) {
        count_experts<<<(unsigned)blocks, SORTERS, counts, stream>>>(
            experts, n_pairs, n_experts, scratch);
    }
    place_experts<<<1, SORTERS, 0, stream>>>(blocks, n_experts, scratch,
                                             starts);
    if (blocks > 0) {
        scatter_pairs<<<(unsigned)blocks, SORTERS, counts * WARPS, stream>>>(
            experts, n_pairs, n_experts, scratch, starts, order);
    }
    return pl_launched();
}
