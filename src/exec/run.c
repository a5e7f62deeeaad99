#include "exec/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "exec/cost.h"
#include "exec/data.h"
#include "exec/memory.h"
#include "exec/model.h"
#include "exec/run_internal.h"
#include "exec/stamp.h"

const char *pl_run_executor_name(int i)
{
    static const char *const names[] = {"model", "stamp", "cost", NULL};

    return (i >= 0) && (i < 3) ? names[i] : NULL;
}

static bool is_cost(const pl_run_params_t *params)
{
    return strcmp(params->executor, "cost") == 0;
}

static bool is_model(const pl_run_params_t *params)
{
    return strcmp(params->executor, "model") == 0;
}

static pl_store_layout_t layout_of(const pl_run_params_t *params,
                                   int32_t n_slots)
{
    pl_store_layout_t layout = params->layout;

    if (is_model(params)) {
        layout = pl_model_layout(params->model, params->kv_dtype, 0);
    }
    layout.page_tokens = params->engine.page_tokens;
    layout.n_slots     = n_slots;
    return layout;
}

pl_store_layout_t pl_run_layout(const pl_run_params_t *params)
{
    return layout_of(params, 0);
}

int64_t pl_run_page_bytes(const pl_run_params_t *params)
{
    pl_store_layout_t layout = layout_of(params, 0);

    return (int64_t)pl_store_page_bytes(&layout);
}

void pl_run_settle_bytes(const pl_run_params_t *params,
                         pl_engine_config_t *engine)
{
    pl_store_layout_t layout = layout_of(params, 0);

    if (engine->page_bytes == 0) {
        engine->page_bytes = (int64_t)pl_store_page_bytes(&layout);
    }
    if (engine->rank_page_bytes == 0) {
        engine->rank_page_bytes =
            engine->ownership.kind == PL_OWNERSHIP_LAYER
                ? (int64_t)pl_store_run_bytes(&layout, engine->n_prefill)
                : engine->page_bytes;
    }
}

static int64_t row_bytes(const pl_store_layout_t *layout)
{
    int64_t bytes = 0;

    for (int which = 0; which < PL_STORES; which++) {
        pl_page_form_t form = pl_store_form(layout, which);

        bytes +=
            pl_store_n_arrays(layout, which) * (int64_t)pl_row_bytes(&form);
    }
    return bytes;
}

/* ---- what may be asked ---- */

static pl_status_t check_params(const pl_run_params_t *params,
                                const pl_log_t *log)
{
    const pl_engine_config_t *engine = &params->engine;
    pl_store_layout_t layout;

    if (!is_cost(params) && !is_model(params) &&
        (strcmp(params->executor, "stamp") != 0)) {
        pl_log(log, PL_LOG_ERROR,
               "no executor %s: --executor may be model, stamp or cost",
               params->executor);
        return PL_ERR_ARGUMENT;
    }
    if (is_model(params) &&
        ((params->model == NULL) || (params->weights == NULL))) {
        pl_log(log, PL_LOG_ERROR,
               "executor model needs a model: give --model, or --executor "
               "stamp");
        return PL_ERR_ARGUMENT;
    }
    if (!is_cost(params) && (engine->ownership.kind == PL_OWNERSHIP_LAYER)) {
        pl_log(log, PL_LOG_ERROR,
               "executor %s moves whole pages: --ownership layer is for "
               "simulations; give another rule, or use pagelane sim",
               params->executor);
        return PL_ERR_ARGUMENT;
    }
    if (!is_cost(params) && ((engine->device_pages == PL_PAGES_UNLIMITED) ||
                             (engine->host_pages == PL_PAGES_UNLIMITED) ||
                             (engine->decode_pages == PL_PAGES_UNLIMITED))) {
        pl_log(
            log, PL_LOG_ERROR,
            "executor %s needs memory for its pages: give numbers instead of "
            "unlimited, or --executor cost",
            params->executor);
        return PL_ERR_ARGUMENT;
    }
    if (!is_model(params) && (params->vocab_size < 1)) {
        pl_log(log, PL_LOG_ERROR, "a vocabulary of %" PRId32 " tokens",
               params->vocab_size);
        return PL_ERR_ARGUMENT;
    }
    if (!is_cost(params) && (engine->storage_pages != 0) &&
        (params->storage == NULL)) {
        pl_log(
            log, PL_LOG_ERROR,
            "executor %s needs a place for its storage tier: give --storage, "
            "or --executor cost",
            params->executor);
        return PL_ERR_ARGUMENT;
    }
    layout = layout_of(params, 0);
    return pl_store_layout_check(&layout, log);
}

