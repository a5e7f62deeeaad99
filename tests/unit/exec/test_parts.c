/* Parts of the data plane that need no ranks: copy lists, the transfer's two
 * machines. */
#include "test_exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "exec/copies.h"
#include "exec/memory.h"
#include "exec/transfer.h"
#include "support/check_main.h"
#include "support/seed.h"

#define SLOTS  40
#define STRIDE 48

static int32_t n_runs(const pl_slot_pair_t *pairs, int32_t n)
{
    pl_copy_t copies[SLOTS];
    uint8_t memory[2] = {0};

    return pl_copies_build(pairs, n, memory, memory + 1, STRIDE, copies);
}

/* 9.48 runs only where both sides are consecutive */
START_TEST(runs_need_neighbours_on_both_sides)
{
    static const pl_slot_pair_t both[]    = {{3, 7}, {4, 8}, {5, 9}};
    static const pl_slot_pair_t src[]     = {{3, 7}, {4, 9}, {5, 8}};
    static const pl_slot_pair_t dst[]     = {{3, 7}, {5, 8}, {4, 9}};
    static const pl_slot_pair_t falling[] = {{5, 9}, {4, 8}, {3, 7}};
    static const pl_slot_pair_t gap[]     = {{3, 7}, {4, 8}, {6, 10}};

    ck_assert_int_eq(n_runs(both, 0), 0);
    ck_assert_int_eq(n_runs(both, 1), 1);
    ck_assert_int_eq(n_runs(both, 3), 1);
    ck_assert_int_eq(n_runs(src, 3), 3);
    ck_assert_int_eq(n_runs(dst, 3), 3);
    ck_assert_int_eq(n_runs(falling, 3), 3);
    ck_assert_int_eq(n_runs(gap, 3), 2);
}
END_TEST

/* However pages lie, a list of copies moves each page where it belongs and
 * touches nothing else. */
START_TEST(copies_move_what_pairs_say)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("copies_move_what_pairs_say"));

    for (int round = 0; round < 2000; round++) {
        uint8_t src[SLOTS * STRIDE], dst[SLOTS * STRIDE], want[SLOTS * STRIDE];
        pl_slot_pair_t pairs[SLOTS];
        pl_copy_t copies[SLOTS];
        bool used[SLOTS] = {false};
        int32_t n        = 0;
        int32_t at       = (int32_t)pl_rng_below(&rng, SLOTS);
        int32_t from     = (int32_t)pl_rng_below(&rng, SLOTS);
        int32_t n_copies;

        for (size_t i = 0; i < sizeof(src); i++) {
            src[i] = (uint8_t)pl_rng_next(&rng);
        }
        memset(dst, 0, sizeof(dst));
        memset(want, 0, sizeof(want));
        for (int i = 0; i < SLOTS; i++) {
            bool jumps = pl_rng_below(&rng, 3) == 0;

            at = jumps ? (int32_t)pl_rng_below(&rng, SLOTS) : (at + 1) % SLOTS;
            from = pl_rng_below(&rng, 4) == 0
                       ? (int32_t)pl_rng_below(&rng, SLOTS)
                       : (from + 1) % SLOTS;
            if (used[at]) {
                continue;
            }
            used[at]   = true;
            pairs[n++] = (pl_slot_pair_t){from, at};
            memcpy(want + at * STRIDE, src + from * STRIDE, STRIDE);
        }
        n_copies = pl_copies_build(pairs, n, src, dst, STRIDE, copies);
        ck_assert_int_le(n_copies, n);
        for (int32_t i = 0; i < n_copies; i++) {
            memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
        }
        ck_assert_mem_eq(dst, want, sizeof(dst));
    }
}
END_TEST

