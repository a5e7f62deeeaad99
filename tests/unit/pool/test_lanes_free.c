/* Giving pages back: what is found, what it leaves, free groups. */
#include <pagelane/lanes.h>

#include <string.h>

#include "unit/pool/lanes_fixture.h"

enum { N = 12, LANES = 3 };

/* A pool with 12 pages handed out, in `pages`, lanes 0 1 2 0 1 2 ... */
static void open_used(lanes_fixture_t *f, pl_owner_t *owners, pl_page_t *pages)
{
    for (int i = 0; i < N; i++) {
        owners[i] = (pl_owner_t)(i % LANES);
    }
    fixture_open(f, LANES, 20, 1);
    ck_assert_int_eq(pl_lanes_alloc(f->lanes, owners, N, pages), PL_OK);
}

/* The call fails with one line that has `words` in it, and changes nothing. */
static void assert_refused(lanes_fixture_t *f, const pl_page_t *pages,
                           const pl_owner_t *owners, int32_t n,
                           const char *words)
{
    uint64_t hash = pl_lanes_state_hash(f->lanes);
    int n_lines   = f->n_lines;

    ck_assert_int_eq(pl_lanes_free(f->lanes, pages, owners, n),
                     PL_ERR_INTERNAL);
    ck_assert_int_eq(f->n_lines, n_lines + 1);
    ck_assert_msg(strstr(f->last, words) != NULL, "'%s' lacks '%s'", f->last,
                  words);
    ck_assert_uint_eq(pl_lanes_state_hash(f->lanes), hash);
    ck_assert_int_eq(pl_lanes_check(f->lanes), PL_OK);
}

/* 9.11 double free within one call, across calls, of a page never handed out */
START_TEST(double_frees_are_found)
{
    pl_owner_t owners[N];
    pl_page_t pages[N];
    pl_page_t twice[4];
    pl_page_t unused = pl_page_at(1, 15, LANES);
    lanes_fixture_t f;

    open_used(&f, owners, pages);
    memcpy(twice, pages, sizeof(twice));
    twice[3] = twice[0];
    assert_refused(&f, twice, NULL, 4, "double free of page 3 (3 of 4");
    assert_refused(&f, &unused, NULL, 1, "double free of page 46");
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 3), PL_OK);
    assert_refused(&f, pages + 2, NULL, 4, "double free of page 5 (0 of 4");
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages + 3, NULL, N - 3), PL_OK);
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), 3 * 19);
    fixture_close(&f);
}
END_TEST

/* 9.11 still found when the page has been merged, not only while staged */
START_TEST(a_double_free_after_a_merge_is_found)
{
    static const pl_owner_t zeros[3] = {0};
    pl_page_t pages[3];
    pl_page_t last;
    lanes_fixture_t f;

    fixture_open(&f, 1, 4, 1);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 3, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 3), PL_OK);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 1, &last), PL_OK);
    ck_assert_int_eq(last, 1);
    assert_refused(&f, pages + 1, NULL, 2, "double free of page 2");
    fixture_close(&f);
}
END_TEST

/* 9.11 a page in another lane than the caller says */
START_TEST(a_wrong_lane_is_found)
{
    pl_owner_t owners[N];
    pl_page_t pages[N];
    lanes_fixture_t f;

    open_used(&f, owners, pages);
    owners[7] = 2;
    assert_refused(&f, pages, owners, N,
                   "(7 of 12) in lane 2; it lies in lane 1, slot 3");
    owners[7] = -1;
    assert_refused(&f, pages, owners, N, "(7 of 12) in lane -1; it lies in");
    owners[7] = 1;
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, owners, N), PL_OK);
    fixture_close(&f);
}
END_TEST

/* 9.1, 9.2 no page, pages beyond the pool, scratch */
START_TEST(pages_that_cannot_be_freed_are_found)
{
    static const pl_page_t out[] = {-1, INT32_MIN, 60, INT32_MAX};
    pl_owner_t owners[N];
    pl_page_t pages[N];
    lanes_fixture_t f;

    open_used(&f, owners, pages);
    for (int k = 0; k < 4; k++) {
        pl_page_t kept = pages[5];

        pages[5] = out[k];
        assert_refused(&f, pages, NULL, N, "there are pages 0 to 59");
        assert_refused(&f, pages, owners, N, "there are pages 0 to 59");
        pages[5] = kept;
    }
    for (pl_page_t g = 0; g < LANES; g++) {
        assert_refused(&f, &g, NULL, 1, "the scratch slot 0 of lane");
    }
    fixture_close(&f);
}
END_TEST

