/* Products over experts beside a plain loop in double. */
#include <math.h>
#include <string.h>

#include "attn/convert.h"
#include "gpu.h"
#include "model/ops.h"
#include "support/seed.h"

/* How tokens choose: any experts, all the same few, or one of two crowds. */
typedef enum choice { ANY, SAME, TWO_CROWDS, N_CHOICES } choice_t;

typedef struct layer {
    int32_t n, per_token, n_experts, rows, cols;
    pl_cuda_dtype_t in, out;
    pl_cuda_row_of_t x_row_of, out_row_of;
    bool is_gated;
    int32_t x_pad, out_pad; /* elements between rows */
    choice_t choice;
} layer_t;

/* What a layer is made of, here (float32 that bf16 holds, where it is bf16) and
 * on the GPU. */
typedef struct made {
    layer_t of;
    int32_t n_pairs;
    int32_t *experts, *order, *starts;
    float *x, *gate, *up;
    pl_cuda_groups_t groups;
    pl_cuda_experts_t weights;
    pl_cuda_rows_t x_rows, out_rows;
    size_t out_bytes;
} made_t;

static size_t bytes_of(pl_cuda_dtype_t dtype)
{
    return dtype == PL_CUDA_BF16 ? 2 : 4;
}

/* Values in [-1, 1) that dtype holds. */
static float *values_of(pl_rng_t *rng, size_t n, pl_cuda_dtype_t dtype)
{
    float *values = host_floats(rng, n);

    for (size_t i = 0; (dtype == PL_CUDA_BF16) && (i < n); i++) {
        values[i] = pl_convert_from_bf16(pl_convert_to_bf16(values[i]));
    }
    return values;
}

/* n_rows rows of width values, stride elements apart, as dtype; what lies
 * between rows is NaN. */
static void *upload_rows(const float *values, size_t n_rows, size_t width,
                         size_t stride, pl_cuda_dtype_t dtype)
{
    const size_t bytes = n_rows * stride * bytes_of(dtype);
    uint8_t *rows      = host_bytes(bytes);

    memset(rows, 0xFF, bytes);
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t c = 0; c < width; c++) {
            const float value = values[r * width + c];

            if (dtype == PL_CUDA_BF16) {
                ((uint16_t *)(void *)rows)[r * stride + c] =
                    pl_convert_to_bf16(value);
            } else {
                ((float *)(void *)rows)[r * stride + c] = value;
            }
        }
    }
    return gpu_upload(rows, bytes);
}

/* A matrix an expert, each at a multiple of 16 bytes; pointers on the GPU. */
static const void *const *upload_experts(const float *values,
                                         const layer_t *layer)
{
    const size_t n      = (size_t)layer->rows * (size_t)layer->cols;
    const size_t stride = (n + 7) / 8 * 8;
    const size_t many   = (size_t)layer->n_experts;
    uint8_t *matrices   = upload_rows(values, many, n, stride, layer->in);
    const void **at     = host_bytes(many * sizeof(*at));

    for (size_t e = 0; e < many; e++) {
        at[e] = matrices + e * stride * bytes_of(layer->in);
    }
    return gpu_upload(at, many * sizeof(*at));
}

static void choose_experts(pl_rng_t *rng, made_t *made)
{
    const layer_t *of = &made->of;

    for (int32_t t = 0; t < of->n; t++) {
        int32_t *mine = made->experts + (ptrdiff_t)t * of->per_token;
        int32_t first = 0, left = of->n_experts;

        if (of->choice == TWO_CROWDS && between(rng, 0, 1) == 1) {
            first = of->n_experts - of->per_token;
        }
        for (int32_t j = 0; j < of->per_token; j++) {
            if (of->choice == ANY) {
                /* ascending, each set as likely as any other */
                while (between(rng, 1, left) > of->per_token - j) {
                    left--;
                }
                mine[j] = of->n_experts - left--;
            } else {
                mine[j] = first + j;
            }
        }
    }
}

/* How many rows there are that row_of can name. */
static size_t rows_by(const made_t *made, pl_cuda_row_of_t row_of)
{
    return (size_t)(row_of == PL_CUDA_ROW_OF_TOKEN ? made->of.n
                                                   : made->n_pairs);
}

