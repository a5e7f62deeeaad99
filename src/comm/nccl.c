/* Pages in device memory by NCCL; all else by the communicator below. */
#include "comm/nccl_comm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/over.h"
#include "device/cuda.h"

enum { GPU_ID_BYTES = 16 };

typedef struct nccl_comm {
    pl_over_t over; /* first member */
    const pl_nccl_ops_t *ops;
    pl_nccl_t *nccl;          /* NULL: not a prefill rank */
    pl_device_watch_t before; /* the device's, until ours came */
    bool is_broken;           /* NCCL's part is aborted */
    bool reads;               /* gathers were queued since the last agree */
    uint64_t n_gathers;
    int32_t *counts;         /* [n_prefill] of the last gather, by owner */
    int32_t *first;          /* [n_prefill + 1] */
    PL_ARRAY(pl_page_t) own; /* its own pages, in view order */
} nccl_comm_t;

static void nccl_break(nccl_comm_t *self)
{
    if ((self->nccl != NULL) && !self->is_broken) {
        self->ops->abort(self->nccl);
    }
    self->is_broken = true;
}

/* ---- while the host waits for the device ---- */

static void say_overdue(const nccl_comm_t *self, double waited_s)
{
    const pl_comm_t *comm           = &self->over.comm;
    bool from[PL_MAX_RANKS]         = {false};
    char text[PL_MAX_RANKS * 5 + 1] = "";

    for (int rank = 0; rank < comm->n_prefill; rank++) {
        from[rank] = (rank != comm->rank) && (self->counts[rank] > 0);
    }
    pl_comm_rank_list(from, comm->n_prefill, text, sizeof(text));
    pl_log(comm->log, PL_LOG_ERROR,
           "rank %d: waited %.6g s for the device, whose last work by NCCL is "
           "gather %" PRIu64 ", of pages of ranks %s",
           comm->rank, waited_s, self->n_gathers,
           text[0] != '\0' ? text : "none");
}

static pl_status_t nccl_look(void *context, double waited_s)
{
    nccl_comm_t *self = context;
    pl_status_t status;

    if (self->is_broken) {
        return PL_ERR_COMM;
    }
    status = self->ops->look(self->nccl);
    if ((status == PL_OK) && (waited_s > self->over.comm.timeout_s)) {
        say_overdue(self, waited_s);
        status = PL_ERR_COMM;
    }
    if (status != PL_OK) {
        nccl_break(self);
    }
    return status;
}

/* ---- operations ---- */

static pl_status_t nccl_expose(pl_comm_t *comm, int region, pl_memory_t kind,
                               void *base, size_t bytes)
{
    nccl_comm_t *self = (nccl_comm_t *)comm;

    if (self->is_broken) {
        return PL_ERR_COMM;
    }
    pl_over_tell(&self->over);
    return pl_over_expose_host(&self->over, region, kind, base, bytes);
}

static pl_status_t list_own(nccl_comm_t *self, const pl_gather_t *gather)
{
    int n_lanes = self->over.comm.n_prefill;
    int me      = self->over.comm.rank;

    if (PL_ARRAY_RESERVE(&self->own, (size_t)self->counts[me]) != PL_OK) {
        pl_log(self->over.comm.log, PL_LOG_ERROR,
               "rank %d: gather: no memory for a list of %" PRId32 " pages", me,
               self->counts[me]);
        return PL_ERR_MEMORY;
    }
    self->own.n = 0;
    for (int32_t i = 0; i < gather->n_pages; i++) {
        if (pl_page_owner(gather->pages[i], n_lanes) == me) {
            self->own.items[self->own.n++] = gather->pages[i];
        }
    }
    return PL_OK;
}

static pl_status_t gather_part(nccl_comm_t *self, const pl_gather_part_t *part)
{
    const pl_comm_region_t *region = &self->over.comm.regions[part->region];
    const pl_nccl_gather_t pages   = {.pages  = self->own.items,
                                      .store  = pl_comm_store(region, part),
                                      .first  = self->first,
                                      .counts = self->counts,
                                      .stride = part->stride,
                                      .view   = part->view};
    pl_status_t status;

    self->reads = true;
    self->n_gathers++;
    status = self->ops->gather(self->nccl, &pages);
    if (status != PL_OK) {
        nccl_break(self);
    }
    return status;
}

