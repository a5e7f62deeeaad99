/* Dense products by cuBLASLt, the same bits for a row in any batch.
 *
 * cuBLASLt chooses an algorithm by the number of rows, and so the order of a
 * sum.  Here it chooses once, for many rows; the choice is tried on rows drawn
 * at random, few and many, from several places, and taken if their bits are
 * equal.  It follows from the shape and the kind of GPU alone. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <new>
#include <vector>

#include "device.cuh"
#include "launch.cuh"

namespace
{

constexpr int THREADS    = 256;
constexpr int CANDIDATES = 8;    /* of the algorithms that are offered */
constexpr int TYPICAL    = 1024; /* rows that the choice is made for */

struct plan_t {
    pl_cuda_product_t shape;
    cublasLtMatmulDescOpaque_t what;
    cublasLtMatmulAlgo_t algorithm;
    bool in_tiles;
};

cudaDataType_t type_of(pl_cuda_dtype_t dtype)
{
    return dtype == PL_CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

size_t bytes_of(pl_cuda_dtype_t dtype)
{
    return dtype == PL_CUDA_BF16 ? sizeof(__nv_bfloat16) : sizeof(float);
}

/* ---- layouts ---- */

/* cuBLASLt counts by columns: y^T [rows][n] = w^T' x^T, where a row of ours is
 * a column. */
struct layouts_t {
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

cublasStatus_t set_batches(cublasLtMatrixLayoutOpaque_t *layout,
                           int32_t n_batches, size_t stride)
{
    const int64_t offset = (int64_t)stride;
    cublasStatus_t status;

    status = cublasLtMatrixLayoutSetAttribute(
        layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n_batches,
        sizeof(n_batches));
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutSetAttribute(
            layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
            sizeof(offset));
    }
    return status;
}

cublasStatus_t make_layout(cublasLtMatrixLayoutOpaque_t *layout,
                           pl_cuda_dtype_t dtype, int32_t rows, int32_t cols,
                           size_t stride, int32_t n_batches, size_t batch)
{
    cublasStatus_t status =
        cublasLtMatrixLayoutInit(layout, type_of(dtype), (uint64_t)rows,
                                 (uint64_t)cols, (int64_t)stride);

    return (status == CUBLAS_STATUS_SUCCESS) && (n_batches > 1)
               ? set_batches(layout, n_batches, batch)
               : status;
}

cublasStatus_t make_layouts(const pl_cuda_product_t &shape, int32_t n,
                            layouts_t *layouts)
{
    const bool transposed = shape.transposed;
    cublasStatus_t status;

    status = make_layout(&layouts->w, shape.dtype,
                         transposed ? shape.rows : shape.cols,
                         transposed ? shape.cols : shape.rows, shape.w_stride,
                         shape.n_batches, shape.w_batch);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&layouts->x, shape.dtype, shape.cols, n,
                             shape.x_stride, shape.n_batches, shape.x_batch);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = make_layout(&layouts->y, shape.out, shape.rows, n,
                             shape.y_stride, shape.n_batches, shape.y_batch);
    }
    return status;
}

/* What a multiple of 16 bytes is still a multiple of `stride` elements on. */
uint32_t alignment_of(size_t stride, size_t batch, int32_t n_batches,
                      size_t bytes)
{
    const size_t all = (stride | (n_batches > 1 ? batch : 0)) * bytes;
    uint32_t aligned = 16;

    while (all % aligned != 0) {
        aligned /= 2;
    }
    return aligned;
}

cublasStatus_t set_preference(cublasLtMatmulPreferenceOpaque_t *preference,
                              const pl_cuda_product_t &shape)
{
    const uint64_t workspace = 0;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const size_t item        = bytes_of(shape.dtype);
    const int32_t n_batches  = shape.n_batches;
    const uint32_t w =
        alignment_of(shape.w_stride, shape.w_batch, n_batches, item);
    const uint32_t x =
        alignment_of(shape.x_stride, shape.x_batch, n_batches, item);
    const uint32_t y = alignment_of(shape.y_stride, shape.y_batch, n_batches,
                                    bytes_of(shape.out));
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
         sizeof(workspace)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
         sizeof(reduction)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &w, sizeof(w)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &x, sizeof(x)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &y, sizeof(y)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &y, sizeof(y)}};
    cublasStatus_t status = cublasLtMatmulPreferenceInit(preference);

    for (const auto &attribute : attributes) {
        if (status == CUBLAS_STATUS_SUCCESS) {
            status = cublasLtMatmulPreferenceSetAttribute(
                preference, attribute.name, attribute.value, attribute.bytes);
        }
    }
    return status;
}

} // namespace

