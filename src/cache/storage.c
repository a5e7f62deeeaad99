/* Opening a directory, and what the folder held. */
#include "cache/storage_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cache/tree.h"

/* ---- what the folder held ---- */

/* The page of the own set's lanes at a place, or PL_NO_PAGE. */
static pl_page_t page_of(const pl_storage_t *storage,
                         const pl_storage_place_t *place)
{
    const pl_storage_params_t *params = &storage->params;
    int64_t n_pages = (int64_t)params->n_lanes * params->pages_per_lane;
    int64_t page;

    if ((place->rank < 0) || (place->rank >= params->n_ranks) ||
        (place->slot < 0)) {
        return PL_NO_PAGE;
    }
    page = (int64_t)place->slot * params->n_ranks + place->rank;
    return page < n_pages ? (pl_page_t)page : PL_NO_PAGE;
}

/* Is the entry what it says it is, and its place nobody else's?  own_p: its
 * page, if it lies in the own set. */
static bool is_sound(const pl_storage_t *storage,
                     const pl_storage_entry_t *entry, const uint8_t *seen,
                     pl_page_t *own_p)
{
    *own_p = PL_NO_PAGE;
    if ((entry->position < 0) || (entry->stamp < 1) ||
        (entry->chain != pl_tree_chain_next(entry->parent, entry->key))) {
        return false;
    }
    if (entry->place.set != storage->own_set) {
        return true;
    }
    *own_p = page_of(storage, &entry->place);
    return (*own_p != PL_NO_PAGE) &&
           ((seen[*own_p / 8] & (1u << (*own_p % 8))) == 0);
}

/* Pages without family or order; of two with one chain the later stays. */
static void add_entries(pl_storage_t *storage, const pl_storage_start_t *start,
                        uint8_t *seen, int32_t *ids)
{
    int n_lanes = storage->params.n_lanes;

    for (int32_t e = start->n_entries - 1; e >= 0; e--) {
        pl_storage_entry_t entry = start->entries[e];
        pl_page_t own;

        ids[e] = PL_NO_ENTRY;
        if (!is_sound(storage, &entry, seen, &own) ||
            (pl_storage_lookup(storage, entry.chain, entry.key) !=
             PL_NO_ENTRY)) {
            continue;
        }
        entry.owner                         = own != PL_NO_PAGE
                                                  ? pl_page_owner(own, n_lanes)
                                                  : (pl_owner_t)(entry.position % n_lanes);
        ids[e]                              = pl_storage_add(storage, &entry);
        pl_storage_at(storage, ids[e])->own = own;
        pl_storage_at(storage, ids[e])->is_kept = true;
        if (own != PL_NO_PAGE) {
            seen[own / 8] |= (uint8_t)(1u << (own % 8));
        }
    }
}

static void link_families(pl_storage_t *storage, int32_t n, const int32_t *ids)
{
    for (int32_t e = 0; e < n; e++) {
        const pl_storage_page_t *page;
        int32_t parent;

        if (ids[e] == PL_NO_ENTRY) {
            continue;
        }
        page = pl_storage_at(storage, ids[e]);
        if (page->entry.position == 0) {
            continue;
        }
        parent = pl_storage_lookup_chain(storage, page->entry.parent);
        if ((parent != PL_NO_ENTRY) &&
            (pl_storage_at(storage, parent)->entry.position ==
             page->entry.position - 1)) {
            pl_storage_adopt(storage, parent, ids[e]);
        }
    }
}

/* A page comes into the order after all that need it, so those that an order
 * from elsewhere puts too early wait for their last child. */
static void put_in_order(pl_storage_t *storage, int32_t n, const int32_t *ids,
                         int32_t *open)
{
    for (size_t i = 0; i < storage->pages.n; i++) {
        int32_t parent = storage->pages.items[i].parent;

        open[i] += 1; /* its own turn */
        if (parent != PL_NO_ENTRY) {
            open[parent]++;
        }
    }
    for (int32_t e = 0; e < n; e++) {
        int32_t i = ids[e];

        while ((i != PL_NO_ENTRY) && (--open[i] == 0)) {
            pl_storage_append(storage, i);
            i = pl_storage_at(storage, i)->parent;
        }
    }
}

