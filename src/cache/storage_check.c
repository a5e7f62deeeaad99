/* The directory counted anew, and its hash. */
#include "cache/storage_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "cache/tree.h"

/* ---- state hash ---- */

static uint64_t fold_page(uint64_t h, const pl_storage_page_t *page)
{
    const int64_t numbers[] = {page->entry.place.set,
                               page->entry.place.rank,
                               page->entry.place.slot,
                               page->entry.stamp,
                               page->entry.owner,
                               page->is_kept,
                               page->is_written,
                               page->holds,
                               page->own,
                               page->next,
                               page->write,
                               page->epoch};

    return pl_hash64(numbers, sizeof(numbers), pl_fold64(h, page->entry.chain));
}

static uint64_t fold_places(uint64_t h, const pl_storage_places_t *places)
{
    for (size_t i = 0; i < places->n; i++) {
        h = pl_fold64(h, (uint64_t)places->items[i]);
    }
    return pl_fold64(h, places->n);
}

uint64_t pl_storage_state_hash(const pl_storage_t *storage)
{
    uint64_t h = pl_lanes_state_hash(storage->lanes);

    for (int32_t i = storage->oldest; i != PL_NO_ENTRY;
         i         = pl_storage_at(storage, i)->newer) {
        h = fold_page(h, pl_storage_at(storage, i));
    }
    for (size_t i = 0; i < storage->ghosts.n; i++) {
        h = pl_fold64(h, storage->ghosts.items[i].chain);
        h = pl_fold64(h, (uint64_t)storage->ghosts.items[i].holds);
    }
    h = fold_places(h, &storage->dropped);
    h = fold_places(h, &storage->dropping);
    h = pl_fold64(h, (uint64_t)storage->next_stamp);
    h = pl_fold64(h, (uint64_t)storage->epoch);
    h = pl_fold64(h, (uint64_t)(storage->n_new - storage->n_tried));
    return pl_fold64(h, (storage->publishing ? 2U : 0U) +
                            (storage->wanted ? 1U : 0U));
}

/* ---- recount ---- */

typedef struct recount {
    const pl_storage_t *storage;
    uint8_t *seen;   /* a bit a page of the own set */
    int64_t n_taken; /* of its pages */
    int64_t n_known, n_kept, n_holds;
    int64_t n_new, n_pending;
} recount_t;

static pl_status_t report(const pl_storage_t *storage, uint64_t chain,
                          const char *fault)
{
    pl_log(storage->log, PL_LOG_ERROR, "storage: page %016" PRIx64 ": %s",
           chain, fault);
    return PL_ERR_INTERNAL;
}

/* The place is taken, and by nobody else. */
static pl_status_t count_place(recount_t *recount, pl_page_t page,
                               uint64_t chain)
{
    const pl_storage_t *storage = recount->storage;
    int64_t n_pages =
        (int64_t)storage->params.n_lanes * storage->params.pages_per_lane;

    if (page == PL_NO_PAGE) {
        return PL_OK;
    }
    if ((page < 0) || (page >= n_pages)) {
        return report(storage, chain, "its place cannot be anybody's");
    }
    if (pl_lanes_is_free(storage->lanes, page)) {
        return report(storage, chain, "its place is free");
    }
    if ((recount->seen[page / 8] & (1u << (page % 8))) != 0) {
        return report(storage, chain, "its place is another's too");
    }
    recount->seen[page / 8] |= (uint8_t)(1u << (page % 8));
    recount->n_taken++;
    return PL_OK;
}

static pl_status_t count_places(recount_t *recount,
                                const pl_storage_places_t *places)
{
    for (size_t i = 0; i < places->n; i++) {
        PL_TRY(count_place(recount, places->items[i], 0));
    }
    return PL_OK;
}

static const char *page_fault(const pl_storage_t *storage,
                              const pl_storage_page_t *page)
{
    const pl_storage_page_t *above = page->parent != PL_NO_ENTRY
                                         ? pl_storage_at(storage, page->parent)
                                         : NULL;

    if (!page->is_kept && (page->next == PL_NO_PAGE)) {
        return "it is neither kept nor written";
    }
    if (page->entry.chain !=
        pl_tree_chain_next(page->entry.parent, page->entry.key)) {
        return "its chain hash is not that of its key";
    }
    if ((above == NULL) != (page->entry.position == 0)) {
        return "it has no prefix";
    }
    if ((above != NULL) &&
        ((above->entry.chain != page->entry.parent) ||
         (above->entry.position != page->entry.position - 1))) {
        return "its prefix is another one";
    }
    if ((above != NULL) && page->is_kept && !above->is_kept) {
        return "it is kept and its prefix is not";
    }
    if ((page->own != PL_NO_PAGE) !=
        (page->is_kept && (page->entry.place.set == storage->own_set))) {
        return "its set and its place differ";
    }
    if ((page->write != 0) != (page->next != PL_NO_PAGE)) {
        return "it is written to nowhere";
    }
    if (!page->is_kept && (page->holds > 0)) {
        return "somebody reads what is not kept";
    }
    return NULL;
}

