/* What ranks show each other, and what each has open of the others. */
#include <string.h>

#include "comm/peer_comm.h"

/* ---- when a communicator is opened ---- */

typedef struct hello {
    pl_share_t words, written, read;
    uint64_t has_events;
} hello_t;

static pl_status_t make_events(pl_peer_t *self, hello_t *hello)
{
    pl_device_t *device  = self->over.device;
    pl_peer_rank_t *mine = &self->ranks[self->over.comm.rank];

    if (device->ops->event_make == NULL) {
        return PL_OK;
    }
    PL_TRY(device->ops->event_make(device, &mine->written, &hello->written));
    PL_TRY(device->ops->event_make(device, &mine->read, &hello->read));
    hello->has_events = 1;
    return PL_OK;
}

static pl_status_t make_own(pl_peer_t *self, hello_t *hello)
{
    const pl_comm_t *comm = &self->over.comm;
    pl_device_t *device   = self->over.device;

    memset(hello, 0, sizeof(*hello));
    PL_TRY(pl_peer_words_make(&self->ranks[comm->rank].words, comm->log,
                              &hello->words));
    if (!pl_peer_prefills(self)) {
        return PL_OK;
    }
    if (device->ops->share == NULL) {
        pl_log(comm->log, PL_LOG_ERROR,
               "device %s cannot share memory with other ranks; use another "
               "--comm",
               device->ops->name);
        return PL_ERR_DEVICE;
    }
    return make_events(self, hello);
}

static pl_status_t open_rank(pl_peer_t *self, int rank, const hello_t *hello)
{
    pl_device_t *device  = self->over.device;
    pl_peer_rank_t *peer = &self->ranks[rank];

    if ((rank == self->over.comm.rank) || !pl_peer_prefills(self)) {
        return PL_OK;
    }
    PL_TRY(
        pl_peer_words_open(&peer->words, self->over.comm.log, &hello->words));
    if ((hello->has_events == 0) || (device->ops->event_open == NULL)) {
        return PL_OK;
    }
    PL_TRY(device->ops->event_open(device, &hello->written, &peer->written));
    return device->ops->event_open(device, &hello->read, &peer->read);
}

/* Each tells all.  A rank that has failed listens to the end: all are in. */
pl_status_t pl_peer_meet(pl_peer_t *self)
{
    pl_comm_t *base = self->over.base;
    pl_status_t status;
    hello_t mine;

    PL_TRY(pl_comm_agree_status(base, make_own(self, &mine)));
    status = PL_OK;
    for (int rank = 0; rank < base->n_ranks; rank++) {
        hello_t hello = mine;

        PL_TRY(pl_comm_broadcast(base, rank, &hello, sizeof(hello)));
        if (status == PL_OK) {
            status = open_rank(self, rank, &hello);
        }
    }
    return pl_comm_agree_status(base, status);
}

/* ---- regions ---- */

static void close_base(pl_peer_t *self, int rank, int region)
{
    pl_device_t *device = self->over.device;
    uint8_t **base      = &self->ranks[rank].bases[region];

    if ((*base != NULL) && (rank != self->over.comm.rank)) {
        device->ops->close_shared(device, *base);
    }
    *base = NULL;
}

pl_status_t pl_peer_finish_reading(pl_peer_t *self)
{
    pl_device_t *device = self->over.device;
    pl_fence_t fence;

    PL_TRY(pl_device_record(device, PL_STREAM_GATHER, &fence));
    return pl_device_wait(device, PL_STREAM_GATHER, fence);
}

pl_status_t pl_peer_hide(pl_peer_t *self, int region)
{
    PL_TRY(pl_peer_finish_reading(self));
    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        close_base(self, rank, region);
    }
    return PL_OK;
}

typedef struct region {
    pl_share_t share;
    uint64_t failed, is_empty;
} region_t;

