#include "device_internal.cuh"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <atomic>

#include "nvtx.cuh"

namespace
{

constexpr uint64_t STREAM_BITS = 3; /* of a fence */
static_assert(PL_STREAMS <= 1 << STREAM_BITS, "a fence names its stream");

constexpr size_t KEPT_POINTS = 32; /* fences not known to be done */

/* A wait for a decode step is over in microseconds, one for a chunk in
 * milliseconds; 8 ranks may wait on two cores. */
constexpr double SPIN_S  = 20e-6;
constexpr double YIELD_S = 1e-3;
constexpr long SLEEP_NS  = 50000;
constexpr double LOOK_S  = 0.1;

std::atomic<int64_t> n_synchronizations{0};

/* ---- errors ---- */

const char *advice(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "use smaller pools";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
        return "see --list-devices, or use --device cpu";
    case cudaErrorNoKernelImageForDevice:
        return "build with PAGELANE_CUDA_ARCHITECTURES set for this GPU";
    default:
        return "PAGELANE_DEBUG=1 tells which call it was";
    }
}

pl_status_t tell(const pl_log_t *log, const char *who, cudaError_t error,
                 const char *what)
{
    (void)cudaGetLastError(); /* or the next launch seems to have failed */
    if (error == cudaSuccess) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR, "%s: %s: %s; %s", who, what,
           cudaGetErrorString(error), advice(error));
    return error == cudaErrorMemoryAllocation ? PL_ERR_MEMORY : PL_ERR_DEVICE;
}

pl_status_t stream_status(const pl_cuda_t *cuda, cudaError_t error,
                          pl_stream_t stream)
{
    char what[48];

    if (error == cudaSuccess) {
        return PL_OK;
    }
    (void)snprintf(what, sizeof(what), "work on stream %s",
                   pl_stream_name(stream));
    return pl_cuda_tell(cuda, error, what);
}

/* ---- waits ---- */

double now()
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void rest(double waited_s)
{
    if (waited_s >= YIELD_S) {
        const struct timespec nap = {0, SLEEP_NS};

        (void)nanosleep(&nap, nullptr);
    } else if (waited_s >= SPIN_S) {
        (void)sched_yield();
    }
}

cudaError_t query(cudaEvent_t event)
{
    cudaError_t error = cudaEventQuery(event);

    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* that is no error */
    }
    return error;
}

/* ---- fences ---- */

pl_fence_t fence_of(uint64_t number, pl_stream_t stream)
{
    return number << STREAM_BITS | (uint64_t)stream;
}

/* The first n points are done. */
void retire(pl_cuda_t *cuda, pl_cuda_queue_t *queue, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pl_cuda_give_event(cuda, queue->points.items[queue->head + i].event);
    }
    queue->head += n;
    queue->n_done += n;
    n = queue->points.n - queue->head; /* left */
    if (queue->head >= n) {
        if (n > 0) {
            memmove(queue->points.items, queue->points.items + queue->head,
                    n * sizeof(*queue->points.items));
        }
        queue->points.n = n;
        queue->head     = 0;
    }
}

/* Fences that nobody waits for do not pile up. */
void retire_some(pl_cuda_t *cuda, pl_cuda_queue_t *queue)
{
    for (int i = 0;
         (i < 2) && (queue->points.n - queue->head > KEPT_POINTS) &&
         (query(queue->points.items[queue->head].event) == cudaSuccess);
         i++) {
        retire(cuda, queue, 1);
    }
}

pl_status_t cuda_record(pl_device_t *self, pl_stream_t stream,
                        pl_fence_t *fence_p)
{
    pl_cuda_t *cuda        = (pl_cuda_t *)self;
    pl_cuda_queue_t *queue = &cuda->queues[stream];
    pl_cuda_point_t point;
    pl_status_t status;

    PL_TRY(pl_cuda_device_enter(self));
    retire_some(cuda, queue);
    if (PL_ARRAY_RESERVE(&queue->points, queue->points.n + 1) != PL_OK) {
        return pl_cuda_no_memory(cuda, "a fence");
    }
    point.event = pl_cuda_take_event(cuda);
    if (point.event == nullptr) {
        return PL_ERR_DEVICE;
    }
    status = pl_cuda_tell(cuda, cudaEventRecord(point.event, queue->stream),
                          "recording a fence");
    if (status != PL_OK) {
        pl_cuda_give_event(cuda, point.event);
        return status;
    }
    queue->points.items[queue->points.n++] = point;
    queue->n_recorded++;
    *fence_p = fence_of(queue->n_recorded, stream);
    return PL_OK;
}

