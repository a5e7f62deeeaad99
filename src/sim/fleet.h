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
 * under way there.
 *
 * Integers only, ties by number: the same on every machine.
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
    /* Of each prefill instance: its tiers and policies, n_decode 0.  Port and
     * role are the fleet's to fill. */
    pl_engine_config_t prefill;
    /* Of each decode instance: n_decode homes and their pools. */
    pl_engine_config_t decode;
    int32_t n_prefill; /* instances, >= 1 */
    int32_t n_decode;  /* 0: those of prefill decode too */
    pl_engine_source_t source;
    pl_router_t router;
    uint64_t seed; /* of router random */
    /* What one prefill instance sends at most, and one home receives. */
    int64_t send_bytes_per_us, receive_bytes_per_us;
    int64_t link_latency_ns;
    void (*tick)(void *context); /* at the end of each tick of any instance;
                                    NULL: nothing */
    void *tick_context;
} pl_fleet_params_t;

typedef struct pl_fleet pl_fleet_t; /* opaque */

/* A request, wherever it was: pl_record_t is what all its instances say
 * together (home: of the decode instance, from 0). */
typedef struct pl_fleet_record {
    pl_record_t record;
    int32_t prefill, decode; /* instances that had it last; -1: none */
} pl_fleet_record_t;

/* What an instance was like, over the fleet's duration. */
typedef struct pl_fleet_usage {
    int64_t requests;              /* that it got */
    int64_t prompt_tokens;         /* of these */
    int64_t computed_tokens;       /* prefill */
    int64_t prefill_ns, decode_ns; /* in which it computed one or the other */
    int64_t steps;                 /* decode steps of requests */
    int64_t most_waiting;          /* prompts that waited at the same time */
    int64_t waiting_ns;            /* sum over its prompts, until admitted */
    int64_t sent_bytes, received_bytes;
    int64_t link_ns; /* in which any transfer of its was under way */
} pl_fleet_usage_t;

/* What kept requests waiting the longest, over all of them. */
typedef struct pl_fleet_waits {
    int64_t for_prefill_ns;  /* in a queue, while a home had room */
    int64_t for_decode_ns;   /* in a queue, refused for want of a home */
    int64_t for_transfer_ns; /* first token to start of decode */
} pl_fleet_waits_t;

/* All instances, with nothing done yet.  Params are copied; what they point at
 * is borrowed.  PL_OK; PL_ERR_ARGUMENT; PL_ERR_RESOURCE with one line (a prompt
 * that fits no instance); PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_fleet_open(const pl_fleet_params_t *params,
                                        const pl_log_t *log,
                                        pl_fleet_t **fleet_p);
void pl_fleet_close(pl_fleet_t *fleet); /* NULL is allowed */

/* To the end of the trace.  PL_OK; PL_ERR_INTERNAL with one line;
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_fleet_run(pl_fleet_t *fleet);

/* Instances are numbered: those of prefill, then those of decode. */
int32_t pl_fleet_n_instances(const pl_fleet_t *fleet);
const pl_engine_t *pl_fleet_engine(const pl_fleet_t *fleet, int32_t instance);
pl_fleet_usage_t pl_fleet_usage(const pl_fleet_t *fleet, int32_t instance);
pl_fleet_waits_t pl_fleet_waits(const pl_fleet_t *fleet);

/* [n requests of the source], borrowed. */
const pl_fleet_record_t *pl_fleet_records(const pl_fleet_t *fleet);
int64_t pl_fleet_now_ns(const pl_fleet_t *fleet);
int32_t pl_fleet_n_finished(const pl_fleet_t *fleet);

#endif /* PL_SIM_FLEET_H */
