/* Words that ranks tell each other, in one process and from another. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/peer_comm.h"
#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "test_comm.h"

static log_capture_t said;

static void set_up(void)
{
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

static uint64_t trace_of(uint64_t n)
{
    return n * 1000 + 7;
}

START_TEST(what_was_come_to_is_seen_and_which_it_was)
{
    pl_peer_words_t own, seen;
    pl_share_t share;

    ck_assert_int_eq(pl_peer_words_make(&own, &said.log, &share), PL_OK);
    ck_assert_int_eq(pl_peer_words_open(&seen, &said.log, &share), PL_OK);
    ck_assert(!pl_peer_words_came(&seen, 1));
    for (uint64_t n = 1; n <= 300; n++) {
        pl_peer_words_raise(&own, trace_of(n));
        ck_assert(pl_peer_words_came(&seen, n));
        ck_assert(!pl_peer_words_came(&seen, n + 1));
        for (uint64_t back = 0; (back < n) && (back < 100); back++) {
            bool known = back < PL_PEER_TRACES - 1;

            ck_assert(pl_peer_words_agree(&seen, n - back, trace_of(n - back)));
            ck_assert(pl_peer_words_agree(&seen, n - back, 1) == !known);
        }
    }
    pl_peer_words_close(&own); /* who has it open has it still */
    ck_assert(pl_peer_words_came(&seen, 300));
    ck_assert(pl_peer_words_live(&seen));
    pl_peer_words_close(&seen);
    pl_peer_words_close(&seen);
}
END_TEST

START_TEST(the_first_reason_to_end_stays)
{
    pl_peer_words_t own;
    pl_share_t share;

    ck_assert_int_eq(pl_peer_words_make(&own, &said.log, &share), PL_OK);
    ck_assert_int_eq(pl_peer_words_state(&own), PL_PEER_GOES_ON);
    pl_peer_words_end(&own, PL_PEER_GAVE_UP);
    pl_peer_words_end(&own, PL_PEER_LEFT);
    ck_assert_int_eq(pl_peer_words_state(&own), PL_PEER_GAVE_UP);
    pl_peer_words_close(&own);
}
END_TEST

/* ---- of another process ---- */

/* Rank 1: it comes to `n` gathers, then waits to be killed. */
static pid_t start_peer(uint64_t n, pl_share_t *share)
{
    int ends[2];
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        pl_peer_words_t own;
        bool good = pl_peer_words_make(&own, NULL, share) == PL_OK;

        for (uint64_t i = 1; i <= n; i++) {
            pl_peer_words_raise(&own, trace_of(i));
        }
        good = good && (write(ends[1], share, sizeof(*share)) > 0);
        while (good) {
            (void)pause();
        }
        _exit(1);
    }
    (void)close(ends[1]);
    ck_assert_int_eq(read(ends[0], share, sizeof(*share)),
                     (ssize_t)sizeof(*share));
    (void)close(ends[0]);
    return child;
}

static void end_peer(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* Rank 0, which waits for rank 1 at gather n. */
static pl_status_t wait_at(const pl_share_t *share, uint64_t n, bool dies,
                           pid_t child)
{
    pl_peer_rank_t ranks[2] = {0};
    pl_peer_t self          = {.ranks = ranks, .n_gathers = n};
    bool missing[2]         = {false, true};
    pl_share_t mine;
    pl_status_t status;

    self.over.comm = (pl_comm_t){.log           = &said.log,
                                 .n_ranks       = 2,
                                 .n_prefill     = 2,
                                 .timeout_s     = 20,
                                 .prefill_trace = trace_of(n)};
    ck_assert_int_eq(pl_peer_words_make(&ranks[0].words, &said.log, &mine),
                     PL_OK);
    ck_assert_int_eq(pl_peer_words_open(&ranks[1].words, &said.log, share),
                     PL_OK);
    if (dies) {
        end_peer(child);
    }
    status = pl_peer_wait(&self, missing, 1);
    pl_peer_words_close(&ranks[0].words);
    pl_peer_words_close(&ranks[1].words);
    return status;
}

START_TEST(a_process_that_dies_is_not_waited_for)
{
    pl_share_t share;
    pid_t child = start_peer(2, &share);

    ck_assert_int_eq(wait_at(&share, 3, true, child), PL_ERR_COMM);
    ck_assert_str_eq(said.text, /* not that it waited so long */
                     "rank 0: gather waits for ranks that have ended: 1\n");
}
END_TEST

START_TEST(what_a_process_came_to_before_it_died_counts)
{
    pl_share_t share;
    pid_t child = start_peer(3, &share);

    ck_assert_int_eq(wait_at(&share, 3, true, child), PL_OK);
    ck_assert_str_eq(said.text, "");
}
END_TEST

START_TEST(a_process_at_another_gather_is_found)
{
    pl_share_t share;
    pid_t child = start_peer(5, &share);
    pl_peer_words_t words;

    ck_assert_int_eq(wait_at(&share, 4, false, child), PL_OK);
    ck_assert_int_eq(pl_peer_words_open(&words, &said.log, &share), PL_OK);
    ck_assert(!pl_peer_words_agree(&words, 4, trace_of(5)));
    ck_assert(pl_peer_words_live(&words));
    end_peer(child);
    ck_assert(!pl_peer_words_live(&words));
    pl_peer_words_close(&words);
}
END_TEST

TCase *peer_words_case(void)
{
    TCase *tcase = tcase_create("peer words");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_was_come_to_is_seen_and_which_it_was);
    tcase_add_test(tcase, the_first_reason_to_end_stays);
    tcase_add_test(tcase, a_process_that_dies_is_not_waited_for);
    tcase_add_test(tcase, what_a_process_came_to_before_it_died_counts);
    tcase_add_test(tcase, a_process_at_another_gather_is_found);
    return tcase;
}
