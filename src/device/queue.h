/* device/queue.h - copies of one stream that are not done yet; inside device.
 *
 * Zero-initialised means empty.  A fence counts the copies handed to the
 * stream so far, so a later fence is larger and 0 is never waited for.
 */
#ifndef PL_DEVICE_QUEUE_H
#define PL_DEVICE_QUEUE_H

#include <stdbool.h>

#include "base/array.h"
#include "device/device.h"

typedef struct pl_copy_queue {
    PL_ARRAY(pl_copy_t) copies; /* items[head .. n-1] are pending, in order */
    size_t head;
    pl_fence_t n_done; /* copies done since the stream was opened */
} pl_copy_queue_t;

/* Append; all or nothing.  PL_ERR_MEMORY (not printed). */
PL_MUST_CHECK pl_status_t pl_copy_queue_add(pl_copy_queue_t *queue,
                                            const pl_copy_t *copies, int32_t n);

/* Do these copies now and count them; only while nothing is pending. */
void pl_copy_queue_do(pl_copy_queue_t *queue, const pl_copy_t *copies,
                      int32_t n);

/* The fence after all that was handed over so far. */
pl_fence_t pl_copy_queue_fence(const pl_copy_queue_t *queue);

/* Do what is pending before the fence, in order.  false: no such fence. */
bool pl_copy_queue_run(pl_copy_queue_t *queue, pl_fence_t fence);

/* Do all that is pending, in order. */
void pl_copy_queue_finish(pl_copy_queue_t *queue);

static inline size_t pl_copy_queue_pending(const pl_copy_queue_t *queue)
{
    return queue->copies.n - queue->head;
}

void pl_copy_queue_free(pl_copy_queue_t *queue); /* drops what is pending */

/* "load", "backup", ...: in messages. */
const char *pl_stream_name(pl_stream_t stream);

/* Warn of copies that nobody waited for.  They are not done: when a device
 * closes, their memory may be gone. */
void pl_copy_queues_report(const pl_copy_queue_t queues[PL_STREAMS],
                           const char *device, const pl_log_t *log);

/* What cpu and guard do at once. */
void pl_host_fill(const pl_span_t *spans, int32_t n, uint8_t byte);
void pl_host_digest(const pl_digest_job_t *jobs, int32_t n, uint64_t *digests);
void pl_host_gather(const pl_page_gather_t *gather);

/* 64-byte aligned memory, to be given to free(); NULL if there is none. */
void *pl_device_memory(size_t bytes);

#endif /* PL_DEVICE_QUEUE_H */
