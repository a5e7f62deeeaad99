/* A rank that fails, stalls, leaves or does something else: the others come
 * back, with the status that says which. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "test_comm.h"

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

/* What the other ranks wait in. */
typedef enum call {
    AGREE,
    SUM,
    BROADCAST,
    BARRIER,
    EXPOSE,
    GATHER,
    RECEIVE,
    CALLS
} call_t;

typedef enum trouble {
    RETURN_ERROR, /* the body returns a failure */
    CALL_FAIL,    /* pl_comm_fail, then it goes on for a while */
    LEAVE,        /* the body returns PL_OK early */
    STALL,        /* until all others have given up */
} trouble_t;

typedef struct plan {
    call_t call;
    trouble_t trouble;
    int bad;           /* the rank with the trouble */
    double patience_s; /* of all calls from the trouble on; 0: as before it */
    pl_status_t got[MOST_RANKS];
    double waited_s[MOST_RANKS];
    atomic_int n_back; /* ranks that have come back from the call */
} plan_t;

static pl_status_t do_call(call_t call, pl_comm_t *comm, int bad)
{
    static const pl_page_t page = 0;
    uint64_t word               = 0;
    uint8_t view[4]             = {0};
    int32_t row                 = 0;
    pl_message_t message        = 0;
    pl_gather_t gather          = {
                 .pages = &page, .n_pages = 1, .n_parts = 1, .rows = &row};

    switch (call) {
    case AGREE:
        return pl_comm_agree(comm, &word, 1);
    case SUM:
        return pl_comm_sum(comm, &word, 1);
    case BROADCAST:
        return pl_comm_broadcast(comm, bad, &word, sizeof(word));
    case BARRIER:
        return pl_comm_barrier(comm);
    case EXPOSE:
        return pl_comm_expose(comm, 0, PL_MEMORY_HOST, NULL, 0);
    case GATHER:
        gather.parts[0].region = 1;
        gather.parts[0].stride = 4;
        gather.parts[0].view   = view;
        return pl_comm_gather(comm, &gather);
    case RECEIVE:
    case CALLS:
        break;
    }
    PL_TRY(pl_comm_receive(comm, bad, 3, &word, sizeof(word), &message));
    return pl_comm_wait(comm, message);
}

static pl_status_t make_trouble(plan_t *plan, pl_comm_t *comm)
{
    switch (plan->trouble) {
    case RETURN_ERROR:
        return PL_ERR_IO;
    case CALL_FAIL:
        pl_comm_fail(comm, PL_ERR_IO);
        comm_pause_s(0.05);
        return PL_ERR_IO;
    case LEAVE:
        return PL_OK;
    case STALL:
        break;
    }
    while (atomic_load(&plan->n_back) < comm->n_ranks - 1) {
        comm_pause_s(0.01);
    }
    return do_call(plan->call == RECEIVE ? BARRIER : plan->call, comm,
                   plan->bad);
}

static pl_status_t have_trouble(void *context, pl_comm_t *comm)
{
    plan_t *plan      = context;
    uint8_t store[64] = {0};
    double begin;

    PL_TRY(pl_comm_expose(comm, 1, PL_MEMORY_HOST, store, sizeof(store)));
    PL_TRY(pl_comm_barrier(comm)); /* all was well so far */
    if (plan->patience_s > 0) {
        comm->timeout_s = plan->patience_s;
    }
    begin                      = comm_now_s();
    plan->got[comm->rank]      = comm->rank == plan->bad
                                     ? make_trouble(plan, comm)
                                     : do_call(plan->call, comm, plan->bad);
    plan->waited_s[comm->rank] = comm_now_s() - begin;
    atomic_fetch_add(&plan->n_back, 1);
    return plan->got[comm->rank];
}

static pl_status_t run_plan(plan_t *plan, int n_ranks)
{
    return pl_comm_run_local(n_ranks, n_ranks, 60.0, &said.log, have_trouble,
                             plan);
}

