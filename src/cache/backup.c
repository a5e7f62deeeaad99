/* Device -> host: by the write policy at a prompt's end, or on eviction. */
#include "cache/hicache_internal.h"

#include <assert.h>
#include <string.h>

/* Who holds the bytes; a sound copy records just that. */
static void fill_owners(pl_hicache_t *cache, pl_cache_copy_t *copy)
{
    int n_lanes = cache->params.n_lanes;
    int shift   = 0;

    if (pl_inject_hit(cache->params.inject, PL_INJECT_WRITE_OWNER_SHIFT, 0,
                      cache->tick)) {
        shift = 1;
    }
    for (int32_t i = 0; i < copy->n_pages; i++) {
        int owner = pl_page_owner(copy->device[i], n_lanes);

        copy->owners[i] = (pl_owner_t)((owner + shift) % n_lanes);
    }
}

/* Host pages in the recorded owners' lanes; other copies may make room, as the
 * policy says. */
static pl_status_t take_host(pl_hicache_t *cache, const pl_node_t *node,
                             const pl_node_t *end, pl_cache_copy_t *copy)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_HOST];
    pl_status_t status =
        pl_lanes_alloc(tier->lanes, copy->owners, copy->n_pages, copy->host);

    if (status != PL_REFUSED_SHORT) {
        return status;
    }
    (void)pl_lanes_deficits(tier->lanes, copy->owners, copy->n_pages,
                            tier->deficits);
    PL_TRY(pl_cache_evict_host(cache, tier->deficits, node, end));
    return pl_lanes_alloc(tier->lanes, copy->owners, copy->n_pages, copy->host);
}

static void emit_backup(const pl_hicache_t *cache, const pl_cache_copy_t *copy)
{
    pl_event_t event = pl_event_make(PL_EVENT_BACKUP);

    event.tick    = cache->tick;
    event.request = cache->request;
    event.node    = copy->node;
    event.op      = copy->op;
    event.pages   = copy->device;
    event.other   = copy->host;
    event.n_pages = copy->n_pages;
    pl_event_emit(&cache->params.events, &event);
}

/* All that is needed is there: hold the node, hand the copy out, mark it. */
static pl_status_t begin(pl_hicache_t *cache, pl_node_t *node,
                         pl_cache_copy_t *copy, pl_meta_t meta)
{
    int32_t n_pages = node->n_pages;

    pl_tree_set_host(cache->tree, node, meta);
    pl_tree_lock(cache->tree, node);
    pl_tree_pin(cache->tree, node);
    copy->anchor = node;
    PL_TRY(pl_cache_copies_start(cache, copy));
    pl_tree_set_write_op(cache->tree, node, copy->op);
    cache->counters.backups++;
    cache->counters.backup_pages += n_pages;
    cache->counters.write_backs += copy->kind == PL_COPY_WRITE_BACK ? 1 : 0;
    emit_backup(cache, copy);
    if ((n_pages >= 2) &&
        pl_inject_hit(cache->params.inject, PL_INJECT_SPLIT_DURING_WRITE, 0,
                      cache->tick)) {
        PL_TRY(pl_tree_split(cache->tree, node, n_pages / 2, NULL));
    }
    return PL_OK;
}

pl_status_t pl_cache_backup(pl_hicache_t *cache, pl_node_t *node,
                            const pl_node_t *end, pl_cache_copy_kind_t kind)
{
    pl_cache_copy_t copy;
    pl_meta_t meta;
    pl_status_t status;

    assert((node->device != NULL) && (node->host.n_pages == 0));
    if (cache->tiers[PL_TREE_HOST].lanes == NULL) {
        return PL_REFUSED_SHORT;
    }
    PL_TRY(pl_cache_copies_reserve(cache));
    PL_TRY(pl_cache_copy_make(cache, node->n_pages, &copy));
    copy.kind = kind;
    memcpy(copy.device, node->device,
           (size_t)node->n_pages * sizeof(*copy.device));
    fill_owners(cache, &copy);
    if (pl_meta_make(cache->params.page_tokens, copy.n_pages, copy.owners,
                     copy.device, &meta) != PL_OK) {
        status = pl_cache_no_memory(cache, "what a host copy records");
        goto err_clear;
    }
    PL_TRY_GOTO(status, take_host(cache, node, end, &copy), err_clear_meta);
    memcpy(meta.pages, copy.host, (size_t)copy.n_pages * sizeof(*meta.pages));
    return begin(cache, node, &copy, meta);

err_clear_meta:
    pl_meta_clear(&meta);
err_clear:
    pl_cache_copy_clear(&copy);
    if (status == PL_REFUSED_SHORT) {
        cache->counters.backups_skipped++;
        pl_cache_emit(cache, PL_EVENT_BACKUP_SKIP, node, 0, node->n_pages, 0);
    }
    return status;
}

/* ---- by policy ---- */

/* A copy is of use only while the prefix before it has one: the node above
 * must have a copy, or one on its way. */
