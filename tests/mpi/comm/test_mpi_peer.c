/* Processes that read each other's pages do what every communicator does
 * (support/comm_suite.h), and come back when a peer does not. */
#include <stdio.h>
#include <string.h>

#include <pagelane/mpi.h>

#include "comm/peer.h"
#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/mpi_check.h"
#include "support/seed.h"

enum { STRIDE = 4096, SLOTS = 4, MOST_RANKS = 8 };

static log_capture_t said;
static int rank, n_ranks;
static pl_device_t *device;
static uint8_t *store, *view;
static pl_comm_t *base; /* of the test's communicator */

static uint8_t *take(pl_memory_t kind, size_t n_bytes)
{
    void *mem = NULL;

    ck_assert_all(MPI_COMM_WORLD, pl_device_alloc(device, kind, n_bytes,
                                                  "pages", &mem) == PL_OK);
    return mem;
}

static void set_up(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    log_capture_open(&said);
    ck_assert_all(MPI_COMM_WORLD,
                  pl_device_open("guard", &said.log, &device) == PL_OK);
    store = take(PL_MEMORY_SHARED, (size_t)SLOTS * STRIDE);
    view  = take(PL_MEMORY_DEVICE, (size_t)MOST_RANKS * STRIDE);
}

static void tear_down(void)
{
    pl_device_free(device, store);
    pl_device_free(device, view);
    ck_assert_all(MPI_COMM_WORLD, pl_device_check(device) == PL_OK);
    pl_device_close(device);
    log_capture_close(&said);
}

static pl_comm_t *create(int n_prefill, double timeout_s)
{
    pl_comm_t *comm = NULL;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_WORLD, n_prefill, timeout_s,
                                     &said.log, &base) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD,
                  pl_comm_open_peer(base, device, &comm) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD,
                  (comm->rank == rank) && (comm->n_ranks == n_ranks) &&
                      (comm->n_prefill == n_prefill) && comm->queues);
    return comm;
}

static void close_both(pl_comm_t *comm)
{
    pl_comm_close(comm);
    pl_comm_close(base);
}

static uint64_t shared_seed(const char *test)
{
    uint64_t seed = rank == 0 ? pl_test_seed(test) : 0;

    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return seed;
}

static void run_suite(int n_prefill, uint64_t seed)
{
    comm_notes_t notes = {.seed = seed, .device = device};
    pl_comm_t *comm    = create(n_prefill, 30.0);

    for (int i = 0; i < n_comm_cases; i++) {
        comm_cases[i].run(comm, &notes);
    }
    close_both(comm);
    if (notes.n_failed > 0) {
        fprintf(stderr, "%d failed, first %s\n", notes.n_failed, notes.first);
    }
    ck_assert_all(MPI_COMM_WORLD, notes.n_failed == 0);
}

START_TEST(processes_pass_the_suite)
{
    uint64_t seed = shared_seed("processes_pass_the_suite");

    /* all prefill; one rank that has nothing to gather; half */
    for (uint64_t i = 0; i < 4; i++) {
        run_suite(n_ranks, seed + i);
    }
    if (n_ranks > 1) {
        run_suite(n_ranks - 1, seed + 4);
    }
    if (n_ranks > 3) {
        run_suite(n_ranks / 2, seed + 5);
    }
}
END_TEST

/* Slot i of all ranks, rewritten for each gather, with an agree in between: a
 * word that rises too early, or one that is not waited for, is seen. */
static uint8_t byte_of(int owner, int slot, int round)
{
    return (uint8_t)(owner * 31 + slot * 7 + round);
}

static pl_status_t gather_slot(pl_comm_t *comm, int slot)
{
    pl_page_t pages[MOST_RANKS];
    int32_t rows[MOST_RANKS];
    pl_gather_t gather = {
        .pages = pages, .n_pages = n_ranks, .n_parts = 1, .rows = rows};

    for (int owner = 0; owner < n_ranks; owner++) {
        pages[owner] = pl_page_at(owner, slot, n_ranks);
    }
    gather.parts[0].region = 4;
    gather.parts[0].stride = STRIDE;
    gather.parts[0].view   = view;
    return pl_comm_gather(comm, &gather);
}

static bool view_is_right(int slot, int round)
{
    for (int owner = 0; owner < n_ranks; owner++) {
        for (size_t i = 0; i < STRIDE; i++) {
            if (view[(size_t)owner * STRIDE + i] !=
                byte_of(owner, slot, round)) {
                return false;
            }
        }
    }
    return true;
}

static pl_status_t expose_store(pl_comm_t *comm)
{
    return pl_comm_expose(comm, 4, PL_MEMORY_SHARED, store,
                          (size_t)SLOTS * STRIDE);
}

