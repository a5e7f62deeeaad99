/* Of the eight leaves that were used least recently, the one with the largest
 * share of its pages in lanes that have fewer free pages than the mean. */
#include "cache/tree_internal.h"

enum { MOST_LOOKED_AT = 8 };

static uint64_t lane_value(const pl_node_t *node, int which)
{
    (void)which;
    return node->last_access;
}

/* is_short[lane]: fewer pages are free there than in the mean. */
static void find_short(const pl_tree_t *tree, const pl_pick_t *pick,
                       bool *is_short)
{
    int64_t n_free[PL_MAX_RANKS];
    int64_t sum = 0;

    for (int lane = 0; lane < tree->n_lanes; lane++) {
        n_free[lane] = pick->free_pages(pick->context, lane);
        sum += n_free[lane];
    }
    for (int lane = 0; lane < tree->n_lanes; lane++) {
        is_short[lane] = n_free[lane] * tree->n_lanes < sum;
    }
}

static int64_t count_short(const pl_tree_t *tree, const pl_node_t *node,
                           int which, const bool *is_short)
{
    const pl_page_t *pages =
        which == PL_TREE_DEVICE ? node->device : node->host.pages;
    int64_t n = 0;

    for (int32_t i = 0; i < node->n_pages; i++) {
        n += is_short[pl_page_owner(pages[i], tree->n_lanes)] ? 1 : 0;
    }
    return n;
}

static pl_node_t *lane_pick(pl_tree_t *tree, pl_pick_t *pick)
{
    bool is_short[PL_MAX_RANKS];
    int which       = pick->which;
    pl_node_t *best = NULL;
    int64_t n_best  = 0; /* pages of it in short lanes */
    int n_seen      = 0;
    pl_node_t *leaf;

    /* What stands up to pick->at cannot help; but a new leaf may. */
    pl_pick_rewind(pick, 0);
    find_short(tree, pick, is_short);
    leaf = pl_tree_after(tree, which, pick->at[0].value, pick->at[0].id);
    for (; (leaf != NULL) && (n_seen < MOST_LOOKED_AT) &&
           (leaf->link[which].value < pick->limit);
         leaf = pl_tree_next(tree, which, leaf)) {
        int64_t n;

        if (!pick->helps(pick->context, leaf)) {
            pick->at[0] = n_seen == 0 ? pl_spot_of(leaf, which) : pick->at[0];
            continue;
        }
        n_seen++;
        n = count_short(tree, leaf, which, is_short);
        if ((best == NULL) || (n * best->n_pages > n_best * leaf->n_pages)) {
            best   = leaf;
            n_best = n;
        }
    }
    return best;
}

const pl_policy_ops_t pl_policy_lane_aware = {
    .name     = "lane-aware",
    .compares = true,
    .value    = lane_value,
    .pick     = lane_pick,
};
