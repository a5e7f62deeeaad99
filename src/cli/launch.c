#define _GNU_SOURCE /* process_vm_readv */

#include "cli/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <pagelane/cli.h>

/* The launchers we know; PMIx alone tells no size, Slurm does. */
static const struct {
    const char *rank, *size;
} LAUNCHERS[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMI_RANK", "PMI_SIZE"},
                 {"PMIX_RANK", "SLURM_NTASKS"}};

/* A number of a variable, or `otherwise` if it is not set. */
static int variable(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return (text == NULL) ? otherwise : (int)strtol(text, NULL, 10);
}

pl_cli_world_t pl_cli_world(void)
{
    pl_cli_world_t world = {false, 0, 1};

    for (size_t i = 0; i < sizeof(LAUNCHERS) / sizeof(LAUNCHERS[0]); i++) {
        int rank = variable(LAUNCHERS[i].rank, -1);
        int size = variable(LAUNCHERS[i].size, -1);

        if ((rank >= 0) && (size > rank)) {
            world = (pl_cli_world_t){true, rank, size};
            break;
        }
    }
    return world;
}

bool pl_cli_launched(void)
{
    return pl_cli_world().launched;
}

/* A filter that forbids the call forbids it for the own process too. */
static bool can_copy_between_processes(void)
{
    char from           = 1;
    char to             = 0;
    struct iovec source = {&from, 1};
    struct iovec target = {&to, 1};

    return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1;
}

void pl_cli_mpirun_environment(void)
{
    if (geteuid() == 0) {
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    (void)setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    (void)setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    (void)setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
    /* Some containers forbid the system call behind single copies, and Open MPI
     * says so for every message. */
    if (!can_copy_between_processes()) {
        (void)setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    }
    /* The program has said what was wrong; mpirun need not say it again. */
    (void)setenv("OMPI_MCA_orte_execute_quiet", "1", 0);
}

pl_status_t pl_cli_launch_mpirun(int n_ranks, int argc, char *const *argv,
                                 const pl_log_t *log)
{
    char program[4096];
    char count[16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char **command;
    int n = 0;

    if (length < 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot find the own program in /proc: %s; start it with "
               "mpirun -n %d",
               strerror(errno), n_ranks);
        return PL_ERR_RESOURCE;
    }
    program[length] = '\0';
    command         = calloc((size_t)argc + 5, sizeof(*command));
    if (command == NULL) {
        pl_log(log, PL_LOG_ERROR, "out of memory while starting mpirun");
        return PL_ERR_MEMORY;
    }
    (void)snprintf(count, sizeof(count), "%d", n_ranks);
    command[n++] = "mpirun";
    command[n++] = "-n";
    command[n++] = count;
    command[n++] = program;
    for (int i = 1; i < argc; i++) {
        command[n++] = argv[i];
    }
    pl_cli_mpirun_environment();
    (void)execvp(command[0], command);
    pl_log(log, PL_LOG_ERROR,
           "option --ranks %d: cannot start mpirun: %s; install openmpi-bin, "
           "put mpirun into PATH, or use --comm local",
           n_ranks, strerror(errno));
    free(command);
    return PL_ERR_RESOURCE;
}
