/* Sizes are those of a GLM-5 prompt of 128K tokens: pages of 64 rows of 656
 * bytes, 32 index heads of 128, 64 attention heads over 2,048 of 512 + 64. Each
 * figure is the median of several runs, timed by events. */
#include "bench.cuh"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <vector>

#include "kernels.h"
#include "launch.cuh"

namespace
{

constexpr int TOKENS        = 131072;
constexpr int P             = 64;
constexpr int PAGES         = TOKENS / P;
constexpr size_t PAGE_BYTES = P * 656;
constexpr int QUERIES       = 1024;
constexpr int INDEX_HEADS   = 32;
constexpr int HEADS         = 64;
constexpr int TOP           = 2048;

/* ---- memory that goes with its holder ---- */

class buffer_t
{
  public:
    explicit buffer_t(size_t bytes, bool pinned = false)
        : at(nullptr), is_pinned(pinned)
    {
        error = pinned ? cudaHostAlloc(&at, bytes, cudaHostAllocDefault)
                       : cudaMalloc(&at, bytes);
        at    = error == cudaSuccess ? at : nullptr;
    }
    ~buffer_t()
    {
        if (is_pinned) {
            (void)cudaFreeHost(at);
        } else {
            (void)cudaFree(at);
        }
    }
    buffer_t(const buffer_t &)            = delete;
    buffer_t &operator=(const buffer_t &) = delete;

    template <typename T> T *as() const
    {
        return (T *)at;
    }

    void *at;
    cudaError_t error;

  private:
    bool is_pinned;
};

__global__ void fill_random(uint32_t *words, size_t n, uint32_t mask,
                            uint32_t bits)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t x = i * UINT64_C(0x9E3779B97F4A7C15) + 12345;

        x ^= x >> 31;
        x *= UINT64_C(0xBF58476D1CE4E5B9);
        x ^= x >> 29;
        words[i] = ((uint32_t)x & mask) | bits;
    }
}

/* Normal-like float32: a sum of four uniforms. */
__global__ void fill_normal(float *values, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t x = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        float sum  = 0.0F;

        for (int k = 0; k < 4; k++) {
            x ^= x >> 30;
            x *= UINT64_C(0xBF58476D1CE4E5B9);
            sum += (float)(x >> 40) * (1.0F / 16777216.0F) - 0.5F;
        }
        values[i] = sum * 1.7F;
    }
}

std::vector<int32_t> shuffled(int32_t n, int32_t from)
{
    std::vector<int32_t> order((size_t)from);
    uint64_t x = 88172645463325252ULL;

    for (int32_t i = 0; i < from; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        int32_t j        = (int32_t)(x % (uint64_t)(i + 1));
        order[(size_t)i] = order[(size_t)j];
        order[(size_t)j] = i;
    }
    order.resize((size_t)n);
    return order;
}

/* ---- one bench ---- */

class bench_t
{
  public:
    bench_t(const pl_log_t *to_log, const pl_cuda_figures_t *to_figures)
        : log(to_log), figures(to_figures), status(PL_OK)
    {
        (void)cudaStreamCreate(&stream);
        (void)cudaEventCreate(&begin);
        (void)cudaEventCreate(&end);
    }
    ~bench_t()
    {
        (void)cudaEventDestroy(end);
        (void)cudaEventDestroy(begin);
        (void)cudaStreamDestroy(stream);
    }
    bench_t(const bench_t &)            = delete;
    bench_t &operator=(const bench_t &) = delete;

