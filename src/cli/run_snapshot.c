/* What stands in the snapshots of a run, and when one is due. */
#include "cli/run_snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "exec/memory.h"
#include "store/snapshot.h"

enum { N_COUNTERS = 2 * PL_OP_KINDS + 5, MOST_TIMING = 6, N_ABOUT = 7 };

static int64_t ns_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((int64_t)now.tv_sec - then->tv_sec) * 1000000000 + now.tv_nsec -
           then->tv_nsec;
}

/* ---- what stands in one ---- */

typedef struct names {
    char text[N_COUNTERS][32];
} names_t;

static size_t list_counters(const pl_exec_counters_t *c, names_t *names,
                            pl_snapshot_number_t *list)
{
    size_t n = 0;

    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        const char *text = pl_op_kind_text((pl_op_kind_t)kind);

        (void)snprintf(names->text[n], sizeof(names->text[n]), "%s_pages_moved",
                       text);
        list[n] = (pl_snapshot_number_t){names->text[n], c->pages[kind]};
        n++;
        (void)snprintf(names->text[n], sizeof(names->text[n]), "%s_bytes_moved",
                       text);
        list[n] = (pl_snapshot_number_t){names->text[n], c->bytes[kind]};
        n++;
    }
    list[n++] = (pl_snapshot_number_t){"view_pages", c->view_pages};
    list[n++] = (pl_snapshot_number_t){"page_checks", c->page_checks};
    list[n++] = (pl_snapshot_number_t){"poisoned_pages", c->poisoned_pages};
    list[n++] =
        (pl_snapshot_number_t){"bad_storage_pages", c->bad_storage_pages};
    list[n++] =
        (pl_snapshot_number_t){"unread_storage_pages", c->unread_storage_pages};
    return n;
}

static size_t list_timing(const pl_run_snapshot_t *snapshot,
                          pl_snapshot_number_t list[MOST_TIMING])
{
    size_t n = 0;
    pl_series_cost_t cost;

    list[n++] = (pl_snapshot_number_t){"run_ns", ns_since(&snapshot->started)};
    if (snapshot->series != NULL) {
        cost      = pl_series_cost(snapshot->series);
        list[n++] = (pl_snapshot_number_t){"snapshots_ns", cost.loop_ns};
        list[n++] = (pl_snapshot_number_t){"snapshots_written", cost.written};
        list[n++] = (pl_snapshot_number_t){"snapshots_skipped", cost.skipped};
        list[n++] = (pl_snapshot_number_t){"snapshots_failed", cost.failed};
        list[n++] = (pl_snapshot_number_t){"snapshots_bytes", cost.bytes};
    }
    return n;
}

/* Everything that an input points at, but for the run's own. */
typedef struct sheet {
    pl_option_pair_t *options;
    names_t names;
    pl_snapshot_number_t counters[N_COUNTERS], timing[MOST_TIMING];
    pl_snapshot_text_t about[N_ABOUT];
    char date[32], host[64];
} sheet_t;

/* Where the requests come from. */
static const char *source_of(const pl_options_t *o)
{
    return o->trace != NULL ? o->trace : o->validate;
}

static void fill_about(const pl_run_snapshot_t *snapshot, sheet_t *sheet)
{
    time_t now = time(NULL);
    struct tm utc;

    (void)snprintf(sheet->host, sizeof(sheet->host), "?");
    (void)gethostname(sheet->host, sizeof(sheet->host) - 1);
    (void)strftime(sheet->date, sizeof(sheet->date), "%Y-%m-%dT%H:%M:%SZ",
                   gmtime_r(&now, &utc));
    sheet->about[0] = (pl_snapshot_text_t){"created", sheet->date};
    sheet->about[1] = (pl_snapshot_text_t){"host", sheet->host};
    sheet->about[2] = (pl_snapshot_text_t){"command", snapshot->command};
    sheet->about[3] =
        (pl_snapshot_text_t){"trace", source_of(&snapshot->cli->options)};
    sheet->about[4] = (pl_snapshot_text_t){
        "requests", snapshot->requests == NULL ? "" : snapshot->requests};
    sheet->about[5] = (pl_snapshot_text_t){
        "storage", snapshot->storage == NULL ? "" : snapshot->storage};
    sheet->about[6] = (pl_snapshot_text_t){
        "computation",
        snapshot->computation == NULL ? "" : snapshot->computation};
}

/* Instances are of `sim` alone. */
static uint32_t verbs_of(const pl_run_snapshot_t *snapshot)
{
    return snapshot->fleet != NULL ? PL_VERB_RUN | PL_VERB_SIM : PL_VERB_RUN;
}