struct pl_cuda_products {
    cublasLtHandle_t handle;
    cudaStream_t stream; /* of trials */
    std::vector<plan_t> plans;
};

namespace
{

/* ---- a product ---- */

cublasStatus_t multiply(const pl_cuda_products *products, const plan_t &plan,
                        const void *w, const void *x, int32_t n, void *y,
                        bool adds, cudaStream_t stream)
{
    const float one = 1.0F, old = adds ? 1.0F : 0.0F;
    layouts_t layouts;
    cublasStatus_t status = make_layouts(plan.shape, n, &layouts);

    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return cublasLtMatmul(products->handle,
                          (cublasLtMatmulDesc_t)(uintptr_t)&plan.what, &one, w,
                          &layouts.w, x, &layouts.x, &old, y, &layouts.y, y,
                          &layouts.y, &plan.algorithm, nullptr, 0, stream);
}

cublasStatus_t multiply_tiles(const pl_cuda_products *products,
                              const plan_t &plan, const void *w, const void *x,
                              int32_t n, void *y, bool adds,
                              cudaStream_t stream)
{
    const size_t x_bytes  = plan.shape.x_stride * bytes_of(plan.shape.dtype);
    const size_t y_bytes  = plan.shape.y_stride * bytes_of(plan.shape.out);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    for (int32_t i = 0; (i < n) && (status == CUBLAS_STATUS_SUCCESS);
         i += PL_CUDA_PRODUCT_TILE) {
        status = multiply(products, plan, w,
                          (const uint8_t *)x + (size_t)i * x_bytes,
                          PL_CUDA_PRODUCT_TILE,
                          (uint8_t *)y + (size_t)i * y_bytes, adds, stream);
    }
    return status;
}

/* ---- the choice ---- */

cublasStatus_t describe(plan_t *plan)
{
    const cublasOperation_t op =
        plan->shape.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasStatus_t status =
        cublasLtMatmulDescInit(&plan->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    return status == CUBLAS_STATUS_SUCCESS
               ? cublasLtMatmulDescSetAttribute(
                     &plan->what, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof(op))
               : status;
}

/* Algorithms for n rows, the likely best first; how many. */
int candidates_for(const pl_cuda_products *products, plan_t *plan, int32_t n,
                   cublasLtMatmulHeuristicResult_t *results)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    layouts_t layouts;
    int n_found = 0;

    if ((make_layouts(plan->shape, n, &layouts) != CUBLAS_STATUS_SUCCESS) ||
        (set_preference(&preference, plan->shape) != CUBLAS_STATUS_SUCCESS) ||
        (cublasLtMatmulAlgoGetHeuristic(
             products->handle, &plan->what, &layouts.w, &layouts.x, &layouts.y,
             &layouts.y, &preference, CANDIDATES, results,
             &n_found) != CUBLAS_STATUS_SUCCESS)) {
        return 0;
    }
    return n_found;
}

__device__ uint32_t mixed(size_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);

    x ^= x >> 30;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(x >> 32);
}

/* Values of -1 to 1. */
template <typename value_t>
__global__ void fill_random(value_t *values, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        values[i] =
            (value_t)((float)(int32_t)mixed(i) * (1.0F / 2147483648.0F));
    }
}

__global__ void count_unequal(const uint16_t *a, const uint16_t *b, size_t n,
                              int32_t *n_unequal)
{
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        if (a[i] != b[i]) {
            atomicAdd(n_unequal, 1);
        }
    }
}

/* How many rows from which, of how many. */
constexpr int PARTS[][2] = {{1, 0},    {1, 640},  {7, 64},
                            {64, 128}, {200, 64}, {TYPICAL, 128}};
constexpr int WHOLE      = 4096 + 128;

/* Memory of trials: weights and rows drawn at random, results of all rows and
 * of some. */
class trial_t
{
  public:
    trial_t(const pl_cuda_products *of, const pl_cuda_product_t &shape)
        : products(of), w(nullptr), x(nullptr), all(nullptr), some(nullptr),
          n_unequal(nullptr)
    {
        const size_t last = (size_t)(shape.n_batches - 1);

        w_values = (size_t)(shape.transposed ? shape.cols : shape.rows) *
                       shape.w_stride +
                   last * shape.w_batch;
        x_values = shape.x_stride * WHOLE;
        y_bytes  = shape.y_stride * WHOLE * bytes_of(shape.out);
        is_bf16  = shape.dtype == PL_CUDA_BF16;
    }
    ~trial_t()
    {
        for (void *memory : {w, x, all, some, (void *)n_unequal}) {
            (void)cudaFree(memory);
        }
    }
    trial_t(const trial_t &)            = delete;
    trial_t &operator=(const trial_t &) = delete;

