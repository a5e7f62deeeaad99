/* pagelane sim --prefill --decode: several instances in one virtual time. */
#include "cli/fleet.h"

#include <string.h>

#include "cli/engine_options.h"
#include "cli/fleet_snapshot.h"
#include "cli/planned.h"
#include "cli/progress.h"
#include "cli/run_storage.h"
#include "cli/trace_file.h"
#include "sim/fleet.h"

typedef struct fleeting {
    const pl_cli_t *cli;
    const pl_run_hooks_t *hooks; /* NULL: none */
    pl_trace_t *trace;
    pl_model_config_t model;
    pl_run_params_t run; /* of one instance of either kind */
    pl_fleet_params_t params;
    pl_fleet_t *fleet;
    pl_fleet_shape_t shape;
    pl_fleet_snapshot_t snapshot;
    pl_progress_t progress;
} fleeting_t;

/* ---- what cannot be ---- */

static pl_status_t refuse(const pl_log_t *log, const char *text)
{
    pl_log(log, PL_LOG_ERROR, "%s", text);
    return PL_ERR_ARGUMENT;
}

/* Files and checks of one engine alone. */
static pl_status_t check_alone(const pl_options_t *o, const pl_log_t *log)
{
    if (o->snapshot_every != NULL) {
        return refuse(log, "option --snapshot-every: instances are written "
                           "down once, at the end; leave it out");
    }
    if ((strcmp(o->events_text, "all") != 0) &&
        (strcmp(o->events_text, "off") != 0)) {
        return refuse(log, "option --events: instances keep none; leave it "
                           "out, or simulate one of them with --cp and "
                           "--decode-ranks");
    }
    if (o->inject.n > 0) {
        return refuse(log, "option --inject: nothing fails in a simulation of "
                           "instances; give --cp and --decode-ranks instead");
    }
    if (o->explore > 0) {
        return refuse(log, "option --explore: instances have their own order; "
                           "give --cp and --decode-ranks instead");
    }
    if ((o->storage_pages != 0) || (o->storage_gb > 0)) {
        return refuse(log, "options --storage-pages and --storage-gb: "
                           "instances have no storage tier; give --host-gb, "
                           "or --cp and --decode-ranks instead");
    }
    if (o->validate != NULL) {
        return refuse(log, "option --validate: it is of one engine; give --cp "
                           "and --decode-ranks instead of instances");
    }
    return PL_OK;
}

pl_status_t pl_cli_fleet_check(pl_options_t *options, const pl_log_t *log)
{
    static char no_events[] = "off";
    pl_fleet_shape_t shape;

    PL_TRY(pl_fleet_shape(options, log, &shape));
    PL_TRY(check_alone(options, log));
    if ((options->pd_link != NULL) && (pl_fleet_rate(options->pd_link) == 0)) {
        pl_log(log, PL_LOG_ERROR,
               "option --pd-link: cannot use '%.80s'; expected a rate from "
               "1MB/s to 1000000GB/s, such as 50GB/s or 500MB/s",
               options->pd_link);
        return PL_ERR_ARGUMENT;
    }
    options->ranks       = shape.prefill_gpus;
    options->events_text = no_events;
    return PL_OK;
}

/* ---- options to parameters ---- */

static pl_status_t open_trace(fleeting_t *f)
{
    const pl_options_t *o    = &f->cli->options;
    pl_trace_params_t params = pl_trace_params_default();

    PL_TRY(pl_cli_run_trace(o, &f->cli->log, &params));
    return f->hooks != NULL
               ? f->hooks->open_trace(f->hooks->context, &params, &f->cli->log,
                                      &f->trace)
               : pl_cli_open_trace(o, &f->cli->log, &params, &f->trace);
}

/* One engine that had a prefill instance and the homes of a decode instance:
 * its costs and the sizes of its tiers are those of both. */
static pl_status_t fill_run(fleeting_t *f, const pl_fleet_shape_t *shape)
{
    const pl_options_t *o    = &f->cli->options;
    pl_run_storage_t storage = {.cli = f->cli, .log = &f->cli->log};
    bool splits              = shape->n_decode > 0;
    pl_cli_gpus_t gpus       = {
              .prefill = shape->prefill_gpus,
              .decode  = splits ? shape->decode_gpus : shape->prefill_gpus,
              .home    = splits ? shape->decode_gpus / shape->homes : 1};

    f->run.engine           = pl_cli_engine_config(o);
    f->run.engine.n_prefill = shape->prefill_gpus;
    f->run.engine.n_decode  = splits ? shape->homes : 0;
    f->run.source           = pl_cli_engine_source(f->trace);
    f->run.executor         = "cost";
    f->run.layout =
        pl_store_layout_stamp((int32_t)o->page_size, (int32_t)o->stamp_layers,
                              (int32_t)o->stamp_row_bytes, 0);
    f->run.log = &f->cli->log;
    PL_TRY(pl_cli_plan(o, &f->cli->log, &gpus, &f->model, &f->run));
    pl_run_settle_bytes(&f->run, &f->run.engine);
    return pl_run_storage_sizes(&storage, &f->run);
}

