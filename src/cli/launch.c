#define _GNU_SOURCE /* process_vm_readv, pipe2 */

#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
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

/* ---- mpirun as a child ----
 *
 * This process stays behind to tell of a rank that could not tell itself: one
 * that the system killed.  It must not be in the way of what ends a run: a
 * signal sent to it alone goes on to mpirun, and mpirun ends with it. */

static void block_signals(sigset_t *set, sigset_t *before)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, set, before);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, there would be no status */
}

/* In the child: mpirun, or errno into `report` and an end without a trace. */
static void become_mpirun(char **command, pid_t parent, const sigset_t *mask,
                          int report)
{
    int error = 0;

    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent) {
        (void)execvp(command[0], command);
        error = errno;
        (void)!write(report, &error, sizeof(error));
    }
    (void)raise(SIGKILL); /* not exit(): the parent's files are not ours */
}

/* 0, or the errno of what failed. */
static int start_mpirun(char **command, const sigset_t *mask, pid_t *child_p)
{
    pid_t parent = getpid();
    int error    = 0;
    int report[2];

    if (pipe2(report, O_CLOEXEC) != 0) {
        return errno;
    }
    *child_p = fork();
    if (*child_p == 0) {
        become_mpirun(command, parent, mask, report[1]);
    }
    error = *child_p < 0 ? errno : 0;
    (void)close(report[1]);
    if ((error == 0) &&
        (read(report[0], &error, sizeof(error)) == sizeof(error))) {
        (void)waitpid(*child_p, NULL, 0);
    }
    (void)close(report[0]);
    return error;
}

/* The exit status of the child, 128 + n if signal n ended it; *stopped_p is the
 * signal that asked for it, or 0. */
static int wait_for(pid_t child, const sigset_t *set, int *stopped_p)
{
    int status = 0;

    *stopped_p = 0;
    while (waitpid(child, &status, WNOHANG) != child) {
        siginfo_t info;
        int number = sigwaitinfo(set, &info);

        if ((number < 0) || (number == SIGCHLD)) {
            continue;
        }
        *stopped_p = number;
        if (info.si_code <= 0) { /* a terminal sends its own to mpirun too */
            (void)kill(child, number);
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_mpirun(char **command, const pl_log_t *log)
{
    sigset_t set, before;
    int exit_status, stopped, error;
    pid_t child = -1;

    block_signals(&set, &before);
    error = start_mpirun(command, &before, &child);
    if (error != 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        pl_log(log, PL_LOG_ERROR,
               "option --ranks %s: cannot start mpirun: %s; install "
               "openmpi-bin, put mpirun into PATH, or use --comm local",
               command[2], strerror(error));
        return pl_status_exit(PL_ERR_RESOURCE);
    }
    exit_status = wait_for(child, &set, &stopped);
    if (stopped != 0) {
        return 128 + stopped; /* mpirun's 1 would say that a check failed */
    }
    if (exit_status > 128) {
        pl_log(log, PL_LOG_ERROR,
               "one of %s ranks was ended by signal %d (%s)%s", command[2],
               exit_status - 128, strsignal(exit_status - 128),
               exit_status - 128 == SIGKILL
                   ? "; if memory ran out, lower the page options"
                   : "");
    }
    return exit_status;
}

int pl_cli_launch_mpirun(int n_ranks, int argc, char *const *argv,
                         const pl_log_t *log)
{
    char program[4096];
    char count[16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char **command;
    int exit_status;
    int n = 0;

    if (length < 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot find the own program in /proc: %s; start it with "
               "mpirun -n %d",
               strerror(errno), n_ranks);
        return pl_status_exit(PL_ERR_RESOURCE);
    }
    program[length] = '\0';
    command         = calloc((size_t)argc + 5, sizeof(*command));
    if (command == NULL) {
        pl_log(log, PL_LOG_ERROR, "out of memory while starting mpirun");
        return pl_status_exit(PL_ERR_MEMORY);
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
    exit_status = run_mpirun(command, log);
    free(command);
    return exit_status;
}
