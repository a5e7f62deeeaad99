/* cli/run_model.h - the model of `pagelane run --model`: what is opened for it.
 */
#ifndef PL_CLI_RUN_MODEL_H
#define PL_CLI_RUN_MODEL_H

#include <pagelane/trace.h>

#include "cli/cli.h"
#include "cli/expect.h"
#include "exec/run.h"
#include "model/config.h"
#include "model/weights.h"

/* Zeroed: nothing is open. */
typedef struct pl_cli_model {
    pl_model_config_t config;
    pl_weights_t *weights;
    pl_expect_t *expect; /* NULL without --expect */
} pl_cli_model_t;

/* Read configuration and weights as the options say.  Not collective; rank 0
 * speaks.  PL_ERR_ARGUMENT, PL_ERR_INPUT, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_cli_model_open(const pl_cli_t *cli,
                                            pl_cli_model_t *model);
/* The weights alone, for the configuration that is there. */
PL_MUST_CHECK pl_status_t pl_cli_weights_open(const pl_cli_t *cli,
                                              pl_cli_model_t *model);
void pl_cli_model_close(pl_cli_model_t *model);

/* What the trace must know of the model: its vocabulary and the tokens that
 * ids are never expanded to. */
void pl_cli_model_trace(const pl_cli_model_t *model, pl_trace_params_t *params);

/* Fill in what a run needs, and open the reference. */
PL_MUST_CHECK pl_status_t pl_cli_model_params(pl_cli_model_t *model,
                                              const pl_cli_t *cli,
                                              pl_run_params_t *params);

#endif /* PL_CLI_RUN_MODEL_H */
