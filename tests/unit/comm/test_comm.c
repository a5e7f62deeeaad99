/* Virtual ranks do what every communicator does (support/comm_suite.h). */
#include "test_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/seed.h"

enum { MOST_RANKS = 8 };

static log_capture_t said;

static void set_up(void)
{
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

typedef struct work {
    const comm_case_t *cases;
    int n_cases;
    comm_notes_t notes[MOST_RANKS];
} work_t;

static pl_status_t run_cases(void *context, pl_comm_t *comm)
{
    work_t *work = context;

    for (int i = 0; i < work->n_cases; i++) {
        work->cases[i].run(comm, &work->notes[comm->rank]);
    }
    return PL_OK;
}

static void run_suite(const comm_case_t *cases, int n_cases, int n_ranks,
                      int n_prefill, uint64_t seed)
{
    work_t work = {.cases = cases, .n_cases = n_cases};

    for (int rank = 0; rank < n_ranks; rank++) {
        work.notes[rank].seed = seed;
    }
    ck_assert_int_eq(pl_comm_run_local(n_ranks, n_prefill, 60.0, &said.log,
                                       run_cases, &work),
                     PL_OK);
    for (int rank = 0; rank < n_ranks; rank++) {
        ck_assert_msg(work.notes[rank].n_failed == 0, "%d failed, first %s",
                      work.notes[rank].n_failed, work.notes[rank].first);
    }
}

START_TEST(local_ranks_pass_the_suite)
{
    uint64_t seed = pl_test_seed("local_ranks_pass_the_suite");

    for (int n_prefill = 1; n_prefill <= _i; n_prefill++) {
        run_suite(comm_cases, n_comm_cases, _i, n_prefill,
                  seed + (uint64_t)n_prefill);
    }
}
END_TEST

START_TEST(local_ranks_pass_large_messages)
{
    static const comm_case_t large = {"large", comm_case_large};

    run_suite(&large, 1, _i, _i, 0);
    ck_assert_str_eq(said.text, "");
}
END_TEST

static pl_status_t count_up(void *context, pl_comm_t *comm)
{
    uint64_t one       = 1;
    pl_status_t status = pl_comm_sum(comm, &one, 1);

    if (comm->rank == 0) {
        *(uint64_t *)context = one;
    }
    return status;
}

START_TEST(many_more_ranks_than_cores)
{
    uint64_t n = 0;

    ck_assert_int_eq(pl_comm_run_local(200, 127, 60.0, &said.log, count_up, &n),
                     PL_OK);
    ck_assert_uint_eq(n, 200);
}
END_TEST

START_TEST(impossible_groups_are_refused)
{
    uint64_t n = 0;

    ck_assert_int_eq(pl_comm_run_local(0, 0, 1, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_comm_run_local(2, 3, 1, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_comm_run_local(2, 0, 1, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_comm_run_local(200, 128, 1, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_comm_run_local(2, 2, 0, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_comm_run_local(2, 2, -1, &said.log, count_up, &n),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(said.n_lines, 6);
    ck_assert_uint_eq(n, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm");
    TCase *tcase = tcase_create("local");
    SRunner *runner;
    int n_failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, local_ranks_pass_the_suite, 1, MOST_RANKS + 1);
    tcase_add_loop_test(tcase, local_ranks_pass_large_messages, 1, 4);
    tcase_add_test(tcase, many_more_ranks_than_cores);
    tcase_add_test(tcase, impossible_groups_are_refused);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, local_failures_case());
    suite_add_tcase(suite, peer_case());
    suite_add_tcase(suite, peer_queues_case());
    suite_add_tcase(suite, peer_words_case());
    suite_add_tcase(suite, nccl_case());
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
