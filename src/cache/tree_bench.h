/* cache/tree_bench.h - what it costs to match a long prompt.
 *
 * Builds a prefix tree in which a prompt of 100,000 tokens lies in more than
 * 200 split nodes among 50,000 others, all of them backed up, and times the
 * match of its whole pages: with its page keys at hand, and with the keys
 * computed from the tokens as well.  The yardstick, in the same run: memcmp
 * over the same tokens, which is what a match would cost at least if it
 * compared them.
 */
#ifndef PL_CACHE_TREE_BENCH_H
#define PL_CACHE_TREE_BENCH_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* Shape of the measurement, and nanoseconds a call: of each batch of calls the
 * median, of these the best. */
typedef struct pl_tree_bench_result {
    int32_t page_tokens;
    int32_t n_pages; /* matched in a call */
    int64_t n_bytes; /* of tokens in them */
    int32_t n_path;  /* nodes they lie in */
    int64_t n_nodes; /* in the tree */

    double match_ns;      /* keys at hand */
    double keys_match_ns; /* XXH3-128 of each page's tokens, and the match */
    double memcmp_ns;     /* yardstick */
} pl_tree_bench_result_t;

/* Not collective.  A second or so.  The tree follows from `seed`.  PL_OK,
 * PL_ERR_MEMORY, PL_ERR_INTERNAL (a match that finds less than the prompt). */
PL_MUST_CHECK pl_status_t pl_tree_bench(const pl_log_t *log, uint64_t seed,
                                        pl_tree_bench_result_t *result_p);

#endif /* PL_CACHE_TREE_BENCH_H */
