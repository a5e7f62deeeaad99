/* engine/turns.h - when requests arrive: at their own time, or when others
 * have ended (pl_request_t.after, delay_ns, not_before).
 */
#ifndef PL_ENGINE_TURNS_H
#define PL_ENGINE_TURNS_H

#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "engine/engine.h"

/* A request whose time is known. */
typedef struct pl_turn {
    int64_t at_ns; /* INT64_MAX: there is none */
    int32_t request;
} pl_turn_t;

typedef struct pl_turns {
    pl_engine_source_t source;
    uint8_t *skip;      /* [count] those that neither come nor are waited for */
    int32_t next;       /* the first still to arrive by its time alone */
    int32_t *first;     /* [count + 1] where those behind a request begin */
    int32_t *behind;    /* in this */
    int32_t *n_unended; /* [count] that it still waits for */
    PL_ARRAY(pl_turn_t) ready; /* a heap: the earliest first, then by number */
} pl_turns_t;

/* Into a zeroed one, which is to be closed in any case.  The source is
 * borrowed; skip[count] is copied, NULL: none.  PL_OK; PL_ERR_ARGUMENT: a
 * request waits for one that does not stand before it; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_turns_open(const pl_engine_source_t *source,
                                        const uint8_t *skip, pl_turns_t *turns);
void pl_turns_close(pl_turns_t *turns);

/* The first to arrive of all whose time is known; of the same time the lowest
 * number. */
pl_turn_t pl_turns_first(const pl_turns_t *turns);
/* It has arrived. */
void pl_turns_pop(pl_turns_t *turns, pl_turn_t first);
/* One comes at that time, whatever the source says. */
PL_MUST_CHECK pl_status_t pl_turns_push(pl_turns_t *turns, pl_turn_t turn);

/* A request ended at now_ns: those behind it may have a time now.  *soonest_p:
 * the earliest of these, INT64_MAX if there is none. */
PL_MUST_CHECK pl_status_t pl_turns_ended(pl_turns_t *turns, int32_t request,
                                         int64_t now_ns, int64_t *soonest_p);

uint64_t pl_turns_state_hash(const pl_turns_t *turns);

#endif /* PL_ENGINE_TURNS_H */
