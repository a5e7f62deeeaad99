/* Dense products beside sums in double, row by row in any batch; and random
 * weights beside those of the host. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "model/tensor.h"
#include "support/seed.h"

static size_t item_bytes(pl_cuda_dtype_t dtype)
{
    return dtype == PL_CUDA_BF16 ? 2 : 4;
}

static size_t in_whole(size_t n, size_t by)
{
    return (n + by - 1) / by * by;
}

/* Values of [-1, 1) as `dtype`. */
static void *host_values(pl_rng_t *rng, size_t n, pl_cuda_dtype_t dtype)
{
    float *values    = host_floats(rng, n);
    uint16_t *halves = (uint16_t *)values; /* shorter: from the front */

    for (size_t i = 0; (dtype == PL_CUDA_BF16) && (i < n); i++) {
        float value;

        memcpy(&value, values + i, sizeof(value));
        halves[i] = pl_bf16_from_f32(value);
    }
    return values;
}

static double value_at(const void *values, size_t i, pl_cuda_dtype_t dtype)
{
    uint16_t half;
    float value;

    if (dtype == PL_CUDA_BF16) {
        memcpy(&half, (const uint8_t *)values + i * 2, 2);
        return (double)pl_bf16_to_f32(half);
    }
    memcpy(&value, (const uint8_t *)values + i * 4, 4);
    return (double)value;
}

typedef struct sample {
    pl_cuda_product_t shape;
    int32_t n; /* rows of x */
    void *w, *x;
    void *w_gpu, *x_gpu, *y_gpu;
    uint8_t *y;
    size_t y_row; /* bytes */
} sample_t;

static sample_t make_sample(pl_rng_t *rng, const pl_cuda_product_t *shape,
                            int32_t n)
{
    const size_t rows = in_whole((size_t)n, PL_CUDA_PRODUCT_TILE) * 2;
    sample_t sample   = {.shape = *shape, .n = n};
    size_t w = (size_t)(shape->transposed ? shape->cols : shape->rows) *
                   shape->w_stride +
               (size_t)(shape->n_batches - 1) * shape->w_batch;
    size_t x = rows * shape->x_stride;

    sample.w     = host_values(rng, w, shape->dtype);
    sample.x     = host_values(rng, x, shape->dtype);
    sample.y_row = shape->y_stride * item_bytes(shape->out);
    sample.w_gpu = gpu_upload(sample.w, w * item_bytes(shape->dtype));
    sample.x_gpu = gpu_upload(sample.x, x * item_bytes(shape->dtype));
    sample.y_gpu = gpu_upload(NULL, rows * sample.y_row);
    sample.y     = host_bytes((size_t)n * sample.y_row);
    return sample;
}

static void multiply(const pl_cuda_products_t *products, int plan,
                     const sample_t *sample, int32_t first, int32_t n,
                     bool adds, uint8_t *y)
{
    const uint8_t *x = (const uint8_t *)sample->x_gpu +
                       (size_t)first * sample->shape.x_stride *
                           item_bytes(sample->shape.dtype);

    ck_assert_int_eq(pl_cuda_product(products, plan, sample->w_gpu, x, n,
                                     sample->y_gpu, adds, NULL),
                     PL_OK);
    gpu_download(y, sample->y_gpu, (size_t)n * sample->y_row);
}

/* Some results of row i against sums in double, `times` as much. */
static void check_values(pl_rng_t *rng, const sample_t *sample, int32_t i,
                         const uint8_t *row, double times)
{
    const pl_cuda_product_t *shape = &sample->shape;
    const double close             = shape->out == PL_CUDA_BF16 ? 6e-3 : 1e-5;

    for (int k = 0; k < 20; k++) {
        const size_t batch = (size_t)between(rng, 0, shape->n_batches - 1);
        const size_t o     = (size_t)between(rng, 0, shape->rows - 1);
        double sum = 0, size = 0;

        for (size_t c = 0; c < (size_t)shape->cols; c++) {
            size_t at = shape->transposed ? c * shape->w_stride + o
                                          : o * shape->w_stride + c;
            double part =
                value_at(sample->w, batch * shape->w_batch + at, shape->dtype) *
                value_at(sample->x,
                         (size_t)i * shape->x_stride + batch * shape->x_batch +
                             c,
                         shape->dtype);

            sum += part;
            size += fabs(part);
        }
        ck_assert_double_lt(
            fabs(value_at(row, batch * shape->y_batch + o, shape->out) -
                 times * sum),
            times * close * size + 1e-6);
    }
}