static void place_rows(made_t *made)
{
    const layer_t *of = &made->of;
    size_t stride     = (size_t)(of->cols + of->x_pad);

    made->x_rows =
        (pl_cuda_rows_t){upload_rows(made->x, rows_by(made, of->x_row_of),
                                     (size_t)of->cols, stride, of->in),
                         of->in, of->x_row_of, stride};
    stride          = (size_t)(of->rows + of->out_pad);
    made->out_bytes = (size_t)made->n_pairs * stride * bytes_of(of->out);
    made->out_rows  = (pl_cuda_rows_t){gpu_upload(NULL, made->out_bytes),
                                       of->out, of->out_row_of, stride};
}

static made_t make(pl_rng_t *rng, const layer_t *layer)
{
    made_t made = {.of = *layer, .n_pairs = layer->n * layer->per_token};
    size_t weights =
        (size_t)layer->n_experts * (size_t)layer->rows * (size_t)layer->cols;

    made.experts = host_bytes((size_t)made.n_pairs * 4);
    made.order   = host_bytes((size_t)made.n_pairs * 4);
    made.starts  = host_bytes((size_t)(layer->n_experts + 1) * 4);
    choose_experts(rng, &made);
    pl_expert_sort(made.experts, made.n_pairs, layer->n_experts, made.order,
                   made.starts);
    made.x = values_of(
        rng, rows_by(&made, layer->x_row_of) * (size_t)layer->cols, layer->in);
    made.gate = values_of(rng, weights, layer->in);
    made.up   = layer->is_gated ? values_of(rng, weights, layer->in) : NULL;
    made.groups =
        (pl_cuda_groups_t){GPU_UPLOAD(made.order, made.n_pairs),
                           GPU_UPLOAD(made.starts, layer->n_experts + 1),
                           made.n_pairs, layer->n_experts, layer->per_token};
    made.weights = (pl_cuda_experts_t){
        upload_experts(made.gate, layer),
        layer->is_gated ? upload_experts(made.up, layer) : NULL, layer->in,
        layer->rows, layer->cols};
    place_rows(&made);
    return made;
}

static int32_t row_of(const made_t *made, pl_cuda_row_of_t by, int32_t place)
{
    switch (by) {
    case PL_CUDA_ROW_OF_PAIR:
        return made->order[place];
    case PL_CUDA_ROW_OF_TOKEN:
        return made->order[place] / made->of.per_token;
    case PL_CUDA_ROW_OF_PLACE:
    default:
        return place;
    }
}

static double product_of(const made_t *made, const float *weights,
                         int32_t place, int32_t expert, int32_t row)
{
    const size_t cols = (size_t)made->of.cols;
    const float *x =
        made->x + (size_t)row_of(made, made->of.x_row_of, place) * cols;
    const float *w =
        weights + ((size_t)expert * (size_t)made->of.rows + (size_t)row) * cols;
    double sum = 0.0;

    for (size_t c = 0; c < cols; c++) {
        sum += (double)x[c] * (double)w[c];
    }
    return sum;
}

/* The rows of out, [n_pairs][rows]. */
static float *reference(const made_t *made)
{
    const layer_t *of = &made->of;
    float *out = host_bytes((size_t)made->n_pairs * (size_t)of->rows * 4);

    for (int32_t e = 0; e < of->n_experts; e++) {
        for (int32_t i = made->starts[e]; i < made->starts[e + 1]; i++) {
            float *to = out + (size_t)row_of(made, of->out_row_of, i) *
                                  (size_t)of->rows;

            for (int32_t r = 0; r < of->rows; r++) {
                double value = product_of(made, made->gate, i, e, r);

                if (of->is_gated) {
                    value = value / (1.0 + exp(-value)) *
                            product_of(made, made->up, i, e, r);
                }
                to[r] = (float)value;
            }
        }
    }
    return out;
}

/* The bytes of out as the GPU made them. */
static uint8_t *run(const made_t *made)
{
    uint8_t *bytes = host_bytes(made->out_bytes);

    ck_assert_int_eq(pl_cuda_grouped_product(&made->groups, &made->weights,
                                             &made->x_rows, &made->out_rows,
                                             NULL),
                     PL_OK);
    gpu_download(bytes, made->out_rows.at, made->out_bytes);
    return bytes;
}

