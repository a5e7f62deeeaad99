/* All ranks write one snapshot in parallel, or none does.
 *
 * Leaves ranks<n>.h5 in the folder it runs in, for a comparison of all n. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pagelane/mpi.h>

#include "store/file.h"
#include "store/reader.h"
#include "support/mpi_check.h"
#include "support/snapshot_sample.h"

static pl_comm_t *comm;
static int rank, n_ranks;
static pl_log_t quiet; /* failures are wanted here */

static void set_up(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    ck_assert_int_eq(pl_mpi_comm_create(MPI_COMM_WORLD, 1, 30.0, &quiet, &comm),
                     PL_OK);
}

static void tear_down(void)
{
    pl_mpi_comm_close(comm);
}

/* Enough events for packed datasets of several chunks: not every rank has some
 * of each, and rank 0 none of most. */
static snapshot_sample_t make(int32_t n_requests)
{
    snapshot_sample_params_t params = snapshot_sample_params(3);
    snapshot_sample_t sample;

    params.n_requests = n_requests;
    ck_assert_all(MPI_COMM_WORLD,
                  snapshot_sample_run(&params, NULL, &sample) == PL_OK);
    return sample;
}

static bool can_be_read(const char *path)
{
    pl_log_t log            = pl_log_stderr(PL_LOG_ERROR);
    pl_snapshot_t *snapshot = NULL;
    pl_snapshot_column_t column;
    bool good;

    if (pl_snapshot_open(path, &log, &snapshot) != PL_OK) {
        return false;
    }
    good = pl_snapshot_read(snapshot, "/requests/digest", PL_ITEM_U64,
                            PL_ANY_ROWS, 0, &column) == PL_OK;
    if (good) {
        pl_snapshot_column_free(&column);
    }
    pl_snapshot_close(snapshot);
    return good;
}

START_TEST(all_ranks_write_one_file)
{
    snapshot_sample_t sample = make(150);
    char path[64];

    (void)snprintf(path, sizeof(path), "ranks%d.h5", n_ranks);
    ck_assert_all(MPI_COMM_WORLD, pl_snapshot_write(&sample.input, comm, path,
                                                    &quiet) == PL_OK);
    ck_assert_all(MPI_COMM_WORLD, can_be_read(path));
    snapshot_sample_close(&sample);
}
END_TEST

/* Most datasets are empty, or shorter than there are ranks. */
START_TEST(ranks_without_rows_take_part)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "idle%d.h5", n_ranks);
    for (int32_t n = 0; n < 2; n++) {
        snapshot_sample_t sample = make(n);

        ck_assert_all(MPI_COMM_WORLD, pl_snapshot_write(&sample.input, comm,
                                                        path, &quiet) == PL_OK);
        ck_assert_all(MPI_COMM_WORLD, can_be_read(path));
        snapshot_sample_close(&sample);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) {
        (void)unlink(path);
    }
}
END_TEST

/* Rank 0 cannot create the file: every rank comes back, none hangs. */
START_TEST(missing_folder_fails_on_every_rank)
{
    snapshot_sample_t sample = make(5);
    pl_status_t status =
        pl_snapshot_write(&sample.input, comm, "no/such/folder/x.h5", &quiet);

    ck_assert_all(MPI_COMM_WORLD,
                  status == (rank == 0 ? PL_ERR_IO : PL_ERR_PEER));
    snapshot_sample_close(&sample);
}
END_TEST

/* From here on writes of this process fail behind the first bytes of a file. */
static void fill_disk(struct rlimit *before)
{
    struct rlimit limit;

    (void)getrlimit(RLIMIT_FSIZE, before);
    limit          = *before;
    limit.rlim_cur = 4096;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* The disk of one rank is full: no rank publishes, the old file stays. */
START_TEST(failing_rank_stops_all)
{
    snapshot_sample_t sample = make(150);
    int failing              = _i % n_ranks;
    struct rlimit before;
    pl_status_t status;
    char path[64], partial[96];

    (void)snprintf(path, sizeof(path), "fails%d.h5", n_ranks);
    (void)snprintf(partial, sizeof(partial), "%s.partial", path);
    ck_assert_all(MPI_COMM_WORLD, pl_snapshot_write(&sample.input, comm, path,
                                                    &quiet) == PL_OK);
    if (rank == failing) {
        fill_disk(&before);
    }
    status = pl_snapshot_write(&sample.input, comm, path, &quiet);
    if (rank == failing) {
        (void)setrlimit(RLIMIT_FSIZE, &before);
    }
    ck_assert_all(MPI_COMM_WORLD,
                  (status == PL_ERR_IO) ||
                      ((rank != failing) && (status == PL_ERR_PEER)));
    ck_assert_all(MPI_COMM_WORLD, can_be_read(path));
    ck_assert_all(MPI_COMM_WORLD, access(partial, F_OK) != 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        (void)unlink(path);
    }
    snapshot_sample_close(&sample);
}
END_TEST

static Suite *suite(void)
{
    Suite *all   = suite_create("mpi_snapshot");
    TCase *tcase = tcase_create("parallel");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, all_ranks_write_one_file);
    tcase_add_test(tcase, ranks_without_rows_take_part);
    tcase_add_test(tcase, missing_folder_fails_on_every_rank);
    tcase_add_loop_test(tcase, failing_rank_stops_all, 0, 2);
    suite_add_tcase(all, tcase);
    return all;
}

int main(int argc, char **argv)
{
    return mpi_check_main(&argc, &argv, suite);
}