/* ---- memory ---- */

static pl_tier_pages_t tiers_of(const run_rank_t *run, int rank)
{
    const pl_engine_config_t *config = &run->params->engine;
    bool prefill                     = rank < config->n_prefill;
    bool home                        = (config->n_decode == 0) || !prefill;
    pl_tier_pages_t tier             = {{0}};

    if (prefill) {
        tier.n[PL_FREED_DEVICE] = pl_engine_device_pages(run->engine);
        tier.n[PL_FREED_HOST]   = pl_engine_host_pages(run->engine);
    }
    if (home) {
        tier.n[PL_FREED_DECODE]      = pl_engine_decode_pages(run->engine);
        tier.n[PL_FREED_DECODE_HOST] = config->decode_host_pages;
    }
    return tier;
}

static uint64_t tier_bytes(const run_rank_t *run, int32_t n_slots)
{
    pl_store_layout_t layout = layout_of(run->params, n_slots);

    return (uint64_t)pl_store_bytes(&layout) +
           (uint64_t)pl_store_n_headers(&layout) * sizeof(pl_page_header_t) +
           (uint64_t)n_slots * sizeof(pl_page_tag_t);
}

/* Does memory of the machine hold it? */
static bool is_on_host(const run_rank_t *run, int tier)
{
    return run->device->addressable ||
           (pl_exec_memory(run->comm, tier) == PL_MEMORY_HOST);
}

/* Tiers of all ranks that share this machine, against what it has left. */
static pl_status_t check_memory(const run_rank_t *run)
{
    static const char *const options[PL_TIERS] = {
        "--device-pages", "--host-pages", "--decode-pages",
        "--decode-host-pages"};
    int n_ranks = run->params->engine.n_prefill + run->params->engine.n_decode;
    int here =
        run->params->ranks_on_host > 0 ? run->params->ranks_on_host : n_ranks;
    uint64_t by_tier[PL_TIERS] = {0};
    uint64_t total             = 0;
    uint64_t available         = run->params->available_bytes;
    int largest                = 0;
    char needs[PL_GROUPED_BYTES], has[PL_GROUPED_BYTES],
        of_largest[PL_GROUPED_BYTES];

    for (int rank = 0; rank < n_ranks; rank++) {
        pl_tier_pages_t pages = tiers_of(run, rank);

        for (int tier = 0; tier < PL_TIERS; tier++) {
            by_tier[tier] +=
                is_on_host(run, tier) ? tier_bytes(run, pages.n[tier]) : 0;
        }
    }
    for (int tier = 0; tier < PL_TIERS; tier++) {
        by_tier[tier] = by_tier[tier] / (uint64_t)n_ranks * (uint64_t)here;
        total += by_tier[tier];
        largest = by_tier[tier] > by_tier[largest] ? tier : largest;
    }
    if ((available == 0) && !pl_memory_available(&available)) {
        return PL_OK;
    }
    if (total <= available) {
        return PL_OK;
    }
    pl_text_grouped(total, needs);
    pl_text_grouped(available, has);
    pl_text_grouped(by_tier[largest], of_largest);
    if (run->rank == 0) {
        pl_log(
            run->params->log, PL_LOG_ERROR,
            "the pages of %d ranks take %s bytes but %s bytes of memory are "
            "available: lower %s (%s bytes of them), the other page options, "
            "the layers or the row bytes",
            here, needs, has, options[largest], of_largest);
    }
    return PL_ERR_RESOURCE;
}

