/* pagelane sweep: simulations of a grid of options, on whatever ranks there
 * are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/exit_status.h"
#include "cli/idle.h"
#include "cli/sweep_files.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_judge.h"
#include "cli/sweep_point.h"
#include "cli/sweep_print.h"
#include "cli/trace_file.h"
#include "comm/mpi_counter.h"
#include "sim/sweep.h"
#include "store/file.h"

/* Points of a rank that took less together are synced together: else the disk
 * would take longer than points that take a millisecond. */
#define SYNC_S 0.25

enum {
    PROGRESS_S = 5,
    /* A rank that has nothing left waits for the others' last points, however
     * long; of ranks that are gone the launcher knows. */
    PATIENCE_S = 7 * 86400,
    TICKS      = 64, /* between two looks at what others want */
    /* That mpirun is asked for: of many more it is never done. */
    MOST_STARTED = 1024
};

typedef struct sweep {
    const pl_cli_t *cli;
    size_t n;                 /* points */
    pl_sweep_point_t *points; /* [n] */
    double *estimates;        /* [n] */
    size_t *todo;             /* [n_todo] the longest first */
    size_t n_todo;
    double work, done; /* of todo; of what has been handed out */
    size_t n_known;    /* before this run */
    bool is_ended;     /* all of them: they are those of the file */
    char *folder, *partial;
    char *identity; /* on rank 0 */
    int lock;       /* of partial, on rank 0; -1: none */
    pl_sweep_lab_t *lab;
    pl_counter_t *counter;
    size_t n_out; /* points handed out, as far as this rank knows */
    int ticks;
    struct timespec started, told, synced; /* synced 0: never */
} sweep_t;

static double seconds_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) +
           1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

/* For what every rank finds alike. */
static const pl_log_t *log_of_rank0(const sweep_t *sweep)
{
    return sweep->cli->world.rank == 0 ? &sweep->cli->log : NULL;
}

/* ---- progress ---- */

/* Those handed out are done but for one on each rank. */
static void tell_progress(sweep_t *sweep)
{
    size_t ranks  = (size_t)sweep->cli->world.size;
    size_t done   = sweep->n_out > ranks ? sweep->n_out - ranks : 0;
    double so_far = seconds_since(&sweep->started);
    double work   = 0;
    char left[48] = "";

    if ((sweep->cli->world.rank != 0) ||
        (seconds_since(&sweep->told) < PROGRESS_S)) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &sweep->told);
    for (size_t i = 0; i < done; i++) {
        work += sweep->estimates[sweep->todo[i]];
    }
    if (work > 0) {
        (void)snprintf(left, sizeof(left), ", about %.0f s left",
                       so_far * (sweep->work - work) / work);
    }
    pl_log(&sweep->cli->log, PL_LOG_INFO, "%zu of %zu point%s, %.0f s so far%s",
           sweep->n_known + done, sweep->n, pl_text_s((int64_t)sweep->n),
           so_far, left);
}

static void after_tick(void *context)
{
    sweep_t *sweep = context;

    if (++sweep->ticks % TICKS == 0) {
        pl_counter_poke(sweep->counter);
        tell_progress(sweep);
    }
}

/* ---- before ---- */

static pl_status_t check_options(const sweep_t *sweep)
{
    const pl_options_t *o = &sweep->cli->options;
    const pl_log_t *log   = log_of_rank0(sweep);

    if (o->output == NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --output is missing; name the HDF5 file that points go "
               "to");
        return PL_ERR_ARGUMENT;
    }
    if (sweep->cli->world.rank == 0) {
        PL_TRY(pl_idle_note(sweep->cli));
    }
    return pl_sweep_judge_check(o, log);
}

/* Rank 0: a journal in which no point ran would be in the way of the line that
 * is put right. */
static void drop_journal(const sweep_t *sweep)
{
    bool holds = false;

    if ((pl_sweep_journal_holds(sweep->folder, NULL, &holds) == PL_OK) &&
        !holds) {
        pl_sweep_journal_remove(sweep->folder);
    }
}

static pl_status_t lock_output(sweep_t *sweep)
{
    const pl_log_t *log = &sweep->cli->log;

    PL_TRY(pl_file_check(sweep->cli->options.output, "option --output", log));
    PL_TRY(pl_file_try_lock(sweep->partial, log, &sweep->lock));
    if (sweep->lock < 0) {
        pl_log(log, PL_LOG_ERROR,
               "%s is being written by another sweep; wait for it, or name "
               "another file with --output",
               sweep->cli->options.output);
        return PL_ERR_IO;
    }
    return PL_OK;
}

