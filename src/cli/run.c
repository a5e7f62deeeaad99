/* pagelane run: a trace through prefill, cache tiers, transfer and decode. */
#include "cli/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagelane/trace.h>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/exit_status.h"
#include "cli/hardware.h"
#include "cli/idle.h"
#include "cli/planned.h"
#include "cli/progress.h"
#include "cli/run_clock.h"
#include "cli/run_files.h"
#include "cli/run_model.h"
#include "cli/run_notes.h"
#include "cli/run_snapshot.h"
#include "cli/run_storage.h"
#include "cli/trace_file.h"
#include "comm/mpi_session.h"
#include "engine/event_log.h"
#include "engine/sharing.h"

typedef struct run {
    const pl_cli_t *cli;
    const pl_run_hooks_t *hooks; /* NULL: none */
    pl_trace_t *trace;
    pl_run_params_t params;
    pl_event_log_t **logs; /* [ranks]; those of this process's ranks */
    pl_cli_model_t model;
    char *command;
    int32_t *shared; /* engine/sharing.h, for the snapshot: with, then pages */
    pl_run_files_t files;
    pl_run_clock_t clock; /* of rank 0, if there is one here */
    pl_run_snapshot_t snapshot;
    pl_run_storage_t storage;
    atomic_uint_fast64_t happened; /* of what --inject asks for, here */
    pl_progress_t progress;
} run_t;

/* ---- what the run asks for and reports to ---- */

static void read_tokens(void *context, int32_t i, int32_t first, int32_t n,
                        int32_t *tokens)
{
    pl_trace_tokens(context, i, first, n, tokens);
}

static pl_event_sink_t event_sink(void *context, int rank)
{
    run_t *run = context;

    return pl_event_log_sink(run->logs[rank]);
}

/* Are times of day written down?  In virtual time alone there are none. */
static bool is_timed(const pl_options_t *o)
{
    return (o->snapshot != NULL) && (o->executor != PL_OPT_EXECUTOR_COST);
}

static void before_ticks(void *context, int rank)
{
    run_t *run = context;

    if ((rank == 0) && is_timed(&run->cli->options)) {
        pl_run_clock_begin(&run->clock);
    }
}

static void after_tick(void *context, int rank, const pl_engine_t *engine)
{
    run_t *run = context;

    if ((rank == 0) && is_timed(&run->cli->options)) {
        pl_run_clock_tick(&run->clock, engine);
    }
    if ((run->logs != NULL) && (run->logs[rank] != NULL)) {
        pl_event_log_sample(run->logs[rank], engine);
    }
    if (rank == 0) {
        pl_progress_tell(&run->progress, run->cli, pl_engine_n_finished(engine),
                         pl_engine_n_requests(engine),
                         pl_engine_now_ns(engine));
    }
    if ((run->hooks != NULL) && (run->hooks->tick != NULL)) {
        run->hooks->tick(run->hooks->context);
    }
}

/* A violation's line has a fixed form, without the program's prefix. */
static void tell_violation(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "%s\n", line);
}

/* ---- the end ---- */

static pl_status_t write_tokens(const run_t *run,
                                const pl_run_results_t *results)
{
    const char *path = run->cli->options.tokens_out;
    FILE *file;
    int bad;

    if (path == NULL) {
        return PL_OK;
    }
    file = fopen(path, "w");
    bad  = file == NULL;
    for (int32_t i = 0; !bad && (i < results->n_requests); i++) {
        const char *comma = "";

        fprintf(file, "{\"request\": %" PRId32 ", \"tokens\": [", i);
        for (int64_t t = results->token_offsets[i];
             t < results->token_offsets[i + 1]; t++) {
            fprintf(file, "%s%" PRId32, comma, results->tokens[t]);
            comma = ", ";
        }
        fprintf(file, "]}\n");
    }
    bad |= (file != NULL) && (ferror(file) != 0);
    bad |= (file != NULL) && (fclose(file) != 0);
    if (bad) {
        pl_log(&run->cli->log, PL_LOG_ERROR,
               "option --tokens-out: cannot write %s: %s", path,
               strerror(errno));
        return PL_ERR_IO;
    }
    return PL_OK;
}

