/* Least recently used first: the last match or insert that went through. */
#include "cache/tree_internal.h"

static uint64_t lru_value(const pl_node_t *node, int which)
{
    (void)which;
    return node->last_access;
}

const pl_policy_ops_t pl_policy_lru = {
    .name     = "lru",
    .compares = true,
    .value    = lru_value,
    .pick     = pl_pick_in_order,
};
