/* The device for tests: cpu, plus every check we can think of.
 *
 * Memory is poison before its first write, so a read of a slot nobody wrote
 * gives the same wrong answer every time instead of a lucky zero.  Each block
 * lies between two red zones.  Freed blocks stay poisoned for a while, so a
 * late write to them is seen.  Copies are done when they are waited for, so a
 * missing wait is seen.  What is known of a block is kept away from it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "device/queue.h"
#include "device/shared.h"

#define ZONE_BYTES 256  /* a multiple of 64: it precedes aligned memory */
#define ZONE_BYTE  0xA5 /* not poison: poisoning too much must show */

#define KEPT_BYTES ((size_t)16 << 20) /* of freed blocks */

typedef struct block {
    uint8_t *base;      /* a zone, the memory, a zone */
    pl_shared_t shared; /* where that is, or none: it is to be freed */
    uint8_t *mem;
    size_t bytes;
    bool freed;    /* poison in quarantine */
    bool reported; /* its damage has been printed */
    char what[48];
} block_t;

typedef struct guard {
    pl_device_t device;
    pl_copy_queue_t queues[PL_STREAMS];
    PL_ARRAY(block_t) blocks; /* oldest first */
    size_t kept_bytes;        /* of freed ones among them */
    pl_opened_list_t opened;
    bool violated;
} guard_t;

/* ---- blocks ---- */

static block_t *find_block(guard_t *guard, const void *mem)
{
    for (size_t i = 0; i < guard->blocks.n; i++) {
        if (guard->blocks.items[i].mem == mem) {
            return &guard->blocks.items[i];
        }
    }
    return NULL;
}

/* First byte of the range that differs, or n. */
static size_t first_other(const uint8_t *bytes, size_t n, uint8_t byte)
{
    size_t i = 0;

    while ((i < n) && (bytes[i] == byte)) {
        i++;
    }
    return i;
}

static void report(guard_t *guard, block_t *block, const char *where,
                   size_t offset, uint8_t byte)
{
    guard->violated = true;
    if (!block->reported) {
        pl_log(guard->device.log, PL_LOG_ERROR,
               "device guard: %s (%zu bytes) was written %s, at byte %zu: "
               "0x%02x",
               block->what, block->bytes, where, offset, byte);
    }
    block->reported = true;
}

static void inspect(guard_t *guard, block_t *block)
{
    const uint8_t *after = block->mem + block->bytes;
    size_t i             = first_other(block->base, ZONE_BYTES, ZONE_BYTE);

    if (i < ZONE_BYTES) {
        report(guard, block, "before its begin", ZONE_BYTES - i,
               block->base[i]);
    }
    i = first_other(after, ZONE_BYTES, ZONE_BYTE);
    if (i < ZONE_BYTES) {
        report(guard, block, "after its end", i, after[i]);
    }
    if (!block->freed) {
        return;
    }
    i = first_other(block->mem, block->bytes, PL_POISON_BYTE);
    if (i < block->bytes) {
        report(guard, block, "after it was freed", i, block->mem[i]);
    }
}

static void let_go(block_t *block)
{
    if (block->shared.base != NULL) {
        pl_shared_free(&block->shared);
    } else {
        free(block->base);
    }
}

/* Let the oldest freed blocks go until the kept ones are few enough. */
static void shrink_quarantine(guard_t *guard)
{
    size_t n = 0;

    for (size_t i = 0; i < guard->blocks.n; i++) {
        block_t *block = &guard->blocks.items[i];

        if (block->freed && (guard->kept_bytes > KEPT_BYTES)) {
            inspect(guard, block);
            guard->kept_bytes -= block->bytes;
            let_go(block);
        } else {
            guard->blocks.items[n++] = *block;
        }
    }
    guard->blocks.n = n;
}

/* ---- ranges ---- */

static bool overlap(const void *a, size_t a_bytes, const void *b,
                    size_t b_bytes)
{
    uintptr_t a0 = (uintptr_t)a;
    uintptr_t b0 = (uintptr_t)b;

    return (a0 < b0 + b_bytes) && (b0 < a0 + a_bytes);
}

/* A range may lie in one live block, or in none of ours (host memory). */
static bool range_is_valid(guard_t *guard, const char *what, const void *mem,
                           size_t bytes)
{
    uintptr_t first = (uintptr_t)mem;

    for (size_t i = 0; (bytes > 0) && (i < guard->blocks.n); i++) {
        const block_t *block = &guard->blocks.items[i];
        uintptr_t begin      = (uintptr_t)block->mem;
        bool inside = (first >= begin) && (first - begin <= block->bytes) &&
                      (bytes <= block->bytes - (first - begin));

        if (!overlap(mem, bytes, block->base, block->bytes + 2 * ZONE_BYTES) ||
            (inside && !block->freed)) {
            continue;
        }
        pl_log(guard->device.log, PL_LOG_ERROR,
               "device guard: %s %zu bytes at byte %" PRIdPTR " of %s (%zu "
               "bytes%s)",
               what, bytes, (intptr_t)(first - begin), block->what,
               block->bytes, block->freed ? ", freed" : "");
        guard->violated = true;
        return false;
    }
    return true;
}

