/* Processes do what every communicator does (support/comm_suite.h), and come
 * back when a peer does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi_comm.h"
#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/mpi_check.h"
#include "support/seed.h"

static log_capture_t said;
static int rank, n_ranks;

static void set_up(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

static pl_comm_t *create(int n_prefill, double timeout_s)
{
    pl_comm_t *comm = NULL;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_WORLD, n_prefill, timeout_s,
                                     &said.log, &comm) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD, (comm->rank == rank) &&
                                      (comm->n_ranks == n_ranks) &&
                                      (comm->n_prefill == n_prefill));
    return comm;
}

static uint64_t shared_seed(const char *test)
{
    uint64_t seed = rank == 0 ? pl_test_seed(test) : 0;

    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return seed;
}

static void check_notes(const comm_notes_t *notes)
{
    if (notes->n_failed > 0) {
        fprintf(stderr, "%d failed, first %s\n", notes->n_failed, notes->first);
    }
    ck_assert_all(MPI_COMM_WORLD, notes->n_failed == 0);
}

/* block_bytes: how large a piece of a message may be; small ones show that a
 * message of more than 2 GiB would arrive as well. */
static void run_suite(int n_prefill, size_t block_bytes, uint64_t seed)
{
    comm_notes_t notes = {.seed = seed};
    pl_comm_t *comm    = create(n_prefill, 30.0);

    ((pl_mpi_t *)comm)->block_bytes = block_bytes;
    for (int i = 0; i < n_comm_cases; i++) {
        comm_cases[i].run(comm, &notes);
    }
    pl_comm_close(comm);
    check_notes(&notes);
}

START_TEST(processes_pass_the_suite)
{
    uint64_t seed = shared_seed("processes_pass_the_suite");

    /* all prefill; one rank that has nothing to gather; half */
    run_suite(n_ranks, (size_t)1 << 30, seed);
    if (n_ranks > 1) {
        run_suite(n_ranks - 1, (size_t)1 << 30, seed + 1);
    }
    if (n_ranks > 3) {
        run_suite(n_ranks / 2, (size_t)1 << 30, seed + 2);
    }
}
END_TEST

START_TEST(processes_pass_the_suite_in_small_pieces)
{
    static const size_t blocks[] = {333, 1000, 4096};

    run_suite(n_ranks, blocks[_i],
              shared_seed("processes_pass_the_suite_in_small_pieces"));
}
END_TEST

START_TEST(processes_pass_large_messages)
{
    comm_notes_t notes = {0};
    pl_comm_t *comm    = create(n_ranks, 30.0);

    comm_case_large(comm, &notes);
    pl_comm_close(comm);
    check_notes(&notes);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 0);
}
END_TEST

START_TEST(impossible_arguments_are_refused_on_all_ranks)
{
    pl_comm_t *comm = NULL;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_WORLD, n_ranks + 1, 1, &said.log,
                                     &comm) == PL_ERR_ARGUMENT);
    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_WORLD, 1, 0, &said.log, &comm) ==
                      PL_ERR_ARGUMENT);
    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_NULL, 1, 1, &said.log, &comm) ==
                      PL_ERR_ARGUMENT);
    ck_assert_all(MPI_COMM_WORLD, comm == NULL);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 3);
}
END_TEST

START_TEST(the_mpi_communicator_underneath_is_a_duplicate)
{
    pl_comm_t *comm = create(1, 30.0);
    int result      = MPI_UNEQUAL;

    MPI_Comm_compare(pl_mpi_comm_of(comm), MPI_COMM_WORLD, &result);
    ck_assert_all(MPI_COMM_WORLD, result == MPI_CONGRUENT);
    pl_mpi_comm_close(comm);
    pl_mpi_comm_close(NULL);
}
END_TEST

/* ---- a rank that stalls ---- */

enum { AGREE, SUM, BROADCAST, BARRIER, GATHER, RECEIVE, STALLS };

/* What close has to leave to MPI is still known here: no leak. */
static pl_comm_t *volatile kept[STALLS];

static pl_status_t do_call(int call, pl_comm_t *comm, uint64_t *word)
{
    static uint8_t store[64];
    static uint8_t views[8][64];
    static pl_page_t pages[8];
    static int32_t rows[8];
    pl_gather_t gather = {
        .pages = pages, .n_pages = n_ranks, .n_parts = 1, .rows = rows};
    pl_message_t message = 0;

    switch (call) {
    case AGREE:
        return pl_comm_agree(comm, word, 1);
    case SUM:
        return pl_comm_sum(comm, word, 1);
    case BROADCAST:
        return pl_comm_broadcast(comm, n_ranks - 1, word, sizeof(*word));
    case BARRIER:
        return pl_comm_barrier(comm);
    case GATHER:
        for (int i = 0; i < n_ranks; i++) { /* one page of each rank */
            pages[i] = i;
        }
        PL_TRY(pl_comm_expose(comm, 0, PL_MEMORY_HOST, store, sizeof(store)));
        gather.parts[0].stride = 64;
        gather.parts[0].view   = views[0];
        return pl_comm_gather(comm, &gather);
    default:
        PL_TRY(pl_comm_receive(comm, n_ranks - 1, 8, word, sizeof(*word),
                               &message));
        return pl_comm_wait(comm, message);
    }
}

