#include "cache/hicache_internal.h"

#include <assert.h>
#include <stdlib.h>

/* ---- events ---- */

pl_status_t pl_cache_no_memory(const pl_hicache_t *cache, const char *what)
{
    pl_log(cache->log, PL_LOG_ERROR, "cache: no memory for %s", what);
    return PL_ERR_MEMORY;
}

static pl_event_t make_event(const pl_hicache_t *cache, pl_event_kind_t kind)
{
    pl_event_t event = pl_event_make(kind);

    event.tick    = cache->tick;
    event.request = cache->request;
    return event;
}

void pl_cache_emit(const pl_hicache_t *cache, pl_event_kind_t kind,
                   const pl_node_t *node, int64_t op, int64_t value,
                   int64_t value2)
{
    pl_event_t event = make_event(cache, kind);

    event.node   = node != NULL ? node->id : -1;
    event.op     = op;
    event.value  = value;
    event.value2 = value2;
    pl_event_emit(&cache->params.events, &event);
}

void pl_cache_emit_pages(const pl_hicache_t *cache, pl_event_kind_t kind,
                         const pl_page_t *pages, int32_t n_pages)
{
    pl_event_t event = make_event(cache, kind);

    event.pages   = pages;
    event.n_pages = n_pages;
    pl_event_emit(&cache->params.events, &event);
}

static void on_split(void *context, const pl_node_t *head,
                     const pl_node_t *node)
{
    pl_cache_emit(context, PL_EVENT_SPLIT, node, 0, head->id, head->n_pages);
}

static void emit_node(const pl_hicache_t *cache, pl_event_kind_t kind,
                      const pl_node_t *node)
{
    pl_event_t event = make_event(cache, kind);

    event.node    = node->id;
    event.value   = node->parent->id;
    event.value2  = node->first_page;
    event.pages   = node->device;
    event.n_pages = node->n_pages;
    pl_event_emit(&cache->params.events, &event);
}

static void on_created(void *context, const pl_node_t *node)
{
    emit_node(context, PL_EVENT_NODE, node);
}

static void on_adopted(void *context, const pl_node_t *node)
{
    emit_node(context, PL_EVENT_ADOPT, node);
}

/* ---- opening ---- */

static pl_status_t open_lanes(pl_hicache_t *cache, int tier,
                              int32_t pages_per_lane)
{
    bool is_device                 = tier == PL_TREE_DEVICE;
    const pl_lanes_params_t params = {
        .n_lanes        = cache->params.n_lanes,
        .pages_per_lane = pages_per_lane,
        .reserved_slots = is_device ? 1 : 0,
        .name           = is_device ? "device" : "host",
    };

    return pl_lanes_open(&params, cache->log, &cache->tiers[tier].lanes);
}

/* One allocation for all arrays with a number per lane. */
static pl_status_t open_lane_room(pl_hicache_t *cache)
{
    size_t n = (size_t)cache->params.n_lanes;
    int32_t *at;

    cache->lane_room = calloc(n * 8, sizeof(*cache->lane_room));
    if (cache->lane_room == NULL) {
        return pl_cache_no_memory(cache, "its counts by lane");
    }
    at = cache->lane_room;
    for (int tier = 0; tier < 2; tier++) {
        cache->tiers[tier].deficits = at;
        cache->tiers[tier].need     = at + n;
        cache->tiers[tier].left     = at + n * 2;
        at += n * 3;
    }
    cache->promised = at;
    cache->free     = at + n;
    return PL_OK;
}

pl_status_t pl_hicache_open(const pl_hicache_params_t *params,
                            const pl_log_t *log, pl_hicache_t **cache_p)
{
    pl_hicache_t *cache                = calloc(1, sizeof(*cache));
    int64_t n_lanes                    = params->n_lanes;
    const pl_tree_params_t tree_params = {
        .page_tokens   = params->page_tokens,
        .n_lanes       = params->n_lanes,
        .policy        = params->policy,
        .observer      = {cache, on_split, on_created, on_adopted},
        .policy_params = {.pages  = {n_lanes * (params->device_pages - 1),
                                     n_lanes * params->host_pages},
                          .future = params->future},
    };
    pl_status_t status;

    assert((params->policy != NULL) && (params->copy != NULL));
    assert((params->storage == NULL) ||
           ((params->io != NULL) && (params->host_pages > 0)));
    if (cache == NULL) {
        pl_log(log, PL_LOG_ERROR, "cache: no memory for an empty cache");
        return PL_ERR_MEMORY;
    }
    cache->params  = *params;
    cache->log     = log;
    cache->request = -1;
    cache->waiting = -1;
    PL_TRY_GOTO(status, open_lanes(cache, PL_TREE_DEVICE, params->device_pages),
                err_close);
    if (params->host_pages > 0) {
        PL_TRY_GOTO(status, open_lanes(cache, PL_TREE_HOST, params->host_pages),
                    err_close);
    }
    PL_TRY_GOTO(status, open_lane_room(cache), err_close);
    PL_TRY_GOTO(status, pl_tree_open(&tree_params, log, &cache->tree),
                err_close);
    *cache_p = cache;
    return PL_OK;

err_close:
    pl_hicache_close(cache);
    return status;
}

void pl_hicache_close(pl_hicache_t *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < cache->copies.n; i++) {
        pl_cache_copy_clear(&cache->copies.items[i]);
    }
    for (size_t i = 0; i < cache->stores.n; i++) {
        pl_cache_store_clear(&cache->stores.items[i]);
    }
    for (size_t i = 0; i < cache->fetches.n; i++) {
        pl_cache_fetch_clear(&cache->fetches.items[i]);
    }
    PL_ARRAY_FREE(&cache->copies);
    PL_ARRAY_FREE(&cache->stores);
    PL_ARRAY_FREE(&cache->fetches);
    PL_ARRAY_FREE(&cache->dup);
    PL_ARRAY_FREE(&cache->nodes);
    free(cache->lost.slots);
    free(cache->lane_room);
    pl_tree_close(cache->tree);
    pl_lanes_close(cache->tiers[PL_TREE_HOST].lanes);
    pl_lanes_close(cache->tiers[PL_TREE_DEVICE].lanes);
    free(cache);
}

