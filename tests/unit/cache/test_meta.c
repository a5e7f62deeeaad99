/* What a host copy records: laws of split, validators, and a rank's share. */
#include "cache/meta.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/check_main.h"
#include "support/log_capture.h"

enum { PAGE_TOKENS = 16, MOST = 9, HOST_PAGES = 40, MOST_LANES = 8 };

/* A sound copy of n pages in random lanes, some ranks with none. */
static pl_meta_t random_meta(pl_rng_t *rng, int n_lanes, int n)
{
    pl_owner_t owners[MOST];
    pl_page_t pages[MOST];
    int32_t used[MOST_LANES] = {0};
    pl_meta_t meta;

    for (int i = 0; i < n; i++) {
        owners[i] = (pl_owner_t)pl_rng_below(rng, (uint64_t)n_lanes);
        pages[i]  = pl_page_at(owners[i], 3 + used[owners[i]]++, n_lanes);
    }
    ck_assert_int_eq(pl_meta_make(PAGE_TOKENS, n, owners, pages, &meta), PL_OK);
    return meta;
}

static pl_status_t validate(const pl_meta_t *meta, int n_lanes)
{
    return pl_meta_validate(meta, n_lanes, HOST_PAGES, PAGE_TOKENS, NULL);
}

/* 9.26 head + rest == what was, halves without a page of a rank are legal;
 * 9.25 the ranks' shares are disjoint and cover the copy. */
static void split_everywhere(pl_rng_t *rng, int n_lanes, int n)
{
    for (int at = 1; at < n; at++) {
        pl_meta_t meta = random_meta(rng, n_lanes, n);
        pl_meta_t head;
        pl_owner_t owners[MOST];
        pl_page_t pages[MOST];
        size_t n_head   = (size_t)at;
        size_t n_rest   = (size_t)(n - at);
        int32_t n_owned = 0;

        memcpy(owners, meta.owners, (size_t)n * sizeof(*owners));
        memcpy(pages, meta.pages, (size_t)n * sizeof(*pages));
        ck_assert_int_eq(
            pl_meta_split(&meta, (int64_t)at * PAGE_TOKENS, NULL, &head),
            PL_OK);
        ck_assert_int_eq(head.n_pages, at);
        ck_assert_int_eq(meta.n_pages, n - at);
        ck_assert_int_eq(head.page_tokens, PAGE_TOKENS);
        ck_assert_mem_eq(head.owners, owners, n_head * sizeof(*owners));
        ck_assert_mem_eq(meta.owners, owners + at, n_rest * sizeof(*owners));
        ck_assert_mem_eq(head.pages, pages, n_head * sizeof(*pages));
        ck_assert_mem_eq(meta.pages, pages + at, n_rest * sizeof(*pages));
        ck_assert_int_eq(validate(&head, n_lanes), PL_OK);
        ck_assert_int_eq(validate(&meta, n_lanes), PL_OK);
        for (int rank = 0; rank < n_lanes; rank++) {
            int32_t positions[MOST];
            int32_t slots[MOST];
            int32_t k = pl_meta_owned(&meta, rank, n_lanes, positions, slots);

            for (int32_t i = 0; i < k; i++) {
                ck_assert_int_eq(meta.owners[positions[i]], rank);
                ck_assert_int_eq(pl_page_at(rank, slots[i], n_lanes),
                                 meta.pages[positions[i]]);
                ck_assert(i == 0 || positions[i - 1] < positions[i]);
            }
            n_owned += k;
        }
        ck_assert_int_eq(n_owned, meta.n_pages);
        pl_meta_clear(&head);
        pl_meta_clear(&meta);
    }
}

START_TEST(split_and_join_give_the_copy)
{
    pl_rng_t rng = pl_rng_seed((uint64_t)_i);

    for (int n = 1; n <= MOST; n++) {
        split_everywhere(&rng, _i, n);
    }
}
END_TEST

/* 9.26 a split that is no multiple of the page, or leaves a half empty, is a
 * hard error that changes nothing. */
START_TEST(split_off_a_page_boundary_is_refused)
{
    static const int64_t bad[] = {-16, 0,  1,  15, 17,
                                  40,  63, 64, 65, INT64_C(1) << 40};
    pl_rng_t rng               = pl_rng_seed(1);
    log_capture_t said;
    pl_meta_t meta = random_meta(&rng, 3, 4);
    pl_meta_t head = {0};

    log_capture_open(&said);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(pl_meta_split(&meta, bad[i], &said.log, &head),
                         PL_ERR_INTERNAL);
        ck_assert_int_eq(said.n_lines, (int)i + 1);
        ck_assert_int_eq(meta.n_pages, 4);
        ck_assert_int_eq(head.n_pages, 0);
    }
    pl_meta_clear(&meta);
    log_capture_close(&said);
}
END_TEST

START_TEST(each_fault_is_found)
{
    static const char *const words[] = {
        "no rank",        "no rank", "out of range", "out of range",
        "another rank's", "twice",   "tokens"};
    pl_rng_t rng = pl_rng_seed(2);

    for (int fault = 0; fault < 7; fault++) {
        log_capture_t said;
        pl_meta_t meta = random_meta(&rng, 4, 6);

        log_capture_open(&said);
        ck_assert_int_eq(validate(&meta, 4), PL_OK);
        meta.owners[2] = fault == 0 ? 4 : meta.owners[2];
        meta.owners[2] = fault == 1 ? -1 : meta.owners[2];
        meta.pages[2]  = fault == 2 ? 4 * HOST_PAGES : meta.pages[2];
        meta.pages[2]  = fault == 3 ? PL_NO_PAGE : meta.pages[2];
        if (fault == 4) {
            meta.owners[2] = (pl_owner_t)((meta.owners[2] + 1) % 4);
        }
        if (fault == 5) {
            meta.owners[5] = meta.owners[1];
            meta.pages[5]  = meta.pages[1];
        }
        meta.page_tokens = fault == 6 ? 32 : meta.page_tokens;
        ck_assert_int_eq(
            pl_meta_validate(&meta, 4, HOST_PAGES, PAGE_TOKENS, &said.log),
            PL_ERR_INTERNAL);
        ck_assert_int_eq(said.n_lines, 1);
        ck_assert_msg(strstr(said.text, words[fault]) != NULL, "%s", said.text);
        pl_meta_clear(&meta);
        log_capture_close(&said);
    }
}
END_TEST

static TCase *meta_case(void)
{
    TCase *tcase = tcase_create("meta");

    tcase_add_loop_test(tcase, split_and_join_give_the_copy, 1, MOST_LANES + 1);
    tcase_add_test(tcase, split_off_a_page_boundary_is_refused);
    tcase_add_test(tcase, each_fault_is_found);
    return tcase;
}

PL_CHECK_MAIN("cache meta", meta_case())
