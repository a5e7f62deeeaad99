/* device/device.h - memory and copies of one rank, behind one table.
 *
 *   cpu    the reference: plain, exact; a copy is done at once unless `late`
 *          asks otherwise
 *   guard  cpu that catches us: memory is poison when it is handed out and when
 *          it is given back, every allocation lies between two red zones that
 *          are inspected on free, check and close, and every copy happens as
 *          late as it may: when its fence is waited for
 *   cuda   one GPU (kernels/device.cu, opened by device/cuda.h): its device
 *          memory cannot be reached by the host, and what is queued is done
 *          beside it
 *
 * Lifecycle: open, alloc/copy/record/wait/free, close.  One device belongs to
 * one rank and one thread; nothing here is collective.  Sizes are bytes.
 *
 * Work is queued on streams; a fence marks a point of a stream, and what was
 * queued before it is done, in order, when a wait for it returns.  Source and
 * destination belong to the copy from the call until then.  Streams are ordered
 * in themselves only (a copy behind a late one is late as well); `after` orders
 * one behind another.  What was never waited for may never be done (close warns
 * of it).
 */
#ifndef PL_DEVICE_DEVICE_H
#define PL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "verify/digest.h"

typedef struct pl_device pl_device_t;

typedef enum pl_stream {
    PL_STREAM_COMPUTE, /* the forward pass, and what it writes */
    PL_STREAM_GATHER,  /* pages of all ranks into a view */
    PL_STREAM_LOAD,    /* host -> device */
    PL_STREAM_BACKUP,  /* device -> host */
    PL_STREAM_DECODE,  /* decode pool <-> its host buffer */
    PL_STREAM_SEND,    /* device -> message -> decode pool */
    PL_STREAMS
} pl_stream_t;

typedef uint64_t pl_fence_t; /* 0: nothing to wait for */

typedef enum pl_memory {
    PL_MEMORY_HOST,   /* the host and the device reach it (cuda: pinned) */
    PL_MEMORY_DEVICE, /* the device reaches it; the host only if the device is
                         `addressable` */
    PL_MEMORY_SHARED  /* as DEVICE, and peers can open it (share) */
} pl_memory_t;

typedef struct pl_copy {
    void *dst;
    const void *src;
    size_t bytes; /* cuda: fastest where these three are multiples of 16 */
} pl_copy_t;

typedef struct pl_span {
    void *mem;
    size_t bytes;
} pl_span_t;

/* Rows of a page that are to be hashed: pl_digest_rows(form, page, first, rows,
 * position of row `first`, base). */
typedef struct pl_digest_job {
    const uint8_t *page; /* memory that the device reaches */
    pl_page_form_t form;
    int32_t first, rows;
    int32_t position;
    uint64_t base; /* pl_digest_base(layer, store) */
} pl_digest_job_t;

/* Pages that lie in several arrays: page g at bases[g mod n_bases] + (g div
 * n_bases) * stride.  They come to view, in order: page i at i * stride. */
typedef struct pl_page_gather {
    const pl_page_t *pages; /* [n_pages] host memory; not kept */
    int32_t n_pages;
    const uint8_t *const *bases; /* [n_bases] host memory; not kept; NULL where
                                    none of the pages lies */
    int n_bases;
    size_t stride; /* a multiple of 16 */
    uint8_t *view; /* memory that the device reaches */
} pl_page_gather_t;

/* What a peer needs to open memory or an event of another rank; made by share,
 * may be sent to it as bytes. */
typedef struct pl_share {
    int64_t process;  /* whose it is */
    uint64_t address; /* there */
    uint64_t offset, bytes;
    uint8_t handle[64];
} pl_share_t;

typedef struct pl_event pl_event_t; /* opaque: a point of a stream that peers
                                       can wait for */

/* Asked while the host waits for the device, several times a second: PL_OK, or
 * the status that the wait ends with (one line was printed). */
typedef struct pl_device_watch {
    pl_status_t (*look)(void *context, double waited_s);
    void *context;
} pl_device_watch_t;

