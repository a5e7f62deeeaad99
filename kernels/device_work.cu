#include "device_internal.cuh"

#include "nvtx.cuh"

namespace
{

constexpr int32_t PCIE_BLOCKS   = 8;   /* fill PCIe */
constexpr int32_t NVLINK_BLOCKS = 264; /* fill NVLink */

int32_t blocks_for(pl_cuda_reach_t reach)
{
    switch (reach) {
    case PL_CUDA_HOST:
        return PCIE_BLOCKS;
    case PL_CUDA_PEER:
        return NVLINK_BLOCKS;
    case PL_CUDA_NEAR:
        break;
    }
    return 0; /* all of the GPU */
}

/* ---- what a gather reads where ---- */

constexpr int N_LISTS   = 4;    /* of pages: prefix and chunk, twice */
constexpr int32_t PAGES = 4096; /* room at first */
constexpr size_t N_SETS = 256;  /* of bases: layers times stores */
constexpr int32_t BASES = PL_MAX_RANKS + 1; /* room for one */

/* Which of the arrays lie on this GPU, where others lie on peers. */
typedef struct lanes {
    uint64_t near[(PL_MAX_RANKS + 64) / 64];
} lanes_t;

/* A list that lies on the GPU, far pages first, each with its place in the
 * view; and how it was asked for. */
typedef struct pages {
    pl_page_t *asked;    /* [capacity] */
    int32_t *host, *gpu; /* [2 * capacity] pages, then places; host: pinned */
    lanes_t lanes;
    int32_t n, n_near, capacity;
    cudaEvent_t sent; /* host may be written again */
} pages_t;

typedef struct bases {
    int n;
    pl_cuda_reach_t reach;
    lanes_t lanes;
} bases_t;

} // namespace

struct pl_cuda_gathers {
    pages_t lists[N_LISTS];
    int last_list;               /* used */
    const uint8_t **host, **gpu; /* [N_SETS][BASES]; each is written once */
    bases_t sets[N_SETS];
    size_t n_sets, last_set;
};

