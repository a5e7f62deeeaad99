#include "device_internal.cuh"

namespace
{

/* A point of a stream: what comes behind it is `work`. */
typedef struct mark {
    cudaEvent_t event;
    pl_work_t work;
} mark_t;

typedef PL_ARRAY(mark_t) marks_t;

} // namespace

struct pl_cuda_profile {
    marks_t marks[PL_STREAMS];    /* since the last read */
    pl_work_t now[PL_STREAMS];    /* of the last mark */
    PL_ARRAY(cudaEvent_t) events; /* that read the clock; not in use */
    pl_status_t status;           /* a mark that could not be made */
};

namespace
{

typedef struct pl_cuda_profile profile_t;

cudaError_t take_event(profile_t *profile, cudaEvent_t *event_p)
{
    if (profile->events.n > 0) {
        *event_p = profile->events.items[--profile->events.n];
        return cudaSuccess;
    }
    return cudaEventCreate(event_p);
}

void give_event(profile_t *profile, cudaEvent_t event)
{
    if (PL_ARRAY_PUSH(&profile->events, event) != PL_OK) {
        (void)cudaEventDestroy(event);
    }
}

pl_status_t add_mark(pl_cuda_t *cuda, pl_stream_t stream, pl_work_t work)
{
    profile_t *profile = cuda->profile;
    mark_t mark        = {nullptr, work};
    cudaError_t error;

    PL_TRY(pl_cuda_device_enter(&cuda->device));
    error = take_event(profile, &mark.event);
    if (error == cudaSuccess) {
        error = cudaEventRecord(mark.event, cuda->queues[stream].stream);
    }
    if (error == cudaSuccess) {
        if (PL_ARRAY_PUSH(&profile->marks[stream], mark) == PL_OK) {
            profile->now[stream] = work;
            return PL_OK;
        }
        error = cudaErrorMemoryAllocation;
    }
    if (mark.event != nullptr) {
        give_event(profile, mark.event);
    }
    return pl_cuda_tell(cuda, error, "taking the time of a stream");
}

pl_status_t add_time(const pl_cuda_t *cuda, const mark_t *from,
                     const mark_t *to, pl_work_time_t *time)
{
    float ms = 0;

    PL_TRY(pl_cuda_tell(cuda, cudaEventElapsedTime(&ms, from->event, to->event),
                        "taking the time of a stream"));
    time->calls++;
    time->ns += (int64_t)(1e6 * (double)ms);
    return PL_OK;
}

pl_status_t add_times(pl_cuda_t *cuda, pl_stream_t stream,
                      pl_work_time_t *times)
{
    const marks_t *marks = &cuda->profile->marks[stream];

    if (marks->n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_cuda_wait_event(cuda, marks->items[marks->n - 1].event, stream));
    for (size_t i = 0; i + 1 < marks->n; i++) {
        const pl_work_t work = marks->items[i].work;

        if (work != PL_WORK_NONE) {
            PL_TRY(add_time(cuda, &marks->items[i], &marks->items[i + 1],
                            &times[work]));
        }
    }
    return PL_OK;
}

void forget(profile_t *profile, pl_stream_t stream)
{
    marks_t *marks = &profile->marks[stream];

    for (size_t i = 0; i < marks->n; i++) {
        give_event(profile, marks->items[i].event);
    }
    marks->n = 0;
}

} // namespace

pl_work_t pl_cuda_mark(pl_device_t *device, pl_stream_t stream, pl_work_t work)
{
    pl_cuda_t *cuda    = (pl_cuda_t *)device;
    profile_t *profile = cuda->profile;
    pl_work_t before;

    if (profile == nullptr) {
        return PL_WORK_NONE;
    }
    before = profile->now[stream];
    if ((before != work) && (profile->status == PL_OK)) {
        profile->status = add_mark(cuda, stream, work);
    }
    return before;
}

pl_status_t pl_cuda_profile_begin(pl_device_t *self)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;

    if (cuda->profile == nullptr) {
        cuda->profile = (profile_t *)calloc(1, sizeof(*cuda->profile));
    }
    return cuda->profile != nullptr ? PL_OK
                                    : pl_cuda_no_memory(cuda, "a profile");
}

pl_status_t pl_cuda_profile_read(pl_device_t *self, pl_profile_t *profile)
{
    pl_cuda_t *cuda = (pl_cuda_t *)self;

    if (cuda->profile == nullptr) {
        return PL_ERR_ARGUMENT;
    }
    for (int s = 0; s < PL_STREAMS; s++) {
        const pl_stream_t stream = (pl_stream_t)s;

        (void)pl_cuda_mark(self, stream, PL_WORK_NONE);
        PL_TRY(cuda->profile->status);
        PL_TRY(add_times(cuda, stream, profile->times[s]));
        forget(cuda->profile, stream);
    }
    return PL_OK;
}

void pl_cuda_free_profile(pl_cuda_t *cuda)
{
    profile_t *profile = cuda->profile;

    if (profile == nullptr) {
        return;
    }
    for (int s = 0; s < PL_STREAMS; s++) {
        forget(profile, (pl_stream_t)s);
        PL_ARRAY_FREE(&profile->marks[s]);
    }
    for (size_t i = 0; i < profile->events.n; i++) {
        (void)cudaEventDestroy(profile->events.items[i]);
    }
    PL_ARRAY_FREE(&profile->events);
    free(profile);
    cuda->profile = nullptr;
}