/* *n_p: points of the stream up to the fence that are not known to be done. */
pl_status_t find_fence(const pl_cuda_t *cuda, pl_stream_t stream,
                       pl_fence_t fence, size_t *n_p)
{
    const pl_cuda_queue_t *queue = &cuda->queues[stream];
    const uint64_t number        = fence >> STREAM_BITS;

    *n_p = 0;
    if (fence == 0) {
        return PL_OK;
    }
    if ((fence != fence_of(number, stream)) || (number == 0) ||
        (number > queue->n_recorded)) {
        pl_log(cuda->device.log, PL_LOG_ERROR,
               "device cuda:%d: fence %" PRIu64
               " was not recorded on stream %s",
               cuda->gpu, fence, pl_stream_name(stream));
        return PL_ERR_ARGUMENT;
    }
    *n_p = number > queue->n_done ? (size_t)(number - queue->n_done) : 0;
    return PL_OK;
}

pl_status_t cuda_wait(pl_device_t *self, pl_stream_t stream, pl_fence_t fence)
{
    pl_cuda_t *cuda        = (pl_cuda_t *)self;
    pl_cuda_queue_t *queue = &cuda->queues[stream];
    size_t n;

    PL_TRY(find_fence(cuda, stream, fence, &n));
    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(pl_cuda_wait_event(
        cuda, queue->points.items[queue->head + n - 1].event, stream));
    retire(cuda, queue, n);
    return PL_OK;
}

pl_status_t cuda_after(pl_device_t *self, pl_stream_t stream, pl_stream_t other,
                       pl_fence_t fence)
{
    pl_cuda_t *cuda              = (pl_cuda_t *)self;
    const pl_cuda_queue_t *queue = &cuda->queues[other];
    size_t n;

    PL_TRY(find_fence(cuda, other, fence, &n));
    if ((n == 0) || (stream == other)) {
        return PL_OK;
    }
    PL_TRY(pl_cuda_device_enter(self));
    const pl_cuda_timed_t wait(self, stream, PL_WORK_WAIT);
    return pl_cuda_tell(
        cuda,
        cudaStreamWaitEvent(cuda->queues[stream].stream,
                            queue->points.items[queue->head + n - 1].event, 0),
        "putting one stream after another");
}

/* ---- opening and closing ---- */

pl_status_t find_gpu(int gpu, const pl_log_t *log)
{
    int n             = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error != cudaSuccess) {
        return tell(log, "device cuda", error, "looking for a GPU");
    }
    if ((gpu < 0) || (gpu >= n)) {
        pl_log(log, PL_LOG_ERROR,
               "device cuda:%d: there is no such GPU: %d can be used, counted "
               "from 0; see --list-devices",
               gpu, n);
        return PL_ERR_DEVICE;
    }
    return PL_OK;
}

/* Copies come before the forward pass, whose kernels would keep all
 * multiprocessors from them. */
pl_status_t make_streams(pl_cuda_t *cuda)
{
    int least = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    for (int s = 0; (s < PL_STREAMS) && (error == cudaSuccess); s++) {
        error = cudaStreamCreateWithPriority(
            &cuda->queues[s].stream, cudaStreamNonBlocking,
            s == PL_STREAM_COMPUTE ? least : greatest);
    }
    return pl_cuda_tell(cuda, error, "making streams");
}

/* What was never waited for is done all the same. */
void finish_queue(pl_cuda_t *cuda, pl_stream_t stream)
{
    pl_cuda_queue_t *queue = &cuda->queues[stream];
    const double begin     = now();

    if (queue->stream == nullptr) {
        return;
    }
    while (cudaStreamQuery(queue->stream) == cudaErrorNotReady) {
        rest(now() - begin);
    }
    (void)cudaGetLastError(); /* whoever waited was told */
    for (size_t i = queue->head; i < queue->points.n; i++) {
        (void)cudaEventDestroy(queue->points.items[i].event);
    }
    PL_ARRAY_FREE(&queue->points);
}

