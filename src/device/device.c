#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/internal.h"

static const struct {
    const char *name;
    pl_device_opener_t open;
} devices[] = {
    {"cpu", pl_device_open_cpu},
    {"guard", pl_device_open_guard},
};

#define N_DEVICES ((int)(sizeof(devices) / sizeof(devices[0])))

const char *pl_work_name(pl_work_t work)
{
    static const char *const names[PL_WORKS] = {
#define PL_WORK_TEXT(name, text) [name] = text,
        PL_WORK_LIST(PL_WORK_TEXT)
#undef PL_WORK_TEXT
    };

    return ((unsigned)work < PL_WORKS) && (names[work] != NULL) ? names[work]
                                                                : "?";
}

const char *pl_device_name(int i)
{
    return (i >= 0) && (i < N_DEVICES) ? devices[i].name : NULL;
}

static pl_status_t unknown_device(const char *name, const pl_log_t *log)
{
    pl_text_t text = {0};
    char *names    = NULL;

    for (int i = 0; i < N_DEVICES; i++) {
        pl_text_add(&text, "%s%s", i > 0 ? ", " : "", devices[i].name);
    }
    if (pl_text_take(&text, &names) == PL_OK) {
        pl_log(log, PL_LOG_ERROR, "there is no device '%s'; use one of: %s",
               name, names);
    }
    free(names);
    return PL_ERR_ARGUMENT;
}

pl_status_t pl_device_open(const char *name, const pl_log_t *log,
                           pl_device_t **device_p)
{
    if ((name == NULL) || (device_p == NULL)) {
        pl_log(log, PL_LOG_ERROR, "pl_device_open: NULL argument");
        return PL_ERR_ARGUMENT;
    }
    for (int i = 0; i < N_DEVICES; i++) {
        if (strcmp(name, devices[i].name) == 0) {
            return devices[i].open(log, device_p);
        }
    }
    return unknown_device(name, log);
}

void pl_device_close(pl_device_t *device)
{
    if (device != NULL) {
        device->ops->close(device);
    }
}

static pl_status_t refuse(const pl_device_t *device, const char *call,
                          const char *why)
{
    pl_log(device->log, PL_LOG_ERROR, "device %s: %s: %s", device->ops->name,
           call, why);
    return PL_ERR_ARGUMENT;
}

static bool stream_is_valid(pl_stream_t stream)
{
    return ((int)stream >= 0) && ((int)stream < PL_STREAMS);
}

pl_status_t pl_device_alloc(pl_device_t *device, pl_memory_t kind, size_t bytes,
                            const char *what, void **mem_p)
{
    if ((what == NULL) || (mem_p == NULL)) {
        return refuse(device, "alloc", "NULL argument");
    }
    if (((int)kind < PL_MEMORY_HOST) || ((int)kind > PL_MEMORY_SHARED)) {
        return refuse(device, "alloc", "no such kind of memory");
    }
    return device->ops->alloc(device, kind, bytes, what, mem_p);
}

void pl_device_free(pl_device_t *device, void *mem)
{
    if (mem != NULL) {
        device->ops->free(device, mem);
    }
}

pl_status_t pl_device_copy(pl_device_t *device, pl_stream_t stream,
                           const pl_copy_t *copies, int32_t n, bool late)
{
    if (!stream_is_valid(stream) || (n < 0) || ((n > 0) && (copies == NULL))) {
        return refuse(device, "copy", "no such stream, or no copies");
    }
    for (int32_t i = 0; i < n; i++) {
        if ((copies[i].bytes > 0) &&
            ((copies[i].dst == NULL) || (copies[i].src == NULL))) {
            return refuse(device, "copy", "a copy from or to NULL");
        }
    }
    return device->ops->copy(device, stream, copies, n, late);
}

pl_status_t pl_device_record(pl_device_t *device, pl_stream_t stream,
                             pl_fence_t *fence_p)
{
    if (!stream_is_valid(stream) || (fence_p == NULL)) {
        return refuse(device, "record", "no such stream, or no fence");
    }
    return device->ops->record(device, stream, fence_p);
}

pl_status_t pl_device_wait(pl_device_t *device, pl_stream_t stream,
                           pl_fence_t fence)
{
    if (!stream_is_valid(stream)) {
        return refuse(device, "wait", "no such stream");
    }
    return device->ops->wait(device, stream, fence);
}

pl_status_t pl_device_after(pl_device_t *device, pl_stream_t stream,
                            pl_stream_t other, pl_fence_t fence)
{
    if (!stream_is_valid(stream) || !stream_is_valid(other)) {
        return refuse(device, "after", "no such stream");
    }
    return device->ops->after(device, stream, other, fence);
}

pl_status_t pl_device_order(pl_device_t *device, pl_stream_t stream,
                            pl_stream_t other)
{
    pl_fence_t fence;

    PL_TRY(pl_device_record(device, other, &fence));
    return pl_device_after(device, stream, other, fence);
}

pl_status_t pl_device_fill(pl_device_t *device, pl_stream_t stream,
                           const pl_span_t *spans, int32_t n, uint8_t byte)
{
    if (!stream_is_valid(stream) || (n < 0) || ((n > 0) && (spans == NULL))) {
        return refuse(device, "fill", "no such stream, or no spans");
    }
    for (int32_t i = 0; i < n; i++) {
        if ((spans[i].mem == NULL) && (spans[i].bytes > 0)) {
            return refuse(device, "fill", "NULL memory");
        }
    }
    return device->ops->fill(device, stream, spans, n, byte);
}

pl_status_t pl_device_digest(pl_device_t *device, pl_stream_t stream,
                             const pl_digest_job_t *jobs, int32_t n,
                             uint64_t *digests)
{
    if (!stream_is_valid(stream) || (n < 0) ||
        ((n > 0) && ((jobs == NULL) || (digests == NULL)))) {
        return refuse(device, "digest", "no such stream, or no jobs");
    }
    return device->ops->digest(device, stream, jobs, n, digests);
}

pl_status_t pl_device_gather(pl_device_t *device, pl_stream_t stream,
                             const pl_page_gather_t *gather)
{
    if (!stream_is_valid(stream) || (gather == NULL) || (gather->n_pages < 0) ||
        (gather->n_bases < 1) || (gather->bases == NULL) ||
        ((gather->n_pages > 0) &&
         ((gather->pages == NULL) || (gather->view == NULL)))) {
        return refuse(device, "gather", "no such stream, or no pages");
    }
    return device->ops->gather(device, stream, gather);
}

pl_status_t pl_device_check(pl_device_t *device)
{
    return device->ops->check == NULL ? PL_OK : device->ops->check(device);
}
