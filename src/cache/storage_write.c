/* Writes: places for pages, and what becomes of them. */
#include "cache/storage_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cache/tree.h"

pl_storage_place_t pl_storage_place_of(const pl_storage_t *storage,
                                       pl_page_t page)
{
    pl_storage_place_t place = {
        .set  = storage->own_set,
        .rank = page % storage->params.n_ranks,
        .slot = page / storage->params.n_ranks,
    };

    return place;
}

bool pl_storage_has(const pl_storage_t *storage, uint64_t chain,
                    pl_page_key_t key)
{
    return pl_storage_lookup(storage, chain, key) != PL_NO_ENTRY;
}

bool pl_storage_is_own(const pl_storage_t *storage, uint64_t chain,
                       pl_page_key_t key)
{
    int32_t i = pl_storage_lookup(storage, chain, key);

    return (i != PL_NO_ENTRY) &&
           ((pl_storage_at(storage, i)->own != PL_NO_PAGE) ||
            (pl_storage_at(storage, i)->next != PL_NO_PAGE));
}

pl_storage_write_t *pl_storage_find_write(const pl_storage_t *storage,
                                          int64_t stamp)
{
    size_t low  = 0;
    size_t high = storage->writes.n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (storage->writes.items[middle].stamp < stamp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < storage->writes.n) &&
                   (storage->writes.items[low].stamp == stamp)
               ? &storage->writes.items[low]
               : NULL;
}

/* ---- beginning ---- */

static pl_status_t make_write(pl_storage_t *storage, int32_t n,
                              pl_storage_write_t *write_p)
{
    size_t n_taken = (size_t)storage->params.n_lanes *
                         (size_t)storage->params.pages_per_lane -
                     (size_t)pl_lanes_free_total(storage->lanes) + (size_t)n;
    pl_storage_write_t write = {.n = n};

    /* Every place that is taken may come to wait for a publication. */
    if ((PL_ARRAY_RESERVE(&storage->dropped, n_taken) != PL_OK) ||
        (PL_ARRAY_RESERVE(&storage->dropping, n_taken) != PL_OK) ||
        (PL_ARRAY_RESERVE(&storage->writes, storage->writes.n + 1) != PL_OK)) {
        return pl_storage_no_memory(storage);
    }
    PL_TRY(pl_storage_reserve(storage, (size_t)n));
    write.items = malloc((size_t)n * sizeof(*write.items));
    write.pages = malloc((size_t)n * sizeof(*write.pages));
    if ((write.items == NULL) || (write.pages == NULL)) {
        free(write.items);
        free(write.pages);
        return pl_storage_no_memory(storage);
    }
    *write_p = write;
    return PL_OK;
}

static void clear_write(pl_storage_write_t *write)
{
    free(write->items);
    free(write->pages);
}

/* What `n_more` pages are too many for the bound. */
static int64_t excess_of(const pl_storage_t *storage, int32_t n_more)
{
    int64_t n = storage->n_known + n_more;

    return (storage->params.bound > 0) && (n > storage->params.bound)
               ? n - storage->params.bound
               : 0;
}

/* Places in the owners' lanes for n pages, of which the directory does not know
 * n_more; what is short now is evicted for later. */
static pl_status_t take_places(pl_storage_t *storage, const pl_owner_t *owners,
                               int32_t n, int32_t n_more, pl_page_t *pages)
{
    int64_t excess = excess_of(storage, n_more);
    pl_status_t status;

    if (pl_lanes_deficits(storage->lanes, owners, n, storage->deficits)) {
        (void)pl_storage_evict(storage, storage->deficits, 0);
        storage->wanted = true;
        return PL_REFUSED_SHORT;
    }
    if ((excess > 0) && !pl_storage_evict(storage, NULL, excess)) {
        return PL_REFUSED_SHORT;
    }
    status = pl_lanes_alloc(storage->lanes, owners, n, pages);
    if (status == PL_OK) {
        (void)pl_storage_evict(storage, NULL, 0);
    }
    return status;
}

