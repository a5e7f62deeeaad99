/* Virtual ranks: threads of one process that meet in a hub. */
#include "comm/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- wait and wake ---- */

void pl_local_break(pl_local_hub_t *hub, pl_status_t status)
{
    if (hub->broken == PL_OK) {
        hub->broken = status;
    }
    for (int rank = 0; rank < hub->n_ranks; rank++) {
        pthread_cond_signal(&hub->wake[rank]);
    }
}

struct timespec pl_local_deadline(double timeout_s)
{
    struct timespec t;
    double s = timeout_s < 1e9 ? timeout_s : 1e9;
    int64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = (int64_t)(s * 1e9) + t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

bool pl_local_sleep(pl_local_t *self, const struct timespec *deadline)
{
    pl_local_hub_t *hub = self->hub;

    return pthread_cond_timedwait(&hub->wake[self->comm.rank], &hub->mutex,
                                  deadline) != ETIMEDOUT;
}

/* ---- collective calls ---- */

typedef enum op_kind {
    OP_BARRIER,
    OP_OR,
    OP_SUM,
    OP_BROADCAST, /* root gives, all take */
    OP_EXPOSE     /* each gives one region, all take all */
} op_kind_t;

typedef struct op {
    op_kind_t kind;
    const char *what; /* in messages */
    size_t n_words;   /* room in the slot */
    uint64_t *words;  /* OR, SUM: in and out */
    int root;
    uint8_t *bytes; /* BROADCAST: in or out; EXPOSE: the base */
    size_t n_bytes;
} op_t;

/* With the mutex held: put this rank's part into the slot. */
static void give(const pl_local_t *self, const op_t *op, pl_local_slot_t *slot)
{
    int rank = self->comm.rank;

    switch (op->kind) {
    case OP_BARRIER:
        break;
    case OP_OR:
        for (size_t i = 0; i < op->n_words; i++) {
            slot->words.items[i] |= op->words[i];
        }
        break;
    case OP_SUM:
        for (size_t i = 0; i < op->n_words; i++) {
            slot->words.items[i] += op->words[i];
        }
        break;
    case OP_BROADCAST:
        if ((rank == op->root) && (op->n_bytes > 0)) {
            memcpy(slot->words.items, op->bytes, op->n_bytes);
        }
        break;
    case OP_EXPOSE:
        slot->words.items[2 * rank]     = (uint64_t)(uintptr_t)op->bytes;
        slot->words.items[2 * rank + 1] = op->n_bytes;
        break;
    }
}

/* Without the mutex: nobody writes the slot before all have left it. */
static void take(pl_local_t *self, const op_t *op, const pl_local_slot_t *slot)
{
    switch (op->kind) {
    case OP_BARRIER:
        break;
    case OP_OR:
    case OP_SUM:
        if (op->n_words > 0) {
            memcpy(op->words, slot->words.items,
                   op->n_words * sizeof(*op->words));
        }
        break;
    case OP_BROADCAST:
        if ((self->comm.rank != op->root) && (op->n_bytes > 0)) {
            memcpy(op->bytes, slot->words.items, op->n_bytes);
        }
        break;
    case OP_EXPOSE:
        for (int rank = 0; rank < self->comm.n_prefill; rank++) {
            pl_comm_region_t *region =
                &self->peers[rank * PL_COMM_REGIONS + op->root];

            region->base  = (uint8_t *)(uintptr_t)slot->words.items[2 * rank];
            region->bytes = (size_t)slot->words.items[2 * rank + 1];
        }
        break;
    }
}

/* With the mutex held: this rank is at the call.  The last one completes it. */
static pl_status_t arrive(pl_local_t *self, pl_local_group_t *group,
                          uint64_t trace, const op_t *op)
{
    pl_local_slot_t *slot = &group->slots[group->n_done % 2];

    if (group->n_here == 0) {
        if (PL_ARRAY_RESERVE(&slot->words, op->n_words) != PL_OK) {
            pl_log(self->comm.log, PL_LOG_ERROR,
                   "rank %d: no memory for %s of %zu words", self->comm.rank,
                   op->what, op->n_words);
            pl_local_break(self->hub, PL_ERR_PEER);
            return PL_ERR_MEMORY;
        }
        if (op->n_words > 0) {
            memset(slot->words.items, 0, op->n_words * sizeof(uint64_t));
        }
        group->trace = trace;
        group->first = self->comm.rank;
    } else if (group->trace != trace) { /* 9.33 */
        pl_log(self->comm.log, PL_LOG_ERROR,
               "ranks disagree: rank %d is at %s (call %llu), rank %d at "
               "another call or another size",
               self->comm.rank, op->what,
               (unsigned long long)self->comm.n_calls, group->first);
        pl_local_break(self->hub, PL_ERR_DISAGREE);
        return PL_ERR_DISAGREE;
    }
    give(self, op, slot);
    group->here[self->comm.rank] = true;
    if (++group->n_here < group->n) {
        return PL_OK;
    }
    group->n_here = 0;
    memset(group->here, 0, (size_t)group->n * sizeof(*group->here));
    group->n_done++;
    for (int rank = 0; rank < group->n; rank++) {
        pthread_cond_signal(&self->hub->wake[rank]);
    }
    return PL_OK;
}

/* With the mutex held: can those who are missing still come? */
static bool all_can_come(const pl_local_t *self, const pl_local_group_t *group)
{
    for (int rank = 0; rank < group->n; rank++) {
        if (!group->here[rank] && self->hub->ended[rank]) {
            return false;
        }
    }
    return true;
}

static void give_up(pl_local_t *self, const pl_local_group_t *group,
                    const op_t *op, bool in_time)
{
    char text[160];
    bool missing[PL_MAX_RANKS * 2] = {false};
    int n = group->n < PL_MAX_RANKS * 2 ? group->n : PL_MAX_RANKS * 2;

    for (int rank = 0; rank < n; rank++) {
        missing[rank] =
            !group->here[rank] && (!in_time || self->hub->ended[rank]);
    }
    pl_comm_rank_list(missing, n, text, sizeof(text));
    if (in_time) {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: %s waits for ranks that have ended: %s",
               self->comm.rank, op->what, text);
    } else {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: %s waited %.6g s for ranks that did not come: %s",
               self->comm.rank, op->what, self->comm.timeout_s, text);
    }
    pl_local_break(self->hub, PL_ERR_COMM);
}

