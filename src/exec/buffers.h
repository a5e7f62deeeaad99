/* exec/buffers.h - memory of messages: host memory that the device reaches,
 * kept for the next ones, since making it can be slow. */
#ifndef PL_EXEC_BUFFERS_H
#define PL_EXEC_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "device/device.h"

typedef struct pl_buffer {
    uint8_t *bytes;
    size_t room;
    bool used;
    pl_fence_t fence; /* of PL_STREAM_SEND when it was given back */
} pl_buffer_t;

typedef PL_ARRAY(pl_buffer_t) pl_buffers_t; /* {0} is empty */

/* n bytes, until they are given back; 16-byte aligned.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_buffer_take(pl_buffers_t *buffers,
                                         pl_device_t *device, size_t n,
                                         uint8_t **bytes_p);
/* Copies from it may still be queued on PL_STREAM_SEND.  NULL is allowed. */
void pl_buffer_give(pl_buffers_t *buffers, pl_device_t *device,
                    const uint8_t *bytes);
/* Nothing may be on its way. */
void pl_buffers_free(pl_buffers_t *buffers, pl_device_t *device);

#endif /* PL_EXEC_BUFFERS_H */