/* What has no whole prefix goes again: it is on disk for nothing.  What needs
 * it is older. */
static void drop_torn(pl_storage_t *storage)
{
    int32_t i = storage->newest;

    while (i != PL_NO_ENTRY) {
        const pl_storage_page_t *page = pl_storage_at(storage, i);
        int32_t newer                 = page->newer;

        if ((page->parent == PL_NO_ENTRY) && (page->entry.position > 0)) {
            (void)pl_storage_drop(storage, i);
            i = newer != PL_NO_ENTRY ? pl_storage_at(storage, newer)->older
                                     : storage->newest;
        } else {
            i = page->older;
        }
    }
}

/* What was used least recently goes until the bound holds. */
static void drop_excess(pl_storage_t *storage)
{
    int64_t excess = storage->n_kept - storage->params.bound;

    if (!storage->params.read_only && (storage->params.bound > 0) &&
        (excess > 0)) {
        bool done = pl_storage_evict(storage, NULL, excess);

        assert(done);
        (void)done;
    }
}

/* Take exactly the seen pages of a lane: the lowest are handed out first. */
static pl_status_t take_seen(pl_storage_t *storage, int lane,
                             const uint8_t *seen, pl_owner_t *owners,
                             pl_page_t *pages)
{
    int n_lanes  = storage->params.n_lanes;
    int32_t n    = 0;
    int32_t kept = 0;

    for (int32_t slot = 0; slot < storage->params.pages_per_lane; slot++) {
        pl_page_t page = pl_page_at(lane, slot, n_lanes);

        if ((seen[page / 8] & (1u << (page % 8))) != 0) {
            n = slot + 1;
        }
    }
    memset(owners, lane, (size_t)n * sizeof(*owners));
    PL_TRY(pl_lanes_alloc(storage->lanes, owners, n, pages));
    for (int32_t i = 0; i < n; i++) {
        if ((seen[pages[i] / 8] & (1u << (pages[i] % 8))) == 0) {
            pages[kept++] = pages[i];
        }
    }
    return pl_lanes_free(storage->lanes, pages, NULL, kept);
}

static pl_status_t take_all_seen(pl_storage_t *storage, const uint8_t *seen)
{
    size_t n           = (size_t)storage->params.pages_per_lane;
    pl_owner_t *owners = malloc(n * sizeof(*owners));
    pl_page_t *pages   = malloc(n * sizeof(*pages));
    pl_status_t status =
        (owners != NULL) && (pages != NULL) ? PL_OK : PL_ERR_MEMORY;

    for (int lane = 0; (status == PL_OK) && (lane < storage->params.n_lanes);
         lane++) {
        status = take_seen(storage, lane, seen, owners, pages);
    }
    free(owners);
    free(pages);
    return status;
}

static pl_status_t take_start(pl_storage_t *storage,
                              const pl_storage_start_t *start)
{
    size_t n       = (size_t)start->n_entries;
    size_t n_pages = (size_t)storage->params.n_lanes *
                     (size_t)storage->params.pages_per_lane;
    uint8_t *seen      = calloc(n_pages / 8 + 1, 1);
    int32_t *ids       = malloc((n + 1) * sizeof(*ids));
    int32_t *open      = calloc(n + 1, sizeof(*open));
    pl_status_t status = PL_ERR_MEMORY;

    if ((seen == NULL) || (ids == NULL) || (open == NULL) ||
        (pl_storage_reserve(storage, n) != PL_OK) ||
        (PL_ARRAY_RESERVE(&storage->dropped, n) != PL_OK) ||
        (PL_ARRAY_RESERVE(&storage->dropping, n) != PL_OK)) {
        goto out;
    }
    add_entries(storage, start, seen, ids);
    link_families(storage, start->n_entries, ids);
    put_in_order(storage, start->n_entries, ids, open);
    storage->n_kept = (int64_t)storage->pages.n;
    PL_TRY_GOTO(status, take_all_seen(storage, seen), out);
    storage->n_gone = (int64_t)n - storage->n_kept;
    drop_torn(storage);
    storage->n_named                 = (int64_t)n;
    storage->counters.start_pages    = (int64_t)n;
    storage->counters.left_out_pages = (int64_t)n - storage->n_kept;
    drop_excess(storage);

out:
    free(seen);
    free(ids);
    free(open);
    return status;
}

