/* comm/peer_comm.h - inside comm/peer*.c. */
#ifndef PL_COMM_PEER_COMM_H
#define PL_COMM_PEER_COMM_H

#include "comm/over.h"
#include "comm/peer.h"
#include "comm/peer_words.h"

/* What this rank has open of one rank, itself included. */
typedef struct pl_peer_rank {
    pl_peer_words_t words;
    uint8_t *bases[PL_COMM_REGIONS]; /* NULL: nothing SHARED there */
    pl_event_t *written, *read;      /* NULL: its work is done when a call
                                        returns */
} pl_peer_rank_t;

typedef struct pl_peer {
    pl_over_t over;        /* first member */
    pl_peer_rank_t *ranks; /* [n_ranks]; prefill ranks have all of them open,
                              others have only themselves */
    uint64_t n_gathers;
    bool reads;         /* gathers since the last agree */
    pl_status_t broken; /* what every call returns from now on, or PL_OK */
    PL_ARRAY(uint64_t) words; /* of agree */
    pl_device_watch_t before; /* the device's, until ours came */
} pl_peer_t;

static inline bool pl_peer_prefills(const pl_peer_t *self)
{
    return self->over.comm.rank < self->over.comm.n_prefill;
}

/* ---- peer_open.c ---- */

/* Collective over the base.  Open what all ranks share; all agree. */
PL_MUST_CHECK pl_status_t pl_peer_meet(pl_peer_t *self);
/* Close it.  `reads`: this rank's device may still read; what is open there
 * stays so to the end of the program. */
void pl_peer_part(pl_peer_t *self, bool reads);

/* Prefill-collective.  Open the memory that all ranks show under the region, or
 * that of none if base is NULL. */
PL_MUST_CHECK pl_status_t pl_peer_show(pl_peer_t *self, int region, void *base);
/* Close what is open of the region, when this rank's device has read it. */
PL_MUST_CHECK pl_status_t pl_peer_hide(pl_peer_t *self, int region);
/* The host waits until its device has read all it was asked for. */
PL_MUST_CHECK pl_status_t pl_peer_finish_reading(pl_peer_t *self);

/* ---- peer_wait.c ---- */

/* Until the ranks of `missing` (changed here), n of them, have come to gather
 * n_gathers of this rank; PL_OK, or see comm.h. */
PL_MUST_CHECK pl_status_t pl_peer_wait(pl_peer_t *self, bool *missing, int n);

/* Until all ranks have closed what they had open here; a second at most, and
 * not for those that have ended. */
void pl_peer_wait_to_part(const pl_peer_t *self);

#endif /* PL_COMM_PEER_COMM_H */