void cuda_close(pl_device_t *self)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;

    (void)cudaSetDevice(cuda->gpu);
    self->watch.look = nullptr;
    for (int s = 0; s < PL_STREAMS; s++) {
        finish_queue(cuda, (pl_stream_t)s);
    }
    pl_cuda_free_work(cuda);
    pl_cuda_free_profile(cuda);
    pl_cuda_free_all(cuda);
    for (size_t i = 0; i < cuda->events.n; i++) {
        (void)cudaEventDestroy(cuda->events.items[i]);
    }
    for (int s = 0; s < PL_STREAMS; s++) {
        if (cuda->queues[s].stream != nullptr) {
            (void)cudaStreamDestroy(cuda->queues[s].stream);
        }
    }
    PL_ARRAY_FREE(&cuda->events);
    PL_ARRAY_FREE(&cuda->blocks);
    PL_ARRAY_FREE(&cuda->made);
    free(cuda);
}

pl_device_ops_t make_ops()
{
    pl_device_ops_t ops = {};

    ops.name         = "cuda";
    ops.alloc        = pl_cuda_alloc;
    ops.free         = pl_cuda_free;
    ops.copy         = pl_cuda_copy;
    ops.record       = cuda_record;
    ops.wait         = cuda_wait;
    ops.after        = cuda_after;
    ops.fill         = pl_cuda_fill;
    ops.digest       = pl_cuda_digest;
    ops.gather       = pl_cuda_gather;
    ops.close        = cuda_close;
    ops.share        = pl_cuda_share;
    ops.open_shared  = pl_cuda_open_shared;
    ops.close_shared = pl_cuda_close_shared;
    ops.event_make   = pl_cuda_event_make;
    ops.event_open   = pl_cuda_event_open;
    ops.event_mark   = pl_cuda_event_mark;
    ops.event_after  = pl_cuda_event_after;
    ops.event_close  = pl_cuda_event_close;

    ops.profile_begin = pl_cuda_profile_begin;
    ops.profile_read  = pl_cuda_profile_read;
    return ops;
}

const pl_device_ops_t OPS = make_ops();

pl_status_t look_at_kernels(const pl_cuda_t *cuda)
{
    return pl_cuda_kernels_run_here()
               ? PL_OK
               : pl_cuda_tell(cuda, cudaErrorNoKernelImageForDevice, "opening");
}

} // namespace

pl_status_t pl_cuda_device_open(int gpu, const pl_log_t *log,
                                pl_device_t **device_p)
{
    pl_cuda_t *cuda;
    pl_status_t status;

    PL_TRY(find_gpu(gpu, log));
    cuda = (pl_cuda_t *)calloc(1, sizeof(*cuda));
    if (cuda == nullptr) {
        pl_log(log, PL_LOG_ERROR, "device cuda:%d: out of memory", gpu);
        return PL_ERR_MEMORY;
    }
    cuda->device.ops = &OPS;
    cuda->device.log = log;
    cuda->gpu        = gpu;
    PL_TRY_GOTO(status, pl_cuda_device_enter(&cuda->device), close);
    PL_TRY_GOTO(status, look_at_kernels(cuda), close);
    PL_TRY_GOTO(status, make_streams(cuda), close);
    *device_p = &cuda->device;
    return PL_OK;
close:
    cuda_close(&cuda->device);
    return status;
}

pl_status_t pl_cuda_device_enter(const pl_device_t *device)
{
    const pl_cuda_t *cuda = (const pl_cuda_t *)device;

    return pl_cuda_tell(cuda, cudaSetDevice(cuda->gpu), "using the GPU");
}

int pl_cuda_device_gpu(const pl_device_t *device)
{
    return ((const pl_cuda_t *)device)->gpu;
}

pl_cuda_stream_t pl_cuda_device_stream(pl_device_t *device, pl_stream_t stream)
{
    return ((pl_cuda_t *)device)->queues[stream].stream;
}