    cudaError_t open()
    {
        const size_t item = is_bf16 ? sizeof(__nv_bfloat16) : sizeof(float);
        cudaError_t error = cudaMalloc(&w, w_values * item);

        error = error == cudaSuccess ? cudaMalloc(&x, x_values * item) : error;
        error = error == cudaSuccess ? cudaMalloc(&all, y_bytes) : error;
        error = error == cudaSuccess ? cudaMalloc(&some, y_bytes) : error;
        error = error == cudaSuccess
                    ? cudaMalloc((void **)&n_unequal, sizeof(*n_unequal))
                    : error;
        if (error == cudaSuccess) {
            fill(w, w_values);
            fill(x, x_values);
            error = cudaGetLastError();
        }
        return error;
    }

    /* Are the rows of parts those of the whole?  PL_ERR_DEVICE: it failed. */
    pl_status_t compare(const plan_t &plan, bool *are_p)
    {
        const size_t x_row = plan.shape.x_stride * bytes_of(plan.shape.dtype);
        const size_t y_row = plan.shape.y_stride * bytes_of(plan.shape.out);
        int32_t count      = 0;

        *are_p = false;
        clear(all, y_bytes);
        clear(n_unequal, sizeof(*n_unequal));
        if (multiply(products, plan, w, x, WHOLE, all, false,
                     products->stream) != CUBLAS_STATUS_SUCCESS) {
            return not_this_one();
        }
        for (const auto &part : PARTS) {
            const size_t bytes = (size_t)part[0] * y_row;

            clear(some, bytes);
            if (multiply(products, plan, w,
                         (const uint8_t *)x + (size_t)part[1] * x_row, part[0],
                         some, false,
                         products->stream) != CUBLAS_STATUS_SUCCESS) {
                return not_this_one();
            }
            count_unequal<<<256, THREADS, 0, products->stream>>>(
                (const uint16_t *)((const uint8_t *)all +
                                   (size_t)part[1] * y_row),
                (const uint16_t *)some, bytes / sizeof(uint16_t), n_unequal);
        }
        pl_cuda_count_synchronization();
        if ((cudaMemcpyAsync(&count, n_unequal, sizeof(count),
                             cudaMemcpyDeviceToHost,
                             products->stream) != cudaSuccess) ||
            (cudaStreamSynchronize(products->stream) != cudaSuccess)) {
            return PL_ERR_DEVICE;
        }
        *are_p = count == 0;
        return PL_OK;
    }

  private:
    /* An algorithm that does not take so many rows; its error was looked at. */
    static pl_status_t not_this_one()
    {
        (void)cudaGetLastError();
        return PL_OK;
    }

    void fill(void *values, size_t n)
    {
        if (is_bf16) {
            fill_random<<<1024, THREADS, 0, products->stream>>>(
                (__nv_bfloat16 *)values, n);
        } else {
            fill_random<<<1024, THREADS, 0, products->stream>>>((float *)values,
                                                                n);
        }
    }

    void clear(void *memory, size_t bytes)
    {
        (void)cudaMemsetAsync(memory, 0, bytes, products->stream);
    }

    const pl_cuda_products *products;
    void *w, *x, *all, *some;
    int32_t *n_unequal;
    size_t w_values, x_values, y_bytes;
    bool is_bf16;
};

pl_status_t say_none(const pl_log_t *log, const pl_cuda_product_t &shape)
{
    pl_log(log, PL_LOG_ERROR,
           "cuBLASLt has no algorithm for a product with %d x %d weights in "
           "%s: use another --kv-dtype, or --device cpu",
           (int)shape.rows, (int)shape.cols,
           shape.dtype == PL_CUDA_BF16 ? "bf16" : "float32");
    return PL_ERR_DEVICE;
}

