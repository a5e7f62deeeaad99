/* The reference device: host memory, and copies where they are asked for. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "device/queue.h"
#include "device/shared.h"

typedef struct cpu {
    pl_device_t device;
    pl_copy_queue_t queues[PL_STREAMS];
    int64_t n_live;               /* allocations */
    PL_ARRAY(pl_shared_t) shared; /* those of kind SHARED */
    pl_opened_list_t opened;
} cpu_t;

/* ---- memory ---- */

static pl_status_t no_memory(const cpu_t *cpu, size_t bytes, const char *what)
{
    pl_log(cpu->device.log, PL_LOG_ERROR,
           "device cpu: no memory for %s (%zu bytes); use smaller pools", what,
           bytes);
    return PL_ERR_MEMORY;
}

/* Such memory is an open file without a name, and counts as one. */
static const char *limit_of(int error)
{
    switch (error) {
    case EFBIG:
        return ", or raise ulimit -f";
    case EMFILE:
        return ", or raise ulimit -n";
    default:
        return "";
    }
}

static pl_status_t alloc_shared(cpu_t *cpu, size_t bytes, const char *what,
                                void **mem_p)
{
    pl_shared_t shared;

    if (PL_ARRAY_RESERVE(&cpu->shared, cpu->shared.n + 1) != PL_OK) {
        return no_memory(cpu, bytes, what);
    }
    if (pl_shared_make(bytes, &shared) != PL_OK) {
        pl_log(cpu->device.log, PL_LOG_ERROR,
               "device cpu: no memory to share for %s (%zu bytes): %s; use "
               "smaller pools%s",
               what, bytes, strerror(errno), limit_of(errno));
        return PL_ERR_MEMORY;
    }
    cpu->shared.items[cpu->shared.n++] = shared;
    cpu->n_live++;
    *mem_p = shared.base;
    return PL_OK;
}

static pl_shared_t *find_shared(cpu_t *cpu, const void *mem)
{
    for (size_t i = 0; i < cpu->shared.n; i++) {
        if (cpu->shared.items[i].base == mem) {
            return &cpu->shared.items[i];
        }
    }
    return NULL;
}

static pl_status_t cpu_alloc(pl_device_t *self, pl_memory_t kind, size_t bytes,
                             const char *what, void **mem_p)
{
    cpu_t *cpu = (cpu_t *)self;
    void *mem;

    if (kind == PL_MEMORY_SHARED) {
        return alloc_shared(cpu, bytes, what, mem_p);
    }
    mem = pl_device_memory(bytes);
    if (mem == NULL) {
        return no_memory(cpu, bytes, what);
    }
    cpu->n_live++;
    *mem_p = mem;
    return PL_OK;
}

static void cpu_free(pl_device_t *self, void *mem)
{
    cpu_t *cpu          = (cpu_t *)self;
    pl_shared_t *shared = find_shared(cpu, mem);

    cpu->n_live--;
    if (shared == NULL) {
        free(mem);
        return;
    }
    pl_shared_free(shared);
    *shared = cpu->shared.items[--cpu->shared.n];
}

/* ---- streams ---- */

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

/* What this stream has still to do comes first; so does it for what other
 * streams do with the same memory, since it is done now. */
static pl_status_t cpu_after(pl_device_t *self, pl_stream_t stream,
                             pl_stream_t other, pl_fence_t fence)
{
    (void)stream;
    return cpu_wait(self, other, fence);
}

static pl_status_t cpu_fill(pl_device_t *self, pl_stream_t stream,
                            const pl_span_t *spans, int32_t n, uint8_t byte)
{
    pl_copy_queue_finish(&((cpu_t *)self)->queues[stream]);
    pl_host_fill(spans, n, byte);
    return PL_OK;
}

static pl_status_t cpu_digest(pl_device_t *self, pl_stream_t stream,
                              const pl_digest_job_t *jobs, int32_t n,
                              uint64_t *digests)
{
    pl_copy_queue_finish(&((cpu_t *)self)->queues[stream]);
    pl_host_digest(jobs, n, digests);
    return PL_OK;
}

static pl_status_t cpu_gather(pl_device_t *self, pl_stream_t stream,
                              const pl_page_gather_t *gather)
{
    pl_copy_queue_finish(&((cpu_t *)self)->queues[stream]);
    pl_host_gather(gather);
    return PL_OK;
}

/* ---- peers ---- */

static pl_status_t cpu_share(pl_device_t *self, void *mem, pl_share_t *share_p)
{
    const pl_shared_t *shared = find_shared((cpu_t *)self, mem);

    if (shared == NULL) {
        pl_log(self->log, PL_LOG_ERROR,
               "device cpu: share: not an allocation of kind SHARED");
        return PL_ERR_ARGUMENT;
    }
    return pl_shared_tell(shared, mem, self->log, share_p);
}

static pl_status_t cpu_open_shared(pl_device_t *self, const pl_share_t *share,
                                   void **mem_p)
{
    return pl_opened_add(&((cpu_t *)self)->opened, share, self->log, mem_p);
}

static void cpu_close_shared(pl_device_t *self, void *mem)
{
    pl_opened_remove(&((cpu_t *)self)->opened, mem);
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
    pl_opened_free(&cpu->opened, "cpu", self->log);
    for (size_t i = 0; i < cpu->shared.n; i++) {
        pl_shared_free(&cpu->shared.items[i]);
    }
    PL_ARRAY_FREE(&cpu->shared);
    free(cpu);
}

static const pl_device_ops_t cpu_ops = {
    .name         = "cpu",
    .alloc        = cpu_alloc,
    .free         = cpu_free,
    .copy         = cpu_copy,
    .record       = cpu_record,
    .wait         = cpu_wait,
    .after        = cpu_after,
    .fill         = cpu_fill,
    .digest       = cpu_digest,
    .gather       = cpu_gather,
    .close        = cpu_close,
    .share        = cpu_share,
    .open_shared  = cpu_open_shared,
    .close_shared = cpu_close_shared,
};

pl_status_t pl_device_open_cpu(const pl_log_t *log, pl_device_t **device_p)
{
    cpu_t *cpu = calloc(1, sizeof(*cpu));

    if (cpu == NULL) {
        pl_log(log, PL_LOG_ERROR, "device cpu: out of memory");
        return PL_ERR_MEMORY;
    }
    cpu->device.ops         = &cpu_ops;
    cpu->device.log         = log;
    cpu->device.addressable = true;
    *device_p               = &cpu->device;
    return PL_OK;
}
