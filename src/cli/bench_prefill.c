/* pagelane bench prefill: the time to the first token. */
#include "cli/bench_prefill.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit_status.h"
#include "cli/hardware.h"
#include "cli/run_model.h"
#include "comm/mpi_session.h"
#include "sim/presets.h"

static const char *const KV_DTYPES[] = {"f32", "bf16", "fp8"};

typedef struct bench {
    const pl_cli_t *cli;
    pl_cli_model_t model;
    pl_ownership_t ownerships[2];
    int n_ownerships;
    pl_prefill_report_t report;
    pl_comm_t *comm; /* NULL: the ranks are threads */
} bench_t;

static const pl_log_t *log_of_rank0(const bench_t *bench)
{
    return bench->cli->world.rank == 0 ? &bench->cli->log : NULL;
}

/* ---- options ---- */

static pl_status_t refuse(const bench_t *bench, const char *text)
{
    pl_log(log_of_rank0(bench), PL_LOG_ERROR, "%s", text);
    return PL_ERR_ARGUMENT;
}

static pl_status_t parse_ownership(bench_t *bench)
{
    const char *text = bench->cli->options.ownership_text;
    bool both        = strcmp(text, "both") == 0;

    bench->n_ownerships = both ? 2 : 1;
    if ((pl_ownership_parse(both ? "zigzag" : text, &bench->ownerships[0]) !=
         PL_OK) ||
        (bench->ownerships[0].kind == PL_OWNERSHIP_LAYER)) {
        return refuse(bench, "option --ownership: expected zigzag, "
                             "round-robin, interleave:K with K of at least 1, "
                             "replicated, or both");
    }
    bench->ownerships[1].kind = PL_OWNERSHIP_REPLICATED;
    return PL_OK;
}

static pl_status_t check_options(const bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    bool is_cuda          = o->device == PL_OPT_DEVICE_CUDA;

    if (o->model == NULL) {
        return refuse(bench, "option --model is missing; give a folder, or a "
                             "name such as GLM-5 with --weights random:1");
    }
    if (o->chunk % o->page_size != 0) {
        return refuse(bench, "option --chunk: it must be a multiple of "
                             "--page-size");
    }
    if (is_cuda &&
        ((o->comm == PL_OPT_COMM_LOCAL) || (o->comm == PL_OPT_COMM_MPI))) {
        return refuse(bench, "option --device cuda: --comm local and mpi move "
                             "host memory; use --comm auto, peer or nccl");
    }
    if (!is_cuda && (o->comm == PL_OPT_COMM_NCCL)) {
        return refuse(bench, "option --comm nccl: it moves memory of GPUs; "
                             "give --device cuda, or use --comm peer");
    }
    return PL_OK;
}

/* A name, or a path; then as many layers as were asked for. */
static pl_status_t open_model(bench_t *bench)
{
    const pl_options_t *o     = &bench->cli->options;
    const pl_preset_t *preset = pl_preset_find(PL_PRESET_MODEL, o->model);
    pl_model_config_t *config = &bench->model.config;

    bench->report.model = preset == NULL ? o->model : preset->name;
    if ((o->weights == NULL) && ((preset != NULL) || (o->layers > 0))) {
        return refuse(bench, "a model by its name, or with --layers, has no "
                             "weights to read; add --weights random:1");
    }
    PL_TRY(preset == NULL
               ? pl_model_config_read(o->model, log_of_rank0(bench), config)
               : pl_model_config_parse(preset->name, (const char *)preset->text,
                                       preset->n_bytes, log_of_rank0(bench),
                                       config));
    if ((o->layers > 0) && (o->layers < config->n_layers)) {
        config->n_layers = (int32_t)o->layers;
    }
    bench->report.n_layers = config->n_layers;
    return pl_cli_weights_open(bench->cli, &bench->model);
}

static pl_status_t prepare(bench_t *bench)
{
    const pl_options_t *o = &bench->cli->options;
    size_t n              = 2 * o->contexts.n;

    PL_TRY(check_options(bench));
    PL_TRY(parse_ownership(bench));
    PL_TRY(open_model(bench));
    bench->report.cli      = bench->cli;
    bench->report.comm     = pl_cli_comm_name(o->comm);
    bench->report.device   = pl_cli_device_name(o->device);
    bench->report.kv_dtype = KV_DTYPES[o->kv_dtype];
    bench->report.rows     = calloc(n, sizeof(*bench->report.rows));
    return bench->report.rows == NULL ? PL_ERR_MEMORY : PL_OK;
}

/* ---- a run ---- */

static double timeout_s(const bench_t *bench)
{
    return 1e-9 * (double)bench->cli->options.timeout_ns;
}