/* Collective: what --inject asks for and has happened on any rank. */
static pl_status_t find_faults(run_t *run, pl_comm_t *comm,
                               uint64_t *happened_p)
{
    *happened_p = atomic_load(&run->happened);
    return comm == NULL ? PL_OK : pl_comm_agree(comm, happened_p, 1);
}

/* Tell a hook, or whoever reads stdout. */
static pl_status_t tell_outcome(const run_t *run, const pl_engine_t *engine,
                                const pl_run_results_t *results)
{
    pl_outcome_t outcome = {0};
    pl_status_t status   = pl_outcome_of_engine(engine, &outcome);

    if (status == PL_OK) {
        status = run->hooks != NULL
                     ? run->hooks->done(run->hooks->context, &outcome, results)
                     : pl_summary_print(run->cli, &outcome, results);
    }
    pl_outcome_free(&outcome);
    return status;
}

/* Collective, after a good run. */
static pl_status_t run_done(void *context, pl_comm_t *comm,
                            const pl_engine_t *engine,
                            const pl_run_results_t *results)
{
    run_t *run              = context;
    const pl_options_t *opt = &run->cli->options;
    int rank                = comm == NULL ? 0 : comm->rank;
    uint64_t happened       = 0;

    if (opt->snapshot != NULL) {
        PL_TRY(pl_run_snapshot_write(&run->snapshot, comm, engine, results));
    }
    PL_TRY(find_faults(run, comm, &happened));
    if (rank == 0) {
        PL_TRY(write_tokens(run, results));
    }
    if (run->model.expect != NULL) {
        PL_TRY(pl_expect_judge(run->model.expect, comm, results));
    }
    if (rank != 0) {
        return PL_OK;
    }
    PL_TRY(tell_outcome(run, engine, results));
    pl_run_note_faults(run->cli, happened);
    pl_run_snapshot_tell(&run->snapshot);
    pl_log(&run->cli->log, PL_LOG_INFO, "%.1f s on the wall%s%s",
           pl_progress_seconds(&run->progress),
           opt->snapshot != NULL ? ", snapshot in " : "",
           opt->snapshot != NULL ? opt->snapshot : "");
    return PL_OK;
}

/* ---- options to parameters ---- */

/* For what every rank finds alike. */
static const pl_log_t *log_of_rank0(const run_t *run)
{
    return run->cli->world.rank == 0 ? &run->cli->log : NULL;
}

static pl_status_t open_trace(run_t *run)
{
    const pl_options_t *o    = &run->cli->options;
    const pl_log_t *log      = log_of_rank0(run);
    pl_trace_params_t params = pl_trace_params_default();

    PL_TRY(pl_cli_run_trace(o, log, &params));
    if (o->executor == PL_OPT_EXECUTOR_MODEL) {
        pl_cli_model_trace(&run->model, &params);
    }
    run->params.vocab_size = params.vocab_size;
    return run->hooks != NULL
               ? run->hooks->open_trace(run->hooks->context, &params, log,
                                        &run->trace)
               : pl_cli_open_trace(o, log, &params, &run->trace);
}

static pl_status_t parse_injections(run_t *run)
{
    const pl_option_strings_t *texts = &run->cli->options.inject;
    const pl_log_t *log              = log_of_rank0(run);

    run->params.inject.happened = &run->happened;
    for (size_t i = 0; i < texts->n; i++) {
        PL_TRY(pl_inject_parse(&run->params.inject, texts->items[i], log));
    }
    return PL_OK;
}