static pl_status_t nccl_gather(pl_comm_t *comm, const pl_gather_t *gather)
{
    nccl_comm_t *self = (nccl_comm_t *)comm;

    if (self->is_broken) {
        return PL_ERR_COMM;
    }
    pl_over_tell(&self->over);
    pl_comm_owner_major(gather, comm->n_prefill, self->counts, self->first);
    PL_TRY(list_own(self, gather));
    for (int p = 0; (p < gather->n_parts) && (gather->n_pages > 0); p++) {
        if (!pl_over_is_host(&self->over, &gather->parts[p])) {
            PL_TRY(gather_part(self, &gather->parts[p]));
        }
    }
    return pl_over_gather_host(&self->over, gather);
}

/* Only the rank itself reads its memory: it packs on its stream of gathers.  So
 * what is queued on the other streams from now on begins after that. */
static pl_status_t nccl_agree(pl_comm_t *comm, uint64_t *words, int32_t n)
{
    nccl_comm_t *self   = (nccl_comm_t *)comm;
    pl_device_t *device = self->over.device;
    pl_fence_t fence;

    PL_TRY(pl_over_agree(comm, words, n));
    if (!self->reads) {
        return PL_OK;
    }
    self->reads = false;
    PL_TRY(pl_device_record(device, PL_STREAM_GATHER, &fence));
    for (int i = 0; i < PL_STREAMS; i++) {
        if (i != PL_STREAM_GATHER) {
            PL_TRY(pl_device_after(device, (pl_stream_t)i, PL_STREAM_GATHER,
                                   fence));
        }
    }
    return PL_OK;
}

static void nccl_fail(pl_comm_t *comm, pl_status_t status)
{
    nccl_break((nccl_comm_t *)comm);
    pl_over_fail(comm, status);
}

static void nccl_close(pl_comm_t *comm)
{
    nccl_comm_t *self = (nccl_comm_t *)comm;

    if (self->nccl != NULL) {
        self->ops->close(self->nccl);
    }
    self->over.device->watch = self->before;
    pl_over_close(&self->over);
    PL_ARRAY_FREE(&self->own);
    free(self->counts);
    free(self->first);
    free(self);
}

static const pl_comm_ops_t nccl_ops = {
    .name      = "nccl",
    .agree     = nccl_agree,
    .sum       = pl_over_sum,
    .broadcast = pl_over_broadcast,
    .barrier   = pl_over_barrier,
    .expose    = nccl_expose,
    .gather    = nccl_gather,
    .send      = pl_over_send,
    .receive   = pl_over_receive,
    .wait      = pl_over_wait,
    .fail      = nccl_fail,
    .close     = nccl_close,
};

pl_status_t pl_comm_nccl_all_gather(pl_comm_t *comm, const void *mine,
                                    void *all, size_t bytes)
{
    nccl_comm_t *self = (nccl_comm_t *)comm;
    pl_status_t status;

    if (comm->ops != &nccl_ops) {
        return PL_ERR_ARGUMENT;
    }
    if (self->is_broken || (self->nccl == NULL)) {
        return PL_ERR_COMM;
    }
    status = self->ops->all_gather(self->nccl, mine, all, bytes);
    if (status != PL_OK) {
        nccl_break(self);
    }
    return status;
}

/* ---- open ---- */

static bool is_known(const uint8_t *id)
{
    static const uint8_t unknown[GPU_ID_BYTES] = {0};

    return memcmp(id, unknown, GPU_ID_BYTES) != 0;
}

/* NCCL needs a GPU for each rank.  All prefill ranks see the same; the first of
 * two on one GPU says so. */
static pl_status_t check_gpus(const nccl_comm_t *self, const uint8_t *ids)
{
    const pl_comm_t *comm = &self->over.comm;

    for (int a = 0; a < comm->n_prefill; a++) {
        const uint8_t *id = ids + a * GPU_ID_BYTES;

        for (int b = a + 1; (b < comm->n_prefill) && is_known(id); b++) {
            if (memcmp(id, ids + b * GPU_ID_BYTES, GPU_ID_BYTES) != 0) {
                continue;
            }
            if (comm->rank == a) {
                pl_log(comm->log, PL_LOG_ERROR,
                       "nccl: ranks %d and %d have the same GPU, and NCCL "
                       "needs one for each; use --comm peer, or no more "
                       "prefill ranks than GPUs",
                       a, b);
            }
            return PL_ERR_DEVICE;
        }
    }
    return PL_OK;
}