    /* Median seconds of what(), which queues on the stream and returns a
     * status. */
    template <typename what_t> double time(what_t what, int times = 15)
    {
        std::vector<float> ms;

        for (int i = 0; (i < times + 3) && (status == PL_OK); i++) {
            float took = 0;

            (void)cudaEventRecord(begin, stream);
            status = what();
            (void)cudaEventRecord(end, stream);
            if ((cudaEventSynchronize(end) != cudaSuccess) ||
                (cudaEventElapsedTime(&took, begin, end) != cudaSuccess)) {
                status = PL_ERR_DEVICE;
            }
            if (i >= 3) {
                ms.push_back(took);
            }
        }
        if (status != PL_OK) {
            pl_log(log, PL_LOG_ERROR, "bench kernels: %s",
                   cudaGetErrorString(cudaGetLastError()));
            return 1.0;
        }
        std::sort(ms.begin(), ms.end());
        return ms[ms.size() / 2] * 1e-3;
    }

    void say(const char *key, const char *name, const char *unit, double value,
             const char *yardstick_name, double yardstick, const char *reach)
    {
        const pl_cuda_figure_t figure = {
            key, name, unit, value, yardstick_name, yardstick, reach};

        if (status == PL_OK) {
            figures->take(figures->context, &figure);
        }
    }

    bool has(std::initializer_list<const buffer_t *> buffers)
    {
        for (const buffer_t *buffer : buffers) {
            if ((status == PL_OK) && (buffer->at == nullptr)) {
                pl_log(log, PL_LOG_ERROR, "bench kernels: no memory: %s",
                       cudaGetErrorString(buffer->error));
                status = PL_ERR_MEMORY;
            }
        }
        return status == PL_OK;
    }

    const pl_log_t *log;
    const pl_cuda_figures_t *figures;
    pl_status_t status;
    cudaStream_t stream;

  private:
    cudaEvent_t begin, end;
};

pl_status_t ok(cudaError_t error)
{
    return error == cudaSuccess ? PL_OK : PL_ERR_DEVICE;
}

void upload(const buffer_t &to, const std::vector<int32_t> &values)
{
    (void)cudaMemcpy(to.at, values.data(), values.size() * sizeof(int32_t),
                     cudaMemcpyHostToDevice);
}

/* ---- pages ---- */

/* Within the device: four prompts' pages. */
void bench_near(bench_t *bench)
{
    const int n        = PAGES * 4;
    const size_t bytes = (size_t)n * PAGE_BYTES;
    buffer_t pool(bytes * 2), view(bytes), slots((size_t)n * 4);
    pl_page_place_t scattered = {pool.at, slots.as<int32_t>(), nullptr, 0,
                                 PAGE_BYTES};
    pl_page_place_t dense     = {view.at, nullptr, nullptr, 0, PAGE_BYTES};

    if (!bench->has({&pool, &view, &slots})) {
        return;
    }
    upload(slots, shuffled(n, n * 2));
    double copy       = bench->time([&] {
        return ok(cudaMemcpyAsync(view.at, pool.at, bytes,
                                        cudaMemcpyDeviceToDevice, bench->stream));
    });
    double gather     = bench->time([&] {
        return pl_cuda_copy_pages(&scattered, &dense, n, PAGE_BYTES, 0,
                                      bench->stream);
    });
    double scatter    = bench->time([&] {
        return pl_cuda_copy_pages(&dense, &scattered, n, PAGE_BYTES, 0,
                                     bench->stream);
    });
    const double both = 2e-9 * (double)bytes;

    bench->say("gather_gbs", "gather of 8,192 pages", "GB/s r+w", both / gather,
               "device copy", both / copy, ">= 85 %");
    bench->say("scatter_gbs", "scatter of 8,192 pages", "GB/s r+w",
               both / scatter, "device copy", both / copy, ">= 85 %");
}

