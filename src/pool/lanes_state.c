#include "pool/lanes_internal.h"

#include <assert.h>
#include <inttypes.h>

#include "base/hash.h"

int32_t pl_lanes_free_count(const pl_lanes_t *lanes, int lane)
{
    assert((lane >= 0) && (lane < lanes->n_lanes));
    return lanes->lanes[lane].n_free + lanes->lanes[lane].n_staged;
}

int64_t pl_lanes_free_total(const pl_lanes_t *lanes)
{
    int64_t total = 0;

    for (int r = 0; r < lanes->n_lanes; r++) {
        total += pl_lanes_free_count(lanes, r);
    }
    return total;
}

int64_t pl_lanes_available(const pl_lanes_t *lanes)
{
    int32_t tightest = pl_lanes_free_count(lanes, 0);

    for (int r = 1; r < lanes->n_lanes; r++) {
        int32_t n = pl_lanes_free_count(lanes, r);

        tightest = n < tightest ? n : tightest;
    }
    return (int64_t)tightest * lanes->n_lanes;
}

int pl_lanes_n(const pl_lanes_t *lanes)
{
    return lanes->n_lanes;
}

int32_t pl_lanes_pages_per_lane(const pl_lanes_t *lanes)
{
    return lanes->pages_per_lane;
}

int32_t pl_lanes_reserved(const pl_lanes_t *lanes)
{
    return lanes->reserved_slots;
}

bool pl_lanes_is_free(const pl_lanes_t *lanes, pl_page_t page)
{
    const pl_lane_t *lane;
    pl_slot_t at;
    int32_t w;

    if ((uint32_t)page >= lanes->n_pages) {
        return false;
    }
    at   = pl_lanes_slot(lanes, (uint32_t)page);
    w    = pl_slot_word(at.slot);
    lane = &lanes->lanes[at.owner];
    return ((lane->busy[w] | lane->held[w]) & pl_slot_bit(at.slot)) == 0;
}

uint32_t pl_lanes_generation(const pl_lanes_t *lanes, pl_page_t page)
{
    pl_slot_t at;

    if ((uint32_t)page >= lanes->n_pages) {
        return 0;
    }
    at = pl_lanes_slot(lanes, (uint32_t)page);
    return lanes->lanes[at.owner].generation[at.slot];
}

uint64_t pl_lanes_state_hash(const pl_lanes_t *lanes)
{
    uint64_t h =
        pl_fold64((uint64_t)lanes->n_lanes, (uint64_t)lanes->pages_per_lane);

    h = pl_fold64(h, lanes->group_is_open ? 1 : 0);
    for (int r = 0; r < lanes->n_lanes; r++) {
        const pl_lane_t *lane = &lanes->lanes[r];
        size_t n_words        = (size_t)lane->n_touched;
        size_t n_slots        = n_words * PL_WORD_SLOTS;

        /* The rest of the lane is as it was opened. */
        if (n_slots > (size_t)lanes->pages_per_lane) {
            n_slots = (size_t)lanes->pages_per_lane;
        }
        h = pl_fold64(h, (uint64_t)lane->n_free);
        h = pl_fold64(h, (uint64_t)lane->n_staged);
        h = pl_hash64(lane->gone, n_words * sizeof(*lane->gone), h);
        h = pl_hash64(lane->busy, n_words * sizeof(*lane->busy), h);
        h = pl_hash64(lane->held, n_words * sizeof(*lane->held), h);
        h = pl_hash64(lane->generation, n_slots * sizeof(*lane->generation), h);
    }
    return h;
}

/* What a lane's bitmaps say, beside what its counters say. */
typedef struct recount {
    int32_t n_free, n_staged, n_held;
} recount_t;

/* Count one word; NULL, or what is wrong with it. */
static const char *recount_word(const pl_lanes_t *lanes, const pl_lane_t *lane,
                                int32_t w, recount_t *sum)
{
    uint64_t gone   = lane->gone[w];
    uint64_t busy   = lane->busy[w];
    uint64_t held   = lane->held[w];
    uint64_t usable = pl_lanes_usable(lanes, w);
    uint64_t staged = gone & ~busy & ~held;
    uint64_t bit    = pl_slot_bit(w);
    int32_t k       = pl_slot_word(w);

    sum->n_free -= __builtin_popcountll(gone & usable);
    sum->n_staged += __builtin_popcountll(staged);
    sum->n_held += __builtin_popcountll(held & usable);
    if ((busy & held) != 0) {
        return "a page is handed out and held";
    }
    if (((busy | held) & ~gone) != 0) {
        return "a page is free and not free";
    }
    if (((held | ~usable) != held) || ((busy & ~usable) != 0)) {
        return "a scratch page can be handed out";
    }
    if (((lane->full[k] & bit) != 0) && (gone != UINT64_MAX)) {
        return "a free page is out of sight";
    }
    if ((w < lane->cursor) && (gone != UINT64_MAX)) {
        return "a free page lies below the cursor";
    }
    if ((staged != 0) && ((lane->dirty[k] & bit) == 0)) {
        return "a staged page is out of sight";
    }
    return NULL;
}

static const char *recount_lane(const pl_lanes_t *lanes, const pl_lane_t *lane,
                                recount_t *sum)
{
    for (int32_t w = 0; w < lane->n_touched; w++) {
        const char *what = recount_word(lanes, lane, w, sum);

        if (what != NULL) {
            return what;
        }
    }
    if (sum->n_free != lane->n_free) {
        return "the count of free pages is wrong";
    }
    if (sum->n_staged != lane->n_staged) {
        return "the count of staged pages is wrong";
    }
    if ((lane->cursor < 0) || (lane->cursor >= lanes->n_words)) {
        return "the cursor is out of range";
    }
    return NULL;
}

pl_status_t pl_lanes_check(const pl_lanes_t *lanes)
{
    int64_t n_held = 0;

    for (int r = 0; r < lanes->n_lanes; r++) {
        recount_t sum = {lanes->pages_per_lane - lanes->reserved_slots, 0, 0};
        const char *what = recount_lane(lanes, &lanes->lanes[r], &sum);

        if (what != NULL) {
            pl_log(lanes->log, PL_LOG_ERROR,
                   "%s pool: lane %d: %s (counters: %" PRId32 " free, %" PRId32
                   " staged)",
                   lanes->name, r, what, lanes->lanes[r].n_free,
                   lanes->lanes[r].n_staged);
            return PL_ERR_INTERNAL;
        }
        n_held += sum.n_held;
    }
    if (n_held != (int64_t)lanes->group.n) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: %" PRId64 " pages are held for a free group of %zu",
               lanes->name, n_held, lanes->group.n);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}
