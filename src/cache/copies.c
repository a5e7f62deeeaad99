#include "cache/hicache_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pl_status_t pl_cache_copy_make(pl_hicache_t *cache, int32_t n_pages,
                               pl_cache_copy_t *copy_p)
{
    size_t n             = (size_t)n_pages;
    pl_cache_copy_t copy = {.n_pages = n_pages};

    assert(n_pages > 0);
    copy.device = malloc(n * sizeof(*copy.device));
    copy.host   = malloc(n * sizeof(*copy.host));
    copy.owners = malloc(n * sizeof(*copy.owners));
    if ((copy.device == NULL) || (copy.host == NULL) || (copy.owners == NULL)) {
        pl_cache_copy_clear(&copy);
        return pl_cache_no_memory(cache, "a copy between the tiers");
    }
    *copy_p = copy;
    return PL_OK;
}

void pl_cache_copy_clear(pl_cache_copy_t *copy)
{
    free(copy->device);
    free(copy->host);
    free(copy->owners);
    *copy = (pl_cache_copy_t){0};
}

pl_status_t pl_cache_copies_reserve(pl_hicache_t *cache)
{
    if (PL_ARRAY_RESERVE(&cache->copies, cache->copies.n + 1) != PL_OK) {
        return pl_cache_no_memory(cache, "one more copy under way");
    }
    return PL_OK;
}

static bool is_of_eviction(const pl_cache_copy_t *copy)
{
    return (copy->kind == PL_COPY_WRITE_BACK) || (copy->kind == PL_COPY_PREFIX);
}

pl_status_t pl_cache_copies_start(pl_hicache_t *cache, pl_cache_copy_t *copy)
{
    const pl_node_t *node   = copy->anchor;
    pl_hicache_copy_t order = {
        .load       = copy->kind == PL_COPY_LOAD,
        .write_back = copy->kind == PL_COPY_WRITE_BACK,
        .node       = node,
        .first_page = node->first_page + node->n_pages - copy->n_pages,
        .n_pages    = copy->n_pages,
        .device     = copy->device,
        .host       = copy->host,
        .owners     = copy->owners,
    };

    assert(cache->copies.n < cache->copies.capacity);
    copy->node = node->id;
    copy->op   = cache->params.copy(cache->params.copy_context, &order);
    if (copy->op <= 0) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: a copy of node %" PRId64 " got number %" PRId64
               "; numbers begin at 1",
               node->id, copy->op);
        return PL_ERR_INTERNAL;
    }
    cache->copies.items[cache->copies.n++] = *copy;
    cache->n_write_backs += is_of_eviction(copy) ? 1 : 0;
    if (copy->kind == PL_COPY_WRITE_BACK) {
        pl_cache_count_lanes(cache, copy->device, copy->n_pages, 1,
                             cache->promised);
    }
    return PL_OK;
}

pl_cache_copy_t *pl_cache_copies_find(pl_hicache_t *cache, int64_t op,
                                      bool load)
{
    for (size_t i = 0; i < cache->copies.n; i++) {
        pl_cache_copy_t *copy = &cache->copies.items[i];

        if ((copy->op == op) && ((copy->kind == PL_COPY_LOAD) == load)) {
            return copy;
        }
    }
    pl_log(cache->log, PL_LOG_ERROR,
           "cache: %s %" PRId64 " ends, and none of that number is under way",
           load ? "load" : "backup", op);
    return NULL;
}

pl_cache_copy_t pl_cache_copies_take(pl_hicache_t *cache, pl_cache_copy_t *copy)
{
    pl_cache_copy_t taken = *copy;
    size_t i              = (size_t)(copy - cache->copies.items);

    cache->copies.n--;
    memmove(copy, copy + 1, (cache->copies.n - i) * sizeof(*copy));
    cache->n_write_backs -= is_of_eviction(&taken) ? 1 : 0;
    if (taken.kind == PL_COPY_WRITE_BACK) {
        pl_cache_count_lanes(cache, taken.device, taken.n_pages, -1,
                             cache->promised);
    }
    return taken;
}

bool pl_cache_copies_covers(const pl_cache_copy_t *copy, const pl_node_t *node)
{
    return (copy->kind == PL_COPY_LOAD ? node->load_op : node->write_op) ==
           copy->op;
}

pl_node_t *pl_cache_copies_release(pl_hicache_t *cache,
                                   const pl_cache_copy_t *copy, bool keep_marks)
{
    pl_node_t *node = copy->anchor;

    for (; pl_cache_copies_covers(copy, node); node = node->parent) {
        pl_tree_unpin(cache->tree, node);
    }
    for (pl_node_t *at = copy->anchor; !keep_marks && (at != node);
         at            = at->parent) {
        if (copy->kind == PL_COPY_LOAD) {
            pl_tree_set_load_op(cache->tree, at, 0);
        } else {
            pl_tree_set_write_op(cache->tree, at, 0);
        }
    }
    pl_tree_unlock(cache->tree, copy->anchor);
    return node;
}

pl_status_t pl_cache_copies_end_orphan(pl_hicache_t *cache,
                                       const pl_cache_copy_t *copy)
{
    PL_TRY(
        pl_cache_give_back(cache, PL_TREE_DEVICE, copy->device, copy->n_pages));
    return pl_cache_give_back_host(cache, copy->host, copy->n_pages);
}

int64_t pl_hicache_copies_under_way(const pl_hicache_t *cache)
{
    return (int64_t)cache->copies.n;
}
