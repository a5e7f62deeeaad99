/* Products with weights: in the order that attn/kernels.h says, bit for bit;
 * and so each row alone as in its batch. */
#include "test_model_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kernels.h"
#include "model/ops.h"
#include "model/tensor.h"
#include "sample_ops.h"
#include "support/seed.h"

/* sum of n products x[i] * w[i * step]: blocks in order, terms in order. */
static float ordered_dot(const float *x, const float *w, size_t step, int32_t n)
{
    float sum = 0.0F;

    for (int32_t first = 0; first < n; first += PL_DEPTH) {
        float block = 0.0F;

        for (int32_t i = first; i < n && i < first + PL_DEPTH; i++) {
            float part = x[i] * w[(size_t)i * step];

            block += part;
        }
        sum = first == 0 ? block : sum + block;
    }
    return sum;
}

/* The same in double; *size_p: what its terms are in all, without signs. */
static double exact_dot(const float *x, const float *w, size_t step, int32_t n,
                        double *size_p)
{
    double sum = 0.0;

    *size_p = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double part = (double)x[i] * (double)w[(size_t)i * step];

        sum += part;
        *size_p += fabs(part);
    }
    return sum;
}

/* A product of random shape, rows first .. first+n_rows-1 of the weights. */
typedef struct product {
    sample_weights_t w;
    bool transposed;
    int32_t first, n_rows, n;
    int32_t depth, width; /* of a row of x, of y */
    int32_t x_stride, y_stride;
    float *x, *y, *scratch;
} product_t;

static product_t product_open(pl_rng_t *rng, int round)
{
    static const int32_t largest[] = {67, 67, 67, 300};
    int32_t most                   = largest[round % 4];
    product_t made                 = {.transposed = round / 4 % 2 == 1,
                                      .n          = sample_between(rng, 1, 33)};
    int32_t rows                   = sample_between(rng, 1, most);
    int32_t cols                   = sample_between(rng, 1, most);

    made.w = sample_weights_open(rng, (pl_dtype_t)(round / 8 % 4), rows, cols);
    made.first    = sample_between(rng, 0, rows - 1);
    made.n_rows   = sample_between(rng, 1, rows - made.first);
    made.depth    = made.transposed ? made.n_rows : cols;
    made.width    = made.transposed ? cols : made.n_rows;
    made.x_stride = made.depth + sample_between(rng, 0, 5);
    made.y_stride = made.width + sample_between(rng, 0, 5);
    made.x        = sample_floats(rng, (size_t)made.n * (size_t)made.x_stride);
    made.y        = sample_floats(rng, (size_t)made.n * (size_t)made.y_stride);
    made.scratch  = sample_floats(rng, (size_t)cols);
    return made;
}

static void product_close(product_t *product)
{
    sample_weights_close(&product->w);
    free(product->x);
    free(product->y);
    free(product->scratch);
}

/* Rows from .. from+n-1 of x. */
static void product_run(const product_t *product, int32_t from, int32_t n,
                        float *y)
{
    const float *x = product->x + (size_t)from * (size_t)product->x_stride;

    (product->transposed ? pl_linear_transposed : pl_linear)(
        &product->w.tensor, product->first, product->n_rows, x, n,
        product->x_stride, product->scratch, y, product->y_stride);
}

START_TEST(products_are_sums_in_order)
{
    uint64_t seed = pl_test_seed("products_are_sums_in_order");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 160; round++) {
        product_t p = product_open(&rng, round);
        size_t cols = (size_t)p.w.tensor.cols;
        size_t step = p.transposed ? cols : 1;
        float *w    = p.w.values + (size_t)p.first * cols;

        product_run(&p, 0, p.n, p.y);
        for (int32_t i = 0; i < p.n; i++) {
            for (int32_t o = 0; o < p.width; o++) {
                const float *x   = p.x + (size_t)i * (size_t)p.x_stride;
                const float *row = w + (size_t)o * (p.transposed ? 1 : cols);
                double size, want;
                float got = p.y[(size_t)i * (size_t)p.y_stride + (size_t)o];

                ck_assert(got == ordered_dot(x, row, step, p.depth));
                want = exact_dot(x, row, step, p.depth, &size);
                ck_assert(fabs((double)got - want) < 2e-6 * size);
            }
        }
        product_close(&p);
    }
}
END_TEST