static pl_status_t fill_params(run_t *run)
{
    const pl_options_t *o                = &run->cli->options;
    pl_run_params_t *params              = &run->params;
    static const char *const executors[] = {
        [PL_OPT_EXECUTOR_MODEL] = "model",
        [PL_OPT_EXECUTOR_STAMP] = "stamp",
        [PL_OPT_EXECUTOR_COST]  = "cost",
    };
    bool cost = o->executor == PL_OPT_EXECUTOR_COST;

    params->engine   = pl_cli_engine_config(o);
    params->source   = pl_cli_engine_source(run->trace);
    params->prompts  = (pl_token_reader_t){run->trace, read_tokens};
    params->executor = executors[o->executor];
    pl_cli_hardware(o, params);
    params->verify = cost ? PL_VERIFY_OFF : (pl_verify_t)o->verify;
    params->layout =
        pl_store_layout_stamp((int32_t)o->page_size, (int32_t)o->stamp_layers,
                              (int32_t)o->stamp_row_bytes, 0);
    params->debug     = getenv("PAGELANE_DEBUG") != NULL;
    params->reproduce = run->command;
    params->report    = (pl_report_t){tell_violation, NULL};
    params->observer  = (pl_tick_observer_t){
         .tick = after_tick, .context = run, .begin = before_ticks};
    params->done         = run_done;
    params->done_context = run;
    params->log          = &run->cli->log;
    if (o->snapshot != NULL) {
        params->events         = event_sink;
        params->events_context = run;
    }
    if (o->executor == PL_OPT_EXECUTOR_MODEL) {
        /* A trace says how long its answers were; prompts alone do not. */
        params->engine.stops =
            strcmp(pl_trace_format(run->trace), "prompts") == 0;
        PL_TRY(pl_cli_model_params(&run->model, run->cli, params));
    }
    run->storage.cli = run->cli;
    run->storage.log = log_of_rank0(run);
    PL_TRY(pl_cli_plan(o, log_of_rank0(run), NULL, &run->model.config, params));
    PL_TRY(pl_run_storage_sizes(&run->storage, params));
    return parse_injections(run);
}

/* One log for each rank of this process. */
static pl_status_t open_logs(run_t *run, int first, int n)
{
    if (run->cli->options.snapshot == NULL) {
        return PL_OK;
    }
    run->logs = calloc((size_t)run->cli->options.ranks, sizeof(*run->logs));
    if (run->logs == NULL) {
        return PL_ERR_MEMORY;
    }
    run->snapshot.logs = run->logs;
    for (int i = first; i < first + n; i++) {
        PL_TRY(pl_event_log_open(run->cli->options.most_events, &run->logs[i]));
    }
    return PL_OK;
}

