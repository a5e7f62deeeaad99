/* device/device.h - memory and copies of one rank, behind one table.
 *
 *   cpu    the reference: plain, exact; a copy is done at once unless `late`
 *          asks otherwise
 *   guard  cpu that catches us: memory is poison when it is handed out and when
 *          it is given back, every allocation lies between two red zones that
 *          are inspected on free, check and close, and every copy happens as
 *          late as it may: when its fence is waited for
 *   cuda   (in a module of its own)
 *
 * Lifecycle: open, alloc/copy/record/wait/free, close.  One device belongs to
 * one rank and one thread; nothing here is collective.  Sizes are bytes.
 *
 * Copies are queued on streams; a fence marks a point of a stream, and what was
 * queued before it is done, in order, when a wait for it returns.  Source and
 * destination belong to the copy from the call until then.  Streams are ordered
 * in themselves only: a copy behind a late one is late as well.  What was never
 * waited for may never be done (close warns of it).
 */
#ifndef PL_DEVICE_DEVICE_H
#define PL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_device pl_device_t;

typedef enum pl_stream {
    PL_STREAM_LOAD,   /* host -> device */
    PL_STREAM_BACKUP, /* device -> host */
    PL_STREAM_DECODE, /* decode pool <-> its host buffer */
    PL_STREAMS
} pl_stream_t;

typedef uint64_t pl_fence_t; /* 0: nothing to wait for */

typedef struct pl_copy {
    void *dst;
    const void *src;
    size_t bytes;
} pl_copy_t;

/* The byte that memory nobody wrote is filled with (guard, and --verify).
 * As float32 and bf16 it is a NaN. */
#define PL_POISON_BYTE 0xFF

typedef struct pl_device_ops {
    const char *name; /* --device */

    /* required */
    /* `what` (copied) names it in messages; 64-byte aligned, 0 bytes allowed;
     * PL_ERR_MEMORY with one line that says how many bytes were asked for what;
     * the device can still be used. */
    pl_status_t (*alloc)(pl_device_t *self, size_t bytes, const char *what,
                         void **mem_p);
    void (*free)(pl_device_t *self, void *mem); /* NULL is allowed */
    /* Queue copies; `late` asks for the latest moment (guard: always).  On
     * failure (PL_ERR_MEMORY; guard: PL_ERR_VIOLATION if a range leaves its
     * allocation) none of them is queued. */
    pl_status_t (*copy)(pl_device_t *self, pl_stream_t stream,
                        const pl_copy_t *copies, int32_t n, bool late);
    pl_status_t (*record)(pl_device_t *self, pl_stream_t stream,
                          pl_fence_t *fence_p);
    /* PL_ERR_ARGUMENT for a fence that was not recorded on this stream. */
    pl_status_t (*wait)(pl_device_t *self, pl_stream_t stream,
                        pl_fence_t fence);
    /* Fill with a byte now (poison). */
    pl_status_t (*fill)(pl_device_t *self, void *mem, size_t bytes,
                        uint8_t byte);
    void (*close)(pl_device_t *self); /* all memory must have been freed */

    /* optional: NULL means there is nothing to inspect */
    /* Red zones and freed memory.  PL_ERR_VIOLATION from the first offence on,
     * also one that a free found; each is printed once, with the name given to
     * alloc. */
    pl_status_t (*check)(pl_device_t *self);
} pl_device_ops_t;

struct pl_device {
    const pl_device_ops_t *ops; /* first member of every device */
    const pl_log_t *log;        /* borrowed, may be NULL */
};

/* Open by name.  `log` is borrowed.  PL_ERR_ARGUMENT with one line that names
 * what can be opened; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_device_open(const char *name, const pl_log_t *log,
                                         pl_device_t **device_p);
/* Warns of memory that was not freed and of copies never waited for; guard
 * frees that memory too. */
void pl_device_close(pl_device_t *device); /* NULL is allowed */

/* Name i of those that can be opened here, NULL after the last. */
const char *pl_device_name(int i);

/* Thin wrappers; arguments are checked here, so that no device does:
 * PL_ERR_ARGUMENT with one line, and nothing has happened. */
PL_MUST_CHECK pl_status_t pl_device_alloc(pl_device_t *device, size_t bytes,
                                          const char *what, void **mem_p);
void pl_device_free(pl_device_t *device, void *mem);
PL_MUST_CHECK pl_status_t pl_device_copy(pl_device_t *device,
                                         pl_stream_t stream,
                                         const pl_copy_t *copies, int32_t n,
                                         bool late);
PL_MUST_CHECK pl_status_t pl_device_record(pl_device_t *device,
                                           pl_stream_t stream,
                                           pl_fence_t *fence_p);
PL_MUST_CHECK pl_status_t pl_device_wait(pl_device_t *device,
                                         pl_stream_t stream, pl_fence_t fence);
PL_MUST_CHECK pl_status_t pl_device_fill(pl_device_t *device, void *mem,
                                         size_t bytes, uint8_t byte);
PL_MUST_CHECK pl_status_t pl_device_check(pl_device_t *device);

#endif /* PL_DEVICE_DEVICE_H */