/* A queued copy that uses the block can only do harm now: drop it. */
static void drop_copies(guard_t *guard, const block_t *block)
{
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        pl_copy_queue_t *queue = &guard->queues[stream];

        for (size_t i = queue->head; i < queue->copies.n; i++) {
            pl_copy_t *copy = &queue->copies.items[i];

            if ((copy->bytes == 0) ||
                (!overlap(copy->dst, copy->bytes, block->mem, block->bytes) &&
                 !overlap(copy->src, copy->bytes, block->mem, block->bytes))) {
                continue;
            }
            pl_log(guard->device.log, PL_LOG_ERROR,
                   "device guard: %s was freed while a copy of %zu bytes on "
                   "stream %s was under way; wait for it first",
                   block->what, copy->bytes,
                   pl_stream_name((pl_stream_t)stream));
            guard->violated = true;
            copy->bytes     = 0;
        }
    }
}

/* ---- operations ---- */

static pl_status_t no_memory(const guard_t *guard, size_t bytes,
                             const char *what)
{
    pl_log(guard->device.log, PL_LOG_ERROR,
           "device guard: no memory for %s (%zu bytes); use smaller pools",
           what, bytes);
    return PL_ERR_MEMORY;
}

/* The red zones lie in the shared memory, too. */
static pl_status_t take_memory(block_t *block, pl_memory_t kind)
{
    size_t bytes = block->bytes + 2 * ZONE_BYTES;

    if (kind == PL_MEMORY_SHARED) {
        PL_TRY(pl_shared_make(bytes, &block->shared));
        block->base = block->shared.base;
        return PL_OK;
    }
    block->base = pl_device_memory(bytes);
    return block->base == NULL ? PL_ERR_MEMORY : PL_OK;
}

static pl_status_t guard_alloc(pl_device_t *self, pl_memory_t kind,
                               size_t bytes, const char *what, void **mem_p)
{
    guard_t *guard = (guard_t *)self;
    block_t block  = {.bytes = bytes};

    if ((bytes > SIZE_MAX - 2 * ZONE_BYTES) ||
        (PL_ARRAY_RESERVE(&guard->blocks, guard->blocks.n + 1) != PL_OK)) {
        return no_memory(guard, bytes, what);
    }
    if (take_memory(&block, kind) != PL_OK) {
        return no_memory(guard, bytes, what);
    }
    block.mem = block.base + ZONE_BYTES;
    memset(block.base, ZONE_BYTE, ZONE_BYTES);
    memset(block.mem, PL_POISON_BYTE, bytes);
    memset(block.mem + bytes, ZONE_BYTE, ZONE_BYTES);
    strncpy(block.what, what, sizeof(block.what) - 1);
    guard->blocks.items[guard->blocks.n++] = block;
    *mem_p                                 = block.mem;
    return PL_OK;
}

static void guard_free(pl_device_t *self, void *mem)
{
    guard_t *guard = (guard_t *)self;
    block_t *block = find_block(guard, mem);

    if ((block == NULL) || block->freed) {
        guard->violated = true;
        pl_log(self->log, PL_LOG_ERROR,
               "device guard: free of a pointer that is not in use: %s",
               block == NULL ? "never handed out" : block->what);
        return;
    }
    drop_copies(guard, block);
    inspect(guard, block);
    memset(block->mem, PL_POISON_BYTE, block->bytes);
    block->freed = true;
    guard->kept_bytes += block->bytes;
    shrink_quarantine(guard);
}

