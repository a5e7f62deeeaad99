/* Host -> device, with the owners that the host copy recorded. */
#include "cache/hicache_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The host-only nodes of a match, root to leaf, into cache->nodes. */
static pl_status_t collect_host_part(pl_hicache_t *cache,
                                     const pl_match_t *match)
{
    int32_t n_pages = 0;
    size_t n        = 0;

    for (const pl_node_t *node = match->last; node != match->device;
         node                  = node->parent) {
        if ((node->parent == NULL) || (node->device != NULL) ||
            !pl_cache_is_backed_up(node)) {
            n_pages = -1;
            break;
        }
        n_pages += node->n_pages;
        n++;
    }
    if ((n_pages < 1) || (n_pages != match->n_total - match->n_device)) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: a load of pages %" PRId32 " to %" PRId32
               " (down to node "
               "%" PRId64 ") is not what is on host only; match anew",
               match->n_device, match->n_total - 1, match->last->id);
        return PL_ERR_INTERNAL;
    }
    if (PL_ARRAY_RESERVE(&cache->nodes, n) != PL_OK) {
        return pl_cache_no_memory(cache, "a path to load");
    }
    cache->nodes.n = n;
    for (pl_node_t *node = match->last; node != match->device;
         node            = node->parent) {
        cache->nodes.items[--n] = node;
    }
    return PL_OK;
}

void pl_hicache_saved_owners(const pl_hicache_t *cache, const pl_match_t *match,
                             pl_owner_t *owners)
{
    (void)cache;
    for (const pl_node_t *node = match->last; node != match->device;
         node                  = node->parent) {
        memcpy(owners + (node->first_page - match->n_device), node->host.owners,
               (size_t)node->n_pages * sizeof(*owners));
    }
}

/* What an allocator that knows no owners amounts to: each page wherever most
 * are free.  Only to show what then goes wrong (--inject load.alloc=plain). */
static void choose_plain_owners(pl_hicache_t *cache, int32_t n,
                                pl_owner_t *owners)
{
    const pl_lanes_t *lanes = cache->tiers[PL_TREE_DEVICE].lanes;
    int n_lanes             = cache->params.n_lanes;

    for (int lane = 0; lane < n_lanes; lane++) {
        cache->free[lane] = pl_lanes_free_count(lanes, lane);
    }
    for (int32_t i = 0; i < n; i++) {
        int most = 0;

        for (int lane = 1; lane < n_lanes; lane++) {
            most = cache->free[lane] > cache->free[most] ? lane : most;
        }
        owners[i] = (pl_owner_t)most;
        cache->free[most]--;
    }
}

/* Device pages for the copy: in the saved owners' lanes, always. */
static pl_status_t take_device(pl_hicache_t *cache, pl_cache_copy_t *copy,
                               pl_hicache_try_t *try_p)
{
    pl_owner_t *plain;
    pl_status_t status;

    if (!pl_inject_hit(cache->params.inject, PL_INJECT_LOAD_ALLOC_PLAIN, 0,
                       cache->tick)) {
        return pl_cache_take(cache, copy->owners, copy->n_pages, copy->device,
                             try_p);
    }
    plain = malloc((size_t)copy->n_pages * sizeof(*plain));
    if (plain == NULL) {
        return pl_cache_no_memory(cache, "an injected allocation");
    }
    choose_plain_owners(cache, copy->n_pages, plain);
    status = pl_cache_take(cache, plain, copy->n_pages, copy->device, try_p);
    free(plain);
    return status;
}

static void emit_load(const pl_hicache_t *cache, const pl_cache_copy_t *copy)
{
    pl_event_t event = pl_event_make(PL_EVENT_LOAD);

    event.tick    = cache->tick;
    event.request = cache->request;
    event.op      = copy->op;
    event.value   = cache->nodes.items[0]->first_page;
    event.pages   = copy->device;
    event.other   = copy->host;
    event.n_pages = copy->n_pages;
    pl_event_emit(&cache->params.events, &event);
    for (size_t i = 0; i < cache->nodes.n; i++) {
        pl_cache_emit(cache, PL_EVENT_LOAD_NODE, cache->nodes.items[i],
                      copy->op, 0, 0);
    }
}

/* All that is needed is there: the nodes in cache->nodes get their pages. */
static pl_status_t begin(pl_hicache_t *cache, pl_cache_copy_t *copy)
{
    const pl_page_t *next = copy->device;

    for (size_t i = 0; i < cache->nodes.n; i++) {
        pl_tree_set_device(cache->tree, cache->nodes.items[i], next);
        pl_tree_pin(cache->tree, cache->nodes.items[i]);
        next += cache->nodes.items[i]->n_pages;
    }
    copy->anchor = cache->nodes.items[cache->nodes.n - 1];
    pl_tree_lock(cache->tree, copy->anchor);
    PL_TRY(pl_cache_copies_start(cache, copy));
    for (size_t i = 0; i < cache->nodes.n; i++) {
        pl_tree_set_load_op(cache->tree, cache->nodes.items[i], copy->op);
    }
    cache->counters.loads++;
    cache->counters.load_pages += copy->n_pages;
    emit_load(cache, copy);
    return PL_OK;
}

