/* Pages by chain, who follows whom, and the order of use. */
#include "cache/storage_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"

pl_status_t pl_storage_no_memory(const pl_storage_t *storage)
{
    pl_log(storage->log, PL_LOG_ERROR,
           "storage: no memory for its directory (%zu pages so far)",
           storage->pages.n);
    return PL_ERR_MEMORY;
}

/* ---- by chain: a hash table whose order decides nothing ---- */

static int32_t *bucket(const pl_storage_t *storage, uint64_t chain)
{
    return &storage
                ->buckets[(size_t)pl_mix64(chain) & (storage->n_buckets - 1)];
}

static void link_bucket(pl_storage_t *storage, int32_t i)
{
    pl_storage_page_t *page = pl_storage_at(storage, i);
    int32_t *first          = bucket(storage, page->entry.chain);

    page->hash_next = *first;
    *first          = i;
}

static pl_status_t grow_table(pl_storage_t *storage, size_t want)
{
    size_t size = storage->n_buckets > 0 ? storage->n_buckets : 64;
    int32_t *buckets;

    while (size < want) {
        size *= 2;
    }
    if (size == storage->n_buckets) {
        return PL_OK;
    }
    buckets = malloc(size * sizeof(*buckets));
    if (buckets == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t b = 0; b < size; b++) {
        buckets[b] = PL_NO_ENTRY;
    }
    free(storage->buckets);
    storage->buckets   = buckets;
    storage->n_buckets = size;
    for (int32_t i = storage->oldest; i != PL_NO_ENTRY;
         i         = pl_storage_at(storage, i)->newer) {
        link_bucket(storage, i);
    }
    return PL_OK;
}

pl_status_t pl_storage_reserve(pl_storage_t *storage, size_t n)
{
    size_t want = storage->pages.n + n;

    if ((PL_ARRAY_RESERVE(&storage->pages, want) != PL_OK) ||
        (PL_ARRAY_RESERVE(&storage->work, want) != PL_OK) ||
        (grow_table(storage, want) != PL_OK)) {
        return pl_storage_no_memory(storage);
    }
    return PL_OK;
}

int32_t pl_storage_lookup(const pl_storage_t *storage, uint64_t chain,
                          pl_page_key_t key)
{
    int32_t i = *bucket(storage, chain);

    while (i != PL_NO_ENTRY) {
        const pl_storage_page_t *page = pl_storage_at(storage, i);

        if ((page->entry.chain == chain) && (page->entry.key.lo == key.lo) &&
            (page->entry.key.hi == key.hi)) {
            break;
        }
        i = page->hash_next;
    }
    return i;
}

int32_t pl_storage_lookup_chain(const pl_storage_t *storage, uint64_t chain)
{
    int32_t i = *bucket(storage, chain);

    while ((i != PL_NO_ENTRY) &&
           (pl_storage_at(storage, i)->entry.chain != chain)) {
        i = pl_storage_at(storage, i)->hash_next;
    }
    return i;
}

/* ---- coming and going ---- */

int32_t pl_storage_add(pl_storage_t *storage, const pl_storage_entry_t *entry)
{
    pl_storage_page_t page = {
        .entry        = *entry,
        .own          = PL_NO_PAGE,
        .next         = PL_NO_PAGE,
        .parent       = PL_NO_ENTRY,
        .first_child  = PL_NO_ENTRY,
        .next_sibling = PL_NO_ENTRY,
        .prev_sibling = PL_NO_ENTRY,
        .older        = PL_NO_ENTRY,
        .newer        = PL_NO_ENTRY,
    };
    int32_t i = storage->unused;

    if (i != PL_NO_ENTRY) {
        storage->unused = pl_storage_at(storage, i)->hash_next;
    } else {
        assert(storage->pages.n < storage->pages.capacity);
        i = (int32_t)storage->pages.n++;
    }
    *pl_storage_at(storage, i) = page;
    storage->n_known++;
    link_bucket(storage, i);
    return i;
}

void pl_storage_adopt(pl_storage_t *storage, int32_t parent, int32_t child)
{
    pl_storage_page_t *page  = pl_storage_at(storage, child);
    pl_storage_page_t *above = pl_storage_at(storage, parent);

    page->parent       = parent;
    page->next_sibling = above->first_child;
    if (above->first_child != PL_NO_ENTRY) {
        pl_storage_at(storage, above->first_child)->prev_sibling = child;
    }
    above->first_child = child;
}

static void leave_family(pl_storage_t *storage, const pl_storage_page_t *page)
{
    if (page->next_sibling != PL_NO_ENTRY) {
        pl_storage_at(storage, page->next_sibling)->prev_sibling =
            page->prev_sibling;
    }
    if (page->prev_sibling != PL_NO_ENTRY) {
        pl_storage_at(storage, page->prev_sibling)->next_sibling =
            page->next_sibling;
    } else if (page->parent != PL_NO_ENTRY) {
        pl_storage_at(storage, page->parent)->first_child = page->next_sibling;
    }
}

/* ---- the order of use ---- */

void pl_storage_append(pl_storage_t *storage, int32_t i)
{
    pl_storage_page_t *page = pl_storage_at(storage, i);

    page->older = storage->newest;
    page->newer = PL_NO_ENTRY;
    if (storage->newest != PL_NO_ENTRY) {
        pl_storage_at(storage, storage->newest)->newer = i;
    } else {
        storage->oldest = i;
    }
    storage->newest = i;
}

static void leave_order(pl_storage_t *storage, const pl_storage_page_t *page)
{
    if (page->older != PL_NO_ENTRY) {
        pl_storage_at(storage, page->older)->newer = page->newer;
    } else {
        storage->oldest = page->newer;
    }
    if (page->newer != PL_NO_ENTRY) {
        pl_storage_at(storage, page->newer)->older = page->older;
    } else {
        storage->newest = page->older;
    }
}

void pl_storage_use(pl_storage_t *storage, int32_t i)
{
    leave_order(storage, pl_storage_at(storage, i));
    pl_storage_append(storage, i);
}

void pl_storage_forget(pl_storage_t *storage, int32_t i)
{
    pl_storage_page_t *page = pl_storage_at(storage, i);
    int32_t *at             = bucket(storage, page->entry.chain);

    assert(page->first_child == PL_NO_ENTRY);
    while (*at != i) {
        at = &pl_storage_at(storage, *at)->hash_next;
    }
    *at = page->hash_next;
    leave_family(storage, page);
    leave_order(storage, page);
    page->hash_next = storage->unused;
    storage->unused = i;
    storage->n_known--;
}