namespace
{

typedef struct pl_cuda_gathers gathers_t;

pl_status_t send(pl_cuda_t *cuda, pl_stream_t stream, void *gpu,
                 const void *host, size_t bytes)
{
    return pl_cuda_tell(cuda,
                        cudaMemcpyAsync(gpu, host, bytes,
                                        cudaMemcpyHostToDevice,
                                        cuda->queues[stream].stream),
                        "sending a list to the GPU");
}

void free_pair(void *host, void *gpu)
{
    if (host != nullptr) {
        (void)cudaFreeHost(host);
    }
    (void)cudaFree(gpu);
}

/* As many bytes pinned and on the GPU. */
pl_status_t alloc_pair(const pl_cuda_t *cuda, size_t bytes, void **host_p,
                       void **gpu_p)
{
    void *host = nullptr, *gpu = nullptr;
    cudaError_t error = cudaHostAlloc(&host, bytes, cudaHostAllocPortable);

    if (error == cudaSuccess) {
        error = cudaMalloc(&gpu, bytes);
    }
    if (error != cudaSuccess) {
        free_pair(host, nullptr);
        return pl_cuda_tell(cuda, error, "memory for lists of pages");
    }
    *host_p = host;
    *gpu_p  = gpu;
    return PL_OK;
}

void free_list(pages_t *list)
{
    free_pair(list->host, list->gpu);
    free(list->asked);
    if (list->sent != nullptr) {
        (void)cudaEventDestroy(list->sent);
    }
    memset(list, 0, sizeof(*list));
}

void free_gathers(gathers_t *gathers)
{
    for (int i = 0; i < N_LISTS; i++) {
        free_list(&gathers->lists[i]);
    }
    free_pair((void *)gathers->host, (void *)gathers->gpu);
    free(gathers);
}

pl_status_t gathers_of(pl_cuda_t *cuda, pl_stream_t stream,
                       gathers_t **gathers_p)
{
    gathers_t *gathers = cuda->gathers[stream];
    pl_status_t status;

    if (gathers == nullptr) {
        gathers = (gathers_t *)calloc(1, sizeof(*gathers));
        if (gathers == nullptr) {
            return pl_cuda_no_memory(cuda, "gathers");
        }
        status = alloc_pair(cuda, N_SETS * BASES * sizeof(*gathers->host),
                            (void **)&gathers->host, (void **)&gathers->gpu);
        if (status != PL_OK) {
            free_gathers(gathers);
            return status;
        }
        cuda->gathers[stream] = gathers;
    }
    *gathers_p = gathers;
    return PL_OK;
}

/* Room for n pages: what the list held is gone.  Its memory may still be read
 * by what is queued, so that is waited for; twice the room each time. */
pl_status_t enlarge(pl_cuda_t *cuda, pl_stream_t stream, pages_t *list,
                    int32_t n)
{
    int32_t capacity = list->capacity > 0 ? list->capacity : PAGES;

    while (capacity < n) {
        capacity = capacity > INT32_MAX / 2 ? n : capacity * 2;
    }
    if (list->capacity > 0) {
        PL_TRY(pl_cuda_device_wait_stream(&cuda->device, stream));
    }
    free_list(list);
    list->asked = (pl_page_t *)malloc((size_t)capacity * sizeof(*list->asked));
    if (list->asked == nullptr) {
        return pl_cuda_no_memory(cuda, "a list of pages");
    }
    PL_TRY(alloc_pair(cuda, (size_t)capacity * 2 * sizeof(*list->host),
                      (void **)&list->host, (void **)&list->gpu));
    list->capacity = capacity;
    return pl_cuda_tell(
        cuda, cudaEventCreateWithFlags(&list->sent, cudaEventDisableTiming),
        "making an event");
}

bool is_near(const lanes_t *lanes, int lane)
{
    return ((lanes->near[lane / 64] >> (lane % 64)) & 1) != 0;
}

/* What is asked for, as the GPU takes it. */
void sort_pages(pages_t *list, int n_lanes)
{
    int32_t at    = 0;
    int32_t n_far = 0;

    for (int near = 0; near < 2; near++) {
        n_far = near == 1 ? at : 0;
        for (int32_t i = 0; i < list->n; i++) {
            const pl_page_t page = list->asked[i];

            if (is_near(&list->lanes, pl_page_owner(page, n_lanes)) ==
                (near == 1)) {
                list->host[at]           = page;
                list->host[list->n + at] = i;
                at++;
            }
        }
    }
    list->n_near = list->n - n_far;
}

/* The list goes to the GPU behind what reads the one that it replaces. */
pl_status_t replace(pl_cuda_t *cuda, pl_stream_t stream, pages_t *list,
                    const bases_t *bases, const pl_page_t *pages, int32_t n)
{
    list->n = 0; /* nothing, if this fails */
    if (n > list->capacity) {
        PL_TRY(enlarge(cuda, stream, list, n));
    } else {
        PL_TRY(pl_cuda_wait_event(cuda, list->sent, stream));
    }
    memcpy(list->asked, pages, (size_t)n * sizeof(*pages));
    list->lanes = bases->lanes;
    list->n     = n;
    sort_pages(list, bases->n);
    list->n = 0;
    PL_TRY(send(cuda, stream, list->gpu, list->host,
                (size_t)n * 2 * sizeof(*list->host)));
    PL_TRY(pl_cuda_tell(
        cuda, cudaEventRecord(list->sent, cuda->queues[stream].stream),
        "recording an event"));
    list->n = n;
    return PL_OK;
}

/* *list_p: the pages on the GPU, for these arrays; sent only if they are not
 * there. */
pl_status_t find_pages(pl_cuda_t *cuda, pl_stream_t stream, gathers_t *gathers,
                       const bases_t *bases, const pl_page_t *pages, int32_t n,
                       const pages_t **list_p)
{
    pages_t *list;

    for (int k = 0; k < N_LISTS; k++) {
        list = &gathers->lists[(gathers->last_list + k) % N_LISTS];
        if ((list->n == n) &&
            (memcmp(&list->lanes, &bases->lanes, sizeof(list->lanes)) == 0) &&
            (memcmp(list->asked, pages, (size_t)n * sizeof(*pages)) == 0)) {
            *list_p = list;
            return PL_OK;
        }
    }
    gathers->last_list = (gathers->last_list + 1) % N_LISTS;
    list               = &gathers->lists[gathers->last_list];
    PL_TRY(replace(cuda, stream, list, bases, pages, n));
    *list_p = list;
    return PL_OK;
}

pl_status_t add_bases(pl_cuda_t *cuda, pl_stream_t stream, gathers_t *gathers,
                      const uint8_t *const *bases, int n)
{
    pl_cuda_hint_t hint = {};
    bases_t set         = {n, PL_CUDA_NEAR, {}};
    const size_t bytes  = (size_t)n * sizeof(*bases);
    size_t at;

    for (int i = 0; i < n; i++) {
        pl_cuda_reach_t reach = PL_CUDA_NEAR;

        if (bases[i] == nullptr) { /* no page lies there */
            continue;
        }
        PL_TRY(pl_cuda_reach(cuda, bases[i], 1, &hint, &reach));
        if (reach == PL_CUDA_NEAR) {
            set.lanes.near[i / 64] |= UINT64_C(1) << (i % 64);
        }
        set.reach = reach > set.reach ? reach : set.reach;
    }
    if (set.reach != PL_CUDA_PEER) {
        set.lanes = {}; /* all alike */
    }
    if (gathers->n_sets == N_SETS) { /* begin again */
        PL_TRY(pl_cuda_device_wait_stream(&cuda->device, stream));
        gathers->n_sets = 0;
    }
    at = gathers->n_sets * BASES;
    memcpy((void *)(gathers->host + at), bases, bytes);
    PL_TRY(send(cuda, stream, (void *)(gathers->gpu + at),
                (void *)(gathers->host + at), bytes));
    gathers->last_set                = gathers->n_sets;
    gathers->sets[gathers->n_sets++] = set;
    return PL_OK;
}

/* last_set becomes that of the bases; layers take turns, so the next one is
 * likely. */
pl_status_t find_bases(pl_cuda_t *cuda, pl_stream_t stream, gathers_t *gathers,
                       const uint8_t *const *bases, int n)
{
    for (size_t k = 0; k < gathers->n_sets; k++) {
        const size_t i = (gathers->last_set + k) % gathers->n_sets;

        if ((gathers->sets[i].n == n) &&
            (memcmp((const void *)(gathers->host + i * BASES), bases,
                    (size_t)n * sizeof(*bases)) == 0)) {
            gathers->last_set = i;
            return PL_OK;
        }
    }
    return add_bases(cuda, stream, gathers, bases, n);
}

/* ---- digests ---- */

size_t jobs_bytes(int32_t n)
{
    return (size_t)n * (sizeof(pl_digest_job_t) + sizeof(uint64_t));
}

/* Whoever asked for digests has waited for them: nothing reads the memory. */
pl_status_t reserve_jobs(pl_cuda_t *cuda, int32_t n)
{
    void *memory = nullptr;

    if (n <= cuda->most_jobs) {
        return PL_OK;
    }
    n = n < INT32_MAX / 2 ? n * 2 : n;
    PL_TRY(pl_cuda_tell(
        cuda, cudaHostAlloc(&memory, jobs_bytes(n), cudaHostAllocMapped),
        "memory for digests"));
    free_pair(cuda->jobs, nullptr);
    cuda->jobs      = memory;
    cuda->most_jobs = n;
    return PL_OK;
}

pl_status_t refuse(const pl_cuda_t *cuda, const char *why)
{
    pl_log(cuda->device.log, PL_LOG_ERROR, "device cuda:%d: %s", cuda->gpu,
           why);
    return PL_ERR_ARGUMENT;
}

} // namespace