/* Rank 0: what is known already.  A journal with points is newer than a file
 * beside it. */
static pl_status_t read_known(sweep_t *sweep)
{
    const pl_options_t *o = &sweep->cli->options;
    const pl_log_t *log   = &sweep->cli->log;
    struct stat about;
    bool holds = false;
    bool ended;

    PL_TRY(lock_output(sweep));
    PL_TRY(pl_sweep_identity(sweep->cli, &sweep->identity));
    PL_TRY(pl_sweep_journal_holds(sweep->folder, log, &holds));
    ended = !holds && (stat(o->output, &about) == 0);
    if (ended && o->resume) {
        sweep->is_ended = true;
        return pl_sweep_known_read(o->output, sweep->identity, sweep->points,
                                   sweep->n, log);
    }
    if (ended) {
        pl_log(log, PL_LOG_INFO,
               "%s is there, and is replaced in the end; with --resume its "
               "points would be taken as they are",
               o->output);
    }
    PL_TRY(
        pl_sweep_journal_open(sweep->folder, sweep->identity, o->resume, log));
    return pl_sweep_journal_read(sweep->folder, sweep->points, sweep->n, log);
}

static pl_status_t allocate(sweep_t *sweep)
{
    const char *output = sweep->cli->options.output;
    pl_text_t text     = {0};

    sweep->points    = calloc(sweep->n, sizeof(*sweep->points));
    sweep->estimates = calloc(sweep->n, sizeof(*sweep->estimates));
    sweep->todo      = calloc(sweep->n, sizeof(*sweep->todo));
    if ((sweep->points == NULL) || (sweep->estimates == NULL) ||
        (sweep->todo == NULL)) {
        return PL_ERR_MEMORY;
    }
    pl_text_add(&text, "%s.journal", output);
    PL_TRY(pl_text_take(&text, &sweep->folder));
    return pl_file_partial(output, &sweep->cli->log, &sweep->partial);
}

static pl_status_t prepare(sweep_t *sweep)
{
    PL_TRY(check_options(sweep));
    PL_TRY(allocate(sweep));
    PL_TRY(pl_sweep_lab_open(sweep->cli, after_tick, sweep, &sweep->lab));
    return sweep->cli->world.rank == 0 ? read_known(sweep) : PL_OK;
}

/* Collective: all ranks know what rank 0 has read. */
static pl_status_t share_known(sweep_t *sweep, pl_comm_t *comm)
{
    uint8_t *known     = calloc(sweep->n, 1);
    pl_status_t status = known == NULL ? PL_ERR_MEMORY : PL_OK;

    if (comm != NULL) {
        status = pl_comm_agree_status(comm, status);
    }
    for (size_t i = 0; (status == PL_OK) && (i < sweep->n); i++) {
        known[i] = sweep->points[i].is_known;
    }
    if ((status == PL_OK) && (comm != NULL)) {
        status = pl_comm_broadcast(comm, 0, known, sweep->n);
    }
    for (size_t i = 0; (status == PL_OK) && (i < sweep->n); i++) {
        sweep->points[i].is_known = known[i] != 0;
        sweep->n_known += known[i] != 0;
    }
    free(known);
    return status;
}

/* The same on every rank. */
static pl_status_t plan(sweep_t *sweep)
{
    pl_status_t status = PL_OK;
    size_t *order;

    if (sweep->n_known == sweep->n) {
        return PL_OK; /* no trace need be read */
    }
    order = calloc(sweep->n, sizeof(*order));
    if (order == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; (i < sweep->n) && (status == PL_OK); i++) {
        status = pl_sweep_lab_estimate(sweep->lab, i, &sweep->estimates[i]);
    }
    if (status == PL_OK) {
        status = pl_sweep_longest_first(sweep->estimates, sweep->n, order);
    }
    for (size_t i = 0; (i < sweep->n) && (status == PL_OK); i++) {
        if (!sweep->points[order[i]].is_known) {
            sweep->todo[sweep->n_todo++] = order[i];
            sweep->work += sweep->estimates[order[i]];
        }
    }
    free(order);
    return status;
}

/* ---- points ---- */

static bool is_sync_due(sweep_t *sweep)
{
    if (seconds_since(&sweep->synced) < SYNC_S) {
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &sweep->synced);
    return true;
}

