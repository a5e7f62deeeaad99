/* The host waits for words of other ranks: never on the device, never without
 * an end. */
#include <sched.h>
#include <time.h>

#include "comm/peer_comm.h"

/* Ranks share cores.  A peer that is at work on another core comes soon; else
 * it needs this one.  What is slept is short against any gather, and the
 * kernel adds as much again. */
enum {
    SPINS       = 200,
    YIELDS      = 100,
    SLEEP_MOST  = 50, /* steps */
    LOOK_ROUNDS = 64  /* asleep, between two looks at who lives */
};

#define SLEEP_STEP_NS 1000L

#define PART_S 1.0

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(int round)
{
    int steps = round - SPINS - YIELDS + 1;

    if (steps > 0) {
        struct timespec t = {0, (steps < SLEEP_MOST ? steps : SLEEP_MOST) *
                                    SLEEP_STEP_NS};

        (void)nanosleep(&t, NULL);
    } else if (round >= SPINS) {
        (void)sched_yield();
    }
}

static pl_status_t status_of(pl_peer_state_t state)
{
    switch (state) {
    case PL_PEER_GOES_ON:
    case PL_PEER_LEFT:
        break;
    case PL_PEER_FAILED:
        return PL_ERR_PEER;
    case PL_PEER_GAVE_UP:
        return PL_ERR_COMM;
    case PL_PEER_DISAGREED:
        return PL_ERR_DISAGREE;
    }
    return PL_OK;
}

/* Has any rank said that it does not go on?  Who did has said why. */
static pl_status_t look_for_failures(const pl_peer_t *self)
{
    for (int rank = 0; rank < self->over.comm.n_ranks; rank++) {
        PL_TRY(status_of(pl_peer_words_state(&self->ranks[rank].words)));
    }
    return PL_OK;
}

static pl_status_t disagree(pl_peer_t *self, const bool *others)
{
    char text[160];

    pl_comm_rank_list(others, self->over.comm.n_prefill, text, sizeof(text));
    pl_log(self->over.comm.log, PL_LOG_ERROR,
           "ranks disagree: rank %d is at gather %llu (call %llu), ranks %s at "
           "another gather or another size, or were at other calls before",
           self->over.comm.rank, (unsigned long long)self->n_gathers,
           (unsigned long long)self->over.comm.n_calls, text);
    return PL_ERR_DISAGREE;
}

static pl_status_t give_up(const pl_peer_t *self, const bool *missing,
                           bool in_time)
{
    const pl_comm_t *comm = &self->over.comm;
    char text[160];

    pl_comm_rank_list(missing, comm->n_prefill, text, sizeof(text));
    if (in_time) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: gather waits for ranks that have ended: %s",
               comm->rank, text);
    } else {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: gather waited %.6g s for ranks that did not come: %s",
               comm->rank, comm->timeout_s, text);
    }
    return PL_ERR_COMM;
}

/* Cross off who has come; *n_p are left.  Others may be at another gather. */
static pl_status_t cross_off(pl_peer_t *self, bool *missing, int *n_p)
{
    bool others[PL_MAX_RANKS] = {false};
    uint64_t trace            = self->over.comm.prefill_trace;
    bool agree                = true;

    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        const pl_peer_words_t *words = &self->ranks[rank].words;

        if (!missing[rank] || !pl_peer_words_came(words, self->n_gathers)) {
            continue;
        }
        others[rank]  = !pl_peer_words_agree(words, self->n_gathers, trace);
        agree         = agree && !others[rank];
        missing[rank] = false;
        (*n_p)--;
    }
    return agree ? PL_OK : disagree(self, others);
}

/* Which of the missing have ended?  They may have come before that: the caller
 * has to look once more. */
static bool some_have_ended(const pl_peer_t *self, const bool *missing,
                            bool asks_system, bool *ended)
{
    bool some = false;

    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        const pl_peer_words_t *words = &self->ranks[rank].words;

        ended[rank] =
            missing[rank] && ((pl_peer_words_state(words) == PL_PEER_LEFT) ||
                              (asks_system && !pl_peer_words_live(words)));
        some = some || ended[rank];
    }
    return some;
}

/* Once, between two rests: PL_OK, or why the wait is in vain. */
static pl_status_t look(pl_peer_t *self, bool *missing, int *n_p, int round)
{
    bool ended[PL_MAX_RANKS];
    bool asks_system = (round > SPINS + YIELDS) && (round % LOOK_ROUNDS == 0);
    bool some        = some_have_ended(self, missing, asks_system, ended);

    PL_TRY(look_for_failures(self));
    PL_TRY(cross_off(self, missing, n_p));
    for (int rank = 0; some && (rank < self->over.comm.n_prefill); rank++) {
        if (ended[rank] && missing[rank]) {
            return give_up(self, ended, true);
        }
    }
    return PL_OK;
}

pl_status_t pl_peer_wait(pl_peer_t *self, bool *missing, int n)
{
    double since = 0;
    int round    = 0;

    PL_TRY(look_for_failures(self));
    PL_TRY(cross_off(self, missing, &n));
    while (n > 0) {
        int before = n;

        rest(round);
        PL_TRY(look(self, missing, &n, round));
        if (n < before) { /* the clock starts anew */
            round = 0;
            continue;
        }
        if (round == SPINS) {
            since = now_s();
        } else if ((round > SPINS) &&
                   (now_s() - since > self->over.comm.timeout_s)) {
            return give_up(self, missing, false);
        }
        round++;
    }
    return PL_OK;
}

static bool has_parted(const pl_peer_words_t *words)
{
    return (words->block == NULL) ||
           (pl_peer_words_state(words) != PL_PEER_GOES_ON) ||
           !pl_peer_words_live(words);
}

void pl_peer_wait_to_part(const pl_peer_t *self)
{
    double since = now_s();

    for (int rank = 0; rank < self->over.comm.n_prefill; rank++) {
        int round = SPINS;

        while (!has_parted(&self->ranks[rank].words) &&
               (now_s() - since < PART_S)) {
            rest(round++);
        }
    }
}
