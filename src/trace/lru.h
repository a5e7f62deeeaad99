/* trace/lru.h - what an LRU cache of any size would hit of a trace, exactly and
 * in one pass.
 *
 * A cache of c blocks is asked for a request's blocks in order; its hit is the
 * run of cached blocks that it begins with.  Then the whole request is taken
 * in, its deepest block touched first and its root last, so that a prefix never
 * leaves before what stands on it.  Since LRU of c blocks holds what LRU of
 * fewer does, one stack of all blocks answers for every c: a block is hit if
 * its place in the stack, from the top, is at most c (Mattson et al., 1970),
 * and so is every one before it.  Places are counted by a tree of sums over the
 * order of touches: O(log n) a block.
 */
#ifndef PL_TRACE_LRU_H
#define PL_TRACE_LRU_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>
#include <pagelane/trace.h>

typedef struct pl_lru_curve {
    int64_t n_blocks, n_tokens; /* of all prompts */
    int64_t most;        /* capacity, in blocks, that more does not help */
    int64_t *hit_blocks; /* [most + 1] by capacity */
    int64_t *hit_tokens; /* likewise */
} pl_lru_curve_t;

/* Blocks are those of the trace's ids, or page_tokens (>= 1) tokens where it
 * has tokens; partial ones at a prompt's end count.  With `pages`, as an engine
 * counts: whole pages of page_tokens, and at most length-1 tokens are hit.
 * *curve is empty or freed before.  PL_OK, PL_ERR_ARGUMENT (2^31 blocks or more
 * in all prompts; reported), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_lru_curve(const pl_trace_t *trace,
                                       int32_t page_tokens, bool pages,
                                       const pl_log_t *log,
                                       pl_lru_curve_t *curve);
void pl_lru_curve_free(pl_lru_curve_t *curve);

/* Index of a capacity >= 0 in the arrays. */
int64_t pl_lru_curve_at(const pl_lru_curve_t *curve, int64_t capacity);

#endif /* PL_TRACE_LRU_H */
