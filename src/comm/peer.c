/* Ranks that read each other's pages; all else by the communicator below. */
#include "comm/peer.h"

#include <stdlib.h>
#include <string.h>

#include "comm/peer_comm.h"

/* ---- the end ---- */

static pl_peer_state_t state_of(pl_status_t status)
{
    return status == PL_ERR_COMM       ? PL_PEER_GAVE_UP
           : status == PL_ERR_DISAGREE ? PL_PEER_DISAGREED
                                       : PL_PEER_FAILED;
}

/* If a call has failed, this rank does not go on: peers that wait for its word
 * get to know that at once. */
static pl_status_t end_of(pl_peer_t *self, pl_status_t status)
{
    if (status != PL_OK) {
        pl_peer_words_end(&self->ranks[self->over.comm.rank].words,
                          state_of(status));
        self->broken = status;
    }
    return status;
}

static void peer_fail(pl_comm_t *comm, pl_status_t status)
{
    pl_peer_t *self = (pl_peer_t *)comm;

    pl_peer_words_end(&self->ranks[comm->rank].words, PL_PEER_FAILED);
    self->broken = self->broken == PL_OK ? PL_ERR_PEER : self->broken;
    pl_over_fail(comm, status);
}

/* The device's work may be behind that of peers (events). */
static pl_status_t peer_look(void *context, double waited_s)
{
    pl_peer_t *self       = context;
    const pl_comm_t *comm = &self->over.comm;

    if ((self->broken == PL_OK) && (waited_s > comm->timeout_s)) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: waited %.6g s for the device, whose last work with "
               "peers is gather %llu",
               comm->rank, waited_s, (unsigned long long)self->n_gathers);
        (void)end_of(self, PL_ERR_COMM);
    }
    return waited_s > comm->timeout_s ? PL_ERR_COMM : PL_OK;
}

/* ---- expose ---- */

static pl_status_t expose(pl_peer_t *self, int region, pl_memory_t kind,
                          void *base, size_t bytes)
{
    pl_over_tell(&self->over);
    if (kind == PL_MEMORY_SHARED) {
        return pl_peer_show(self, region, bytes == 0 ? NULL : base);
    }
    PL_TRY(pl_peer_hide(self, region));
    return pl_over_expose_host(&self->over, region, kind, base, bytes);
}

static pl_status_t peer_expose(pl_comm_t *comm, int region, pl_memory_t kind,
                               void *base, size_t bytes)
{
    pl_peer_t *self = (pl_peer_t *)comm;

    PL_TRY(self->broken);
    if (kind == PL_MEMORY_DEVICE) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: expose: peers cannot read memory of kind DEVICE; "
               "allocate it as SHARED",
               comm->rank);
        return PL_ERR_ARGUMENT; /* on all ranks */
    }
    return end_of(self, expose(self, region, kind, base, bytes));
}

/* ---- gather ---- */

static bool is_shared(const pl_peer_t *self, const pl_gather_part_t *part)
{
    return !pl_over_is_host(&self->over, part);
}

static bool reads_peers(const pl_peer_t *self, const pl_gather_t *gather)
{
    bool some = false;

    for (int p = 0; p < gather->n_parts; p++) {
        some = some || is_shared(self, &gather->parts[p]);
    }
    return some && (gather->n_pages > 0);
}

/* What this rank has written can be read: what was queued before its mark, and
 * what its host wrote before its word rises. */
static pl_status_t say_written(pl_peer_t *self)
{
    pl_device_t *device  = self->over.device;
    pl_peer_rank_t *mine = &self->ranks[self->over.comm.rank];

    if (mine->written != NULL) {
        PL_TRY(
            device->ops->event_mark(device, PL_STREAM_GATHER, mine->written));
    }
    self->n_gathers++;
    self->reads = true;
    pl_peer_words_raise(&mine->words, self->over.comm.prefill_trace);
    return PL_OK;
}

/* The other owners of its pages, and no other rank: the same on all ranks. */
static int find_owners(const pl_peer_t *self, const pl_gather_t *gather,
                       bool *owners)
{
    int n_lanes = self->over.comm.n_prefill;
    int n       = 0;

    for (int32_t i = 0; i < gather->n_pages; i++) {
        int owner = pl_page_owner(gather->pages[i], n_lanes);

        if ((owner != self->over.comm.rank) && !owners[owner]) {
            owners[owner] = true;
            n++;
        }
    }
    return n;
}

/* The host waits until they have come; for what their devices still do, the
 * stream does. */