/* `late` asks for nothing here: the order of the stream is all that a copy
 * keeps; device guard is the one for lateness. */
pl_status_t pl_cuda_copy(pl_device_t *self, pl_stream_t stream,
                         const pl_copy_t *copies, int32_t n, bool late)
{
    pl_cuda_t *cuda       = (pl_cuda_t *)self;
    pl_cuda_reach_t reach = PL_CUDA_NEAR;
    const pl_nvtx_t range(pl_stream_name(stream), n);

    (void)late;
    PL_TRY(pl_cuda_device_enter(self));
    for (int32_t i = 0; i < n; i++) {
        if (copies[i].bytes > 0) {
            PL_TRY(pl_cuda_reach(cuda, copies[i].src, copies[i].bytes,
                                 &cuda->last_src, &reach));
            PL_TRY(pl_cuda_reach(cuda, copies[i].dst, copies[i].bytes,
                                 &cuda->last_dst, &reach));
        }
    }
    const pl_cuda_timed_t copy(self, stream, PL_WORK_COPY);
    return pl_cuda_device_launched(
        self, stream,
        pl_cuda_copy_ranges(copies, n, blocks_for(reach),
                            cuda->queues[stream].stream),
        "copying ranges");
}

pl_status_t pl_cuda_fill(pl_device_t *self, pl_stream_t stream,
                         const pl_span_t *spans, int32_t n, uint8_t byte)
{
    pl_cuda_t *cuda       = (pl_cuda_t *)self;
    pl_cuda_reach_t reach = PL_CUDA_NEAR;

    PL_TRY(pl_cuda_device_enter(self));
    for (int32_t i = 0; i < n; i++) {
        if (spans[i].bytes > 0) {
            PL_TRY(pl_cuda_reach(cuda, spans[i].mem, spans[i].bytes,
                                 &cuda->last_dst, &reach));
        }
    }
    return pl_cuda_device_launched(
        self, stream,
        pl_cuda_fill_ranges(spans, n, byte, cuda->queues[stream].stream),
        "filling memory");
}

