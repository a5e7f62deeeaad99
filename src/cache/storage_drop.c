/* Pages that go: what was used least recently, and what is bad. */
#include "cache/storage_internal.h"

#include <assert.h>

void pl_storage_quarantine(pl_storage_t *storage, pl_page_t page)
{
    assert(storage->dropped.n < storage->dropped.capacity);
    storage->dropped.items[storage->dropped.n++] = page;
    storage->waiting[pl_storage_lane(storage, page)]++;
}

void pl_storage_say_dropped(pl_storage_t *storage, int64_t n, size_t before)
{
    pl_event_t event = pl_event_make(PL_EVENT_STORAGE_DROP);

    if ((n == 0) && (storage->dropped.n == before)) {
        return;
    }
    event.value   = n;
    event.pages   = storage->dropped.items + before;
    event.n_pages = (int32_t)(storage->dropped.n - before);
    pl_event_emit(&storage->params.events, &event);
}

void pl_storage_leave_place(pl_storage_t *storage, pl_storage_page_t *page)
{
    if (page->holds > 0) {
        pl_storage_ghost_t ghost = {page->entry.chain, page->entry.stamp,
                                    page->own, page->holds};

        assert(storage->ghosts.n < storage->ghosts.capacity);
        storage->ghosts.items[storage->ghosts.n++] = ghost;
        page->holds                                = 0;
    } else if (page->own != PL_NO_PAGE) {
        pl_storage_quarantine(storage, page->own);
    }
}

static bool drop_one(pl_storage_t *storage, int32_t i)
{
    pl_storage_page_t *page = pl_storage_at(storage, i);
    bool was_kept           = page->is_kept;

    if (was_kept) {
        pl_storage_leave_place(storage, page);
        pl_storage_note_gone(storage, page);
        storage->n_kept--;
    }
    if (page->is_written) {
        pl_storage_quarantine(storage, page->next);
    } else if (page->write != 0) {
        pl_storage_find_write(storage, page->write)->items[page->at] =
            PL_NO_ENTRY;
    }
    pl_storage_forget(storage, i);
    return was_kept;
}

int64_t pl_storage_drop(pl_storage_t *storage, int32_t i)
{
    int64_t n = 0;

    storage->work.n                        = 0;
    storage->work.items[storage->work.n++] = i;
    for (size_t k = 0; k < storage->work.n; k++) {
        int32_t child =
            pl_storage_at(storage, storage->work.items[k])->first_child;

        while (child != PL_NO_ENTRY) {
            storage->work.items[storage->work.n++] = child;
            child = pl_storage_at(storage, child)->next_sibling;
        }
    }
    while (storage->work.n > 0) { /* children first */
        n += drop_one(storage, storage->work.items[--storage->work.n]) ? 1 : 0;
    }
    return n;
}

/* ---- eviction ---- */

/* Nothing below an evictable page is under way, since all that needs it has
 * gone before. */
static bool can_go(const pl_storage_page_t *page)
{
    return page->is_kept && (page->holds == 0) && (page->write == 0);
}

/* need[lane] = more pages for the deficits, target[lane] = and some ahead. */
static bool set_need(pl_storage_t *storage, const int32_t *deficits)
{
    int32_t low  = storage->params.pages_per_lane / 32;
    int32_t high = storage->params.pages_per_lane / 16;
    bool any     = false;

    for (int lane = 0; lane < storage->params.n_lanes; lane++) {
        int32_t lacks  = deficits != NULL ? deficits[lane] : 0;
        int32_t coming = storage->waiting[lane];
        int32_t spare =
            lacks > 0 ? coming - lacks
                      : coming + pl_lanes_free_count(storage->lanes, lane);

        storage->need[lane]   = spare < 0 ? -spare : 0;
        storage->target[lane] = spare < low ? high - spare : 0;
        any = any || (storage->need[lane] > 0) || (storage->target[lane] > 0);
    }
    return any;
}

static bool is_any(const pl_storage_t *storage, const int32_t *counts)
{
    for (int lane = 0; lane < storage->params.n_lanes; lane++) {
        if (counts[lane] > 0) {
            return true;
        }
    }
    return false;
}

/* How many of the oldest pages must go; 0 if the need cannot be met. */
static int64_t count_victims(pl_storage_t *storage)
{
    int32_t i = storage->oldest;
    int64_t n = 0;

    while (
        (i != PL_NO_ENTRY) && can_go(pl_storage_at(storage, i)) &&
        (is_any(storage, storage->need) || is_any(storage, storage->target))) {
        pl_page_t own = pl_storage_at(storage, i)->own;

        if (own != PL_NO_PAGE) {
            storage->need[pl_storage_lane(storage, own)]--;
            storage->target[pl_storage_lane(storage, own)]--;
        }
        n++;
        i = pl_storage_at(storage, i)->newer;
    }
    return is_any(storage, storage->need) ? 0 : n;
}

void pl_storage_evict(pl_storage_t *storage, const int32_t *deficits)
{
    size_t before = storage->dropped.n;
    int64_t n     = set_need(storage, deficits) ? count_victims(storage) : 0;

    for (int64_t k = 0; k < n; k++) {
        (void)drop_one(storage, storage->oldest);
    }
    storage->wanted = storage->wanted || (n > 0);
    storage->counters.evicted_pages += n;
    pl_storage_say_dropped(storage, n, before);
}
