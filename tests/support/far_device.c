#define _GNU_SOURCE /* memfd_create */
#include "support/far_device.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "device/queue.h"

typedef struct far far_t;

/* One piece of work, or a point that comes after one of another queue.  Void
 * once its memory or the other queue is gone: then nothing is done. */
typedef struct work {
    uint8_t *dst;
    const uint8_t *src; /* NULL: fill */
    size_t bytes;
    uint8_t byte;
    struct queue *other; /* not NULL: `fence` of it comes first */
    pl_fence_t fence;
    void (*call)(void *context); /* not NULL: this instead */
    void *context;
} work_t;

typedef struct queue {
    PL_ARRAY(work_t) items; /* all that was ever queued and is not done */
    size_t head;
    pl_fence_t n_done;
    pl_fence_t n_known; /* to be done, by who waits: others may do it as well */
} queue_t;

struct pl_event {
    struct pl_event *of; /* what a peer has made; NULL: made here */
    queue_t *queue;      /* NULL: never marked */
    pl_fence_t fence;
};

struct far {
    pl_device_t device;
    queue_t queues[PL_STREAMS];
    PL_ARRAY(pl_event_t *) events; /* made here: a peer may look until close */
};

typedef struct block {
    uint8_t *mem;   /* that nobody may touch */
    uint8_t *reach; /* the same bytes */
    size_t bytes;
} block_t;

/* All far memory and devices of this process. */
static struct {
    pthread_mutex_t mutex;
    PL_ARRAY(block_t) blocks;
    PL_ARRAY(far_t *) devices;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&all.mutex);
}

static pl_status_t unlock(pl_status_t status)
{
    pthread_mutex_unlock(&all.mutex);
    return status;
}

/* ---- memory ---- */

static block_t *block_of(const void *mem)
{
    uintptr_t at = (uintptr_t)mem;

    for (size_t i = 0; i < all.blocks.n; i++) {
        uintptr_t begin = (uintptr_t)all.blocks.items[i].mem;

        if ((at >= begin) && (at - begin <= all.blocks.items[i].bytes)) {
            return &all.blocks.items[i];
        }
    }
    return NULL;
}

static uint8_t *reach_of(const void *mem)
{
    const block_t *block = block_of(mem);

    return block == NULL ? (uint8_t *)(uintptr_t)mem
                         : block->reach + ((const uint8_t *)mem - block->mem);
}

/* A range of far memory lies in one block. */
static bool is_inside(const far_t *far, const void *mem, size_t bytes)
{
    const block_t *block = block_of(mem);
    size_t at = block == NULL ? 0 : (size_t)((const uint8_t *)mem - block->mem);

    if ((block == NULL) || (bytes <= block->bytes - at)) {
        return true;
    }
    pl_log(far->device.log, PL_LOG_ERROR,
           "device far: %zu bytes at byte %zu of %zu", bytes, at, block->bytes);
    return false;
}

static bool map_twice(size_t bytes, block_t *block)
{
    size_t n = bytes + 64; /* so that no two blocks touch */
    int fd   = memfd_create("far", MFD_CLOEXEC);
    void *mem, *reach;

    if ((fd < 0) || (ftruncate(fd, (off_t)n) != 0)) {
        return false;
    }
    mem   = mmap(NULL, n, PROT_NONE, MAP_SHARED, fd, 0);
    reach = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if ((mem == MAP_FAILED) || (reach == MAP_FAILED)) {
        return false;
    }
    memset(reach, PL_POISON_BYTE, bytes);
    *block = (block_t){mem, reach, bytes};
    return true;
}

static pl_status_t far_alloc(pl_device_t *self, pl_memory_t kind, size_t bytes,
                             const char *what, void **mem_p)
{
    block_t block = {0};
    bool good;

    if (kind == PL_MEMORY_HOST) {
        *mem_p = pl_device_memory(bytes);
        good   = *mem_p != NULL;
        if (good) {
            memset(*mem_p, PL_POISON_BYTE, bytes);
        }
    } else {
        lock();
        good = map_twice(bytes, &block) &&
               (PL_ARRAY_PUSH(&all.blocks, block) == PL_OK);
        *mem_p = block.mem;
        (void)unlock(PL_OK);
    }
    if (!good) {
        pl_log(self->log, PL_LOG_ERROR,
               "device far: no memory for %s (%zu bytes)", what, bytes);
    }
    return good ? PL_OK : PL_ERR_MEMORY;
}

