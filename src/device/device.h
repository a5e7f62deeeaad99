/* device/device.h - memory and copies of one rank, behind one table.
 *
 *   cpu    the reference: plain, exact, every copy done at once
 *   guard  cpu that catches us: new memory is poison, every allocation ends in a
 *          red zone that is inspected on free and on check, and a queued copy
 *          happens as late as it may: when its fence is waited for
 *   cuda   (in a module of its own)
 *
 * Copies are queued on streams; a fence marks a point of a stream, and what was
 * queued before it is done when a wait for it returns.  Source and destination
 * belong to the copy from the call until then.  Streams are ordered in
 * themselves only.  One device belongs to one rank and one thread.
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
    /* `what` names it in messages; 64-byte aligned; PL_ERR_MEMORY with one line
     * that says how many bytes were asked for what. */
    pl_status_t (*alloc)(pl_device_t *self, size_t bytes, const char *what,
                         void **mem_p);
    void (*free)(pl_device_t *self, void *mem); /* NULL is allowed */
    /* Queue copies; `late` asks for the latest moment (guard: always). */
    pl_status_t (*copy)(pl_device_t *self, pl_stream_t stream,
                        const pl_copy_t *copies, int32_t n, bool late);
    pl_status_t (*record)(pl_device_t *self, pl_stream_t stream,
                          pl_fence_t *fence_p);
    pl_status_t (*wait)(pl_device_t *self, pl_stream_t stream,
                        pl_fence_t fence);
    /* Fill with a byte now (poison). */
    pl_status_t (*fill)(pl_device_t *self, void *mem, size_t bytes,
                        uint8_t byte);
    void (*close)(pl_device_t *self); /* all memory must have been freed */

    /* optional: NULL means there is nothing to inspect */
    pl_status_t (*check)(pl_device_t *self); /* red zones; PL_ERR_VIOLATION */
} pl_device_ops_t;

struct pl_device {
    const pl_device_ops_t *ops; /* first member of every device */
};

/* Open by name.  PL_ERR_ARGUMENT names what can be opened.  `log` borrowed. */
PL_MUST_CHECK pl_status_t pl_device_open(const char *name, const pl_log_t *log,
                                         pl_device_t **device_p);
void pl_device_close(pl_device_t *device); /* NULL is allowed */

/* Name i of those that can be opened here, NULL after the last. */
const char *pl_device_name(int i);

/* Thin wrappers; arguments are checked here, so that no device does. */
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