/* The same as a device is asked for it: ranges, no two of them neighbours. */
void bench_ranges(bench_t *bench, const buffer_t &pool, const buffer_t &host,
                  const std::vector<int32_t> &order, double in, double out)
{
    const double gb = 1e-9 * (double)(PAGES * PAGE_BYTES);
    std::vector<pl_copy_t> loads, backups;

    for (size_t i = 0; i < PAGES; i++) {
        char *here = pool.as<char>() + (size_t)order[i] * PAGE_BYTES;
        char *there =
            host.as<char>() + (size_t)order[PAGES - 1 - i] * PAGE_BYTES;

        loads.push_back({here, there, PAGE_BYTES});
        backups.push_back({there, here, PAGE_BYTES});
    }
    double load   = bench->time([&] {
        return pl_cuda_copy_ranges(loads.data(), PAGES, 8, bench->stream);
    });
    double backup = bench->time([&] {
        return pl_cuda_copy_ranges(backups.data(), PAGES, 8, bench->stream);
    });

    bench->say("load_ranges_gbs", "load-back of as many ranges", "GB/s",
               gb / load, "one pinned copy", gb / in, ">= 92 %");
    bench->say("backup_ranges_gbs", "backup of as many ranges", "GB/s",
               gb / backup, "one pinned copy", gb / out, ">= 92 %");
}

/* Over PCIe: one prompt's. */
void bench_host(bench_t *bench)
{
    const size_t bytes = PAGES * PAGE_BYTES;
    buffer_t pool(bytes), slots(PAGES * 4), host(bytes, true);
    pl_page_place_t scattered = {pool.at, slots.as<int32_t>(), nullptr, 0,
                                 PAGE_BYTES};
    pl_page_place_t pinned    = {host.at, slots.as<int32_t>(), nullptr, 0,
                                 PAGE_BYTES};
    const std::vector<int32_t> order = shuffled(PAGES, PAGES);

    if (!bench->has({&pool, &slots, &host})) {
        return;
    }
    upload(slots, order);
    double in     = bench->time([&] {
        return ok(cudaMemcpyAsync(pool.at, host.at, bytes,
                                      cudaMemcpyHostToDevice, bench->stream));
    });
    double out    = bench->time([&] {
        return ok(cudaMemcpyAsync(host.at, pool.at, bytes,
                                     cudaMemcpyDeviceToHost, bench->stream));
    });
    double load   = bench->time([&] {
        return pl_cuda_copy_pages(&pinned, &scattered, PAGES, PAGE_BYTES, 8,
                                    bench->stream);
    });
    double backup = bench->time([&] {
        return pl_cuda_copy_pages(&scattered, &pinned, PAGES, PAGE_BYTES, 8,
                                  bench->stream);
    });

    bench->say("load_gbs", "load-back of 2,048 scattered pages", "GB/s",
               1e-9 * (double)bytes / load, "one pinned copy",
               1e-9 * (double)bytes / in, ">= 92 %");
    bench->say("backup_gbs", "backup of 2,048 scattered pages", "GB/s",
               1e-9 * (double)bytes / backup, "one pinned copy",
               1e-9 * (double)bytes / out, ">= 92 %");
    bench_ranges(bench, pool, host, order, in, out);
}

/* The half of a prompt that the other of two GPUs owns, read page by page into
 * the view: what materialize by `peer` is for one rank. */
