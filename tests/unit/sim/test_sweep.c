/* sim/sweep.h: means and intervals, and orders that do not depend on how they
 * are sorted. */
#include "sim/sweep.h"

#include <stdlib.h>

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"

START_TEST(one_value_has_no_interval)
{
    const int64_t one = INT64_C(9007199254740993); /* no double */
    int64_t half      = -1;

    ck_assert_int_eq(pl_sweep_mean(&one, 1, &half), one);
    ck_assert_int_eq(half, 0);
}
END_TEST

START_TEST(equal_values_have_none_either)
{
    const int64_t values[] = {INT64_C(9007199254740993),
                              INT64_C(9007199254740993),
                              INT64_C(9007199254740993)};
    int64_t half           = -1;

    ck_assert_int_eq(pl_sweep_mean(values, 3, &half), values[0]);
    ck_assert_int_eq(half, 0);
}
END_TEST

/* Computed by hand: mean +- t(0.975, n - 1) s / sqrt(n), rounded up. */
START_TEST(intervals_are_students)
{
    const int64_t two[]  = {-1000, 1000}; /* 12.706 * 1414.2 / 1.4142 */
    const int64_t five[] = {10000, 12000, 9000, 11000, 13000};
    int64_t many[101];
    int64_t half = 0;

    ck_assert_int_eq(pl_sweep_mean(two, 2, &half), 0);
    ck_assert_int_eq(half, 12706);
    ck_assert_int_eq(pl_sweep_mean(five, 5, &half), 11000);
    ck_assert_int_eq(half, 1963); /* 2.776 * 1581.14 / 2.23607 */
    for (int i = 0; i < 101; i++) {
        many[i] = i * 1000;
    }
    ck_assert_int_eq(pl_sweep_mean(many, 101, &half), 50000);
    /* 1.98397 * 29300.17 / 10.04988; the expansion is good to 0.1 % */
    ck_assert_int_ge(half, 5784 - 6);
    ck_assert_int_le(half, 5785 + 6);
}
END_TEST

START_TEST(a_smaller_page_and_more_requests_take_longer)
{
    ck_assert(pl_sweep_estimate(10, 100000, 16) >
              pl_sweep_estimate(10, 100000, 64));
    ck_assert(pl_sweep_estimate(20, 100000, 64) >
              pl_sweep_estimate(10, 100000, 64));
}
END_TEST

START_TEST(the_longest_is_first_and_equals_stay)
{
    enum { N = 1000 };
    uint64_t seed = pl_test_seed("the_longest_is_first_and_equals_stay");
    double estimates[N];
    size_t order[N];

    for (int i = 0; i < N; i++) {
        estimates[i] = (double)(pl_mix64(seed + (uint64_t)i) % 10);
    }
    ck_assert_int_eq(pl_sweep_longest_first(estimates, N, order), PL_OK);
    for (int i = 1; i < N; i++) {
        double before = estimates[order[i - 1]];
        double here   = estimates[order[i]];

        ck_assert((before > here) ||
                  ((before == here) && (order[i - 1] < order[i])));
    }
    ck_assert_int_eq(pl_sweep_longest_first(estimates, 0, order), PL_OK);
}
END_TEST

START_TEST(the_best_is_first)
{
    const pl_sweep_standing_t points[] = {
        {.ran = false, .key = 0},
        {.ran = true, .meets = false, .kept = 0.5, .key = 1},
        {.ran = true, .meets = true, .kept = 0.99, .key = 3},
        {.ran = true, .meets = false, .kept = 0.9, .key = 9},
        {.ran = true, .meets = true, .kept = 1, .key = 4},
        {.ran = true, .meets = false, .kept = 0.5, .key = 0},
        {.ran = true, .meets = true, .kept = 1, .key = 3},
        {.ran = false, .key = 0},
    };
    const size_t want[] = {6, 2, 4, 3, 5, 1, 0, 7};
    size_t order[8];

    ck_assert_int_eq(pl_sweep_best_first(points, 8, order), PL_OK);
    for (int i = 0; i < 8; i++) {
        ck_assert_uint_eq(order[i], want[i]);
    }
}
END_TEST

/* Keys in the same step of the least one are as good; also below 0. */
START_TEST(what_is_nearly_as_cheap_is_judged_by_more)
{
    static const double KEYS[] = {100, 100.9, 100.5, 101.2, 99.99, 100.5};
    static const double KEPT[] = {0.95, 0.99, 0.99, 1, 0.95, 0.99};
    static const double TTFT[] = {3, 2, 2, 1, 4, 1};
    const size_t want[]        = {5, 2, 1, 0, 4, 3};

    for (int below = 0; below < 2; below++) {
        pl_sweep_standing_t points[6];
        size_t order[6];

        for (int i = 0; i < 6; i++) {
            points[i] = (pl_sweep_standing_t){.ran   = true,
                                              .meets = true,
                                              .kept  = KEPT[i],
                                              .ttft  = TTFT[i],
                                              .key   = KEYS[i] - 202.5 * below};
        }
        ck_assert_int_eq(pl_sweep_best_first(points, 6, order), PL_OK);
        for (int i = 0; i < 6; i++) {
            ck_assert_uint_eq(order[i], want[i]);
        }
    }
    ck_assert_double_eq(pl_sweep_steps(7, 0), 7);
    ck_assert_double_eq(pl_sweep_steps(-90, -100), 10);
    ck_assert_double_eq(pl_sweep_steps(101.5, 100), 1);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("sweep");

    tcase_add_test(tcase, one_value_has_no_interval);
    tcase_add_test(tcase, equal_values_have_none_either);
    tcase_add_test(tcase, intervals_are_students);
    tcase_add_test(tcase, a_smaller_page_and_more_requests_take_longer);
    tcase_add_test(tcase, the_longest_is_first_and_equals_stay);
    tcase_add_test(tcase, the_best_is_first);
    tcase_add_test(tcase, what_is_nearly_as_cheap_is_judged_by_more);
    return tcase;
}

PL_CHECK_MAIN("sweep", all())