/* ---- queues ---- */

static pl_fence_t fence_of(const queue_t *queue)
{
    return queue->n_done + (queue->items.n - queue->head);
}

static void do_work(const work_t *work)
{
    if (work->call != NULL) {
        work->call(work->context);
        return;
    }
    if (work->bytes == 0) {
        return;
    }
    if (work->src == NULL) {
        memset(reach_of(work->dst), work->byte, work->bytes);
    } else {
        memmove(reach_of(work->dst), reach_of(work->src), work->bytes);
    }
}

/* Fences are of the past, so what they ask for never asks for this again. */
static void run(queue_t *queue, pl_fence_t fence) /* NOLINT: recursion */
{
    while (queue->n_done < fence) {
        work_t work = queue->items.items[queue->head];

        if (work.other != NULL) {
            run(work.other, work.fence);
        }
        do_work(&work);
        queue->head++;
        queue->n_done++;
    }
    if (queue->head == queue->items.n) {
        queue->head    = 0;
        queue->items.n = 0;
    }
}

static void run_all(far_t *far)
{
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        run(&far->queues[stream], fence_of(&far->queues[stream]));
    }
}

static pl_status_t push(far_t *far, pl_stream_t stream, work_t work)
{
    if (!is_inside(far, work.dst, work.bytes) ||
        !is_inside(far, work.src, work.bytes)) {
        return PL_ERR_VIOLATION;
    }
    return PL_ARRAY_PUSH(&far->queues[stream].items, work);
}

static pl_status_t far_copy(pl_device_t *self, pl_stream_t stream,
                            const pl_copy_t *copies, int32_t n, bool late)
{
    pl_status_t status = PL_OK;

    (void)late; /* always */
    lock();
    for (int32_t i = 0; (status == PL_OK) && (i < n); i++) {
        status =
            push((far_t *)self, stream,
                 (work_t){.dst   = copies[i].dst,
                          .src   = copies[i].bytes > 0 ? copies[i].src : NULL,
                          .bytes = copies[i].bytes});
    }
    return unlock(status);
}

static pl_status_t far_fill(pl_device_t *self, pl_stream_t stream,
                            const pl_span_t *spans, int32_t n, uint8_t byte)
{
    pl_status_t status = PL_OK;

    lock();
    for (int32_t i = 0; (status == PL_OK) && (i < n); i++) {
        status = push((far_t *)self, stream,
                      (work_t){.dst   = spans[i].mem,
                               .bytes = spans[i].bytes,
                               .byte  = byte});
    }
    return unlock(status);
}

static pl_status_t far_gather(pl_device_t *self, pl_stream_t stream,
                              const pl_page_gather_t *gather)
{
    pl_status_t status = PL_OK;

    lock();
    for (int32_t i = 0; (status == PL_OK) && (i < gather->n_pages); i++) {
        pl_page_t page = gather->pages[i];
        const uint8_t *base =
            gather->bases[pl_page_owner(page, gather->n_bases)];
        size_t slot = (size_t)pl_page_slot(page, gather->n_bases);

        status = push((far_t *)self, stream,
                      (work_t){.dst = gather->view + (size_t)i * gather->stride,
                               .src = base + slot * gather->stride,
                               .bytes = gather->stride});
    }
    return unlock(status);
}

/* ---- order ---- */

static pl_status_t far_record(pl_device_t *self, pl_stream_t stream,
                              pl_fence_t *fence_p)
{
    lock();
    *fence_p = fence_of(&((far_t *)self)->queues[stream]);
    return unlock(PL_OK);
}

static pl_status_t no_fence(const pl_device_t *self, pl_stream_t stream,
                            pl_fence_t fence)
{
    pl_log(self->log, PL_LOG_ERROR,
           "device far: fence %" PRIu64 " was not recorded on stream %s", fence,
           pl_stream_name(stream));
    return PL_ERR_ARGUMENT;
}

/* Counted by what was waited for, not by what happens to be done: the same in
 * every run. */
static void wait_until(far_t *far, queue_t *queue, pl_fence_t fence)
{
    if (fence > queue->n_known) {
        queue->n_known = fence;
        far->device.n_waits++;
    }
    run(queue, fence);
}