pl_tree_t *pl_hicache_tree(const pl_hicache_t *cache)
{
    return cache->tree;
}

const pl_lanes_t *pl_hicache_device(const pl_hicache_t *cache)
{
    return cache->tiers[PL_TREE_DEVICE].lanes;
}

const pl_lanes_t *pl_hicache_host(const pl_hicache_t *cache)
{
    return cache->tiers[PL_TREE_HOST].lanes;
}

const pl_hicache_counters_t *pl_hicache_counters(const pl_hicache_t *cache)
{
    return &cache->counters;
}

void pl_hicache_at(pl_hicache_t *cache, int64_t tick, int32_t request)
{
    cache->tick    = tick;
    cache->request = request;
}

/* ---- pages ---- */

void pl_cache_count_lanes(const pl_hicache_t *cache, const pl_page_t *pages,
                          int32_t n_pages, int32_t by, int32_t *counts)
{
    for (int32_t i = 0; i < n_pages; i++) {
        counts[pl_page_owner(pages[i], cache->params.n_lanes)] += by;
    }
}

pl_status_t pl_cache_give_back(pl_hicache_t *cache, int tier,
                               const pl_page_t *pages, int32_t n_pages)
{
    PL_TRY(pl_lanes_free(cache->tiers[tier].lanes, pages, NULL, n_pages));
    pl_cache_emit_pages(
        cache, tier == PL_TREE_DEVICE ? PL_EVENT_FREE : PL_EVENT_HOST_FREE,
        pages, n_pages);
    return PL_OK;
}

pl_status_t pl_hicache_free(pl_hicache_t *cache, const pl_page_t *pages,
                            int32_t n)
{
    return n > 0 ? pl_cache_give_back(cache, PL_TREE_DEVICE, pages, n) : PL_OK;
}

int64_t pl_hicache_room(const pl_hicache_t *cache, int lane)
{
    return pl_lanes_free_count(cache->tiers[PL_TREE_DEVICE].lanes, lane) +
           pl_tree_unlocked(cache->tree, lane);
}

/* ---- matches, references ---- */

pl_status_t pl_hicache_match(pl_hicache_t *cache, uint64_t name_space,
                             const pl_page_key_t *keys, int32_t n,
                             pl_match_t *match_p, int32_t *below_threshold_p)
{
    int32_t n_host;

    PL_TRY(pl_tree_match(cache->tree, name_space, keys, n, match_p));
    *below_threshold_p = 0;
    n_host             = match_p->n_total - match_p->n_device;
    if ((int64_t)n_host * cache->params.page_tokens <
        cache->params.load_threshold_tokens) {
        *below_threshold_p = n_host;
        match_p->last      = match_p->device;
        match_p->n_total   = match_p->n_device;
    }
    return PL_OK;
}

void pl_hicache_passed(pl_hicache_t *cache, int32_t request,
                       uint64_t name_space, const pl_page_key_t *keys,
                       int32_t n)
{
    pl_tree_passed(cache->tree, request, name_space, keys, n);
}

void pl_hicache_lock(pl_hicache_t *cache, pl_node_t *node)
{
    pl_tree_lock(cache->tree, node);
}

void pl_hicache_unlock(pl_hicache_t *cache, pl_node_t *node)
{
    pl_tree_unlock(cache->tree, node);
}

void pl_hicache_pin(pl_hicache_t *cache, const pl_match_t *match)
{
    for (pl_node_t *node = match->last; node != match->device;
         node            = node->parent) {
        pl_tree_pin(cache->tree, node);
    }
}

void pl_hicache_unpin(pl_hicache_t *cache, const pl_match_t *match)
{
    for (pl_node_t *node = match->last; node != match->device;
         node            = node->parent) {
        pl_tree_unpin(cache->tree, node);
    }
}

/* ---- insert and reset ---- */

pl_status_t pl_hicache_insert(pl_hicache_t *cache, pl_node_t *at,
                              uint64_t name_space, const pl_page_key_t *keys,
                              int32_t n, pl_page_t *pages, pl_node_t **last_p)
{
    pl_page_t *dup;
    int32_t n_dup = 0;

    if (PL_ARRAY_RESERVE(&cache->dup, (size_t)n) != PL_OK) {
        return pl_cache_no_memory(cache, "a chunk's pages");
    }
    dup = cache->dup.items;
    PL_TRY(pl_tree_insert(cache->tree, at, name_space, keys, n, pages, dup,
                          last_p));
    for (int32_t i = 0; i < n; i++) {
        if (dup[i] != PL_NO_PAGE) {
            dup[n_dup++] = dup[i];
        }
    }
    return pl_hicache_free(cache, dup, n_dup);
}

pl_status_t pl_hicache_reset(pl_hicache_t *cache)
{
    pl_node_t *root = pl_tree_root(cache->tree);

    if ((cache->copies.n > 0) || (cache->stores.n > 0) ||
        (cache->fetches.n > 0) || (root->lock_ref > 0) ||
        pl_cache_is_pinned_below(root)) {
        return PL_REFUSED_SHORT;
    }
    while (root->first_child != NULL) {
        PL_TRY(pl_cache_remove(cache, root->first_child));
    }
    cache->waiting = -1;
    return PL_OK;
}