/* ---- opening ---- */

static pl_status_t open_lanes(pl_storage_t *storage)
{
    const pl_lanes_params_t params = {
        .n_lanes        = storage->params.n_lanes,
        .pages_per_lane = storage->params.pages_per_lane,
        .reserved_slots = 0,
        .name           = "storage",
    };
    size_t n = (size_t)params.n_lanes;

    storage->waiting = calloc(n * 4, sizeof(*storage->waiting));
    if (storage->waiting == NULL) {
        return PL_ERR_MEMORY;
    }
    storage->need     = storage->waiting + n;
    storage->target   = storage->need + n;
    storage->deficits = storage->target + n;
    return pl_lanes_open(&params, storage->log, &storage->lanes);
}

pl_status_t pl_storage_open(const pl_storage_params_t *params,
                            const pl_log_t *log, pl_storage_t **storage_p)
{
    pl_storage_t *storage = calloc(1, sizeof(*storage));
    pl_status_t status    = PL_ERR_MEMORY;

    assert((params->n_lanes == params->n_ranks) || (params->n_lanes == 1));
    assert(params->pages_per_lane >= 1);
    if (storage == NULL) {
        pl_log(log, PL_LOG_ERROR, "storage: no memory for its directory");
        return PL_ERR_MEMORY;
    }
    storage->params       = *params;
    storage->params.start = NULL;
    storage->log          = log;
    storage->next_stamp   = 1;
    storage->unused       = PL_NO_ENTRY;
    storage->oldest       = PL_NO_ENTRY;
    storage->newest       = PL_NO_ENTRY;
    storage->epoch        = 1;
    if (params->start != NULL) {
        storage->own_set    = params->start->own_set;
        storage->next_stamp = params->start->next_stamp;
    }
    PL_TRY_GOTO(status, pl_storage_reserve(storage, 0), err_close);
    PL_TRY_GOTO(status, open_lanes(storage), err_close);
    if (params->start != NULL) {
        PL_TRY_GOTO(status, take_start(storage, params->start), err_close);
    }
    *storage_p = storage;
    return PL_OK;

err_close:
    if (status == PL_ERR_MEMORY) {
        status = pl_storage_no_memory(storage);
    }
    pl_storage_close(storage);
    return status;
}

void pl_storage_close(pl_storage_t *storage)
{
    if (storage == NULL) {
        return;
    }
    for (size_t i = 0; i < storage->writes.n; i++) {
        free(storage->writes.items[i].items);
        free(storage->writes.items[i].pages);
    }
    PL_ARRAY_FREE(&storage->writes);
    PL_ARRAY_FREE(&storage->ghosts);
    PL_ARRAY_FREE(&storage->pages);
    PL_ARRAY_FREE(&storage->dropped);
    PL_ARRAY_FREE(&storage->dropping);
    PL_ARRAY_FREE(&storage->work);
    free(storage->buckets);
    free(storage->waiting);
    pl_lanes_close(storage->lanes);
    free(storage);
}

/* ---- looking in ---- */

int32_t pl_storage_own_set(const pl_storage_t *storage)
{
    return storage->own_set;
}

bool pl_storage_is_read_only(const pl_storage_t *storage)
{
    return storage->params.read_only;
}

int64_t pl_storage_settled_stamp(const pl_storage_t *storage)
{
    return storage->writes.n > 0 ? storage->writes.items[0].stamp - 1
                                 : storage->next_stamp - 1;
}

const pl_storage_counters_t *pl_storage_counters(const pl_storage_t *storage)
{
    return &storage->counters;
}

const pl_lanes_t *pl_storage_lanes(const pl_storage_t *storage)
{
    return storage->lanes;
}

int64_t pl_storage_n_indexed(const pl_storage_t *storage)
{
    return storage->n_kept - storage->n_new - storage->n_pending;
}

int64_t pl_storage_n_kept(const pl_storage_t *storage)
{
    return storage->n_kept;
}
