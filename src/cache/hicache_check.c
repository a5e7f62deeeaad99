#include "cache/hicache_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- state hash ---- */

static uint64_t fold_copy(uint64_t h, const pl_cache_copy_t *copy)
{
    size_t n = (size_t)copy->n_pages;

    h = pl_fold64(h, (uint64_t)copy->op);
    h = pl_fold64(h, (uint64_t)copy->kind);
    h = pl_fold64(h, (uint64_t)copy->node);
    h = pl_fold64(h, copy->anchor != NULL ? 1 : 0);
    h = pl_hash64(copy->device, n * sizeof(*copy->device), h);
    h = pl_hash64(copy->host, n * sizeof(*copy->host), h);
    return pl_hash64(copy->owners, n * sizeof(*copy->owners), h);
}

static uint64_t fold_store(uint64_t h, const pl_cache_store_t *store)
{
    h = pl_fold64(h, (uint64_t)store->op);
    h = pl_fold64(h, (uint64_t)store->stamp);
    h = pl_fold64(h, (uint64_t)store->n_own);
    return pl_hash64(store->host, (size_t)store->n_pages * sizeof(*store->host),
                     h);
}

static uint64_t fold_fetch(uint64_t h, const pl_cache_fetch_t *fetch)
{
    h = pl_fold64(h, (uint64_t)fetch->op);
    h = pl_fold64(h, (uint64_t)fetch->request);
    h = pl_fold64(h, (uint64_t)fetch->first);
    return pl_hash64(fetch->host, (size_t)fetch->n * sizeof(*fetch->host), h);
}

uint64_t pl_hicache_state_hash(const pl_hicache_t *cache)
{
    uint64_t h = pl_tree_state_hash(cache->tree);

    for (int tier = 0; tier < 2; tier++) {
        const pl_lanes_t *lanes = cache->tiers[tier].lanes;

        h = pl_fold64(h, lanes != NULL ? pl_lanes_state_hash(lanes) : 0);
    }
    for (size_t i = 0; i < cache->copies.n; i++) {
        h = fold_copy(h, &cache->copies.items[i]);
    }
    for (size_t i = 0; i < cache->stores.n; i++) {
        h = fold_store(h, &cache->stores.items[i]);
    }
    for (size_t i = 0; i < cache->fetches.n; i++) {
        h = fold_fetch(h, &cache->fetches.items[i]);
    }
    h = pl_fold64(h, (uint64_t)cache->n_store_failures);
    h = pl_fold64(h, (uint64_t)cache->waiting);
    h = pl_fold64(h, cache->lost.sum);
    return pl_fold64(h, (uint64_t)cache->lost.n);
}

/* ---- recount ---- */

/* One tier, page by page. */
typedef struct recount {
    const pl_hicache_t *cache;
    const pl_lanes_t *lanes;
    int tier;
    uint8_t *seen; /* a bit a page */
    int64_t *held; /* [n_lanes] by nodes and by copies without any */
} recount_t;

static const char *tier_name(const recount_t *recount)
{
    return recount->tier == PL_TREE_DEVICE ? "device" : "host";
}

static pl_status_t report_page(const recount_t *recount, pl_page_t page,
                               int64_t node, const char *fault)
{
    pl_log(recount->cache->log, PL_LOG_ERROR,
           "cache: %s page %" PRId32 " of node %" PRId64 " %s",
           tier_name(recount), page, node, fault);
    return PL_ERR_INTERNAL;
}

/* The pages are handed out, in range, and nobody else's. */
static pl_status_t count_pages(const recount_t *recount, const pl_page_t *pages,
                               int32_t n, int64_t node)
{
    int n_lanes = pl_lanes_n(recount->lanes);
    int64_t n_pages =
        (int64_t)n_lanes * pl_lanes_pages_per_lane(recount->lanes);
    int32_t reserved = pl_lanes_reserved(recount->lanes);

    for (int32_t i = 0; i < n; i++) {
        pl_page_t page = pages[i];

        if ((page < 0) || (page >= n_pages) ||
            (pl_page_slot(page, n_lanes) < reserved)) {
            return report_page(recount, page, node, "cannot be anybody's");
        }
        if (pl_lanes_is_free(recount->lanes, page)) {
            return report_page(recount, page, node, "is free");
        }
        if ((recount->seen[page / 8] & (1u << (page % 8))) != 0) {
            return report_page(recount, page, node, "is another's too");
        }
        recount->seen[page / 8] |= (uint8_t)(1u << (page % 8));
        recount->held[pl_page_owner(page, n_lanes)]++;
    }
    return PL_OK;
}

