/* Victims, in either tier, and how nodes lose copies and leave the tree.
 *
 * Eviction is aimed at lanes.  A leaf of the tier qualifies if it, or a node
 * above it that can be freed once it is gone, holds a page of a lane that needs
 * pages; of those that do the policy says which is next, and of a leaf that
 * holds such pages only the shortest suffix goes that covers the need (or all
 * that the leaf can give).  A leaf that did not qualify never will within one
 * eviction, since needs only shrink: so one walk up a policy's order is enough,
 * and it looks back only at the parent of the last victim, which has become a
 * leaf. */
#include "cache/hicache_internal.h"

#include <string.h>

/* ---- losing copies ---- */

/* Take a node's pages out of a tier; `is_held`: a copy without anchor keeps
 * them until its end (stores without one keep host pages too). */
static pl_status_t drop_copy(pl_hicache_t *cache, pl_node_t *node, int tier,
                             bool is_held)
{
    int64_t id  = node->id;
    bool leaves = pl_cache_pages(node, 1 - tier) == NULL;

    if (leaves) {
        PL_TRY(pl_cache_lost_add(cache, node));
    }
    pl_cache_emit(cache,
                  tier == PL_TREE_DEVICE ? PL_EVENT_EVICT : PL_EVENT_HOST_DROP,
                  node, 0, 0, 0);
    if (!is_held && (tier == PL_TREE_DEVICE)) {
        PL_TRY(pl_cache_give_back(cache, tier, node->device, node->n_pages));
    } else if (!is_held) {
        PL_TRY(pl_cache_give_back_host(cache, node->host.pages, node->n_pages));
    }
    if (tier == PL_TREE_DEVICE) {
        cache->counters.evictions++;
        cache->counters.evicted_pages += node->n_pages;
        pl_tree_drop_device(cache->tree, node);
    } else {
        cache->counters.host_drops++;
        cache->counters.host_dropped_pages += node->n_pages;
        pl_tree_drop_host(cache->tree, node);
    }
    if (leaves) {
        pl_event_t event = pl_event_make(PL_EVENT_REMOVE);

        event.tick    = cache->tick;
        event.request = cache->request;
        event.node    = id;
        pl_event_emit(&cache->params.events, &event);
    }
    return PL_OK;
}

pl_status_t pl_cache_drop_device(pl_hicache_t *cache, pl_node_t *node)
{
    return drop_copy(cache, node, PL_TREE_DEVICE, false);
}

pl_status_t pl_cache_drop_host(pl_hicache_t *cache, pl_node_t *node)
{
    return drop_copy(cache, node, PL_TREE_HOST, false);
}

/* A childless node loses all its copies. */
static pl_status_t discard(pl_hicache_t *cache, pl_node_t *node)
{
    bool is_held = (node->write_op != 0) || (node->load_op != 0);
    bool on_both = (node->device != NULL) && (node->host.n_pages > 0);

    if (is_held) {
        pl_tree_set_write_op(cache->tree, node, 0);
        pl_tree_set_load_op(cache->tree, node, 0);
    }
    if (on_both) {
        PL_TRY(drop_copy(cache, node, PL_TREE_HOST, is_held));
    }
    return drop_copy(cache, node,
                     node->device != NULL ? PL_TREE_DEVICE : PL_TREE_HOST,
                     is_held);
}

pl_status_t pl_cache_remove(pl_hicache_t *cache, pl_node_t *node)
{
    pl_node_t *above = node->parent;
    pl_node_t *at    = node;

    /* Children before parents, without recursion: paths are long. */
    while (at != above) {
        pl_node_t *parent = at->parent;

        if (at->first_child != NULL) {
            at = at->first_child;
            continue;
        }
        PL_TRY(discard(cache, at));
        at = parent;
    }
    return PL_OK;
}

pl_node_t *pl_cache_skip_below(const pl_node_t *top, const pl_node_t *at)
{
    while ((at != top) && (at->next_sibling == NULL)) {
        at = at->parent;
    }
    return at == top ? NULL : at->next_sibling;
}

pl_node_t *pl_cache_next_below(const pl_node_t *top, const pl_node_t *at)
{
    return at->first_child != NULL ? at->first_child
                                   : pl_cache_skip_below(top, at);
}

bool pl_cache_is_pinned_below(const pl_node_t *node)
{
    for (const pl_node_t *at = pl_cache_next_below(node, node); at != NULL;
         at                  = pl_cache_next_below(node, at)) {
        if (at->pin_ref > 0) {
            return true;
        }
    }
    return false;
}

