/* comm/local.h - what virtual ranks share; inside comm/local*.c.
 *
 * One mutex guards all of the hub; each rank sleeps on a condition of its own.
 * Collective calls go through groups: all ranks, or the prefill ranks.
 */
#ifndef PL_COMM_LOCAL_H
#define PL_COMM_LOCAL_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/array.h"
#include "comm/internal.h"

/* What a collective call carries from those who give to those who take.  Two
 * in turn: the call after the next needs everyone out of this one. */
typedef struct pl_local_slot {
    PL_ARRAY(uint64_t) words;
} pl_local_slot_t;

typedef struct pl_local_group {
    int n;           /* ranks 0 .. n-1 */
    int n_here;      /* arrived at the call under way */
    bool *here;      /* [n] */
    uint64_t n_done; /* calls completed */
    uint64_t trace;  /* of the first to arrive; the others must have the same */
    int first;
    pl_local_slot_t slots[2];
} pl_local_group_t;

/* A message that came before its receive was posted. */
typedef struct pl_local_mail {
    int tag;
    size_t n;
    uint8_t *bytes; /* a copy, owned; NULL if n == 0 */
} pl_local_mail_t;

typedef PL_ARRAY(pl_local_mail_t) pl_local_mailbox_t;

typedef struct pl_local_hub {
    pthread_mutex_t mutex;
    pthread_cond_t *wake; /* [n_ranks] */
    int n_wake;           /* of them, those that are made */
    int n_ranks, n_prefill;
    bool *ended;        /* [n_ranks] the body has returned */
    pl_status_t broken; /* what every call returns from now on, or PL_OK */
    pl_local_group_t all, prefill;
    pl_local_mailbox_t *mailboxes; /* [to][from], oldest first; no mail lies in
                                      one while a receive waits for it */
    struct pl_local **ranks;       /* [n_ranks], borrowed */
} pl_local_hub_t;

/* A posted receive; matched in the order of posting. */
typedef struct pl_local_receive {
    pl_message_t message;
    int from, tag;
    uint8_t *bytes;
    size_t n;
    bool matched;
    bool filling; /* matched, and its sender still copies into `bytes` */
    pl_local_mail_t mail; /* owned, when matched; bytes == NULL: they are in
                             place already */
} pl_local_receive_t;

typedef struct pl_local {
    pl_comm_t comm;
    pl_local_hub_t *hub;
    pl_message_t last_message;
    PL_ARRAY(pl_local_receive_t) receives; /* guarded by the hub's mutex */
    pl_comm_region_t *peers;               /* [n_prefill][PL_COMM_REGIONS] */
} pl_local_t;

/* Fill in a zeroed communicator; the caller adds `peers`. */
void pl_local_open(pl_local_t *self, pl_local_hub_t *hub, int rank,
                   double timeout_s, const pl_log_t *log);

/* With the mutex held: every call returns `status` from now on (the first such
 * status stays), and all sleepers wake. */
void pl_local_break(pl_local_hub_t *hub, pl_status_t status);

/* With the mutex held: before this rank says that a call has failed, what
 * others copy into its receives has come to its end, since their places may be
 * freed then.  Nothing new begins once the hub is broken. */
void pl_local_settle(pl_local_t *self);

/* The moment timeout_s from now, on the clock of the conditions. */
struct timespec pl_local_deadline(double timeout_s);

/* With the mutex held: sleep until woken.  false: the deadline has passed. */
bool pl_local_sleep(pl_local_t *self, const struct timespec *deadline);

pl_status_t pl_local_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                          size_t n, pl_message_t *message_p);
pl_status_t pl_local_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                             size_t n, pl_message_t *message_p);
pl_status_t pl_local_wait(pl_comm_t *comm, pl_message_t message);

/* Forget what was posted and never waited for, and say so. */
void pl_local_drop_receives(pl_local_t *self);

#endif /* PL_COMM_LOCAL_H */