/* The same while `last`, of the prefix or of the pages themselves, is held, and
 * so all before it: without them the pages would be of no use. */
static pl_status_t take_places_below(pl_storage_t *storage, int32_t last,
                                     const pl_owner_t *owners, int32_t n,
                                     int32_t n_more, pl_page_t *pages)
{
    pl_status_t status;

    if (last != PL_NO_ENTRY) {
        pl_storage_at(storage, last)->holds++;
    }
    status = take_places(storage, owners, n, n_more, pages);
    if (last != PL_NO_ENTRY) {
        pl_storage_at(storage, last)->holds--;
    }
    storage->counters.stores_skipped += status == PL_REFUSED_SHORT ? 1 : 0;
    return status;
}

/* How many of the pages after `chain` a set of old has; *last_p becomes the last
 * of them. */
static int32_t find_known(const pl_storage_t *storage, uint64_t chain,
                          const pl_page_key_t *keys, int32_t n,
                          int32_t *last_p)
{
    int32_t i = 0;

    for (; i < n; i++) {
        int32_t found;

        chain = pl_tree_chain_next(chain, keys[i]);
        found = pl_storage_lookup(storage, chain, keys[i]);
        if (found == PL_NO_ENTRY) {
            break;
        }
        *last_p = found;
    }
    return i;
}

static void add_page(pl_storage_t *storage, pl_storage_write_t *write,
                     int32_t i, const pl_storage_entry_t *entry, int32_t above)
{
    int32_t id = pl_storage_lookup(storage, entry->chain, entry->key);
    pl_storage_page_t *page;

    if (id == PL_NO_ENTRY) {
        id = pl_storage_add(storage, entry);
        pl_storage_append(storage, id);
        if (above != PL_NO_ENTRY) {
            pl_storage_adopt(storage, above, id);
        }
    }
    page = pl_storage_at(storage, id);
    assert((page->own == PL_NO_PAGE) && (page->next == PL_NO_PAGE));
    page->next      = write->pages[i];
    page->write     = write->stamp;
    page->at        = i;
    write->items[i] = id;
}

/* A page and its prefix are used now. */
static void use_path(pl_storage_t *storage, int32_t i)
{
    for (; i != PL_NO_ENTRY; i = pl_storage_at(storage, i)->parent) {
        pl_storage_use(storage, i);
    }
}

pl_status_t pl_storage_take(pl_storage_t *storage, uint64_t chain,
                            const pl_page_key_t *keys, int32_t position,
                            const pl_owner_t *owners, int32_t n,
                            pl_page_t *pages, int64_t *stamp_p)
{
    int32_t above =
        position > 0 ? pl_storage_lookup_chain(storage, chain) : PL_NO_ENTRY;
    pl_storage_entry_t entry = {.parent = chain, .position = position};
    int32_t last             = above;
    pl_storage_write_t write;
    pl_status_t status;
    int32_t n_known;

    assert((n > 0) && ((position == 0) || (above != PL_NO_ENTRY)));
    PL_TRY(make_write(storage, n, &write));
    n_known = find_known(storage, chain, keys, n, &last);
    use_path(storage, last);
    status = take_places_below(storage, last, owners, n, n - n_known,
                               write.pages);
    if (status != PL_OK) {
        clear_write(&write);
        return status;
    }
    write.stamp = storage->next_stamp++;
    for (int32_t i = 0; i < n; i++) {
        entry.key   = keys[i];
        entry.chain = pl_tree_chain_next(entry.parent, keys[i]);
        add_page(storage, &write, i, &entry, above);
        above        = write.items[i];
        entry.parent = entry.chain;
        entry.position++;
    }
    use_path(storage, above);
    memcpy(pages, write.pages, (size_t)n * sizeof(*pages));
    *stamp_p                                   = write.stamp;
    storage->writes.items[storage->writes.n++] = write;
    storage->counters.stores++;
    storage->counters.store_pages += n;
    return PL_OK;
}

/* ---- ends ---- */