static void check_rows(const made_t *made, const uint8_t *bytes,
                       const float *want)
{
    const size_t rows = (size_t)made->of.rows, stride = made->out_rows.stride;
    const size_t size          = bytes_of(made->of.out);
    const size_t all           = (size_t)made->n_pairs * rows;
    const uint8_t untouched[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    float *got                 = host_bytes(all * sizeof(*got));

    for (size_t i = 0; i < (size_t)made->n_pairs; i++) {
        for (size_t r = 0; r < stride; r++) {
            const uint8_t *at = bytes + (i * stride + r) * size;

            if (r >= rows) {
                ck_assert_mem_eq(at, untouched, size);
            } else if (made->of.out == PL_CUDA_BF16) {
                uint16_t half;

                memcpy(&half, at, sizeof(half));
                got[i * rows + r] = pl_convert_from_bf16(half);
            } else {
                memcpy(got + i * rows + r, at, sizeof(*got));
            }
        }
    }
    ck_assert_double_lt(relative_error(got, want, all),
                        made->of.out == PL_CUDA_BF16  ? 3e-3
                        : made->of.in == PL_CUDA_BF16 ? 1e-4
                                                      : 1e-5);
}

static void check(pl_rng_t *rng, const layer_t *layer)
{
    const made_t made = make(rng, layer);

    check_rows(&made, run(&made), reference(&made));
    gpu_close();
}

/* Sizes that the plain loop can do in a moment. */
static layer_t any_layer(pl_rng_t *rng, pl_cuda_dtype_t in, bool is_aligned)
{
    const int32_t by = is_aligned ? 8 : 1;
    layer_t layer    = {.in = in};

    layer.n_experts = between(rng, 1, 24);
    layer.per_token =
        between(rng, 1, layer.n_experts < 6 ? layer.n_experts : 6);
    layer.n    = between(rng, 1, 150);
    layer.rows = between(rng, 1, 400);
    layer.cols = by * between(rng, 1, 200 / by);
    layer.out = (in == PL_CUDA_BF16) && (between(rng, 0, 1) == 1) ? PL_CUDA_BF16
                                                                  : PL_CUDA_F32;
    layer.x_row_of   = (pl_cuda_row_of_t)between(rng, 0, 2);
    layer.out_row_of = (pl_cuda_row_of_t)between(rng, 0, 1);
    layer.is_gated   = between(rng, 0, 1) == 1;
    layer.x_pad      = by * between(rng, 0, 3);
    layer.out_pad    = between(rng, 0, 3);
    layer.choice     = (choice_t)between(rng, 0, N_CHOICES - 1);
    return layer;
}

START_TEST(float32_is_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 30; round++) {
        layer_t layer = any_layer(&rng, PL_CUDA_F32, false);

        check(&rng, &layer);
    }
}
END_TEST

START_TEST(bf16_on_tensor_cores_is_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 60; round++) {
        layer_t layer = any_layer(&rng, PL_CUDA_BF16, true);

        check(&rng, &layer);
    }
}
END_TEST

START_TEST(bf16_of_odd_columns_is_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        layer_t layer = any_layer(&rng, PL_CUDA_BF16, false);

        check(&rng, &layer);
    }
}
END_TEST

/* Whole tiles, many steps, more tiles than the chip has multiprocessors, more
 * rows of tiles than are made side by side. */
START_TEST(large_layers_are_close)
{
    pl_rng_t rng          = pl_rng_seed(pl_test_seed(__func__));
    const layer_t large[] = {
        {.n = 200, .per_token = 2, .n_experts = 3, .rows = 320, .cols = 512},
        {.n = 2500, .per_token = 1, .n_experts = 2, .rows = 300, .cols = 64},
        {.n = 90, .per_token = 8, .n_experts = 64, .rows = 1024, .cols = 128},
        {.n = 1, .per_token = 8, .n_experts = 9, .rows = 1030, .cols = 2048},
    };

    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        for (int form = 0; form < 8; form++) {
            layer_t layer = large[i];

            layer.in         = form % 4 == 0 ? PL_CUDA_F32 : PL_CUDA_BF16;
            layer.out        = form % 4 < 2 ? PL_CUDA_F32 : PL_CUDA_BF16;
            layer.is_gated   = form >= 4;
            layer.x_row_of   = PL_CUDA_ROW_OF_TOKEN;
            layer.out_row_of = (pl_cuda_row_of_t)(form % 2);
            layer.choice     = form == 3 ? SAME : ANY;
            check(&rng, &layer);
        }
    }
}
END_TEST