/* 9.12 a group's pages wait for its end, and its list is a copy */
START_TEST(a_group_defers_to_its_end)
{
    pl_owner_t owners[N];
    pl_page_t pages[N];
    pl_page_t list[2];
    lanes_fixture_t f;
    int64_t n_free;

    open_used(&f, owners, pages);
    n_free = pl_lanes_free_total(f.lanes);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    memcpy(list, pages, sizeof(list));
    ck_assert_int_eq(pl_lanes_free(f.lanes, list, owners, 2), PL_OK);
    list[0] = list[1] = pages[9]; /* the caller may reuse its list */
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), n_free);
    ck_assert(!pl_lanes_is_free(f.lanes, pages[0]));
    ck_assert_int_eq(pl_lanes_check(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), n_free + 2);
    ck_assert(pl_lanes_is_free(f.lanes, pages[0]));
    ck_assert(!pl_lanes_is_free(f.lanes, pages[9]));
    fixture_close(&f);
}
END_TEST

/* 9.12 not even a lane that runs dry gets a page of an open group */
START_TEST(a_group_page_is_not_handed_out_before_its_end)
{
    static const pl_owner_t zeros[4] = {0};
    pl_page_t pages[4];
    pl_page_t got[4];
    lanes_fixture_t f;

    fixture_open(&f, 1, 5, 1);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 4, pages), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages + 1, NULL, 1), PL_OK);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 1), PL_OK);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 2, got), PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 1, got), PL_OK);
    ck_assert_int_eq(got[0], pages[1]); /* staged before the group: merged */
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_alloc(f.lanes, zeros, 1, got), PL_OK);
    ck_assert_int_eq(got[0], pages[0]);
    fixture_close(&f);
}
END_TEST

/* 9.11, 9.12 the same page twice in a group: in one call, and in two */
START_TEST(double_frees_in_a_group_are_found)
{
    pl_owner_t owners[N];
    pl_page_t pages[N];
    pl_page_t twice[3];
    lanes_fixture_t f;

    open_used(&f, owners, pages);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages, NULL, 2), PL_OK);
    memcpy(twice, pages + 2, sizeof(twice));
    twice[2] = twice[0];
    assert_refused(&f, twice, NULL, 3, "double free of page 5 (2 of 3");
    assert_refused(&f, pages + 1, owners + 1, 4, "double free of page 4 (0 of");
    owners[4] = 0;
    assert_refused(&f, pages + 2, owners + 2, 4, "in lane 0");
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_free_total(f.lanes), 3 * 19 - N + 2);
    ck_assert_int_eq(pl_lanes_free(f.lanes, pages + 2, NULL, N - 2), PL_OK);
    fixture_close(&f);
}
END_TEST

/* 9.12 no nesting; and the pool goes on after the mistake */
START_TEST(groups_do_not_nest)
{
    lanes_fixture_t f;

    fixture_open(&f, 2, 9, 1);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_ERR_INTERNAL);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_ERR_INTERNAL);
    ck_assert_int_eq(f.n_lines, 2);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_ERR_INTERNAL);
    ck_assert_int_eq(pl_lanes_group_begin(f.lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_group_end(f.lanes), PL_OK);
    fixture_close(&f);
}
END_TEST

void add_free_tests(Suite *suite)
{
    TCase *tcase = tcase_create("free");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, double_frees_are_found);
    tcase_add_test(tcase, a_double_free_after_a_merge_is_found);
    tcase_add_test(tcase, a_wrong_lane_is_found);
    tcase_add_test(tcase, pages_that_cannot_be_freed_are_found);
    tcase_add_test(tcase, a_group_defers_to_its_end);
    tcase_add_test(tcase, a_group_page_is_not_handed_out_before_its_end);
    tcase_add_test(tcase, double_frees_in_a_group_are_found);
    tcase_add_test(tcase, groups_do_not_nest);
}
