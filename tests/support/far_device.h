/* A device as a GPU is one, on the cpu: the host cannot touch its memory, and
 * what is queued is done as late as it may be.
 *
 * DEVICE and SHARED memory is mapped twice: at the address that is handed out
 * nobody may read or write (a direct access ends the test), and where the
 * device itself reaches it.  Copies, fills and gathers are done when they are
 * waited for, also through `after` and the events of other devices of this
 * process.  All memory is poison at first.  HOST memory is ordinary.  n_waits
 * depends on the calls alone: a wait counts unless it asks for what this host
 * has already waited for.
 *
 * Devices may be used from threads, one each; a mutex of all of them makes what
 * one does for another safe.
 */
#ifndef PL_TESTS_FAR_DEVICE_H
#define PL_TESTS_FAR_DEVICE_H

#include "device/device.h"

/* PL_OK, PL_ERR_MEMORY.  Closed with pl_device_close. */
PL_MUST_CHECK pl_status_t far_device_open(const pl_log_t *log,
                                          pl_device_t **device_p);
pl_device_source_t far_device_source(void);

/* By name, also "far". */
PL_MUST_CHECK pl_status_t far_device_open_named(const char *name,
                                                const pl_log_t *log,
                                                pl_device_t **device_p);

/* Where the host reaches memory of the device, all that is queued on `stream`
 * being done; `mem` itself if `device` is another than far. */
void *far_device_reach(pl_device_t *device, pl_stream_t stream,
                       const void *mem);

/* Queue a call on `stream` of a far device, as a kernel: it may touch memory of
 * devices where far_device_inside says, and calls nothing else of them. */
PL_MUST_CHECK pl_status_t far_device_call(pl_device_t *device,
                                          pl_stream_t stream,
                                          void (*call)(void *context),
                                          void *context);
void *far_device_inside(const void *mem); /* NULL for NULL */

#endif /* PL_TESTS_FAR_DEVICE_H */