static pl_status_t meet_gpus(nccl_comm_t *self)
{
    uint8_t ids[PL_MAX_RANKS * GPU_ID_BYTES] = {0};
    uint8_t mine[GPU_ID_BYTES]               = {0};

    self->ops->gpu_id(self->over.device, mine);
    PL_TRY(pl_over_exchange(&self->over, mine, sizeof(mine), ids));
    return check_gpus(self, ids);
}

/* Collective over the base.  All ranks agree on the outcome. */
static pl_status_t join(nccl_comm_t *self)
{
    pl_comm_t *base              = self->over.base;
    bool prefills                = base->rank < base->n_prefill;
    uint8_t id[PL_NCCL_ID_BYTES] = {0};
    pl_status_t status           = prefills ? meet_gpus(self) : PL_OK;

    if ((status == PL_OK) && (base->rank == 0)) {
        status = self->ops->make_id(base->log, id);
    }
    PL_TRY(pl_comm_agree_status(base, status));
    PL_TRY(pl_comm_broadcast(base, 0, id, sizeof(id)));
    if (prefills) {
        status = self->ops->open(self->over.device, id, base->rank,
                                 base->n_prefill, base->timeout_s, &self->nccl);
    }
    return pl_comm_agree_status(base, status);
}

/* NULL: no memory, and one line. */
static nccl_comm_t *new_comm(pl_comm_t *base, pl_device_t *device,
                             const pl_nccl_ops_t *ops)
{
    nccl_comm_t *self = calloc(1, sizeof(*self));
    size_t n          = (size_t)base->n_prefill;

    if (self != NULL) {
        pl_over_open(&self->over, &nccl_ops, base, device);
        self->over.comm.queues = true;
        self->ops              = ops;
        self->before           = device->watch;
        self->counts           = calloc(n, sizeof(*self->counts));
        self->first            = calloc(n + 1, sizeof(*self->first));
    }
    if ((self != NULL) && ((self->counts == NULL) || (self->first == NULL))) {
        nccl_close(&self->over.comm);
        self = NULL;
    }
    if (self == NULL) {
        pl_log(base->log, PL_LOG_ERROR,
               "rank %d: nccl: no memory for a communicator", base->rank);
    }
    return self;
}

/* `ops` NULL: this rank cannot, and `why` says so. */
static pl_status_t open_with(pl_comm_t *base, pl_device_t *device,
                             const pl_nccl_ops_t *ops, const char *why,
                             pl_comm_t **comm_p)
{
    nccl_comm_t *self  = NULL;
    pl_status_t status = PL_ERR_DEVICE;

    if (ops == NULL) {
        pl_log(base->log, PL_LOG_ERROR, "rank %d: nccl: %s; use another --comm",
               base->rank, why);
    } else {
        self   = new_comm(base, device, ops);
        status = self != NULL ? PL_OK : PL_ERR_MEMORY;
    }
    status = pl_comm_agree_status(base, status);
    if (status == PL_OK) {
        status = join(self);
    }
    if (status != PL_OK) {
        if (self != NULL) {
            nccl_break(self);
            nccl_close(&self->over.comm);
        }
        return status;
    }
    if (self->nccl != NULL) {
        device->watch = (pl_device_watch_t){nccl_look, self};
    }
    *comm_p = &self->over.comm;
    return PL_OK;
}

pl_status_t pl_comm_open_nccl_with(pl_comm_t *base, pl_device_t *device,
                                   const pl_nccl_ops_t *nccl,
                                   pl_comm_t **comm_p)
{
    return open_with(base, device, nccl, "no table of NCCL", comm_p);
}

pl_status_t pl_comm_open_nccl(pl_comm_t *base, pl_device_t *device,
                              pl_comm_t **comm_p)
{
    char why[256]                  = "";
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));

    return open_with(base, device, module != NULL ? module->nccl : NULL, why,
                     comm_p);
}