static pl_status_t far_wait(pl_device_t *self, pl_stream_t stream,
                            pl_fence_t fence)
{
    far_t *far     = (far_t *)self;
    queue_t *queue = &far->queues[stream];

    lock();
    if (fence > fence_of(queue)) {
        return unlock(no_fence(self, stream, fence));
    }
    wait_until(far, queue, fence);
    return unlock(PL_OK);
}

static pl_status_t far_after(pl_device_t *self, pl_stream_t stream,
                             pl_stream_t other, pl_fence_t fence)
{
    far_t *far = (far_t *)self;

    lock();
    if (fence > fence_of(&far->queues[other])) {
        return unlock(no_fence(self, other, fence));
    }
    return unlock(push(far, stream,
                       (work_t){.other = &far->queues[other], .fence = fence}));
}

static pl_status_t far_digest(pl_device_t *self, pl_stream_t stream,
                              const pl_digest_job_t *jobs, int32_t n,
                              uint64_t *digests)
{
    far_t *far     = (far_t *)self;
    queue_t *queue = &far->queues[stream];

    lock();
    far->device.n_waits++; /* also behind nothing: the hashing itself */
    run(queue, fence_of(queue));
    queue->n_known = fence_of(queue);
    for (int32_t i = 0; i < n; i++) {
        pl_digest_job_t job = jobs[i];

        job.page = reach_of(job.page);
        pl_host_digest(&job, 1, &digests[i]);
    }
    return unlock(PL_OK);
}

/* ---- peers ---- */

static pl_status_t far_share(pl_device_t *self, void *mem, pl_share_t *share_p)
{
    (void)self;
    *share_p = (pl_share_t){.process = getpid(), .address = (uintptr_t)mem};
    return PL_OK;
}

static pl_status_t far_open_shared(pl_device_t *self, const pl_share_t *share,
                                   void **mem_p)
{
    if (share->process != getpid()) {
        pl_log(self->log, PL_LOG_ERROR,
               "device far: memory of another process cannot be opened");
        return PL_ERR_DEVICE;
    }
    *mem_p = (void *)(uintptr_t)share->address;
    return PL_OK;
}

static void far_close_shared(pl_device_t *self, void *mem)
{
    (void)self;
    (void)mem;
}

static pl_status_t far_event_make(pl_device_t *self, pl_event_t **event_p,
                                  pl_share_t *share_p)
{
    far_t *far         = (far_t *)self;
    pl_event_t *event  = calloc(1, sizeof(*event));
    pl_status_t status = PL_ERR_MEMORY;

    lock();
    if (event != NULL) {
        status = PL_ARRAY_PUSH(&far->events, event);
    }
    if (status != PL_OK) {
        free(event);
        return unlock(status);
    }
    *event_p = event;
    return unlock(far_share(self, event, share_p));
}

static pl_status_t far_event_open(pl_device_t *self, const pl_share_t *share,
                                  pl_event_t **event_p)
{
    void *of = NULL;

    PL_TRY(far_open_shared(self, share, &of));
    *event_p = calloc(1, sizeof(**event_p));
    if (*event_p == NULL) {
        return PL_ERR_MEMORY;
    }
    (*event_p)->of = of;
    return PL_OK;
}

static pl_status_t far_event_mark(pl_device_t *self, pl_stream_t stream,
                                  pl_event_t *event)
{
    lock();
    event->queue = &((far_t *)self)->queues[stream];
    event->fence = fence_of(event->queue);
    return unlock(PL_OK);
}

static pl_status_t far_event_after(pl_device_t *self, pl_stream_t stream,
                                   pl_event_t *event)
{
    const pl_event_t *made = event->of != NULL ? event->of : event;
    pl_status_t status     = PL_OK;

    lock();
    if (made->queue != NULL) {
        status = push((far_t *)self, stream,
                      (work_t){.other = made->queue, .fence = made->fence});
    }
    return unlock(status);
}

static void far_event_close(pl_device_t *self, pl_event_t *event)
{
    (void)self;
    if ((event != NULL) && (event->of != NULL)) {
        free(event);
    }
}

/* ---- lifecycle ---- */

/* No work of any device touches memory that is gone, or waits for a device that
 * is. */
