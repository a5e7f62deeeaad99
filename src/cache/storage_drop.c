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

enum { MARK_NONE, MARK_STAYS, MARK_GOES };

/* Somebody has it, or something that needs it, which stands before it in the
 * order of use and is marked. */
static bool must_stay(const pl_storage_t *storage,
                      const pl_storage_page_t *page)
{
    int32_t child = page->first_child;

    while ((child != PL_NO_ENTRY) &&
           (pl_storage_at(storage, child)->mark != MARK_STAYS)) {
        child = pl_storage_at(storage, child)->next_sibling;
    }
    return !page->is_kept || (page->holds > 0) || (page->write != 0) ||
           (child != PL_NO_ENTRY);
}

/* need[lane] = more pages for the deficits, target[lane] = and some ahead. */
static void set_need(pl_storage_t *storage, const int32_t *deficits)
{
    int32_t low  = storage->params.pages_per_lane / 32;
    int32_t high = storage->params.pages_per_lane / 16;

    for (int lane = 0; lane < storage->params.n_lanes; lane++) {
        int32_t lacks  = deficits != NULL ? deficits[lane] : 0;
        int32_t coming = storage->waiting[lane];
        int32_t spare =
            lacks > 0 ? coming - lacks
                      : coming + pl_lanes_free_count(storage->lanes, lane);

        storage->need[lane]   = spare < 0 ? -spare : 0;
        storage->target[lane] = spare < low ? high - spare : 0;
    }
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

static bool helps(const pl_storage_t *storage, const pl_storage_page_t *page,
                  int64_t excess)
{
    int lane = page->own != PL_NO_PAGE ? pl_storage_lane(storage, page->own)
                                       : -1;

    return (excess > 0) || ((lane >= 0) && ((storage->need[lane] > 0) ||
                                            (storage->target[lane] > 0)));
}

/* The page goes, with all below it that does not yet. */
static int64_t mark_to_go(pl_storage_t *storage, int32_t top)
{
    int64_t n = 0;

    storage->work.n                        = 0;
    storage->work.items[storage->work.n++] = top;
    pl_storage_at(storage, top)->mark      = MARK_GOES;
    while (storage->work.n > 0) {
        const pl_storage_page_t *page =
            pl_storage_at(storage, storage->work.items[--storage->work.n]);
        int32_t child = page->first_child;

        n++;
        if (page->own != PL_NO_PAGE) {
            storage->need[pl_storage_lane(storage, page->own)]--;
            storage->target[pl_storage_lane(storage, page->own)]--;
        }
        for (; child != PL_NO_ENTRY;
             child = pl_storage_at(storage, child)->next_sibling) {
            if (pl_storage_at(storage, child)->mark != MARK_GOES) {
                pl_storage_at(storage, child)->mark    = MARK_GOES;
                storage->work.items[storage->work.n++] = child;
            }
        }
    }
    return n;
}

/* Mark what is to go, from what was used least recently on, and return the page
 * after the last that was looked at.  *n_p: how many go. */
static int32_t choose(pl_storage_t *storage, int64_t excess, int64_t *n_p)
{
    int32_t i = storage->oldest;

    *n_p = 0;
    while ((i != PL_NO_ENTRY) &&
           ((excess > *n_p) || is_any(storage, storage->need) ||
            is_any(storage, storage->target))) {
        pl_storage_page_t *page = pl_storage_at(storage, i);

        page->mark = must_stay(storage, page) ? MARK_STAYS : MARK_NONE;
        if ((page->mark == MARK_NONE) &&
            helps(storage, page, excess - *n_p)) {
            *n_p += mark_to_go(storage, i);
        }
        i = page->newer;
    }
    return i;
}

bool pl_storage_evict(pl_storage_t *storage, const int32_t *deficits,
                      int64_t excess)
{
    size_t before = storage->dropped.n;
    int64_t n     = 0;
    int32_t i, end;

    set_need(storage, deficits);
    end = choose(storage, excess, &n);
    if (is_any(storage, storage->need) || (n < excess)) {
        return false;
    }
    for (i = storage->oldest; (n > 0) && (i != end);) {
        int32_t newer = pl_storage_at(storage, i)->newer;

        if (pl_storage_at(storage, i)->mark == MARK_GOES) {
            (void)drop_one(storage, i);
            storage->counters.evicted_pages++;
        }
        i = newer;
    }
    storage->wanted = storage->wanted || (storage->dropped.n > before);
    pl_storage_say_dropped(storage, n, before);
    return true;
}
