#include "device/queue.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

static void do_copy(const pl_copy_t *copy)
{
    if (copy->bytes > 0) {
        memmove(copy->dst, copy->src, copy->bytes);
    }
}

/* Drop the copies done long ago, at a cost that stays in proportion. */
static void compact(pl_copy_queue_t *queue)
{
    size_t n_pending = pl_copy_queue_pending(queue);

    if (queue->head < n_pending) {
        return;
    }
    if (n_pending > 0) {
        memmove(queue->copies.items, queue->copies.items + queue->head,
                n_pending * sizeof(*queue->copies.items));
    }
    queue->copies.n = n_pending;
    queue->head     = 0;
}

pl_status_t pl_copy_queue_add(pl_copy_queue_t *queue, const pl_copy_t *copies,
                              int32_t n)
{
    if (n == 0) {
        return PL_OK;
    }
    compact(queue);
    PL_TRY(PL_ARRAY_RESERVE(&queue->copies, queue->copies.n + (size_t)n));
    memcpy(queue->copies.items + queue->copies.n, copies,
           (size_t)n * sizeof(*copies));
    queue->copies.n += (size_t)n;
    return PL_OK;
}

void pl_copy_queue_do(pl_copy_queue_t *queue, const pl_copy_t *copies,
                      int32_t n)
{
    assert(pl_copy_queue_pending(queue) == 0);
    for (int32_t i = 0; i < n; i++) {
        do_copy(&copies[i]);
    }
    queue->n_done += (pl_fence_t)n;
}

pl_fence_t pl_copy_queue_fence(const pl_copy_queue_t *queue)
{
    return queue->n_done + pl_copy_queue_pending(queue);
}

bool pl_copy_queue_run(pl_copy_queue_t *queue, pl_fence_t fence)
{
    if (fence > pl_copy_queue_fence(queue)) {
        return false;
    }
    while (queue->n_done < fence) {
        do_copy(&queue->copies.items[queue->head++]);
        queue->n_done++;
    }
    return true;
}

void pl_copy_queue_finish(pl_copy_queue_t *queue)
{
    (void)pl_copy_queue_run(queue, pl_copy_queue_fence(queue));
}

void pl_copy_queue_free(pl_copy_queue_t *queue)
{
    PL_ARRAY_FREE(&queue->copies);
    queue->head = 0;
}

const char *pl_stream_name(pl_stream_t stream)
{
    switch (stream) {
    case PL_STREAM_COMPUTE:
        return "compute";
    case PL_STREAM_GATHER:
        return "gather";
    case PL_STREAM_LOAD:
        return "load";
    case PL_STREAM_BACKUP:
        return "backup";
    case PL_STREAM_DECODE:
        return "decode";
    case PL_STREAM_SEND:
        return "send";
    case PL_STREAMS:
        break;
    }
    return "unknown";
}

void pl_copy_queues_report(const pl_copy_queue_t queues[PL_STREAMS],
                           const char *device, const pl_log_t *log)
{
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        size_t n = pl_copy_queue_pending(&queues[stream]);

        if (n > 0) {
            pl_log(log, PL_LOG_WARN,
                   "device %s: %zu copies on stream %s were never waited for "
                   "and never done; wait for a fence recorded after them",
                   device, n, pl_stream_name((pl_stream_t)stream));
        }
    }
}

void pl_host_fill(const pl_span_t *spans, int32_t n, uint8_t byte)
{
    for (int32_t i = 0; i < n; i++) {
        if (spans[i].bytes > 0) {
            memset(spans[i].mem, byte, spans[i].bytes);
        }
    }
}

void pl_host_digest(const pl_digest_job_t *jobs, int32_t n, uint64_t *digests)
{
    for (int32_t i = 0; i < n; i++) {
        digests[i] =
            pl_digest_rows(&jobs[i].form, jobs[i].page, jobs[i].first,
                           jobs[i].rows, jobs[i].position, jobs[i].base);
    }
}

void pl_host_gather(const pl_page_gather_t *gather)
{
    for (int32_t i = 0; i < gather->n_pages; i++) {
        pl_page_t page = gather->pages[i];
        size_t slot    = (size_t)pl_page_slot(page, gather->n_bases);

        memcpy(gather->view + (size_t)i * gather->stride,
               gather->bases[pl_page_owner(page, gather->n_bases)] +
                   slot * gather->stride,
               gather->stride);
    }
}

void *pl_device_memory(size_t bytes)
{
    if (bytes > (size_t)PTRDIFF_MAX - ALIGNMENT) {
        return NULL;
    }
    bytes = bytes == 0 ? 1 : bytes; /* so that NULL always means failure */
    return aligned_alloc(ALIGNMENT,
                         (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}
