/* Extends, the counts, generations, the state hash and the check. */
#include <pagelane/lanes.h>

#include "pool/lanes_internal.h"
#include "unit/pool/lanes_fixture.h"

static const pl_ownership_t zigzag = {PL_OWNERSHIP_ZIGZAG, 0};

/* ---- extend ---- */

/* 9.13 the three parts of an extend, for every small (before, after):
 * what fits the old partial page takes nothing, then whole pages, then a
 * partial one; owners are the chunk's compute owners. */
START_TEST(extend_takes_what_the_tokens_need)
{
    enum { PS = 4, MOST = 41 };

    for (int32_t before = 0; before <= MOST; before++) {
        for (int32_t after = before; after <= MOST; after++) {
            int32_t held = (before + PS - 1) / PS;
            int32_t want = (after + PS - 1) / PS - held;
            pl_page_t pages[MOST];
            pl_owner_t owners[MOST];
            int32_t n = -1;
            lanes_fixture_t f;
            pl_status_t status;

            fixture_open(&f, 3, 20, 1);
            status = pl_lanes_alloc_extend(f.lanes, zigzag, PS, before, after,
                                           5, pages, &n);
            if ((before % PS != 0) && (want > 0)) {
                /* 9.6 a page never changes its owner */
                ck_assert_int_eq(status, PL_ERR_ARGUMENT);
                ck_assert_int_eq(f.n_lines, 1);
                ck_assert_int_eq(n, -1);
                ck_assert_int_eq(pl_lanes_free_total(f.lanes), 3 * 19);
            } else {
                ck_assert_int_eq(status, PL_OK);
                ck_assert_int_eq(n, want);
                pl_compute_owners(zigzag, 3, held, want, 5, owners);
                for (int32_t i = 0; i < n; i++) {
                    ck_assert_int_eq(pl_page_owner(pages[i], 3), owners[i]);
                }
                ck_assert_int_eq(pl_lanes_free_total(f.lanes), 3 * 19 - want);
            }
            fixture_close(&f);
        }
    }
}
END_TEST

/* 9.13 decode: a new page exactly if the length, new token included, is 1 mod
 * the page size */
START_TEST(decode_takes_a_page_at_each_page_start)
{
    lanes_fixture_t f;

    fixture_open(&f, 1, 20, 0);
    for (int32_t length = 1; length <= 60; length++) {
        pl_page_t page;
        int32_t n;

        ck_assert_int_eq(pl_lanes_alloc_extend(f.lanes, zigzag, 4, length - 1,
                                               length, 0, &page, &n),
                         PL_OK);
        ck_assert_int_eq(n, length % 4 == 1 ? 1 : 0);
    }
    fixture_close(&f);
}
END_TEST

START_TEST(extend_backwards_is_refused)
{
    lanes_fixture_t f;
    pl_page_t page;
    int32_t n = 7;

    fixture_open(&f, 2, 9, 1);
    ck_assert_int_eq(
        pl_lanes_alloc_extend(f.lanes, zigzag, 4, 8, 4, 0, &page, &n),
        PL_ERR_ARGUMENT);
    ck_assert_int_eq(
        pl_lanes_alloc_extend(f.lanes, zigzag, 4, -4, 4, 0, &page, &n),
        PL_ERR_ARGUMENT);
    ck_assert_int_eq(
        pl_lanes_alloc_extend(f.lanes, zigzag, 0, 0, 4, 0, &page, &n),
        PL_ERR_ARGUMENT);
    ck_assert_int_eq(f.n_lines, 3);
    ck_assert_int_eq(n, 7);
    fixture_close(&f);
}
END_TEST

START_TEST(a_short_extend_changes_nothing)
{
    pl_page_t pages[9];
    int32_t n = 7;
    uint64_t hash;
    lanes_fixture_t f;

    fixture_open(&f, 2, 4, 1);
    hash = pl_lanes_state_hash(f.lanes);
    ck_assert_int_eq(
        pl_lanes_alloc_extend(f.lanes, zigzag, 4, 0, 25, 0, pages, &n),
        PL_REFUSED_SHORT);
    ck_assert_int_eq(n, 7);
    ck_assert_uint_eq(pl_lanes_state_hash(f.lanes), hash);
    fixture_close(&f);
}
END_TEST

/* ---- counts ---- */

/* 9.10 admission counts the tightest lane, leak accounting the sum */
START_TEST(admission_counts_the_tightest_lane)
{
    static const pl_owner_t owners[] = {1, 1, 1, 1, 2};
    pl_page_t pages[5];
    lanes_fixture_t f;

    fixture_open(&f, 4, 11, 1);
    ck_assert_int_eq(pl_lanes_available(f.lanes), 40);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 5, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_available(f.lanes), 4 * 6);
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), 35);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 5), PL_OK);
    ck_assert_int_eq(pl_lanes_available(f.lanes), 40);
    fixture_close(&f);
}
END_TEST