/* It is kept at the place that it was written to. */
static void keep_one(pl_storage_t *storage, pl_storage_page_t *page)
{
    if (page->is_kept) { /* until now in a set of old */
        pl_storage_leave_place(storage, page);
        pl_storage_note_gone(storage, page);
        storage->counters.moved_pages++;
    } else {
        storage->n_kept++;
        storage->counters.new_pages++;
    }
    page->own         = page->next;
    page->entry.place = pl_storage_place_of(storage, page->own);
    page->entry.owner = (pl_owner_t)pl_storage_lane(storage, page->own);
    page->entry.stamp = page->write;
    page->is_kept     = true;
    page->is_written  = false;
    page->next        = PL_NO_PAGE;
    page->write       = 0;
    page->epoch       = storage->epoch;
    storage->n_new++;
}

static bool has_kept_prefix(const pl_storage_t *storage,
                            const pl_storage_page_t *page)
{
    return (page->parent == PL_NO_ENTRY) ||
           pl_storage_at(storage, page->parent)->is_kept;
}

void pl_storage_keep(pl_storage_t *storage, int32_t i)
{
    storage->work.n = 0;
    if (has_kept_prefix(storage, pl_storage_at(storage, i))) {
        storage->work.items[storage->work.n++] = i;
    }
    while (storage->work.n > 0) {
        pl_storage_page_t *page =
            pl_storage_at(storage, storage->work.items[--storage->work.n]);
        int32_t child = page->first_child;

        keep_one(storage, page);
        for (; child != PL_NO_ENTRY;
             child = pl_storage_at(storage, child)->next_sibling) {
            if (pl_storage_at(storage, child)->is_written) {
                storage->work.items[storage->work.n++] = child;
            }
        }
    }
}

/* What was dropped while it was written waits as if it had been kept. */
static void end_good(pl_storage_t *storage, const pl_storage_write_t *write)
{
    size_t before = storage->dropped.n;

    for (int32_t i = 0; i < write->n; i++) {
        if (write->items[i] == PL_NO_ENTRY) {
            pl_storage_quarantine(storage, write->pages[i]);
        } else {
            pl_storage_at(storage, write->items[i])->is_written = true;
        }
    }
    for (int32_t i = 0; i < write->n; i++) {
        if ((write->items[i] != PL_NO_ENTRY) &&
            pl_storage_at(storage, write->items[i])->is_written) {
            pl_storage_keep(storage, write->items[i]);
        }
    }
    pl_storage_say_dropped(storage, 0, before);
}

/* Pages that are kept in a set of old stay so. */
static pl_status_t end_bad(pl_storage_t *storage,
                           const pl_storage_write_t *write)
{
    size_t before = storage->dropped.n;
    int64_t n     = 0;

    for (int32_t i = write->n - 1; i >= 0; i--) {
        int32_t id = write->items[i];
        pl_storage_page_t *page;

        if (id == PL_NO_ENTRY) {
            continue;
        }
        page        = pl_storage_at(storage, id);
        page->next  = PL_NO_PAGE;
        page->write = 0;
        if (!page->is_kept) {
            n += pl_storage_drop(storage, id);
        }
    }
    storage->counters.stores_failed++;
    pl_storage_say_dropped(storage, n, before);
    return pl_lanes_free(storage->lanes, write->pages, NULL, write->n);
}

pl_status_t pl_storage_stored(pl_storage_t *storage, int64_t stamp, bool good)
{
    pl_storage_write_t *found = pl_storage_find_write(storage, stamp);
    pl_storage_write_t write;
    pl_status_t status = PL_OK;
    size_t i;

    if (found == NULL) {
        pl_log(storage->log, PL_LOG_ERROR,
               "storage: write %" PRId64
               " ends, and none of that number is under way",
               stamp);
        return PL_ERR_INTERNAL;
    }
    write = *found;
    if (good) {
        end_good(storage, &write);
    } else {
        status = end_bad(storage, &write);
    }
    i = (size_t)(found - storage->writes.items);
    storage->writes.n--;
    memmove(found, found + 1, (storage->writes.n - i) * sizeof(*found));
    clear_write(&write);
    return status;
}
