/* The benchmark measures something, and prints it for whoever reads the log.
 * No time is asserted: a busy machine would make that a coin toss. */
#include "pool/lanes_bench.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(the_benchmark_runs_and_its_pool_stays_sound)
{
    pl_log_t log = pl_log_stderr(PL_LOG_WARN);
    pl_lanes_bench_result_t result;

    ck_assert_int_eq(pl_lanes_bench(&log, 1, &result), PL_OK);
    ck_assert_int_eq(result.n_lanes, 8);
    ck_assert_int_eq(result.n_pages, 2048);
    ck_assert_int_ge(result.n_operations, 1000000);
    ck_assert(result.used > 0.8 && result.used < 0.95);
    ck_assert(result.take_ns > 0 && result.free_ns > 0);
    ck_assert(result.take_mixed_ns > 0 && result.free_mixed_ns > 0);
    ck_assert(result.stack_take_ns > 0 && result.stack_free_ns > 0);
    ck_assert(result.memcpy_ns > 0);
    printf("ns a page: take %.2f free %.2f, mixed owners %.2f %.2f; "
           "plain stack %.2f %.2f, memcpy %.3f\n",
           result.take_ns, result.free_ns, result.take_mixed_ns,
           result.free_mixed_ns, result.stack_take_ns, result.stack_free_ns,
           result.memcpy_ns);
}
END_TEST

int main(void)
{
    Suite *suite    = suite_create("lanes_bench");
    TCase *tcase    = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_benchmark_runs_and_its_pool_stays_sound);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
