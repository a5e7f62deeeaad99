/* The reference device: host memory, and copies where they are asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "device/queue.h"

typedef struct cpu {
    pl_device_t device;
    pl_copy_queue_t queues[PL_STREAMS];
    int64_t n_live; /* allocations */
} cpu_t;

static pl_status_t cpu_alloc(pl_device_t *self, size_t bytes, const char *what,
                             void **mem_p)
{
    cpu_t *cpu = (cpu_t *)self;
    void *mem  = pl_device_memory(bytes);

    if (mem == NULL) {
        pl_log(self->log, PL_LOG_ERROR,
               "device cpu: no memory for %s (%zu bytes); use smaller pools",
               what, bytes);
        return PL_ERR_MEMORY;
    }
    cpu->n_live++;
    *mem_p = mem;
    return PL_OK;
}

static void cpu_free(pl_device_t *self, void *mem)
{
    ((cpu_t *)self)->n_live--;
    free(mem);
}

static pl_status_t cpu_copy(pl_device_t *self, pl_stream_t stream,
                            const pl_copy_t *copies, int32_t n, bool late)
{
    pl_copy_queue_t *queue = &((cpu_t *)self)->queues[stream];

    /* Behind a pending copy this one waits too: the stream keeps its order. */
    if (!late && (pl_copy_queue_pending(queue) == 0)) {
        pl_copy_queue_do(queue, copies, n);
        return PL_OK;
    }
    if (pl_copy_queue_add(queue, copies, n) != PL_OK) {
        pl_log(self->log, PL_LOG_ERROR,
               "device cpu: no memory to queue %" PRId32 " copies", n);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t cpu_record(pl_device_t *self, pl_stream_t stream,
                              pl_fence_t *fence_p)
{
    *fence_p = pl_copy_queue_fence(&((cpu_t *)self)->queues[stream]);
    return PL_OK;
}

static pl_status_t cpu_wait(pl_device_t *self, pl_stream_t stream,
                            pl_fence_t fence)
{
    if (!pl_copy_queue_run(&((cpu_t *)self)->queues[stream], fence)) {
        pl_log(self->log, PL_LOG_ERROR,
               "device cpu: fence %" PRIu64 " was not recorded on stream %s",
               fence, pl_stream_name(stream));
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t cpu_fill(pl_device_t *self, void *mem, size_t bytes,
                            uint8_t byte)
{
    (void)self;
    if (bytes > 0) {
        memset(mem, byte, bytes);
    }
    return PL_OK;
}

static void cpu_close(pl_device_t *self)
{
    cpu_t *cpu = (cpu_t *)self;

    pl_copy_queues_report(cpu->queues, "cpu", self->log);
    if (cpu->n_live != 0) {
        pl_log(self->log, PL_LOG_WARN,
               "device cpu: %" PRId64 " allocations were not freed",
               cpu->n_live);
    }
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        pl_copy_queue_free(&cpu->queues[stream]);
    }
    free(cpu);
}

static const pl_device_ops_t cpu_ops = {
    .name   = "cpu",
    .alloc  = cpu_alloc,
    .free   = cpu_free,
    .copy   = cpu_copy,
    .record = cpu_record,
    .wait   = cpu_wait,
    .fill   = cpu_fill,
    .close  = cpu_close,
};

pl_status_t pl_device_open_cpu(const pl_log_t *log, pl_device_t **device_p)
{
    cpu_t *cpu = calloc(1, sizeof(*cpu));

    if (cpu == NULL) {
        pl_log(log, PL_LOG_ERROR, "device cpu: out of memory");
        return PL_ERR_MEMORY;
    }
    cpu->device.ops = &cpu_ops;
    cpu->device.log = log;
    *device_p       = &cpu->device;
    return PL_OK;
}
