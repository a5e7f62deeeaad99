/* Opening a pool and taking pages: owners, order, all or nothing. */
#include <pagelane/lanes.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "pool/lanes_internal.h"
#include "unit/pool/lanes_fixture.h"

/* ---- opening ---- */

START_TEST(impossible_pools_are_refused_with_a_line)
{
    static const pl_lanes_params_t bad[] = {
        {0, 10, 1, "device"},  {128, 10, 1, "device"},
        {-1, 10, 1, "device"}, {4, 1, 1, "device"},
        {4, 0, 0, "device"},   {4, -5, 1, "device"},
        {4, 10, -1, "device"}, {2, INT32_MAX / 2 + 1, 1, "device"}};
    lanes_fixture_t fixture;
    pl_log_t log = {fixture_write, &fixture, PL_LOG_TRACE};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        pl_lanes_t *lanes = NULL;

        fixture.n_lines = 0;
        ck_assert_int_eq(pl_lanes_open(&bad[i], &log, &lanes), PL_ERR_ARGUMENT);
        ck_assert_ptr_null(lanes);
        ck_assert_int_eq(fixture.n_lines, 1);
        ck_assert_ptr_nonnull(strstr(fixture.last, "device pool"));
    }
    pl_lanes_close(NULL);
}
END_TEST

START_TEST(a_new_pool_is_all_free_but_scratch)
{
    lanes_fixture_t f;

    fixture_open(&f, 3, 70, 2);
    ck_assert_int_eq(pl_lanes_n(f.lanes), 3);
    ck_assert_int_eq(pl_lanes_pages_per_lane(f.lanes), 70);
    ck_assert_int_eq(pl_lanes_reserved(f.lanes), 2);
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), 3 * 68);
    for (pl_page_t g = -3; g < 3 * 70 + 3; g++) {
        ck_assert_int_eq(pl_lanes_is_free(f.lanes, g), g >= 6 && g < 210);
        ck_assert_uint_eq(pl_lanes_generation(f.lanes, g), 0);
    }
    fixture_close(&f);
}
END_TEST

/* The division of page by lanes is done by a product: the same everywhere. */
START_TEST(owner_and_slot_without_division_are_exact)
{
    pl_rng_t rng = pl_rng_seed(7);

    printf("reciprocal: seed 7\n");
    for (int c = 1; c <= PL_MAX_RANKS; c++) {
        static pl_lanes_t lanes;
        int n_wrong   = 0;
        uint32_t last = (uint32_t)(INT32_MAX / c) * (uint32_t)c - 1;

        pl_lanes_set_divisor(&lanes, c);
        for (int i = 0; i < 20000; i++) {
            uint32_t near[] = {
                (uint32_t)i, last - (uint32_t)i,
                (uint32_t)pl_rng_below(&rng, (uint64_t)last + 1),
                /* around multiples, where a product would err first */
                (uint32_t)pl_rng_below(&rng, last / (uint32_t)c) * (uint32_t)c,
                (uint32_t)pl_rng_below(&rng, last / (uint32_t)c) * (uint32_t)c +
                    (uint32_t)c - 1};

            for (int k = 0; k < 5; k++) {
                pl_slot_t at = pl_lanes_slot(&lanes, near[k]);

                /* an assertion each would take half a minute */
                n_wrong += at.slot != pl_page_slot((pl_page_t)near[k], c);
                n_wrong += at.owner != pl_page_owner((pl_page_t)near[k], c);
            }
        }
        ck_assert_int_eq(n_wrong, 0);
    }
}
END_TEST

/* ---- the order ---- */

/* 9.7 output order = requested order, lowest free page of each lane first */
START_TEST(pages_come_in_the_order_of_their_owners)
{
    static const pl_owner_t owners[] = {2, 0, 0, 1, 2, 2, 0};
    static const int32_t slots[]     = {1, 1, 2, 1, 2, 3, 3};
    pl_page_t pages[7];
    lanes_fixture_t f;

    fixture_open(&f, 3, 10, 1);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 7, pages), PL_OK);
    for (int i = 0; i < 7; i++) {
        ck_assert_int_eq(pages[i], pl_page_at(owners[i], slots[i], 3));
        ck_assert(!pl_lanes_is_free(f.lanes, pages[i]));
    }
    ck_assert_int_eq(pl_lanes_free_count(f.lanes, 0), 6);
    ck_assert_int_eq(pl_lanes_free_count(f.lanes, 1), 8);
    ck_assert_int_eq(pl_lanes_free_count(f.lanes, 2), 6);
    fixture_close(&f);
}
END_TEST