pl_status_t pl_cuda_device_launched(pl_device_t *device, pl_stream_t stream,
                                    pl_status_t launched, const char *what)
{
    pl_cuda_t *cuda           = (pl_cuda_t *)device;
    const cudaStream_t queued = cuda->queues[stream].stream;

    if ((launched == PL_OK) && pl_cuda_is_debug()) {
        pl_cuda_count_synchronization();
        return pl_cuda_tell(cuda, cudaStreamSynchronize(queued), what);
    }
    if (launched != PL_OK) {
        cudaError_t error = cudaStreamQuery(queued);

        error = error == cudaErrorNotReady ? cudaSuccess : error;
        PL_TRY(pl_cuda_tell(cuda, error, what));
        pl_log(device->log, PL_LOG_ERROR,
               "device cuda:%d: %s: the kernel could not be launched: %s",
               cuda->gpu, what, pl_status_text(launched));
        return PL_ERR_DEVICE;
    }
    return PL_OK;
}

pl_status_t pl_cuda_device_wait_stream(pl_device_t *device, pl_stream_t stream)
{
    pl_cuda_t *cuda = (pl_cuda_t *)device;
    pl_fence_t fence;
    cudaError_t error;

    PL_TRY(pl_cuda_device_enter(device));
    error = cudaStreamQuery(cuda->queues[stream].stream);
    if (error != cudaErrorNotReady) {
        return stream_status(cuda, error, stream);
    }
    (void)cudaGetLastError(); /* that is no error */
    PL_TRY(cuda_record(device, stream, &fence));
    return cuda_wait(device, stream, fence);
}

pl_status_t pl_cuda_told(const pl_log_t *log, int error, const char *what)
{
    return tell(log, "cuda", (cudaError_t)error, what);
}

bool pl_cuda_is_debug(void)
{
    static const bool is_debug = pl_is_set("PAGELANE_DEBUG");

    return is_debug;
}

void pl_cuda_count_synchronization(void)
{
    n_synchronizations.fetch_add(1, std::memory_order_relaxed);
}

int64_t pl_cuda_n_synchronizations(void)
{
    return n_synchronizations.load(std::memory_order_relaxed);
}

int pl_cuda_copy_now(void *to, const void *from, size_t bytes)
{
    pl_cuda_count_synchronization();
    return (int)cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}

/* ---- for the other files of the device ---- */

pl_status_t pl_cuda_tell(const pl_cuda_t *cuda, cudaError_t error,
                         const char *what)
{
    char who[32];

    if (error == cudaSuccess) {
        return PL_OK;
    }
    (void)snprintf(who, sizeof(who), "device cuda:%d", cuda->gpu);
    return tell(cuda->device.log, who, error, what);
}

pl_status_t pl_cuda_no_memory(const pl_cuda_t *cuda, const char *what)
{
    pl_log(cuda->device.log, PL_LOG_ERROR,
           "device cuda:%d: out of host memory for %s", cuda->gpu, what);
    return PL_ERR_MEMORY;
}

cudaEvent_t pl_cuda_take_event(pl_cuda_t *cuda)
{
    cudaEvent_t event = nullptr;

    if (cuda->events.n > 0) {
        return cuda->events.items[--cuda->events.n];
    }
    if (pl_cuda_tell(cuda,
                     cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                     "making an event") != PL_OK) {
        return nullptr;
    }
    return event;
}

void pl_cuda_give_event(pl_cuda_t *cuda, cudaEvent_t event)
{
    if (PL_ARRAY_PUSH(&cuda->events, event) != PL_OK) {
        (void)cudaEventDestroy(event);
    }
}

pl_status_t pl_cuda_wait_event(pl_cuda_t *cuda, cudaEvent_t event,
                               pl_stream_t stream)
{
    const pl_device_watch_t *watch = &cuda->device.watch;
    cudaError_t error              = query(event);
    const double begin             = now();
    double look_s                  = LOOK_S;

    cuda->device.n_waits += error == cudaErrorNotReady ? 1 : 0;
    while (error == cudaErrorNotReady) {
        const double waited_s = now() - begin;

        if ((waited_s >= look_s) && (watch->look != nullptr)) {
            PL_TRY(watch->look(watch->context, waited_s));
            look_s = now() - begin + LOOK_S;
        }
        rest(waited_s);
        error = query(event);
    }
    return stream_status(cuda, error, stream);
}
