/* Pages of all ranks by NCCL: own ones are packed to their place in the view,
 * then each rank sends them from there and receives those of its peers, as many
 * as there are.  All is queued on the device's stream of gathers. */
#include "nccl.cuh"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <new>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device.cuh"
#include "kernels.h"
#include "nvtx.cuh"
#include "profile.cuh"

static_assert(sizeof(ncclUniqueId) == PL_NCCL_ID_BYTES, "an id of NCCL");

namespace
{

/* ---- the library ---- */

struct api_t {
    decltype(&ncclGetUniqueId) get_unique_id;
    decltype(&ncclCommInitRankConfig) init_rank;
    decltype(&ncclCommGetAsyncError) get_async_error;
    decltype(&ncclCommFinalize) finalize;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) receive;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclGetLastError) last_error;
    bool is_whole;
    char why[256]; /* if it is not */
};

template <typename function_t>
void find(void *file, const char *name, function_t *function_p, api_t *api)
{
    *function_p = (function_t)dlsym(file, name);
    if ((*function_p == nullptr) && api->is_whole) {
        api->is_whole = false;
        (void)snprintf(api->why, sizeof(api->why),
                       "libnccl.so.2 has no %s; install a newer one", name);
    }
}

api_t load()
{
    api_t api  = {};
    void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

    if (file == nullptr) {
        const char *why = dlerror();

        (void)snprintf(api.why, sizeof(api.why),
                       "libnccl.so.2 cannot be opened: %.160s; install it",
                       why != nullptr ? why : "no reason given");
        return api;
    }
    api.is_whole = true;
    find(file, "ncclGetUniqueId", &api.get_unique_id, &api);
    find(file, "ncclCommInitRankConfig", &api.init_rank, &api);
    find(file, "ncclCommGetAsyncError", &api.get_async_error, &api);
    find(file, "ncclCommFinalize", &api.finalize, &api);
    find(file, "ncclCommDestroy", &api.destroy, &api);
    find(file, "ncclCommAbort", &api.abort, &api);
    find(file, "ncclGroupStart", &api.group_start, &api);
    find(file, "ncclGroupEnd", &api.group_end, &api);
    find(file, "ncclSend", &api.send, &api);
    find(file, "ncclRecv", &api.receive, &api);
    find(file, "ncclAllGather", &api.all_gather, &api);
    find(file, "ncclGetErrorString", &api.error_string, &api);
    find(file, "ncclGetLastError", &api.last_error, &api);
    return api;
}

const api_t &the_api()
{
    static const api_t api = load();

    return api;
}

pl_status_t need_library(const pl_log_t *log)
{
    if (the_api().is_whole) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR, "nccl: %s or use --comm peer", the_api().why);
    return PL_ERR_DEVICE;
}

/* ---- waiting, with an end ---- */

double now_s()
{
    timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A launch takes microseconds, so the first are not slept through. */
void pause(double waited_s)
{
    const timespec nap = {0, 50000};

    if (waited_s < 200e-6) {
        (void)sched_yield();
    } else {
        (void)nanosleep(&nap, nullptr);
    }
}

/* Page lists on the device.  The layers of one prefill have the same, so a few
 * are kept and found again. */
constexpr int LISTS = 8;

struct list_t {
    int32_t *slots;     /* pinned */
    int32_t *on_device; /* the same, as far as the stream is concerned */
    int32_t n, capacity;
    cudaEvent_t is_up; /* `slots` has been read; NULL: no memory yet */
};

} // namespace

struct pl_nccl {
    pl_device_t *device;
    cudaStream_t stream;
    ncclComm_t comm; /* NULL: aborted */
    int rank, n;
    double timeout_s;
    list_t lists[LISTS];
    int next_list;
};

