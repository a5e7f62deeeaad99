/* Storage -> host: what nobody else holds comes back as host copies. */
#include "cache/hicache_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cache/storage_table.h"

void pl_cache_fetch_clear(pl_cache_fetch_t *fetch)
{
    free(fetch->keys);
    free(fetch->host);
    free(fetch->owners);
    free(fetch->entries);
}

static pl_status_t make(pl_hicache_t *cache, const pl_hicache_want_t *want,
                        pl_cache_fetch_t *fetch_p)
{
    size_t n               = (size_t)want->n;
    size_t n_keys          = (size_t)want->first + n;
    pl_cache_fetch_t fetch = {
        .request    = want->request,
        .name_space = want->name_space,
        .first      = want->first,
        .n          = want->n,
    };

    fetch.keys    = malloc(n_keys * sizeof(*fetch.keys));
    fetch.host    = malloc(n * sizeof(*fetch.host));
    fetch.owners  = malloc(n * sizeof(*fetch.owners));
    fetch.entries = malloc(n * sizeof(*fetch.entries));
    if ((fetch.keys == NULL) || (fetch.host == NULL) ||
        (fetch.owners == NULL) || (fetch.entries == NULL) ||
        (PL_ARRAY_RESERVE(&cache->fetches, cache->fetches.n + 1) != PL_OK)) {
        pl_cache_fetch_clear(&fetch);
        return pl_cache_no_memory(cache, "a fetch from storage");
    }
    memcpy(fetch.keys, want->keys, n_keys * sizeof(*fetch.keys));
    *fetch_p = fetch;
    return PL_OK;
}

/* ---- room ---- */

/* The longest run of pages for which each lane has room[lane]. */
static int32_t longest_run(pl_hicache_t *cache, const pl_cache_fetch_t *fetch,
                           const int32_t *room)
{
    int32_t *left = cache->free;
    int32_t i     = 0;

    memcpy(left, room, (size_t)cache->params.n_lanes * sizeof(*left));
    while ((i < fetch->n) && (left[fetch->owners[i]] > 0)) {
        left[fetch->owners[i++]]--;
    }
    return i;
}

static int32_t longest_free(pl_hicache_t *cache, const pl_cache_fetch_t *fetch)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_HOST];

    for (int lane = 0; lane < cache->params.n_lanes; lane++) {
        tier->left[lane] = pl_lanes_free_count(tier->lanes, lane);
    }
    return longest_run(cache, fetch, tier->left);
}

/* The prefix is used now, so that it is not what makes room. */
static pl_status_t make_room(pl_hicache_t *cache, const pl_cache_fetch_t *fetch)
{
    pl_cache_tier_t *tier = &cache->tiers[PL_TREE_HOST];
    pl_match_t prefix;

    PL_TRY(pl_tree_match(cache->tree, fetch->name_space, fetch->keys,
                         fetch->first, &prefix));
    if (!pl_lanes_deficits(tier->lanes, fetch->owners, fetch->n,
                           tier->deficits)) {
        return PL_OK;
    }
    return pl_cache_evict_host(cache, tier->deficits, prefix.last, prefix.last);
}

/* Shorten the fetch to what there is room for; 0: not worth it. */
static pl_status_t fit(pl_hicache_t *cache, const pl_hicache_want_t *want,
                       pl_cache_fetch_t *fetch)
{
    int32_t n = longest_run(cache, fetch, want->room);

    if (n >= want->least) {
        fetch->n = n;
        PL_TRY(make_room(cache, fetch));
        n = longest_free(cache, fetch);
    }
    fetch->n = n >= want->least ? n : 0;
    return fetch->n > 0 ? pl_lanes_alloc(cache->tiers[PL_TREE_HOST].lanes,
                                         fetch->owners, fetch->n, fetch->host)
                        : PL_OK;
}

/* ---- beginning ---- */

static void emit_fetch(const pl_hicache_t *cache, const pl_cache_fetch_t *fetch)
{
    pl_event_t event = pl_event_make(PL_EVENT_FETCH);

    event.tick    = cache->tick;
    event.request = fetch->request;
    event.op      = fetch->op;
    event.value   = fetch->first;
    event.pages   = fetch->host;
    event.n_pages = fetch->n;
    pl_event_emit(&cache->params.events, &event);
}