static bool is_value(const pl_cuda_product_t *shape, size_t at)
{
    const size_t batch = shape->n_batches > 1 ? at / shape->y_batch : 0;

    return (batch < (size_t)shape->n_batches) &&
           (at - batch * shape->y_batch < (size_t)shape->rows);
}

/* What lies between results is nobody's. */
static void check_same(const pl_cuda_product_t *shape, const uint8_t *a,
                       const uint8_t *b, int32_t n)
{
    const size_t item = item_bytes(shape->out);

    for (size_t i = 0; i < (size_t)n * shape->y_stride; i++) {
        ck_assert_msg(!is_value(shape, i % shape->y_stride) ||
                          (memcmp(a + i * item, b + i * item, item) == 0),
                      "%d x %d %s: row %zu of %d differs", (int)shape->rows,
                      (int)shape->cols,
                      shape->dtype == PL_CUDA_BF16 ? "bf16" : "float32",
                      i / shape->y_stride, (int)n);
    }
}

static void check_shape(pl_rng_t *rng, const pl_cuda_product_t *shape,
                        int32_t n)
{
    sample_t sample              = make_sample(rng, shape, n);
    uint8_t *part                = host_bytes((size_t)n * sample.y_row);
    pl_cuda_products_t *products = NULL;
    int plan = -1, again = -1;

    ck_assert_int_eq(pl_cuda_products_open(NULL, &products), PL_OK);
    ck_assert_int_eq(pl_cuda_products_plan(products, shape, NULL, &plan),
                     PL_OK);
    ck_assert_int_eq(pl_cuda_products_plan(products, shape, NULL, &again),
                     PL_OK);
    ck_assert_int_eq(plan, again);
    printf("%d x %d x %d %s: %s\n", (int)shape->n_batches, (int)shape->rows,
           (int)shape->cols, shape->dtype == PL_CUDA_BF16 ? "bf16" : "float32",
           pl_cuda_product_is_whole(products, plan) ? "one algorithm"
                                                    : "tiles");
    multiply(products, plan, &sample, 0, n, false, sample.y);
    for (int k = 0; k < 3; k++) {
        int32_t i = between(rng, 0, n - 1);

        check_values(rng, &sample, i, sample.y + (size_t)i * sample.y_row, 1);
    }
    for (int k = 0; k < 12; k++) {
        int32_t first = between(rng, 0, n - 1);
        int32_t few   = between(rng, 1, k % 3 == 0 ? 1 : n - first);

        multiply(products, plan, &sample, first, few, false, part);
        check_same(shape, part, sample.y + (size_t)first * sample.y_row, few);
    }
    if (shape->out == PL_CUDA_F32) { /* y has the rows from `first` */
        multiply(products, plan, &sample, 0, 1, false, part);
        multiply(products, plan, &sample, 0, 1, true, part);
        check_values(rng, &sample, 0, part, 2);
    }
    pl_cuda_products_close(products);
    gpu_close();
}

static pl_cuda_product_t plain_shape(pl_cuda_dtype_t dtype, int32_t rows,
                                     int32_t cols)
{
    const size_t padded = in_whole((size_t)cols, 16 / item_bytes(dtype));

    return (pl_cuda_product_t){.dtype     = dtype,
                               .out       = PL_CUDA_F32,
                               .rows      = rows,
                               .cols      = cols,
                               .n_batches = 1,
                               .w_stride  = padded,
                               .x_stride  = padded,
                               .y_stride  = (size_t)rows};
}

START_TEST(rows_do_not_know_the_batch)
{
    static const int32_t sizes[][2] = {
        {1, 1},      {7, 3},       {576, 6144},  {2784, 6144}, {4096, 2048},
        {128, 6144}, {6144, 2048}, {256, 6144},  {131, 77},    {90, 70},
        {48, 64},    {33, 200},    {640, 16384}, {1536, 7168}};
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            pl_cuda_product_t shape =
                plain_shape((pl_cuda_dtype_t)d, sizes[i][0], sizes[i][1]);

            check_shape(&rng, &shape, between(&rng, 300, 700));
        }
        for (int i = 0; i < 10; i++) {
            pl_cuda_product_t shape =
                plain_shape((pl_cuda_dtype_t)d, between(&rng, 1, 150),
                            between(&rng, 1, 150));

            check_shape(&rng, &shape, between(&rng, 1, 300));
            shape.in_tiles = true;
            check_shape(&rng, &shape, between(&rng, 1, 300));
        }
    }
}
END_TEST

