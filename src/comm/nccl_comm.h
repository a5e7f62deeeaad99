/* comm/nccl_comm.h - the nccl communicator with a table of one's own, and its
 * yardstick; for the tests and `pagelane bench transfer`. */
#ifndef PL_COMM_NCCL_COMM_H
#define PL_COMM_NCCL_COMM_H

#include "comm/nccl.h"
#include "device/cuda_module.h"

/* As pl_comm_open_nccl, with `nccl` instead of the module's table. */
PL_MUST_CHECK pl_status_t pl_comm_open_nccl_with(pl_comm_t *base,
                                                 pl_device_t *device,
                                                 const pl_nccl_ops_t *nccl,
                                                 pl_comm_t **comm_p);

/* Prefill-collective, queued on PL_STREAM_GATHER: NCCL's own all-gather of
 * `bytes` of each rank, all [n_prefill * bytes].  PL_ERR_ARGUMENT (no line) if
 * `comm` is of another kind. */
PL_MUST_CHECK pl_status_t pl_comm_nccl_all_gather(pl_comm_t *comm,
                                                  const void *mine, void *all,
                                                  size_t bytes);

#endif /* PL_COMM_NCCL_COMM_H */
