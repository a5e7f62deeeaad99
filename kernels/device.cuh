/* kernels/device.cuh - the cuda device, for what is built on it.
 *
 * A device of table device/device.h (its comments are the contract) on one GPU.
 * Here is what the forward pass and NCCL need beside that table: they queue
 * their own kernels on its streams.  Several devices may be open on one GPU.
 */
#ifndef PL_KERNELS_DEVICE_CUH
#define PL_KERNELS_DEVICE_CUH

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "device/device.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PL_ERR_DEVICE (no such GPU, no driver), PL_ERR_MEMORY; one line. */
PL_MUST_CHECK pl_status_t pl_cuda_device_open(int gpu, const pl_log_t *log,
                                              pl_device_t **device_p);

/* Its GPU becomes that of the calling thread: before CUDA calls of one's own.
 * Each operation of the table does so itself. */
PL_MUST_CHECK pl_status_t pl_cuda_device_enter(const pl_device_t *device);
int pl_cuda_device_gpu(const pl_device_t *device);
/* The stream of its own; never the default one, not ordered with it. */
pl_cuda_stream_t pl_cuda_device_stream(pl_device_t *device, pl_stream_t stream);
/* After kernels were queued on a stream: PL_OK, or PL_ERR_DEVICE with one line
 * that names `what`.  `launched` is what the launcher returned.  With
 * PAGELANE_DEBUG=1 the host waits for the stream, so that an error is told of
 * what made it. */
PL_MUST_CHECK pl_status_t pl_cuda_device_launched(pl_device_t *device,
                                                  pl_stream_t stream,
                                                  pl_status_t launched,
                                                  const char *what);
/* The host waits for all that is queued on the stream: counted in n_waits, and
 * the watch is asked. */
PL_MUST_CHECK pl_status_t pl_cuda_device_wait_stream(pl_device_t *device,
                                                     pl_stream_t stream);

/* One line about a CUDA call (`error`: cudaError_t): what was asked, what CUDA
 * says, what to do; PL_ERR_DEVICE, or PL_ERR_MEMORY if memory lacked.  PL_OK
 * and no line for cudaSuccess. */
PL_MUST_CHECK pl_status_t pl_cuda_told(const pl_log_t *log, int error,
                                       const char *what);

/* PAGELANE_DEBUG=1 */
bool pl_cuda_is_debug(void);
/* Before a call in which CUDA makes the host wait, for a whole stream or device
 * or (weights on their way) an event: counts it (pl_cuda_n_synchronizations).
 */
void pl_cuda_count_synchronization(void);
int64_t pl_cuda_n_synchronizations(void);
/* Copy to or from the GPU; the host waits, and that is counted.  A cudaError_t.
 */
int pl_cuda_copy_now(void *to, const void *from, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* PL_KERNELS_DEVICE_CUH */
