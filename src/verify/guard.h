/* verify/guard.h - the guard word of a page: who wrote it, where, which time.
 *
 * Each page has one guard word per layer and store in an array beside the
 * pages, stamped by whoever writes the slot.  A reader knows from the control
 * plane which page it wants, hence what the word must say; any other word,
 * another generation included, means: what was wanted was never written here.
 *
 * Pure functions.  0 is the word of a slot that nobody has written.
 */
#ifndef PL_VERIFY_GUARD_H
#define PL_VERIFY_GUARD_H

#include <assert.h>
#include <stdint.h>

#include <pagelane/layout.h>

#define PL_GUARD_NEVER UINT64_C(0)

/* The word of a page that was found damaged when it was brought here: its
 * violation has been noted where it happened, and who reads it later has
 * nothing to add.  No slot is that high. */
#define PL_GUARD_DAMAGED UINT64_MAX

/* owner + 1: 7 bits (PL_MAX_RANKS is 127), slot: 31 bits, generation: 26 bits
 * (mod 2^26). */
#define PL_GUARD_SLOT_BITS       31
#define PL_GUARD_GENERATION_BITS 26

/* owner 0 .. PL_MAX_RANKS-1, slot >= 0; never PL_GUARD_NEVER. */
static inline uint64_t pl_guard_pack(int owner, int32_t slot,
                                     uint32_t generation)
{
    assert((owner >= 0) && (owner < PL_MAX_RANKS) && (slot >= 0));
    return ((uint64_t)(owner + 1)
            << (PL_GUARD_SLOT_BITS + PL_GUARD_GENERATION_BITS)) |
           ((uint64_t)(uint32_t)slot << PL_GUARD_GENERATION_BITS) |
           ((uint64_t)generation &
            ((UINT64_C(1) << PL_GUARD_GENERATION_BITS) - 1));
}

/* What a word says; owner -1 for PL_GUARD_NEVER. */
static inline int pl_guard_owner(uint64_t guard)
{
    return (int)(guard >> (PL_GUARD_SLOT_BITS + PL_GUARD_GENERATION_BITS)) - 1;
}

static inline int32_t pl_guard_slot(uint64_t guard)
{
    return (int32_t)((guard >> PL_GUARD_GENERATION_BITS) &
                     ((UINT64_C(1) << PL_GUARD_SLOT_BITS) - 1));
}

static inline uint32_t pl_guard_generation(uint64_t guard)
{
    return (uint32_t)(guard & ((UINT64_C(1) << PL_GUARD_GENERATION_BITS) - 1));
}

#endif /* PL_VERIFY_GUARD_H */
