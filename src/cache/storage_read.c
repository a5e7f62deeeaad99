/* What is kept of a prompt, and reads of it. */
#include "cache/storage_internal.h"

#include <assert.h>

#include "cache/tree.h"

int32_t pl_storage_find(const pl_storage_t *storage, uint64_t chain,
                        const pl_page_key_t *keys, int32_t first, int32_t n)
{
    int32_t i = first;

    for (; i < n; i++) {
        int32_t found;

        chain = pl_tree_chain_next(chain, keys[i]);
        found = pl_storage_lookup(storage, chain, keys[i]);
        if ((found == PL_NO_ENTRY) || !pl_storage_at(storage, found)->is_kept) {
            break;
        }
    }
    return i - first;
}

void pl_storage_touch(pl_storage_t *storage, uint64_t name_space,
                      const pl_page_key_t *keys, int32_t n)
{
    uint64_t chain  = pl_tree_chain_start(name_space);
    int32_t deepest = PL_NO_ENTRY;

    for (int32_t i = 0; i < n; i++) {
        int32_t found;

        chain = pl_tree_chain_next(chain, keys[i]);
        found = pl_storage_lookup(storage, chain, keys[i]);
        if (found == PL_NO_ENTRY) {
            break;
        }
        deepest = found;
    }
    for (; deepest != PL_NO_ENTRY;
         deepest = pl_storage_at(storage, deepest)->parent) {
        pl_storage_use(storage, deepest);
    }
}

bool pl_storage_is_held(const pl_storage_t *storage, uint64_t chain,
                        pl_page_key_t key)
{
    int32_t i = pl_storage_lookup(storage, chain, key);

    return (i != PL_NO_ENTRY) && (pl_storage_at(storage, i)->holds > 0);
}

pl_status_t pl_storage_hold(pl_storage_t *storage, uint64_t chain,
                            const pl_page_key_t *keys, int32_t first, int32_t n,
                            pl_storage_entry_t *entries)
{
    size_t n_held = storage->n_holds + (size_t)n;

    /* Each page that is held may be dropped meanwhile. */
    if (PL_ARRAY_RESERVE(&storage->ghosts, n_held) != PL_OK) {
        return pl_storage_no_memory(storage);
    }
    for (int32_t i = 0; i < n; i++) {
        pl_storage_page_t *page;
        int32_t found;

        chain = pl_tree_chain_next(chain, keys[first + i]);
        found = pl_storage_lookup(storage, chain, keys[first + i]);
        assert((found != PL_NO_ENTRY) &&
               pl_storage_at(storage, found)->is_kept);
        page       = pl_storage_at(storage, found);
        entries[i] = page->entry;
        page->holds++;
    }
    storage->n_holds = n_held;
    return PL_OK;
}

void pl_storage_note_fetch(pl_storage_t *storage, int32_t n)
{
    storage->counters.fetches++;
    storage->counters.fetch_pages += n;
}

/* ---- ends ---- */

/* The page as it was when it was held, or PL_NO_ENTRY. */
static int32_t same_page(const pl_storage_t *storage,
                         const pl_storage_entry_t *entry)
{
    int32_t i = pl_storage_lookup(storage, entry->chain, entry->key);

    return (i != PL_NO_ENTRY) && pl_storage_at(storage, i)->is_kept &&
                   (pl_storage_at(storage, i)->entry.stamp == entry->stamp)
               ? i
               : PL_NO_ENTRY;
}

static pl_storage_ghost_t *find_ghost(const pl_storage_t *storage,
                                      const pl_storage_entry_t *entry)
{
    for (size_t i = 0; i < storage->ghosts.n; i++) {
        pl_storage_ghost_t *ghost = &storage->ghosts.items[i];

        if ((ghost->chain == entry->chain) && (ghost->stamp == entry->stamp)) {
            return ghost;
        }
    }
    return NULL;
}

static void unhold_ghost(pl_storage_t *storage, pl_storage_ghost_t *ghost)
{
    if (--ghost->holds > 0) {
        return;
    }
    if (ghost->own != PL_NO_PAGE) {
        pl_storage_quarantine(storage, ghost->own);
    }
    *ghost = storage->ghosts.items[--storage->ghosts.n];
}

int32_t pl_storage_sound(const pl_storage_t *storage,
                         const pl_storage_entry_t *entries, int32_t n)
{
    int32_t i = 0;

    while ((i < n) && (find_ghost(storage, &entries[i]) == NULL)) {
        i++;
    }
    return i;
}

void pl_storage_unhold(pl_storage_t *storage, const pl_storage_entry_t *entries,
                       int32_t n)
{
    size_t before = storage->dropped.n;

    storage->n_holds -= (size_t)n;
    for (int32_t i = 0; i < n; i++) {
        pl_storage_ghost_t *ghost = find_ghost(storage, &entries[i]);

        if (ghost != NULL) {
            unhold_ghost(storage, ghost);
        } else {
            int32_t held =
                pl_storage_lookup(storage, entries[i].chain, entries[i].key);

            assert((held != PL_NO_ENTRY) &&
                   (pl_storage_at(storage, held)->holds > 0));
            pl_storage_at(storage, held)->holds--;
        }
    }
    pl_storage_say_dropped(storage, 0, before);
}

pl_status_t pl_storage_release(pl_storage_t *storage,
                               const pl_storage_entry_t *entries, int32_t n,
                               int32_t n_good, int32_t first_bad)
{
    size_t before = storage->dropped.n;
    int32_t bad;

    assert((0 <= n_good) && (n_good <= first_bad) && (first_bad <= n));
    pl_storage_unhold(storage, entries, n);
    storage->counters.fetched_pages += n_good;
    storage->counters.unread_pages += first_bad - n_good;
    storage->counters.bad_pages += n - first_bad;
    if (first_bad == n) {
        return PL_OK;
    }
    /* What has been written anew meanwhile is not what was found bad. */
    bad    = same_page(storage, &entries[first_bad]);
    before = storage->dropped.n;
    if (bad != PL_NO_ENTRY) {
        int64_t n_dropped = pl_storage_drop(storage, bad);

        storage->counters.dropped_pages += n_dropped;
        pl_storage_say_dropped(storage, n_dropped, before);
    }
    return PL_OK;
}