static pl_status_t wait_for_owners(pl_peer_t *self, const pl_gather_t *gather)
{
    pl_device_t *device        = self->over.device;
    bool owners[PL_MAX_RANKS]  = {false};
    bool missing[PL_MAX_RANKS] = {false};
    int n                      = find_owners(self, gather, owners);

    memcpy(missing, owners, sizeof(missing));
    PL_TRY(pl_peer_wait(self, missing, n));
    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        if (owners[rank] && (self->ranks[rank].written != NULL)) {
            PL_TRY(device->ops->event_after(device, PL_STREAM_GATHER,
                                            self->ranks[rank].written));
        }
    }
    return PL_OK;
}

static pl_status_t read_part(pl_peer_t *self, const pl_gather_t *gather,
                             const pl_gather_part_t *part)
{
    const uint8_t *bases[PL_MAX_RANKS];
    int n_lanes           = self->over.comm.n_prefill;
    pl_page_gather_t read = {.pages   = gather->pages,
                             .n_pages = gather->n_pages,
                             .bases   = bases,
                             .n_bases = n_lanes,
                             .stride  = part->stride,
                             .view    = part->view};

    for (int rank = 0; rank < n_lanes; rank++) {
        const uint8_t *base = self->ranks[rank].bases[part->region];

        /* Who shows nothing owns no page of this: each has checked its own. */
        bases[rank] = base == NULL ? NULL : base + part->offset;
    }
    return pl_device_gather(self->over.device, PL_STREAM_GATHER, &read);
}

static pl_status_t read_parts(pl_peer_t *self, const pl_gather_t *gather)
{
    for (int p = 0; p < gather->n_parts; p++) {
        if (is_shared(self, &gather->parts[p])) {
            PL_TRY(read_part(self, gather, &gather->parts[p]));
        }
    }
    return PL_OK;
}

static pl_status_t gather_all(pl_peer_t *self, const pl_gather_t *gather)
{
    bool reads = reads_peers(self, gather);

    pl_over_tell(&self->over);
    for (int32_t i = 0; i < gather->n_pages; i++) {
        gather->rows[i] = i;
    }
    if (reads) {
        PL_TRY(say_written(self));
    }
    PL_TRY(pl_over_gather_host(&self->over, gather)); /* while others come */
    if (!reads) {
        return PL_OK;
    }
    PL_TRY(wait_for_owners(self, gather));
    return read_parts(self, gather);
}

/* A rank waits for the owners of the pages alone, so one that owns all of them
 * may be several gathers ahead of one that still reads.  The rule of comm.h
 * makes that safe: until agree nobody writes where a page of a gather lies.  In
 * a tick (exec/runner.h: agree, then the plan) it holds because
 *   - a plan has one chunk at most, so each page of each layer and store is
 *     gathered once in it: those of the prefix are whole or loaded before that,
 *     those of the chunk written before that;
 *   - pages that others write to in the tick were free when it was planned, and
 *     so in no view of it;
 *   - where ranks replicate, each does write in the arrays of a layer after its
 *     gather, but only slots of pages that others computed: those are read
 *     there, at the ranks that computed them. */
static pl_status_t peer_gather(pl_comm_t *comm, const pl_gather_t *gather)
{
    pl_peer_t *self = (pl_peer_t *)comm;
    pl_status_t status;

    PL_TRY(self->broken);
    status = end_of(self, gather_all(self, gather));
    if (status == PL_ERR_DISAGREE) {
        /* Others may not know: they wait in the base for one who is not at
         * their call. */
        pl_over_fail(comm, status);
    }
    return status;
}

/* ---- agree ---- */

static pl_status_t say_read(pl_peer_t *self)
{
    pl_device_t *device  = self->over.device;
    pl_peer_rank_t *mine = &self->ranks[self->over.comm.rank];

    return mine->read == NULL
               ? PL_OK
               : device->ops->event_mark(device, PL_STREAM_GATHER, mine->read);
}

/* All streams behind the reading of all ranks: one of them waits for the peers
 * (its own reading is queued there), the others for that one. */
static pl_status_t wait_for_readers(pl_peer_t *self)
{
    pl_device_t *device = self->over.device;
    pl_fence_t fence;

    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        pl_event_t *read = self->ranks[rank].read;

        if ((rank != self->over.comm.rank) && (read != NULL)) {
            PL_TRY(device->ops->event_after(device, PL_STREAM_GATHER, read));
        }
    }
    PL_TRY(pl_device_record(device, PL_STREAM_GATHER, &fence));
    for (int stream = 0; stream < PL_STREAMS; stream++) {
        if (stream != PL_STREAM_GATHER) {
            PL_TRY(pl_device_after(device, (pl_stream_t)stream,
                                   PL_STREAM_GATHER, fence));
        }
    }
    return PL_OK;
}

