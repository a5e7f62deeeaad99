#include "device_internal.cuh"

#include <inttypes.h>
#include <stdio.h>

namespace
{

/* IPC shares what cudaMalloc took from the driver: small allocations share one
 * of 2 MiB, so shared ones have theirs to themselves. */
constexpr size_t SHARED_BYTES = (size_t)2 << 20;

/* ---- what the machine has ---- */

/* The number in a file of /sys/fs/cgroup, or of the line of /proc/meminfo that
 * begins with `key`; UINT64_MAX: none. */
uint64_t number_in(const char *path, const char *key)
{
    FILE *file     = fopen(path, "r");
    uint64_t found = UINT64_MAX;
    char line[256];

    while ((file != nullptr) && (found == UINT64_MAX) &&
           (fgets(line, sizeof(line), file) != nullptr)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            if (sscanf(line + strlen(key), "%" SCNu64, &found) != 1) {
                found = UINT64_MAX; /* "max" */
            }
        }
    }
    if (file != nullptr) {
        (void)fclose(file);
    }
    return found;
}

/* Bytes that can still be pinned.  A limit of the control group comes first:
 * under it a machine may be given more memory while it is used. */
uint64_t host_room()
{
    const char *GROUP    = "/sys/fs/cgroup/memory.max";
    const uint64_t limit = number_in(GROUP, "");
    const uint64_t used  = number_in("/sys/fs/cgroup/memory.current", "");
    const uint64_t cache =
        number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
    const uint64_t free_kib = number_in("/proc/meminfo", "MemAvailable:");

    if ((limit != UINT64_MAX) && (used != UINT64_MAX)) {
        const uint64_t kept =
            cache != UINT64_MAX && cache < used ? used - cache : used;

        return limit > kept ? limit - kept : 0;
    }
    return free_kib != UINT64_MAX ? free_kib << 10 : UINT64_MAX;
}

pl_status_t alloc_host(const pl_cuda_t *cuda, size_t bytes, const char *what,
                       void **mem_p)
{
    const uint64_t room = host_room();
    cudaError_t error   = cudaErrorMemoryAllocation;

    if (bytes <= room) {
        error = cudaHostAlloc(mem_p, bytes > 0 ? bytes : 1,
                              cudaHostAllocMapped | cudaHostAllocPortable);
    }
    if (error != cudaErrorMemoryAllocation) {
        return pl_cuda_tell(cuda, error, what);
    }
    (void)cudaGetLastError();
    pl_log(cuda->device.log, PL_LOG_ERROR,
           "device cuda:%d: no memory for %s: %zu bytes of pinned memory "
           "asked (it is never swapped), the machine has %" PRIu64
           " left; use fewer --host-pages",
           cuda->gpu, what, bytes, room);
    return PL_ERR_MEMORY;
}

pl_status_t alloc_device(const pl_cuda_t *cuda, pl_memory_t kind, size_t bytes,
                         const char *what, void **mem_p)
{
    const size_t unit = kind == PL_MEMORY_SHARED ? SHARED_BYTES : 1;
    size_t left = 0, all = 0;
    cudaError_t error = cudaErrorMemoryAllocation;

    if (bytes <= SIZE_MAX - unit) {
        error = cudaMalloc(mem_p,
                           (bytes > 0 ? bytes + unit - 1 : unit) / unit * unit);
    }
    if (error != cudaErrorMemoryAllocation) {
        return pl_cuda_tell(cuda, error, what);
    }
    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&left, &all);
    pl_log(cuda->device.log, PL_LOG_ERROR,
           "device cuda:%d: no memory for %s: %zu bytes asked, %zu of %zu are "
           "free; use fewer --device-pages",
           cuda->gpu, what, bytes, left, all);
    return PL_ERR_MEMORY;
}

/* ---- what is known of an address ---- */