/* The first algorithm whose rows do not know the batch. */
pl_status_t choose(const pl_cuda_products *products, const pl_log_t *log,
                   plan_t *plan)
{
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    trial_t trial(products, plan->shape);
    const int n = plan->shape.in_tiles
                      ? 0
                      : candidates_for(products, plan, TYPICAL, results);
    bool are    = false;

    PL_TRY(pl_cuda_told(log, trial.open(), "memory to try products in"));
    for (int i = 0; (i < n) && !are; i++) {
        plan->algorithm = results[i].algo;
        if (trial.compare(*plan, &are) != PL_OK) {
            return pl_cuda_told(log, cudaGetLastError(), "products on trial");
        }
    }
    if (!are) {
        plan->in_tiles = true;
        if (candidates_for(products, plan, PL_CUDA_PRODUCT_TILE, results) < 1) {
            return say_none(log, plan->shape);
        }
        plan->algorithm = results[0].algo;
    }
    return PL_OK;
}

pl_status_t choose_for_one(const pl_cuda_products *products,
                           const pl_log_t *log, plan_t *plan)
{
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];

    if (candidates_for(products, plan, 1, results) < 1) {
        return say_none(log, plan->shape);
    }
    plan->algorithm = results[0].algo;
    return PL_OK;
}

bool are_equal(const pl_cuda_product_t &a, const pl_cuda_product_t &b)
{
    return (a.dtype == b.dtype) && (a.out == b.out) &&
           (a.transposed == b.transposed) && (a.one_row == b.one_row) &&
           (a.in_tiles == b.in_tiles) && (a.rows == b.rows) &&
           (a.cols == b.cols) && (a.n_batches == b.n_batches) &&
           (a.w_stride == b.w_stride) && (a.x_stride == b.x_stride) &&
           (a.y_stride == b.y_stride) && (a.w_batch == b.w_batch) &&
           (a.x_batch == b.x_batch) && (a.y_batch == b.y_batch);
}

} // namespace

pl_status_t pl_cuda_products_open(const pl_log_t *log,
                                  pl_cuda_products_t **products_p)
{
    pl_cuda_products_t *products = new (std::nothrow) pl_cuda_products_t{};
    pl_status_t status;

    if (products == nullptr) {
        return PL_ERR_MEMORY;
    }
    status = pl_cuda_told(
        log,
        cudaStreamCreateWithFlags(&products->stream, cudaStreamNonBlocking),
        "a stream to try products on");
    if ((status == PL_OK) &&
        (cublasLtCreate(&products->handle) != CUBLAS_STATUS_SUCCESS)) {
        pl_log(log, PL_LOG_ERROR,
               "cuBLASLt cannot be opened: expected the library of the CUDA "
               "tool kit that pagelane was built with, and free memory");
        status = PL_ERR_DEVICE;
    }
    if (status != PL_OK) {
        pl_cuda_products_close(products);
        return status;
    }
    *products_p = products;
    return PL_OK;
}

void pl_cuda_products_close(pl_cuda_products_t *products)
{
    if (products == nullptr) {
        return;
    }
    if (products->handle != nullptr) {
        (void)cublasLtDestroy(products->handle);
    }
    if (products->stream != nullptr) {
        (void)cudaStreamDestroy(products->stream);
    }
    delete products;
}

pl_status_t pl_cuda_products_plan(pl_cuda_products_t *products,
                                  const pl_cuda_product_t *shape,
                                  const pl_log_t *log, int *plan_p)
{
    plan_t plan = {};

    for (size_t i = 0; i < products->plans.size(); i++) {
        if (are_equal(products->plans[i].shape, *shape)) {
            *plan_p = (int)i;
            return PL_OK;
        }
    }
    plan.shape = *shape;
    if (describe(&plan) != CUBLAS_STATUS_SUCCESS) {
        return say_none(log, *shape);
    }
    PL_TRY(shape->one_row ? choose_for_one(products, log, &plan)
                          : choose(products, log, &plan));
    *plan_p = (int)products->plans.size();
    products->plans.push_back(plan);
    return PL_OK;
}

bool pl_cuda_product_is_whole(const pl_cuda_products_t *products, int plan)
{
    return !products->plans[(size_t)plan].in_tiles;
}

pl_status_t pl_cuda_product(const pl_cuda_products_t *products, int plan,
                            const void *w, const void *x, int32_t n, void *y,
                            bool adds, pl_cuda_stream_t stream)
{
    const plan_t &planned = products->plans[(size_t)plan];
    cublasStatus_t status;

    if ((n < 0) || (planned.shape.one_row && (n > 1))) {
        return PL_ERR_ARGUMENT;
    }
    if (n == 0) {
        return PL_OK;
    }
    status = planned.in_tiles
                 ? multiply_tiles(products, planned, w, x, n, y, adds, stream)
                 : multiply(products, planned, w, x, n, y, adds, stream);
    return status == CUBLAS_STATUS_SUCCESS ? PL_OK : PL_ERR_DEVICE;
}