START_TEST(a_rank_that_fails_wakes_all_others)
{
    static const trouble_t troubles[] = {RETURN_ERROR, CALL_FAIL};

    for (int n_ranks = 2; n_ranks <= MOST_RANKS; n_ranks += 3) {
        for (int t = 0; t < 2; t++) {
            plan_t plan = {.call    = (call_t)_i,
                           .trouble = troubles[t],
                           .bad     = t == 0 ? 0 : n_ranks - 1};

            ck_assert_int_eq(run_plan(&plan, n_ranks), PL_ERR_IO);
            for (int rank = 0; rank < n_ranks; rank++) {
                ck_assert_int_eq(plan.got[rank],
                                 rank == plan.bad ? PL_ERR_IO : PL_ERR_PEER);
            }
        }
    }
    ck_assert_str_eq(said.text, ""); /* who failed has said why */
}
END_TEST

/* A rank that comes when another has given up waits no more. */
static double longest_wait_s(const plan_t *plan, int n_ranks)
{
    double longest = 0;

    for (int rank = 0; rank < n_ranks; rank++) {
        if (rank != plan->bad && plan->waited_s[rank] > longest) {
            longest = plan->waited_s[rank];
        }
    }
    return longest;
}

/* On a busy machine others may be late beside the one that stalls; that one
 * is the last of all. */
static int last_missing_rank(void)
{
    const char *missing = strstr(said.text, "did not come: ");
    const char *end;

    ck_assert_ptr_nonnull(missing);
    missing += strlen("did not come: ");
    end = missing + strspn(missing, "0123456789, ");
    while (end > missing && (end[-1] < '0' || end[-1] > '9')) {
        end--;
    }
    while (end > missing && end[-1] >= '0' && end[-1] <= '9') {
        end--;
    }
    return atoi(end);
}

START_TEST(a_rank_that_stalls_ends_in_a_timeout_everywhere)
{
    for (int n_ranks = 2; n_ranks <= MOST_RANKS; n_ranks += 3) {
        plan_t plan = {.call       = (call_t)_i,
                       .trouble    = STALL,
                       .bad        = n_ranks - 1,
                       .patience_s = 0.4};

        said.n       = 0;
        said.n_lines = 0;
        ck_assert_int_eq(run_plan(&plan, n_ranks), PL_ERR_COMM);
        for (int rank = 0; rank < n_ranks; rank++) {
            ck_assert_int_eq(plan.got[rank], PL_ERR_COMM);
        }
        ck_assert(longest_wait_s(&plan, n_ranks) >= 0.4);
        ck_assert_int_eq(said.n_lines, 1); /* the first to give up says it */
        ck_assert_ptr_nonnull(strstr(said.text, "waited 0.4 s"));
        if ((call_t)_i != RECEIVE) {
            ck_assert_int_eq(last_missing_rank(), plan.bad);
        }
    }
}
END_TEST

START_TEST(a_rank_that_has_left_is_not_waited_for)
{
    plan_t plan = {.call = (call_t)_i, .trouble = LEAVE, .bad = 1};

    ck_assert_int_eq(run_plan(&plan, 4), PL_ERR_COMM);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(plan.got[rank],
                         rank == plan.bad ? PL_OK : PL_ERR_COMM);
    }
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ended"));
    ck_assert_ptr_nonnull(strchr(said.text, '1'));
}
END_TEST

/* A message that was sent before its sender left still arrives. */
static pl_status_t send_and_leave(void *context, pl_comm_t *comm)
{
    pl_message_t message = 0;
    int value            = 77;

    if (comm->rank == 0) {
        PL_TRY(pl_comm_send(comm, 1, 0, &value, sizeof(value), &message));
        return pl_comm_wait(comm, message);
    }
    comm_pause_s(0.05);
    PL_TRY(pl_comm_receive(comm, 0, 0, context, sizeof(value), &message));
    return pl_comm_wait(comm, message);
}

