/* Publication: which index says what, and what may be used again after it. */
#include "cache/storage_internal.h"

#include <assert.h>
#include <string.h>

void pl_storage_note_gone(pl_storage_t *storage, const pl_storage_page_t *page)
{
    if (page->epoch > storage->begun) {
        storage->n_new--;
        return;
    }
    if (page->epoch > storage->good) {
        storage->n_pending--;
    }
    storage->n_gone++;
}

bool pl_storage_wants_publication(const pl_storage_t *storage)
{
    int64_t enough = storage->n_named / 8;

    if (storage->params.read_only || storage->publishing) {
        return false;
    }
    enough = enough > PL_STORAGE_PUBLISH ? enough : PL_STORAGE_PUBLISH;
    return (storage->wanted && (storage->dropped.n > 0)) ||
           (storage->n_new - storage->n_tried >= enough);
}

bool pl_storage_has_changed(const pl_storage_t *storage)
{
    return storage->n_new + storage->n_pending + storage->n_gone +
               storage->n_going >
           0;
}

void pl_storage_publish(pl_storage_t *storage)
{
    pl_storage_places_t none = storage->dropping;

    assert(!storage->publishing && (none.n == 0));
    storage->publishing = true;
    storage->wanted     = false;
    storage->n_naming   = storage->n_kept;
    storage->begun      = storage->epoch++;
    storage->n_pending  = storage->n_new;
    storage->n_new      = 0;
    storage->n_going    = storage->n_gone;
    storage->n_gone     = 0;
    storage->dropping   = storage->dropped;
    storage->dropped    = none;
    storage->counters.publications++;
}

static void say_published(const pl_storage_t *storage, bool good)
{
    pl_event_t event = pl_event_make(PL_EVENT_PUBLISHED);

    event.value = good;
    if (good) {
        event.pages   = storage->dropping.items;
        event.n_pages = (int32_t)storage->dropping.n;
    }
    pl_event_emit(&storage->params.events, &event);
}

static pl_status_t free_dropping(pl_storage_t *storage)
{
    const pl_storage_places_t *places = &storage->dropping;

    for (size_t i = 0; i < places->n; i++) {
        storage->waiting[pl_storage_lane(storage, places->items[i])]--;
    }
    PL_TRY(
        pl_lanes_free(storage->lanes, places->items, NULL, (int32_t)places->n));
    storage->dropping.n = 0;
    return PL_OK;
}

/* As if it had not begun, but that it is not tried again at once. */
static void take_back(pl_storage_t *storage)
{
    pl_storage_places_t *all = &storage->dropping;
    pl_storage_places_t none;

    if (storage->dropped.n > 0) {
        memcpy(all->items + all->n, storage->dropped.items,
               storage->dropped.n * sizeof(*all->items));
        all->n += storage->dropped.n;
    }
    none              = storage->dropped;
    none.n            = 0;
    storage->dropped  = *all;
    storage->dropping = none;
    storage->begun    = storage->good;
    storage->n_new += storage->n_pending;
    storage->n_gone += storage->n_going;
    storage->n_pending = 0;
    storage->n_going   = 0;
    storage->n_tried   = storage->n_new;
    storage->counters.publications_failed++;
}

pl_status_t pl_storage_published(pl_storage_t *storage, bool good)
{
    if (!storage->publishing) {
        pl_log(storage->log, PL_LOG_ERROR,
               "storage: a publication ends, and none is under way");
        return PL_ERR_INTERNAL;
    }
    storage->publishing = false;
    say_published(storage, good);
    if (!good) {
        take_back(storage);
        return PL_OK;
    }
    storage->good      = storage->begun;
    storage->n_named   = storage->n_naming;
    storage->n_pending = 0;
    storage->n_going   = 0;
    storage->n_tried   = 0;
    return free_dropping(storage);
}

pl_status_t pl_storage_visit(const pl_storage_t *storage,
                             pl_storage_visit_t visit, void *context)
{
    for (int32_t i = storage->oldest; i != PL_NO_ENTRY;
         i         = pl_storage_at(storage, i)->newer) {
        if (pl_storage_at(storage, i)->is_kept) {
            PL_TRY(visit(context, &pl_storage_at(storage, i)->entry));
        }
    }
    return PL_OK;
}
