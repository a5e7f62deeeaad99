/* cli/launch.h - who started this process, and starting mpirun. */
#ifndef PL_CLI_LAUNCH_H
#define PL_CLI_LAUNCH_H

#include <stdbool.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* What the environment says; MPI need not be initialised. */
typedef struct pl_cli_world {
    bool launched; /* by mpirun, srun or the like */
    int rank;      /* 0 unless launched */
    int size;      /* 1 unless launched */
} pl_cli_world_t;

pl_cli_world_t pl_cli_world(void);

/* Set the variables that Open MPI needs on a machine with few cores, in a
 * container and (only then) for root, for programs that this process starts.
 * A variable that is set already is left alone. */
void pl_cli_mpirun_environment(void);

/* Run `mpirun -n n_ranks <this program> argv[1..]` and wait for it: its exit
 * status, or 4 with one line in `log`.  Another line tells of a rank that a
 * signal ended.  The caller should end with this status at once: SIGINT,
 * SIGTERM, SIGHUP and SIGCHLD stay blocked. */
int pl_cli_launch_mpirun(int n_ranks, int argc, char *const *argv,
                         const pl_log_t *log);

#endif /* PL_CLI_LAUNCH_H */
