#include "cli/hardware.h"

#include "comm/peer.h"

static pl_status_t open_by_name(void *context, int rank, const pl_log_t *log,
                                pl_device_t **device_p)
{
    static const char *const names[] = {
        [PL_OPT_DEVICE_CPU] = "cpu", [PL_OPT_DEVICE_GUARD] = "guard"};
    const pl_options_t *options = context;

    (void)rank;
    return pl_device_open(names[options->device], log, device_p);
}

static pl_status_t open_peer(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p)
{
    (void)context;
    return pl_comm_open_peer(base, device, comm_p);
}

void pl_cli_hardware(const pl_options_t *options, pl_run_params_t *params)
{
    params->device.open    = open_by_name;
    params->device.context = (void *)(uintptr_t)options; /* only read */
    params->open_comm = options->comm == PL_OPT_COMM_PEER ? open_peer : NULL;
}

bool pl_cli_has_virtual_ranks(const pl_options_t *options)
{
    return (options->comm == PL_OPT_COMM_LOCAL) ||
           (options->comm == PL_OPT_COMM_PEER);
}
