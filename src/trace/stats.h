/* trace/stats.h - what is in a trace, and what any cache could hit of it.
 *
 * The ceilings are those of an infinite cache of blocks: a request hits its
 * leading blocks that an earlier request (of its namespace) had, in order of
 * arrival, each request entered before the next is looked up.  They are given
 * under four definitions, since published numbers use all of them:
 *   block ratio       hit blocks / all blocks
 *   token ratio       tokens in hit blocks / all input tokens
 *   full-block ratio  hit blocks / blocks that are full
 *   request ratio     mean over requests of (tokens in hit blocks / input)
 * A block is that of the file's ids, or page_size tokens where the file has
 * tokens; the last block of a prompt may be partial, and then counts as a hit
 * if its id came before, or where the file has tokens if the same tokens did,
 * ending there.
 *
 * What an engine with unlimited tiers hits is a little less: whole pages of
 * page_size tokens, at most length-1 tokens (one is always computed).
 *
 * The struct is plain numbers, ready to be printed; nothing here prints.
 */
#ifndef PL_TRACE_STATS_H
#define PL_TRACE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>
#include <pagelane/trace.h>

/* Percentiles by nearest rank: the smallest value that at least p % of the
 * values do not exceed. */
typedef struct pl_trace_lengths {
    int64_t total;
    double mean;
    int32_t min, p50, p90, p99, max;
} pl_trace_lengths_t;

typedef struct pl_trace_stats {
    bool has_prefixes; /* false: the file does not tell which prompts begin
                          alike; nothing below is counted from n_blocks on */
    int32_t n_requests;
    int32_t n_waiting;     /* of them, that wait for others */
    int32_t n_name_spaces; /* distinct ones, "none" among them */

    /* Arrivals by the file's timestamps, whether the trace is paced or not. */
    int64_t duration_ns;   /* first to last arrival */
    int32_t n_arrivals;    /* distinct times */
    int32_t max_at_once;   /* most requests that share one */
    double requests_per_s; /* n_requests / duration; 0 if that is 0 */

    pl_trace_lengths_t input;  /* tokens */
    pl_trace_lengths_t output; /* tokens */

    int32_t block_tokens;    /* at most, of ids that stand for different numbers
                              */
    int64_t n_blocks;        /* over all requests, partial ones included */
    int64_t n_full_blocks;   /* those of block_tokens tokens */
    int64_t n_unique_blocks; /* distinct ids (or prefixes of blocks) */
    int64_t n_once_blocks;   /* that exactly one request has */
    int64_t n_first_blocks;  /* distinct blocks that prompts start with */

    int64_t hit_blocks;      /* in an infinite cache */
    int64_t hit_full_blocks; /* of these, the full ones */
    int64_t hit_tokens;
    int32_t n_full_hits; /* requests hit whole */
    double block_ratio, token_ratio, full_block_ratio, request_ratio;

    int32_t page_size;
    int64_t page_hit_tokens; /* by an engine with unlimited tiers */
    int64_t page_hit_blocks; /* full blocks within them */
    double page_token_ratio, page_request_ratio;
} pl_trace_stats_t;

/* Not collective.  PL_OK, PL_ERR_ARGUMENT (page_size < 1), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_trace_stats(const pl_trace_t *trace,
                                         int32_t page_size, const pl_log_t *log,
                                         pl_trace_stats_t *stats_p);

#endif /* PL_TRACE_STATS_H */