pl_status_t pl_hicache_load(pl_hicache_t *cache, const pl_match_t *match,
                            pl_hicache_try_t *try_p, int64_t *op_p)
{
    pl_cache_copy_t copy;
    pl_status_t status;

    PL_TRY(collect_host_part(cache, match));
    PL_TRY(pl_cache_copy_make(cache, match->n_total - match->n_device, &copy));
    copy.kind = PL_COPY_LOAD;
    pl_hicache_saved_owners(cache, match, copy.owners);
    for (size_t i = 0; i < cache->nodes.n; i++) {
        const pl_node_t *node = cache->nodes.items[i];

        memcpy(copy.host + (node->first_page - match->n_device),
               node->host.pages, (size_t)node->n_pages * sizeof(*copy.host));
    }
    status = take_device(cache, &copy, try_p);
    if (status != PL_OK) {
        pl_cache_copy_clear(&copy);
        return status;
    }
    /* Not before: what was written back to make room has records, too. */
    status = pl_cache_copies_reserve(cache);
    if (status != PL_OK) {
        PL_TRY(pl_cache_give_back(cache, PL_TREE_DEVICE, copy.device,
                                  copy.n_pages));
        pl_cache_copy_clear(&copy);
        return status;
    }
    PL_TRY(begin(cache, &copy));
    *op_p = copy.op;
    return PL_OK;
}

/* ---- ends ---- */

bool pl_cache_is_within(const pl_node_t *node, const pl_node_t *top)
{
    while (node->first_page > top->first_page) {
        node = node->parent;
    }
    return node == top;
}

/* The nodes from `top` down go, and with them those of copies that are still
 * under way: their records keep the pages until they end. */
static pl_status_t remove_bad(pl_hicache_t *cache, pl_node_t *top)
{
    for (size_t i = 0; i < cache->copies.n; i++) {
        pl_cache_copy_t *copy = &cache->copies.items[i];

        if ((copy->anchor != NULL) && pl_cache_is_within(copy->anchor, top)) {
            (void)pl_cache_copies_release(cache, copy, true);
            copy->anchor = NULL;
        }
    }
    pl_cache_stores_orphan(cache, top);
    if ((top->lock_ref > 0) || (top->pin_ref > 0) ||
        pl_cache_is_pinned_below(top)) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: a load down from node %" PRId64
               " failed, and requests still hold its pages (%" PRId32
               " locks); they must let go first",
               top->id, top->lock_ref);
        return PL_ERR_INTERNAL;
    }
    return pl_cache_remove(cache, top);
}

/* As before the load: the nodes are on host only. */
static pl_status_t take_back(pl_hicache_t *cache, pl_node_t *anchor,
                             const pl_node_t *above)
{
    pl_node_t *node = anchor;

    while (node != above) {
        pl_node_t *parent = node->parent;

        if (!node->linked[PL_TREE_DEVICE]) {
            pl_log(cache->log, PL_LOG_ERROR,
                   "cache: a load was cancelled, and node %" PRId64
                   " is in use (%" PRId32 " locks, %" PRId32
                   " children on device)",
                   node->id, node->lock_ref, node->n_device_children);
            return PL_ERR_INTERNAL;
        }
        PL_TRY(pl_cache_drop_device(cache, node));
        node = parent;
    }
    return PL_OK;
}

typedef enum load_outcome {
    LOAD_GOOD,
    LOAD_BAD,
    LOAD_CANCELLED
} load_outcome_t;

static pl_status_t end_load(pl_hicache_t *cache, const pl_cache_copy_t *copy,
                            load_outcome_t outcome)
{
    pl_node_t *top = copy->anchor;
    pl_node_t *above;

    if (copy->anchor == NULL) {
        return pl_cache_copies_end_orphan(cache, copy);
    }
    above = pl_cache_copies_release(cache, copy, false);
    switch (outcome) {
    case LOAD_GOOD:
        return PL_OK;
    case LOAD_CANCELLED:
        return take_back(cache, copy->anchor, above);
    case LOAD_BAD:
    default:
        while (top->parent != above) {
            top = top->parent;
        }
        return remove_bad(cache, top);
    }
}

static pl_status_t finish(pl_hicache_t *cache, int64_t op,
                          load_outcome_t outcome)
{
    pl_cache_copy_t *found = pl_cache_copies_find(cache, op, true);
    pl_cache_copy_t copy;
    bool good;
    pl_status_t status;

    if (found == NULL) {
        return PL_ERR_INTERNAL;
    }
    copy = pl_cache_copies_take(cache, found);
    good = (outcome == LOAD_GOOD) && (copy.anchor != NULL);
    cache->counters.loads_failed += good ? 0 : 1;
    pl_cache_emit(cache, PL_EVENT_LOADED, NULL, op, good ? 1 : 0, 0);
    status = end_load(cache, &copy, outcome);
    pl_cache_copy_clear(&copy);
    return status;
}

pl_status_t pl_hicache_load_end(pl_hicache_t *cache, int64_t op, bool good)
{
    return finish(cache, op, good ? LOAD_GOOD : LOAD_BAD);
}

pl_status_t pl_hicache_load_cancel(pl_hicache_t *cache, int64_t op)
{
    return finish(cache, op, LOAD_CANCELLED);
}
