/* cli/run_clock.h: ticks of any length become the requests' times of day. */
#include "cli/run_clock.h"

#include "support/check_main.h"

enum { MS = 1000000 };

static void add(pl_run_clock_t *clock, int64_t virtual_ms, int64_t real_ms,
                bool is_jump)
{
    pl_run_tick_t tick = {virtual_ms * MS, real_ms * MS, is_jump};

    ck_assert_int_eq(PL_ARRAY_PUSH(&clock->ticks, tick), PL_OK);
}

static pl_record_t request(int64_t arrival_ms, int64_t first_ms,
                           int64_t finished_ms)
{
    return (pl_record_t){.arrival_ns     = arrival_ms * MS,
                         .first_token_ns = first_ms * MS,
                         .finished_ns    = finished_ms * MS};
}

/* Virtual ticks of 10 ms that took 30, 5, 20; then nobody was there until 100.
 */
START_TEST(times_follow_the_ticks)
{
    pl_run_clock_t clock  = {0};
    pl_run_times_t times  = {0};
    pl_record_t records[] = {request(0, 10, 30), request(15, 20, 30),
                             request(100, 110, 110)};

    add(&clock, 0, 30, false);
    add(&clock, 10, 35, false);
    add(&clock, 20, 55, false);
    add(&clock, 30, 56, true);
    add(&clock, 100, 64, false);
    add(&clock, 110, 65, true);
    ck_assert_int_eq(pl_run_clock_times_of(&clock, records, 3, &times), PL_OK);
    ck_assert_int_eq(times.arrival_ns[0], 0);
    ck_assert_int_eq(times.first_token_ns[0], 30 * MS);
    ck_assert_int_eq(times.finished_ns[0], 55 * MS);
    /* in the middle of a tick of 5 ms */
    ck_assert_int_eq(times.arrival_ns[1], 32 * MS + MS / 2);
    ck_assert_int_eq(times.first_token_ns[1], 35 * MS);
    /* 70 ms with nothing to do pass as if they had been waited for */
    ck_assert_int_eq(times.arrival_ns[2], 125 * MS);
    ck_assert_int_eq(times.first_token_ns[2], 133 * MS);
    pl_run_times_free(&times);
    pl_run_clock_free(&clock);
}
END_TEST

/* A jump to the end of a copy that a request waits for took what it took. */
START_TEST(a_wait_for_a_copy_is_none)
{
    pl_run_clock_t clock  = {0};
    pl_run_times_t times  = {0};
    pl_record_t records[] = {request(0, 60, 70), request(-1, -1, -1)};

    records[1] = (pl_record_t){
        .arrival_ns = -1, .first_token_ns = -1, .finished_ns = -1};
    add(&clock, 0, 2, true);
    add(&clock, 50, 10, false);
    add(&clock, 60, 14, false);
    add(&clock, 70, 15, true);
    ck_assert_int_eq(pl_run_clock_times_of(&clock, records, 2, &times), PL_OK);
    ck_assert_int_eq(times.first_token_ns[0], 10 * MS);
    ck_assert_int_eq(times.finished_ns[0], 14 * MS);
    ck_assert_int_eq(times.arrival_ns[1], -1);
    ck_assert_int_eq(times.first_token_ns[1], -1);
    ck_assert_int_eq(times.finished_ns[1], -1);
    pl_run_times_free(&times);
    pl_run_clock_free(&clock);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("run_clock");

    tcase_add_test(tcase, times_follow_the_ticks);
    tcase_add_test(tcase, a_wait_for_a_copy_is_none);
    return tcase;
}

PL_CHECK_MAIN("run_clock", all())
