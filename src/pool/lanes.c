#include "pool/lanes_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- opening ---- */

uint64_t pl_lanes_usable(const pl_lanes_t *lanes, int32_t w)
{
    int64_t first = (int64_t)w * PL_WORD_SLOTS;
    int64_t begin = lanes->reserved_slots - first;
    int64_t end   = lanes->pages_per_lane - first;
    uint64_t mask = UINT64_MAX;

    if (begin >= PL_WORD_SLOTS) {
        return 0;
    }
    if (begin > 0) {
        mask <<= begin;
    }
    if (end < PL_WORD_SLOTS) {
        mask &= (UINT64_C(1) << end) - 1;
    }
    return mask;
}

/* All maps of all lanes in two blocks: large enough blocks come from the system
 * already zero, and cost memory only where they are touched. */
static pl_status_t maps_open(pl_lanes_t *lanes)
{
    size_t n_lanes     = (size_t)lanes->n_lanes;
    size_t n_words     = (size_t)lanes->n_words;
    size_t n_summaries = (n_words + PL_WORD_SLOTS - 1) / PL_WORD_SLOTS;
    size_t n_slots     = (size_t)lanes->pages_per_lane;
    size_t stride      = 3 * n_words + 2 * n_summaries;

    lanes->maps        = calloc(n_lanes * stride, sizeof(*lanes->maps));
    lanes->generations = calloc(n_lanes * n_slots, sizeof(*lanes->generations));
    if ((lanes->maps == NULL) || (lanes->generations == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t r = 0; r < n_lanes; r++) {
        pl_lane_t *lane = &lanes->lanes[r];

        lane->gone       = lanes->maps + r * stride;
        lane->busy       = lane->gone + n_words;
        lane->held       = lane->busy + n_words;
        lane->full       = lane->held + n_words;
        lane->dirty      = lane->full + n_summaries;
        lane->generation = lanes->generations + r * n_slots;
    }
    return PL_OK;
}

/* Keep the scratch slots and the padding of the last word from being taken. */
static void lane_reserve(const pl_lanes_t *lanes, pl_lane_t *lane)
{
    int32_t last = lanes->n_words - 1;

    for (int32_t w = 0; w <= pl_slot_word(lanes->reserved_slots); w++) {
        lane->gone[w] = lane->held[w] = ~pl_lanes_usable(lanes, w);
    }
    lane->gone[last] = lane->held[last] = ~pl_lanes_usable(lanes, last);
    lane->n_free = lanes->pages_per_lane - lanes->reserved_slots;
}

static pl_status_t check_params(const pl_lanes_params_t *params,
                                const pl_log_t *log)
{
    if ((params->n_lanes < 1) || (params->n_lanes > PL_MAX_RANKS)) {
        pl_log(log, PL_LOG_ERROR, "%s pool: %d lanes; 1 to %d are possible",
               params->name, params->n_lanes, PL_MAX_RANKS);
        return PL_ERR_ARGUMENT;
    }
    if ((params->reserved_slots < 0) ||
        (params->pages_per_lane <= params->reserved_slots)) {
        pl_log(log, PL_LOG_ERROR,
               "%s pool: %" PRId32 " pages a rank, of which %" PRId32
               " are scratch; give it at least %" PRId64,
               params->name, params->pages_per_lane, params->reserved_slots,
               (int64_t)params->reserved_slots + 1);
        return PL_ERR_ARGUMENT;
    }
    if ((int64_t)params->n_lanes * params->pages_per_lane > INT32_MAX) {
        pl_log(log, PL_LOG_ERROR,
               "%s pool: %" PRId32 " pages a rank on %d ranks; at most %" PRId32
               " a rank can be numbered",
               params->name, params->pages_per_lane, params->n_lanes,
               INT32_MAX / params->n_lanes);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_lanes_open(const pl_lanes_params_t *params, const pl_log_t *log,
                          pl_lanes_t **lanes_p)
{
    pl_lanes_t *lanes;

    PL_TRY(check_params(params, log));
    lanes = calloc(1, sizeof(*lanes));
    if (lanes == NULL) {
        goto err;
    }
    lanes->pages_per_lane = params->pages_per_lane;
    lanes->reserved_slots = params->reserved_slots;
    lanes->n_words        = pl_slot_word(params->pages_per_lane - 1) + 1;
    lanes->n_pages =
        (uint32_t)params->n_lanes * (uint32_t)params->pages_per_lane;
    lanes->log  = log;
    lanes->name = params->name;
    pl_lanes_set_divisor(lanes, params->n_lanes);

    lanes->lanes = calloc((size_t)params->n_lanes, sizeof(*lanes->lanes));
    if (lanes->lanes == NULL) {
        goto err_close;
    }
    if (maps_open(lanes) != PL_OK) {
        goto err_close;
    }
    for (int r = 0; r < params->n_lanes; r++) {
        lane_reserve(lanes, &lanes->lanes[r]);
    }
    *lanes_p = lanes;
    return PL_OK;

err_close:
    pl_lanes_close(lanes);
err:
    pl_log(log, PL_LOG_ERROR,
           "%s pool: no memory for the map of %" PRId32
           " pages a rank on %d ranks; use fewer pages",
           params->name, params->pages_per_lane, params->n_lanes);
    return PL_ERR_MEMORY;
}

void pl_lanes_close(pl_lanes_t *lanes)
{
    if (lanes == NULL) {
        return;
    }
    free(lanes->lanes);
    free(lanes->maps);
    free(lanes->generations);
    PL_ARRAY_FREE(&lanes->group);
    PL_ARRAY_FREE(&lanes->owners);
    free(lanes);
}

/* ---- taking ---- */

/* Owners come in runs (a zigzag block, an owner's turn): eight at a time. */
enum { OCTET = 8 };

#define TOP_BIT (UINT64_C(1) << 63)

static inline bool is_one_run(const pl_owner_t *owners)
{
    uint64_t octet;

    memcpy(&octet, owners, sizeof(octet));
    return octet == (uint8_t)owners[0] * UINT64_C(0x0101010101010101);
}

/* Pages wanted of each lane; false if an owner is no lane. */
static bool count_needs(const pl_lanes_t *lanes, const pl_owner_t *owners,
                        int32_t n, int32_t needs[PL_MAX_RANKS + 1])
{
    bool all_are_lanes = true;
    int32_t i          = 0;

    assert(n >= 0);
    memset(needs, 0, (PL_MAX_RANKS + 1) * sizeof(*needs));
    while (i < n) {
        if ((n - i >= OCTET) && is_one_run(owners + i)) {
            all_are_lanes &= (uint8_t)owners[i] < (uint8_t)lanes->n_lanes;
            needs[owners[i] & PL_MAX_RANKS] += OCTET;
            i += OCTET;
            continue;
        }
        /* No branch a page; what is no lane counts somewhere. */
        for (int32_t end = n - i < OCTET ? n : i + OCTET; i < end; i++) {
            all_are_lanes &= (uint8_t)owners[i] < (uint8_t)lanes->n_lanes;
            needs[owners[i] & PL_MAX_RANKS]++;
        }
    }
    return all_are_lanes;
}

/* Make the staged slots of a lane free. */
static void merge_staged(pl_lane_t *lane)
{
    int32_t n_summaries = pl_slot_word(lane->n_touched + PL_WORD_SLOTS - 1);

    for (int32_t k = 0; k < n_summaries; k++) {
        uint64_t words = lane->dirty[k];

        lane->dirty[k] = 0;
        for (; words != 0; words &= words - 1) {
            int32_t w = k * PL_WORD_SLOTS + __builtin_ctzll(words);

            lane->gone[w] = lane->busy[w] | lane->held[w];
            if (lane->gone[w] == UINT64_MAX) {
                continue; /* the dirty bit was a hint that came to nothing */
            }
            lane->full[k] &= ~pl_slot_bit(w);
            if (w < lane->cursor) {
                lane->cursor = w;
            }
        }
    }
    lane->n_free += lane->n_staged;
    lane->n_staged = 0;
}

/* The first word above w that may have a free slot; there is one. */
static int32_t next_word(const pl_lane_t *lane, int32_t w)
{
    int32_t k      = pl_slot_word(w + 1);
    uint64_t words = ~lane->full[k] & -pl_slot_bit(w + 1);

    while (words == 0) {
        words = ~lane->full[++k];
    }
    return k * PL_WORD_SLOTS + __builtin_ctzll(words);
}

/* List the free slots of a word, lowest first, at `slots`, until it has no more
 * or `end` is reached or passed by at most 7.  Returns the place behind the
 * last.  Eight at a time and without a branch a slot: how many a word has left
 * in a worn pool cannot be predicted. */
static inline int32_t *list_slots(uint64_t free_slots, int32_t first,
                                  int32_t *slots, const int32_t *end)
{
    while ((free_slots != 0) && (slots < end)) {
        for (int k = 0; k < 8; k++) {
            *slots = first + __builtin_ctzll(free_slots | TOP_BIT);
            slots += free_slots != 0;
            free_slots &= free_slots - 1;
        }
    }
    return slots;
}

/* Take the n > 0 lowest free slots of a lane that has so many; list[n + 8] gets
 * them. */
static void take_slots(pl_lane_t *lane, int32_t n, int32_t *list)
{
    int32_t w          = lane->cursor;
    int32_t *slots     = list;
    const int32_t *end = list + n;

    for (;;) {
        uint64_t taken = ~lane->gone[w];

        slots = list_slots(taken, w * PL_WORD_SLOTS, slots, end);
        if (slots >= end) {
            /* Of the last word only what was wanted. */
            taken &=
                UINT64_MAX >> (PL_WORD_SLOTS - 1 - end[-1] % PL_WORD_SLOTS);
        }
        lane->gone[w] |= taken;
        lane->busy[w] |= taken;
        if (slots >= end) {
            break;
        }
        lane->full[pl_slot_word(w)] |= pl_slot_bit(w);
        w = next_word(lane, w);
    }
    lane->cursor = w;
    if (w >= lane->n_touched) {
        lane->n_touched = w + 1;
    }
}

/* Take at most PL_TAKE_PAGES pages; needs[] is what the lanes have to give, and
 * they have it.  First lane by lane in a list, then into the order wanted. */
static void take_pages(pl_lanes_t *lanes, const pl_owner_t *owners, int32_t n,
                       const int32_t *needs, pl_page_t *pages)
{
    const pl_page_t *next[PL_MAX_RANKS];
    pl_page_t *list = lanes->taken;
    int32_t i       = 0;

    for (int r = 0; r < lanes->n_lanes; r++) {
        pl_lane_t *lane = &lanes->lanes[r];

        next[r] = list;
        if (needs[r] == 0) {
            continue;
        }
        take_slots(lane, needs[r], list);
        for (int32_t k = 0; k < needs[r]; k++, list++) {
            lane->generation[*list]++;
            *list = *list * lanes->n_lanes + r;
        }
    }
    while (i < n) {
        int owner = owners[i];

        if ((n - i >= OCTET) && is_one_run(owners + i)) {
            memcpy(pages + i, next[owner], OCTET * sizeof(*pages));
            next[owner] += OCTET;
            i += OCTET;
            continue;
        }
        for (int32_t end = n - i < OCTET ? n : i + OCTET; i < end; i++) {
            pages[i] = *next[owners[i]]++;
        }
    }
}

static pl_status_t report_bad_owner(const pl_lanes_t *lanes,
                                    const pl_owner_t *owners, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if ((uint8_t)owners[i] >= (uint8_t)lanes->n_lanes) {
            pl_log(lanes->log, PL_LOG_ERROR,
                   "%s pool: page %" PRId32 " of %" PRId32
                   " is wanted in lane %d; there are %d lanes",
                   lanes->name, i, n, owners[i], lanes->n_lanes);
            break;
        }
    }
    return PL_ERR_INTERNAL;
}

pl_status_t pl_lanes_alloc(pl_lanes_t *lanes, const pl_owner_t *owners,
                           int32_t n, pl_page_t *pages)
{
    int32_t needs[PL_MAX_RANKS + 1];

    if (!count_needs(lanes, owners, n, needs)) {
        return report_bad_owner(lanes, owners, n);
    }
    for (int r = 0; r < lanes->n_lanes; r++) {
        if (needs[r] > pl_lanes_free_count(lanes, r)) {
            return PL_REFUSED_SHORT;
        }
    }
    /* From here on nothing fails.  Merging waits until now, so that a refused
     * call leaves no trace in the order of later pages. */
    for (int r = 0; r < lanes->n_lanes; r++) {
        if (needs[r] > lanes->lanes[r].n_free) {
            merge_staged(&lanes->lanes[r]);
        }
        lanes->lanes[r].n_free -= needs[r];
    }
    for (int32_t i = 0; i < n; i += PL_TAKE_PAGES) {
        int32_t step = n - i < PL_TAKE_PAGES ? n - i : PL_TAKE_PAGES;

        if (step < n) {
            (void)count_needs(lanes, owners + i, step, needs);
        }
        take_pages(lanes, owners + i, step, needs, pages + i);
    }
    return PL_OK;
}

pl_status_t pl_lanes_alloc_extend(pl_lanes_t *lanes, pl_ownership_t rule,
                                  int page_tokens, int32_t n_tokens_before,
                                  int32_t n_tokens_after, int64_t request,
                                  pl_page_t *pages, int32_t *n_new_p)
{
    int64_t before = n_tokens_before;
    int64_t after  = n_tokens_after;
    int32_t n_held; /* pages the request has */
    int32_t n_new;

    if ((page_tokens < 1) || (before < 0) || (after < before)) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: request %" PRId64 ": extend from %" PRId64
               " to %" PRId64 " tokens by pages of %d",
               lanes->name, request, before, after, page_tokens);
        return PL_ERR_ARGUMENT;
    }
    n_held = (int32_t)((before + page_tokens - 1) / page_tokens);
    n_new  = (int32_t)((after + page_tokens - 1) / page_tokens) - n_held;
    if ((n_new > 0) && (before % page_tokens != 0)) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: request %" PRId64 ": a chunk starts at token %" PRId64
               ", within a page of %d, and leaves it at %" PRId64
               "; chunks must end at page ends",
               lanes->name, request, before, page_tokens, after);
        return PL_ERR_ARGUMENT;
    }
    if (PL_ARRAY_RESERVE(&lanes->owners, (size_t)n_new) != PL_OK) {
        pl_log(lanes->log, PL_LOG_ERROR,
               "%s pool: no memory for a chunk of %" PRId32 " pages",
               lanes->name, n_new);
        return PL_ERR_MEMORY;
    }
    pl_compute_owners(rule, lanes->n_lanes, n_held, n_new, request,
                      lanes->owners.items);
    PL_TRY(pl_lanes_alloc(lanes, lanes->owners.items, n_new, pages));
    *n_new_p = n_new;
    return PL_OK;
}

bool pl_lanes_deficits(const pl_lanes_t *lanes, const pl_owner_t *owners,
                       int32_t n, int32_t *deficits)
{
    int32_t needs[PL_MAX_RANKS + 1];
    bool all_are_lanes = count_needs(lanes, owners, n, needs);
    bool is_short      = false;

    assert(all_are_lanes);
    (void)all_are_lanes;
    for (int r = 0; r < lanes->n_lanes; r++) {
        deficits[r] = needs[r] - pl_lanes_free_count(lanes, r);
        if (deficits[r] > 0) {
            is_short = true;
        } else {
            deficits[r] = 0;
        }
    }
    return is_short;
}