START_TEST(the_generation_counts_hand_outs)
{
    static const pl_owner_t owner = 1;
    lanes_fixture_t f;
    pl_page_t page;

    fixture_open(&f, 2, 2, 1); /* one page a lane */
    for (uint32_t round = 1; round <= 5; round++) {
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, &owner, 1, &page), PL_OK);
        ck_assert_int_eq(page, 3);
        ck_assert_uint_eq(pl_lanes_generation(f.lanes, 3), round);
        ck_assert_int_eq(pl_lanes_free(f.lanes, &page, &owner, 1), PL_OK);
        ck_assert_uint_eq(pl_lanes_generation(f.lanes, 3), round);
    }
    ck_assert_uint_eq(pl_lanes_generation(f.lanes, 2), 0);
    fixture_close(&f);
}
END_TEST

/* A hash that any difference in what decides later results changes. */
START_TEST(the_state_hash_tells_states_apart)
{
    static const pl_owner_t owners[] = {0, 1};
    uint64_t seen[6];
    pl_page_t pages[2];
    lanes_fixture_t f;

    fixture_open(&f, 2, 5, 1);
    seen[0] = pl_lanes_state_hash(f.lanes);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 2, pages), PL_OK);
    seen[1] = pl_lanes_state_hash(f.lanes);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 1), PL_OK);
    seen[2] = pl_lanes_state_hash(f.lanes); /* one staged */
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 1, pages), PL_OK);
    seen[3] = pl_lanes_state_hash(f.lanes); /* another page of that lane */
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    seen[4] = pl_lanes_state_hash(f.lanes);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 1), PL_OK);
    seen[5] = pl_lanes_state_hash(f.lanes);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < i; j++) {
            ck_assert_uint_ne(seen[i], seen[j]);
        }
    }
    fixture_close(&f);
}
END_TEST

/* Page 1 staged and 2 in a group, or the other way round: the next alloc gives
 * another page. */
START_TEST(the_state_hash_tells_staged_from_grouped)
{
    static const pl_owner_t zeros[3] = {0};
    uint64_t hashes[2];

    for (int k = 0; k < 2; k++) {
        pl_page_t pages[3];
        pl_page_t next;
        lanes_fixture_t f;

        fixture_open(&f, 1, 4, 1);
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 3, pages), PL_OK);
        ck_assert_int_eq(pl_lanes_free(f.lanes, pages + k, NULL, 1), PL_OK);
        ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
        ck_assert_int_eq(pl_lanes_free(f.lanes, pages + 1 - k, NULL, 1), PL_OK);
        hashes[k] = pl_lanes_state_hash(f.lanes);
        ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 1, &next), PL_OK);
        ck_assert_int_eq(next, pages[k]);
        ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
        fixture_close(&f);
    }
    ck_assert_uint_ne(hashes[0], hashes[1]);
}
END_TEST

/* The check finds each kind of lie, once it has been told. */
START_TEST(the_check_finds_a_wrong_counter)
{
    static const pl_owner_t owners[] = {0, 0, 1};
    pl_page_t pages[3];
    lanes_fixture_t f;
    pl_lane_t *lane;

    fixture_open(&f, 2, 100, 1);
    lane = &f.lanes->lanes[0];
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, owners, 3, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 1), PL_OK);
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_OK);

    lane->n_free++;
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->n_free--;
    lane->n_staged--;
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->n_staged++;
    lane->dirty[0] = 0;
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->dirty[0] = 1;
    lane->full[0]  = 1;
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->full[0] = 0;
    lane->held[0] &= ~UINT64_C(1);
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->held[0] |= 1;
    lane->cursor = 1;
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->cursor = 0;
    lane->gone[0] &= ~UINT64_C(4);
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_ERR_INTERNAL);
    lane->gone[0] |= 4;
    ck_assert_int_eq(f.n_lines, 7);
    fixture_close(&f);
}
END_TEST

void add_count_tests(Suite *suite)
{
    TCase *tcase = tcase_create("count");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, extend_takes_what_the_tokens_need);
    tcase_add_test(tcase, decode_takes_a_page_at_each_page_start);
    tcase_add_test(tcase, extend_backwards_is_refused);
    tcase_add_test(tcase, a_short_extend_changes_nothing);
    tcase_add_test(tcase, admission_counts_the_tightest_lane);
    tcase_add_test(tcase, the_generation_counts_hand_outs);
    tcase_add_test(tcase, the_state_hash_tells_states_apart);
    tcase_add_test(tcase, the_state_hash_tells_staged_from_grouped);
    tcase_add_test(tcase, the_check_finds_a_wrong_counter);
}