/* ---- one rank ---- */

static void write_rank_line(void *context, pl_log_level_t level,
                            const char *line)
{
    const rank_log_t *log = context;

    if (log->muted) {
        return;
    }
    if (log->rank == 0) {
        pl_log(log->base, level, "%s", line);
    } else {
        pl_log(log->base, level, "rank %d: %s", log->rank,
               pl_text_without_rank(line, log->rank));
    }
}

static void open_log(const run_rank_t *run, rank_log_t *log)
{
    log->base        = run->params->log;
    log->rank        = run->rank;
    log->log.write   = write_rank_line;
    log->log.context = log;
    log->log.level =
        run->params->log == NULL ? PL_LOG_ERROR : run->params->log->level;
}

static void open_logs(run_rank_t *run)
{
    open_log(run, &run->log);
    open_log(run, &run->engine_log);
    if (run->rank != 0) {
        run->engine_log.log.level = PL_LOG_ERROR;
    }
}

static pl_status_t open_engine(run_rank_t *run)
{
    const pl_run_params_t *params = run->params;
    pl_engine_config_t config     = params->engine;
    pl_event_sink_t events        = {0};
    pl_status_t status;

    pl_run_settle_bytes(params, &config);
    if (params->events != NULL) {
        events = params->events(params->events_context, run->rank);
    }
    /* Every rank finds the same faults in the same options and trace. */
    run->engine_log.muted = run->rank != 0;
    status = pl_engine_open(&config, &params->source, &run->inject, events,
                            &run->engine_log.log, &run->engine);
    run->engine_log.muted = false;
    return status;
}

static pl_status_t open_cost(run_rank_t *run)
{
    pl_store_layout_t layout  = layout_of(run->params, 0);
    pl_ownership_kind_t owner = run->params->engine.ownership.kind;
    pl_cost_params_t params   = {
          .rank    = run->comm == NULL ? -1 : run->rank,
          .n_ranks = run->params->engine.n_prefill + run->params->engine.n_decode,
          .n_prefill   = run->params->engine.n_prefill,
          .replicated  = owner == PL_OWNERSHIP_REPLICATED,
          .by_layers   = owner == PL_OWNERSHIP_LAYER,
          .page_tokens = layout.page_tokens,
          .page_bytes  = (int64_t)pl_store_page_bytes(&layout),
          .row_bytes   = row_bytes(&layout),
          .inject      = pl_inject_is_active(&run->inject) ? &run->inject : NULL};

    return pl_cost_open(&params, &run->executor);
}

/* The longest request, prompt and output; how many are longer than the model
 * was made for. */
static int32_t longest(const pl_run_params_t *params, int32_t *n_over_p)
{
    const pl_engine_source_t *source = &params->source;
    int32_t most                     = 1;

    *n_over_p = 0;
    for (int32_t i = 0; i < source->count; i++) {
        const pl_request_t *request = source->request(source->context, i);
        int32_t n = request->input_tokens + request->output_tokens;

        most = n > most ? n : most;
        *n_over_p += n > params->model->max_positions ? 1 : 0;
    }
    return most;
}

