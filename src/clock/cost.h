/* clock/cost.h - how long things take in virtual time.
 *
 * Virtual time (int64 nanoseconds) is moved only by this table, which is the
 * same in every executor and in the simulator: completions are inputs of the
 * control plane, not observations.  Integer arithmetic only, so that every
 * machine agrees.  Sizes are bytes of one rank, the largest of all ranks.
 *
 * A step (a chunk of a prompt, or one decode step of a home) takes the sum of
 * its parts.  sim/costs.h derives a table from a model and a hardware file.
 */
#ifndef PL_CLOCK_COST_H
#define PL_CLOCK_COST_H

#include <stdbool.h>
#include <stdint.h>

/* What moves pages. */
typedef enum pl_link {
    PL_LINK_H2D,     /* host -> device (load-back) */
    PL_LINK_D2H,     /* device -> host (backup) */
    PL_LINK_PD,      /* prefill -> decode, per home */
    PL_LINK_OFFLOAD, /* decode pool <-> its host buffer, per home */
    PL_LINK_STORE,   /* host -> storage */
    PL_LINK_FETCH,   /* storage -> host */
    PL_LINKS
} pl_link_t;

/* Where the time of a step goes: name, text, in words. */
#define PL_COST_LIST(X)                                                        \
    X(PL_COST_LAUNCH, "launch", "launches and scheduling")                     \
    X(PL_COST_PROJECT, "project", "projections and dense MLPs")                \
    X(PL_COST_INDEX, "index", "indexer")                                       \
    X(PL_COST_TOPK, "topk", "top-k")                                           \
    X(PL_COST_ATTEND, "attend", "sparse attention")                            \
    X(PL_COST_EXPERT, "expert", "experts")                                     \
    X(PL_COST_EXCHANGE, "exchange", "exchange between experts")                \
    X(PL_COST_REDUCE, "reduce", "sums over a home's GPUs")                     \
    X(PL_COST_DRAFT, "draft", "drafts of tokens")                              \
    X(PL_COST_MATERIALIZE, "materialize", "materialize")

typedef enum pl_cost_part {
#define PL_COST_ENUM(name, text, words) name,
    PL_COST_LIST(PL_COST_ENUM)
#undef PL_COST_ENUM
        PL_COST_PARTS
} pl_cost_part_t;

/* One part: step + the longer of floor and the others; or quick_ns and quick_ps
 * for each row, where that is less.  Per row means: of the busiest rank. */
typedef struct pl_cost_rate {
    int64_t step_ns;    /* once a step */
    int64_t floor_ns;   /* weights, read once a step; of experts, all that a
                           rank keeps: those count that any row chose on the
                           rank with most of them */
    int64_t row_ps;     /* per row */
    int64_t context_ps; /* per row and 1,024 tokens that it looks back on */
    int64_t key_ps;     /* per row and 1,024 tokens that it attends to */
    int64_t view_ps;    /* per 1,024 tokens of the request, whatever the rows */
    int64_t before_ps;  /* per 1,024 of these that were there before the step */
    int64_t quick_ns, quick_ps; /* another way for few rows; 0, 0: none */
} pl_cost_rate_t;

typedef struct pl_costs {
    pl_cost_rate_t prefill[PL_COST_PARTS], decode[PL_COST_PARTS];
    /* Multi-token prediction: a decode step makes K = draft_tokens for each
     * request, in as many passes of a row a request, each with these parts, and
     * sends K + 1 rows of each through the model. */
    pl_cost_rate_t draft[PL_COST_PARTS];
    int32_t draft_tokens; /* 0: none */
    /* What the rows of a chunk take in the layer that drafts, so that it has
     * their KV; all 0: they do not go through it. */
    pl_cost_rate_t draft_prompt[PL_COST_PARTS];
    int32_t topk;        /* tokens that a row attends to at most; no longer
                            context needs no indexer.  0: there is no top-k */
    int32_t n_experts;   /* routed experts; 0: none are told apart */
    int32_t row_experts; /* that a row chooses */
    /* GPUs that share them, each with as many rows: those of a home of
     * decode_tp GPUs go from one of these each. */
    int32_t prefill_ep, decode_ep;
    int32_t decode_tp;    /* 0 is 1 */
    int32_t page_tokens;  /* > 0: a chunk is shared out by whole pages of so
                             many tokens; 0: row by row */
    int32_t ahead_layers; /* > 0: each of so many layers is materialized while
                             the one before computes; 0: first, then computed */
    /* Transfers to one home share its link fairly, and all ranks' bytes count:
     * the home's side is the narrow one.  Else, and on every other link, they
     * queue behind each other. */
    bool pd_shares;
    /* What a home does itself to take in a transfer, for each and for each
     * token of it: the tick in which it comes takes so much longer.  0: it goes
     * on beside all else. */
    int64_t take_in_ns, take_in_ps;
    int64_t link_latency_ns[PL_LINKS];
    int64_t link_bytes_per_us[PL_LINKS];
} pl_costs_t;

/* "launch", and "launches and scheduling". */
const char *pl_cost_part_text(pl_cost_part_t part);
const char *pl_cost_part_words(pl_cost_part_t part);
const char *pl_link_text(pl_link_t link);

/* The table in force without --hardware: an 8-GPU H200 node in round numbers
 * (each with its reason in cost.c). */
pl_costs_t pl_costs_builtin(void);

/* One chunk of n_tokens after n_before tokens of context on n_ranks ranks; what
 * comes back is the sum of the parts, which go to parts_ns (may be NULL). */
int64_t pl_cost_chunk_ns(const pl_costs_t *costs, int n_ranks, int32_t n_before,
                         int32_t n_tokens, int64_t parts_ns[PL_COST_PARTS]);

/* Tokens [first, end) of a prompt, chunk by chunk. */
int64_t pl_cost_prompt_ns(const pl_costs_t *costs, int n_ranks,
                          int32_t chunk_tokens, int32_t first, int32_t end);

/* One decode step of n_running requests with context_tokens in all, on the
 * busiest home, drafts included (all passes are PL_COST_DRAFT); 0 and no parts
 * if none runs. */
int64_t pl_cost_decode_ns(const pl_costs_t *costs, int32_t n_running,
                          int64_t context_tokens,
                          int64_t parts_ns[PL_COST_PARTS]);

int64_t pl_cost_link_ns(const pl_costs_t *costs, pl_link_t link, int64_t bytes);

/* A home takes a transfer of n_tokens in. */
int64_t pl_cost_take_in_ns(const pl_costs_t *costs, int64_t n_tokens);

/* Of n places of which each of `tries` draws takes `take` of its own at random,
 * the share that is taken by any, in 2^32nds: 1 - (1 - take/n)^tries.  n >= 1,
 * 0 <= take <= n. */
int64_t pl_cost_taken(int64_t n, int64_t take, int64_t tries);

/* The same of the rank with most, where `ranks` share the places out: what is
 * expected of the largest of so many normal numbers, with the mean and variance
 * that n / ranks places have; at most all. */
int64_t pl_cost_most_taken(int64_t n, int64_t take, int64_t tries,
                           int64_t ranks);

#endif /* PL_CLOCK_COST_H */