/* Each row alone, and in any part of the batch: the same bits, and nothing
 * written beside it. */
START_TEST(products_do_not_know_their_batch)
{
    uint64_t seed = pl_test_seed("products_do_not_know_their_batch");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 160; round++) {
        product_t p   = product_open(&rng, round);
        size_t stride = (size_t)p.y_stride;
        size_t bytes  = (size_t)p.n * stride * sizeof(float);
        float *before = malloc(bytes);
        float *other  = malloc(bytes);

        memcpy(before, p.y, bytes);
        product_run(&p, 0, p.n, p.y);
        for (int32_t from = 0; from < p.n; from++) {
            int32_t n = from % 2 == 0 ? 1 : sample_between(&rng, 1, p.n - from);

            memcpy(other, before, bytes);
            product_run(&p, from, n, other + (size_t)from * stride);
            for (int32_t i = 0; i < p.n; i++) {
                bool in          = i >= from && i < from + n;
                const float *row = (in ? p.y : before) + (size_t)i * stride;

                ck_assert_mem_eq(other + (size_t)i * stride, row,
                                 stride * sizeof(float));
            }
        }
        free(before);
        free(other);
        product_close(&p);
    }
}
END_TEST

START_TEST(parts_of_rows_are_the_values)
{
    uint64_t seed = pl_test_seed("parts_of_rows_are_the_values");
    pl_rng_t rng  = pl_rng_seed(seed);
    float part[401];

    for (int round = 0; round < 200; round++) {
        int32_t rows = sample_between(&rng, 1, 300);
        int32_t cols = sample_between(&rng, 1, 400);
        sample_weights_t w =
            sample_weights_open(&rng, (pl_dtype_t)(round % 4), rows, cols);
        int32_t r     = sample_between(&rng, 0, rows - 1);
        int32_t first = sample_between(&rng, 0, cols - 1);
        int32_t n     = sample_between(&rng, 0, cols - first);

        part[n] = 7.0F;
        pl_tensor_part(&w.tensor, r, first, n, part);
        ck_assert_mem_eq(part, w.values + (size_t)(r * cols + first),
                         (size_t)n * sizeof(float));
        ck_assert(part[n] == 7.0F);
        pl_tensor_row(&w.tensor, r, part);
        ck_assert_mem_eq(part, w.values + (size_t)(r * cols),
                         (size_t)cols * sizeof(float));
        sample_weights_close(&w);
    }
}
END_TEST

typedef struct mlp {
    sample_weights_t gate, up, down;
    pl_mlp_weights_t weights;
    int32_t n, hidden, width;
    float *x, *before;
} mlp_t;

static mlp_t mlp_open(pl_rng_t *rng, int round)
{
    pl_dtype_t dtype = (pl_dtype_t)(round % 4);
    mlp_t made       = {.n      = sample_between(rng, 1, 20),
                        .hidden = sample_between(rng, 1, 150),
                        .width  = sample_between(rng, 1, 150)};
    size_t values    = (size_t)made.n * (size_t)made.hidden;

    made.gate = sample_weights_open(rng, dtype, made.width, made.hidden);
    made.up   = sample_weights_open(rng, dtype, made.width, made.hidden);
    made.down = sample_weights_open(rng, dtype, made.hidden, made.width);
    made.weights =
        (pl_mlp_weights_t){made.gate.tensor, made.up.tensor, made.down.tensor};
    made.x      = sample_floats(rng, values);
    made.before = sample_floats(rng, values);
    return made;
}

static void mlp_close(mlp_t *mlp)
{
    sample_weights_close(&mlp->gate);
    sample_weights_close(&mlp->up);
    sample_weights_close(&mlp->down);
    free(mlp->x);
    free(mlp->before);
}

