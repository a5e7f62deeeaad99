/* Host -> storage: behind backups, and for host copies that came otherwise. */
#include "cache/hicache_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what may be stored ---- */

/* Known by something else than its tokens, in this run alone: it holds
 * generated ones. */
static bool is_generated(pl_page_key_t key)
{
    return (key.hi & PL_PAGE_KEY_OTHER) != 0;
}

static uint64_t chain_before(const pl_node_t *node)
{
    return node->first_page == 0 ? pl_tree_chain_start(node->name_space)
                                 : node->parent->chain;
}

/* Does storage have the page before the node's first? */
static bool has_prefix(const pl_hicache_t *cache, const pl_node_t *node)
{
    const pl_node_t *above = node->parent;

    return (node->first_page == 0) ||
           pl_storage_has(cache->params.storage, above->chain,
                          above->keys[above->n_pages - 1]);
}

static bool is_stored(const pl_hicache_t *cache, const pl_node_t *node)
{
    return pl_storage_is_own(cache->params.storage, node->chain,
                             node->keys[node->n_pages - 1]);
}

/* Host copies, whole, from the root down to the node.  None of them goes while
 * the node's is pinned, so no device page above counts on a pinned one below.
 */
static bool is_on_host(const pl_hicache_t *cache, const pl_node_t *node)
{
    const pl_node_t *root = pl_tree_root(cache->tree);

    while ((node != root) && pl_cache_is_backed_up(node)) {
        node = node->parent;
    }
    return node == root;
}

static bool may_store(const pl_hicache_t *cache, const pl_node_t *node)
{
    return (cache->params.storage != NULL) &&
           !pl_storage_is_read_only(cache->params.storage) &&
           (cache->n_store_failures < PL_STORE_FAILURES) &&
           pl_cache_is_backed_up(node) && !is_stored(cache, node) &&
           has_prefix(cache, node) && is_on_host(cache, node);
}

/* ---- beginning ---- */

/* Some pages of a node, and room for what is said of each. */
typedef struct run {
    pl_node_t *node;
    int32_t first, n; /* in the node */
    uint64_t chain;   /* of the prefix before */
    pl_page_t *pages; /* of the storage lanes */
    pl_storage_place_t *places;
    uint64_t *chains;
    int64_t *stamps;
} run_t;

void pl_cache_store_clear(pl_cache_store_t *store)
{
    free(store->host);
}

static void run_clear(run_t *run)
{
    free(run->pages);
    free(run->places);
    free(run->chains);
    free(run->stamps);
}

static pl_status_t run_make(pl_hicache_t *cache, run_t *run,
                            pl_cache_store_t *store)
{
    size_t n = (size_t)run->n;

    run->pages  = malloc(n * sizeof(*run->pages));
    run->places = malloc(n * sizeof(*run->places));
    run->chains = malloc(n * sizeof(*run->chains));
    run->stamps = malloc(n * sizeof(*run->stamps));
    store->host = malloc(n * sizeof(*store->host));
    if ((run->pages == NULL) || (run->places == NULL) ||
        (run->chains == NULL) || (run->stamps == NULL) ||
        (store->host == NULL) ||
        (PL_ARRAY_RESERVE(&cache->stores, cache->stores.n + 1) != PL_OK)) {
        return pl_cache_no_memory(cache, "a write to storage");
    }
    return PL_OK;
}

static void run_fill(const pl_hicache_t *cache, run_t *run, int64_t stamp)
{
    uint64_t chain = run->chain;

    for (int32_t i = 0; i < run->n; i++) {
        chain = pl_tree_chain_next(chain, run->node->keys[run->first + i]);
        run->chains[i] = chain;
        run->stamps[i] = stamp;
        run->places[i] =
            pl_storage_place_of(cache->params.storage, run->pages[i]);
    }
}

static void emit_store(const pl_hicache_t *cache, const run_t *run,
                       const pl_cache_store_t *store)
{
    pl_event_t event = pl_event_make(PL_EVENT_STORE);

    event.tick    = cache->tick;
    event.request = cache->request;
    event.node    = store->node;
    event.op      = store->op;
    event.value   = run->node->first_page + run->first;
    event.pages   = run->pages;
    event.other   = store->host;
    event.n_pages = run->n;
    pl_event_emit(&cache->params.events, &event);
}