static pl_status_t start(pl_hicache_t *cache, pl_cache_fetch_t *fetch)
{
    pl_storage_place_t places[PL_STORAGE_READ_PAGES];
    uint64_t chains[PL_STORAGE_READ_PAGES];
    int64_t stamps[PL_STORAGE_READ_PAGES];
    pl_hicache_io_t io = {
        .fetch      = true,
        .node       = -1,
        .request    = fetch->request,
        .first_page = fetch->first,
        .n_pages    = fetch->n,
        .host       = fetch->host,
        .owners     = fetch->owners,
        .places     = places,
        .chains     = chains,
        .stamps     = stamps,
    };

    for (int32_t i = 0; i < fetch->n; i++) {
        places[i] = fetch->entries[i].place;
        chains[i] = fetch->entries[i].chain;
        stamps[i] = fetch->entries[i].stamp;
    }
    fetch->op = cache->params.io(cache->params.io_context, &io);
    if (fetch->op <= 0) {
        pl_log(cache->log, PL_LOG_ERROR,
               "cache: a fetch got number %" PRId64 "; numbers begin at 1",
               fetch->op);
        return PL_ERR_INTERNAL;
    }
    cache->fetches.items[cache->fetches.n++] = *fetch;
    pl_storage_note_fetch(cache->params.storage, fetch->n);
    emit_fetch(cache, fetch);
    return PL_OK;
}

pl_status_t pl_hicache_fetch(pl_hicache_t *cache, const pl_hicache_want_t *want,
                             int64_t *op_p, int32_t *n_p)
{
    pl_storage_t *storage = cache->params.storage;
    pl_cache_fetch_t fetch;
    pl_status_t status;

    assert((want->n <= PL_STORAGE_READ_PAGES) && (want->least >= 1) &&
           (want->least <= want->n));
    *op_p = 0;
    *n_p  = 0;
    PL_TRY(make(cache, want, &fetch));
    status = pl_storage_hold(storage, want->chain, want->keys, want->first,
                             want->n, fetch.entries);
    if (status != PL_OK) {
        pl_cache_fetch_clear(&fetch);
        return status;
    }
    for (int32_t i = 0; i < want->n; i++) {
        fetch.owners[i] = fetch.entries[i].owner;
    }
    status = fit(cache, want, &fetch);
    if ((status != PL_OK) || (fetch.n == 0)) {
        pl_storage_unhold(storage, fetch.entries, want->n);
        pl_cache_fetch_clear(&fetch);
        return status;
    }
    pl_storage_unhold(storage, fetch.entries + fetch.n, want->n - fetch.n);
    PL_TRY(start(cache, &fetch));
    *op_p = fetch.op;
    *n_p  = fetch.n;
    return PL_OK;
}

/* ---- ends ---- */

static void emit_host_node(const pl_hicache_t *cache, const pl_node_t *node,
                           int64_t op)
{
    pl_event_t event = pl_event_make(PL_EVENT_HOST_NODE);

    event.tick    = cache->tick;
    event.request = cache->request;
    event.node    = node->id;
    event.op      = op;
    event.value   = node->parent->id;
    event.value2  = node->first_page;
    event.pages   = node->host.pages;
    event.n_pages = node->n_pages;
    pl_event_emit(&cache->params.events, &event);
}

/* Pages from position `at` to `end` become a node below `above`. */
static pl_status_t add_node(pl_hicache_t *cache, const pl_cache_fetch_t *fetch,
                            pl_node_t *above, int32_t at, int32_t end)
{
    int32_t n    = end - at;
    int32_t skip = at - fetch->first;
    pl_node_t *node;
    pl_meta_t meta;
    pl_status_t status;

    if (pl_meta_make(cache->params.page_tokens, n, fetch->owners + skip,
                     fetch->host + skip, &meta) != PL_OK) {
        return pl_cache_no_memory(cache, "what a host copy records");
    }
    status = pl_tree_insert_host(cache->tree, above, fetch->name_space,
                                 fetch->keys + at, n, meta, &node);
    if (status != PL_OK) {
        pl_meta_clear(&meta);
        return status;
    }
    emit_host_node(cache, node, fetch->op);
    return pl_cache_store(cache, node);
}