static bool has_base(const pl_hicache_t *cache, const pl_node_t *node)
{
    return (node->parent == pl_tree_root(cache->tree)) ||
           (node->parent->host.n_pages > 0);
}

static pl_status_t collect_path(pl_hicache_t *cache, pl_node_t *last)
{
    const pl_node_t *root = pl_tree_root(cache->tree);
    size_t n              = 0;

    for (const pl_node_t *node = last; node != root; node = node->parent) {
        n++;
    }
    if (PL_ARRAY_RESERVE(&cache->nodes, n) != PL_OK) {
        return pl_cache_no_memory(cache, "a prompt's path");
    }
    cache->nodes.n = n;
    for (pl_node_t *node = last; node != root; node = node->parent) {
        cache->nodes.items[--n] = node;
    }
    return PL_OK;
}

pl_status_t pl_hicache_prompt_done(pl_hicache_t *cache, pl_node_t *last)
{
    uint32_t enough = cache->params.write_policy == PL_WRITE_THROUGH_SELECTIVE
                          ? cache->params.hot_threshold
                          : 1;

    PL_TRY(collect_path(cache, last));
    pl_tree_hit(cache->tree, last);
    for (size_t i = 0; i < cache->nodes.n; i++) {
        PL_TRY(pl_cache_store(cache, cache->nodes.items[i]));
    }
    if ((cache->params.write_policy == PL_WRITE_BACK) ||
        (cache->tiers[PL_TREE_HOST].lanes == NULL)) {
        return PL_OK;
    }
    for (size_t i = 0; i < cache->nodes.n; i++) {
        pl_node_t *node = cache->nodes.items[i];

        if ((node->host.n_pages > 0) || (node->hits < enough)) {
            continue;
        }
        if (has_base(cache, node)) {
            pl_status_t status =
                pl_cache_backup(cache, node, last, PL_COPY_BACKUP);

            if ((status != PL_OK) && (status != PL_REFUSED_SHORT)) {
                return status;
            }
        } else {
            cache->counters.backups_skipped++;
            pl_cache_emit(cache, PL_EVENT_BACKUP_SKIP, node, 0, node->n_pages,
                          0);
        }
    }
    return PL_OK;
}

/* ---- ends ---- */

/* The copy is no good: none of its nodes has one. */
static pl_status_t forget_host(pl_hicache_t *cache, const pl_cache_copy_t *copy,
                               const pl_node_t *above)
{
    for (pl_node_t *node = copy->anchor; node != above; node = node->parent) {
        pl_tree_drop_host(cache->tree, node);
    }
    return pl_cache_give_back(cache, PL_TREE_HOST, copy->host, copy->n_pages);
}

/* Free what the write-back was for, from its end, as far as nobody has taken to
 * it meanwhile. */
static pl_status_t finish_write_back(pl_hicache_t *cache,
                                     const pl_cache_copy_t *copy,
                                     const pl_node_t *above)
{
    pl_node_t *node = copy->anchor;

    while ((node != above) && node->linked[PL_TREE_DEVICE]) {
        pl_node_t *parent = node->parent;

        if (pl_cache_is_backed_up(node)) {
            PL_TRY(pl_cache_drop_device(cache, node));
        } else if (!pl_cache_is_pinned_below(node)) {
            PL_TRY(pl_cache_remove(cache, node));
        } else {
            break;
        }
        node = parent;
    }
    return PL_OK;
}

static pl_status_t end_backup(pl_hicache_t *cache, const pl_cache_copy_t *copy,
                              bool good)
{
    const pl_node_t *above;

    if (copy->anchor == NULL) {
        return pl_cache_copies_end_orphan(cache, copy);
    }
    above = pl_cache_copies_release(cache, copy, false);
    if (good) {
        PL_TRY(pl_cache_store_path(cache, copy->anchor, above));
    } else {
        PL_TRY(forget_host(cache, copy, above));
    }
    if (copy->kind == PL_COPY_WRITE_BACK) {
        PL_TRY(finish_write_back(cache, copy, above));
    }
    return PL_OK;
}

pl_status_t pl_hicache_backup_end(pl_hicache_t *cache, int64_t op, bool good)
{
    pl_cache_copy_t *found = pl_cache_copies_find(cache, op, false);
    pl_cache_copy_t copy;
    pl_event_t event = pl_event_make(PL_EVENT_BACKED_UP);
    pl_status_t status;

    if (found == NULL) {
        return PL_ERR_INTERNAL;
    }
    copy = pl_cache_copies_take(cache, found);
    cache->counters.backups_failed += good ? 0 : 1;
    event.tick    = cache->tick;
    event.request = cache->request;
    event.node    = copy.node;
    event.op      = op;
    event.value   = good && (copy.anchor != NULL) ? 1 : 0;
    pl_event_emit(&cache->params.events, &event);
    status = end_backup(cache, &copy, good);
    pl_cache_copy_clear(&copy);
    return status;
}

pl_status_t pl_hicache_backup_cancel(pl_hicache_t *cache, int64_t op)
{
    return pl_hicache_backup_end(cache, op, false);
}