/* With the mutex held: until all of the group were at call number `call`. */
static pl_status_t wait_for_group(pl_local_t *self, pl_local_group_t *group,
                                  uint64_t call, const op_t *op)
{
    struct timespec deadline = pl_local_deadline(self->comm.timeout_s);
    bool in_time             = true;

    while (group->n_done <= call) {
        if (self->hub->broken != PL_OK) {
            return self->hub->broken;
        }
        if (!in_time || !all_can_come(self, group)) {
            give_up(self, group, op, in_time);
            return PL_ERR_COMM;
        }
        in_time = pl_local_sleep(self, &deadline);
    }
    return PL_OK;
}

static pl_status_t meet(pl_local_t *self, pl_local_group_t *group,
                        uint64_t trace, const op_t *op)
{
    pl_local_hub_t *hub = self->hub;
    pl_status_t status;
    uint64_t call;

    pthread_mutex_lock(&hub->mutex);
    call   = group->n_done;
    status = hub->broken;
    if (status == PL_OK) {
        status = arrive(self, group, trace, op);
    }
    if (status == PL_OK) {
        status = wait_for_group(self, group, call, op);
    }
    if (status != PL_OK) {
        pl_local_settle(self);
    }
    pthread_mutex_unlock(&hub->mutex);
    if (status == PL_OK) {
        take(self, op, &group->slots[call % 2]);
    }
    return status;
}

static pl_status_t meet_all(pl_comm_t *comm, const op_t *op)
{
    pl_local_t *self = (pl_local_t *)comm;

    return meet(self, &self->hub->all, comm->trace, op);
}

static pl_status_t meet_prefill(pl_comm_t *comm, const op_t *op)
{
    pl_local_t *self = (pl_local_t *)comm;

    return meet(self, &self->hub->prefill, comm->prefill_trace, op);
}

/* ---- operations ---- */

static pl_status_t local_agree(pl_comm_t *comm, uint64_t *words, int32_t n)
{
    op_t op = {
        .kind = OP_OR, .what = "agree", .words = words, .n_words = (size_t)n};

    return meet_all(comm, &op);
}