static pl_status_t open_region(pl_peer_t *self, int region, int rank,
                               const region_t *theirs)
{
    pl_device_t *device = self->over.device;
    void *base          = NULL;

    if (theirs->is_empty != 0) {
        return PL_OK;
    }
    PL_TRY(device->ops->open_shared(device, &theirs->share, &base));
    self->ranks[rank].bases[region] = base;
    return PL_OK;
}

static pl_status_t open_all(pl_peer_t *self, int region, const region_t *all)
{
    int n_prefill = self->over.comm.n_prefill;

    for (int rank = 0; rank < n_prefill; rank++) {
        if (all[rank].failed != 0) {
            return PL_ERR_PEER;
        }
    }
    for (int rank = 0; rank < n_prefill; rank++) {
        if (rank != self->over.comm.rank) {
            PL_TRY(open_region(self, region, rank, &all[rank]));
        }
    }
    return PL_OK;
}

/* Prefill-collective; as pl_comm_agree_status. */
static pl_status_t agree_status(pl_peer_t *self, pl_status_t status)
{
    uint8_t failed = status != PL_OK;
    uint8_t all[PL_MAX_RANKS];

    PL_TRY(pl_over_exchange(&self->over, &failed, 1, all));
    for (int rank = 0; (status == PL_OK) && (rank < self->over.comm.n_prefill);
         rank++) {
        status = all[rank] != 0 ? PL_ERR_PEER : PL_OK;
    }
    return status;
}

/* Ranks exchange this twice, so that all come back with the same: some may have
 * nothing to share, others may not be able to open it. */
pl_status_t pl_peer_show(pl_peer_t *self, int region, void *base)
{
    pl_device_t *device = self->over.device;
    region_t mine       = {.is_empty = base == NULL};
    region_t all[PL_MAX_RANKS];
    pl_status_t status = PL_OK;
    pl_status_t opened;

    PL_TRY(pl_peer_hide(self, region));
    if (base != NULL) {
        status = device->ops->share(device, base, &mine.share);
        status = status == PL_ERR_ARGUMENT ? PL_ERR_DEVICE : status;
    }
    mine.failed = status != PL_OK;
    PL_TRY(pl_over_exchange(&self->over, &mine, sizeof(mine), all));
    opened = open_all(self, region, all);
    status = agree_status(self, status != PL_OK ? status : opened);
    if (status == PL_OK) {
        self->ranks[self->over.comm.rank].bases[region] = base;
    }
    return status;
}

/* ---- close ---- */

static void close_events(pl_peer_t *self, int rank)
{
    pl_device_t *device  = self->over.device;
    pl_peer_rank_t *peer = &self->ranks[rank];

    if (device->ops->event_close != NULL) {
        device->ops->event_close(device, peer->written);
        device->ops->event_close(device, peer->read);
    }
    peer->written = NULL;
    peer->read    = NULL;
}

static void close_opened(pl_peer_t *self)
{
    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        for (int region = 0; region < PL_COMM_REGIONS; region++) {
            close_base(self, rank, region);
        }
        if (rank != self->over.comm.rank) {
            close_events(self, rank);
        }
    }
}

/* A device's memory and events must be closed by those that opened them before
 * their owner lets them go (CUDA asks for that; memory on a CPU does not). */
void pl_peer_part(pl_peer_t *self, bool reads)
{
    pl_peer_rank_t *mine = &self->ranks[self->over.comm.rank];

    if (!reads) {
        close_opened(self);
    }
    if (mine->words.block != NULL) {
        pl_peer_words_end(&mine->words, PL_PEER_LEFT);
    }
    if (!reads && (mine->written != NULL)) {
        if (self->broken == PL_OK) {
            pl_peer_wait_to_part(self);
        }
        close_events(self, self->over.comm.rank);
    }
    for (int rank = 0; rank < self->over.comm.n_ranks; rank++) {
        pl_peer_words_close(&self->ranks[rank].words);
    }
}
