/* clock/cost.h - how long things take in virtual time.
 *
 * Virtual time (int64 nanoseconds) is moved only by this table, which is the
 * same in every executor and in the simulator: completions are inputs of the
 * control plane, not observations.  Integer arithmetic only, so that every
 * machine agrees.  Sizes are bytes of one rank, the largest of all ranks.
 */
#ifndef PL_CLOCK_COST_H
#define PL_CLOCK_COST_H

#include <stdint.h>

/* What moves pages; operations on one link queue behind each other. */
typedef enum pl_link {
    PL_LINK_H2D,     /* host -> device (load-back) */
    PL_LINK_D2H,     /* device -> host (backup) */
    PL_LINK_PD,      /* prefill -> decode, per home */
    PL_LINK_OFFLOAD, /* decode pool <-> its host buffer, per home */
    PL_LINK_STORE,   /* host -> storage */
    PL_LINK_FETCH,   /* storage -> host */
    PL_LINKS
} pl_link_t;

typedef struct pl_costs {
    int64_t tick_ns;            /* fixed part of a tick that computes */
    int64_t prefill_token_ns;   /* per token and rank */
    int64_t prefill_context_ps; /* per (token, 1,024 tokens of context) */
    int64_t decode_step_ns;     /* fixed part of a decode step */
    int64_t decode_request_ns;  /* per running request */
    int64_t decode_context_ps;  /* per 1,024 tokens of context, request */
    int64_t link_latency_ns[PL_LINKS];
    int64_t link_bytes_per_us[PL_LINKS];
} pl_costs_t;

/* The table in force without --hardware: an 8-GPU H200 node in round numbers
 * (each with its reason in cost.c). */
pl_costs_t pl_costs_builtin(void);

/* One chunk of n_tokens after n_before tokens of context on n_ranks ranks. */
int64_t pl_cost_chunk_ns(const pl_costs_t *costs, int n_ranks, int32_t n_before,
                         int32_t n_tokens);

/* One decode step of n_running requests with context_tokens in all, on the
 * busiest home. */
int64_t pl_cost_decode_ns(const pl_costs_t *costs, int32_t n_running,
                          int64_t context_tokens);

int64_t pl_cost_link_ns(const pl_costs_t *costs, pl_link_t link, int64_t bytes);

#endif /* PL_CLOCK_COST_H */
