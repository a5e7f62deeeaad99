#include "cli/hardware.h"

#include <stdlib.h>

#include "comm/nccl.h"
#include "comm/peer.h"
#include "device/cuda.h"

/* ---- names ---- */

const char *pl_cli_device_name(int32_t device)
{
    static const char *const names[] = {[PL_OPT_DEVICE_CPU]   = "cpu",
                                        [PL_OPT_DEVICE_GUARD] = "guard",
                                        [PL_OPT_DEVICE_CUDA]  = "cuda"};

    return names[device];
}

const char *pl_cli_comm_name(int32_t comm)
{
    static const char *const names[] = {[PL_OPT_COMM_AUTO]  = "auto",
                                        [PL_OPT_COMM_LOCAL] = "local",
                                        [PL_OPT_COMM_MPI]   = "mpi",
                                        [PL_OPT_COMM_PEER]  = "peer",
                                        [PL_OPT_COMM_NCCL]  = "nccl"};

    return names[comm];
}

/* ---- devices ---- */

/* Which of the ranks on this machine a process is, as its launcher says; -1 if
 * none does. */
static int local_rank(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                            "MPI_LOCALRANKID", "SLURM_LOCALID"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        const char *text = getenv(variables[i]);

        if (text != NULL) {
            return (int)strtol(text, NULL, 10);
        }
    }
    return -1;
}

static pl_status_t open_cuda(int rank, const pl_log_t *log,
                             pl_device_t **device_p)
{
    int here   = local_rank();
    int n_gpus = pl_cuda_gpus();

    /* Without a GPU the device itself says why it cannot be opened. */
    return pl_device_open_cuda(
        (here >= 0 ? here : rank) % (n_gpus > 0 ? n_gpus : 1), log, device_p);
}

pl_status_t pl_cli_open_device(const pl_options_t *options, int rank,
                               const pl_log_t *log, pl_device_t **device_p)
{
    return options->device == PL_OPT_DEVICE_CUDA
               ? open_cuda(rank, log, device_p)
               : pl_device_open(pl_cli_device_name(options->device), log,
                                device_p);
}

static pl_status_t open_device(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    return pl_cli_open_device(context, rank, log, device_p);
}

/* ---- communicators ---- */

static pl_status_t open_peer(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p)
{
    (void)context;
    return pl_comm_open_peer(base, device, comm_p);
}

static pl_status_t open_nccl(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p)
{
    (void)context;
    return pl_comm_open_nccl(base, device, comm_p);
}

/* NCCL takes no two ranks on one GPU; all ranks must come to one answer. */
pl_status_t pl_cli_best_comm(pl_comm_t *base, int32_t *comm)
{
    uint64_t shares_gpu = local_rank() >= pl_cuda_gpus() ? 1 : 0;

    PL_TRY(pl_comm_agree(base, &shares_gpu, 1));
    *comm = (shares_gpu != 0) || (base->n_prefill == 1) ? PL_OPT_COMM_PEER
                                                        : PL_OPT_COMM_NCCL;
    return PL_OK;
}

static pl_status_t open_best(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p)
{
    int32_t best = PL_OPT_COMM_AUTO;

    (void)context;
    PL_TRY(pl_cli_best_comm(base, &best));
    return best == PL_OPT_COMM_PEER ? pl_comm_open_peer(base, device, comm_p)
                                    : pl_comm_open_nccl(base, device, comm_p);
}

/* Virtual ranks read each other's pages: NCCL would need a GPU for each. */
bool pl_cli_has_virtual_ranks(const pl_options_t *options)
{
    return (options->comm == PL_OPT_COMM_LOCAL) ||
           (options->comm == PL_OPT_COMM_PEER);
}

/* ---- the forward pass ---- */

static pl_status_t open_forward(void *context, pl_device_t *device,
                                const pl_model_config_t *config,
                                const pl_weights_t *weights,
                                pl_kv_dtype_t dtype, const pl_log_t *log,
                                pl_forward_t **forward_p)
{
    char why[256];
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));

    (void)context; /* the device is of this module, so it can be opened */
    return module->open_forward(device, config, weights, (int)dtype, log,
                                forward_p);
}

void pl_cli_hardware(const pl_options_t *options, pl_run_params_t *params)
{
    bool is_cuda = options->device == PL_OPT_DEVICE_CUDA;

    params->device.open    = open_device;
    params->device.context = (void *)(uintptr_t)options; /* only read */
    params->forward.open   = is_cuda ? open_forward : NULL;
    switch (options->comm) {
    case PL_OPT_COMM_PEER:
        params->open_comm = open_peer;
        break;
    case PL_OPT_COMM_NCCL:
        params->open_comm = open_nccl;
        break;
    default:
        params->open_comm = is_cuda ? open_best : NULL;
        break;
    }
}