static pl_status_t count_node(void *context, const pl_node_t *node)
{
    const recount_t *recount  = context;
    const pl_hicache_t *cache = recount->cache;
    const pl_page_t *pages    = pl_cache_pages(node, recount->tier);

    if (pages == NULL) {
        return PL_OK;
    }
    PL_TRY(count_pages(recount, pages, node->n_pages, node->id));
    if (recount->tier == PL_TREE_HOST) {
        return pl_meta_validate(&node->host, cache->params.n_lanes,
                                cache->params.host_pages,
                                cache->params.page_tokens, cache->log);
    }
    return PL_OK;
}

static pl_status_t check_lanes(const recount_t *recount, const int64_t *n_given)
{
    int32_t usable = pl_lanes_pages_per_lane(recount->lanes) -
                     pl_lanes_reserved(recount->lanes);

    for (int lane = 0; lane < pl_lanes_n(recount->lanes); lane++) {
        int64_t n_free = pl_lanes_free_count(recount->lanes, lane);
        int64_t given  = n_given != NULL ? n_given[lane] : 0;

        if (n_free + recount->held[lane] + given != usable) {
            pl_log(recount->cache->log, PL_LOG_ERROR,
                   "cache: %s lane %d: %" PRId64 " pages free, %" PRId64
                   " held, %" PRId64 " given to requests; there are %" PRId32,
                   tier_name(recount), lane, n_free, recount->held[lane], given,
                   usable);
            return PL_ERR_INTERNAL;
        }
    }
    return PL_OK;
}

/* Pages of fetches, and those that stores have kept: several may. */
static pl_status_t count_ios(recount_t *recount)
{
    const pl_hicache_t *cache = recount->cache;

    for (size_t i = 0; i < cache->fetches.n; i++) {
        const pl_cache_fetch_t *fetch = &cache->fetches.items[i];

        PL_TRY(count_pages(recount, fetch->host, fetch->n, -1));
    }
    for (size_t i = 0; i < cache->stores.n; i++) {
        const pl_cache_store_t *store = &cache->stores.items[i];

        for (int32_t k = store->n_pages - store->n_own; k < store->n_pages;
             k++) {
            pl_page_t page = store->host[k];

            if (((recount->seen[page / 8] & (1u << (page % 8))) == 0) ||
                !pl_cache_is_orphaned(cache, page)) {
                PL_TRY(count_pages(recount, &page, 1, store->node));
            }
        }
    }
    return PL_OK;
}

static pl_status_t recount_tier(recount_t *recount, bool conserve,
                                const int64_t *n_given)
{
    const pl_hicache_t *cache = recount->cache;

    PL_TRY(pl_lanes_check(recount->lanes));
    for (size_t i = 0; i < cache->copies.n; i++) {
        const pl_cache_copy_t *copy = &cache->copies.items[i];

        if (copy->anchor == NULL) {
            PL_TRY(count_pages(recount,
                               recount->tier == PL_TREE_DEVICE ? copy->device
                                                               : copy->host,
                               copy->n_pages, copy->node));
        }
    }
    if (recount->tier == PL_TREE_HOST) {
        PL_TRY(count_ios(recount));
    }
    PL_TRY(pl_tree_visit(cache->tree, count_node, recount));
    return conserve ? check_lanes(recount, n_given) : PL_OK;
}