/* ---- qualification ---- */

/* One eviction: in which tier, and what stays there: what has that policy value
 * or more, and the path down to a node. */
typedef struct hunt {
    pl_hicache_t *cache;
    int which; /* PL_TREE_DEVICE, PL_TREE_HOST */
    uint64_t limit;
    const pl_node_t *keep; /* NULL: no path */
    const int32_t *deficits;
} hunt_t;

/* Is a page still needed that eviction could free? */
static bool is_short(const hunt_t *hunt)
{
    const pl_hicache_t *cache = hunt->cache;
    const int32_t *need       = cache->tiers[hunt->which].need;

    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        if ((need[lane] > 0) && ((hunt->which == PL_TREE_HOST) ||
                                 (pl_tree_unlocked(cache->tree, lane) > 0))) {
            return true;
        }
    }
    return false;
}

static bool holds_needed(const hunt_t *hunt, const pl_node_t *node)
{
    const pl_hicache_t *cache = hunt->cache;
    const int32_t *need       = cache->tiers[hunt->which].need;
    const pl_page_t *pages    = pl_cache_pages(node, hunt->which);

    for (int32_t i = 0; i < node->n_pages; i++) {
        if (need[pl_page_owner(pages[i], cache->params.n_lanes)] > 0) {
            return true;
        }
    }
    return false;
}

/* Can the node's copy go as soon as those below it are gone?  Below a node that
 * nobody has locked, nobody has locked anything. */
static bool can_go(const hunt_t *hunt, const pl_node_t *node)
{
    if (hunt->which == PL_TREE_DEVICE) {
        return (node->device != NULL) && (node->lock_ref == 0);
    }
    return pl_cache_is_backed_up(node) && (node->pin_ref == 0) &&
           (pl_tree_value(hunt->cache->tree, node, hunt->which) <
            hunt->limit) &&
           ((hunt->keep == NULL) || !pl_cache_is_within(hunt->keep, node));
}

static bool qualifies(const void *context, const pl_node_t *leaf)
{
    const hunt_t *hunt    = context;
    const pl_node_t *node = leaf;

    if ((hunt->which == PL_TREE_DEVICE) && !pl_cache_is_backed_up(leaf) &&
        pl_cache_is_pinned_below(leaf)) {
        return false; /* it would take along what others are about to load */
    }
    while (can_go(hunt, node)) {
        if (holds_needed(hunt, node)) {
            return true;
        }
        node = node->parent;
    }
    return false;
}

/* Where the shortest suffix begins that covers the need, or all of it that the
 * leaf can give; 0 (all of the leaf) if it can give none. */
static int32_t suffix_start(const hunt_t *hunt, const pl_node_t *leaf)
{
    const pl_cache_tier_t *tier = &hunt->cache->tiers[hunt->which];
    int n_lanes                 = hunt->cache->params.n_lanes;
    const pl_page_t *pages      = pl_cache_pages(leaf, hunt->which);
    int32_t start               = 0;

    memcpy(tier->left, tier->need, (size_t)n_lanes * sizeof(*tier->left));
    for (int32_t i = leaf->n_pages - 1; i >= 0; i--) {
        pl_owner_t lane = pl_page_owner(pages[i], n_lanes);

        if (tier->left[lane] > 0) {
            tier->left[lane]--;
            start = i;
        }
    }
    return start;
}

/* These pages are freed or promised: less is needed. */
static void note_victim(const hunt_t *hunt, const pl_node_t *leaf)
{
    pl_hicache_t *cache    = hunt->cache;
    const pl_page_t *pages = pl_cache_pages(leaf, hunt->which);

    for (int32_t i = 0; i < leaf->n_pages; i++) {
        pl_owner_t lane = pl_page_owner(pages[i], cache->params.n_lanes);
        int32_t *need   = &cache->tiers[hunt->which].need[lane];

        *need -= *need > 0 ? 1 : 0;
        if ((hunt->which == PL_TREE_DEVICE) && (hunt->deficits[lane] == 0)) {
            cache->counters.lane_collateral_pages++;
        }
    }
}

/* ---- victims ---- */

/* What write-backs under way will free counts as free. */
static int64_t free_pages(const void *context, int lane)
{
    const hunt_t *hunt        = context;
    const pl_hicache_t *cache = hunt->cache;
    int64_t n_free = pl_lanes_free_count(cache->tiers[hunt->which].lanes, lane);

    return n_free + (hunt->which == PL_TREE_DEVICE ? cache->promised[lane] : 0);
}

