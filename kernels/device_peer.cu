#include "device_internal.cuh"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

namespace
{

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(pl_share_t::handle) &&
                  sizeof(cudaIpcEventHandle_t) == sizeof(pl_share_t::handle),
              "a share holds a handle of CUDA");

/* ---- what this process mapped of others ---- */

/* A handle can be opened once on a GPU; all ranks of this process that want it
 * share what came of it. */
typedef struct mapping {
    uint8_t handle[64];
    int gpu;
    void *at; /* an address, or a cudaEvent_t */
    int32_t n_users;
} mapping_t;

struct {
    pthread_mutex_t lock;
    PL_ARRAY(mapping_t) mappings;
} process = {PTHREAD_MUTEX_INITIALIZER, {}};

cudaError_t open_memory(const uint8_t *bytes, void **at_p)
{
    cudaIpcMemHandle_t handle;

    memcpy(&handle, bytes, sizeof(handle));
    return cudaIpcOpenMemHandle(at_p, handle, cudaIpcMemLazyEnablePeerAccess);
}

cudaError_t open_event(const uint8_t *bytes, void **at_p)
{
    cudaIpcEventHandle_t handle;
    cudaEvent_t event = nullptr;
    cudaError_t error;

    memcpy(&handle, bytes, sizeof(handle));
    error = cudaIpcOpenEventHandle(&event, handle);
    *at_p = event;
    return error;
}

typedef cudaError_t (*opener_t)(const uint8_t *handle, void **at_p);
typedef cudaError_t (*closer_t)(void *at);

cudaError_t close_event(void *at)
{
    return cudaEventDestroy((cudaEvent_t)at);
}

cudaError_t map_locked(int gpu, const uint8_t *handle, opener_t opener,
                       void **at_p)
{
    mapping_t mapping = {};
    cudaError_t error;

    for (size_t i = 0; i < process.mappings.n; i++) {
        mapping_t *known = &process.mappings.items[i];

        if ((known->gpu == gpu) &&
            (memcmp(known->handle, handle, sizeof(known->handle)) == 0)) {
            known->n_users++;
            *at_p = known->at;
            return cudaSuccess;
        }
    }
    if (PL_ARRAY_RESERVE(&process.mappings, process.mappings.n + 1) != PL_OK) {
        return cudaErrorMemoryAllocation;
    }
    error = opener(handle, &mapping.at);
    if (error == cudaSuccess) {
        memcpy(mapping.handle, handle, sizeof(mapping.handle));
        mapping.gpu     = gpu;
        mapping.n_users = 1;
        *at_p           = mapping.at;

        process.mappings.items[process.mappings.n++] = mapping;
    }
    return error;
}

pl_status_t map(const pl_cuda_t *cuda, const uint8_t *handle, opener_t opener,
                const char *what, void **at_p)
{
    cudaError_t error;

    (void)pthread_mutex_lock(&process.lock);
    error = map_locked(cuda->gpu, handle, opener, at_p);
    (void)pthread_mutex_unlock(&process.lock);
    return pl_cuda_tell(cuda, error, what);
}

void unmap(const pl_cuda_t *cuda, void *at, closer_t closer, const char *what)
{
    cudaError_t error = cudaSuccess;

    (void)pthread_mutex_lock(&process.lock);
    for (size_t i = 0; i < process.mappings.n; i++) {
        mapping_t *mapping = &process.mappings.items[i];

        if ((mapping->gpu != cuda->gpu) || (mapping->at != at)) {
            continue;
        }
        if (--mapping->n_users == 0) {
            error    = closer(at);
            *mapping = process.mappings.items[--process.mappings.n];
        }
        break;
    }
    if (process.mappings.n == 0) {
        PL_ARRAY_FREE(&process.mappings);
    }
    (void)pthread_mutex_unlock(&process.lock);
    (void)pl_cuda_tell(cuda, error, what);
}

/* ---- memory ---- */

bool is_here(const pl_share_t *share)
{
    return share->process == (int64_t)getpid();
}

/* Memory of a rank of this process: this GPU must reach it. */
pl_status_t reach_neighbour(const pl_cuda_t *cuda, const void *at,
                            pl_cuda_reach_t *reach_p)
{
    cudaPointerAttributes is;
    cudaError_t error;

    PL_TRY(pl_cuda_tell(cuda, cudaPointerGetAttributes(&is, at),
                        "opening a peer's memory"));
    *reach_p = is.device == cuda->gpu ? PL_CUDA_NEAR : PL_CUDA_PEER;
    if (*reach_p == PL_CUDA_NEAR) {
        return PL_OK;
    }
    error = cudaDeviceEnablePeerAccess(is.device, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return PL_OK;
    }
    return pl_cuda_tell(cuda, error, "reading another GPU's memory");
}