static pl_status_t open_model(const run_rank_t *run, pl_compute_t **compute_p)
{
    const pl_run_params_t *params = run->params;
    int32_t n_over                = 0;
    pl_model_params_t model       = {.config      = params->model,
                                     .weights     = params->weights,
                                     .device      = run->device,
                                     .forward     = params->forward,
                                     .kv_dtype    = params->kv_dtype,
                                     .page_tokens = params->engine.page_tokens,
                                     .max_tokens  = longest(params, &n_over),
                                     .tokens      = pl_data_tokens(run->executor),
                                     .observer    = params->model_observer,
                                     .log         = &run->log.log};

    if ((n_over > 0) && (run->rank == 0)) {
        pl_log(params->log, PL_LOG_WARN,
               "%" PRId32 " of %" PRId32
               " requests have more tokens than the model's %" PRId32
               " positions: its output there means little",
               n_over, params->source.count, params->model->max_positions);
    }
    return pl_model_open(&model, compute_p);
}

static pl_status_t open_stamp(const run_rank_t *run, pl_compute_t **compute_p)
{
    const pl_run_params_t *params = run->params;
    pl_stamp_params_t stamp       = {.layout     = layout_of(params, 0),
                                     .n_requests = params->source.count,
                                     .vocab_size = params->vocab_size,
                                     .expects    = params->verify != PL_VERIFY_OFF,
                                     .tokens     = pl_data_tokens(run->executor)};

    return pl_stamp_open(&stamp, compute_p);
}

static pl_status_t open_door(run_rank_t *run)
{
    const pl_storage_opener_t *storage = run->params->storage;

    if ((storage == NULL) || (run->rank >= run->params->engine.n_prefill)) {
        return PL_OK;
    }
    return storage->open(storage->context, run->rank, &run->door);
}

static pl_status_t open_device(run_rank_t *run)
{
    const pl_device_source_t *source = &run->params->device;

    PL_TRY(
        source->open(source->context, run->rank, &run->log.log, &run->device));
    return check_memory(run);
}

/* Collective: what stands on the communicator, once every rank has its device.
 * `mine`: has this one? */
static pl_status_t open_comm(run_rank_t *run, pl_status_t mine)
{
    const pl_run_params_t *params = run->params;
    pl_comm_t *above              = NULL;

    if (is_cost(params) || (params->open_comm == NULL)) {
        return mine;
    }
    PL_TRY(pl_comm_agree_status(run->base, mine));
    PL_TRY(params->open_comm(params->comm_context, run->base, run->device,
                             &above));
    run->comm = above;
    return PL_OK;
}

static pl_status_t open_data(run_rank_t *run)
{
    const pl_run_params_t *params = run->params;
    bool replicated               = pl_engine_lanes(run->engine) == 1;
    pl_data_params_t data         = {.n_decode   = params->engine.n_decode,
                                     .replicated = replicated,
                                     .layout     = layout_of(params, 0),
                                     .pages      = tiers_of(run, run->rank),
                                     .verify     = params->verify,
                                     .source     = params->source,
                                     .prompts    = params->prompts,
                                     .inject     = &run->inject,
                                     .log        = &run->log.log};
    pl_compute_t *compute         = NULL;

    if (is_model(params)) {
        data.ends   = params->model->eos;
        data.n_ends = params->model->n_eos;
    }
    PL_TRY(open_door(run));
    data.door = run->door;
    PL_TRY(pl_data_open(&data, run->comm, run->device, &run->executor));
    PL_TRY(is_model(params) ? open_model(run, &compute)
                            : open_stamp(run, &compute));
    pl_data_set_compute(run->executor, compute);
    return PL_OK;
}

static pl_status_t open_parts(run_rank_t *run)
{
    /* Every rank finds the same faults here. */
    PL_TRY(check_params(run->params, run->rank == 0 ? run->params->log : NULL));
    PL_TRY(open_engine(run));
    return is_cost(run->params) ? open_cost(run) : open_device(run);
}

static pl_status_t open_rank(run_rank_t *run)
{
    pl_status_t status;

    open_logs(run);
    run->inject = run->params->inject;
    status      = open_comm(run, open_parts(run));
    if ((status == PL_OK) && !is_cost(run->params)) {
        status = open_data(run);
    }
    if ((status == PL_OK) && (run->params->events != NULL)) {
        status = pl_op_log_open(&run->executor->log, run->params->source.count);
    }
    if (run->comm == NULL) {
        return status;
    }
    PL_TRY(pl_comm_agree_status(run->comm, status));
    return is_cost(run->params) ? PL_OK : pl_data_expose(run->executor);
}

