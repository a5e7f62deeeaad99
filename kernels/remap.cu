/* Logical token locations as positions of a request, by a page-level inverse:
 * one look-up a token instead of a sort and a search. */
#include "launch.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int VECTOR  = 4; /* locations of a thread at a time */

__global__ void set_pages(int32_t *inverse, const pl_page_t *pages,
                          int32_t n_pages, bool clear)
{
    int32_t i = (int32_t)(blockIdx.x * THREADS + threadIdx.x);

    if (i < n_pages) {
        inverse[pages[i]] = clear ? -1 : i;
    }
}

__device__ int32_t place_of(const int32_t *inverse, pl_divisor_t page_tokens,
                            int32_t location)
{
    uint32_t page;
    int32_t found;

    if (location < 0) {
        return -1;
    }
    page  = page_tokens.quotient((uint32_t)location);
    found = __ldg(inverse + page);
    return found < 0 ? -1
                     : (int32_t)((uint32_t)found * page_tokens.by +
                                 ((uint32_t)location - page * page_tokens.by));
}

__global__ void __launch_bounds__(THREADS)
    remap(const int32_t *inverse, pl_divisor_t page_tokens,
          const int32_t *locations, int64_t n, int32_t *places)
{
    int64_t first = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;

    if (first + VECTOR <= n) {
        int4 at = __ldcs((const int4 *)(locations + first));

        at.x = place_of(inverse, page_tokens, at.x);
        at.y = place_of(inverse, page_tokens, at.y);
        at.z = place_of(inverse, page_tokens, at.z);
        at.w = place_of(inverse, page_tokens, at.w);
        __stcs((int4 *)(places + first), at);
        return;
    }
    for (int64_t i = first; i < n; i++) {
        places[i] = place_of(inverse, page_tokens, locations[i]);
    }
}

pl_status_t set(int32_t *inverse, const pl_page_t *pages, int32_t n_pages,
                bool clear, pl_cuda_stream_t stream)
{
    if (n_pages < 0) {
        return PL_ERR_ARGUMENT;
    }
    if (n_pages > 0) {
        set_pages<<<(unsigned)pl_ceil_div(n_pages, THREADS), THREADS, 0,
                    stream>>>(inverse, pages, n_pages, clear);
    }
    return pl_launched();
}

} // namespace

pl_status_t pl_cuda_inverse_set(int32_t *inverse, const pl_page_t *pages,
                                int32_t n_pages, pl_cuda_stream_t stream)
{
    return set(inverse, pages, n_pages, false, stream);
}

pl_status_t pl_cuda_inverse_clear(int32_t *inverse, const pl_page_t *pages,
                                  int32_t n_pages, pl_cuda_stream_t stream)
{
    return set(inverse, pages, n_pages, true, stream);
}

pl_status_t pl_cuda_remap(const int32_t *inverse, int32_t page_tokens,
                          const int32_t *locations, int64_t n, int32_t *places,
                          pl_cuda_stream_t stream)
{
    if ((page_tokens < 1) || (n < 0) || ((uintptr_t)locations % 16 != 0) ||
        ((uintptr_t)places % 16 != 0)) {
        return PL_ERR_ARGUMENT;
    }
    if (n > 0) {
        remap<<<(unsigned)pl_ceil_div(n, THREADS * VECTOR), THREADS, 0,
                stream>>>(inverse, pl_divisor_t((uint32_t)page_tokens),
                          locations, n, places);
    }
    return pl_launched();
}