pl_status_t open_elsewhere(const pl_cuda_t *cuda, const pl_share_t *share,
                           pl_cuda_block_t *block)
{
    cudaPointerAttributes is;
    cudaError_t error;

    PL_TRY(map(cuda, share->handle, open_memory, "opening a peer's memory",
               &block->mapped));
    block->at = (uint8_t *)block->mapped + share->offset;
    error     = cudaPointerGetAttributes(&is, block->at);
    if (error != cudaSuccess) {
        pl_cuda_unmap(cuda, block->mapped);
        return pl_cuda_tell(cuda, error, "opening a peer's memory");
    }
    block->reach = is.device == cuda->gpu ? PL_CUDA_NEAR : PL_CUDA_PEER;
    return PL_OK;
}

/* What was allocated here and holds the byte; SIZE_MAX: nothing. */
size_t find_own(const pl_cuda_t *cuda, const void *byte)
{
    for (size_t i = 0; i < cuda->blocks.n; i++) {
        const pl_cuda_block_t *block = &cuda->blocks.items[i];

        if (block->is_own &&
            ((block->at == byte) ||
             ((uintptr_t)byte - (uintptr_t)block->at < block->bytes))) {
            return i;
        }
    }
    return SIZE_MAX;
}

pl_status_t share_memory(const pl_cuda_t *cuda, size_t i, void *mem,
                         pl_share_t *share)
{
    const pl_cuda_block_t *block = &cuda->blocks.items[i];
    cudaIpcMemHandle_t handle;

    if (block->kind != PL_MEMORY_SHARED) {
        pl_log(cuda->device.log, PL_LOG_ERROR,
               "device cuda:%d: %s cannot be shared: it is not of kind SHARED",
               cuda->gpu, block->what);
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(pl_cuda_tell(cuda, cudaIpcGetMemHandle(&handle, block->at),
                        "sharing memory"));
    share->offset = (uint64_t)((uint8_t *)mem - block->at);
    share->bytes  = block->bytes - share->offset;
    memcpy(share->handle, &handle, sizeof(handle));
    return PL_OK;
}

/* ---- events ---- */

size_t find_event(const pl_cuda_t *cuda, const void *mem)
{
    for (size_t i = 0; i < cuda->made.n; i++) {
        if (cuda->made.items[i] == mem) {
            return i;
        }
    }
    return SIZE_MAX;
}

pl_status_t share_event(const pl_cuda_t *cuda, const pl_event_t *event,
                        pl_share_t *share)
{
    cudaIpcEventHandle_t handle;

    PL_TRY(pl_cuda_tell(cuda, cudaIpcGetEventHandle(&handle, event->event),
                        "sharing an event"));
    memcpy(share->handle, &handle, sizeof(handle));
    return PL_OK;
}

} // namespace

pl_status_t pl_cuda_share(pl_device_t *self, void *mem, pl_share_t *share_p)
{
    pl_cuda_t *cuda  = (pl_cuda_t *)self;
    pl_share_t share = {};
    const size_t i   = find_own(cuda, mem);

    PL_TRY(pl_cuda_device_enter(self));
    share.process = (int64_t)getpid();
    share.address = (uint64_t)(uintptr_t)mem;
    if (i != SIZE_MAX) {
        PL_TRY(share_memory(cuda, i, mem, &share));
    } else if (find_event(cuda, mem) != SIZE_MAX) {
        PL_TRY(share_event(cuda, (pl_event_t *)mem, &share));
    } else {
        pl_log(self->log, PL_LOG_ERROR,
               "device cuda:%d: %p is no memory or event of this device and "
               "cannot be shared",
               cuda->gpu, mem);
        return PL_ERR_ARGUMENT;
    }
    *share_p = share;
    return PL_OK;
}

pl_status_t pl_cuda_open_shared(pl_device_t *self, const pl_share_t *share,
                                void **mem_p)
{
    pl_cuda_t *cuda       = (pl_cuda_t *)self;
    pl_cuda_block_t block = {};
    size_t i;

    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(pl_cuda_reserve_block(cuda, "a peer's memory"));
    block.kind     = PL_MEMORY_SHARED;
    block.bytes    = (size_t)share->bytes;
    block.n_opened = 1;
    (void)snprintf(block.what, sizeof(block.what), "memory of process %" PRId64,
                   share->process);
    if (is_here(share)) {
        block.at = (uint8_t *)(uintptr_t)share->address;
        PL_TRY(reach_neighbour(cuda, block.at, &block.reach));
    } else {
        PL_TRY(open_elsewhere(cuda, share, &block));
    }
    i = pl_cuda_block_at(cuda, block.at, false);
    if (i != SIZE_MAX) {
        cuda->blocks.items[i].n_opened++;
        pl_cuda_unmap(cuda, block.mapped); /* it has been counted before */
    } else {
        pl_cuda_add_block(cuda, &block);
    }
    *mem_p = block.at;
    return PL_OK;
}

