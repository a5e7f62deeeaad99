/* comm/peer_words.h - what each rank tells all others in memory that all see;
 * inside comm/peer*.c.
 *
 * One block a rank, in host memory that is shared (device/shared.h), whatever
 * the rank's device is.  Its owner writes, the others look: how many gathers it
 * has come to, which they were, and whether it goes on.  Nobody locks.
 */
#ifndef PL_COMM_PEER_WORDS_H
#define PL_COMM_PEER_WORDS_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "device/shared.h"

typedef enum pl_peer_state {
    PL_PEER_GOES_ON,
    PL_PEER_LEFT,     /* closed; what it came to counts */
    PL_PEER_FAILED,   /* and has said why */
    PL_PEER_GAVE_UP,  /* has waited too long */
    PL_PEER_DISAGREED /* is at another call than a peer */
} pl_peer_state_t;

/* A rank may be ahead of another, which then compares with what is written for
 * its own gather.  Who is further behind is left to the next agree. */
#define PL_PEER_TRACES 64

typedef struct pl_peer_block {
    _Atomic uint64_t n_gathers;
    _Atomic uint64_t traces[PL_PEER_TRACES]; /* of gather n at n mod TRACES */
    _Atomic int state;                       /* pl_peer_state_t */
    /* Of the process that made it: ranks that have it open there, and what the
     * last of them frees. */
    _Atomic int n_users;
    pl_shared_t shared;
} pl_peer_block_t;

typedef struct pl_peer_words {
    pl_peer_block_t *block; /* NULL: not open */
    pl_shared_t mapped;     /* of another process; none: of this one */
    int64_t process;
} pl_peer_words_t;

/* Own words.  PL_ERR_MEMORY, PL_ERR_DEVICE, with one line. */
PL_MUST_CHECK pl_status_t pl_peer_words_make(pl_peer_words_t *words,
                                             const pl_log_t *log,
                                             pl_share_t *share_p);
/* Another rank's, before that rank may close them.  PL_ERR_DEVICE, with one
 * line. */
PL_MUST_CHECK pl_status_t pl_peer_words_open(pl_peer_words_t *words,
                                             const pl_log_t *log,
                                             const pl_share_t *share);
void pl_peer_words_close(pl_peer_words_t *words); /* also of none */

/* Own: gather number n_gathers + 1 is come to, and all written before this. */
void pl_peer_words_raise(pl_peer_words_t *words, uint64_t trace);
/* Own: it does not go on; the first such state stays. */
void pl_peer_words_end(pl_peer_words_t *words, pl_peer_state_t state);

static inline pl_peer_state_t pl_peer_words_state(const pl_peer_words_t *words)
{
    return (pl_peer_state_t)atomic_load_explicit(&words->block->state,
                                                 memory_order_acquire);
}

/* Has the rank come to gather n?  Then what it wrote before can be read. */
static inline bool pl_peer_words_came(const pl_peer_words_t *words, uint64_t n)
{
    return atomic_load_explicit(&words->block->n_gathers,
                                memory_order_acquire) >= n;
}

/* Of a rank that has come to gather n: may that be the gather with this trace?
 */
bool pl_peer_words_agree(const pl_peer_words_t *words, uint64_t n,
                         uint64_t trace);

/* Does the rank's process still live? */
bool pl_peer_words_live(const pl_peer_words_t *words);

#endif /* PL_COMM_PEER_WORDS_H */