START_TEST(what_is_written_before_a_gather_is_read_by_it)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    bool good       = true;
    uint64_t word   = 0;

    ck_assert_all(MPI_COMM_WORLD, expose_store(comm) == PL_OK);
    for (int round = 0; round < 100; round++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            memset(store + (size_t)slot * STRIDE, byte_of(rank, slot, round),
                   STRIDE);
            good = good && (gather_slot(comm, slot) == PL_OK) &&
                   view_is_right(slot, round);
        }
        good = good && (pl_comm_agree(comm, &word, 1) == PL_OK);
    }
    ck_assert_all(MPI_COMM_WORLD, good);
    close_both(comm);
}
END_TEST

/* Memory that was exposed may be replaced, and the old one freed. */
START_TEST(memory_may_be_replaced)
{
    pl_comm_t *comm = create(n_ranks, 30.0);

    for (int round = 0; round < 5; round++) {
        uint8_t *before = store;

        store = take(PL_MEMORY_SHARED, (size_t)SLOTS * STRIDE);
        ck_assert_all(MPI_COMM_WORLD, expose_store(comm) == PL_OK);
        pl_device_free(device, before);
        memset(store, byte_of(rank, 0, round), STRIDE);
        ck_assert_all(MPI_COMM_WORLD, gather_slot(comm, 0) == PL_OK);
        ck_assert_all(MPI_COMM_WORLD, view_is_right(0, round));
    }
    close_both(comm);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 0);
}
END_TEST

/* ---- a rank that stalls or fails ---- */

/* What MPI still holds after a failure is known here: no leak. */
static pl_comm_t *volatile kept[2];

START_TEST(a_rank_that_stalls_ends_in_a_timeout)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    bool waits      = rank != n_ranks - 1;
    pl_status_t got = PL_ERR_COMM;
    char last[16];

    kept[0] = base;
    ck_assert_all(MPI_COMM_WORLD, expose_store(comm) == PL_OK);
    comm->timeout_s = 0.4;
    if (waits) {
        got = gather_slot(comm, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        got = gather_slot(comm, 0); /* the others are there no more */
    }
    ck_assert_all(MPI_COMM_WORLD, got == PL_ERR_COMM);
    ck_assert_all(MPI_COMM_WORLD, gather_slot(comm, 0) == PL_ERR_COMM);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines <= 1);
    /* others may be late, too; that one is the last of all */
    (void)snprintf(last, sizeof(last), " %d\n", n_ranks - 1);
    ck_assert_all(MPI_COMM_WORLD, !waits || (said.n_lines == 0) ||
                                      (strstr(said.text, last) != NULL));
    close_both(comm);
}
END_TEST

START_TEST(a_rank_that_fails_wakes_all_others)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    bool waits      = rank != n_ranks - 1;
    pl_status_t got = PL_ERR_COMM;

    kept[1] = base;
    ck_assert_all(MPI_COMM_WORLD, expose_store(comm) == PL_OK);
    if (waits) {
        got = gather_slot(comm, 0);
    } else {
        comm_pause_s(0.1);
        pl_comm_fail(comm, PL_ERR_IO);
    }
    ck_assert_all(MPI_COMM_WORLD, got == (waits ? PL_ERR_PEER : PL_ERR_COMM));
    ck_assert_all(MPI_COMM_WORLD, said.n_lines == 0);
    close_both(comm);
}
END_TEST

/* 9.33 seen at the gather itself by who waits for a rank at another one */
START_TEST(gathers_that_differ_are_found)
{
    pl_comm_t *comm = create(n_ranks, 30.0);
    uint64_t word   = 0;
    pl_status_t got;

    ck_assert_all(MPI_COMM_WORLD, expose_store(comm) == PL_OK);
    got = gather_slot(comm, rank == n_ranks - 1 ? 1 : 0);
    if (got == PL_OK) {
        got = pl_comm_agree(comm, &word, 1);
    }
    ck_assert_all(MPI_COMM_WORLD, got == PL_ERR_DISAGREE);
    ck_assert_all(MPI_COMM_WORLD, said.n_lines <= 1);
    close_both(comm);
}
END_TEST

static Suite *mpi_peer_suite(void)
{
    Suite *suite = suite_create("mpi_peer");
    TCase *tcase = tcase_create("peer");
    int n        = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, processes_pass_the_suite);
    tcase_add_test(tcase, what_is_written_before_a_gather_is_read_by_it);
    tcase_add_test(tcase, memory_may_be_replaced);
    if (n > 1) {
        tcase_add_test(tcase, a_rank_that_stalls_ends_in_a_timeout);
        tcase_add_test(tcase, a_rank_that_fails_wakes_all_others);
        tcase_add_test(tcase, gathers_that_differ_are_found);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return mpi_check_main(&argc, &argv, mpi_peer_suite);
}