/* What work on a stream is, where its time is taken. */
#define PL_WORK_LIST(X)                                                        \
    X(PL_WORK_NONE, "none")                                                    \
    X(PL_WORK_WAIT, "wait")           /* for another stream, or a peer */      \
    X(PL_WORK_PRODUCTS, "products")   /* of attention's weights */             \
    X(PL_WORK_INDEXER, "indexer")     /* scores */                             \
    X(PL_WORK_TOPK, "top-k")          /* of the scores */                      \
    X(PL_WORK_ATTENTION, "attention") /* of what was selected */               \
    X(PL_WORK_EXPERTS, "experts")     /* router, sort, products, sum */        \
    X(PL_WORK_MLP, "mlp")             /* dense, and the shared expert */       \
    X(PL_WORK_ROWS, "rows")           /* embedding, norms, rope, sums */       \
    X(PL_WORK_STORE, "store")         /* rows to their pages */                \
    X(PL_WORK_HEAD, "head")           /* last norm, logits, token */           \
    X(PL_WORK_PAGES, "pages")         /* of all ranks into a view */           \
    X(PL_WORK_COPY, "copy")           /* ranges: loads, backups, sends */

typedef enum pl_work {
#define PL_WORK_ENUM(name, text) name,
    PL_WORK_LIST(PL_WORK_ENUM)
#undef PL_WORK_ENUM
        PL_WORKS
} pl_work_t;

typedef struct pl_work_time {
    int64_t calls; /* times that the stream came to it from something else */
    int64_t ns;
} pl_work_time_t;

/* By the device's own clock.  Streams go on beside each other. */
typedef struct pl_profile {
    pl_work_time_t times[PL_STREAMS][PL_WORKS];
} pl_profile_t;

/* The byte that memory nobody wrote is filled with (guard, and --verify).
 * As float32 and bf16 it is a NaN. */
#define PL_POISON_BYTE 0xFF

typedef struct pl_device_ops {
    const char *name; /* --device */

    /* required */
    /* `what` (copied) names it in messages; 64-byte aligned, 0 bytes allowed;
     * PL_ERR_MEMORY with one line that says how many bytes were asked for what;
     * the device can still be used. */
    pl_status_t (*alloc)(pl_device_t *self, pl_memory_t kind, size_t bytes,
                         const char *what, void **mem_p);
    void (*free)(pl_device_t *self, void *mem); /* NULL is allowed */
    /* Queue copies between memory of any kind; `late` asks for the latest
     * moment (guard: always).  On failure (PL_ERR_MEMORY; guard:
     * PL_ERR_VIOLATION if a range leaves its allocation) none of them is
     * queued. */
    pl_status_t (*copy)(pl_device_t *self, pl_stream_t stream,
                        const pl_copy_t *copies, int32_t n, bool late);
    pl_status_t (*record)(pl_device_t *self, pl_stream_t stream,
                          pl_fence_t *fence_p);
    /* The host waits.  PL_ERR_ARGUMENT for a fence that was not recorded on
     * this stream; cuda: PL_ERR_DEVICE, or what the watch says. */
    pl_status_t (*wait)(pl_device_t *self, pl_stream_t stream,
                        pl_fence_t fence);
    /* What is queued on `stream` from now on begins after `fence` of `other`;
     * the host does not wait (cpu, guard: does what is pending up to it). */
    pl_status_t (*after)(pl_device_t *self, pl_stream_t stream,
                         pl_stream_t other, pl_fence_t fence);
    /* Queue the filling of DEVICE memory with a byte (poison). */
    pl_status_t (*fill)(pl_device_t *self, pl_stream_t stream,
                        const pl_span_t *spans, int32_t n, uint8_t byte);
    /* Digests of rows as they are after what was queued on the stream; the host
     * waits for them. */
    pl_status_t (*digest)(pl_device_t *self, pl_stream_t stream,
                          const pl_digest_job_t *jobs, int32_t n,
                          uint64_t *digests);
    /* Queue the reading of pages into a view. */
    pl_status_t (*gather)(pl_device_t *self, pl_stream_t stream,
                          const pl_page_gather_t *gather);
    void (*close)(pl_device_t *self); /* all memory must have been freed */

    /* Peers (comm/peer.c).  A handle to an allocation of kind SHARED, or to an
     * event (mem: the event).  open gives an address here, also for a rank of
     * the same process; close_shared forgets it. */
    pl_status_t (*share)(pl_device_t *self, void *mem, pl_share_t *share_p);
    pl_status_t (*open_shared)(pl_device_t *self, const pl_share_t *share,
                               void **mem_p);
    void (*close_shared)(pl_device_t *self, void *mem);

    /* optional: NULL where nothing is done beside the host.  Events of peers:
     * make (own), or open what a peer has made; mark: now, on a stream of one's
     * own; after: what is queued from now on begins after the last mark. */
    pl_status_t (*event_make)(pl_device_t *self, pl_event_t **event_p,
                              pl_share_t *share_p);
    pl_status_t (*event_open)(pl_device_t *self, const pl_share_t *share,
                              pl_event_t **event_p);
    pl_status_t (*event_mark)(pl_device_t *self, pl_stream_t stream,
                              pl_event_t *event);
    pl_status_t (*event_after)(pl_device_t *self, pl_stream_t stream,
                               pl_event_t *event);
    void (*event_close)(pl_device_t *self, pl_event_t *event); /* NULL ok */

    /* optional: NULL means there is nothing to inspect */
    /* Red zones and freed memory.  PL_ERR_VIOLATION from the first offence on,
     * also one that a free found; each is printed once, with the name given to
     * alloc. */
    pl_status_t (*check)(pl_device_t *self);

    /* optional: NULL where no time is taken.  begin: from now on it is, until
     * close.  read: what was queued since the last read (or begin), added to
     * *profile; the host waits for it, and for no more than it. */
    pl_status_t (*profile_begin)(pl_device_t *self);
    pl_status_t (*profile_read)(pl_device_t *self, pl_profile_t *profile);
} pl_device_ops_t;