/* y = before + scale * MLP(x), rows first .. first+n-1; the caller frees. */
static float *mlp_run(const mlp_t *mlp, int32_t first, int32_t n, float scale)
{
    size_t from              = (size_t)first * (size_t)mlp->hidden;
    size_t bytes             = (size_t)n * (size_t)mlp->hidden * sizeof(float);
    size_t width             = (size_t)n * (size_t)mlp->width * sizeof(float);
    float *y                 = malloc(bytes);
    pl_mlp_scratch_t scratch = {.row  = malloc(sizeof(float) * 150),
                                .gate = malloc(width),
                                .up   = malloc(width)};

    memcpy(y, mlp->before + from, bytes);
    pl_mlp(&mlp->weights, mlp->x + from, n, mlp->hidden, scale, &scratch, y);
    free(scratch.row);
    free(scratch.gate);
    free(scratch.up);
    return y;
}

/* silu(gate x) * up x of row i in double; sizes: without signs. */
static void mlp_inner(const mlp_t *mlp, int32_t i, double *inner, double *sizes)
{
    const float *x = mlp->x + (size_t)i * (size_t)mlp->hidden;
    double gate_size, up_size;

    for (int32_t j = 0; j < mlp->width; j++) {
        size_t row = (size_t)j * (size_t)mlp->hidden;
        double gate =
            exact_dot(x, mlp->gate.values + row, 1, mlp->hidden, &gate_size);
        double up =
            exact_dot(x, mlp->up.values + row, 1, mlp->hidden, &up_size);

        inner[j] = gate / (1.0 + exp(-gate)) * up;
        sizes[j] = gate_size * up_size;
    }
}

START_TEST(mlp_is_the_formula_and_adds)
{
    uint64_t seed = pl_test_seed("mlp_is_the_formula_and_adds");
    pl_rng_t rng  = pl_rng_seed(seed);
    double inner[150], sizes[150];

    for (int round = 0; round < 30; round++) {
        mlp_t mlp = mlp_open(&rng, round);
        float *y  = mlp_run(&mlp, 0, mlp.n, 0.75F);

        for (int32_t i = 0; i < mlp.n; i++) {
            mlp_inner(&mlp, i, inner, sizes);
            for (int32_t c = 0; c < mlp.hidden; c++) {
                size_t at   = (size_t)(i * mlp.hidden + c);
                double want = 0.0, size = 1.0;

                for (int32_t j = 0; j < mlp.width; j++) {
                    double down = (double)mlp.down.values[c * mlp.width + j];

                    want += inner[j] * down;
                    size += sizes[j] * fabs(down);
                }
                want = (double)mlp.before[at] + 0.75 * want;
                ck_assert(fabs((double)y[at] - want) < 2e-6 * size);
            }
        }
        free(y);
        mlp_close(&mlp);
    }
}
END_TEST

START_TEST(mlp_does_not_know_its_batch)
{
    uint64_t seed = pl_test_seed("mlp_does_not_know_its_batch");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 30; round++) {
        mlp_t mlp = mlp_open(&rng, round);
        float *y  = mlp_run(&mlp, 0, mlp.n, 0.3F);

        for (int32_t i = 0; i < mlp.n; i++) {
            float *alone = mlp_run(&mlp, i, 1, 0.3F);

            ck_assert_mem_eq(alone, y + (size_t)(i * mlp.hidden),
                             (size_t)mlp.hidden * sizeof(float));
            free(alone);
        }
        free(y);
        mlp_close(&mlp);
    }
}
END_TEST

/* Zero shared experts: nothing is added. */
START_TEST(mlp_of_no_width_adds_nothing)
{
    pl_mlp_weights_t none    = {.gate = {.rows = 0}};
    pl_mlp_scratch_t scratch = {0};
    float x[3]               = {1, 2, 3};
    float y[3]               = {4, 5, 6};

    pl_mlp(&none, x, 1, 3, 1.0F, &scratch, y);
    ck_assert(y[0] == 4.0F && y[1] == 5.0F && y[2] == 6.0F);
}
END_TEST

TCase *linear_case(void)
{
    TCase *tcase = tcase_create("linear");

    tcase_add_test(tcase, products_are_sums_in_order);
    tcase_add_test(tcase, products_do_not_know_their_batch);
    tcase_add_test(tcase, parts_of_rows_are_the_values);
    tcase_add_test(tcase, mlp_is_the_formula_and_adds);
    tcase_add_test(tcase, mlp_does_not_know_its_batch);
    tcase_add_test(tcase, mlp_of_no_width_adds_nothing);
    return tcase;
}