void bench_peer(bench_t *bench)
{
    const size_t bytes = PAGES / 2 * PAGE_BYTES;
    int n = 0, reaches = 0;
    void *theirs = nullptr;

    if ((cudaGetDeviceCount(&n) != cudaSuccess) || (n < 2) ||
        (cudaDeviceCanAccessPeer(&reaches, 0, 1) != cudaSuccess) ||
        (reaches == 0)) {
        return;
    }
    (void)cudaSetDevice(1);
    (void)cudaMalloc(&theirs, bytes);
    (void)cudaSetDevice(0);
    (void)cudaDeviceEnablePeerAccess(1, 0);
    {
        buffer_t own(bytes), view(bytes * 2), pages(PAGES * 4), bases(16);
        const void *stores[2] = {own.at, theirs};
        pl_page_place_t from  = {nullptr, pages.as<int32_t>(),
                                 bases.as<const void *>(), 2, PAGE_BYTES};
        pl_page_place_t to    = {view.at, nullptr, nullptr, 0, PAGE_BYTES};

        if (bench->has({&own, &view, &pages, &bases}) && (theirs != nullptr)) {
            (void)cudaMemcpy(bases.at, stores, sizeof(stores),
                             cudaMemcpyHostToDevice);
            upload(pages, shuffled(PAGES, PAGES));
            double copy   = bench->time([&] {
                return ok(cudaMemcpyPeerAsync(view.at, 0, theirs, 1, bytes,
                                                bench->stream));
            });
            double view_s = bench->time([&] {
                return pl_cuda_copy_pages(&from, &to, PAGES, PAGE_BYTES, 264,
                                          bench->stream);
            });

            bench->say("peer_gbs", "128K tokens into a view, 2 GPUs, peer",
                       "GB/s received", 1e-9 * (double)bytes / view_s,
                       "bare peer copy", 1e-9 * (double)bytes / copy,
                       ">= 93 %");
        }
    }
    (void)cudaSetDevice(1);
    (void)cudaFree(theirs);
    (void)cudaSetDevice(0);
}

/* ---- remap ---- */

