/* Sparse attention: close to the formula, and equal bits wherever rows lie. */
#include "test_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attention.h"
#include "sample.h"
#include "support/seed.h"

typedef struct query {
    pl_row_layout_t layout;
    int32_t heads, n_rows, n; /* n of n_rows are selected */
    int32_t *positions;
    float *q_latent, *q_rope, *rows, *out;
} query_t;

static query_t query_open(pl_rng_t *rng, pl_kv_dtype_t dtype)
{
    int32_t kv_lora = sample_between(rng, 1, 300);
    int32_t rope    = 2 * sample_between(rng, 1, 70);
    query_t made    = {.layout = pl_row_layout_make(dtype, kv_lora, rope, 8),
                       .heads  = sample_between(rng, 1, 17),
                       .n_rows = sample_between(rng, 1, 300)};
    size_t heads    = (size_t)made.heads;

    made.q_latent = sample_values(rng, heads * (size_t)kv_lora);
    made.q_rope   = sample_values(rng, heads * (size_t)rope);
    made.rows =
        sample_values(rng, (size_t)made.n_rows * (size_t)(kv_lora + rope));
    made.out       = malloc(heads * (size_t)kv_lora * sizeof(float));
    made.positions = malloc((size_t)made.n_rows * sizeof(int32_t));
    for (int32_t i = 0; i < made.n_rows; i++) {
        made.positions[made.n] = i;
        made.n += sample_between(rng, 0, 1);
    }
    made.n += made.n == 0 ? 1 : 0;
    return made;
}

static void query_close(query_t *query)
{
    free(query->q_latent);
    free(query->q_rope);
    free(query->rows);
    free(query->out);
    free(query->positions);
}

static void query_run(const query_t *query, int32_t page_tokens, pl_rng_t *rng,
                      int32_t first_head, int32_t heads, float *out)
{
    sample_view_t view = sample_latent_view(&query->layout, query->rows,
                                            query->n_rows, page_tokens, rng);
    size_t room        = pl_attend_scratch(&query->layout, heads, query->n);
    float *scratch     = malloc(room * sizeof(float));

    memset(scratch, 0xFF, room * sizeof(float)); /* NaN */
    pl_attend(&view.view, &query->layout,
              query->q_latent +
                  (size_t)first_head * (size_t)query->layout.kv_lora,
              query->q_rope + (size_t)first_head * (size_t)query->layout.rope,
              heads, 0.5F, query->positions, query->n, scratch, out);
    free(scratch);
    sample_view_close(&view);
}

/* The formula in double for one head; `p` has room for n. */
static void reference(const query_t *query, int32_t head, double *p,
                      double *out)
{
    int32_t kv_lora = query->layout.kv_lora;
    int32_t rope    = query->layout.rope;
    double most = -INFINITY, all = 0.0;

    for (int32_t i = 0; i < query->n; i++) {
        const float *row = query->rows + (size_t)query->positions[i] *
                                             (size_t)(kv_lora + rope);

        p[i] = 0.0;
        for (int32_t d = 0; d < kv_lora; d++) {
            p[i] +=
                (double)query->q_latent[head * kv_lora + d] * (double)row[d];
        }
        for (int32_t d = 0; d < rope; d++) {
            p[i] += (double)query->q_rope[head * rope + d] *
                    (double)row[kv_lora + d];
        }
        p[i] *= 0.5;
        most = fmax(most, p[i]);
    }
    for (int32_t i = 0; i < query->n; i++) {
        p[i] = exp(p[i] - most);
        all += p[i];
    }
    for (int32_t d = 0; d < kv_lora; d++) {
        out[d] = 0.0;
        for (int32_t i = 0; i < query->n; i++) {
            size_t row = (size_t)query->positions[i] * (size_t)(kv_lora + rope);

            out[d] += p[i] / all * (double)query->rows[row + (size_t)d];
        }
    }
}

START_TEST(attend_is_the_formula)
{
    uint64_t seed = pl_test_seed("attend_is_the_formula");
    pl_rng_t rng  = pl_rng_seed(seed);
    double p[300], want[300];

    for (int round = 0; round < 40; round++) {
        query_t query   = query_open(&rng, PL_KV_F32);
        int32_t kv_lora = query.layout.kv_lora;

        query_run(&query, 7, &rng, 0, query.heads, query.out);
        for (int32_t h = 0; h < query.heads; h++) {
            reference(&query, h, p, want);
            for (int32_t d = 0; d < kv_lora; d++) {
                ck_assert(fabs((double)query.out[h * kv_lora + d] - want[d]) <
                          1e-5);
            }
        }
        query_close(&query);
    }
}
END_TEST