START_TEST(most_experts_are_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 12; round++) {
        layer_t layer = {.n         = between(&rng, 1, 600),
                         .per_token = 8,
                         .n_experts = round == 0 ? PL_CUDA_MOST_EXPERTS
                                                 : between(&rng, 200, 1024),
                         .rows      = between(&rng, 1, 20),
                         .cols      = 8 * between(&rng, 1, 3),
                         .in = round % 2 == 0 ? PL_CUDA_BF16 : PL_CUDA_F32,
                         .x_row_of = PL_CUDA_ROW_OF_TOKEN,
                         .choice   = (choice_t)(round % N_CHOICES)};

        check(&rng, &layer);
    }
}
END_TEST

/* One expert that has all: no order, no starts. */
START_TEST(dense_products_are_close)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 12; round++) {
        layer_t layer = any_layer(
            &rng, round % 2 == 0 ? PL_CUDA_BF16 : PL_CUDA_F32, round % 4 == 0);
        made_t made;

        layer.n_experts = layer.per_token = 1;
        layer.x_row_of = layer.out_row_of = PL_CUDA_ROW_OF_PLACE;
        made                              = make(&rng, &layer);
        made.groups.order                 = NULL;
        made.groups.starts                = NULL;
        check_rows(&made, run(&made), reference(&made));
        gpu_close();
    }
}
END_TEST

/* The pairs of token t alone: one row of x, the same weights. */
static made_t alone(const made_t *all, int32_t t)
{
    made_t one          = *all;
    const size_t cols   = (size_t)all->of.cols;
    const int32_t *mine = all->experts + (ptrdiff_t)t * all->of.per_token;

    one.of.n    = 1;
    one.n_pairs = all->of.per_token;
    one.order   = host_bytes((size_t)one.n_pairs * 4);
    one.starts  = host_bytes((size_t)(all->of.n_experts + 1) * 4);
    pl_expert_sort(mine, one.n_pairs, all->of.n_experts, one.order, one.starts);
    one.x              = all->x + (size_t)t * cols;
    one.groups.order   = GPU_UPLOAD(one.order, one.n_pairs);
    one.groups.starts  = GPU_UPLOAD(one.starts, all->of.n_experts + 1);
    one.groups.n_pairs = one.n_pairs;
    place_rows(&one);
    return one;
}

/* Rows of a token: the same bits alone as among others. */
static void check_alone(pl_rng_t *rng, layer_t layer)
{
    made_t all;
    uint8_t *together;

    layer.x_row_of   = PL_CUDA_ROW_OF_TOKEN;
    layer.out_row_of = PL_CUDA_ROW_OF_PAIR;
    all              = make(rng, &layer);
    together         = run(&all);
    for (int i = 0; i < 8; i++) {
        const int32_t t  = between(rng, 0, layer.n - 1);
        const made_t one = alone(&all, t);

        ck_assert_mem_eq(run(&one), together + (size_t)t * one.out_bytes,
                         one.out_bytes);
    }
    gpu_close();
}

START_TEST(a_row_knows_nothing_of_the_batch)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        layer_t layer = any_layer(
            &rng, round % 4 == 0 ? PL_CUDA_F32 : PL_CUDA_BF16, round % 4 < 3);

        layer.n    = between(&rng, 1, 700);
        layer.cols = round % 4 < 3 ? 8 * between(&rng, 1, 150) : layer.cols;
        check_alone(&rng, layer);
    }
}
END_TEST