/* All that is needed is there. */
static pl_status_t start(pl_hicache_t *cache, const run_t *run,
                         pl_cache_store_t *store)
{
    pl_node_t *node    = run->node;
    pl_hicache_io_t io = {
        .node       = node->id,
        .request    = -1,
        .first_page = node->first_page + run->first,
        .n_pages    = run->n,
        .host       = store->host,
        .owners     = node->host.owners + run->first,
        .places     = run->places,
        .chains     = run->chains,
        .stamps     = run->stamps,
    };

    store->anchor     = node;
    store->node       = node->id;
    store->n_span     = node->n_pages;
    store->first_page = io.first_page;
    store->n_pages    = run->n;
    store->op         = cache->params.io(cache->params.io_context, &io);
    if (store->op <= 0) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: a store of node %" PRId64 " got number %" PRId64
               "; numbers begin at 1",
               node->id, store->op);
        return PL_ERR_INTERNAL;
    }
    pl_tree_pin(cache->tree, node);
    cache->stores.items[cache->stores.n++] = *store;
    emit_store(cache, run, store);
    return PL_OK;
}

static pl_status_t store_run(pl_hicache_t *cache, run_t *run)
{
    const pl_node_t *node  = run->node;
    pl_cache_store_t store = {0};
    pl_status_t status     = run_make(cache, run, &store);

    if (status != PL_OK) {
        goto err_clear;
    }
    memcpy(store.host, node->host.pages + run->first,
           (size_t)run->n * sizeof(*store.host));
    status = pl_storage_take(
        cache->params.storage, run->chain, node->keys + run->first,
        node->first_page + run->first, node->host.owners + run->first, run->n,
        run->pages, &store.stamp);
    if (status != PL_OK) {
        goto err_clear;
    }
    run_fill(cache, run, store.stamp);
    status = start(cache, run, &store);
    run_clear(run);
    return status;

err_clear:
    run_clear(run);
    pl_cache_store_clear(&store);
    if (status == PL_REFUSED_SHORT) {
        pl_cache_emit(cache, PL_EVENT_STORE_SKIP, node, 0, run->n, 0);
    }
    return status;
}

/* The end of the pages from `first` on that lack a place in the own set. */
static int32_t end_of_run(const pl_hicache_t *cache, const pl_node_t *node,
                          int32_t first, uint64_t *chain_p)
{
    int32_t i = first;

    for (; (i < node->n_pages) && !is_generated(node->keys[i]); i++) {
        uint64_t next = pl_tree_chain_next(*chain_p, node->keys[i]);

        if (pl_storage_is_own(cache->params.storage, next, node->keys[i])) {
            break;
        }
        *chain_p = next;
    }
    return i;
}

pl_status_t pl_cache_store(pl_hicache_t *cache, pl_node_t *node)
{
    uint64_t chain;
    int32_t i = 0;

    if (!may_store(cache, node)) {
        return PL_OK;
    }
    chain = chain_before(node);
    while ((i < node->n_pages) && !is_generated(node->keys[i])) {
        run_t run = {.node = node, .first = i, .chain = chain};

        run.n = end_of_run(cache, node, i, &chain) - i;
        if (run.n > 0) {
            pl_status_t status = store_run(cache, &run);

            if (status != PL_OK) {
                return status == PL_REFUSED_SHORT ? PL_OK : status;
            }
            i += run.n;
        } else {
            chain = pl_tree_chain_next(chain, node->keys[i++]);
        }
    }
    return PL_OK;
}

/* ---- what waited for it ---- */

/* Copies below the node that were whole before its own was. */
static pl_status_t store_below(pl_hicache_t *cache, pl_node_t *top)
{
    pl_node_t *at = pl_cache_next_below(top, top);

    while (at != NULL) {
        bool was_stored = is_stored(cache, at);

        PL_TRY(pl_cache_store(cache, at));
        at = !was_stored && is_stored(cache, at) ? pl_cache_next_below(top, at)
                                                 : pl_cache_skip_below(top, at);
    }
    return PL_OK;
}

pl_status_t pl_cache_store_path(pl_hicache_t *cache, pl_node_t *anchor,
                                const pl_node_t *above)
{
    size_t n = 0;

    if (cache->params.storage == NULL) {
        return PL_OK;
    }
    for (const pl_node_t *node = anchor; node != above; node = node->parent) {
        n++;
    }
    if (PL_ARRAY_RESERVE(&cache->nodes, n) != PL_OK) {
        return pl_cache_no_memory(cache, "the path of a copy");
    }
    cache->nodes.n = n;
    for (pl_node_t *node = anchor; node != above; node = node->parent) {
        cache->nodes.items[--n] = node;
    }
    for (size_t i = 0; i < cache->nodes.n; i++) {
        PL_TRY(pl_cache_store(cache, cache->nodes.items[i]));
    }
    return store_below(cache, anchor);
}

