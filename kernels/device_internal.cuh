/* kernels/device_internal.cuh - one cuda device, shared by its files:
 *
 *   device.cu         opening, streams, fences, waits, what is said of errors
 *   device_memory.cu  allocations, and what is known of any address
 *   device_peer.cu    memory and events of other ranks
 *   device_work.cu    copies, fillings, digests, gathers
 *   profile.cu        where the time of its streams goes
 */
#ifndef PL_KERNELS_DEVICE_INTERNAL_CUH
#define PL_KERNELS_DEVICE_INTERNAL_CUH

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "device.cuh"
#include "profile.cuh"

extern "C" {
#include "base/array.h"
#include "device/queue.h" /* pl_stream_name */
}

/* What a copy kernel must do to reach memory; the farthest of a list counts. */
typedef enum pl_cuda_reach {
    PL_CUDA_NEAR, /* this GPU's */
    PL_CUDA_PEER, /* another GPU's */
    PL_CUDA_HOST  /* pinned, over PCIe */
} pl_cuda_reach_t;

/* Memory that the device may copy from and to. */
typedef struct pl_cuda_block {
    uint8_t *at;
    size_t bytes;
    pl_memory_t kind;
    pl_cuda_reach_t reach;
    bool is_own;      /* allocated here */
    int32_t n_opened; /* times that open_shared gave it */
    void *mapped;     /* what this process mapped for it, or NULL */
    char what[48];
} pl_cuda_block_t;

/* Seen most recently, so looked at first. */
typedef struct pl_cuda_hint {
    size_t block;
} pl_cuda_hint_t;

struct pl_event {
    cudaEvent_t event;
    cudaEvent_t near; /* own: the same point, for ranks of this process: no
                         stream of another GPU can wait for an event that
                         other processes can open */
    bool is_own;      /* made here: event_close destroys it */
    bool is_mapped;   /* of another process */
};

/* A recorded fence that was not seen done. */
typedef struct pl_cuda_point {
    cudaEvent_t event;
} pl_cuda_point_t;

/* Fence number n of a stream is n * 8 + stream: larger later, and no other
 * stream's. */
typedef struct pl_cuda_queue {
    cudaStream_t stream;
    uint64_t n_recorded, n_done;
    PL_ARRAY(pl_cuda_point_t) points; /* from `head` on: fences n_done + 1 .. */
    size_t head;
} pl_cuda_queue_t;

struct pl_cuda_gathers; /* device_work.cu: of one stream */
struct pl_cuda_profile; /* profile.cu */

typedef struct pl_cuda {
    pl_device_t device;
    int gpu;
    pl_cuda_queue_t queues[PL_STREAMS];
    PL_ARRAY(cudaEvent_t) events;     /* not in use */
    PL_ARRAY(pl_cuda_block_t) blocks; /* by address */
    PL_ARRAY(pl_event_t *) made;      /* events of peers that are ours */
    pl_cuda_hint_t last_src, last_dst;
    struct pl_cuda_gathers *gathers[PL_STREAMS];
    struct pl_cuda_profile *profile; /* NULL: no time is taken */
    void *jobs;                      /* pinned: digest jobs, then digests */
    int32_t most_jobs;
} pl_cuda_t;

/* ---- device.cu ---- */

/* One line, "device cuda:N: <what>: <why>; <what to do>", and PL_ERR_DEVICE;
 * nothing and PL_OK for cudaSuccess.  The error is cleared. */
pl_status_t pl_cuda_tell(const pl_cuda_t *cuda, cudaError_t error,
                         const char *what);
pl_status_t pl_cuda_no_memory(const pl_cuda_t *cuda, const char *what);
/* An event that nobody uses; NULL with one line. */
cudaEvent_t pl_cuda_take_event(pl_cuda_t *cuda);
void pl_cuda_give_event(pl_cuda_t *cuda, cudaEvent_t event);
/* The host waits: counted, watched.  stream: whose event it is. */
pl_status_t pl_cuda_wait_event(pl_cuda_t *cuda, cudaEvent_t event,
                               pl_stream_t stream);

/* ---- device_memory.cu ---- */

pl_status_t pl_cuda_alloc(pl_device_t *self, pl_memory_t kind, size_t bytes,
                          const char *what, void **mem_p);
void pl_cuda_free(pl_device_t *self, void *mem);
/* Room for one more; PL_ERR_MEMORY with one line. */
pl_status_t pl_cuda_reserve_block(pl_cuda_t *cuda, const char *what);
void pl_cuda_add_block(pl_cuda_t *cuda, const pl_cuda_block_t *block);
void pl_cuda_remove_block(pl_cuda_t *cuda, size_t i);
/* The block that begins at `at` and was allocated here (is_own), or was opened;
 * SIZE_MAX: none. */
size_t pl_cuda_block_at(const pl_cuda_t *cuda, const void *at, bool is_own);
/* PL_ERR_VIOLATION with one line if the GPU cannot reach all of it, or it
 * leaves its allocation.  *reach_p grows to what it takes. */
pl_status_t pl_cuda_reach(const pl_cuda_t *cuda, const void *at, size_t bytes,
                          pl_cuda_hint_t *hint, pl_cuda_reach_t *reach_p);
/* Warns of memory that is left, and frees it. */
void pl_cuda_free_all(pl_cuda_t *cuda);

/* ---- device_peer.cu ---- */

pl_status_t pl_cuda_share(pl_device_t *self, void *mem, pl_share_t *share_p);
pl_status_t pl_cuda_open_shared(pl_device_t *self, const pl_share_t *share,
                                void **mem_p);
void pl_cuda_close_shared(pl_device_t *self, void *mem);
pl_status_t pl_cuda_event_make(pl_device_t *self, pl_event_t **event_p,
                               pl_share_t *share_p);
pl_status_t pl_cuda_event_open(pl_device_t *self, const pl_share_t *share,
                               pl_event_t **event_p);
pl_status_t pl_cuda_event_mark(pl_device_t *self, pl_stream_t stream,
                               pl_event_t *event);
pl_status_t pl_cuda_event_after(pl_device_t *self, pl_stream_t stream,
                                pl_event_t *event);
void pl_cuda_event_close(pl_device_t *self, pl_event_t *event);
/* What the process mapped of another one's memory is unmapped with its last
 * user. */
void pl_cuda_unmap(const pl_cuda_t *cuda, void *mapped);

/* ---- device_work.cu ---- */

pl_status_t pl_cuda_copy(pl_device_t *self, pl_stream_t stream,
                         const pl_copy_t *copies, int32_t n, bool late);
pl_status_t pl_cuda_fill(pl_device_t *self, pl_stream_t stream,
                         const pl_span_t *spans, int32_t n, uint8_t byte);
pl_status_t pl_cuda_digest(pl_device_t *self, pl_stream_t stream,
                           const pl_digest_job_t *jobs, int32_t n,
                           uint64_t *digests);
pl_status_t pl_cuda_gather(pl_device_t *self, pl_stream_t stream,
                           const pl_page_gather_t *gather);
void pl_cuda_free_work(pl_cuda_t *cuda);

/* ---- profile.cu ---- */

pl_status_t pl_cuda_profile_begin(pl_device_t *self);
pl_status_t pl_cuda_profile_read(pl_device_t *self, pl_profile_t *profile);
void pl_cuda_free_profile(pl_cuda_t *cuda);

#endif /* PL_KERNELS_DEVICE_INTERNAL_CUH */
