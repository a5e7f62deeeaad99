/* pool/lanes_internal.h - the state behind pagelane/lanes.h.
 *
 * Three bits a slot, in three bitmaps of a lane:
 *
 *     gone  busy  held
 *      0     0     0    free: the next alloc may take it
 *      1     1     0    handed out
 *      1     0     0    staged: given back, not yet merged
 *      1     0     1    never handed out (scratch, padding of the last word),
 *                       or given back inside a free group that is still open
 *
 * gone = 0 is what calloc gives, so a huge pool costs memory only for the words
 * it has used.  Two summaries with one bit per word are hints that err on one
 * side: `full` = surely no free slot in the word; `dirty` clear = surely no
 * staged slot in it.
 */
#ifndef PL_POOL_LANES_INTERNAL_H
#define PL_POOL_LANES_INTERNAL_H

#include <pagelane/lanes.h>

#include "base/array.h"

#define PL_WORD_SLOTS 64   /* slots in a word of a bitmap */
#define PL_TAKE_PAGES 2048 /* an alloc takes so many at a time */

typedef struct pl_lane {
    uint64_t *gone, *busy, *held; /* [n_words] */
    uint64_t *full, *dirty;       /* [n_words / 64, rounded up] */
    uint32_t *generation;         /* [slot] */
    int32_t n_free;               /* gone = 0 */
    int32_t n_staged;
    int32_t cursor;    /* no word below it has a free slot; < n_words */
    int32_t n_touched; /* no slot in this word or above was ever handed out */
} pl_lane_t;

struct pl_lanes {
    pl_lane_t *lanes;      /* [n_lanes] */
    uint64_t *maps;        /* the bitmaps of all lanes */
    uint32_t *generations; /* of all lanes */
    int n_lanes;
    int32_t pages_per_lane;
    int32_t reserved_slots;
    int32_t n_words;  /* per lane and bitmap */
    uint32_t n_pages; /* n_lanes * pages_per_lane */

    /* page / n_lanes = page * multiplier >> shift, exact for 31 bits */
    uint64_t multiplier;
    int shift;

    pl_page_t
        taken[PL_TAKE_PAGES + PL_WORD_SLOTS]; /* of one step of an alloc */

    bool group_is_open;
    PL_ARRAY(pl_page_t) group;   /* given back in the open group */
    PL_ARRAY(pl_owner_t) owners; /* scratch of pl_lanes_alloc_extend */

    const pl_log_t *log;
    const char *name;
};

typedef struct pl_slot {
    int owner;
    int32_t slot;
} pl_slot_t;

/* Set n_lanes, and how to divide by it.
 *
 * With d lanes, L = ceil(log2 d), S = 31 + L and M = floor(2^S / d) + 1:
 * M * d = 2^S + e with 0 < e <= d <= 2^L, so for n < 2^31 the error of n * M /
 * 2^S, which is n * e / (d * 2^S), stays below 1 / d and the floor is exact;
 * n * M stays below 2^64. */
static inline void pl_lanes_set_divisor(pl_lanes_t *lanes, int n_lanes)
{
    lanes->n_lanes = n_lanes;
    lanes->shift   = 31;
    while ((1 << (lanes->shift - 31)) < n_lanes) {
        lanes->shift++;
    }
    lanes->multiplier = (UINT64_C(1) << lanes->shift) / (uint64_t)n_lanes + 1;
}

/* Owner and slot without a division; page is in 0 .. n_pages - 1. */
static inline pl_slot_t pl_lanes_slot(const pl_lanes_t *lanes, uint32_t page)
{
    uint32_t slot = (uint32_t)((page * lanes->multiplier) >> lanes->shift);
    pl_slot_t at  = {(int)(page - slot * (uint32_t)lanes->n_lanes),
                     (int32_t)slot};

    return at;
}

static inline int32_t pl_slot_word(int32_t slot)
{
    return (int32_t)((uint32_t)slot / PL_WORD_SLOTS);
}

static inline uint64_t pl_slot_bit(int32_t slot)
{
    return UINT64_C(1) << ((uint32_t)slot % PL_WORD_SLOTS);
}

/* The slots of word w that may ever be handed out. */
uint64_t pl_lanes_usable(const pl_lanes_t *lanes, int32_t w);

#endif /* PL_POOL_LANES_INTERNAL_H */
