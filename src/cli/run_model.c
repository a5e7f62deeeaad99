#include "cli/run_model.h"

#include <stdlib.h>
#include <string.h>

static const pl_log_t *log_of(const pl_cli_t *cli)
{
    return cli->world.rank == 0 ? &cli->log : NULL;
}

/* "random:SEED" */
static pl_status_t parse_seed(const pl_cli_t *cli, uint64_t *seed_p)
{
    static const char RANDOM[] = "random:";
    const char *text           = cli->options.weights;
    char *end                  = NULL;

    if (strncmp(text, RANDOM, sizeof(RANDOM) - 1) == 0) {
        text += sizeof(RANDOM) - 1;
        *seed_p = strtoull(text, &end, 10);
    }
    if ((end == NULL) || (end == text) || (*end != '\0')) {
        pl_log(log_of(cli), PL_LOG_ERROR,
               "option --weights: cannot use '%.64s'; expected random:SEED "
               "with a number, such as random:1",
               cli->options.weights);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_cli_weights_open(const pl_cli_t *cli, pl_cli_model_t *model)
{
    const pl_options_t *o = &cli->options;
    uint64_t seed         = 0;

    if (o->weights == NULL) {
        return pl_weights_open(o->model, &model->config, log_of(cli),
                               &model->weights);
    }
    PL_TRY(parse_seed(cli, &seed));
    if (o->device == PL_OPT_DEVICE_CUDA) { /* the GPU draws them */
        return pl_weights_drawn(&model->config, seed, log_of(cli),
                                &model->weights);
    }
    return pl_weights_random(&model->config, seed, log_of(cli),
                             &model->weights);
}

pl_status_t pl_cli_model_open(const pl_cli_t *cli, pl_cli_model_t *model)
{
    PL_TRY(
        pl_model_config_read(cli->options.model, log_of(cli), &model->config));
    return pl_cli_weights_open(cli, model);
}

void pl_cli_model_close(pl_cli_model_t *model)
{
    pl_expect_close(model->expect);
    pl_weights_close(model->weights);
}

void pl_cli_model_trace(const pl_cli_model_t *model, pl_trace_params_t *params)
{
    params->vocab_size  = model->config.vocab_size;
    params->token_limit = model->config.vocab_size;
    params->banned      = model->config.eos;
    params->n_banned    = model->config.n_eos;
}

pl_status_t pl_cli_model_params(pl_cli_model_t *model, const pl_cli_t *cli,
                                pl_run_params_t *params)
{
    params->model    = &model->config;
    params->weights  = model->weights;
    params->kv_dtype = (pl_kv_dtype_t)cli->options.kv_dtype;
    if (cli->options.expect != NULL) {
        PL_TRY(pl_expect_open(cli->options.expect, params->source.count,
                              model->config.vocab_size, log_of(cli),
                              &model->expect));
        params->model_observer = pl_expect_observer(model->expect);
    }
    return PL_OK;
}