/* The ranks may have come to other gathers, and no two of them have met there:
 * behind the words goes what was called, and its complement. */
static pl_status_t agree_on_calls(pl_peer_t *self, uint64_t *words, int32_t n)
{
    const pl_comm_t *comm = &self->over.comm;
    size_t n_words        = (size_t)n;
    uint64_t *w;

    if (PL_ARRAY_RESERVE(&self->words, n_words + 2) != PL_OK) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: agree: no memory for %zu words", comm->rank, n_words);
        return PL_ERR_MEMORY;
    }
    w = self->words.items;
    if (n > 0) {
        memcpy(w, words, n_words * sizeof(*w));
    }
    w[n_words]     = pl_peer_prefills(self) ? comm->prefill_trace : 0;
    w[n_words + 1] = pl_peer_prefills(self) ? ~comm->prefill_trace : 0;
    PL_TRY(pl_over_agree(&self->over.comm, w, n + 2));
    if ((w[n_words] & w[n_words + 1]) != 0) {
        pl_log(comm->log, PL_LOG_ERROR,
               "ranks disagree: rank %d finds in agree (call %llu) that not "
               "all came to the same gathers",
               comm->rank, (unsigned long long)comm->n_calls);
        return PL_ERR_DISAGREE;
    }
    if (n > 0) {
        memcpy(words, w, n_words * sizeof(*w));
    }
    return PL_OK;
}

/* Where devices have no events, a gather is done when it returns.  So a rank
 * that is here has read all it asked for, and when agree returns all ranks
 * have: nothing has to be waited for. */
static pl_status_t agree(pl_peer_t *self, uint64_t *words, int32_t n)
{
    bool reads = self->reads;

    self->reads = false;
    if (reads) {
        PL_TRY(say_read(self));
    }
    PL_TRY(agree_on_calls(self, words, n));
    return reads && (self->over.device->ops->event_after != NULL)
               ? wait_for_readers(self)
               : PL_OK;
}

static pl_status_t peer_agree(pl_comm_t *comm, uint64_t *words, int32_t n)
{
    pl_peer_t *self = (pl_peer_t *)comm;

    PL_TRY(self->broken);
    return end_of(self, agree(self, words, n));
}

/* ---- open, close ---- */

static void peer_close(pl_comm_t *comm)
{
    pl_peer_t *self = (pl_peer_t *)comm;
    bool reads =
        (self->n_gathers > 0) && (pl_peer_finish_reading(self) != PL_OK);

    pl_peer_part(self, reads);
    self->over.device->watch = self->before;
    pl_over_close(&self->over);
    PL_ARRAY_FREE(&self->words);
    free(self->ranks);
    free(self);
}

static const pl_comm_ops_t peer_ops = {
    .name      = "peer",
    .agree     = peer_agree,
    .sum       = pl_over_sum,
    .broadcast = pl_over_broadcast,
    .barrier   = pl_over_barrier,
    .expose    = peer_expose,
    .gather    = peer_gather,
    .send      = pl_over_send,
    .receive   = pl_over_receive,
    .wait      = pl_over_wait,
    .fail      = peer_fail,
    .close     = peer_close,
};

/* Local; NULL and one line if there is no memory. */
static pl_peer_t *new_peer(pl_comm_t *base, pl_device_t *device)
{
    pl_peer_t *self       = calloc(1, sizeof(*self));
    pl_peer_rank_t *ranks = calloc((size_t)base->n_ranks, sizeof(*self->ranks));

    if ((self == NULL) || (ranks == NULL)) {
        pl_log(base->log, PL_LOG_ERROR,
               "rank %d: no memory for a communicator of %d ranks", base->rank,
               base->n_ranks);
        free(self);
        free(ranks);
        return NULL;
    }
    pl_over_open(&self->over, &peer_ops, base, device);
    self->over.comm.queues = true;
    self->ranks            = ranks;
    self->before           = device->watch;
    device->watch          = (pl_device_watch_t){peer_look, self};
    return self;
}

pl_status_t pl_comm_open_peer(pl_comm_t *base, pl_device_t *device,
                              pl_comm_t **comm_p)
{
    pl_peer_t *self = new_peer(base, device);
    pl_status_t status =
        pl_comm_agree_status(base, self == NULL ? PL_ERR_MEMORY : PL_OK);

    if (status == PL_OK) {
        status = pl_peer_meet(self);
    }
    if (status != PL_OK) {
        if (self != NULL) {
            peer_close(&self->over.comm);
        }
        return status;
    }
    *comm_p = &self->over.comm;
    return PL_OK;
}