/* `sheet` is zeroed, and the caller's to free (its options). */
static pl_status_t fill_input(const pl_run_snapshot_t *snapshot, int rank,
                              const pl_engine_t *engine,
                              const pl_run_results_t *results, sheet_t *sheet,
                              pl_snapshot_input_t *input)
{
    bool has_bytes = results->tokens != NULL;

    *input = (pl_snapshot_input_t){.engine = engine,
                                   .fleet  = snapshot->fleet,
                                   .log    = snapshot->logs[rank]};
    fill_about(snapshot, sheet);
    PL_TRY(pl_option_effective(pl_options_table(), verbs_of(snapshot),
                               &snapshot->cli->options, &sheet->options,
                               &input->n_options));
    input->options       = sheet->options;
    input->started_pages = snapshot->started_pages;
    input->digests       = has_bytes ? results->digests : NULL;
    input->tokens        = has_bytes ? results->tokens : NULL;
    input->tokens_offset = has_bytes ? results->token_offsets : NULL;
    input->shared        = true;
    input->shared_with   = snapshot->shared;
    input->shared_pages  = snapshot->shared == NULL
                               ? NULL
                               : snapshot->shared + results->n_requests;
    input->ops           = results->ops;
    input->n_ops         = results->n_ops;
    input->steps         = results->steps;
    input->data_counters = sheet->counters;
    input->n_data_counters =
        snapshot->fleet != NULL
            ? 0 /* nobody has moved anything */
            : list_counters(&results->counters, &sheet->names, sheet->counters);
    input->timing   = sheet->timing;
    input->n_timing = list_timing(snapshot, sheet->timing);
    input->about    = sheet->about;
    input->n_about  = N_ABOUT;
    input->files =
        snapshot->files == NULL ? NULL : snapshot->files->ranks[rank];
    return PL_OK;
}

/* ---- on the way ---- */

/* The clock is read here and decides nothing else. */
static bool is_due(void *context, const pl_engine_t *engine)
{
    pl_run_snapshot_t *snapshot = context;
    const pl_options_t *o       = &snapshot->cli->options;
    int32_t n_finished          = pl_engine_n_finished(engine);
    bool by_time                = o->snapshot_every_ns > 0;
    int64_t now = by_time ? ns_since(&snapshot->started) : n_finished;

    if ((now < snapshot->next) ||
        (n_finished == pl_engine_n_requests(engine))) {
        return false; /* the last one is not far */
    }
    snapshot->next = by_time ? now + o->snapshot_every_ns
                             : now - now % o->snapshot_every_requests +
                                   o->snapshot_every_requests;
    return true;
}

static void take(void *context, const pl_engine_t *engine,
                 const pl_run_results_t *results)
{
    pl_run_snapshot_t *snapshot = context;
    sheet_t sheet               = {0};
    pl_snapshot_input_t input;

    if (fill_input(snapshot, 0, engine, results, &sheet, &input) == PL_OK) {
        pl_series_take(snapshot->series, &input);
    }
    pl_option_pairs_free(sheet.options, input.n_options);
}

static void step(void *context)
{
    pl_series_step(((pl_run_snapshot_t *)context)->series);
}

pl_status_t pl_run_snapshot_open(pl_run_snapshot_t *snapshot,
                                 pl_run_recorder_t *recorder_p)
{
    const pl_options_t *o = &snapshot->cli->options;
    const pl_log_t *log   = &snapshot->cli->log;

    PL_TRY(pl_snapshot_check_path(o->snapshot, log));
    if (o->snapshot_every == NULL) {
        return PL_OK;
    }
    PL_TRY(pl_series_open(o->snapshot, (int)o->snapshot_keep, log,
                          &snapshot->series));
    snapshot->next = o->snapshot_every_ns > 0 ? o->snapshot_every_ns
                                              : o->snapshot_every_requests;
    *recorder_p    = (pl_run_recorder_t){is_due, take, step, snapshot};
    return PL_OK;
}

/* ---- at the end ---- */

static pl_status_t fill_times(const pl_run_snapshot_t *snapshot, int rank,
                              const pl_engine_t *engine, pl_run_times_t *times,
                              pl_snapshot_input_t *input)
{
    if (rank != 0) {
        return PL_OK;
    }
    PL_TRY(pl_run_clock_times(snapshot->clock, engine, times));
    input->arrival_ns     = times->arrival_ns;
    input->first_token_ns = times->first_token_ns;
    input->finished_ns    = times->finished_ns;
    return PL_OK;
}

pl_status_t pl_run_snapshot_write(pl_run_snapshot_t *snapshot, pl_comm_t *comm,
                                  const pl_engine_t *engine,
                                  const pl_run_results_t *results)
{
    int rank             = comm == NULL ? 0 : comm->rank;
    sheet_t sheet        = {0};
    pl_run_times_t times = {0};
    pl_snapshot_input_t input;
    pl_status_t status;

    if ((rank == 0) && (snapshot->series != NULL)) {
        pl_series_finish(snapshot->series);
    }
    status = fill_input(snapshot, rank, engine, results, &sheet, &input);
    if ((status == PL_OK) && (snapshot->clock != NULL)) {
        input.timed = true;
        status      = fill_times(snapshot, rank, engine, &times, &input);
    }
    if (status == PL_OK) {
        status = pl_snapshot_write(
            &input, comm, snapshot->cli->options.snapshot, &snapshot->cli->log);
    }
    pl_run_times_free(&times);
    pl_option_pairs_free(sheet.options, input.n_options);
    return status;
}

void pl_run_snapshot_tell(const pl_run_snapshot_t *snapshot)
{
    char bytes[PL_GROUPED_BYTES];
    pl_series_cost_t cost;

    if (snapshot->series == NULL) {
        return;
    }
    cost = pl_series_cost(snapshot->series);
    pl_text_grouped((uint64_t)cost.bytes, bytes);
    pl_log(&snapshot->cli->log, PL_LOG_INFO,
           "snapshots on the way: %" PRId64
           " written (%s bytes, %.0f ms of the "
           "run's time), %" PRId64
           " skipped as one was still being written, %" PRId64 " failed",
           cost.written, bytes, (double)cost.loop_ns / 1e6, cost.skipped,
           cost.failed);
}

void pl_run_snapshot_close(pl_run_snapshot_t *snapshot)
{
    pl_series_close(snapshot->series);
    snapshot->series = NULL;
}