/* Blocks that begin at or before `at`. */
size_t n_before(const pl_cuda_t *cuda, const void *at)
{
    size_t low = 0, high = cuda->blocks.n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if ((uintptr_t)cuda->blocks.items[middle].at <= (uintptr_t)at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool holds(const pl_cuda_block_t *block, const void *byte)
{
    return (uintptr_t)byte - (uintptr_t)block->at < block->bytes;
}

/* The block that holds the byte; SIZE_MAX: none. */
size_t block_of(const pl_cuda_t *cuda, const void *byte)
{
    const size_t n = n_before(cuda, byte);

    return (n > 0) && holds(&cuda->blocks.items[n - 1], byte) ? n - 1
                                                              : SIZE_MAX;
}

/* Memory that others allocated, asked of the driver. */
pl_status_t ask_driver(const pl_cuda_t *cuda, const void *at,
                       pl_cuda_reach_t *reach_p)
{
    cudaPointerAttributes is;
    cudaError_t error = cudaPointerGetAttributes(&is, at);

    (void)cudaGetLastError();
    if ((error != cudaSuccess) || (is.type == cudaMemoryTypeUnregistered)) {
        pl_log(cuda->device.log, PL_LOG_ERROR,
               "device cuda:%d: the GPU cannot reach the memory at %p; "
               "allocate it with the device",
               cuda->gpu, at);
        return PL_ERR_VIOLATION;
    }
    if (is.type == cudaMemoryTypeHost) {
        *reach_p = PL_CUDA_HOST;
    } else {
        *reach_p = is.device == cuda->gpu ? PL_CUDA_NEAR : PL_CUDA_PEER;
    }
    return PL_OK;
}

void grow(pl_cuda_reach_t *reach_p, pl_cuda_reach_t to)
{
    *reach_p = to > *reach_p ? to : *reach_p;
}

} // namespace

size_t pl_cuda_block_at(const pl_cuda_t *cuda, const void *at, bool is_own)
{
    for (size_t i = n_before(cuda, at); i > 0; i--) {
        const pl_cuda_block_t *block = &cuda->blocks.items[i - 1];

        if (block->at != at) {
            break;
        }
        if (is_own ? block->is_own : block->n_opened > 0) {
            return i - 1;
        }
    }
    return SIZE_MAX;
}

pl_status_t pl_cuda_reach(const pl_cuda_t *cuda, const void *at, size_t bytes,
                          pl_cuda_hint_t *hint, pl_cuda_reach_t *reach_p)
{
    const pl_cuda_block_t *blocks = cuda->blocks.items;
    pl_cuda_reach_t reach         = PL_CUDA_NEAR;
    size_t i                      = hint->block;

    if ((i >= cuda->blocks.n) || !holds(&blocks[i], at)) {
        i = block_of(cuda, at);
        if (i == SIZE_MAX) {
            PL_TRY(ask_driver(cuda, at, &reach));
            grow(reach_p, reach);
            return PL_OK;
        }
        hint->block = i;
    }
    if (bytes > blocks[i].bytes - ((uintptr_t)at - (uintptr_t)blocks[i].at)) {
        pl_log(cuda->device.log, PL_LOG_ERROR,
               "device cuda:%d: %zu bytes at byte %zu leave %s (%zu bytes)",
               cuda->gpu, bytes,
               (size_t)((uintptr_t)at - (uintptr_t)blocks[i].at),
               blocks[i].what, blocks[i].bytes);
        return PL_ERR_VIOLATION;
    }
    grow(reach_p, blocks[i].reach);
    return PL_OK;
}

pl_status_t pl_cuda_reserve_block(pl_cuda_t *cuda, const char *what)
{
    return PL_ARRAY_RESERVE(&cuda->blocks, cuda->blocks.n + 1) == PL_OK
               ? PL_OK
               : pl_cuda_no_memory(cuda, what);
}

void pl_cuda_add_block(pl_cuda_t *cuda, const pl_cuda_block_t *block)
{
    const size_t i = n_before(cuda, block->at);

    memmove(cuda->blocks.items + i + 1, cuda->blocks.items + i,
            (cuda->blocks.n - i) * sizeof(*block));
    cuda->blocks.items[i] = *block;
    cuda->blocks.n++;
}

void pl_cuda_remove_block(pl_cuda_t *cuda, size_t i)
{
    cuda->blocks.n--;
    memmove(cuda->blocks.items + i, cuda->blocks.items + i + 1,
            (cuda->blocks.n - i) * sizeof(*cuda->blocks.items));
}

pl_status_t pl_cuda_alloc(pl_device_t *self, pl_memory_t kind, size_t bytes,
                          const char *what, void **mem_p)
{
    pl_cuda_t *cuda       = (pl_cuda_t *)self;
    pl_cuda_block_t block = {};
    void *mem             = nullptr;

    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(pl_cuda_reserve_block(cuda, what));
    if (kind == PL_MEMORY_HOST) {
        PL_TRY(alloc_host(cuda, bytes, what, &mem));
        block.reach = PL_CUDA_HOST;
    } else {
        PL_TRY(alloc_device(cuda, kind, bytes, what, &mem));
        block.reach = PL_CUDA_NEAR;
    }
    block.at     = (uint8_t *)mem;
    block.bytes  = bytes;
    block.kind   = kind;
    block.is_own = true;
    (void)snprintf(block.what, sizeof(block.what), "%s", what);
    pl_cuda_add_block(cuda, &block);
    *mem_p = mem;
    return PL_OK;
}

static void free_block(pl_cuda_t *cuda, size_t i)
{
    const pl_cuda_block_t *block = &cuda->blocks.items[i];

    (void)pl_cuda_tell(cuda,
                       block->kind == PL_MEMORY_HOST ? cudaFreeHost(block->at)
                                                     : cudaFree(block->at),
                       block->what);
    pl_cuda_remove_block(cuda, i);
}

void pl_cuda_free(pl_device_t *self, void *mem)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;
    size_t i;

    if (mem == nullptr) {
        return;
    }
    (void)cudaSetDevice(cuda->gpu);
    i = pl_cuda_block_at(cuda, mem, true);
    if (i == SIZE_MAX) {
        pl_log(self->log, PL_LOG_ERROR,
               "device cuda:%d: free of a pointer that is not in use: %p",
               cuda->gpu, mem);
        return;
    }
    free_block(cuda, i);
}

void pl_cuda_free_all(pl_cuda_t *cuda)
{
    while (cuda->blocks.n > 0) {
        const size_t last            = cuda->blocks.n - 1;
        const pl_cuda_block_t *block = &cuda->blocks.items[last];

        if (!block->is_own) {
            pl_cuda_unmap(cuda, block->mapped);
            pl_cuda_remove_block(cuda, last);
            continue;
        }
        pl_log(cuda->device.log, PL_LOG_WARN,
               "device cuda:%d: %s (%zu bytes) was not freed", cuda->gpu,
               block->what, block->bytes);
        free_block(cuda, last);
    }
}