/* ---- ends ---- */

/* Unpin what the store has pinned, which splits may have cut, as far up as
 * position `down_to`. */
static void release(pl_hicache_t *cache, pl_cache_store_t *store,
                    int32_t down_to)
{
    while ((store->n_span > 0) && (store->anchor->first_page >= down_to)) {
        pl_node_t *node = store->anchor;

        pl_tree_unpin(cache->tree, node);
        store->n_span -= node->n_pages;
        store->anchor = store->n_span > 0 ? node->parent : NULL;
    }
}

void pl_cache_stores_orphan(pl_hicache_t *cache, const pl_node_t *top)
{
    for (size_t i = 0; i < cache->stores.n; i++) {
        pl_cache_store_t *store = &cache->stores.items[i];

        if ((store->anchor != NULL) && pl_cache_is_within(store->anchor, top)) {
            int32_t n = store->first_page + store->n_pages - top->first_page;

            release(cache, store, top->first_page);
            n            = n < store->n_pages ? n : store->n_pages;
            store->n_own = n > 0 ? n : 0;
        }
    }
}

static bool has_page(const pl_page_t *pages, int32_t n, pl_page_t page)
{
    for (int32_t i = 0; i < n; i++) {
        if (pages[i] == page) {
            return true;
        }
    }
    return false;
}

bool pl_cache_is_orphaned(const pl_hicache_t *cache, pl_page_t page)
{
    for (size_t i = 0; i < cache->copies.n; i++) {
        const pl_cache_copy_t *copy = &cache->copies.items[i];

        if ((copy->anchor == NULL) &&
            has_page(copy->host, copy->n_pages, page)) {
            return true;
        }
    }
    for (size_t i = 0; i < cache->stores.n; i++) {
        const pl_cache_store_t *store = &cache->stores.items[i];

        if (has_page(store->host + store->n_pages - store->n_own, store->n_own,
                     page)) {
            return true;
        }
    }
    return false;
}

pl_status_t pl_cache_give_back_host(pl_hicache_t *cache, const pl_page_t *pages,
                                    int32_t n)
{
    int32_t from = 0;

    for (int32_t i = 0; i <= n; i++) {
        if ((i < n) && !pl_cache_is_orphaned(cache, pages[i])) {
            continue;
        }
        if (i > from) {
            PL_TRY(pl_cache_give_back(cache, PL_TREE_HOST, pages + from,
                                      i - from));
        }
        from = i + 1;
    }
    return PL_OK;
}

static pl_status_t finish(pl_hicache_t *cache, pl_cache_store_t *store,
                          bool good)
{
    pl_cache_emit(cache, PL_EVENT_STORED, NULL, store->op, good ? 1 : 0, 0);
    PL_TRY(pl_storage_stored(cache->params.storage, store->stamp, good));
    release(cache, store, 0);
    return pl_cache_give_back_host(
        cache, store->host + store->n_pages - store->n_own, store->n_own);
}

pl_status_t pl_hicache_store_end(pl_hicache_t *cache, int64_t op, bool good)
{
    for (size_t i = 0; i < cache->stores.n; i++) {
        pl_cache_store_t store = cache->stores.items[i];
        pl_status_t status;

        if (store.op != op) {
            continue;
        }
        cache->stores.n--;
        memmove(&cache->stores.items[i], &cache->stores.items[i + 1],
                (cache->stores.n - i) * sizeof(store));
        cache->n_store_failures = good ? 0 : cache->n_store_failures + 1;
        /* What its host copy says has proved wrong: nobody shall read it. */
        status = finish(cache, &store, good && (store.n_own == 0));
        pl_cache_store_clear(&store);
        return status;
    }
    pl_log(cache->log, PL_LOG_ERROR,
           "cache: store %" PRId64
           " ends, and none of that number is under way",
           op);
    return PL_ERR_INTERNAL;
}

int64_t pl_hicache_ios_under_way(const pl_hicache_t *cache)
{
    return (int64_t)(cache->stores.n + cache->fetches.n);
}