/* A leaf is written back, whose pages can go on to storage only if all before
 * them are on the host: those that are not are backed up as well, from the root
 * on, as far as there is room. */
static pl_status_t back_up_prefix(pl_hicache_t *cache, const pl_node_t *leaf)
{
    const pl_node_t *root = pl_tree_root(cache->tree);
    pl_status_t status    = PL_OK;

    if ((cache->params.storage == NULL) ||
        pl_storage_is_read_only(cache->params.storage)) {
        return PL_OK;
    }
    while (status == PL_OK) {
        pl_node_t *top = NULL;

        for (pl_node_t *node = leaf->parent; node != root;
             node            = node->parent) {
            top = node->host.n_pages == 0 ? node : top;
        }
        if (top == NULL) {
            return PL_OK;
        }
        status = pl_cache_backup(cache, top, leaf, PL_COPY_PREFIX);
    }
    return status == PL_REFUSED_SHORT ? PL_OK : status;
}

static pl_status_t evict_leaf(const hunt_t *hunt, pl_node_t *leaf)
{
    pl_hicache_t *cache = hunt->cache;

    note_victim(hunt, leaf);
    if (hunt->which == PL_TREE_HOST) {
        return pl_cache_drop_host(cache, leaf);
    }
    if (pl_cache_is_backed_up(leaf)) {
        return pl_cache_drop_device(cache, leaf);
    }
    if (cache->params.write_policy == PL_WRITE_BACK) {
        pl_status_t status =
            pl_cache_backup(cache, leaf, leaf, PL_COPY_WRITE_BACK);

        if (status != PL_REFUSED_SHORT) {
            return status == PL_OK ? back_up_prefix(cache, leaf) : status;
        }
    }
    return pl_cache_remove(cache, leaf);
}

static pl_status_t evict(const hunt_t *hunt)
{
    pl_tree_t *tree = hunt->cache->tree;
    int which       = hunt->which;
    pl_pick_t pick  = {.which      = which,
                       .limit      = hunt->limit,
                       .helps      = qualifies,
                       .free_pages = free_pages,
                       .context    = hunt,
                       .at         = PL_PICK_START};

    while (is_short(hunt)) {
        int32_t same_from;
        pl_node_t *leaf = pl_tree_pick(tree, &pick, &same_from);
        pl_node_t *parent;
        int32_t start;

        if (leaf == NULL) {
            return PL_OK;
        }
        start = suffix_start(hunt, leaf);
        start = start > same_from ? start : same_from;
        if (start > 0) {
            PL_TRY(pl_tree_split(tree, leaf, start, NULL));
        }
        parent = leaf->parent;
        PL_TRY(evict_leaf(hunt, leaf));
        pick.rest = parent->linked[which] ? parent : NULL;
    }
    return PL_OK;
}

pl_status_t pl_cache_evict_device(pl_hicache_t *cache, const int32_t *deficits)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_DEVICE];
    const hunt_t hunt     = {cache, PL_TREE_DEVICE, UINT64_MAX, NULL, deficits};

    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        int32_t need = deficits[lane] - cache->promised[lane];

        tier->need[lane] = need > 0 ? need : 0;
    }
    return evict(&hunt);
}

pl_status_t pl_cache_evict_host(pl_hicache_t *cache, const int32_t *deficits,
                                const pl_node_t *whom, const pl_node_t *end)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_HOST];
    hunt_t hunt           = {cache, PL_TREE_HOST, UINT64_MAX, NULL, deficits};

    if ((whom != pl_tree_root(cache->tree)) && pl_tree_compares(cache->tree)) {
        hunt.limit = pl_tree_value(cache->tree, whom, PL_TREE_HOST);
    } else if (whom != pl_tree_root(cache->tree)) {
        hunt.keep = end;
    }

    memcpy(tier->need, deficits,
           (size_t)cache->params.n_lanes * sizeof(*tier->need));
    return evict(&hunt);
}

pl_status_t pl_hicache_evict(pl_hicache_t *cache, const int32_t *deficits,
                             int64_t *pending_p)
{
    int64_t pending = 0;

    PL_TRY(pl_cache_evict_device(cache, deficits));
    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        pending += cache->promised[lane];
    }
    *pending_p = pending;
    return PL_OK;
}