static pl_status_t do_point(sweep_t *sweep, size_t index)
{
    const pl_cli_t *cli    = sweep->cli;
    pl_sweep_point_t point = {.rank = cli->world.rank};
    pl_status_t status     = pl_sweep_lab_run(sweep->lab, index, &point);

    if (status == PL_OK) {
        status = pl_sweep_judge_has(&cli->options, &point, &cli->log);
    }
    if (status == PL_OK) {
        status = pl_sweep_journal_add(sweep->folder, cli->world.rank, index,
                                      &point, is_sync_due(sweep), &cli->log);
    }
    pl_sweep_point_free(&point);
    return status;
}

/* After a failure the rest is taken off, so that the others end too. */
static pl_status_t do_points(sweep_t *sweep)
{
    pl_status_t status = PL_OK;
    int64_t number     = 0;

    for (;;) {
        pl_status_t next = pl_counter_next(sweep->counter, &number);

        if (next != PL_OK) {
            return next;
        }
        if ((size_t)number >= sweep->n_todo) {
            return status;
        }
        sweep->n_out = (size_t)number + 1;
        if (status == PL_OK) {
            status = do_point(sweep, sweep->todo[number]);
            tell_progress(sweep);
        }
    }
}

/* ---- after ---- */

static pl_status_t read_points(sweep_t *sweep)
{
    const pl_log_t *log = &sweep->cli->log;

    for (size_t i = 0; i < sweep->n; i++) {
        pl_sweep_point_free(&sweep->points[i]);
    }
    PL_TRY(pl_sweep_journal_read(sweep->folder, sweep->points, sweep->n, log));
    for (size_t i = 0; i < sweep->n; i++) {
        if (!sweep->points[i].is_known) {
            pl_log(log, PL_LOG_ERROR,
                   "%s lacks a point that a rank has written; all ranks must "
                   "see that folder: repeat the command with --resume",
                   sweep->folder);
            return PL_ERR_IO;
        }
    }
    return PL_OK;
}

/* No point could be run: the first says why. */
static pl_status_t check_any(const sweep_t *sweep)
{
    for (size_t i = 0; i < sweep->n; i++) {
        if (sweep->points[i].status == PL_OK) {
            return PL_OK;
        }
    }
    pl_log(&sweep->cli->log, PL_LOG_ERROR, "no point can be run; the first: %s",
           sweep->points[0].why == NULL ? "" : sweep->points[0].why);
    return sweep->points[0].status;
}

/* Rank 0. */
static pl_status_t finish(sweep_t *sweep)
{
    const pl_cli_t *cli        = sweep->cli;
    pl_sweep_verdict_t verdict = {0};
    pl_sweep_times_t times     = {.n_ranks = cli->world.size};
    pl_status_t status;

    if (!sweep->is_ended) {
        PL_TRY(read_points(sweep));
    }
    PL_TRY(check_any(sweep));
    status = pl_sweep_judge(&cli->options, sweep->points, sweep->n, &cli->log,
                            &verdict);
    times.wall_ns = (int64_t)(1e9 * seconds_since(&sweep->started));
    if (status == PL_OK) {
        status = pl_sweep_save(cli, sweep->points, &verdict, &times,
                               sweep->identity, sweep->partial);
    }
    if (status == PL_OK) {
        pl_sweep_journal_remove(sweep->folder);
        status = pl_sweep_print(cli, sweep->points, &verdict);
        pl_log(&cli->log, PL_LOG_INFO,
               "%zu point%s, %zu of them known before, %.1f s on the wall, in "
               "%s",
               sweep->n, pl_text_s((int64_t)sweep->n), sweep->n_known,
               seconds_since(&sweep->started), cli->options.output);
    }
    pl_sweep_verdict_free(&verdict);
    return status;
}

/* A lock that was taken and not published is removed with its file. */
static void close_sweep(sweep_t *sweep, bool is_done)
{
    if ((sweep->lock >= 0) && !is_done) {
        drop_journal(sweep);
        pl_file_discard(sweep->partial);
    }
    pl_file_unlock(sweep->lock);
    pl_sweep_lab_close(sweep->lab);
    for (size_t i = 0; (sweep->points != NULL) && (i < sweep->n); i++) {
        pl_sweep_point_free(&sweep->points[i]);
    }
    free(sweep->points);
    free(sweep->estimates);
    free(sweep->todo);
    free(sweep->folder);
    free(sweep->identity);
    free(sweep->partial);
}

/* ---- one process, or one of many ---- */

static pl_status_t agree(pl_comm_t *comm, pl_status_t mine)
{
    return comm == NULL ? mine : pl_comm_agree_status(comm, mine);
}