namespace
{

pl_status_t told(const pl_nccl_t *nccl, ncclResult_t result, const char *what)
{
    const api_t &api    = the_api();
    const char *details = api.last_error(nccl->comm);

    pl_log(nccl->device->log, PL_LOG_ERROR,
           "rank %d: nccl: %s: %s%s%.200s; NCCL_DEBUG=WARN says more, --comm "
           "peer does without it",
           nccl->rank, what, api.error_string(result),
           (details != nullptr) && (details[0] != '\0') ? ": " : "",
           details != nullptr ? details : "");
    return result == ncclUnhandledCudaError ? PL_ERR_DEVICE : PL_ERR_COMM;
}

bool is_good(ncclResult_t result)
{
    return (result == ncclSuccess) || (result == ncclInProgress);
}

/* What NCCL says of the communicator: an error of the call counts as one. */
ncclResult_t state_of(const pl_nccl_t *nccl)
{
    ncclResult_t state        = ncclSuccess;
    const ncclResult_t result = the_api().get_async_error(nccl->comm, &state);

    return result != ncclSuccess ? result : state;
}

/* Until the call that returned `result` has been done: from then on its work is
 * on the stream, or failed. */
pl_status_t finish(const pl_nccl_t *nccl, ncclResult_t result, const char *what)
{
    const double begin = now_s();
    double waited_s    = 0;

    if (result == ncclInProgress) {
        result = state_of(nccl);
    }
    while (result == ncclInProgress) {
        if (waited_s > nccl->timeout_s) {
            pl_log(nccl->device->log, PL_LOG_ERROR,
                   "rank %d: nccl: %s: waited %.6g s for the other %d ranks",
                   nccl->rank, what, nccl->timeout_s, nccl->n - 1);
            return PL_ERR_COMM;
        }
        pause(waited_s);
        waited_s = now_s() - begin;
        result   = state_of(nccl);
    }
    return result == ncclSuccess ? PL_OK : told(nccl, result, what);
}

pl_status_t cuda_told(const pl_nccl_t *nccl, cudaError_t error,
                      const char *what)
{
    return pl_cuda_told(nccl->device->log, (int)error, what);
}

/* ---- page lists ---- */

void free_list(list_t *list, cudaStream_t stream)
{
    if (list->on_device != nullptr) {
        (void)cudaFreeAsync(list->on_device, stream);
    }
    if (list->slots != nullptr) {
        (void)cudaFreeHost(list->slots);
    }
    list->on_device = nullptr;
    list->slots     = nullptr;
    list->n         = 0;
    list->capacity  = 0;
}

/* Until the host may write to list->slots again. */
pl_status_t wait_for_list(const pl_nccl_t *nccl, const list_t *list)
{
    const double begin = now_s();
    cudaError_t error  = cudaEventQuery(list->is_up);

    while (error == cudaErrorNotReady) {
        const double waited_s  = now_s() - begin;
        const ncclResult_t now = state_of(nccl);

        if (!is_good(now)) {
            return told(nccl, now, "gather");
        }
        if (waited_s > nccl->timeout_s) {
            pl_log(nccl->device->log, PL_LOG_ERROR,
                   "rank %d: nccl: gather: waited %.6g s for earlier gathers "
                   "to end on the device",
                   nccl->rank, nccl->timeout_s);
            return PL_ERR_COMM;
        }
        pause(waited_s);
        error = cudaEventQuery(list->is_up);
    }
    (void)cudaGetLastError(); /* "not ready" is no error of the next launch */
    return cuda_told(nccl, error, "nccl: waiting for a list of pages");
}

pl_status_t grow_list(const pl_nccl_t *nccl, list_t *list, int32_t n)
{
    int32_t capacity = 4096;
    size_t bytes;

    if (n <= list->capacity) {
        return PL_OK;
    }
    while (capacity < n) {
        capacity = capacity <= INT32_MAX / 2 ? 2 * capacity : n;
    }
    bytes = (size_t)capacity * sizeof(int32_t);
    free_list(list, nccl->stream);
    PL_TRY(cuda_told(
        nccl, cudaHostAlloc((void **)&list->slots, bytes, cudaHostAllocDefault),
        "nccl: memory for lists of pages"));
    PL_TRY(cuda_told(
        nccl, cudaMallocAsync((void **)&list->on_device, bytes, nccl->stream),
        "nccl: memory for lists of pages"));
    list->capacity = capacity;
    return PL_OK;
}

bool is_list(const list_t *list, const pl_nccl_gather_t *gather, int32_t n,
             int n_lanes)
{
    if (list->n != n) {
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        if (list->slots[i] != pl_page_slot(gather->pages[i], n_lanes)) {
            return false;
        }
    }
    return true;
}

/* Slots of the own pages on the device, as of what is queued from now on. */
pl_status_t find_list(pl_nccl_t *nccl, const pl_nccl_gather_t *gather,
                      const int32_t **slots_p)
{
    const int32_t n = gather->counts[nccl->rank];
    list_t *list;

    for (int i = 0; i < LISTS; i++) {
        if (is_list(&nccl->lists[i], gather, n, nccl->n)) {
            *slots_p = nccl->lists[i].on_device;
            return PL_OK;
        }
    }
    list            = &nccl->lists[nccl->next_list];
    nccl->next_list = (nccl->next_list + 1) % LISTS;
    list->n         = 0; /* what it held is going, also if this fails */
    PL_TRY(wait_for_list(nccl, list));
    PL_TRY(grow_list(nccl, list, n));
    for (int32_t i = 0; i < n; i++) {
        list->slots[i] = pl_page_slot(gather->pages[i], nccl->n);
    }
    PL_TRY(cuda_told(nccl,
                     cudaMemcpyAsync(list->on_device, list->slots,
                                     (size_t)n * sizeof(int32_t),
                                     cudaMemcpyHostToDevice, nccl->stream),
                     "nccl: a list of pages to the device"));
    PL_TRY(cuda_told(nccl, cudaEventRecord(list->is_up, nccl->stream),
                     "nccl: marking a list of pages"));
    list->n  = n;
    *slots_p = list->on_device;
    return PL_OK;
}

/* ---- gather ---- */

pl_status_t pack(pl_nccl_t *nccl, const pl_nccl_gather_t *gather)
{
    const int32_t n    = gather->counts[nccl->rank];
    pl_page_place_t to = {}, from = {};
    pl_status_t launched;

    if (n == 0) {
        return PL_OK;
    }
    from.base   = gather->store;
    from.stride = gather->stride;
    to.base = gather->view + (size_t)gather->first[nccl->rank] * gather->stride;
    to.stride = gather->stride;
    PL_TRY(find_list(nccl, gather, &from.slots));
    launched =
        pl_cuda_copy_pages(&from, &to, n, gather->stride, 0, nccl->stream);
    return pl_cuda_device_launched(nccl->device, PL_STREAM_GATHER, launched,
                                   "nccl: packing pages");
}

/* Each rank begins with its neighbour, so that not all send to the same one at
 * once.  Who has no pages sends nothing: all know that. */
ncclResult_t exchange(pl_nccl_t *nccl, const pl_nccl_gather_t *gather)
{
    const api_t &api      = the_api();
    const size_t stride   = gather->stride;
    const int32_t *counts = gather->counts, *first = gather->first;
    const int me        = nccl->rank;
    ncclResult_t result = ncclSuccess;

    for (int d = 1; (d < nccl->n) && is_good(result); d++) {
        const int to   = (me + d) % nccl->n;
        const int from = (me + nccl->n - d) % nccl->n;

        if (counts[me] > 0) {
            result = api.send(gather->view + (size_t)first[me] * stride,
                              (size_t)counts[me] * stride, ncclUint8, to,
                              nccl->comm, nccl->stream);
        }
        if ((counts[from] > 0) && is_good(result)) {
            result = api.receive(gather->view + (size_t)first[from] * stride,
                                 (size_t)counts[from] * stride, ncclUint8, from,
                                 nccl->comm, nccl->stream);
        }
    }
    return result;
}

bool is_alone(const pl_nccl_t *nccl, const pl_nccl_gather_t *gather)
{
    for (int rank = 0; rank < nccl->n; rank++) {
        if (gather->counts[rank] > 0) {
            return nccl->n == 1;
        }
    }
    return true;
}

pl_status_t nccl_gather(pl_nccl_t *nccl, const pl_nccl_gather_t *gather)
{
    const api_t &api = the_api();
    pl_nvtx_t range("nccl gather");
    ncclResult_t result, ended;

    if (nccl->comm == nullptr) {
        return PL_ERR_COMM;
    }
    if ((gather->stride % 16 != 0) || ((uintptr_t)gather->view % 16 != 0) ||
        ((uintptr_t)gather->store % 16 != 0)) {
        pl_log(nccl->device->log, PL_LOG_ERROR,
               "rank %d: nccl: pages of %zu bytes; need a multiple of 16, and "
               "memory aligned to that",
               nccl->rank, gather->stride);
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(pl_cuda_device_enter(nccl->device));
    const pl_cuda_timed_t timed(nccl->device, PL_STREAM_GATHER, PL_WORK_PAGES);
    PL_TRY(pack(nccl, gather));
    if (is_alone(nccl, gather)) {
        return PL_OK;
    }
    result = api.group_start();
    if (!is_good(result)) {
        return told(nccl, result, "gather");
    }
    result = exchange(nccl, gather);
    ended  = api.group_end(); /* also of a group that failed */
    return finish(nccl, is_good(result) ? ended : result, "gather");
}

pl_status_t nccl_all_gather(pl_nccl_t *nccl, const void *mine, void *all,
                            size_t bytes)
{
    if (nccl->comm == nullptr) {
        return PL_ERR_COMM;
    }
    PL_TRY(pl_cuda_device_enter(nccl->device));
    return finish(nccl,
                  the_api().all_gather(mine, all, bytes, ncclUint8, nccl->comm,
                                       nccl->stream),
                  "all-gather");
}

/* ---- open, close ---- */

pl_status_t nccl_make_id(const pl_log_t *log, uint8_t id[PL_NCCL_ID_BYTES])
{
    ncclUniqueId unique;
    ncclResult_t result;

    PL_TRY(need_library(log));
    result = the_api().get_unique_id(&unique);
    if (result != ncclSuccess) {
        pl_log(log, PL_LOG_ERROR,
               "nccl: no id for a communicator: %s; NCCL_DEBUG=WARN says more, "
               "--comm peer does without it",
               the_api().error_string(result));
        return PL_ERR_COMM;
    }
    memcpy(id, &unique, PL_NCCL_ID_BYTES);
    return PL_OK;
}

void nccl_abort(pl_nccl_t *nccl)
{
    const ncclComm_t comm = nccl->comm;

    nccl->comm = nullptr;
    if ((comm != nullptr) && (pl_cuda_device_enter(nccl->device) == PL_OK)) {
        (void)the_api().abort(comm);
    }
}

/* All ranks come here, so that the others' work can end; those that do not are
 * not waited for longer than for anything else. */
void leave(pl_nccl_t *nccl)
{
    const pl_status_t status =
        finish(nccl, the_api().finalize(nccl->comm), "close");

    if (status == PL_OK) {
        (void)the_api().destroy(nccl->comm);
        nccl->comm = nullptr;
    } else {
        nccl_abort(nccl);
    }
}

void nccl_close(pl_nccl_t *nccl)
{
    if (nccl == nullptr) {
        return;
    }
    if (pl_cuda_device_enter(nccl->device) == PL_OK) {
        if (nccl->comm != nullptr) {
            leave(nccl);
        }
        for (list_t &list : nccl->lists) {
            free_list(&list, nccl->stream);
            if (list.is_up != nullptr) {
                (void)cudaEventDestroy(list.is_up);
            }
        }
    }
    delete nccl;
}

pl_status_t make_events(pl_nccl_t *nccl)
{
    for (list_t &list : nccl->lists) {
        PL_TRY(cuda_told(
            nccl, cudaEventCreateWithFlags(&list.is_up, cudaEventDisableTiming),
            "nccl: making an event"));
    }
    return PL_OK;
}

pl_status_t join(pl_nccl_t *nccl, const uint8_t *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    pl_status_t status;

    memcpy(&unique, id, sizeof(unique));
    config.blocking = 0;
    PL_TRY(make_events(nccl));
    status = finish(
        nccl,
        the_api().init_rank(&nccl->comm, nccl->n, unique, nccl->rank, &config),
        "opening a communicator");
    if (status != PL_OK) {
        nccl_abort(nccl);
    }
    return status;
}

pl_status_t nccl_open(pl_device_t *device, const uint8_t *id, int rank, int n,
                      double timeout_s, pl_nccl_t **nccl_p)
{
    pl_nccl_t *nccl;
    pl_status_t status;

    PL_TRY(need_library(device->log));
    PL_TRY(pl_cuda_device_enter(device));
    nccl = new (std::nothrow) pl_nccl_t{};
    if (nccl == nullptr) {
        pl_log(device->log, PL_LOG_ERROR,
               "rank %d: nccl: no memory for a communicator", rank);
        return PL_ERR_MEMORY;
    }
    nccl->device    = device;
    nccl->stream    = pl_cuda_device_stream(device, PL_STREAM_GATHER);
    nccl->rank      = rank;
    nccl->n         = n;
    nccl->timeout_s = timeout_s;
    status          = join(nccl, id);
    if (status != PL_OK) {
        nccl_close(nccl);
        return status;
    }
    *nccl_p = nccl;
    return PL_OK;
}

pl_status_t nccl_look(pl_nccl_t *nccl)
{
    ncclResult_t state;

    if (nccl->comm == nullptr) {
        return PL_ERR_COMM;
    }
    state = state_of(nccl);
    if (is_good(state)) {
        return PL_OK;
    }
    (void)told(nccl, state, "while the device worked");
    return PL_ERR_COMM;
}

void nccl_gpu_id(const pl_device_t *device, uint8_t id[16])
{
    cudaDeviceProp properties;

    memset(id, 0, 16);
    if (cudaGetDeviceProperties(&properties, pl_cuda_device_gpu(device)) ==
        cudaSuccess) {
        memcpy(id, &properties.uuid, 16);
    }
}

} // namespace

const pl_nccl_ops_t PL_CUDA_NCCL = {nccl_make_id, nccl_open,      nccl_gather,
                                    nccl_look,    nccl_abort,     nccl_close,
                                    nccl_gpu_id,  nccl_all_gather};
