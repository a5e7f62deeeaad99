/* Every number goes to one rank, whatever rank 0 does meanwhile. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/local.h"
#include "comm/mpi_comm.h"
#include "comm/mpi_counter.h"
#include "support/log_capture.h"
#include "support/mpi_check.h"

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

static pl_comm_t *open_comm(void)
{
    pl_comm_t *comm = NULL;

    ck_assert_all(
        MPI_COMM_WORLD,
        pl_mpi_comm_create(MPI_COMM_WORLD, 1, 60.0, &said.log, &comm) == PL_OK);
    return comm;
}

START_TEST(each_number_once)
{
    enum { NUMBERS = 1000 };
    pl_comm_t *comm       = open_comm();
    pl_counter_t *counter = NULL;
    uint64_t times[NUMBERS + 64];
    int64_t number = 0;
    int64_t last   = -1;
    bool ascending = true;

    memset(times, 0, sizeof(times));
    ck_assert_all(MPI_COMM_WORLD, pl_counter_open(comm, &counter) == PL_OK);
    while (number < NUMBERS) {
        ck_assert_int_eq(pl_counter_next(counter, &number), PL_OK);
        ascending = ascending && (number > last) && (number < NUMBERS + 64);
        last      = number;
        times[ascending ? number : 0]++;
    }
    ck_assert_all(MPI_COMM_WORLD, ascending);
    ck_assert_int_eq(pl_comm_sum(comm, times, NUMBERS + 64), PL_OK);
    for (int i = 0; i < NUMBERS + 64; i++) {
        ck_assert_uint_eq(times[i], i < NUMBERS + n_ranks ? 1 : 0);
    }
    pl_counter_close(counter);
    pl_comm_close(comm);
}
END_TEST

/* A number of rank 0 that all reach without MPI: to look at it helps no call of
 * others along. */
static atomic_int *shared_number(MPI_Win *window)
{
    MPI_Aint n         = rank == 0 ? (MPI_Aint)sizeof(atomic_int) : 0;
    int unit           = 0;
    atomic_int *number = NULL;

    MPI_Win_allocate_shared(n, sizeof(atomic_int), MPI_INFO_NULL,
                            MPI_COMM_WORLD, &number, window);
    MPI_Win_shared_query(*window, 0, &n, &unit, &number);
    if (rank == 0) {
        atomic_init(number, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return number;
}

/* Rank 0 works and pokes, until the others have got their numbers meanwhile. */
START_TEST(rank_0_works_too)
{
    pl_comm_t *comm       = open_comm();
    pl_counter_t *counter = NULL;
    int64_t number        = 0;
    MPI_Win window;
    atomic_int *n_done = shared_number(&window);

    ck_assert_all(MPI_COMM_WORLD, pl_counter_open(comm, &counter) == PL_OK);
    if (rank == 0) {
        while (atomic_load(n_done) < n_ranks - 1) {
            pl_counter_poke(counter);
        }
    } else {
        for (int i = 0; i < 20; i++) {
            ck_assert_int_eq(pl_counter_next(counter, &number), PL_OK);
        }
        atomic_fetch_add(n_done, 1);
    }
    pl_counter_close(counter);
    MPI_Win_free(&window);
    pl_comm_close(comm);
}
END_TEST

START_TEST(alone_it_counts)
{
    pl_counter_t *counter = NULL;
    int64_t number        = -1;

    ck_assert_int_eq(pl_counter_open(NULL, &counter), PL_OK);
    for (int i = 0; i < 3; i++) {
        pl_counter_poke(counter);
        ck_assert_int_eq(pl_counter_next(counter, &number), PL_OK);
        ck_assert_int_eq(number, i);
    }
    pl_counter_close(counter);
    pl_counter_close(NULL);
}
END_TEST

static pl_status_t refused(void *context, pl_comm_t *comm)
{
    pl_counter_t *counter = NULL;

    (void)context;
    return (pl_counter_open(comm, &counter) == PL_ERR_ARGUMENT) &&
                   (counter == NULL)
               ? PL_OK
               : PL_ERR_INTERNAL;
}

START_TEST(threads_have_none)
{
    ck_assert_int_eq(pl_comm_run_local(2, 1, 10.0, &said.log, refused, NULL),
                     PL_OK);
}
END_TEST

static Suite *suite(void)
{
    Suite *s    = suite_create("counter");
    TCase *test = tcase_create("counter");

    tcase_add_checked_fixture(test, set_up, tear_down);
    tcase_add_test(test, each_number_once);
    tcase_add_test(test, rank_0_works_too);
    tcase_add_test(test, alone_it_counts);
    tcase_add_test(test, threads_have_none);
    suite_add_tcase(s, test);
    return s;
}

int main(int argc, char **argv)
{
    return mpi_check_main(&argc, &argv, suite);
}
