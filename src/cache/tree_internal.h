/* cache/tree_internal.h - the state behind cache/tree.h, and its parts:
 *   tree.c           opening, nodes, match, insert, split
 *   tree_children.c  which child begins with a key
 *   tree_order.c     the ordered sets of leaves
 *   tree_copies.c    references and copies, and the counts that follow them
 *   tree_check.c     recount and state hash
 */
#ifndef PL_CACHE_TREE_INTERNAL_H
#define PL_CACHE_TREE_INTERNAL_H

#include <stddef.h>

#include "base/hash.h"
#include "cache/tree.h"

struct pl_tree {
    int32_t page_tokens;
    int n_lanes;
    const pl_policy_ops_t *policy;
    void *policy_state; /* NULL: it has none */
    uint64_t places;    /* given out so far: the newest place of any queue */
    pl_tree_observer_t observer;
    const pl_log_t *log;

    pl_node_t *root;
    pl_node_t *newest; /* end of the list by id; the root is its start */
    int64_t n_nodes;
    int64_t next_id;
    uint64_t clock;

    pl_node_t **buckets; /* [n_buckets] children by (parent, first key) */
    size_t n_buckets;    /* a power of two */

    pl_node_t *order[2]; /* roots of two treaps: PL_TREE_DEVICE, PL_TREE_HOST */

    int64_t *unlocked, *locked; /* [n_lanes] device pages */
};

/* --- tree_children.c: a hash table whose order decides nothing. */

/* Room for n more children. */
pl_status_t pl_tree_children_reserve(pl_tree_t *tree, int64_t n);
pl_node_t *pl_tree_child(const pl_tree_t *tree, const pl_node_t *parent,
                         uint64_t name_space, pl_page_key_t first);
/* Hang `node` (keys, name_space set) below parent, and take it off again; the
 * caller keeps the counts of children with copies. */
void pl_tree_attach(pl_tree_t *tree, pl_node_t *parent, pl_node_t *node);
void pl_tree_detach(pl_tree_t *tree, pl_node_t *node);

/* --- tree_order.c */

/* The predicates of the two sets, from a node's state. */
bool pl_tree_evictable(const pl_node_t *node);
bool pl_tree_droppable(const pl_node_t *node);
/* Bring membership and value of a node in both sets up to date. */
void pl_tree_reorder(pl_tree_t *tree, pl_node_t *node);

/* --- tree_order.c, for the policies */

static inline bool pl_tree_is_in(const pl_node_t *node, int which)
{
    return which == PL_TREE_DEVICE ? node->device != NULL
                                   : node->host.n_pages > 0;
}

/* The value of a place in one of two queues: all of queue 0 comes first. */
static inline uint64_t pl_rank_value(uint8_t queue, uint64_t place)
{
    return ((uint64_t)queue << 63) | place;
}

static inline pl_spot_t pl_spot_of(const pl_node_t *leaf, int which)
{
    return (pl_spot_t){leaf->link[which].value, leaf->id};
}

/* Does the leaf stand before the place? */
bool pl_stands_before(const pl_node_t *leaf, int which, pl_spot_t place);
/* If the parent of the last victim stands before the walk of its queue, the
 * walk goes on from there: it missed its turn. */
void pl_pick_rewind(pl_pick_t *pick, int queue);
/* The next leaf that helps, lowest first: a policy's pick whose values say all.
 */
pl_node_t *pl_pick_in_order(pl_tree_t *tree, pl_pick_t *pick);
/* The hash at a node's start. */
uint64_t pl_tree_chain_before(const pl_tree_t *tree, const pl_node_t *node);
/* A recount: pages of all nodes of the tier in that queue. */
int64_t pl_tree_queue_pages(const pl_tree_t *tree, int which, uint8_t queue);

/* --- tree_copies.c */

/* The node has no copy left: it leaves the tree. */
void pl_tree_remove(pl_tree_t *tree, pl_node_t *node);
void pl_tree_node_free(pl_node_t *node); /* not in the tree */

#endif /* PL_CACHE_TREE_INTERNAL_H */
