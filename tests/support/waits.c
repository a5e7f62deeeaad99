#include "support/waits.h"

#include <check.h>
#include <stdlib.h>

#include "support/random_model.h"

/* Few device tokens: prompts go to the host tier and come back. */
enum { VOCAB = 257, DEVICE_TOKENS = 500, PAGE_BYTES = 4096 };

typedef struct watched {
    const waits_params_t *params;
    waits_run_t *run;
    struct {
        pl_device_t *device;
        int64_t waits, chunks, steps; /* so far */
    } ranks[WAITS_RANKS];             /* each is used by its own thread */
} watched_t;

/* The first layers are the same at any depth; experts and a layer without an
 * indexer are among them. */
static pl_model_config_t make_config(const waits_params_t *params)
{
    pl_rng_t rng             = pl_rng_seed(params->seed);
    pl_model_config_t config = pl_test_config(&rng);

    config.n_layers   = params->n_layers;
    config.vocab_size = VOCAB;
    for (int32_t layer = 0; layer < config.n_layers; layer++) {
        config.sparse_mlp[layer]   = layer % 2 == 1;
        config.full_indexer[layer] = layer % 3 == 0;
    }
    return config;
}

static pl_status_t open_device(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    watched_t *watched               = context;
    const pl_device_source_t *source = &watched->params->device;

    PL_TRY(source->open(source->context, rank, log, device_p));
    watched->ranks[rank].device = *device_p;
    return PL_OK;
}

static void note_tick(void *context, int rank, const pl_engine_t *engine)
{
    watched_t *watched                   = context;
    const pl_engine_counters_t *counters = pl_engine_counters(engine);
    int64_t waits                        = watched->ranks[rank].device->n_waits;
    waits_tick_t tick                    = {
                           .waits  = waits - watched->ranks[rank].waits,
                           .chunks = counters->chunks - watched->ranks[rank].chunks,
                           .steps  = counters->decode_steps - watched->ranks[rank].steps};
    waits_run_t *run = watched->run;

    watched->ranks[rank].waits  = waits;
    watched->ranks[rank].chunks = counters->chunks;
    watched->ranks[rank].steps  = counters->decode_steps;
    if (PL_ARRAY_PUSH(&run->ticks[rank], tick) != PL_OK) {
        abort();
    }
    if ((rank == 0) && (watched->params->synchronizations != NULL)) {
        run->last  = watched->params->synchronizations();
        run->first = run->ticks[0].n == 1 ? run->last : run->first;
    }
}

static exec_trace_t *make_trace(void)
{
    exec_trace_params_t params = {.seed       = 13,
                                  .n          = 30,
                                  .documents  = 4,
                                  .max_shared = 150,
                                  .max_own    = 60,
                                  .max_output = 8,
                                  .gap_ns     = 400000};
    exec_trace_t *trace        = exec_trace_make(&params);

    trace->vocab = VOCAB;
    return trace;
}

waits_run_t *waits_take(const waits_params_t *params)
{
    const char *injections[] = {params->inject, NULL};
    pl_model_config_t config = make_config(params);
    pl_weights_t *weights    = pl_test_weights(&config, params->seed);
    exec_trace_t *trace      = make_trace();
    waits_run_t *run         = calloc(1, sizeof(*run));
    watched_t watched        = {.params = params, .run = run};
    pl_run_params_t of_run   = exec_params(trace);

    if (run == NULL) {
        abort();
    }
    run->n_ranks = params->n_prefill + params->n_decode;
    exec_device(&of_run, "far"); /* by peer */
    of_run.executor = "model";
    of_run.model    = &config;
    of_run.weights  = weights;
    of_run.forward  = params->forward;
    of_run.device   = (pl_device_source_t){open_device, &watched};
    of_run.verify   = params->verify;
    of_run.observer =
        (pl_tick_observer_t){.tick = note_tick, .context = &watched};
    of_run.engine.n_prefill  = params->n_prefill;
    of_run.engine.n_decode   = params->n_decode;
    of_run.engine.page_bytes = PAGE_BYTES; /* costs, so decisions, too */
    exec_pools(&of_run, DEVICE_TOKENS, 3000, 6400);
    run->result = exec_run_with(&of_run, injections, 100.0);
    exec_trace_free(trace);
    pl_weights_close(weights);
    return run;
}

void waits_free(waits_run_t *run)
{
    for (int rank = 0; rank < run->n_ranks; rank++) {
        PL_ARRAY_FREE(&run->ticks[rank]);
    }
    exec_result_free(run->result);
    free(run);
}

int64_t waits_sum(const waits_run_t *run, int rank)
{
    int64_t sum = 0;

    for (size_t i = 0; i < run->ticks[rank].n; i++) {
        sum += run->ticks[rank].items[i].waits;
    }
    return sum;
}

void waits_must_be_good(const waits_run_t *run)
{
    const exec_result_t *result = run->result;

    ck_assert_msg(result->status == PL_OK, "%s\n%s%s",
                  pl_status_text(result->status), result->said.text,
                  result->line);
    ck_assert_int_eq(result->n_failed, 0);
    ck_assert_int_gt(result->cache.loads, 0);
    ck_assert_int_gt(result->cache.backups, 0);
}