static void forget(const block_t *block, const far_t *gone)
{
    const uint8_t *end   = block == NULL ? NULL : block->mem + block->bytes;
    const queue_t *first = gone == NULL ? NULL : gone->queues;

    for (size_t d = 0; d < all.devices.n; d++) {
        for (int stream = 0; stream < PL_STREAMS; stream++) {
            queue_t *queue = &all.devices.items[d]->queues[stream];

            for (size_t i = queue->head; i < queue->items.n; i++) {
                work_t *work = &queue->items.items[i];

                if ((block != NULL) &&
                    (((work->dst >= block->mem) && (work->dst < end)) ||
                     ((work->src >= block->mem) && (work->src < end)))) {
                    work->bytes = 0;
                }
                if ((gone != NULL) && (work->other >= first) &&
                    (work->other < first + PL_STREAMS)) {
                    work->other = NULL;
                }
            }
        }
    }
}

static void far_free(pl_device_t *self, void *mem)
{
    block_t *block;

    lock();
    block = block_of(mem);
    if (block == NULL) {
        free(mem);
    } else {
        run_all((far_t *)self); /* as a GPU does */
        forget(block, NULL);
        munmap(block->mem, block->bytes + 64);
        munmap(block->reach, block->bytes + 64);
        *block = all.blocks.items[--all.blocks.n];
    }
    (void)unlock(PL_OK);
}

static void far_close(pl_device_t *self)
{
    far_t *far = (far_t *)self;

    lock();
    run_all(far);
    for (size_t i = 0; i < all.devices.n; i++) {
        if (all.devices.items[i] == far) {
            all.devices.items[i] = all.devices.items[--all.devices.n];
        }
    }
    forget(NULL, far);
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        PL_ARRAY_FREE(&far->queues[stream].items);
    }
    for (size_t i = 0; i < far->events.n; i++) {
        free(far->events.items[i]);
    }
    PL_ARRAY_FREE(&far->events);
    if (all.devices.n == 0) {
        PL_ARRAY_FREE(&all.devices);
    }
    if (all.blocks.n == 0) {
        PL_ARRAY_FREE(&all.blocks);
    }
    free(far);
    (void)unlock(PL_OK);
}

static const pl_device_ops_t far_ops = {
    .name         = "far",
    .alloc        = far_alloc,
    .free         = far_free,
    .copy         = far_copy,
    .record       = far_record,
    .wait         = far_wait,
    .after        = far_after,
    .fill         = far_fill,
    .digest       = far_digest,
    .gather       = far_gather,
    .close        = far_close,
    .share        = far_share,
    .open_shared  = far_open_shared,
    .close_shared = far_close_shared,
    .event_make   = far_event_make,
    .event_open   = far_event_open,
    .event_mark   = far_event_mark,
    .event_after  = far_event_after,
    .event_close  = far_event_close,
};

pl_status_t far_device_open(const pl_log_t *log, pl_device_t **device_p)
{
    far_t *far         = calloc(1, sizeof(*far));
    pl_status_t status = PL_ERR_MEMORY;

    if (far == NULL) {
        return PL_ERR_MEMORY;
    }
    far->device.ops = &far_ops;
    far->device.log = log;
    lock();
    status = PL_ARRAY_PUSH(&all.devices, far);
    (void)unlock(PL_OK);
    if (status != PL_OK) {
        free(far);
        return status;
    }
    *device_p = &far->device;
    return PL_OK;
}

pl_status_t far_device_open_named(const char *name, const pl_log_t *log,
                                  pl_device_t **device_p)
{
    return strcmp(name, "far") == 0 ? far_device_open(log, device_p)
                                    : pl_device_open(name, log, device_p);
}

static pl_status_t open_source(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    (void)context;
    (void)rank;
    return far_device_open(log, device_p);
}

pl_device_source_t far_device_source(void)
{
    return (pl_device_source_t){.open = open_source};
}

void *far_device_reach(pl_device_t *device, pl_stream_t stream, const void *mem)
{
    queue_t *queue;
    void *reached;

    if (device->ops != &far_ops) {
        return (void *)(uintptr_t)mem;
    }
    queue = &((far_t *)device)->queues[stream];
    lock();
    run(queue, fence_of(queue));
    reached = reach_of(mem);
    (void)unlock(PL_OK);
    return reached;
}

pl_status_t far_device_call(pl_device_t *device, pl_stream_t stream,
                            void (*call)(void *context), void *context)
{
    lock();
    return unlock(push((far_t *)device, stream,
                       (work_t){.call = call, .context = context}));
}

void *far_device_inside(const void *mem)
{
    return mem == NULL ? NULL : reach_of(mem);
}