static void after_tick(void *context)
{
    fleeting_t *f = context;

    pl_progress_tell(&f->progress, f->cli, pl_fleet_n_finished(f->fleet),
                     f->run.source.count, pl_fleet_now_ns(f->fleet));
    pl_fleet_snapshot_tick(&f->snapshot);
    if ((f->hooks != NULL) && (f->hooks->tick != NULL)) {
        f->hooks->tick(f->hooks->context);
    }
}

static void fill_links(fleeting_t *f, const pl_fleet_shape_t *shape)
{
    const pl_options_t *o   = &f->cli->options;
    const pl_costs_t *costs = &f->run.engine.costs;
    int64_t rate            = o->pd_link != NULL ? pl_fleet_rate(o->pd_link)
                                                 : costs->link_bytes_per_us[PL_LINK_PD];
    int32_t of_home =
        shape->n_decode > 0 ? shape->decode_gpus / shape->homes : 1;

    f->params.send_bytes_per_us    = rate * shape->prefill_gpus;
    f->params.receive_bytes_per_us = rate * of_home;
    f->params.link_latency_ns      = costs->link_latency_ns[PL_LINK_PD];
}

static pl_status_t fill_params(fleeting_t *f)
{
    const pl_options_t *o = &f->cli->options;

    PL_TRY(pl_fleet_shape(o, &f->cli->log, &f->shape));
    PL_TRY(fill_run(f, &f->shape));
    f->params = (pl_fleet_params_t){.prefill      = f->run.engine,
                                    .decode       = f->run.engine,
                                    .n_prefill    = f->shape.n_prefill,
                                    .n_decode     = f->shape.n_decode,
                                    .source       = f->run.source,
                                    .router       = (pl_router_t)o->router,
                                    .seed         = (uint64_t)o->seed,
                                    .tick         = after_tick,
                                    .tick_context = f};

    f->params.prefill.n_decode = 0;
    fill_links(f, &f->shape);
    return PL_OK;
}

/* ---- all of it ---- */

static pl_status_t tell(fleeting_t *f)
{
    pl_outcome_t outcome = {0};
    pl_status_t status   = pl_outcome_of_fleet(f->fleet, f->run.source.count,
                                               f->params.n_prefill, &outcome);

    if (status == PL_OK) {
        status = pl_fleet_snapshot_write(&f->snapshot, &outcome, &f->shape,
                                         &f->progress.started);
    }
    if (status == PL_OK) {
        status = f->hooks != NULL
                     ? f->hooks->done(f->hooks->context, &outcome, NULL)
                     : pl_fleet_print(f->cli, &outcome);
    }
    pl_outcome_free(&outcome);
    return status;
}

static pl_status_t run(fleeting_t *f)
{
    const char *path = f->cli->options.snapshot;

    PL_TRY(open_trace(f));
    PL_TRY(fill_params(f));
    PL_TRY(pl_fleet_snapshot_open(&f->snapshot, f->cli, &f->run.source));
    PL_TRY(pl_fleet_open(&f->params, &f->cli->log, &f->fleet));
    PL_TRY(
        pl_fleet_snapshot_begin(&f->snapshot, f->fleet, f->params.n_prefill));
    PL_TRY(pl_fleet_run(f->fleet));
    PL_TRY(tell(f));
    pl_log(&f->cli->log, PL_LOG_INFO, "%.1f s on the wall%s%s",
           pl_progress_seconds(&f->progress),
           path != NULL ? ", snapshot in " : "", path != NULL ? path : "");
    return PL_OK;
}

pl_status_t pl_cli_fleet(const pl_cli_t *cli, const pl_run_hooks_t *hooks)
{
    fleeting_t f = {.cli = cli, .hooks = hooks};
    pl_status_t status;

    pl_progress_start(&f.progress);
    status = run(&f);
    pl_fleet_snapshot_close(&f.snapshot);
    pl_fleet_close(f.fleet);
    if ((hooks == NULL) || !hooks->lends_trace) {
        pl_trace_close(f.trace);
    }
    return status;
}
