/* Index scores: close to the formula, and equal bits wherever keys lie. */
#include "test_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attention.h"
#include "sample.h"
#include "support/seed.h"

typedef struct query {
    pl_row_layout_t layout;
    int32_t heads, n;
    float *q, *weights, *keys, *scores;
} query_t;

static query_t query_open(pl_rng_t *rng, pl_kv_dtype_t dtype)
{
    int32_t dim  = sample_between(rng, 1, 300);
    query_t made = {.layout = pl_row_layout_make(dtype, 8, 2, dim),
                    .heads  = sample_between(rng, 1, 70),
                    .n      = sample_between(rng, 1, 67)};

    made.q       = sample_values(rng, (size_t)made.heads * (size_t)dim);
    made.weights = sample_values(rng, (size_t)made.heads);
    made.keys    = sample_values(rng, (size_t)made.n * (size_t)dim);
    made.scores  = malloc((size_t)made.n * sizeof(float));
    return made;
}

static void query_close(query_t *query)
{
    free(query->q);
    free(query->weights);
    free(query->keys);
    free(query->scores);
}

static void query_run(const query_t *query, int32_t page_tokens, int32_t n,
                      pl_rng_t *rng, float *scores)
{
    sample_view_t view = sample_index_view(&query->layout, query->keys,
                                           query->n, page_tokens, rng);

    pl_index_scores(&view.view, &query->layout,
                    &(pl_index_queries_t){.q       = query->q,
                                          .weights = query->weights,
                                          .n       = 1,
                                          .n_heads = query->heads,
                                          .scale   = 0.25F,
                                          .n_keys  = &n},
                    scores, (size_t)n);
    sample_view_close(&view);
}

START_TEST(scores_are_the_formula)
{
    uint64_t seed = pl_test_seed("scores_are_the_formula");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 60; round++) {
        query_t query = query_open(&rng, PL_KV_F32);
        int32_t dim   = query.layout.index_dim;

        query_run(&query, 5, query.n, &rng, query.scores);
        for (int32_t s = 0; s < query.n; s++) {
            double want = 0.0, size = 0.0;

            for (int32_t h = 0; h < query.heads; h++) {
                double dot = 0.0;

                for (int32_t d = 0; d < dim; d++) {
                    dot += (double)query.q[h * dim + d] *
                           (double)query.keys[s * dim + d];
                }
                want += (double)query.weights[h] * fmax(0.25 * dot, 0.0);
                size += fabs((double)query.weights[h] * 0.25 * dot);
            }
            ck_assert_msg(fabs((double)query.scores[s] - want) <
                              2e-6 * (size + sqrt(dim)),
                          "score %g, not %g", (double)query.scores[s], want);
        }
        query_close(&query);
    }
}
END_TEST

/* Equal bits for every page size, order of pages and number of keys. */
START_TEST(scores_do_not_know_where_keys_lie)
{
    uint64_t seed = pl_test_seed("scores_do_not_know_where_keys_lie");
    pl_rng_t rng  = pl_rng_seed(seed);
    float other[68];

    for (int round = 0; round < 60; round++) {
        query_t query = query_open(&rng, (pl_kv_dtype_t)(round % 3));

        query_run(&query, 1, query.n, &rng, query.scores);
        for (int i = 0; i < 6; i++) {
            int32_t n = sample_between(&rng, 0, query.n);

            other[n] = 7.0F;
            query_run(&query, sample_between(&rng, 1, 70), n, &rng, other);
            ck_assert_mem_eq(other, query.scores, (size_t)n * sizeof(float));
            ck_assert(other[n] == 7.0F);
        }
        query_close(&query);
    }
}
END_TEST

