/* cache/policy.h - which leaf goes first.  One policy, one file.
 *
 * The tree keeps its evictable leaves ordered by (policy value, node id),
 * lowest first; a policy says what the value is.  It comes from what the tree
 * keeps of a node (last_access, created, hits): the logical clock and counters,
 * never wall time.
 */
#ifndef PL_CACHE_POLICY_H
#define PL_CACHE_POLICY_H

#include <stdint.h>

struct pl_node;

typedef struct pl_policy_ops {
    const char *name; /* --evict */
    /* The order of `node` among evictable leaves: lower is evicted earlier. */
    uint64_t (*value)(const struct pl_node *node);
} pl_policy_ops_t;

extern const pl_policy_ops_t pl_policy_lru; /* last access, logical clock */

/* The policy of that name, or NULL. */
const pl_policy_ops_t *pl_policy_find(const char *name);

#endif /* PL_CACHE_POLICY_H */