pl_status_t pl_cuda_digest(pl_device_t *self, pl_stream_t stream,
                           const pl_digest_job_t *jobs, int32_t n,
                           uint64_t *digests)
{
    pl_cuda_t *cuda       = (pl_cuda_t *)self;
    pl_cuda_reach_t reach = PL_CUDA_NEAR;
    pl_digest_job_t *to;
    uint64_t *out;

    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(reserve_jobs(cuda, n));
    to  = (pl_digest_job_t *)cuda->jobs;
    out = (uint64_t *)(to + cuda->most_jobs);
    for (int32_t i = 0; i < n; i++) {
        if (jobs[i].rows > 0) {
            PL_TRY(
                pl_cuda_reach(cuda, jobs[i].page, 1, &cuda->last_src, &reach));
        }
    }
    memcpy(to, jobs, (size_t)n * sizeof(*jobs));
    PL_TRY(pl_cuda_device_launched(
        self, stream,
        pl_cuda_digest_jobs(to, n, out, cuda->queues[stream].stream),
        "hashing pages"));
    PL_TRY(pl_cuda_device_wait_stream(self, stream));
    memcpy(digests, out, (size_t)n * sizeof(*out));
    return PL_OK;
}

pl_status_t pl_cuda_gather(pl_device_t *self, pl_stream_t stream,
                           const pl_page_gather_t *gather)
{
    pl_cuda_t *cuda      = (pl_cuda_t *)self;
    pl_page_place_t from = {};
    pl_page_place_t to   = {};
    gathers_t *gathers   = nullptr;
    const pages_t *list  = nullptr;
    const bases_t *bases;
    const pl_nvtx_t range("gather pages", gather->n_pages);

    if (gather->n_pages == 0) {
        return PL_OK;
    }
    if ((gather->n_bases < 1) || (gather->n_bases > BASES)) {
        return refuse(cuda, "a gather from 0 or more than 128 arrays");
    }
    PL_TRY(pl_cuda_device_enter(self));
    PL_TRY(gathers_of(cuda, stream, &gathers));
    PL_TRY(find_bases(cuda, stream, gathers, gather->bases, gather->n_bases));
    bases = &gathers->sets[gathers->last_set];
    PL_TRY(find_pages(cuda, stream, gathers, bases, gather->pages,
                      gather->n_pages, &list));
    from.slots = list->gpu;
    from.bases =
        (const void *const *)(gathers->gpu + gathers->last_set * BASES);
    from.n_lanes = gather->n_bases;
    from.stride  = gather->stride;
    to.base      = gather->view;
    to.slots     = list->gpu + list->n;
    to.stride    = gather->stride;
    const pl_cuda_timed_t pages(self, stream, PL_WORK_PAGES);
    return pl_cuda_device_launched(
        self, stream,
        pl_cuda_gather_pages(&from, &to, list->n - list->n_near, list->n_near,
                             gather->stride, blocks_for(bases->reach),
                             cuda->queues[stream].stream),
        "gathering pages");
}

void pl_cuda_free_work(pl_cuda_t *cuda)
{
    for (int s = 0; s < PL_STREAMS; s++) {
        if (cuda->gathers[s] != nullptr) {
            free_gathers(cuda->gathers[s]);
        }
    }
    free_pair(cuda->jobs, nullptr);
}