/* Equal bits for every page size and order of pages, and for heads alone. */
START_TEST(attend_does_not_know_where_rows_lie)
{
    uint64_t seed = pl_test_seed("attend_does_not_know_where_rows_lie");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 60; round++) {
        query_t query = query_open(&rng, (pl_kv_dtype_t)(round % 3));
        size_t width  = (size_t)query.layout.kv_lora;
        size_t bytes  = (size_t)query.heads * width * sizeof(float);
        float *other  = malloc(bytes);

        query_run(&query, 1, &rng, 0, query.heads, query.out);
        for (int i = 0; i < 3; i++) {
            int32_t head = sample_between(&rng, 0, query.heads - 1);

            query_run(&query, sample_between(&rng, 1, 400), &rng, 0,
                      query.heads, other);
            ck_assert_mem_eq(other, query.out, bytes);
            query_run(&query, 16, &rng, head, 1, other);
            ck_assert_mem_eq(other, query.out + (size_t)head * width,
                             width * sizeof(float));
        }
        free(other);
        query_close(&query);
    }
}
END_TEST

/* Stored in bf16 or fp8, it is that of the values that were stored. */
START_TEST(attend_reads_what_was_stored)
{
    uint64_t seed = pl_test_seed("attend_reads_what_was_stored");
    pl_rng_t rng  = pl_rng_seed(seed);
    uint8_t row[2048];

    for (int round = 0; round < 40; round++) {
        query_t query =
            query_open(&rng, round % 2 == 0 ? PL_KV_FP8 : PL_KV_BF16);
        int32_t kv_lora = query.layout.kv_lora;
        int32_t rope    = query.layout.rope;
        size_t bytes    = (size_t)query.heads * (size_t)kv_lora * sizeof(float);
        float *other    = malloc(bytes);

        query_run(&query, 16, &rng, 0, query.heads, query.out);
        for (int32_t s = 0; s < query.n_rows; s++) {
            float *values = query.rows + (size_t)s * (size_t)(kv_lora + rope);

            pl_latent_store(&query.layout, values, row);
            pl_latent_load(&query.layout, row, values);
        }
        query.layout = pl_row_layout_make(PL_KV_F32, kv_lora, rope, 8);
        query_run(&query, 5, &rng, 0, query.heads, other);
        ck_assert_mem_eq(other, query.out, bytes);
        free(other);
        query_close(&query);
    }
}
END_TEST

/* Rows that are not selected may hold anything. */
START_TEST(attend_touches_selected_rows_only)
{
    uint64_t seed = pl_test_seed("attend_touches_selected_rows_only");
    pl_rng_t rng  = pl_rng_seed(seed);
    query_t query = query_open(&rng, PL_KV_F32);
    size_t width  = (size_t)(query.layout.kv_lora + query.layout.rope);
    size_t bytes =
        (size_t)query.heads * (size_t)query.layout.kv_lora * sizeof(float);
    float *other = malloc(bytes);
    int32_t at   = 0;

    query_run(&query, 16, &rng, 0, query.heads, query.out);
    for (int32_t s = 0; s < query.n_rows; s++) {
        if (at < query.n && query.positions[at] == s) {
            at++;
            continue;
        }
        for (size_t d = 0; d < width; d++) {
            query.rows[(size_t)s * width + d] = NAN;
        }
    }
    query_run(&query, 16, &rng, 0, query.heads, other);
    ck_assert_mem_eq(other, query.out, bytes);
    free(other);
    query_close(&query);
}
END_TEST

/* One row: all weight on it. */
START_TEST(one_row_is_its_own_mean)
{
    uint64_t seed = pl_test_seed("one_row_is_its_own_mean");
    pl_rng_t rng  = pl_rng_seed(seed);
    query_t query = query_open(&rng, PL_KV_F32);
    size_t width  = (size_t)query.layout.kv_lora;

    query.positions[0] = query.n_rows - 1;
    query.n            = 1;
    query_run(&query, 16, &rng, 0, query.heads, query.out);
    for (int32_t h = 0; h < query.heads; h++) {
        ck_assert_mem_eq(query.out + (size_t)h * width,
                         query.rows + (size_t)(query.n_rows - 1) *
                                          (width + (size_t)query.layout.rope),
                         width * sizeof(float));
    }
    query_close(&query);
}
END_TEST

TCase *attend_case(void)
{
    TCase *tcase = tcase_create("attend");

    tcase_add_test(tcase, attend_is_the_formula);
    tcase_add_test(tcase, attend_does_not_know_where_rows_lie);
    tcase_add_test(tcase, attend_reads_what_was_stored);
    tcase_add_test(tcase, attend_touches_selected_rows_only);
    tcase_add_test(tcase, one_row_is_its_own_mean);
    return tcase;
}
