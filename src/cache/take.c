/* Device pages with given owners.  There is no other way to get any. */
#include "cache/hicache_internal.h"

/* One deficit an attempt for n pages: how many lanes are short, by how much. */
static void note_deficit(pl_hicache_t *cache, const int32_t *deficits,
                         int32_t n)
{
    const pl_lanes_t *lanes = cache->tiers[PL_TREE_DEVICE].lanes;
    int64_t n_lanes         = 0;
    int64_t n_pages         = 0;

    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        n_lanes += deficits[lane] > 0 ? 1 : 0;
        n_pages += deficits[lane];
    }
    cache->counters.deficits++;
    cache->counters.alone_deficits += pl_lanes_free_total(lanes) >= n ? 1 : 0;
    pl_cache_emit(cache, PL_EVENT_DEFICIT, NULL, 0, n_lanes, n_pages);
}

static void note_retry(pl_hicache_t *cache, bool good, pl_hicache_try_t *try_p)
{
    try_p->retried = true;
    cache->counters.retries++;
    cache->counters.retries_failed += good ? 0 : 1;
    pl_cache_emit(cache, PL_EVENT_RETRY, NULL, 0, good ? 1 : 0, 0);
}

static pl_status_t attempt(pl_hicache_t *cache, const pl_owner_t *owners,
                           int32_t n, pl_page_t *pages)
{
    PL_TRY(
        pl_lanes_alloc(cache->tiers[PL_TREE_DEVICE].lanes, owners, n, pages));
    pl_cache_emit_pages(cache, PL_EVENT_ALLOC, pages, n);
    return PL_OK;
}

pl_status_t pl_cache_take(pl_hicache_t *cache, const pl_owner_t *owners,
                          int32_t n, pl_page_t *pages, pl_hicache_try_t *try_p)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_DEVICE];
    bool is_due = (cache->waiting >= 0) && (cache->waiting == cache->request);
    pl_status_t status = attempt(cache, owners, n, pages);

    *try_p         = (pl_hicache_try_t){0};
    cache->waiting = -1;
    cache->counters.takes += is_due ? 0 : 1;
    if (status == PL_OK) {
        if (is_due) {
            note_retry(cache, true, try_p);
        }
        return PL_OK;
    }
    if (status != PL_REFUSED_SHORT) {
        return status;
    }

    /* What waited for write-backs is still the same shortage. */
    (void)pl_lanes_deficits(tier->lanes, owners, n, tier->deficits);
    if (!is_due) {
        try_p->deficit = true;
        note_deficit(cache, tier->deficits, n);
    }
    PL_TRY(pl_cache_evict_device(cache, tier->deficits));
    if ((cache->n_write_backs > 0) &&
        pl_lanes_deficits(tier->lanes, owners, n, tier->deficits)) {
        try_p->wait    = true;
        cache->waiting = cache->request;
        return PL_REFUSED_SHORT;
    }
    status = attempt(cache, owners, n, pages);
    if ((status == PL_OK) || (status == PL_REFUSED_SHORT)) {
        note_retry(cache, status == PL_OK, try_p);
    }
    return status;
}

pl_status_t pl_hicache_extend(pl_hicache_t *cache, const pl_owner_t *owners,
                              int32_t n, pl_page_t *pages,
                              pl_hicache_try_t *try_p)
{
    return pl_cache_take(cache, owners, n, pages, try_p);
}
