/* cli/planned.h - the model and the hardware that options name, and the cost
 * table that both make.
 *
 * A name is that of a preset (sim/presets.h), whatever the case of its letters,
 * else a file.  What is wrong is told in one line: PL_ERR_ARGUMENT,
 * PL_ERR_INPUT, PL_ERR_MEMORY.
 */
#ifndef PL_CLI_PLANNED_H
#define PL_CLI_PLANNED_H

#include "cli/options.h"
#include "exec/run.h"
#include "sim/hardware.h"

/* --model and --hardware; `name` NULL: the option is missing.  *shown_p: the
 * preset's name, or `name`. */
PL_MUST_CHECK pl_status_t pl_cli_read_model(const char *name,
                                            const pl_log_t *log,
                                            pl_model_config_t *model_p,
                                            const char **shown_p);
PL_MUST_CHECK pl_status_t pl_cli_read_hardware(const char *name,
                                               const pl_log_t *log,
                                               pl_hardware_t *hardware_p);

/* Is the run's time that of the model that --model names? */
bool pl_cli_is_planned(const pl_options_t *options);

/* Of instances that prefill and decode (cli/fleet_shape.h), for the cost table:
 * GPUs of one that prefills, of one that decodes, and of each home in it. */
typedef struct pl_cli_gpus {
    int32_t prefill, decode, home;
} pl_cli_gpus_t;

/* Of a run that is: reads the model into *model and fills in the cost table and
 * how large pages are for it; with --executor cost, how they lie, which borrows
 * *model.  gpus NULL: there is one group.  Else nothing. */
PL_MUST_CHECK pl_status_t pl_cli_plan(const pl_options_t *options,
                                      const pl_log_t *log,
                                      const pl_cli_gpus_t *gpus,
                                      pl_model_config_t *model,
                                      pl_run_params_t *params);

#endif /* PL_CLI_PLANNED_H */