START_TEST(combined_experts_have_the_same_bits)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const int32_t n = between(&rng, 1, 60), k = between(&rng, 1, 10);
        const int32_t width = between(&rng, 1, 900);
        const bool adds     = round % 2 == 1;
        const size_t all    = (size_t)n * (size_t)width;
        float *out          = host_floats(&rng, all * (size_t)k);
        float *weights      = host_floats(&rng, (size_t)(n * k));
        float *y            = host_floats(&rng, all);
        float *got          = host_bytes(all * sizeof(*got));
        float *y_gpu        = GPU_UPLOAD(y, all);

        ck_assert_int_eq(
            pl_cuda_combine_experts(GPU_UPLOAD(out, all * (size_t)k),
                                    GPU_UPLOAD(weights, n * k), n, k, width,
                                    adds, y_gpu, NULL),
            PL_OK);
        gpu_download(got, y_gpu, all * sizeof(*got));
        for (size_t i = 0; i < all; i++) {
            const size_t t = i / (size_t)width, c = i % (size_t)width;
            volatile float sum = 0.0F; /* rounded at each step */

            for (size_t j = 0; j < (size_t)k; j++) {
                const size_t pair = t * (size_t)k + j;
                const volatile float part =
                    weights[pair] * out[pair * (size_t)width + c];

                sum = sum + part;
            }
            y[i] = adds ? y[i] + sum : sum;
        }
        ck_assert_mem_eq(got, y, all * sizeof(*got));
        gpu_close();
    }
}
END_TEST

static pl_status_t ask(const made_t *made)
{
    return pl_cuda_grouped_product(&made->groups, &made->weights, &made->x_rows,
                                   &made->out_rows, NULL);
}

/* ask() of `made` with one member changed. */
#define CHECK_REFUSED(made, member, value)                                     \
    do {                                                                       \
        made_t wrong_ = (made);                                                \
                                                                               \
        wrong_.member = (value);                                               \
        ck_assert_int_eq(ask(&wrong_), PL_ERR_ARGUMENT);                       \
    } while (0)

START_TEST(what_cannot_be_asked_is_refused)
{
    pl_rng_t rng        = pl_rng_seed(pl_test_seed(__func__));
    const layer_t layer = {.n         = 3,
                           .per_token = 2,
                           .n_experts = 4,
                           .rows      = 16,
                           .cols      = 16,
                           .x_row_of  = PL_CUDA_ROW_OF_TOKEN};
    made_t made         = make(&rng, &layer);

    ck_assert_int_eq(ask(&made), PL_OK);
    CHECK_REFUSED(made, groups.order, NULL);
    CHECK_REFUSED(made, groups.starts, NULL);
    CHECK_REFUSED(made, groups.n_pairs, -1);
    CHECK_REFUSED(made, groups.n_experts, 0);
    CHECK_REFUSED(made, groups.n_experts, PL_CUDA_MOST_EXPERTS + 1);
    CHECK_REFUSED(made, groups.per_token, 0);
    CHECK_REFUSED(made, weights.rows, 0);
    CHECK_REFUSED(made, weights.rows, 17); /* more than out's stride */
    CHECK_REFUSED(made, weights.cols, 17);
    CHECK_REFUSED(made, weights.dtype, PL_CUDA_BF16);
    CHECK_REFUSED(made, out_rows.dtype, PL_CUDA_BF16);
    CHECK_REFUSED(made, out_rows.row_of, PL_CUDA_ROW_OF_TOKEN);
    CHECK_REFUSED(made, x_rows.at, (uint8_t *)made.x_rows.at + 4);
    CHECK_REFUSED(made, out_rows.at, (uint8_t *)made.out_rows.at + 4);
    made.groups.n_pairs = 0;
    ck_assert_int_eq(ask(&made), PL_OK);
    gpu_close();
}
END_TEST

TCase *case_grouped(void)
{
    TCase *tc = tcase_create("grouped");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, float32_is_close);
    tcase_add_test(tc, bf16_on_tensor_cores_is_close);
    tcase_add_test(tc, bf16_of_odd_columns_is_close);
    tcase_add_test(tc, large_layers_are_close);
    tcase_add_test(tc, most_experts_are_close);
    tcase_add_test(tc, dense_products_are_close);
    tcase_add_test(tc, a_row_knows_nothing_of_the_batch);
    tcase_add_test(tc, combined_experts_have_the_same_bits);
    tcase_add_test(tc, what_cannot_be_asked_is_refused);
    return tc;
}