/* Collective; comm NULL: alone. */
static pl_status_t run(sweep_t *sweep, pl_comm_t *comm)
{
    pl_status_t status;

    PL_TRY(agree(comm, prepare(sweep)));
    PL_TRY(share_known(sweep, comm));
    PL_TRY(agree(comm, plan(sweep)));
    PL_TRY(pl_counter_open(comm, &sweep->counter));
    status = agree(comm, do_points(sweep));
    pl_counter_close(sweep->counter);
    sweep->counter = NULL;
    PL_TRY(status);
    return agree(comm, sweep->cli->world.rank == 0 ? finish(sweep) : PL_OK);
}

static int run_alone(sweep_t *sweep)
{
    pl_status_t status = run(sweep, NULL);

    close_sweep(sweep, status == PL_OK);
    return pl_status_exit(status);
}

static int run_mpi(sweep_t *sweep)
{
    pl_mpi_session_t session = {0};
    pl_comm_t *comm          = NULL;
    pl_status_t status;
    int exit_status;

    status = pl_mpi_session_open(NULL, NULL, &sweep->cli->log, &session);
    if (status == PL_OK) {
        status =
            pl_mpi_comm_open(&session, 1, PATIENCE_S, &sweep->cli->log, &comm);
    }
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    status      = run(sweep, comm);
    exit_status = pl_cli_agree_on_exit(sweep->cli, &session, comm, status);
    close_sweep(sweep, status == PL_OK);
    pl_comm_close(comm);
    pl_mpi_session_close(&session);
    return exit_status;
}

/* Those that --ranks asks for, as far as there is a point for each. */
static int64_t ranks_of(const sweep_t *sweep)
{
    int64_t ranks = sweep->cli->options.ranks;

    return ranks < (int64_t)sweep->n ? ranks : (int64_t)sweep->n;
}

/* --ranks beside mpirun, or without; 0, or the exit status of what cannot be.
 */
static int check_ranks(const sweep_t *sweep)
{
    const pl_cli_t *cli = sweep->cli;
    int64_t ranks       = cli->options.ranks;

    if (!cli->world.launched && (ranks_of(sweep) > MOST_STARTED)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --ranks %" PRId64
               ": more than %d processes on one machine; give fewer, as many "
               "as it has cores, or start them on others too with mpirun",
               ranks, MOST_STARTED);
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    if (cli->world.launched && (ranks != 0) && (ranks != cli->world.size) &&
        (ranks_of(sweep) != cli->world.size)) {
        if (cli->world.rank == 0) {
            pl_log(&cli->log, PL_LOG_ERROR,
                   "option --ranks %" PRId64
                   ": mpirun started %d; leave --ranks out, or start as many",
                   ranks, cli->world.size);
        }
        return pl_status_exit(PL_ERR_ARGUMENT);
    }
    return 0;
}

/* Traces are read by each rank, for each point whose requests are others, and
 * again with --resume. */
static pl_status_t check_traces(const pl_cli_t *cli)
{
    static const char WHY[] = "a sweep reads its traces more than once";
    const pl_log_t *log     = cli->world.rank == 0 ? &cli->log : NULL;
    size_t n                = 0;
    const pl_axis_t *axes   = pl_grid_axes(cli->grid, &n);

    for (size_t a = 0; a < n; a++) {
        for (size_t i = 0; (strcmp(axes[a].option->name, "trace") == 0) &&
                           (i < axes[a].items.n);
             i++) {
            PL_TRY(pl_cli_no_stdin("trace", axes[a].items.items[i], WHY, log));
        }
    }
    for (size_t i = 0; i < cli->options.merge.n; i++) {
        PL_TRY(
            pl_cli_no_stdin("merge", cli->options.merge.items[i], WHY, log));
    }
    return PL_OK;
}

int pl_cli_sweep(const pl_cli_t *cli)
{
    sweep_t sweep = {.cli = cli, .n = pl_grid_n_points(cli->grid), .lock = -1};
    int exit_status = check_ranks(&sweep);

    if (exit_status == 0) {
        exit_status = pl_status_exit(check_traces(cli));
    }
    if (exit_status != 0) {
        return exit_status;
    }
    if (!cli->world.launched && (ranks_of(&sweep) > 1)) {
        return pl_cli_launch_mpirun((int)ranks_of(&sweep), cli->argc, cli->argv,
                                    &cli->log);
    }
    clock_gettime(CLOCK_MONOTONIC, &sweep.started);
    sweep.told = sweep.started;
    return cli->world.launched ? run_mpi(&sweep) : run_alone(&sweep);
}
