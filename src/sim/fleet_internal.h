/* sim/fleet_internal.h - the state of a fleet; for its own files only.
 *
 *   fleet.c        opening, the order of events, what is read from outside
 *   fleet_port.c   what instances say, and requests on their way between them
 *   fleet_route.c  which prefill instance a request goes to
 *   fleet_links.c  transfers that share links
 */
#ifndef PL_SIM_FLEET_INTERNAL_H
#define PL_SIM_FLEET_INTERNAL_H

#include "base/array.h"
#include "engine/port.h"
#include "engine/turns.h"
#include "sim/fleet.h"
#include "sim/knockout.h"

typedef struct pl_fleet_instance {
    pl_fleet_t *fleet;
    pl_engine_t *engine;
    pl_engine_port_t port;
    int32_t number;
    pl_fleet_usage_t usage;   /* but for what the engine counts */
    int64_t load_ns;          /* that its prompts will take: of those given and
                                 not yet prefilled */
    int64_t given_at;         /* fleet->n_given when it got its last request;
                                 0: it never did */
    int64_t n_waiting;        /* for their first chunk or step */
    int64_t waiting_since_ns; /* usage has what they waited until then */
    int32_t refused_tokens; /* of the prompt that found no home; 0: none did */
    int32_t n_transfers;    /* that have a share of a link */
    int64_t transfers_since_ns;
} pl_fleet_instance_t;

/* A request on its way. */
typedef struct pl_fleet_live {
    pl_handover_t handover; /* as it was given */
    int64_t load_ns;        /* that it is of its instance's load */
    int64_t prefilled_ns;
    int32_t waits_at; /* instance in whose queue it is counted; -1: none */
    int32_t n_sends;  /* under way */
    bool all_sent;    /* none will follow */
    bool has_left;    /* its prefill instance, which has forgotten it */
    bool comes_back;  /* once it has: with `handover` */
    bool has_stepped;
} pl_fleet_live_t;

/* Bytes on their way.  Milli-bytes, since a byte a microsecond is one a
 * nanosecond. */
typedef struct pl_transfer {
    int64_t op;
    int32_t request;
    int32_t from, to; /* instances */
    int32_t home;     /* of those of all decode instances */
    int64_t left;     /* milli-bytes, at since_ns */
    int64_t since_ns;
    int64_t bytes_per_us; /* it has one of so many shares of that */
    int32_t shares;
    int64_t end_ns; /* of its share, if nothing changes */
} pl_transfer_t;

/* All sent, and not yet there. */
typedef struct pl_flying {
    int64_t op;
    int32_t request;
    int64_t at_ns;
    int32_t from;
} pl_flying_t;

typedef struct pl_links {
    PL_ARRAY(pl_transfer_t) sharing; /* in the order in which they started */
    int64_t first_end_ns;            /* of these; INT64_MAX: there are none */
    PL_ARRAY(pl_flying_t) flying;    /* by arrival, from flying_head on */
    size_t flying_head;              /* no more than are left */
    int32_t *n_sent;     /* [n_prefill] of sharing, from that instance */
    int32_t *n_received; /* [homes of all decode instances] to that home */
} pl_links_t;

struct pl_fleet {
    pl_fleet_params_t params;
    const pl_log_t *log;
    int32_t n_instances;
    pl_fleet_instance_t *instances; /* [n_instances]; they do not move */
    pl_knockout_t by_time;          /* instances, by when they go on */
    pl_knockout_t by_room; /* those of decode from 0: the most room first, then
                              who got a request the longest ago */
    pl_turns_t turns;
    pl_fleet_record_t *records; /* [source.count] */
    pl_fleet_live_t *live;      /* [source.count] */
    pl_links_t links;
    int64_t transfer_ns; /* that requests waited for their transfers */
    int64_t waited_ns;   /* for whatever, all of them */
    bool waits_too_long; /* more than PL_FLEET_MOST_NS */
    int64_t now_ns;
    int32_t n_finished;
    int32_t next;      /* instance, of round-robin */
    int64_t n_given;   /* places that requests got so far, to prefill or decode
                          in: of equal instances the one is taken that got one
                          the longest ago */
    int32_t n_refused; /* prefill instances that wait for a home */
    PL_ARRAY(int32_t)
    back; /* who came back before its prefill instance let it
             go, and may be given now */
    PL_ARRAY(pl_page_key_t) keys; /* scratch: of the prompt that is routed */
    PL_ARRAY(uint64_t) outcome;   /* scratch: zeros */
};

/* ---- fleet.c ---- */

/* An engine was told something, or has ticked: it may go on at another time,
 * and have other room. */
void pl_fleet_changed(pl_fleet_t *fleet, int32_t instance);
/* The same, and what it was told is that a request comes to it. */
void pl_fleet_given(pl_fleet_t *fleet, int32_t instance);

/* Those whose turn it is now. */
PL_MUST_CHECK pl_status_t pl_fleet_arrivals(pl_fleet_t *fleet);

/* ---- fleet_port.c ---- */

void pl_fleet_fill_port(pl_fleet_instance_t *instance);

/* Route a prompt and hand it over, now. */
PL_MUST_CHECK pl_status_t pl_fleet_give(pl_fleet_t *fleet,
                                        const pl_handover_t *handover);
/* Those of fleet->back: an instance takes nothing within a plan of its own. */
PL_MUST_CHECK pl_status_t pl_fleet_give_back(pl_fleet_t *fleet);
/* It has begun where it waited: its first chunk or step is planned. */
void pl_fleet_begun(pl_fleet_t *fleet, int32_t instance, int32_t request);
/* It makes a step. */
void pl_fleet_stepped(pl_fleet_t *fleet, int32_t instance, int32_t request);
/* A send of its has ended, now. */
PL_MUST_CHECK pl_status_t pl_fleet_sent(pl_fleet_t *fleet, int32_t request);
/* A decode instance may have room again: wake those that were refused. */
void pl_fleet_nudge(pl_fleet_t *fleet);

/* ---- fleet_route.c ---- */

/* *load_ns_p: what the prompt adds to the load of that instance. */
PL_MUST_CHECK pl_status_t pl_fleet_route(pl_fleet_t *fleet,
                                         const pl_handover_t *handover,
                                         int32_t *instance_p,
                                         int64_t *load_ns_p);

/* ---- fleet_links.c ---- */

PL_MUST_CHECK pl_status_t pl_links_open(pl_fleet_t *fleet);
void pl_links_close(pl_links_t *links);
/* When a share ends or bytes arrive; INT64_MAX: nothing is on its way. */
int64_t pl_links_next_ns(const pl_links_t *links);
/* From one instance to the home that the request has, now. */
PL_MUST_CHECK pl_status_t pl_links_start(pl_fleet_t *fleet, int32_t from,
                                         int32_t request, int64_t op,
                                         int64_t bytes);
/* What ends now. */
PL_MUST_CHECK pl_status_t pl_links_advance(pl_fleet_t *fleet);

#endif /* PL_SIM_FLEET_INTERNAL_H */