/* 9.41 every rank reports, one without pages too; distinct ranks count */
START_TEST(transfer_ends_when_all_ranks_have_reported)
{
    pl_transfer_t transfer;

    pl_transfer_open(&transfer, 3);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_WAITING);
    pl_transfer_report(&transfer, 1, true);
    pl_transfer_report(&transfer, 1, true);
    pl_transfer_report(&transfer, 1, true);
    ck_assert(!pl_transfer_ended(&transfer));
    pl_transfer_report(&transfer, 0, true);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_WAITING);
    pl_transfer_report(&transfer, 2, true);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_GOOD);
    ck_assert(pl_transfer_ended(&transfer));
}
END_TEST

/* 9.44, I9: failure is sticky and wins; 9.45 its pages are held until all
 * writers have acknowledged */
START_TEST(failure_is_sticky)
{
    pl_transfer_t transfer;

    pl_transfer_open(&transfer, 2);
    pl_transfer_report(&transfer, 0, false);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_FAILED);
    ck_assert(!pl_transfer_ended(&transfer));
    pl_transfer_report(&transfer, 0, true);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_FAILED);
    pl_transfer_report(&transfer, 1, true);
    ck_assert_int_eq(pl_transfer_state(&transfer), PL_TRANSFER_FAILED);
    ck_assert(pl_transfer_ended(&transfer));
}
END_TEST

/* 9.46 a slot is tagged with its request, zeroed when it comes back, and zero
 * is not arrived; a message of another request or attempt is not taken */
START_TEST(handover_slots_do_not_remember)
{
    pl_handovers_t slots     = {0};
    pl_handover_slot_t *slot = NULL;
    pl_handover_slot_t *same = NULL;
    pl_handover_slot_t *next = NULL;

    ck_assert_int_eq(pl_handover_take(&slots, 0, &slot), PL_OK);
    ck_assert(!pl_handover_is_for(slot, 0, 1));
    slot->message = (pl_handover_t){.tag = 1, .attempt = 1, .token = 77};
    ck_assert(pl_handover_is_for(slot, 0, 1));
    ck_assert(!pl_handover_is_for(slot, 0, 2));
    ck_assert(!pl_handover_is_for(slot, 1, 1));
    pl_handover_give(slot);

    ck_assert_int_eq(pl_handover_take(&slots, 5, &same), PL_OK);
    ck_assert_ptr_eq(same, slot);
    ck_assert_uint_eq(same->message.token, 0);
    ck_assert(!pl_handover_is_for(same, 0, 1));
    ck_assert(!pl_handover_is_for(same, 5, 1));
    /* What is still written for the request before is not this one's. */
    same->message = (pl_handover_t){.tag = 1, .attempt = 1, .token = 77};
    ck_assert(!pl_handover_is_for(same, 5, 1));

    ck_assert_int_eq(pl_handover_take(&slots, 6, &next), PL_OK);
    ck_assert_ptr_ne(next, same);
    pl_handovers_free(&slots);
}
END_TEST

START_TEST(numbers_are_grouped)
{
    char text[PL_GROUPED_BYTES];

    pl_text_grouped(0, text);
    ck_assert_str_eq(text, "0");
    pl_text_grouped(999, text);
    ck_assert_str_eq(text, "999");
    pl_text_grouped(1000, text);
    ck_assert_str_eq(text, "1,000");
    pl_text_grouped(UINT64_MAX, text);
    ck_assert_str_eq(text, "18,446,744,073,709,551,615");
}
END_TEST

static TCase *parts_case(void)
{
    TCase *tcase = tcase_create("parts");

    tcase_add_test(tcase, runs_need_neighbours_on_both_sides);
    tcase_add_test(tcase, copies_move_what_pairs_say);
    tcase_add_test(tcase, transfer_ends_when_all_ranks_have_reported);
    tcase_add_test(tcase, failure_is_sticky);
    tcase_add_test(tcase, handover_slots_do_not_remember);
    tcase_add_test(tcase, numbers_are_grouped);
    return tcase;
}

PL_CHECK_MAIN("exec parts", parts_case(), stamp_case())
