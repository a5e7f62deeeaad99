/* First in, first out: what came into the tier first. */
#include "cache/tree_internal.h"

static uint64_t fifo_value(const pl_node_t *node, int which)
{
    return node->rank[which].place;
}

const pl_policy_ops_t pl_policy_fifo = {
    .name  = "fifo",
    .value = fifo_value,
    .pick  = pl_pick_in_order,
};
