#include "cli/fleet_snapshot.h"

#include <stdlib.h>

#include "cli/command.h"
#include "cli/fleet_file.h"
#include "cli/run_snapshot.h"
#include "engine/sharing.h"

/* ---- before and while it runs ---- */

pl_status_t pl_fleet_snapshot_open(pl_fleet_snapshot_t *snapshot,
                                   const pl_cli_t *cli,
                                   const pl_engine_source_t *source)
{
    size_t n = (size_t)source->count;

    if (cli->options.snapshot == NULL) {
        return PL_OK;
    }
    snapshot->cli = cli;
    PL_TRY(pl_snapshot_check_path(cli->options.snapshot, &cli->log));
    PL_TRY(pl_cli_command(cli, &snapshot->command));
    snapshot->shared = malloc((2 * n + 1) * sizeof(*snapshot->shared));
    if (snapshot->shared == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_sharing_find(source, (int32_t)cli->options.page_size,
                           snapshot->shared, snapshot->shared + n));
    return pl_event_log_open(0, &snapshot->log);
}

pl_status_t pl_fleet_snapshot_begin(pl_fleet_snapshot_t *snapshot,
                                    const pl_fleet_t *fleet, int32_t n_prefill)
{
    if (snapshot->cli == NULL) {
        return PL_OK;
    }
    snapshot->fleet     = fleet;
    snapshot->n         = pl_fleet_n_instances(fleet);
    snapshot->n_prefill = n_prefill;
    snapshot->engines = calloc((size_t)snapshot->n, sizeof(*snapshot->engines));
    snapshot->waiting = calloc((size_t)snapshot->n, sizeof(*snapshot->waiting));
    if ((snapshot->engines == NULL) || (snapshot->waiting == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < snapshot->n; i++) {
        snapshot->engines[i] = pl_fleet_engine(fleet, i);
    }
    return PL_OK;
}

static void sample(pl_fleet_snapshot_t *snapshot, int64_t tick)
{
    pl_log_fleet_t now = {.tick      = tick,
                          .time_ns   = pl_fleet_now_ns(snapshot->fleet),
                          .engines   = snapshot->engines,
                          .waiting   = snapshot->waiting,
                          .n         = snapshot->n,
                          .n_prefill = snapshot->n_prefill};

    for (int32_t i = 0; i < snapshot->n; i++) {
        snapshot->waiting[i] = pl_fleet_waiting(snapshot->fleet, i);
    }
    pl_event_log_sample_fleet(snapshot->log, &now);
}

void pl_fleet_snapshot_tick(pl_fleet_snapshot_t *snapshot)
{
    if (snapshot->cli == NULL) {
        return;
    }
    if (pl_event_log_is_due(snapshot->log, snapshot->n_ticks)) {
        sample(snapshot, snapshot->n_ticks);
    }
    snapshot->n_ticks++;
}

/* ---- at its end ---- */

/* What is made for the file alone. */
typedef struct sheet {
    pl_fleet_row_t *rows;      /* [instances] */
    int64_t *values;           /* of all columns */
    int32_t *prefill, *decode; /* by request */
    pl_snapshot_measure_t columns[PL_FLEET_COLUMNS];
} sheet_t;

static void fill_rows(const pl_outcome_t *outcome,
                      const pl_fleet_shape_t *shape, pl_fleet_row_t *rows)
{
    bool is_whole = shape->n_decode == 0;

    for (int32_t i = 0; i < outcome->n_engines; i++) {
        bool prefills = i < outcome->n_prefill;

        rows[i] = (pl_fleet_row_t){
            .prefills = prefills,
            .decodes  = !prefills || is_whole,
            .gpus     = prefills ? shape->prefill_gpus : shape->decode_gpus,
            .lanes    = prefills ? pl_engine_lanes(outcome->engines[i]) : 0,
            .homes    = !prefills  ? shape->homes
                        : is_whole ? shape->prefill_gpus
                                   : 0,
            .usage    = outcome->usages[i]};
    }
}

/* On instances that prefill and decode a request is decoded where it was
 * prefilled. */
static void fill_placed(const pl_fleet_t *fleet, const pl_outcome_t *outcome,
                        sheet_t *sheet)
{
    const pl_fleet_record_t *records = pl_fleet_records(fleet);
    bool is_whole                    = outcome->n_engines == outcome->n_prefill;

    for (int32_t i = 0; i < outcome->n; i++) {
        bool has_home     = records[i].record.home >= 0;
        sheet->prefill[i] = records[i].prefill;
        sheet->decode[i]  = !is_whole  ? records[i].decode
                            : has_home ? records[i].prefill
                                       : -1;
    }
}

static pl_status_t fill_sheet(const pl_fleet_t *fleet,
                              const pl_outcome_t *outcome,
                              const pl_fleet_shape_t *shape, sheet_t *sheet)
{
    size_t n          = (size_t)outcome->n_engines;
    size_t n_requests = (size_t)outcome->n + 1;

    sheet->rows    = calloc(n, sizeof(*sheet->rows));
    sheet->values  = calloc(n * PL_FLEET_COLUMNS, sizeof(*sheet->values));
    sheet->prefill = calloc(n_requests, sizeof(*sheet->prefill));
    sheet->decode  = calloc(n_requests, sizeof(*sheet->decode));
    if ((sheet->rows == NULL) || (sheet->values == NULL) ||
        (sheet->prefill == NULL) || (sheet->decode == NULL)) {
        return PL_ERR_MEMORY;
    }
    fill_rows(outcome, shape, sheet->rows);
    fill_placed(fleet, outcome, sheet);
    pl_fleet_columns(sheet->rows, n, sheet->values, sheet->columns);
    return PL_OK;
}

static void free_sheet(sheet_t *sheet)
{
    free(sheet->rows);
    free(sheet->values);
    free(sheet->prefill);
    free(sheet->decode);
}

/* The last tick's state stands in the file, kept on the way or not. */
static void sample_last(pl_fleet_snapshot_t *snapshot)
{
    int64_t last = snapshot->n_ticks - 1;

    if ((last >= 0) && !pl_event_log_is_due(snapshot->log, last)) {
        sample(snapshot, last);
    }
}

pl_status_t pl_fleet_snapshot_write(pl_fleet_snapshot_t *snapshot,
                                    const pl_outcome_t *outcome,
                                    const pl_fleet_shape_t *shape,
                                    const struct timespec *started)
{
    sheet_t sheet              = {0};
    pl_run_results_t results   = {.n_requests = outcome->n};
    pl_snapshot_fleet_t fleet  = {0};
    pl_run_snapshot_t as_a_run = {.cli     = snapshot->cli,
                                  .command = snapshot->command,
                                  .fleet   = &fleet,
                                  .logs    = &snapshot->log,
                                  .shared  = snapshot->shared,
                                  .started = *started};
    pl_status_t status;

    if (snapshot->cli == NULL) {
        return PL_OK;
    }
    sample_last(snapshot);
    status = fill_sheet(snapshot->fleet, outcome, shape, &sheet);
    if (status == PL_OK) {
        fleet  = (pl_snapshot_fleet_t){.engines    = outcome->engines,
                                       .n          = outcome->n_engines,
                                       .n_prefill  = outcome->n_prefill,
                                       .records    = outcome->records,
                                       .prefill    = sheet.prefill,
                                       .decode     = sheet.decode,
                                       .counters   = &outcome->counters,
                                       .caches     = &outcome->caches,
                                       .measures   = sheet.columns,
                                       .n_measures = PL_FLEET_COLUMNS,
                                       .transfer_wait_ns =
                                           outcome->waits.for_transfer_ns};
        status = pl_run_snapshot_write(&as_a_run, NULL, outcome->engines[0],
                                       &results);
    }
    free_sheet(&sheet);
    return status;
}

void pl_fleet_snapshot_close(pl_fleet_snapshot_t *snapshot)
{
    free(snapshot->command);
    free(snapshot->shared);
    free((void *)snapshot->engines);
    free(snapshot->waiting);
    pl_event_log_close(snapshot->log);
    *snapshot = (pl_fleet_snapshot_t){0};
}
