/* Segmented LRU (Karedla, Love and Wherry, 1994): what was accessed since it
 * came is protected; of what is protected beyond its share, the least recently
 * used goes back to the newest end of the others. */
#include "cache/tree_internal.h"

#include <stdlib.h>

enum { PROBATION, PROTECTED, PROTECTED_PERCENT = 80 };

typedef struct slru {
    struct slru_tier {
        int64_t share; /* pages that are protected at most */
        int64_t pages; /* that are */
        pl_node_t *oldest, *newest;
    } tiers[2];
} slru_t;

static uint64_t slru_value(const pl_node_t *node, int which)
{
    const pl_rank_t *rank = &node->rank[which];

    return pl_rank_value(rank->queue, rank->place);
}

static pl_status_t slru_open(const pl_policy_params_t *params, void **state_p)
{
    slru_t *slru = calloc(1, sizeof(*slru));

    if (slru == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int which = 0; which < 2; which++) {
        slru->tiers[which].share =
            params->pages[which] * PROTECTED_PERCENT / 100;
    }
    *state_p = slru;
    return PL_OK;
}

static struct slru_tier *tier_of(const pl_tree_t *tree, int which)
{
    slru_t *slru = tree->policy_state;

    return &slru->tiers[which];
}

/* Put `node` into the list behind `older` (NULL: it is the oldest). */
static void link_behind(struct slru_tier *tier, int which, pl_node_t *older,
                        pl_node_t *node)
{
    pl_rank_t *rank = &node->rank[which];

    rank->older = older;
    rank->newer = older != NULL ? older->rank[which].newer : tier->oldest;
    *(older != NULL ? &older->rank[which].newer : &tier->oldest) = node;
    *(rank->newer != NULL ? &rank->newer->rank[which].older : &tier->newest) =
        node;
}

static void unlink_node(struct slru_tier *tier, int which, pl_node_t *node)
{
    pl_rank_t *rank = &node->rank[which];

    *(rank->older != NULL ? &rank->older->rank[which].newer : &tier->oldest) =
        rank->newer;
    *(rank->newer != NULL ? &rank->newer->rank[which].older : &tier->newest) =
        rank->older;
    rank->older = NULL;
    rank->newer = NULL;
}

/* It goes back to the newest end of those on probation. */
static void demote(pl_tree_t *tree, struct slru_tier *tier, int which)
{
    pl_node_t *node = tier->oldest;

    unlink_node(tier, which, node);
    tier->pages -= node->n_pages;
    node->rank[which].queue = PROBATION;
    node->rank[which].place = ++tree->places;
    pl_tree_reorder(tree, node);
}

static void slru_hit(pl_tree_t *tree, pl_node_t *node, int which)
{
    struct slru_tier *tier = tier_of(tree, which);

    if (node->rank[which].queue == PROTECTED) {
        unlink_node(tier, which, node);
    } else {
        node->rank[which].queue = PROTECTED;
        tier->pages += node->n_pages;
    }
    link_behind(tier, which, tier->newest, node);
    node->rank[which].place = ++tree->places;
    pl_tree_reorder(tree, node);
    while (tier->pages > tier->share) {
        demote(tree, tier, which);
    }
}

static void slru_leave(pl_tree_t *tree, pl_node_t *node, int which)
{
    if (node->rank[which].queue == PROTECTED) {
        unlink_node(tier_of(tree, which), which, node);
        tier_of(tree, which)->pages -= node->n_pages;
    }
}

/* The head is as old as its other half, and goes after it. */
static void slru_split(pl_tree_t *tree, pl_node_t *head, pl_node_t *node)
{
    for (int which = 0; which < 2; which++) {
        if (pl_tree_is_in(node, which) &&
            (node->rank[which].queue == PROTECTED)) {
            link_behind(tier_of(tree, which), which, node, head);
        }
    }
}

static uint64_t slru_hash(const void *state)
{
    const slru_t *slru = state;

    return pl_fold64((uint64_t)slru->tiers[0].pages,
                     (uint64_t)slru->tiers[1].pages);
}

static const char *slru_fault(const pl_tree_t *tree)
{
    for (int which = 0; which < 2; which++) {
        const struct slru_tier *tier = tier_of(tree, which);
        const pl_node_t *last        = NULL;
        int64_t pages                = 0;

        for (const pl_node_t *node = tier->oldest; node != NULL;
             node                  = node->rank[which].newer) {
            if ((node->rank[which].older != last) ||
                (node->rank[which].queue != PROTECTED) ||
                ((last != NULL) &&
                 (last->rank[which].place > node->rank[which].place))) {
                return "slru: the list of what is protected is broken";
            }
            last = node;
            pages += node->n_pages;
        }
        if ((last != tier->newest) || (pages != tier->pages) ||
            (pages != pl_tree_queue_pages(tree, which, PROTECTED)) ||
            (pages > tier->share)) {
            return "slru: it miscounts what is protected";
        }
    }
    return NULL;
}

const pl_policy_ops_t pl_policy_slru = {
    .name  = "slru",
    .value = slru_value,
    .pick  = pl_pick_in_order,
    .open  = slru_open,
    .close = free,
    .leave = slru_leave,
    .hit   = slru_hit,
    .split = slru_split,
    .hash  = slru_hash,
    .fault = slru_fault,
};
