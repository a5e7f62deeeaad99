#include "pool/lanes_internal.h"

#include <assert.h>
#include <inttypes.h>

/* Say what is wrong with giving back pages[i]. */
static pl_status_t report_bad_page(const pl_lanes_t *lanes,
                                   const pl_page_t *pages,
                                   const pl_owner_t *owners, int32_t i,
                                   int32_t n)
{
    pl_page_t page = pages[i];
    pl_slot_t at;

    if ((uint32_t)page >= lanes->n_pages) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: free of page %" PRId32 " (%" PRId32 " of %" PRId32
               "): there are pages 0 to %" PRIu32,
               lanes->name, page, i, n, lanes->n_pages - 1);
        return PL_ERR_INTERNAL;
    }
    at = pl_lanes_slot(lanes, (uint32_t)page);
    if (at.slot < lanes->reserved_slots) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: free of page %" PRId32 " (%" PRId32 " of %" PRId32
               "), the scratch slot %" PRId32 " of lane %d",
               lanes->name, page, i, n, at.slot, at.owner);
    } else if ((owners != NULL) && (owners[i] != at.owner)) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: free of page %" PRId32 " (%" PRId32 " of %" PRId32
               ") in lane %d; it lies in lane %d, slot %" PRId32,
               lanes->name, page, i, n, owners[i], at.owner, at.slot);
    } else {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: double free of page %" PRId32 " (%" PRId32
               " of %" PRId32 "; lane %d, slot %" PRId32 ")",
               lanes->name, page, i, n, at.owner, at.slot);
    }
    return PL_ERR_INTERNAL;
}

static inline void stage(pl_lane_t *lane, int32_t slot)
{
    int32_t w = pl_slot_word(slot);

    lane->dirty[pl_slot_word(w)] |= pl_slot_bit(w);
    lane->n_staged++;
}

/* Make handed-out pages staged (or, in a group, held), up to the first that is
 * not handed out or lies in another lane; returns how many.  Inlined for each
 * constant argument: this is the hot loop. */
static inline __attribute__((always_inline)) int32_t
give_back(pl_lanes_t *lanes, const pl_page_t *pages, const pl_owner_t *owners,
          int32_t n, bool in_group)
{
    int32_t i;

    assert(n >= 0);
    for (i = 0; i < n; i++) {
        uint32_t page = (uint32_t)pages[i];
        pl_slot_t at;
        pl_lane_t *lane;
        uint64_t *busy;
        uint64_t bit;

        if (page >= lanes->n_pages) {
            break;
        }
        at   = pl_lanes_slot(lanes, page);
        lane = &lanes->lanes[at.owner];
        busy = &lane->busy[pl_slot_word(at.slot)];
        bit  = pl_slot_bit(at.slot);
        if (((*busy & bit) == 0) ||
            ((owners != NULL) && (owners[i] != at.owner))) {
            break;
        }
        *busy &= ~bit;
        if (in_group) {
            lane->held[pl_slot_word(at.slot)] |= bit;
        } else {
            stage(lane, at.slot);
        }
    }
    return i;
}

/* Undo give_back for the first n pages.  A dirty bit may stay: it is a hint. */
static void take_back(pl_lanes_t *lanes, const pl_page_t *pages, int32_t n,
                      bool in_group)
{
    for (int32_t i = 0; i < n; i++) {
        pl_slot_t at    = pl_lanes_slot(lanes, (uint32_t)pages[i]);
        pl_lane_t *lane = &lanes->lanes[at.owner];
        int32_t w       = pl_slot_word(at.slot);

        lane->busy[w] |= pl_slot_bit(at.slot);
        if (in_group) {
            lane->held[w] &= ~pl_slot_bit(at.slot);
        } else {
            lane->n_staged--;
        }
    }
}

static pl_status_t free_in_group(pl_lanes_t *lanes, const pl_page_t *pages,
                                 const pl_owner_t *owners, int32_t n)
{
    int32_t n_good;

    if (PL_ARRAY_RESERVE(&lanes->group, lanes->group.n + (size_t)n) != PL_OK) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: no memory for %" PRId32 " pages in a free group",
               lanes->name, n);
        return PL_ERR_MEMORY;
    }
    n_good = give_back(lanes, pages, owners, n, true);
    if (n_good < n) {
        take_back(lanes, pages, n_good, true);
        return report_bad_page(lanes, pages, owners, n_good, n);
    }
    for (int32_t i = 0; i < n; i++) {
        lanes->group.items[lanes->group.n++] = pages[i];
    }
    return PL_OK;
}

pl_status_t pl_lanes_free(pl_lanes_t *lanes, const pl_page_t *pages,
                          const pl_owner_t *owners, int32_t n)
{
    int32_t n_good;

    if (lanes->group_is_open) {
        return free_in_group(lanes, pages, owners, n);
    }
    n_good = owners == NULL ? give_back(lanes, pages, NULL, n, false)
                            : give_back(lanes, pages, owners, n, false);
    if (n_good < n) {
        take_back(lanes, pages, n_good, false);
        return report_bad_page(lanes, pages, owners, n_good, n);
    }
    return PL_OK;
}

pl_status_t pl_lanes_group_begin(pl_lanes_t *lanes)
{
    if (lanes->group_is_open) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: a free group begins inside another", lanes->name);
        return PL_ERR_INTERNAL;
    }
    lanes->group_is_open = true;
    return PL_OK;
}

pl_status_t pl_lanes_group_end(pl_lanes_t *lanes)
{
    if (!lanes->group_is_open) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: a free group ends that did not begin", lanes->name);
        return PL_ERR_INTERNAL;
    }
    for (size_t i = 0; i < lanes->group.n; i++) {
        pl_slot_t at    = pl_lanes_slot(lanes, (uint32_t)lanes->group.items[i]);
        pl_lane_t *lane = &lanes->lanes[at.owner];

        lane->held[pl_slot_word(at.slot)] &= ~pl_slot_bit(at.slot);
        stage(lane, at.slot);
    }
    lanes->group.n       = 0;
    lanes->group_is_open = false;
    return PL_OK;
}
