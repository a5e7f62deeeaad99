/* cli/hardware.h - the devices and the communicator that a run's options ask
 * for. */
#ifndef PL_CLI_HARDWARE_H
#define PL_CLI_HARDWARE_H

#include "cli/options.h"
#include "exec/run.h"

/* Fills in params->device and what stands on the ranks' communicator. `options`
 * is borrowed. */
void pl_cli_hardware(const pl_options_t *options, pl_run_params_t *params);

/* Are the ranks threads of this process, when mpirun has not started it? */
bool pl_cli_has_virtual_ranks(const pl_options_t *options);

#endif /* PL_CLI_HARDWARE_H */