/* A timeout is an error of the communicator: the waiting ranks get it at the
 * call, all later calls fail at once, and the rank that comes when they have
 * given up does not hang either.  Memory of the failed call stays (here:
 * static). */
START_TEST(a_rank_that_stalls_ends_in_a_timeout)
{
    static uint64_t word;
    pl_comm_t *comm  = create(n_ranks, 0.3);
    bool waits       = rank != n_ranks - 1;
    pl_status_t got  = PL_ERR_COMM;
    pl_status_t then = PL_ERR_COMM;

    word     = 0;
    kept[_i] = comm;
    if (waits) {
        got  = do_call(_i, comm, &word);
        then = pl_comm_barrier(comm);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD); /* all others have given up */
        (void)do_call(_i == RECEIVE ? AGREE : _i, comm, &word);
        then = pl_comm_barrier(comm);
    }
    ck_assert_all(MPI_COMM_WORLD, got == PL_ERR_COMM);
    ck_assert_all(MPI_COMM_WORLD, then == PL_ERR_COMM);
    ck_assert_all(MPI_COMM_WORLD,
                  !waits || (strstr(said.text, "waited 0.3 s") != NULL));
    if ((_i == GATHER) || (_i == RECEIVE)) { /* it is known who is missing */
        char last[16];

        /* others may be late, too; that one is the last of all */
        snprintf(last, sizeof(last), " %d\n", n_ranks - 1);
        ck_assert_all(MPI_COMM_WORLD,
                      !waits || (strstr(said.text, last) != NULL));
    }
    ck_assert_all(MPI_COMM_WORLD, said.n_lines <= 2);
    pl_comm_close(comm);
}
END_TEST

/* ---- ranks that differ ---- */

/* 9.33 the ranks made other calls before: found by the next agree, on all */
START_TEST(calls_that_differ_are_found)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    uint64_t word   = 0;
    int region      = rank == n_ranks - 1 ? 1 : 0;

    ck_assert_all(MPI_COMM_WORLD, pl_comm_expose(comm, region, PL_MEMORY_HOST,
                                                 NULL, 0) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD, pl_comm_agree(comm, &word, 1) ==
                                      (n_ranks > 1 ? PL_ERR_DISAGREE : PL_OK));
    ck_assert_all(MPI_COMM_WORLD,
                  (n_ranks == 1) ||
                      (strstr(said.text, "ranks disagree") != NULL));
    pl_comm_close(comm);
}
END_TEST

START_TEST(a_shorter_message_is_refused)
{
    pl_comm_t *comm      = create(n_ranks, 30.0);
    uint8_t bytes[16]    = {0};
    pl_message_t receive = 0;
    pl_message_t send    = 0;
    pl_status_t got;
    int next = (rank + 1) % n_ranks;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_comm_receive(comm, (rank + n_ranks - 1) % n_ranks, 4,
                                  bytes, 9, &receive) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD,
                  pl_comm_send(comm, next, 4, bytes + 9, 7, &send) == PL_OK);
    got = pl_comm_wait(comm, receive);
    ck_assert_all(MPI_COMM_WORLD, pl_comm_wait(comm, send) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD, got == PL_ERR_DISAGREE);
    ck_assert_all(MPI_COMM_WORLD,
                  strstr(said.text, "has 7 bytes, not 9") != NULL);
    pl_comm_close(comm);
}
END_TEST

START_TEST(a_tag_too_large_is_refused)
{
    pl_comm_t *comm      = create(n_ranks, 30.0);
    pl_message_t message = 0;

    ((pl_mpi_t *)comm)->tag_limit = 32767;
    ck_assert_all(MPI_COMM_WORLD, pl_comm_send(comm, 0, 32768, NULL, 0,
                                               &message) == PL_ERR_ARGUMENT);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 1);
    pl_comm_close(comm);
}
END_TEST

START_TEST(a_forgotten_receive_is_reported_at_close)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    static uint8_t bytes[8];
    pl_message_t message = 0;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_comm_receive(comm, 0, 4, bytes, 8, &message) == PL_OK);
    pl_comm_close(comm);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 1);
    ck_assert_all(MPI_COMM_WORLD,
                  strstr(said.text, "never waited for") != NULL);
}
END_TEST

static Suite *mpi_comm_suite(void)
{
    Suite *suite = suite_create("mpi_comm");
    TCase *tcase = tcase_create("mpi");
    int n        = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, processes_pass_the_suite);
    tcase_add_loop_test(tcase, processes_pass_the_suite_in_small_pieces, 0, 3);
    tcase_add_test(tcase, processes_pass_large_messages);
    tcase_add_test(tcase, impossible_arguments_are_refused_on_all_ranks);
    tcase_add_test(tcase, the_mpi_communicator_underneath_is_a_duplicate);
    if (n > 1) {
        /* each takes seconds: all calls once, two at the other sizes */
        tcase_add_loop_test(tcase, a_rank_that_stalls_ends_in_a_timeout,
                            n == 3 ? 0 : GATHER, STALLS);
    }
    tcase_add_test(tcase, calls_that_differ_are_found);
    tcase_add_test(tcase, a_shorter_message_is_refused);
    tcase_add_test(tcase, a_tag_too_large_is_refused);
    tcase_add_test(tcase, a_forgotten_receive_is_reported_at_close);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return mpi_check_main(&argc, &argv, mpi_comm_suite);
}