void pl_cuda_close_shared(pl_device_t *self, void *mem)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;
    const size_t i  = pl_cuda_block_at(cuda, mem, false);

    if (i == SIZE_MAX) {
        return;
    }
    (void)cudaSetDevice(cuda->gpu);
    if (--cuda->blocks.items[i].n_opened == 0) {
        pl_cuda_unmap(cuda, cuda->blocks.items[i].mapped);
        pl_cuda_remove_block(cuda, i);
    }
}

void pl_cuda_unmap(const pl_cuda_t *cuda, void *mapped)
{
    if (mapped != nullptr) {
        unmap(cuda, mapped, cudaIpcCloseMemHandle, "closing a peer's memory");
    }
}

pl_status_t pl_cuda_event_make(pl_device_t *self, pl_event_t **event_p,
                               pl_share_t *share_p)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;
    pl_event_t *event;
    pl_status_t status;

    PL_TRY(pl_cuda_device_enter(self));
    event = (pl_event_t *)calloc(1, sizeof(*event));
    if ((event == nullptr) || (PL_ARRAY_PUSH(&cuda->made, event) != PL_OK)) {
        free(event);
        return pl_cuda_no_memory(cuda, "an event");
    }
    event->is_own = true;
    PL_TRY_GOTO(status,
                pl_cuda_tell(cuda,
                             cudaEventCreateWithFlags(
                                 &event->event, cudaEventDisableTiming |
                                                    cudaEventInterprocess),
                             "making an event for peers"),
                close);
    PL_TRY_GOTO(status,
                pl_cuda_tell(cuda,
                             cudaEventCreateWithFlags(&event->near,
                                                      cudaEventDisableTiming),
                             "making an event for peers"),
                close);
    PL_TRY_GOTO(status, pl_cuda_share(self, event, share_p), close);
    *event_p = event;
    return PL_OK;
close:
    pl_cuda_event_close(self, event);
    return status;
}

pl_status_t pl_cuda_event_open(pl_device_t *self, const pl_share_t *share,
                               pl_event_t **event_p)
{
    pl_cuda_t *cuda   = (pl_cuda_t *)self;
    pl_event_t *event = (pl_event_t *)calloc(1, sizeof(*event));
    void *at          = nullptr;
    pl_status_t status;

    if (event == nullptr) {
        return pl_cuda_no_memory(cuda, "an event");
    }
    PL_TRY_GOTO(status, pl_cuda_device_enter(self), close);
    if (is_here(share)) {
        event->event = ((pl_event_t *)(uintptr_t)share->address)->near;
    } else {
        PL_TRY_GOTO(
            status,
            map(cuda, share->handle, open_event, "opening a peer's event", &at),
            close);
        event->event     = (cudaEvent_t)at;
        event->is_mapped = true;
    }
    *event_p = event;
    return PL_OK;
close:
    free(event);
    return status;
}

pl_status_t pl_cuda_event_mark(pl_device_t *self, pl_stream_t stream,
                               pl_event_t *event)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;

    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(pl_cuda_tell(
        cuda, cudaEventRecord(event->event, cuda->queues[stream].stream),
        "marking an event for peers"));
    return pl_cuda_tell(
        cuda, cudaEventRecord(event->near, cuda->queues[stream].stream),
        "marking an event for peers");
}

pl_status_t pl_cuda_event_after(pl_device_t *self, pl_stream_t stream,
                                pl_event_t *event)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;

    PL_TRY(pl_cuda_device_enter(self));
    const pl_cuda_timed_t wait(self, stream, PL_WORK_WAIT);
    return pl_cuda_tell(
        cuda, cudaStreamWaitEvent(cuda->queues[stream].stream, event->event, 0),
        "coming after a peer's event");
}

void pl_cuda_event_close(pl_device_t *self, pl_event_t *event)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;
    const size_t i  = find_event(cuda, event);

    if (event == nullptr) {
        return;
    }
    (void)cudaSetDevice(cuda->gpu);
    if (event->is_own && (event->event != nullptr)) {
        (void)cudaEventDestroy(event->event);
    }
    if (event->near != nullptr) {
        (void)cudaEventDestroy(event->near);
    }
    if (event->is_mapped) {
        unmap(cuda, event->event, close_event, "closing a peer's event");
    }
    if (i != SIZE_MAX) {
        cuda->made.items[i] = cuda->made.items[--cuda->made.n];
    }
    free(event);
}