/* What stands on the caller's communicator.  Before the executor's memory is
 * freed: what peers have opened of it is closed here. */
static void close_comm(run_rank_t *run)
{
    if (run->comm != run->base) {
        pl_comm_close(run->comm);
        run->comm = run->base;
    }
}

/* The door first: until it is closed it may write to the executor's memory. */
static void close_rank(run_rank_t *run)
{
    if (run->door != NULL) {
        run->door->ops->close(run->door);
    }
    if (run->executor != NULL) {
        pl_op_log_close(&run->executor->log);
        run->executor->ops->close(run->executor);
    }
    pl_device_close(run->device);
    pl_engine_close(run->engine);
    pl_run_results_free(&run->results);
}

/* Open, run, collect; what was opened is the caller's to close. */
static pl_status_t run_rank(run_rank_t *run)
{
    const pl_run_params_t *params = run->params;

    PL_TRY(open_rank(run));
    run->runner =
        (pl_runner_params_t){.debug     = params->debug,
                             .seed      = params->engine.seed,
                             .reproduce = params->reproduce,
                             .report    = params->report,
                             .observer  = params->observer,
                             .task      = {pl_run_is_due, pl_run_record, run},
                             .inject    = &run->inject,
                             .log       = &run->log.log};
    PL_TRY(pl_runner_run(&run->runner, run->engine, run->executor, run->comm));
    PL_TRY(pl_engine_check(run->engine));
    return pl_run_collect(run);
}

/* After a timeout MPI may still write into what it was given (comm/comm.h):
 * then the program ends with its memory as it is. */
static bool memory_is_in_use(const pl_comm_t *comm, pl_status_t status)
{
    return (comm != NULL) && (strcmp(comm->ops->name, "local") != 0) &&
           ((status == PL_ERR_COMM) || (status == PL_ERR_DISAGREE));
}

pl_status_t pl_run(const pl_run_params_t *params, pl_comm_t *comm)
{
    run_rank_t run     = {.params = params,
                          .base   = comm,
                          .comm   = comm,
                          .rank   = comm == NULL ? 0 : comm->rank};
    pl_status_t status = run_rank(&run);

    if (!memory_is_in_use(comm, status)) {
        close_comm(&run);
        close_rank(&run);
    }
    return status;
}

/* ---- virtual ranks ---- */

/* Memory of all ranks is freed when all threads have ended: a peer may read a
 * rank's pages until then, whatever became of that rank. */
typedef struct local_run {
    run_rank_t *ranks;
} local_run_t;

static pl_status_t local_body(void *context, pl_comm_t *comm)
{
    local_run_t *local = context;
    run_rank_t *run    = &local->ranks[comm->rank];
    pl_status_t status;

    run->base = comm;
    run->comm = comm;
    run->rank = comm->rank;
    status    = run_rank(run);
    close_comm(run);
    return status;
}

pl_status_t pl_run_local(const pl_run_params_t *params, double timeout_s)
{
    int n = params->engine.n_prefill + params->engine.n_decode;
    local_run_t local;
    pl_status_t status;

    if (is_cost(params)) {
        return pl_run(params, NULL);
    }
    local.ranks = calloc((size_t)(n > 0 ? n : 1), sizeof(*local.ranks));
    if (local.ranks == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int rank = 0; rank < n; rank++) {
        local.ranks[rank].params = params;
    }
    status = pl_comm_run_local(n, params->engine.n_prefill, timeout_s,
                               params->log, local_body, &local);
    for (int rank = 0; rank < n; rank++) {
        close_rank(&local.ranks[rank]);
    }
    free(local.ranks);
    return status;
}
