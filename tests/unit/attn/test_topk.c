/* Top-k against a sort in the total order. */
#include "test_attn.h"

#include <math.h>
#include <stdlib.h>

#include "attn/attention.h"
#include "sample.h"
#include "support/seed.h"

typedef struct scored {
    double score;
    int32_t position;
} scored_t;

static int compare_scored(const void *a, const void *b)
{
    const scored_t *x = a;
    const scored_t *y = b;

    if (x->score != y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->position < y->position ? -1 : 1;
}

static int compare_positions(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static void check_topk(const float *scores, int32_t n, int32_t k)
{
    size_t room       = (size_t)n + 1;
    scored_t *sorted  = malloc(room * sizeof(*sorted));
    int32_t *want     = malloc(room * sizeof(*want));
    int32_t *got      = malloc(room * sizeof(*got));
    uint32_t *scratch = malloc(room * sizeof(*scratch));
    int32_t n_want    = k < n ? k : n;

    for (int32_t i = 0; i < n; i++) {
        sorted[i].score    = isnan(scores[i]) ? -INFINITY : (double)scores[i];
        sorted[i].position = i;
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_scored);
    for (int32_t i = 0; i < n_want; i++) {
        want[i] = sorted[i].position;
    }
    qsort(want, (size_t)n_want, sizeof(*want), compare_positions);
    got[n_want] = -7;
    ck_assert_int_eq(pl_topk(scores, n, k, scratch, got), n_want);
    ck_assert_mem_eq(got, want, (size_t)n_want * sizeof(*want));
    ck_assert_int_eq(got[n_want], -7);
    free(sorted);
    free(want);
    free(got);
    free(scratch);
}

/* One score of `kind`: spread, few values, many special ones, close bits. */
static float score_of(pl_rng_t *rng, int kind)
{
    static const float special[] = {
        0.0F,      -0.0F,      INFINITY,   -INFINITY,   NAN,  -NAN,
        0x1p-149F, -0x1p-149F, 3.4028e38F, -3.4028e38F, 1.0F, -1.0F};
    const uint64_t n = sizeof(special) / sizeof(special[0]);

    switch (kind) {
    case 0:
        return sample_value(rng);
    case 1:
        return (float)sample_between(rng, -2, 2);
    case 2:
        return special[pl_rng_below(rng, n)];
    default:
        return 1.0F + (float)sample_between(rng, 0, 40) * 0x1p-23F;
    }
}

START_TEST(topk_is_the_head_of_the_sort)
{
    uint64_t seed = pl_test_seed("topk_is_the_head_of_the_sort");
    pl_rng_t rng  = pl_rng_seed(seed);
    float scores[600];

    for (int round = 0; round < 2000; round++) {
        int32_t n = sample_between(&rng, 0, round % 10 == 0 ? 600 : 40);

        for (int32_t i = 0; i < n; i++) {
            scores[i] = score_of(&rng, round % 4);
        }
        check_topk(scores, n, sample_between(&rng, 0, n + 2));
    }
}
END_TEST

START_TEST(topk_of_all_none_and_equals)
{
    float scores[100];

    for (int32_t i = 0; i < 100; i++) {
        scores[i] = i % 2 == 0 ? 0.0F : -0.0F;
    }
    for (int32_t k = 0; k <= 101; k++) {
        check_topk(scores, 100, k);
    }
    check_topk(scores, 0, 0);
    check_topk(scores, 0, 5);
    check_topk(scores, 1, 1);
}
END_TEST

/* What stands behind the last key cannot matter: same k-th score, same set. */
START_TEST(topk_does_not_depend_on_worse_keys)
{
    uint64_t seed = pl_test_seed("topk_does_not_depend_on_worse_keys");
    pl_rng_t rng  = pl_rng_seed(seed);
    float scores[300];
    uint32_t scratch[300];
    int32_t a[20], b[20];

    for (int32_t i = 0; i < 300; i++) {
        scores[i] = i < 200 ? sample_value(&rng) : -5.0F + sample_value(&rng);
    }
    ck_assert_int_eq(pl_topk(scores, 200, 20, scratch, a), 20);
    ck_assert_int_eq(pl_topk(scores, 300, 20, scratch, b), 20);
    ck_assert_mem_eq(a, b, sizeof(a));
}
END_TEST

TCase *topk_case(void)
{
    TCase *tcase = tcase_create("topk");

    tcase_add_test(tcase, topk_is_the_head_of_the_sort);
    tcase_add_test(tcase, topk_of_all_none_and_equals);
    tcase_add_test(tcase, topk_does_not_depend_on_worse_keys);
    return tcase;
}