static pl_status_t fill_params(bench_t *bench, const pl_prefill_scene_t *scene,
                               pl_ownership_t ownership,
                               pl_run_params_t *params)
{
    const pl_options_t *o = &bench->cli->options;

    *params = (pl_run_params_t){.engine   = {.n_prefill   = (int)o->ranks,
                                             .page_tokens = (int32_t)o->page_size,
                                             .chunk_tokens = (int32_t)o->chunk,
                                             .ownership    = ownership},
                                .source   = pl_prefill_source(scene),
                                .prompts  = pl_prefill_tokens(scene),
                                .executor = "model",
                                .verify   = PL_VERIFY_OFF,
                                .log      = &bench->cli->log};
    PL_TRY(pl_cli_model_params(&bench->model, bench->cli, params));
    pl_cli_hardware(o, params);
    return pl_prefill_engine(scene, &params->engine);
}

static pl_status_t run_scene(bench_t *bench, const pl_prefill_scene_t *scene,
                             pl_prefill_row_t *row)
{
    pl_run_params_t params    = {0};
    pl_prefill_watch_t *watch = NULL;
    pl_status_t status = fill_params(bench, scene, row->ownership, &params);

    if (status == PL_OK) {
        status = pl_prefill_watch_open(scene, bench->comm != NULL, &params,
                                       &row->figure, &watch);
    }
    if (bench->comm != NULL) {
        status = pl_comm_agree_status(bench->comm, status);
    }
    if (status == PL_OK) {
        status = bench->comm != NULL ? pl_run(&params, bench->comm)
                                     : pl_run_local(&params, timeout_s(bench));
    }
    pl_prefill_watch_close(watch);
    return status;
}

/* The same on all ranks. */
static pl_status_t check_hits(const bench_t *bench,
                              const pl_prefill_scene_t *scene,
                              const pl_prefill_row_t *row)
{
    static const char *const kinds[] = {"new", "on the device", "on the host"};
    int32_t odd                      = row->figure.odd;

    if (odd < 0) {
        return PL_OK;
    }
    pl_log(
        log_of_rank0(bench), PL_LOG_ERROR,
        "bench prefill: cannot measure %" PRId32 " tokens: request %" PRId32
        " was to be %s, and found %" PRId32 " tokens on the device and %" PRId32
        " on the host; use more --contexts tokens, or a smaller --page-size",
        row->tokens, odd, kinds[pl_prefill_kind(scene, odd)],
        row->figure.seen.device_hit_tokens, row->figure.seen.host_hit_tokens);
    return PL_ERR_RESOURCE;
}

static pl_status_t measure(bench_t *bench, int32_t tokens,
                           pl_ownership_t ownership)
{
    const pl_options_t *o    = &bench->cli->options;
    pl_prefill_row_t *row    = &bench->report.rows[bench->report.n_rows];
    pl_prefill_scene_t scene = {0};
    pl_status_t status;

    row->tokens    = tokens;
    row->ownership = ownership;
    status         = pl_prefill_scene_open(tokens, (int32_t)o->repeat,
                                           bench->model.config.vocab_size,
                                           (uint64_t)o->seed, &scene);
    if (status == PL_OK) {
        status = run_scene(bench, &scene, row);
    }
    if (status == PL_OK) {
        status = check_hits(bench, &scene, row);
    }
    bench->report.n_rows += status == PL_OK ? 1 : 0;
    pl_prefill_scene_close(&scene);
    return status;
}

static pl_status_t measure_all(bench_t *bench)
{
    const pl_option_integers_t *contexts = &bench->cli->options.contexts;

    for (size_t i = 0; i < contexts->n; i++) {
        for (int k = 0; k < bench->n_ownerships; k++) {
            PL_TRY(measure(bench, (int32_t)contexts->items[i],
                           bench->ownerships[k]));
        }
    }
    return bench->cli->world.rank == 0 ? pl_prefill_print(&bench->report)
                                       : PL_OK;
}

/* ---- one process, or one of many ---- */

static int run_local(bench_t *bench)
{
    pl_status_t status = prepare(bench);

    if (status == PL_OK) {
        status = measure_all(bench);
    }
    return pl_status_exit(status);
}

static int run_mpi(bench_t *bench)
{
    const pl_cli_t *cli      = bench->cli;
    pl_mpi_session_t session = {0};
    pl_status_t status;
    int exit_status;

    status = pl_mpi_session_open(NULL, NULL, &cli->log, &session);
    if (status == PL_OK) {
        status = pl_mpi_comm_open(&session, (int)cli->options.ranks,
                                  timeout_s(bench), &cli->log, &bench->comm);
    }
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    status = pl_comm_agree_status(bench->comm, prepare(bench));
    if (status == PL_OK) {
        status = measure_all(bench);
    }
    exit_status =
        pl_cli_agree_on_exit(bench->cli, &session, bench->comm, status);
    pl_comm_close(bench->comm);
    pl_mpi_session_close(&session);
    return exit_status;
}

int pl_cli_bench_prefill(const pl_cli_t *cli)
{
    bench_t bench   = {.cli = cli};
    int exit_status = cli->world.launched ? run_mpi(&bench) : run_local(&bench);

    pl_cli_model_close(&bench.model);
    free(bench.report.rows);
    return exit_status;
}
