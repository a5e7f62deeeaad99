/* support/mpi_check.h - Check under mpirun: an assertion that fails on one rank
 * must not leave the others waiting. */
#ifndef SUPPORT_MPI_CHECK_H
#define SUPPORT_MPI_CHECK_H

#include <check.h>
#include <mpi.h>

/* Collective.  Fails on every rank if the condition is false on any. */
#define ck_assert_all(comm, condition)                                         \
    do {                                                                       \
        int mine_ = (condition) ? 1 : 0;                                       \
        int all_  = 0;                                                         \
                                                                               \
        MPI_Allreduce(&mine_, &all_, 1, MPI_INT, MPI_LAND, (comm));            \
        ck_assert_msg(mine_, "failed on this rank: %s", #condition);           \
        ck_assert_msg(all_, "failed on another rank: %s", #condition);         \
    } while (0)

/* The main() of an MPI test: starts MPI, runs the suite without forking, ends
 * MPI; one exit status on all ranks. */
int mpi_check_main(int *argc, char ***argv, Suite *(*suite)(void));

#endif /* SUPPORT_MPI_CHECK_H */
