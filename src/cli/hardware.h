/* cli/hardware.h - the devices, the communicator and the forward pass that a
 * run's options ask for. */
#ifndef PL_CLI_HARDWARE_H
#define PL_CLI_HARDWARE_H

#include "cli/options.h"
#include "exec/run.h"

/* As the options --device and --comm say it. */
const char *pl_cli_device_name(int32_t device); /* PL_OPT_DEVICE_ */
const char *pl_cli_comm_name(int32_t comm);     /* PL_OPT_COMM_ */

/* Fills in params->device, what stands on the ranks' communicator, and
 * params->forward. `options` is borrowed. */
void pl_cli_hardware(const pl_options_t *options, pl_run_params_t *params);

/* Collective.  PL_OPT_COMM_NCCL or PEER: what --comm auto is on GPUs, the same
 * on all ranks.  Statuses of pl_comm_agree. */
PL_MUST_CHECK pl_status_t pl_cli_best_comm(pl_comm_t *base, int32_t *comm);

/* Are the ranks threads of this process, when mpirun has not started it? */
bool pl_cli_has_virtual_ranks(const pl_options_t *options);

/* The device of a rank.  On GPUs ranks of one machine take them in turn.
 * PL_ERR_DEVICE, PL_ERR_MEMORY; one line. */
PL_MUST_CHECK pl_status_t pl_cli_open_device(const pl_options_t *options,
                                             int rank, const pl_log_t *log,
                                             pl_device_t **device_p);

#endif /* PL_CLI_HARDWARE_H */