static pl_status_t count_page(recount_t *recount, int32_t i)
{
    const pl_storage_t *storage   = recount->storage;
    const pl_storage_page_t *page = pl_storage_at(storage, i);
    const char *fault             = page_fault(storage, page);

    if (pl_storage_lookup(storage, page->entry.chain, page->entry.key) != i) {
        fault = "it is not found";
    }
    if (fault != NULL) {
        return report(storage, page->entry.chain, fault);
    }
    PL_TRY(count_place(recount, page->own, page->entry.chain));
    if (page->write == 0 || page->is_written) {
        PL_TRY(count_place(recount, page->next, page->entry.chain));
    }
    recount->n_known++;
    recount->n_holds += page->holds;
    if (page->is_kept) {
        recount->n_kept++;
        recount->n_new += page->epoch > storage->begun ? 1 : 0;
        recount->n_pending +=
            (page->epoch > storage->good) && (page->epoch <= storage->begun)
                ? 1
                : 0;
    }
    return PL_OK;
}

static pl_status_t count_write(recount_t *recount,
                               const pl_storage_write_t *write)
{
    const pl_storage_t *storage = recount->storage;

    for (int32_t i = 0; i < write->n; i++) {
        int32_t id = write->items[i];

        PL_TRY(count_place(recount, write->pages[i], 0));
        if (id == PL_NO_ENTRY) {
            continue;
        }
        if ((pl_storage_at(storage, id)->write != write->stamp) ||
            (pl_storage_at(storage, id)->next != write->pages[i]) ||
            (pl_storage_at(storage, id)->at != i)) {
            return report(storage, pl_storage_at(storage, id)->entry.chain,
                          "its write knows nothing of it");
        }
    }
    return PL_OK;
}

/* Each page stands in the order before the one that it needs. */
static pl_status_t check_order(const recount_t *recount)
{
    const pl_storage_t *storage = recount->storage;
    int64_t *turn               = calloc(storage->pages.n + 1, sizeof(*turn));
    pl_status_t status          = PL_OK;
    int64_t n                   = 0;

    if (turn == NULL) {
        return pl_storage_no_memory(storage);
    }
    for (int32_t i = storage->oldest; i != PL_NO_ENTRY;
         i         = pl_storage_at(storage, i)->newer) {
        turn[i] = ++n;
    }
    for (int32_t i = storage->oldest; (status == PL_OK) && (i != PL_NO_ENTRY);
         i         = pl_storage_at(storage, i)->newer) {
        const pl_storage_page_t *page = pl_storage_at(storage, i);

        if ((page->parent != PL_NO_ENTRY) && (turn[page->parent] < turn[i])) {
            status = report(storage, page->entry.chain,
                            "it was used after what it needs");
        }
    }
    free(turn);
    return status;
}

/* What came and went is what is there, and no more than there may be. */
static pl_status_t check_accounts(const pl_storage_t *storage)
{
    const pl_storage_counters_t *c = &storage->counters;

    if (c->start_pages - c->left_out_pages + c->new_pages - c->evicted_pages -
            c->dropped_pages !=
        storage->n_kept) {
        return report(storage, 0, "the accounts do not give what is kept");
    }
    if (!storage->params.read_only && (storage->params.bound > 0) &&
        (storage->n_known > storage->params.bound)) {
        return report(storage, 0, "there are more pages than the bound allows");
    }
    return PL_OK;
}

static pl_status_t recount_all(recount_t *recount)
{
    const pl_storage_t *storage = recount->storage;
    int64_t usable =
        (int64_t)storage->params.n_lanes * storage->params.pages_per_lane;

    PL_TRY(pl_lanes_check(storage->lanes));
    for (int32_t i = storage->oldest; i != PL_NO_ENTRY;
         i         = pl_storage_at(storage, i)->newer) {
        PL_TRY(count_page(recount, i));
    }
    for (size_t i = 0; i < storage->writes.n; i++) {
        PL_TRY(count_write(recount, &storage->writes.items[i]));
    }
    for (size_t i = 0; i < storage->ghosts.n; i++) {
        PL_TRY(count_place(recount, storage->ghosts.items[i].own,
                           storage->ghosts.items[i].chain));
        recount->n_holds += storage->ghosts.items[i].holds;
    }
    PL_TRY(count_places(recount, &storage->dropped));
    PL_TRY(count_places(recount, &storage->dropping));
    if ((recount->n_known != storage->n_known) ||
        (recount->n_kept != storage->n_kept) ||
        (recount->n_holds != (int64_t)storage->n_holds) ||
        (recount->n_new != storage->n_new) ||
        (recount->n_pending != storage->n_pending)) {
        return report(storage, 0, "the directory miscounts its pages");
    }
    PL_TRY(check_accounts(storage));
    if (recount->n_taken + pl_lanes_free_total(storage->lanes) != usable) {
        return report(storage, 0, "a place of the own set is lost");
    }
    return check_order(recount);
}

pl_status_t pl_storage_check(const pl_storage_t *storage)
{
    size_t n_pages = (size_t)storage->params.n_lanes *
                     (size_t)storage->params.pages_per_lane;
    recount_t recount = {.storage = storage};
    pl_status_t status;

    recount.seen = calloc(n_pages / 8 + 1, 1);
    if (recount.seen == NULL) {
        return pl_storage_no_memory(storage);
    }
    status = recount_all(&recount);
    free(recount.seen);
    return status;
}
