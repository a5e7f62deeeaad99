/* comm/nccl.h - a communicator whose pages go by NCCL.
 *
 * It stands on another (local, mpi), which carries all that is said between
 * hosts; only `gather` of regions in device memory is its own.  Each rank packs
 * its own pages to their place in its view and sends them from there; what
 * comes from a peer, as long as its pages are many, is received into the view:
 * owner-major, `rows` says where a page is, and nothing is unpacked.  NCCL is
 * reached through the CUDA module (device/cuda.h).
 *
 * One NCCL communicator for the prefill ranks; other ranks have none.  Two
 * ranks on one GPU are refused with a line that names --comm peer.  While the
 * host waits for the device, NCCL's asynchronous errors are looked at; after
 * one, or timeout_s without an end, the communicator is aborted and the wait
 * returns PL_ERR_COMM.
 */
#ifndef PL_COMM_NCCL_H
#define PL_COMM_NCCL_H

#include "comm/comm.h"

/* As pl_comm_open_peer.  `device` is a cuda device. */
PL_MUST_CHECK pl_status_t pl_comm_open_nccl(pl_comm_t *base,
                                            pl_device_t *device,
                                            pl_comm_t **comm_p);

#endif /* PL_COMM_NCCL_H */
