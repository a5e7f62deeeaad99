/* engine/turns.h: in which order requests come, and who is waited for. */
#include "scene.h"

#include <string.h>

#include "base/rng.h"
#include "engine/turns.h"
#include "support/seed.h"

enum { MOST = 300 };

static pl_request_t REQUESTS[MOST];

static const pl_request_t *get(void *context, int32_t i)
{
    (void)context;
    return &REQUESTS[i];
}

static pl_engine_source_t source_of(int32_t n)
{
    memset(REQUESTS, 0, sizeof(REQUESTS));
    return (pl_engine_source_t){NULL, n, get, NULL};
}

static void expect_first(pl_turns_t *turns, int32_t request, int64_t at_ns)
{
    pl_turn_t first = pl_turns_first(turns);

    ck_assert_int_eq(first.at_ns, at_ns);
    if (at_ns < INT64_MAX) {
        ck_assert_int_eq(first.request, request);
        pl_turns_pop(turns, first);
    }
}

/* Many times are the same. */
START_TEST(the_earliest_comes_first_then_the_lowest_number)
{
    pl_rng_t rng = pl_rng_seed(
        pl_test_seed("the_earliest_comes_first_then_the_lowest_number"));
    pl_engine_source_t source = source_of(0);
    pl_turns_t turns          = {0};
    pl_turn_t last            = {-1, -1};

    ck_assert_int_eq(pl_turns_open(&source, NULL, &turns), PL_OK);
    for (int32_t i = 0; i < MOST; i++) {
        pl_turn_t turn = {(int64_t)pl_rng_below(&rng, MOST / 4), i};

        ck_assert_int_eq(pl_turns_push(&turns, turn), PL_OK);
    }
    for (int32_t i = 0; i < MOST; i++) {
        pl_turn_t first = pl_turns_first(&turns);

        ck_assert(
            (first.at_ns > last.at_ns) ||
            ((first.at_ns == last.at_ns) && (first.request > last.request)));
        pl_turns_pop(&turns, first);
        last = first;
    }
    expect_first(&turns, 0, INT64_MAX);
    pl_turns_close(&turns);
}
END_TEST

/* 0 and 1 are skipped; 2 waits for 0, 3 for 1 and 2, 4 and 5 for 2. */
START_TEST(who_is_skipped_is_not_waited_for)
{
    static const int32_t zero[]  = {0};
    static const int32_t two[]   = {2};
    static const int32_t some[]  = {1, 2};
    static const uint8_t skip[6] = {1, 1};
    pl_engine_source_t source    = source_of(6);
    pl_turns_t turns             = {0};
    int64_t soonest_ns           = 0;

    REQUESTS[2] = (pl_request_t){.arrival_ns = 50, .after = zero, .n_after = 1};
    REQUESTS[3] = (pl_request_t){.after = some, .n_after = 2, .delay_ns = 20};
    REQUESTS[4] = (pl_request_t){.after = two, .n_after = 1, .delay_ns = 10};
    REQUESTS[5] = (pl_request_t){
        .arrival_ns = 500, .after = two, .n_after = 1, .not_before = true};
    ck_assert_int_eq(pl_turns_open(&source, skip, &turns), PL_OK);
    expect_first(&turns, 2, 50);
    expect_first(&turns, 0, INT64_MAX);
    ck_assert_int_eq(pl_turns_ended(&turns, 2, 100, &soonest_ns), PL_OK);
    ck_assert_int_eq(soonest_ns, 110);
    expect_first(&turns, 4, 110);
    expect_first(&turns, 3, 120);
    expect_first(&turns, 5, 500);
    ck_assert_int_eq(pl_turns_ended(&turns, 4, 200, &soonest_ns), PL_OK);
    ck_assert_int_eq(soonest_ns, INT64_MAX);
    pl_turns_close(&turns);
}
END_TEST

START_TEST(nobody_waits_for_who_comes_later)
{
    static const int32_t one[] = {1};
    pl_engine_source_t source  = source_of(2);
    pl_turns_t turns           = {0};

    for (int32_t i = 0; i < 2; i++) {
        REQUESTS[i].after   = one;
        REQUESTS[i].n_after = 1;
        ck_assert_int_eq(pl_turns_open(&source, NULL, &turns), PL_ERR_ARGUMENT);
        pl_turns_close(&turns);
        turns               = (pl_turns_t){0};
        REQUESTS[i].n_after = 0;
    }
}
END_TEST

TCase *turns_case(void)
{
    TCase *tcase = tcase_create("turns");

    tcase_add_test(tcase, the_earliest_comes_first_then_the_lowest_number);
    tcase_add_test(tcase, who_is_skipped_is_not_waited_for);
    tcase_add_test(tcase, nobody_waits_for_who_comes_later);
    return tcase;
}