/* 9.2 however full a pool gets, scratch is never handed out */
START_TEST(scratch_is_never_handed_out)
{
    static const int32_t reserved[] = {0, 1, 63, 64, 65, 130};

    for (size_t k = 0; k < sizeof(reserved) / sizeof(*reserved); k++) {
        int32_t n = 2 * (200 - reserved[k]);
        pl_owner_t owners[400];
        pl_page_t pages[400];
        lanes_fixture_t f;

        fixture_open(&f, 2, 200, reserved[k]);
        for (int32_t i = 0; i < n; i++) {
            owners[i] = (pl_owner_t)(i % 2);
        }
        for (int round = 0; round < 2; round++) {
            ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, n, pages), PL_OK);
            for (int32_t i = 0; i < n; i++) {
                ck_assert_int_eq(pages[i], 2 * reserved[k] + i);
            }
            ck_assert_int_eq(pl_lanes_free_total(f.lanes), 0);
            ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 1, pages),
                             PL_REFUSED_SHORT);
            ck_assert_int_eq(pl_lanes_free(f.lanes, pages, owners, n), PL_OK);
        }
        fixture_close(&f);
    }
}
END_TEST

/* 9.11 release and sort per lane: freed pages wait, and come back ascending */
START_TEST(staged_pages_come_back_ascending_when_a_lane_runs_short)
{
    static const pl_owner_t zeros[8] = {0};
    static const pl_page_t freed[]   = {5, 2, 7, 3};
    pl_page_t pages[8];
    lanes_fixture_t f;

    fixture_open(&f, 1, 10, 1); /* pages 1 .. 9 */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 8, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, freed, NULL, 4), PL_OK);
    ck_assert_int_eq(pl_lanes_free_count(f.lanes, 0), 5);
    /* page 9 was never used: it goes first, the staged ones wait */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 1, pages), PL_OK);
    ck_assert_int_eq(pages[0], 9);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 3, pages), PL_OK);
    ck_assert_int_eq(pages[0], 2);
    ck_assert_int_eq(pages[1], 3);
    ck_assert_int_eq(pages[2], 5);
    ck_assert_int_eq(pl_lanes_free_count(f.lanes, 0), 1);
    fixture_close(&f);
}
END_TEST

/* One lane that merges leaves the others' staged pages waiting. */
START_TEST(lanes_merge_one_by_one)
{
    static const pl_owner_t both[] = {0, 0, 1, 1};
    static const pl_owner_t next[] = {0, 0, 0, 1};
    pl_page_t pages[4];
    lanes_fixture_t f;

    fixture_open(&f, 2, 5, 1); /* slots 1 .. 4 */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, both, 4, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, both, 4), PL_OK);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, next, 4, pages), PL_OK);
    ck_assert_int_eq(pages[0], pl_page_at(0, 1, 2)); /* merged */
    ck_assert_int_eq(pages[3], pl_page_at(1, 3, 2)); /* not merged */
    fixture_close(&f);
}
END_TEST

/* 9.7 all or nothing across lanes; a refused call leaves no trace at all */
START_TEST(a_refused_alloc_changes_nothing)
{
    static const pl_owner_t some[] = {0, 0, 0, 0, 1, 1, 1, 1};
    static const pl_owner_t much[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
    pl_page_t pages[11];
    int32_t deficits[2];
    uint64_t hash;
    lanes_fixture_t f;

    fixture_open(&f, 2, 6, 1); /* 5 a lane */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, some, 8, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, some, 8), PL_OK);
    hash = pl_lanes_state_hash(f.lanes);
    memset(pages, 0x55, sizeof(pages));
    /* lane 0 could serve by merging, lane 1 is one page short */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, much, 11, pages),
                     PL_REFUSED_SHORT);
    ck_assert(pl_lanes_deficits(f.lanes, much, 11, deficits));
    ck_assert_int_eq(deficits[0], 0);
    ck_assert_int_eq(deficits[1], 1);
    ck_assert_uint_eq(pl_lanes_state_hash(f.lanes), hash);
    for (int i = 0; i < 11; i++) {
        ck_assert_int_eq(pages[i], 0x55555555);
    }
    ck_assert(!pl_lanes_deficits(f.lanes, much, 10, deficits));
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, much, 10, pages), PL_OK);
    ck_assert_int_eq(f.n_lines, 0); /* being short is no error */
    fixture_close(&f);
}
END_TEST

