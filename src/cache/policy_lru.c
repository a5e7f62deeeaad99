/* Least recently used first: the last match or insert that went through. */
#include "cache/policy.h"

#include "cache/tree.h"

static uint64_t lru_value(const pl_node_t *node)
{
    return node->last_access;
}

const pl_policy_ops_t pl_policy_lru = {
    .name  = "lru",
    .value = lru_value,
};
