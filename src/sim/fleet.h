/* sim/fleet.h - several engines in one virtual time: instances of prefill and
 * of decode, a router before them, links between them.
 *
 * Every instance is an engine (engine/port.h) with its own tiers and clock.
 * The router sends each request to one prefill instance when it arrives; a
 * place in the roomiest home of all decode instances is set aside when it is
 * admitted; its pages go there as they are computed.  Without decode instances
 * each prefill instance decodes what it prefilled.
 *
 * A transfer gets the lesser of its share of what its prefill instance can send
 * and of what its home can receive, each divided evenly among the transfers
 * under way there.  Shares change only when one starts or ends; the last byte
 * arrives a latency after it was sent.
 *
 * At the same time transfers end first, then requests arrive, then instances
 * go on, the lowest number first: prefill before decode.
 *
 * Of instances that are equally good for a request the one gets it that got one
 * the longest ago; of those that never did, the lowest number.
 *
 * Integers only, nothing from a clock: the same on every machine.
 */
#ifndef PL_SIM_FLEET_H
#define PL_SIM_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "engine/engine.h"
#include "sim/metrics.h"

/* name, text, in words */
#define PL_ROUTER_LIST(X)                                                      \
    X(PL_ROUTER_ROUND_ROBIN, "round-robin", "one after the other")             \
    X(PL_ROUTER_RANDOM, "random", "by the seed")                               \
    X(PL_ROUTER_BEST_PREFIX, "best-prefix",                                    \
      "the longest hit, then the least loaded")                                \
    X(PL_ROUTER_LEAST_LOADED, "least-loaded",                                  \
      "the least time that its prompts still take")                            \
    X(PL_ROUTER_PREFIX_LOAD, "prefix+load",                                    \
      "the least of that and what the prompt itself takes after its hit")

typedef enum pl_router {
#define PL_ROUTER_ENUM(name, text, words) name,
    PL_ROUTER_LIST(PL_ROUTER_ENUM)
#undef PL_ROUTER_ENUM
        PL_ROUTERS
} pl_router_t;

const char *pl_router_text(pl_router_t router);
const char *pl_router_words(pl_router_t router);

typedef struct pl_fleet_params {
    /* Of each prefill instance: its tiers and policies, n_decode 0, no skip.
     * Port and role are the fleet's to fill. */
    pl_engine_config_t prefill;
    /* Of each decode instance: n_decode homes and their pools. */
    pl_engine_config_t decode;
    int32_t n_prefill; /* instances, >= 1 */
    int32_t n_decode;  /* 0: those of prefill decode too */
    pl_engine_source_t source;
    pl_router_t router;
    uint64_t seed; /* of router random */
    /* What one prefill instance sends at most, and one home receives; >= 1. */
    int64_t send_bytes_per_us, receive_bytes_per_us;
    int64_t link_latency_ns;
    void (*tick)(void *context); /* at the end of each tick of any instance;
                                    NULL: nothing */
    void *tick_context;
} pl_fleet_params_t;

typedef struct pl_fleet pl_fleet_t; /* opaque */

/* A request, wherever it was.  Of pl_record_t
 *   its first prefill says: admitted, first token, hits, misses, cut pages;
 *   its pages: decode_ns, when all had come to its first home;
 *   decode: finished, generated tokens, and decode_ns where it was prefilled;
 *   all instances together: preemptions, reentries, readmissions.
 * Ticks are those of the instance that says so; home: of the decode instance,
 * from 0. */
typedef struct pl_fleet_record {
    pl_record_t record;
    int32_t prefill, decode; /* instances that had it last, as they are numbered
                                below; -1: none */
} pl_fleet_record_t;

/* What requests wait at most, summed over all of them and all instances. */
#define PL_FLEET_MOST_NS (INT64_MAX / 2)

/* What an instance was like, to the end of the run.  A prompt waits where it is
 * prefilled until its first chunk; where it is decoded, until the first step
 * after it has come.  Who re-enters comes as a new one. */
typedef struct pl_fleet_usage {
    int64_t requests;        /* that came */
    int64_t prompt_tokens;   /* of these */
    int64_t computed_tokens; /* by its chunks */
    int64_t steps;           /* decode steps, one token of one request each */
    int64_t prefill_ns;      /* in which it computed chunks */
    int64_t decode_ns;    /* decode steps: of the longest home of each tick */
    int64_t stepping_ns;  /* that, times the requests of all homes that took
                             part in its steps */
    int64_t waiting_ns;   /* sum over all that waited.  Over the run's
                             duration: the mean length of its queue */
    int64_t refused_ns;   /* of these: prefill, while no home had room for
                             the first in the queue */
    int64_t most_waiting; /* at the same time */
    int64_t batch_wait_ns; /* where it is prefilled and decoded: sum over all
                              until their first step, for a place in the batch */
    int64_t refusals;     /* prefill: how often no home had room */
    int64_t sent_bytes, received_bytes; /* over the links between instances */
    int64_t link_ns; /* in which any transfer of its had a share of a link */
} pl_fleet_usage_t;

/* What kept requests waiting, summed over all of them.  The longest of these
 * says which side limits. */
typedef struct pl_fleet_waits {
    int64_t for_prefill_ns;  /* in a queue for their first chunk, while there
                                was a home */
    int64_t for_decode_ns;   /* in a queue while there was none */
    int64_t for_transfer_ns; /* from prefilled to delivered */
    int64_t for_batch_ns;    /* from there to the first step: for the end of the
                                step under way and a place in the batch.  On
                                instances that decode what they prefilled: for
                                the place alone, the first time */
} pl_fleet_waits_t;

/* All instances, with nothing done yet.  Params are copied; what they point at
 * is borrowed.  PL_OK; PL_ERR_ARGUMENT with one line (an eviction policy that
 * reads the trace ahead: no instance knows what will come to it);
 * PL_ERR_RESOURCE with one line (a prompt that fits no instance);
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_fleet_open(const pl_fleet_params_t *params,
                                        const pl_log_t *log,
                                        pl_fleet_t **fleet_p);
void pl_fleet_close(pl_fleet_t *fleet); /* NULL is allowed */

/* To the end of the trace.  PL_OK; PL_ERR_INPUT with one line (virtual time, or
 * what requests wait, is more than can be counted); PL_ERR_INTERNAL with one
 * line; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_fleet_run(pl_fleet_t *fleet);

/* Instances are numbered: those of prefill, then those of decode. */
int32_t pl_fleet_n_instances(const pl_fleet_t *fleet);
const pl_engine_t *pl_fleet_engine(const pl_fleet_t *fleet, int32_t instance);
pl_fleet_usage_t pl_fleet_usage(const pl_fleet_t *fleet, int32_t instance);
pl_fleet_waits_t pl_fleet_waits(const pl_fleet_t *fleet);
/* The same of what is known of instances; transfer_ns: of all requests. */
pl_fleet_waits_t pl_fleet_waits_of(const pl_fleet_usage_t *usages, int32_t n,
                                   int32_t n_prefill, int64_t transfer_ns);
/* Requests that wait at an instance now. */
int32_t pl_fleet_waiting(const pl_fleet_t *fleet, int32_t instance);

/* [n requests of the source], borrowed. */
const pl_fleet_record_t *pl_fleet_records(const pl_fleet_t *fleet);
int64_t pl_fleet_now_ns(const pl_fleet_t *fleet);
int32_t pl_fleet_n_finished(const pl_fleet_t *fleet);

#endif /* PL_SIM_FLEET_H */