START_TEST(an_owner_that_is_no_lane_is_an_error)
{
    static const pl_owner_t bad[] = {3, -1, 127, -128};
    lanes_fixture_t f;
    uint64_t hash;

    fixture_open(&f, 3, 10, 1);
    hash = pl_lanes_state_hash(f.lanes);
    for (int k = 0; k < 4; k++) {
        for (int at = 0; at < 20; at++) { /* alone, and in runs of eight */
            pl_owner_t owners[20] = {0};
            pl_page_t pages[20];

            memset(owners + at, bad[k], (size_t)(20 - at));
            ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 20, pages),
                             PL_ERR_INTERNAL);
        }
    }
    for (int k = 0; k < 4; k++) { /* nothing but one run */
        pl_owner_t owners[8];
        pl_page_t pages[8];

        memset(owners, bad[k], sizeof(owners));
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 8, pages),
                         PL_ERR_INTERNAL);
    }
    ck_assert_int_eq(f.n_lines, 4 * 21);
    ck_assert_uint_eq(pl_lanes_state_hash(f.lanes), hash);
    fixture_close(&f);
}
END_TEST

/* Calls larger than the allocator's own step, in every arrangement of runs. */
START_TEST(large_calls_take_the_lowest_pages)
{
    enum { N = 3 * PL_TAKE_PAGES + 5, LANES = 5 };
    static pl_owner_t owners[N];
    static pl_page_t pages[N];
    pl_rng_t rng = pl_rng_seed(11);

    printf("large calls: seed 11\n");
    for (uint64_t run = 1; run <= 64; run *= 4) {
        int32_t slots[LANES] = {1, 1, 1, 1, 1};
        lanes_fixture_t f;

        fixture_open(&f, LANES, N + 1, 1);
        for (int32_t i = 0; i < N; i++) {
            bool new_run = (i == 0) || (pl_rng_below(&rng, run) == 0);

            owners[i] =
                new_run ? (pl_owner_t)pl_rng_below(&rng, LANES) : owners[i - 1];
        }
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, N, pages), PL_OK);
        for (int32_t i = 0; i < N; i++) {
            ck_assert_int_eq(pages[i],
                             pl_page_at(owners[i], slots[owners[i]]++, LANES));
            ck_assert_uint_eq(pl_lanes_generation(f.lanes, pages[i]), 1);
        }
        ck_assert_int_eq(pl_lanes_free(f.lanes, pages, owners, N), PL_OK);
        fixture_close(&f);
    }
}
END_TEST

/* A pool far larger than its use: the same behaviour, and no slow start. */
START_TEST(a_huge_lane_works_at_both_ends)
{
    enum { N = 1 << 22 };
    pl_owner_t *owners = calloc(N, sizeof(*owners));
    pl_page_t *pages   = calloc(N, sizeof(*pages));
    lanes_fixture_t f;

    ck_assert_ptr_nonnull(owners);
    ck_assert_ptr_nonnull(pages);
    fixture_open(&f, 1, N + 1, 1);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, N, pages), PL_OK);
    ck_assert_int_eq(pages[N - 1], N);
    /* one page near each end comes and goes in a lane that is else full */
    for (int round = 0; round < 1000; round++) {
        pl_page_t two[] = {pages[round], pages[N - 1 - round]};
        pl_page_t got[2];

        ck_assert_int_eq(pl_lanes_free(f.lanes, two, NULL, 2), PL_OK);
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 2, got), PL_OK);
        ck_assert_int_eq(got[0], two[0]);
        ck_assert_int_eq(got[1], two[1]);
    }
    fixture_close(&f);
    free(owners);
    free(pages);
}
END_TEST

static void add_take_tests(Suite *suite)
{
    TCase *tcase = tcase_create("take");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, impossible_pools_are_refused_with_a_line);
    tcase_add_test(tcase, a_new_pool_is_all_free_but_scratch);
    tcase_add_test(tcase, owner_and_slot_without_division_are_exact);
    tcase_add_test(tcase, pages_come_in_the_order_of_their_owners);
    tcase_add_test(tcase, scratch_is_never_handed_out);
    tcase_add_test(tcase,
                   staged_pages_come_back_ascending_when_a_lane_runs_short);
    tcase_add_test(tcase, lanes_merge_one_by_one);
    tcase_add_test(tcase, a_refused_alloc_changes_nothing);
    tcase_add_test(tcase, an_owner_that_is_no_lane_is_an_error);
    tcase_add_test(tcase, large_calls_take_the_lowest_pages);
    tcase_add_test(tcase, a_huge_lane_works_at_both_ends);
}

int main(void)
{
    Suite *suite    = suite_create("lanes");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    add_take_tests(suite);
    add_count_tests(suite);
    add_free_tests(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