static pl_status_t check_tier(const pl_hicache_t *cache, int tier,
                              bool conserve, const int64_t *n_given)
{
    recount_t recount = {cache, cache->tiers[tier].lanes, tier, NULL, NULL};
    size_t n_lanes    = (size_t)cache->params.n_lanes;
    pl_status_t status;

    if (recount.lanes == NULL) {
        return PL_OK;
    }
    recount.seen = calloc(
        n_lanes * (size_t)pl_lanes_pages_per_lane(recount.lanes) / 8 + 1, 1);
    recount.held = calloc(n_lanes, sizeof(*recount.held));
    status       = (recount.seen != NULL) && (recount.held != NULL)
                       ? recount_tier(&recount, conserve, n_given)
                       : pl_cache_no_memory(cache, "a recount");
    free(recount.seen);
    free(recount.held);
    return status;
}

/* The record of a copy says what its nodes hold. */
static pl_status_t check_copy(const pl_hicache_t *cache,
                              const pl_cache_copy_t *copy)
{
    const pl_node_t *node = copy->anchor;
    int32_t n             = copy->n_pages;

    for (; (node != NULL) && pl_cache_copies_covers(copy, node);
         node = node->parent) {
        size_t n_node = (size_t)node->n_pages;

        n -= node->n_pages;
        if ((n < 0) ||
            (memcmp(copy->device + n, node->device,
                    n_node * sizeof(*node->device)) != 0) ||
            (memcmp(copy->host + n, node->host.pages,
                    n_node * sizeof(*node->host.pages)) != 0) ||
            (memcmp(copy->owners + n, node->host.owners,
                    n_node * sizeof(*node->host.owners)) != 0)) {
            n = -1;
            break;
        }
    }
    if ((copy->anchor != NULL) && (n != 0)) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: copy %" PRId64 " of node %" PRId64
               " has other pages than its nodes",
               copy->op, copy->node);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

/* The nodes of a store are pinned and hold what it writes. */
static pl_status_t check_store(const pl_hicache_t *cache,
                               const pl_cache_store_t *store)
{
    const pl_node_t *node = store->anchor;
    int32_t n_span        = store->n_span;
    int32_t n             = store->n_pages - store->n_own;

    for (; (node != NULL) && (n_span > 0); node = node->parent) {
        n_span -= node->n_pages;
        for (int32_t i = 0; i < node->n_pages; i++) {
            int32_t at = node->first_page + i - store->first_page;

            if ((at >= 0) && (at < store->n_pages) && (node->pin_ref > 0) &&
                (node->host.n_pages > 0) &&
                (node->host.pages[i] == store->host[at])) {
                n--;
            }
        }
    }
    if ((n_span != 0) || (n != 0)) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: store %" PRId64 " of node %" PRId64
               " has other pages than its nodes",
               store->op, store->node);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

static pl_status_t check_promises(const pl_hicache_t *cache)
{
    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        int32_t promised = 0;

        for (size_t i = 0; i < cache->copies.n; i++) {
            const pl_cache_copy_t *copy = &cache->copies.items[i];

            for (int32_t p = 0;
                 (copy->kind == PL_COPY_WRITE_BACK) && (p < copy->n_pages);
                 p++) {
                promised += pl_page_owner(copy->device[p],
                                          cache->params.n_lanes) == lane;
            }
        }
        if (promised != cache->promised[lane]) {
            pl_log(cache->log, PL_LOG_ERROR,
                   "cache: lane %d: write-backs will free %" PRId32
                   " pages, %" PRId32 " are counted",
                   lane, promised, cache->promised[lane]);
            return PL_ERR_INTERNAL;
        }
    }
    return PL_OK;
}

pl_status_t pl_hicache_check(const pl_hicache_t *cache, const int64_t *n_given)
{
    PL_TRY(pl_tree_check(cache->tree));
    for (size_t i = 0; i < cache->copies.n; i++) {
        PL_TRY(check_copy(cache, &cache->copies.items[i]));
    }
    for (size_t i = 0; i < cache->stores.n; i++) {
        PL_TRY(check_store(cache, &cache->stores.items[i]));
    }
    PL_TRY(check_promises(cache));
    PL_TRY(check_tier(cache, PL_TREE_DEVICE, n_given != NULL, n_given));
    return check_tier(cache, PL_TREE_HOST, true, NULL);
}