/* Stored in fp8, they are those of the values that were stored. */
START_TEST(scores_read_what_was_stored)
{
    uint64_t seed = pl_test_seed("scores_read_what_was_stored");
    pl_rng_t rng  = pl_rng_seed(seed);
    float other[68];
    uint8_t key[300], scale[4];

    for (int round = 0; round < 60; round++) {
        query_t query =
            query_open(&rng, round % 2 == 0 ? PL_KV_FP8 : PL_KV_BF16);
        size_t dim = (size_t)query.layout.index_dim;

        query_run(&query, 16, query.n, &rng, query.scores);
        for (int32_t s = 0; s < query.n; s++) {
            float *values = query.keys + (size_t)s * dim;

            pl_index_store(&query.layout, values, key, scale);
            pl_index_load(&query.layout, key, scale, values);
        }
        query.layout = pl_row_layout_make(PL_KV_F32, 8, 2, (int32_t)dim);
        query_run(&query, 3, query.n, &rng, other);
        ck_assert_mem_eq(other, query.scores, (size_t)query.n * sizeof(float));
        query_close(&query);
    }
}
END_TEST

/* relu before the weight, so that negative weights give negative scores; keys
 * that no head likes score zero. */
START_TEST(negative_weights_give_negative_scores)
{
    pl_rng_t rng  = pl_rng_seed(1);
    query_t query = {
        .layout = pl_row_layout_make(PL_KV_F32, 8, 2, 2), .heads = 2, .n = 3};
    float q[]    = {1, 0, 0, 1};
    float w[]    = {-2, 3};
    float keys[] = {1, -1, -1, 1, -1, -1};
    float scores[3];

    query.q       = q;
    query.weights = w;
    query.keys    = keys;
    query_run(&query, 2, 3, &rng, scores);
    ck_assert(scores[0] == -0.5F);
    ck_assert(scores[1] == 0.75F);
    ck_assert(scores[2] == 0.0F);
}
END_TEST

/* Alone or among others, with more keys and with fewer: the same bits. */
enum { QUERIES = 19, STRIDE = 70 };

START_TEST(scores_do_not_know_of_other_queries)
{
    uint64_t seed = pl_test_seed("scores_do_not_know_of_other_queries");
    pl_rng_t rng  = pl_rng_seed(seed);
    float together[QUERIES * STRIDE], alone[STRIDE];

    for (int round = 0; round < 60; round++) {
        query_t query    = query_open(&rng, (pl_kv_dtype_t)(round % 3));
        size_t per_query = (size_t)query.heads * (size_t)query.layout.index_dim;
        float *q         = sample_values(&rng, QUERIES * per_query);
        float *weights   = sample_values(&rng, QUERIES * (size_t)query.heads);
        sample_view_t view =
            sample_index_view(&query.layout, query.keys, query.n, 16, &rng);
        int32_t n_keys[QUERIES];
        pl_index_queries_t all = {.q       = q,
                                  .weights = weights,
                                  .n       = sample_between(&rng, 1, QUERIES),
                                  .n_heads = query.heads,
                                  .scale   = 0.25F,
                                  .n_keys  = n_keys};

        for (int32_t i = 0; i < all.n; i++) {
            n_keys[i]                        = sample_between(&rng, 0, query.n);
            together[i * STRIDE + n_keys[i]] = 7.0F;
        }
        pl_index_scores(&view.view, &query.layout, &all, together, STRIDE);
        for (int32_t i = 0; i < all.n; i++) {
            pl_index_queries_t one = all;

            one.q += (size_t)i * per_query;
            one.weights += (size_t)i * (size_t)query.heads;
            one.n      = 1;
            one.n_keys = &n_keys[i];
            pl_index_scores(&view.view, &query.layout, &one, alone, STRIDE);
            ck_assert_mem_eq(alone, together + (size_t)i * STRIDE,
                             (size_t)n_keys[i] * sizeof(float));
            ck_assert(together[i * STRIDE + n_keys[i]] == 7.0F);
        }
        sample_view_close(&view);
        free(q);
        free(weights);
        query_close(&query);
    }
}
END_TEST

TCase *scores_case(void)
{
    TCase *tcase = tcase_create("scores");

    tcase_add_test(tcase, scores_are_the_formula);
    tcase_add_test(tcase, scores_do_not_know_where_keys_lie);
    tcase_add_test(tcase, scores_do_not_know_of_other_queries);
    tcase_add_test(tcase, scores_read_what_was_stored);
    tcase_add_test(tcase, negative_weights_give_negative_scores);
    return tcase;
}