__global__ void search(const int32_t *sorted, const int32_t *places, int32_t n,
                       const int32_t *wanted, int64_t n_wanted, int32_t *found)
{
    int64_t i   = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int32_t low = 0, high = n;

    if (i >= n_wanted) {
        return;
    }
    while (low < high) {
        int32_t middle = (low + high) / 2;

        if (sorted[middle] < wanted[i]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    found[i] = (low < n) && (sorted[low] == wanted[i]) ? places[low] : -1;
}

void bench_remap(bench_t *bench)
{
    const int64_t n            = 2 << 20;
    std::vector<int32_t> pages = shuffled(PAGES, PAGES * 4);
    std::vector<int32_t> tokens((size_t)TOKENS), order((size_t)TOKENS);
    std::vector<int32_t> wanted((size_t)n), mixed = shuffled(TOKENS, TOKENS);
    buffer_t list(PAGES * 4), inverse(PAGES * 16), at(n * 4), out(n * 4);
    buffer_t keys(TOKENS * 4), places(TOKENS * 4), sorted(TOKENS * 4),
        sorted_places(TOKENS * 4);
    size_t room = 0;

    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[(size_t)i] = pages[(size_t)(i / P)] * P + i % P;
        order[(size_t)i]  = i;
    }
    for (int64_t i = 0; i < n; i++) {
        wanted[(size_t)i] = tokens[(size_t)mixed[(size_t)(i % TOKENS)]];
    }
    (void)cub::DeviceRadixSort::SortPairs(
        nullptr, room, keys.as<int32_t>(), sorted.as<int32_t>(),
        places.as<int32_t>(), sorted_places.as<int32_t>(), TOKENS, 0, 20,
        bench->stream);
    buffer_t scratch(room);

    if (!bench->has({&list, &inverse, &at, &out, &keys, &places, &sorted,
                     &sorted_places, &scratch})) {
        return;
    }
    upload(list, pages);
    upload(at, wanted);
    upload(keys, tokens);
    upload(places, order);
    (void)cudaMemset(inverse.at, 0xFF, PAGES * 16);
    double ours   = bench->time([&] {
        PL_TRY(pl_cuda_inverse_set(inverse.as<int32_t>(), list.as<int32_t>(),
                                     PAGES, bench->stream));
        PL_TRY(pl_cuda_remap(inverse.as<int32_t>(), P, at.as<int32_t>(), n,
                               out.as<int32_t>(), bench->stream));
        return pl_cuda_inverse_clear(inverse.as<int32_t>(), list.as<int32_t>(),
                                       PAGES, bench->stream);
    });
    double theirs = bench->time([&] {
        cudaError_t error = cub::DeviceRadixSort::SortPairs(
            scratch.at, room, keys.as<int32_t>(), sorted.as<int32_t>(),
            places.as<int32_t>(), sorted_places.as<int32_t>(), TOKENS, 0, 20,
            bench->stream);

        search<<<(unsigned)pl_ceil_div(n, 256), 256, 0, bench->stream>>>(
            sorted.as<int32_t>(), sorted_places.as<int32_t>(), TOKENS,
            at.as<int32_t>(), n, out.as<int32_t>());
        return ok(error);
    });

    bench->say("remap_us", "remap of 2M locations", "us", ours * 1e6,
               "cub sort + search", theirs * 1e6, "<= 20 %");
}

/* ---- attention ---- */

/* Seconds of a cuBLAS bf16 product of about that many FLOP. */
double cublas_seconds(bench_t *bench, double flop)
{
    const int n        = (int)(cbrt(flop / 2) / 64) * 64;
    const size_t bytes = (size_t)n * (size_t)n * 2;
    const float one = 1.0F, zero = 0.0F;
    buffer_t a(bytes), b(bytes), c(bytes);
    cublasHandle_t handle = nullptr;
    double seconds;

    if (!bench->has({&a, &b, &c}) ||
        (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)) {
        bench->status = bench->status == PL_OK ? PL_ERR_DEVICE : bench->status;
        return 1.0;
    }
    /* bf16 of magnitude about 1: random signs and mantissas */
    fill_random<<<1024, 256>>>(a.as<uint32_t>(), bytes / 4, 0x807F807F,
                               0x3F003F00);
    fill_random<<<1024, 256>>>(b.as<uint32_t>(), bytes / 4, 0x807F807F,
                               0x3F003F00);
    (void)cublasSetStream(handle, bench->stream);
    seconds = bench->time([&] {
        return cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one,
                            a.at, CUDA_R_16BF, n, b.at, CUDA_R_16BF, n, &zero,
                            c.at, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS
                   ? PL_OK
                   : PL_ERR_DEVICE;
    });
    (void)cublasDestroy(handle);
    return seconds * flop / (2.0 * n * (double)n * n);
}

/* Scores of QUERIES rows of TOKENS. */
void bench_topk(bench_t *bench, const buffer_t &scores, const buffer_t &n_keys)
{
    const size_t half = (size_t)QUERIES / 2 * TOKENS * sizeof(float);
    buffer_t best((size_t)QUERIES * TOP * 4), taken(QUERIES * 4);

    if (!bench->has({&best, &taken})) {
        return;
    }
    double topk = bench->time([&] {
        return pl_cuda_topk(scores.as<float>(), TOKENS, n_keys.as<int32_t>(),
                            QUERIES, TOKENS, TOP, best.as<int32_t>(),
                            taken.as<int32_t>(), bench->stream);
    });
    /* It reads half of the scores and writes as much: as many bytes. */
    double copy = bench->time([&] {
        return ok(cudaMemcpyAsync(scores.as<char>() + half, scores.at, half,
                                  cudaMemcpyDeviceToDevice, bench->stream));
    });

    bench->say("topk_us", "top 2,048 of 128K, 1,024 rows", "us", topk * 1e6,
               "one read of the scores", copy * 1e6, "<= 400 %");
}

void bench_indexer(bench_t *bench)
{
    const pl_row_layout_t layout = pl_row_layout_make(PL_KV_FP8, 512, 64, 128);
    const pl_page_form_t form    = {P, 128, 4};
    const size_t stride          = P * 132;
    const double flop = 2.0 * QUERIES * (double)TOKENS * INDEX_HEADS * 128;
    buffer_t values((size_t)TOKENS * 128 * 4), pages(PAGES * stride),
        rows(PAGES * 4), where(TOKENS * 4);
    buffer_t q((size_t)QUERIES * INDEX_HEADS * 128 * 4),
        weights((size_t)QUERIES * INDEX_HEADS * 4), n_keys(QUERIES * 4);
    buffer_t scores((size_t)QUERIES * TOKENS * 4);
    std::vector<int32_t> order((size_t)TOKENS);

    if (!bench->has(
            {&values, &pages, &rows, &where, &q, &weights, &n_keys, &scores})) {
        return;
    }
    for (int32_t i = 0; i < TOKENS; i++) {
        order[(size_t)i] = i;
    }
    upload(where, order);
    upload(rows, shuffled(PAGES, PAGES));
    upload(n_keys, std::vector<int32_t>((size_t)QUERIES, TOKENS));
    fill_normal<<<1024, 256>>>(values.as<float>(), (size_t)TOKENS * 128);
    fill_normal<<<1024, 256>>>(q.as<float>(),
                               (size_t)QUERIES * INDEX_HEADS * 128);
    fill_normal<<<64, 256>>>(weights.as<float>(),
                             (size_t)QUERIES * INDEX_HEADS);
    bench->status = pl_cuda_store_index(&layout, &form, values.as<float>(),
                                        TOKENS, where.as<int32_t>(),
                                        pages.as<uint8_t>(), stride, nullptr);
    (void)cudaDeviceSynchronize();

    const pl_cuda_view_t view = {pages.as<uint8_t>(), stride,
                                 rows.as<int32_t>(), form};
    double product            = cublas_seconds(bench, flop);
    double score              = bench->time([&] {
        return pl_cuda_index_scores(&view, &layout, q.as<float>(),
                                                 weights.as<float>(), INDEX_HEADS, 0.1F,
                                                 n_keys.as<int32_t>(), QUERIES, TOKENS,
                                                 scores.as<float>(), TOKENS, bench->stream);
    });

    bench->say("indexer_tflops", "indexer logits, 1,024 x 128K x 32 x 128",
               "TFLOP/s", flop / score * 1e-12, "cuBLAS bf16",
               flop / product * 1e-12, ">= 35 %");
    bench_topk(bench, scores, n_keys);
}

void bench_attend(bench_t *bench, pl_kv_dtype_t dtype)
{
    const pl_row_layout_t layout = pl_row_layout_make(dtype, 512, 64, 128);
    const pl_page_form_t form    = {P, layout.latent_bytes, 0};
    const size_t stride          = (size_t)P * layout.latent_bytes;
    const double flop = 2.0 * QUERIES * (double)TOP * HEADS * (576 + 512);
    buffer_t values((size_t)TOKENS * 576 * 4), pages(PAGES * stride),
        rows(PAGES * 4), where(TOKENS * 4);
    buffer_t q((size_t)QUERIES * HEADS * 512 * 4),
        q_rope((size_t)QUERIES * HEADS * 64 * 4),
        out((size_t)QUERIES * HEADS * 512 * 4);
    buffer_t chosen((size_t)QUERIES * TOP * 4), n_chosen(QUERIES * 4);
    std::vector<int32_t> order((size_t)TOKENS),
        positions((size_t)QUERIES * TOP);

    if (!bench->has({&values, &pages, &rows, &where, &q, &q_rope, &out, &chosen,
                     &n_chosen})) {
        return;
    }
    for (int32_t i = 0; i < TOKENS; i++) {
        order[(size_t)i] = i;
    }
    for (int32_t i = 0; i < QUERIES; i++) {
        std::vector<int32_t> some = shuffled(TOP, TOKENS - i);

        std::sort(some.begin(), some.end());
        std::copy(some.begin(), some.end(),
                  positions.begin() + (size_t)i * TOP);
    }
    upload(where, order);
    upload(rows, shuffled(PAGES, PAGES));
    upload(chosen, positions);
    upload(n_chosen, std::vector<int32_t>((size_t)QUERIES, TOP));
    fill_normal<<<1024, 256>>>(values.as<float>(), (size_t)TOKENS * 576);
    fill_normal<<<1024, 256>>>(q.as<float>(), (size_t)QUERIES * HEADS * 512);
    fill_normal<<<1024, 256>>>(q_rope.as<float>(),
                               (size_t)QUERIES * HEADS * 64);
    bench->status = pl_cuda_store_latent(&layout, &form, values.as<float>(),
                                         TOKENS, where.as<int32_t>(),
                                         pages.as<uint8_t>(), stride, nullptr);
    (void)cudaDeviceSynchronize();

    const pl_cuda_view_t view = {pages.as<uint8_t>(), stride,
                                 rows.as<int32_t>(), form};
    const bool is_fp8         = dtype == PL_KV_FP8;
    double product            = cublas_seconds(bench, flop);
    double attend             = bench->time([&] {
        return pl_cuda_attend(&view, &layout, q.as<float>(), q_rope.as<float>(),
                                          HEADS, 0.05F, chosen.as<int32_t>(),
                                          n_chosen.as<int32_t>(), QUERIES, TOP,
                                          out.as<float>(), bench->stream);
    });

    bench->say(is_fp8 ? "attend_fp8_tflops" : "attend_bf16_tflops",
               is_fp8 ? "sparse MLA, 1,024 x 2,048 x 64 heads, fp8"
                      : "sparse MLA, 1,024 x 2,048 x 64 heads, bf16",
               "TFLOP/s", flop / attend * 1e-12, "cuBLAS bf16",
               flop / product * 1e-12, is_fp8 ? "" : ">= 30 %");
}

/* ---- products over experts ---- */

/* A GLM-5 layer: 8 of 256 experts a token, matrices of 2,048 x 6,144. */
constexpr int EXPERTS      = 256;
constexpr int PER_TOKEN    = 8;
constexpr int EXPERT_ROWS  = 2048;
constexpr int EXPERT_COLS  = 6144;
constexpr int MOST_PAIRS   = 65536;
constexpr size_t OF_EXPERT = (size_t)EXPERT_ROWS * EXPERT_COLS * 2; /* bytes */

/* What n tokens choose: ascending, each set as likely as any other. */
std::vector<int32_t> random_experts(int32_t n)
{
    std::vector<int32_t> experts;
    uint64_t x = 88172645463325252ULL;

    for (int32_t t = 0; t < n; t++) {
        for (int32_t e = 0, left = PER_TOKEN; left > 0; e++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if ((x >> 8) % (uint64_t)(EXPERTS - e) < (uint64_t)left) {
                experts.push_back(e);
                left--;
            }
        }
    }
    return experts;
}

class grouped_t
{
  public:
    explicit grouped_t(bench_t *of)
        : weights(OF_EXPERT * EXPERTS), bench(of), at(EXPERTS * 8),
          x((size_t)MOST_PAIRS / PER_TOKEN * EXPERT_COLS * 2),
          out((size_t)MOST_PAIRS * EXPERT_ROWS * 4), pairs(MOST_PAIRS * 4),
          order(MOST_PAIRS * 4), starts((EXPERTS + 1) * 4),
          scratch((size_t)pl_cuda_expert_sort_scratch(MOST_PAIRS, EXPERTS) * 4)
    {
        std::vector<const void *> matrices;

        if (!bench->has(
                {&weights, &at, &x, &out, &pairs, &order, &starts, &scratch})) {
            return;
        }
        for (size_t e = 0; e < EXPERTS; e++) {
            matrices.push_back(weights.as<char>() + e * OF_EXPERT);
        }
        (void)cudaMemcpy(at.at, matrices.data(), EXPERTS * 8,
                         cudaMemcpyHostToDevice);
        /* bf16 of magnitude about 1: random signs and mantissas */
        fill_random<<<1024, 256>>>(weights.as<uint32_t>(),
                                   OF_EXPERT / 4 * EXPERTS, 0x807F807F,
                                   0x3F003F00);
        fill_random<<<1024, 256>>>(
            x.as<uint32_t>(), (size_t)MOST_PAIRS / PER_TOKEN * EXPERT_COLS / 2,
            0x807F807F, 0x3F003F00);
    }

    /* Seconds of the product of n tokens. */
    double time(int32_t n) const
    {
        const int32_t n_pairs           = n * PER_TOKEN;
        const pl_cuda_groups_t groups   = {order.as<int32_t>(),
                                           starts.as<int32_t>(), n_pairs, EXPERTS,
                                           PER_TOKEN};
        const pl_cuda_experts_t experts = {at.as<const void *>(), nullptr,
                                           PL_CUDA_BF16, EXPERT_ROWS,
                                           EXPERT_COLS};
        const pl_cuda_rows_t from = {x.at, PL_CUDA_BF16, PL_CUDA_ROW_OF_TOKEN,
                                     EXPERT_COLS};
        const pl_cuda_rows_t to   = {out.at, PL_CUDA_F32, PL_CUDA_ROW_OF_PLACE,
                                     EXPERT_ROWS};

        if (bench->status != PL_OK) {
            return 1.0;
        }
        upload(pairs, random_experts(n));
        bench->status = pl_cuda_expert_sort(
            pairs.as<int32_t>(), n_pairs, EXPERTS, order.as<int32_t>(),
            starts.as<int32_t>(), scratch.as<int32_t>(), bench->stream);
        return bench->time([&] {
            return pl_cuda_grouped_product(&groups, &experts, &from, &to,
                                           bench->stream);
        });
    }

    buffer_t weights;

  private:
    bench_t *bench;
    buffer_t at, x, out, pairs, order, starts, scratch;
};

/* Few pairs an expert: as fast as its weights can be read.  Against a copy
 * within the weights, which reads half of those bytes and writes as many. */
void say_thin(bench_t *bench, const grouped_t &grouped, int32_t n,
              int32_t n_experts, const char *key, const char *name,
              const char *reach)
{
    const size_t bytes = OF_EXPERT * (size_t)n_experts;
    char *half         = grouped.weights.as<char>() + bytes / 2;
    double product     = grouped.time(n);
    double copy        = bench->time([&] {
        return ok(cudaMemcpyAsync(half, grouped.weights.at, bytes / 2,
                                         cudaMemcpyDeviceToDevice, bench->stream));
    });

    bench->say(key, name, "GB/s", 1e-9 * (double)bytes / product, "device copy",
               1e-9 * (double)bytes / copy, reach);
}

void bench_grouped(bench_t *bench)
{
    const grouped_t grouped(bench);
    const double flop = 2.0 * MOST_PAIRS * EXPERT_ROWS * (double)EXPERT_COLS;

    if (bench->status != PL_OK) {
        return;
    }
    say_thin(bench, grouped, 1, PER_TOKEN, "grouped_one_gbs",
             "weights of 8 experts, 1 token", "");
    say_thin(bench, grouped, 1024, EXPERTS, "grouped_thin_gbs",
             "weights of 256 experts, 8,192 pairs", ">= 60 %");
    double product = grouped.time(MOST_PAIRS / PER_TOKEN);
    double cublas  = cublas_seconds(bench, flop);

    bench->say("grouped_tflops", "256 experts of 2,048 x 6,144, 65,536 pairs",
               "TFLOP/s", flop / product * 1e-12, "cuBLAS bf16",
               flop / cublas * 1e-12, ">= 50 %");
}

} // namespace

pl_status_t pl_cuda_bench_kernels(const pl_log_t *log,
                                  const pl_cuda_figures_t *figures)
{
    bench_t bench(log, figures);

    bench_near(&bench);
    bench_host(&bench);
    bench_peer(&bench);
    bench_remap(&bench);
    bench_indexer(&bench);
    bench_attend(&bench, PL_KV_BF16);
    bench_attend(&bench, PL_KV_FP8);
    bench_grouped(&bench);
    return bench.status;
}