START_TEST(a_message_outlives_its_sender)
{
    int value = 0;

    ck_assert_int_eq(
        pl_comm_run_local(2, 1, 60.0, &said.log, send_and_leave, &value),
        PL_OK);
    ck_assert_int_eq(value, 77);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* 9.33 rank 1 is at another call, at another size, at other pages */
static pl_status_t differ(void *context, pl_comm_t *comm)
{
    int kind           = *(int *)context;
    bool odd           = comm->rank == 1;
    uint64_t words[2]  = {0, 0};
    uint8_t store[8]   = {0};
    uint8_t view[16]   = {0};
    int32_t rows[2]    = {0};
    pl_page_t pages[2] = {0, odd ? 1 : 0};
    pl_gather_t gather = {
        .pages = pages, .n_pages = 2, .n_parts = 1, .rows = rows};

    gather.parts[0].stride = 8;
    gather.parts[0].view   = view;
    switch (kind) {
    case 0:
        return odd ? pl_comm_barrier(comm) : pl_comm_agree(comm, words, 1);
    case 1:
        return pl_comm_agree(comm, words, odd ? 2 : 1);
    case 2:
        return pl_comm_broadcast(comm, odd ? 1 : 0, words, 8);
    case 3:
        return pl_comm_expose(comm, odd ? 1 : 0, PL_MEMORY_HOST, store, 8);
    default:
        PL_TRY(pl_comm_expose(comm, 0, PL_MEMORY_HOST, store, sizeof(store)));
        return pl_comm_gather(comm, &gather);
    }
}

START_TEST(calls_that_differ_are_found)
{
    int kind = _i;

    ck_assert_int_eq(pl_comm_run_local(4, 4, 60.0, &said.log, differ, &kind),
                     PL_ERR_DISAGREE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ranks disagree: rank "));
}
END_TEST

typedef struct lengths {
    size_t n;     /* that the receiver says; 8 are sent */
    bool is_late; /* the receive is posted after the send */
} lengths_t;

static pl_status_t wrong_length(void *context, pl_comm_t *comm)
{
    const lengths_t *lengths = context;
    uint8_t bytes[16]        = {0};
    pl_message_t message     = 0;

    if (lengths->is_late == (comm->rank == 1)) {
        PL_TRY(pl_comm_barrier(comm));
    }
    if (comm->rank == 0) {
        PL_TRY(pl_comm_send(comm, 1, 4, bytes, 8, &message));
    } else {
        PL_TRY(pl_comm_receive(comm, 0, 4, bytes, lengths->n, &message));
    }
    if (lengths->is_late == (comm->rank == 0)) {
        PL_TRY(pl_comm_barrier(comm));
    }
    return pl_comm_wait(comm, message);
}

START_TEST(a_message_of_another_length_is_refused)
{
    lengths_t lengths = {_i % 2 == 0 ? 7 : 9, _i / 2 == 1};

    ck_assert_int_eq(
        pl_comm_run_local(2, 1, 60.0, &said.log, wrong_length, &lengths),
        PL_ERR_DISAGREE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "has 8 bytes, not "));
}
END_TEST

/* Rank 2 fails while rank 0 sends to rank 1: when that has heard of it, its
 * memory is its own again, the message in it whole or not begun. */
enum { LARGE = 32 << 20 };

typedef struct large {
    uint8_t *from, *to;
    double pause_s; /* from the sending to the failure */
    atomic_bool sending;
    bool is_whole;
} large_t;

static pl_status_t fail_meanwhile(void *context, pl_comm_t *comm)
{
    large_t *large       = context;
    pl_message_t message = 0;
    pl_status_t status;

    if (comm->rank == 1) {
        PL_TRY(pl_comm_receive(comm, 0, 4, large->to, LARGE, &message));
    }
    PL_TRY(pl_comm_barrier(comm));
    if (comm->rank == 0) {
        atomic_store(&large->sending, true);
        PL_TRY(pl_comm_send(comm, 1, 4, large->from, LARGE, &message));
        return pl_comm_barrier(comm); /* ended, it would be the failure */
    }
    if (comm->rank == 2) {
        while (!atomic_load(&large->sending)) {
            comm_pause_s(0.0001);
        }
        comm_pause_s(large->pause_s);
        return PL_ERR_IO;
    }
    status          = pl_comm_barrier(comm);
    large->is_whole = memcmp(large->to, large->to + 1, (size_t)LARGE - 1) == 0;
    return status;
}

START_TEST(nobody_writes_to_a_rank_that_was_told_of_a_failure)
{
    large_t large = {
        .from = malloc(LARGE), .to = malloc(LARGE), .pause_s = 0.001 * _i};

    ck_assert_ptr_nonnull(large.from);
    ck_assert_ptr_nonnull(large.to);
    memset(large.from, 1, LARGE);
    memset(large.to, 0, LARGE);
    ck_assert_int_eq(
        pl_comm_run_local(3, 1, 60.0, &said.log, fail_meanwhile, &large),
        PL_ERR_IO);
    ck_assert(large.is_whole);
    free(large.from);
    free(large.to);
}
END_TEST

/* Nothing leaks (ASan looks) and something is said. */
static pl_status_t forget(void *context, pl_comm_t *comm)
{
    uint8_t *bytes       = context;
    pl_message_t message = 0;

    if (comm->rank == 0) {
        PL_TRY(pl_comm_send(comm, 1, 4, bytes, 8, &message));
        PL_TRY(pl_comm_send(comm, 1, 5, bytes, 8, &message));
    } else {
        PL_TRY(pl_comm_receive(comm, 0, 4, bytes + 8, 8, &message));
    }
    return pl_comm_barrier(comm);
}

START_TEST(a_forgotten_receive_is_reported)
{
    uint8_t bytes[16] = {0};

    ck_assert_int_eq(pl_comm_run_local(2, 1, 60.0, &said.log, forget, bytes),
                     PL_OK);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "never waited for"));
}
END_TEST

