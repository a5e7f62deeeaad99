/* Least often used first, of these the least recently used.  The count is that
 * of the prompts that went through while the node was in the tree, in any tier;
 * it does not age. */
#include "cache/tree_internal.h"

enum { COUNT_SHIFT = 48, MOST_COUNTED = UINT16_MAX };

static uint64_t lfu_value(const pl_node_t *node, int which)
{
    uint64_t count = node->hits < MOST_COUNTED ? node->hits : MOST_COUNTED;

    (void)which;
    return (count << COUNT_SHIFT) | node->last_access;
}

const pl_policy_ops_t pl_policy_lfu = {
    .name     = "lfu",
    .compares = true,
    .value    = lfu_value,
    .pick     = pl_pick_in_order,
};