/* As queries are absorbed, and values made of latents. */
static void check_heads(pl_rng_t *rng, pl_cuda_dtype_t dtype, int32_t heads,
                        int32_t nope, int32_t v_dim, int32_t latent)
{
    const size_t whole      = 16 / item_bytes(dtype);
    const size_t w          = in_whole((size_t)latent, whole);
    const size_t x          = in_whole((size_t)nope, whole);
    pl_cuda_product_t shape = {.dtype      = dtype,
                               .out        = PL_CUDA_F32,
                               .transposed = true,
                               .rows       = latent,
                               .cols       = nope,
                               .n_batches  = heads,
                               .w_stride   = w,
                               .x_stride   = (size_t)heads * x,
                               .y_stride   = (size_t)(heads * latent),
                               .w_batch    = (size_t)(nope + v_dim) * w,
                               .x_batch    = x,
                               .y_batch    = (size_t)latent};

    check_shape(rng, &shape, between(rng, 1, 300));
    shape.in_tiles   = between(rng, 0, 1) == 1;
    shape.out        = dtype;
    shape.transposed = false;
    shape.rows       = v_dim;
    shape.cols       = latent;
    shape.x_stride   = (size_t)heads * w;
    shape.x_batch    = w;
    shape.y_stride   = in_whole((size_t)(heads * v_dim), whole);
    shape.y_batch    = (size_t)v_dim;
    check_shape(rng, &shape, between(rng, 1, 300));
}

START_TEST(nor_do_rows_of_heads)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int d = 0; d < 2; d++) {
        check_heads(&rng, (pl_cuda_dtype_t)d, 16, 192, 256, 512);
        check_heads(&rng, (pl_cuda_dtype_t)d, 16, 128, 128, 512);
        for (int i = 0; i < 8; i++) {
            check_heads(&rng, (pl_cuda_dtype_t)d, between(&rng, 1, 5),
                        between(&rng, 1, 30), between(&rng, 1, 30),
                        between(&rng, 1, 140));
        }
    }
}
END_TEST

START_TEST(drawn_values_have_the_bits_of_the_host)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const int32_t rows = between(&rng, 1, 40), cols = between(&rng, 1, 900);
        const size_t stride  = (size_t)(cols + between(&rng, 0, 9));
        const size_t n       = (size_t)rows * stride;
        pl_drawing_t drawing = {pl_rng_next(&rng), (float)(round % 2),
                                (float)(1.3 / sqrt((double)cols))};
        float *got           = host_bytes(n * sizeof(*got));
        uint16_t *half       = host_bytes(n * sizeof(*half));
        float *on_gpu        = gpu_upload(NULL, n * sizeof(*got));
        void *as_half        = gpu_upload(NULL, n * sizeof(*half));

        ck_assert_int_eq(pl_cuda_draw(&drawing, rows, cols, on_gpu, stride,
                                      PL_CUDA_F32, NULL),
                         PL_OK);
        ck_assert_int_eq(pl_cuda_draw(&drawing, rows, cols, as_half, stride,
                                      PL_CUDA_BF16, NULL),
                         PL_OK);
        gpu_download(got, on_gpu, n * sizeof(*got));
        gpu_download(half, as_half, n * sizeof(*half));
        for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) {
            size_t at  = i / (size_t)cols * stride + i % (size_t)cols;
            float want = pl_drawn_value(&drawing, i);

            ck_assert_mem_eq(got + at, &want, sizeof(want));
            ck_assert_uint_eq(half[at], pl_bf16_from_f32(want));
        }
        gpu_close();
    }
}
END_TEST

TCase *case_products(void)
{
    TCase *tc = tcase_create("products");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, rows_do_not_know_the_batch);
    tcase_add_test(tc, nor_do_rows_of_heads);
    tcase_add_test(tc, drawn_values_have_the_bits_of_the_host);
    return tc;
}