/* The worst status wins over PL_ERR_PEER, the lowest rank over a higher one. */
static pl_status_t fail_with(void *context, pl_comm_t *comm)
{
    return ((const pl_status_t *)context)[comm->rank];
}

START_TEST(the_status_of_a_run_is_that_of_the_lowest_rank_that_failed)
{
    pl_status_t one[]  = {PL_OK, PL_ERR_PEER, PL_ERR_IO, PL_ERR_MEMORY};
    pl_status_t peer[] = {PL_OK, PL_ERR_PEER, PL_OK, PL_OK};
    pl_status_t good[] = {PL_OK, PL_OK, PL_OK, PL_OK};

    ck_assert_int_eq(pl_comm_run_local(4, 4, 60.0, &said.log, fail_with, one),
                     PL_ERR_IO);
    ck_assert_int_eq(pl_comm_run_local(4, 4, 60.0, &said.log, fail_with, peer),
                     PL_ERR_PEER);
    ck_assert_int_eq(pl_comm_run_local(4, 4, 60.0, &said.log, fail_with, good),
                     PL_OK);
}
END_TEST

TCase *local_failures_case(void)
{
    TCase *tcase = tcase_create("local failures");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_rank_that_fails_wakes_all_others, 0, CALLS);
    tcase_add_loop_test(tcase, a_rank_that_stalls_ends_in_a_timeout_everywhere,
                        0, CALLS);
    tcase_add_loop_test(tcase, a_rank_that_has_left_is_not_waited_for, 0,
                        CALLS);
    tcase_add_test(tcase, a_message_outlives_its_sender);
    tcase_add_loop_test(tcase, calls_that_differ_are_found, 0, 5);
    tcase_add_loop_test(tcase, a_message_of_another_length_is_refused, 0, 4);
    tcase_add_loop_test(
        tcase, nobody_writes_to_a_rank_that_was_told_of_a_failure, 0, 6);
    tcase_add_test(tcase, a_forgotten_receive_is_reported);
    tcase_add_test(tcase,
                   the_status_of_a_run_is_that_of_the_lowest_rank_that_failed);
    return tcase;
}