static pl_status_t local_sum(pl_comm_t *comm, uint64_t *values, int64_t n)
{
    op_t op = {
        .kind = OP_SUM, .what = "sum", .words = values, .n_words = (size_t)n};

    return meet_all(comm, &op);
}

static pl_status_t local_broadcast(pl_comm_t *comm, int root, void *bytes,
                                   size_t n)
{
    op_t op = {.kind    = OP_BROADCAST,
               .what    = "broadcast",
               .n_words = (n + 7) / 8,
               .root    = root,
               .bytes   = bytes,
               .n_bytes = n};

    return meet_all(comm, &op);
}

static pl_status_t local_barrier(pl_comm_t *comm)
{
    op_t op = {.kind = OP_BARRIER, .what = "barrier"};

    return meet_all(comm, &op);
}

static pl_status_t local_expose(pl_comm_t *comm, int region, pl_memory_t kind,
                                void *base, size_t bytes)
{
    op_t op = {.kind    = OP_EXPOSE,
               .what    = "expose",
               .n_words = 2 * (size_t)comm->n_prefill,
               .root    = region,
               .bytes   = base,
               .n_bytes = bytes};

    (void)kind;
    return meet_prefill(comm, &op);
}

static void copy_part(const pl_local_t *self, const pl_gather_t *gather,
                      const pl_gather_part_t *part)
{
    int n_lanes = self->comm.n_prefill;

    for (int32_t i = 0; i < gather->n_pages; i++) {
        pl_page_t page = gather->pages[i];
        int owner      = pl_page_owner(page, n_lanes);
        size_t slot    = (size_t)pl_page_slot(page, n_lanes);
        const pl_comm_region_t *region =
            &self->peers[owner * PL_COMM_REGIONS + part->region];

        /* The owner has checked it before it came to this call. */
        assert(part->offset + (slot + 1) * part->stride <= region->bytes);
        memcpy(part->view + (size_t)i * part->stride,
               pl_comm_store(region, part) + slot * part->stride, part->stride);
    }
}

/* One meeting, then everyone reads: the header says what may be written until
 * the next one. */
static pl_status_t local_gather(pl_comm_t *comm, const pl_gather_t *gather)
{
    op_t op = {.kind = OP_BARRIER, .what = "gather"};

    PL_TRY(meet_prefill(comm, &op));
    for (int p = 0; p < gather->n_parts; p++) {
        copy_part((pl_local_t *)comm, gather, &gather->parts[p]);
    }
    for (int32_t i = 0; i < gather->n_pages; i++) {
        gather->rows[i] = i;
    }
    return PL_OK;
}

static void local_fail(pl_comm_t *comm, pl_status_t status)
{
    pl_local_t *self = (pl_local_t *)comm;

    (void)status; /* the rank's own body returns it */
    pthread_mutex_lock(&self->hub->mutex);
    pl_local_break(self->hub, PL_ERR_PEER);
    pl_local_settle(self);
    pthread_mutex_unlock(&self->hub->mutex);
}

static void local_close(pl_comm_t *comm)
{
    pl_local_t *self = (pl_local_t *)comm;

    pl_local_drop_receives(self);
    free(self->peers);
    self->peers = NULL;
}

static const pl_comm_ops_t local_ops = {
    .name      = "local",
    .agree     = local_agree,
    .sum       = local_sum,
    .broadcast = local_broadcast,
    .barrier   = local_barrier,
    .expose    = local_expose,
    .gather    = local_gather,
    .send      = pl_local_send,
    .receive   = pl_local_receive,
    .wait      = pl_local_wait,
    .fail      = local_fail,
    .close     = local_close,
};

void pl_local_open(pl_local_t *self, pl_local_hub_t *hub, int rank,
                   double timeout_s, const pl_log_t *log)
{
    self->comm.ops       = &local_ops;
    self->comm.log       = log;
    self->comm.rank      = rank;
    self->comm.n_ranks   = hub->n_ranks;
    self->comm.n_prefill = hub->n_prefill;
    self->comm.timeout_s = timeout_s;
    self->hub            = hub;
    hub->ranks[rank]     = self;
}
