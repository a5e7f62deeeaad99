/* engine/port.h - an engine as one instance of several.
 *
 * Without a port an engine is the whole: it takes the requests of its source
 * as they arrive and decodes them on homes of its own.  With one, whoever
 * drives it (sim/fleet.h) says which of them it gets and when, and holds all
 * instances to one virtual time: it lets that instance go on whose next tick
 * is the earliest, so that whatever is handed over lies in nobody's past.
 *
 *   PL_ROLE_WHOLE    gets prompts (give) and decodes them on its own homes
 *   PL_ROLE_PREFILL  gets prompts; has no homes.  A prompt is admitted once
 *                    port->reserve has found it a place elsewhere; its pages
 *                    leave by port->send, and it is delivered when all are sent
 *   PL_ROLE_DECODE   has homes alone: pages are reserved, and what has arrived
 *                    in them is decoded (enter)
 *
 * Every instance knows all requests of the source by their numbers.  Whatever
 * is handed over at at_ns takes effect in the first tick that starts then or
 * later; at_ns is not before pl_engine_now_ns.  None of these is called from
 * within a plan of the same engine, but from port->arriving; those of others
 * may be.
 *
 * Records (pl_engine_record) say what happened here since the request came, the
 * last time if it did so again: of prefill up to the first token, of decode
 * from decode_ns on.  A prompt that comes with tokens generated counts as one
 * that re-entered: its hits are not noted.  There is none of a request that
 * never came.
 */
#ifndef PL_ENGINE_PORT_H
#define PL_ENGINE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"

/* A request on its way from prefill to decode. */
typedef struct pl_handover {
    int32_t request;
    int32_t prompt_tokens; /* computed by prefill: those of the trace, and of
                              one that re-entered what it had said as well */
    int32_t generated;     /* tokens known before this prefill */
    int64_t first_token_ns;
    int64_t token_ns; /* when the newest of them was made; 0: there is none */
} pl_handover_t;

/* What an instance says to whoever drives it.  Each is called from within a
 * plan or commit at pl_engine_now_ns; those that a role does not need are
 * NULL. */
typedef struct pl_engine_port {
    void *context;
    /* PREFILL: set pages aside for a prompt and one more; *ok_p false: there
     * is no room now.  It asks again after pl_engine_nudge. */
    pl_status_t (*reserve)(void *context, int32_t request,
                           int32_t prompt_tokens, bool *ok_p);
    /* PREFILL: what was set aside is not needed; the prompt waits again. */
    pl_status_t (*release)(void *context, int32_t request);
    /* PREFILL: bytes of all ranks leave for that place, as operation `op`; its
     * end comes by pl_engine_sent.  `last`: the prompt's last pages are among
     * them. */
    pl_status_t (*send)(void *context, int32_t request, int64_t op,
                        int64_t bytes, bool last);
    /* WHOLE, PREFILL: the prompt is computed. */
    pl_status_t (*prefilled)(void *context, int32_t request);
    /* PREFILL: it knows that all pages have arrived, or (not good) that some
     * never will, and has forgotten the request, which may be given again from
     * here on. */
    pl_status_t (*delivered)(void *context, int32_t request, bool good);
    /* WHOLE, DECODE: it gave up its pages and is to be prefilled once more,
     * with prompt_tokens.  WHOLE has it in its own queue; DECODE has forgotten
     * it. */
    pl_status_t (*reentered)(void *context, const pl_handover_t *so_far);
    /* WHOLE, DECODE: it has ended. */
    pl_status_t (*finished)(void *context, int32_t request, bool failed);
    /* WHOLE: this tick takes in now who has arrived; who comes at this very
     * time, because others ended in it, may be given here, within the plan. */
    pl_status_t (*arriving)(void *context);
} pl_engine_port_t;

/* When the next tick starts; INT64_MAX: with nothing from outside, never. */
int64_t pl_engine_next_ns(const pl_engine_t *engine);

/* WHOLE, PREFILL: a prompt arrives, of as many tokens as its handover says
 * (pl_handover_of for one that comes from the trace).  PL_OK; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_engine_give(pl_engine_t *engine,
                                         const pl_handover_t *handover,
                                         int64_t at_ns);
pl_handover_t pl_handover_of(const pl_request_t *request, int32_t number);

/* WHOLE, PREFILL: would one that re-enters with so many tokens fit cold into
 * empty lanes?  If not, one line of warning: it is to be recorded as failed. */
bool pl_engine_fits_again(const pl_engine_t *engine, int32_t request,
                          int32_t prompt_tokens);

/* PREFILL: where there was no room there may be some now. */
void pl_engine_nudge(pl_engine_t *engine, int64_t at_ns);

/* PREFILL: operation `op` of port->send has ended. */
void pl_engine_sent(pl_engine_t *engine, int64_t op, int64_t at_ns);

/* DECODE: pages that the roomiest home would have left; below 0: no room. */
int32_t pl_engine_room(const pl_engine_t *engine, int32_t prompt_tokens);
/* DECODE: set pages aside there.  PL_OK; PL_REFUSED_SHORT: there is no room;
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_engine_reserve(pl_engine_t *engine,
                                            int32_t request,
                                            int32_t prompt_tokens);
/* DECODE: which home has them; 0 .. n_decode - 1. */
int32_t pl_engine_home(const pl_engine_t *engine, int32_t request);
/* DECODE: what was set aside is not needed; others may want it. */
PL_MUST_CHECK pl_status_t pl_engine_withdraw(pl_engine_t *engine,
                                             int32_t request, int64_t at_ns);
/* DECODE: the prompt lies in the pages set aside.  Its first token (or the one
 * after those generated) counts as made. */
PL_MUST_CHECK pl_status_t pl_engine_enter(pl_engine_t *engine,
                                          const pl_handover_t *handover,
                                          int64_t at_ns);

/* WHOLE, PREFILL: tokens that a prompt of the source would hit now, on device
 * or host; nothing changes by it.  keys[n_keys]: of its whole pages, as
 * pl_engine_source_t gives them. */
int32_t pl_engine_peek(const pl_engine_t *engine, int32_t request,
                       const pl_page_key_t *keys, int32_t n_keys);

#endif /* PL_ENGINE_PORT_H */