/* What nobody has come to hold meanwhile, if its prefix is still there, enters
 * the tree; the rest is free. */
static pl_status_t land(pl_hicache_t *cache, const pl_cache_fetch_t *fetch,
                        int32_t n_good, pl_hicache_fetched_t *fetched)
{
    int32_t end  = fetch->first + n_good;
    int32_t from = 0; /* of what is free */
    pl_match_t have;

    if (n_good > 0) {
        PL_TRY(pl_tree_match(cache->tree, fetch->name_space, fetch->keys, end,
                             &have));
        if ((have.n_total >= fetch->first) && (have.n_total < end)) {
            int32_t n_dup = have.n_total - fetch->first;

            fetched->first_landed = have.n_total;
            fetched->n_landed     = end - have.n_total;
            PL_TRY(add_node(cache, fetch, have.last, have.n_total, end));
            if (n_dup > 0) {
                PL_TRY(pl_cache_give_back(cache, PL_TREE_HOST, fetch->host,
                                          n_dup));
            }
            from = n_good;
        }
    }
    return from < fetch->n
               ? pl_cache_give_back(cache, PL_TREE_HOST, fetch->host + from,
                                    fetch->n - from)
               : PL_OK;
}

static pl_status_t take_record(pl_hicache_t *cache, int64_t op,
                               pl_cache_fetch_t *fetch_p,
                               pl_hicache_fetched_t *fetched_p)
{
    for (size_t i = 0; i < cache->fetches.n; i++) {
        pl_cache_fetch_t *fetch = &cache->fetches.items[i];

        if (fetch->op != op) {
            continue;
        }
        *fetch_p   = *fetch;
        *fetched_p = (pl_hicache_fetched_t){.request    = fetch->request,
                                            .first_page = fetch->first,
                                            .n_pages    = fetch->n};
        cache->fetches.n--;
        memmove(fetch, fetch + 1, (cache->fetches.n - i) * sizeof(*fetch));
        return PL_OK;
    }
    pl_log(cache->log, PL_LOG_ERROR,
           "cache: fetch %" PRId64
           " ends, and none of that number is under way",
           op);
    return PL_ERR_INTERNAL;
}

static void emit_fetched(const pl_hicache_t *cache,
                         const pl_cache_fetch_t *fetch, int32_t n)
{
    pl_event_t event = pl_event_make(PL_EVENT_FETCHED);

    event.tick    = cache->tick;
    event.request = fetch->request;
    event.op      = fetch->op;
    event.value   = n;
    pl_event_emit(&cache->params.events, &event);
}

pl_status_t pl_hicache_fetch_end(pl_hicache_t *cache, int64_t op,
                                 int32_t n_good, int32_t first_bad,
                                 pl_hicache_fetched_t *fetched_p)
{
    pl_storage_t *storage = cache->params.storage;
    pl_cache_fetch_t fetch;
    pl_status_t status;
    int32_t n_sound;

    PL_TRY(take_record(cache, op, &fetch, fetched_p));
    n_good            = n_good < fetch.n ? n_good : fetch.n;
    first_bad         = first_bad < fetch.n ? first_bad : fetch.n;
    n_sound           = pl_storage_sound(storage, fetch.entries, n_good);
    fetched_p->n_good = n_sound;
    emit_fetched(cache, &fetch, n_sound);
    status =
        pl_storage_release(storage, fetch.entries, fetch.n, n_good, first_bad);
    if (status == PL_OK) {
        status = land(cache, &fetch, n_sound, fetched_p);
    }
    pl_cache_fetch_clear(&fetch);
    return status;
}

pl_status_t pl_hicache_fetch_cancel(pl_hicache_t *cache, int64_t op,
                                    pl_hicache_fetched_t *fetched_p)
{
    pl_cache_fetch_t fetch;
    pl_status_t status;

    PL_TRY(take_record(cache, op, &fetch, fetched_p));
    emit_fetched(cache, &fetch, 0);
    pl_storage_unhold(cache->params.storage, fetch.entries, fetch.n);
    status = pl_cache_give_back(cache, PL_TREE_HOST, fetch.host, fetch.n);
    pl_cache_fetch_clear(&fetch);
    return status;
}