static pl_status_t guard_copy(pl_device_t *self, pl_stream_t stream,
                              const pl_copy_t *copies, int32_t n, bool late)
{
    guard_t *guard = (guard_t *)self;

    (void)late; /* always */
    for (int32_t i = 0; i < n; i++) {
        if (!range_is_valid(guard, "copy to", copies[i].dst, copies[i].bytes) ||
            !range_is_valid(guard, "copy from", copies[i].src,
                            copies[i].bytes)) {
            return PL_ERR_VIOLATION;
        }
    }
    if (pl_copy_queue_add(&guard->queues[stream], copies, n) != PL_OK) {
        pl_log(self->log, PL_LOG_ERROR,
               "device guard: no memory to queue %" PRId32 " copies", n);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t guard_record(pl_device_t *self, pl_stream_t stream,
                                pl_fence_t *fence_p)
{
    *fence_p = pl_copy_queue_fence(&((guard_t *)self)->queues[stream]);
    return PL_OK;
}

static pl_status_t guard_wait(pl_device_t *self, pl_stream_t stream,
                              pl_fence_t fence)
{
    if (!pl_copy_queue_run(&((guard_t *)self)->queues[stream], fence)) {
        pl_log(self->log, PL_LOG_ERROR,
               "device guard: fence %" PRIu64 " was not recorded on stream %s",
               fence, pl_stream_name(stream));
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

static pl_status_t guard_after(pl_device_t *self, pl_stream_t stream,
                               pl_stream_t other, pl_fence_t fence)
{
    (void)stream;
    return guard_wait(self, other, fence);
}

static pl_status_t guard_fill(pl_device_t *self, pl_stream_t stream,
                              const pl_span_t *spans, int32_t n, uint8_t byte)
{
    guard_t *guard = (guard_t *)self;

    for (int32_t i = 0; i < n; i++) {
        if (!range_is_valid(guard, "fill", spans[i].mem, spans[i].bytes)) {
            return PL_ERR_VIOLATION;
        }
    }
    pl_copy_queue_finish(&guard->queues[stream]);
    pl_host_fill(spans, n, byte);
    return PL_OK;
}

static pl_status_t guard_digest(pl_device_t *self, pl_stream_t stream,
                                const pl_digest_job_t *jobs, int32_t n,
                                uint64_t *digests)
{
    pl_copy_queue_finish(&((guard_t *)self)->queues[stream]);
    pl_host_digest(jobs, n, digests);
    return PL_OK;
}

static pl_status_t guard_gather(pl_device_t *self, pl_stream_t stream,
                                const pl_page_gather_t *gather)
{
    guard_t *guard = (guard_t *)self;

    if (!range_is_valid(guard, "gather into", gather->view,
                        (size_t)gather->n_pages * gather->stride)) {
        return PL_ERR_VIOLATION;
    }
    pl_copy_queue_finish(&guard->queues[stream]);
    pl_host_gather(gather);
    return PL_OK;
}

static pl_status_t guard_share(pl_device_t *self, void *mem,
                               pl_share_t *share_p)
{
    const block_t *block = find_block((guard_t *)self, mem);

    if ((block == NULL) || block->freed || (block->shared.base == NULL)) {
        pl_log(self->log, PL_LOG_ERROR,
               "device guard: share: not an allocation of kind SHARED");
        return PL_ERR_ARGUMENT;
    }
    return pl_shared_tell(&block->shared, mem, self->log, share_p);
}

static pl_status_t guard_open_shared(pl_device_t *self, const pl_share_t *share,
                                     void **mem_p)
{
    return pl_opened_add(&((guard_t *)self)->opened, share, self->log, mem_p);
}

static void guard_close_shared(pl_device_t *self, void *mem)
{
    pl_opened_remove(&((guard_t *)self)->opened, mem);
}

static pl_status_t guard_check(pl_device_t *self)
{
    guard_t *guard = (guard_t *)self;

    for (size_t i = 0; i < guard->blocks.n; i++) {
        inspect(guard, &guard->blocks.items[i]);
    }
    return guard->violated ? PL_ERR_VIOLATION : PL_OK;
}

static void guard_close(pl_device_t *self)
{
    guard_t *guard = (guard_t *)self;

    pl_copy_queues_report(guard->queues, "guard", self->log);
    for (size_t i = 0; i < guard->blocks.n; i++) {
        block_t *block = &guard->blocks.items[i];

        inspect(guard, block);
        if (!block->freed) {
            pl_log(self->log, PL_LOG_WARN,
                   "device guard: %s (%zu bytes) was not freed", block->what,
                   block->bytes);
        }
        let_go(block);
    }
    PL_ARRAY_FREE(&guard->blocks);
    pl_opened_free(&guard->opened, "guard", self->log);
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        pl_copy_queue_free(&guard->queues[stream]);
    }
    free(guard);
}

static const pl_device_ops_t guard_ops = {
    .name         = "guard",
    .alloc        = guard_alloc,
    .free         = guard_free,
    .copy         = guard_copy,
    .record       = guard_record,
    .wait         = guard_wait,
    .after        = guard_after,
    .fill         = guard_fill,
    .digest       = guard_digest,
    .gather       = guard_gather,
    .close        = guard_close,
    .share        = guard_share,
    .open_shared  = guard_open_shared,
    .close_shared = guard_close_shared,
    .check        = guard_check,
};

pl_status_t pl_device_open_guard(const pl_log_t *log, pl_device_t **device_p)
{
    guard_t *guard = calloc(1, sizeof(*guard));

    if (guard == NULL) {
        pl_log(log, PL_LOG_ERROR, "device guard: out of memory");
        return PL_ERR_MEMORY;
    }
    guard->device.ops         = &guard_ops;
    guard->device.log         = log;
    guard->device.addressable = true;
    *device_p                 = &guard->device;
    return PL_OK;
}