/* ---- one process, or one of many ---- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat about_a, about_b;

    if ((a == NULL) || (b == NULL)) {
        return false;
    }
    return (strcmp(a, b) == 0) ||
           ((stat(a, &about_a) == 0) && (stat(b, &about_b) == 0) &&
            (about_a.st_ino == about_b.st_ino) &&
            (about_a.st_dev == about_b.st_dev));
}

/* What is read must not be written over; the snapshot looks for itself. */
static pl_status_t check_tokens_out(const run_t *run)
{
    const pl_options_t *o = &run->cli->options;

    if (is_same_file(o->tokens_out, o->trace) ||
        is_same_file(o->tokens_out, o->snapshot) ||
        is_same_file(o->tokens_out, o->expect) ||
        is_same_file(o->tokens_out, o->config)) {
        pl_log(log_of_rank0(run), PL_LOG_ERROR,
               "option --tokens-out %s: the run uses that file already; name "
               "another",
               o->tokens_out);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

/* Rank 0 alone writes it down. */
static pl_status_t find_sharing(run_t *run)
{
    const pl_engine_source_t *source = &run->params.source;
    size_t n                         = (size_t)source->count;

    if ((run->cli->options.snapshot == NULL) || (run->cli->world.rank != 0)) {
        return PL_OK;
    }
    run->shared = malloc((2 * n + 1) * sizeof(*run->shared));
    if (run->shared == NULL) {
        return PL_ERR_MEMORY;
    }
    return pl_sharing_find(source, run->params.engine.page_tokens, run->shared,
                           run->shared + n);
}

/* Under mpirun one rank is here, else all are. */
static pl_status_t open_files(run_t *run)
{
    const pl_cli_t *cli = run->cli;
    bool is_one         = cli->world.launched;
    int n_ranks         = (int)cli->options.ranks;

    run->snapshot.files = &run->files;
    run->storage.files  = &run->files;
    return pl_run_files_open(&run->files, &run->params.inject, n_ranks,
                             is_one ? cli->world.rank : 0,
                             is_one ? 1 : n_ranks);
}

static pl_status_t open_snapshot(run_t *run)
{
    run->snapshot.cli     = run->cli;
    run->snapshot.command = run->command;
    run->snapshot.shared  = run->shared;
    run->snapshot.started = run->progress.started;
    run->snapshot.clock   = is_timed(&run->cli->options) ? &run->clock : NULL;
    if ((run->cli->options.snapshot == NULL) || (run->cli->world.rank != 0)) {
        return PL_OK;
    }
    return pl_run_snapshot_open(&run->snapshot, &run->params.recorder);
}

static pl_status_t prepare(run_t *run)
{
    const pl_options_t *o = &run->cli->options;

    PL_TRY(pl_cli_command(run->cli, &run->command));
    if (run->cli->verb->ranked && (run->cli->world.rank == 0)) {
        PL_TRY(pl_idle_note(run->cli)); /* of others cli.c has */
    }
    if (o->executor == PL_OPT_EXECUTOR_MODEL) {
        PL_TRY(pl_cli_model_open(run->cli, &run->model));
    }
    PL_TRY(open_trace(run));
    PL_TRY(fill_params(run));
    PL_TRY(check_tokens_out(run));
    PL_TRY(find_sharing(run));
    PL_TRY(open_files(run));
    return open_snapshot(run);
}

/* Collective; comm NULL: all ranks are here. */
static pl_status_t open_storage(run_t *run, pl_comm_t *comm)
{
    PL_TRY(pl_run_storage_open(&run->storage, run->trace, &run->model, comm,
                               &run->params));
    run->snapshot.requests    = run->storage.requests;
    run->snapshot.storage     = run->storage.place;
    run->snapshot.computation = run->storage.computation;

    run->snapshot.started_pages = pl_run_storage_started(&run->storage);
    return PL_OK;
}

static double timeout_s(const run_t *run)
{
    return 1e-9 * (double)run->cli->options.timeout_ns;
}

static pl_status_t run_local(run_t *run)
{
    pl_status_t status = prepare(run);

    if (status == PL_OK) {
        status = open_storage(run, NULL);
    }
    if (status == PL_OK) {
        bool cost = run->cli->options.executor == PL_OPT_EXECUTOR_COST;
        int n     = cost ? 1 : (int)run->cli->options.ranks;

        status = open_logs(run, 0, n);
    }
    if (status == PL_OK) {
        status = pl_run_local(&run->params, timeout_s(run));
    }
    return status;
}

static int run_mpi(run_t *run)
{
    const pl_options_t *o    = &run->cli->options;
    int n_prefill            = (int)(o->ranks - o->decode_ranks);
    pl_mpi_session_t session = {0};
    pl_comm_t *comm          = NULL;
    pl_status_t status;
    int exit_status;

    status = pl_mpi_session_open(NULL, NULL, &run->cli->log, &session);
    if (status == PL_OK) {
        status = pl_mpi_comm_open(&session, n_prefill, timeout_s(run),
                                  &run->cli->log, &comm);
    }
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    status = pl_comm_agree_status(comm, prepare(run));
    if (status == PL_OK) {
        status = open_storage(run, comm);
    }
    if (status == PL_OK) {
        status = pl_comm_agree_status(comm, open_logs(run, session.rank, 1));
    }
    if (status == PL_OK) {
        status = pl_run(&run->params, comm);
    }
    exit_status = pl_cli_agree_on_exit(run->cli, &session, comm, status);
    pl_comm_close(comm);
    pl_mpi_session_close(&session);
    return exit_status;
}

static void close_run(run_t *run)
{
    for (int64_t i = 0; (run->logs != NULL) && (i < run->cli->options.ranks);
         i++) {
        pl_event_log_close(run->logs[i]);
    }
    free(run->logs);
    pl_run_snapshot_close(&run->snapshot);
    pl_run_clock_free(&run->clock);
    pl_run_storage_close(&run->storage);
    pl_run_files_close(&run->files);
    pl_cli_model_close(&run->model);
    if ((run->hooks == NULL) || !run->hooks->lends_trace) {
        pl_trace_close(run->trace);
    }
    free(run->command);
    free(run->shared);
}

int pl_cli_run(const pl_cli_t *cli)
{
    run_t run = {.cli = cli};
    int exit_status;

    pl_progress_start(&run.progress);
    exit_status =
        cli->world.launched ? run_mpi(&run) : pl_status_exit(run_local(&run));
    close_run(&run);
    return exit_status;
}

pl_status_t pl_cli_run_with(const pl_cli_t *cli, const pl_run_hooks_t *hooks)
{
    run_t run = {.cli = cli, .hooks = hooks};
    pl_status_t status;

    pl_progress_start(&run.progress);
    status = run_local(&run);
    close_run(&run);
    return status;
}