struct pl_device {
    const pl_device_ops_t *ops; /* first member of every device */
    const pl_log_t *log;        /* borrowed, may be NULL */
    bool addressable;           /* the host reaches DEVICE memory */
    pl_device_watch_t watch;    /* look may be NULL */
    int64_t n_waits;            /* times that the host waited for work that was
                                   not known to be done */
};

/* How a run opens the device of one of its ranks. */
typedef struct pl_device_source {
    pl_status_t (*open)(void *context, int rank, const pl_log_t *log,
                        pl_device_t **device_p);
    void *context;
} pl_device_source_t;

/* Open by name: "cpu", "guard".  `log` is borrowed.  PL_ERR_ARGUMENT with one
 * line that names what can be opened; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_device_open(const char *name, const pl_log_t *log,
                                         pl_device_t **device_p);
/* Warns of memory that was not freed and of copies never waited for; guard
 * frees that memory too. */
void pl_device_close(pl_device_t *device); /* NULL is allowed */

/* Name i of those that can be opened here, NULL after the last. */
const char *pl_device_name(int i);

/* "wait", "products", ...: in tables. */
const char *pl_work_name(pl_work_t work);

/* Thin wrappers; arguments are checked here, so that no device does:
 * PL_ERR_ARGUMENT with one line, and nothing has happened. */
PL_MUST_CHECK pl_status_t pl_device_alloc(pl_device_t *device, pl_memory_t kind,
                                          size_t bytes, const char *what,
                                          void **mem_p);
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
PL_MUST_CHECK pl_status_t pl_device_after(pl_device_t *device,
                                          pl_stream_t stream, pl_stream_t other,
                                          pl_fence_t fence);
/* All that is queued on `other` so far comes before what is queued on `stream`
 * from now on. */
PL_MUST_CHECK pl_status_t pl_device_order(pl_device_t *device,
                                          pl_stream_t stream,
                                          pl_stream_t other);
PL_MUST_CHECK pl_status_t pl_device_fill(pl_device_t *device,
                                         pl_stream_t stream,
                                         const pl_span_t *spans, int32_t n,
                                         uint8_t byte);
PL_MUST_CHECK pl_status_t pl_device_digest(pl_device_t *device,
                                           pl_stream_t stream,
                                           const pl_digest_job_t *jobs,
                                           int32_t n, uint64_t *digests);
PL_MUST_CHECK pl_status_t pl_device_gather(pl_device_t *device,
                                           pl_stream_t stream,
                                           const pl_page_gather_t *gather);
PL_MUST_CHECK pl_status_t pl_device_check(pl_device_t *device);

#endif /* PL_DEVICE_DEVICE_H */
