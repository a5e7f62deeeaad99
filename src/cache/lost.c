/* Which pages left the tree: a set of chain hashes that only grows.  It answers
 * why a page was missed (never seen, or held and lost); nothing is decided by
 * it. */
#include "cache/hicache_internal.h"

#include <stdlib.h>

static void put(uint64_t *slots, size_t n_slots, uint64_t hash)
{
    size_t i = (size_t)hash & (n_slots - 1);

    while (slots[i] != 0) {
        i = (i + 1) & (n_slots - 1);
    }
    slots[i] = hash;
}

/* Keep the table at most two thirds full. */
static pl_status_t reserve(pl_hicache_t *cache, size_t n_more)
{
    size_t want    = cache->lost.n + n_more;
    size_t n_slots = cache->lost.n_slots > 0 ? cache->lost.n_slots : 64;
    uint64_t *slots;

    while (n_slots / 3 * 2 < want) {
        n_slots *= 2;
    }
    if (n_slots == cache->lost.n_slots) {
        return PL_OK;
    }
    slots = calloc(n_slots, sizeof(*slots));
    if (slots == NULL) {
        return pl_cache_no_memory(cache, "the pages it once held");
    }
    for (size_t i = 0; i < cache->lost.n_slots; i++) {
        if (cache->lost.slots[i] != 0) {
            put(slots, n_slots, cache->lost.slots[i]);
        }
    }
    free(cache->lost.slots);
    cache->lost.slots   = slots;
    cache->lost.n_slots = n_slots;
    return PL_OK;
}

/* 0 marks a free slot. */
static uint64_t nonzero(uint64_t chain)
{
    return chain != 0 ? chain : 1;
}

bool pl_cache_lost_has(const pl_hicache_t *cache, uint64_t chain)
{
    size_t mask = cache->lost.n_slots - 1;
    size_t i    = (size_t)nonzero(chain) & mask;

    if (cache->lost.n_slots == 0) {
        return false;
    }
    while ((cache->lost.slots[i] != 0) &&
           (cache->lost.slots[i] != nonzero(chain))) {
        i = (i + 1) & mask;
    }
    return cache->lost.slots[i] != 0;
}

/* The table is larger than any near memory, and hashes go anywhere. */
static void fetch_ahead(const pl_hicache_t *cache, uint64_t chain)
{
#if defined(__GNUC__)
    __builtin_prefetch(
        &cache->lost.slots[(size_t)nonzero(chain) & (cache->lost.n_slots - 1)]);
#else
    (void)cache;
    (void)chain;
#endif
}

static void add(pl_hicache_t *cache, uint64_t chain)
{
    if (!pl_cache_lost_has(cache, chain)) {
        put(cache->lost.slots, cache->lost.n_slots, nonzero(chain));
        cache->lost.n++;
        cache->lost.sum += chain;
    }
}

pl_status_t pl_cache_lost_add(pl_hicache_t *cache, const pl_node_t *node)
{
    enum { AHEAD = 16 };
    uint64_t chains[AHEAD];
    uint64_t chain = node->parent == pl_tree_root(cache->tree)
                         ? pl_tree_chain_start(node->name_space)
                         : node->parent->chain;

    PL_TRY(reserve(cache, (size_t)node->n_pages));
    for (int32_t at = 0; at < node->n_pages; at += AHEAD) {
        int32_t n = node->n_pages - at < AHEAD ? node->n_pages - at : AHEAD;

        for (int32_t i = 0; i < n; i++) {
            chain     = pl_tree_chain_next(chain, node->keys[at + i]);
            chains[i] = chain;
            fetch_ahead(cache, chain);
        }
        for (int32_t i = 0; i < n; i++) {
            add(cache, chains[i]);
        }
    }
    return PL_OK;
}

int32_t pl_hicache_once_held(const pl_hicache_t *cache, const pl_node_t *at,
                             uint64_t name_space, const pl_page_key_t *keys,
                             int32_t from, int32_t n)
{
    uint64_t chain = at == pl_tree_root(cache->tree)
                         ? pl_tree_chain_start(name_space)
                         : at->chain;
    int32_t i      = at->first_page + at->n_pages;

    for (; i < from; i++) { /* in the tree still, but no part of the match */
        chain = pl_tree_chain_next(chain, keys[i]);
    }
    while (i < n) {
        chain = pl_tree_chain_next(chain, keys[i]);
        if (!pl_cache_lost_has(cache, chain)) {
            break;
        }
        i++;
    }
    return i - from;
}
