/* Digests, guard words and violations: laws that do not know of pages. */
#include "test_verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "pool/store.h"
#include "support/check_main.h"
#include "support/seed.h"
#include "verify/digest.h"
#include "verify/guard.h"
#include "verify/violation.h"

#define TOKENS 1000
#define ROW    64

/* Row `position` of a made-up request. */
static void row_of(uint64_t seed, int32_t position, int store, uint8_t *row,
                   size_t n)
{
    pl_rng_t rng = pl_rng_seed(seed + (uint64_t)position * 2 + (uint64_t)store);

    for (size_t i = 0; i < n; i++) {
        row[i] = (uint8_t)pl_rng_next(&rng);
    }
}

/* The digest of the request's rows, stored in pages of some form. */
static uint64_t paged_digest(uint64_t seed, const pl_page_form_t *form,
                             int store, int32_t n_tokens)
{
    size_t page_bytes = (size_t)form->page_tokens * pl_row_bytes(form);
    uint8_t *page     = malloc(page_bytes);
    uint8_t row[256];
    uint64_t sum = 0;

    for (int32_t first = 0; first < n_tokens; first += form->page_tokens) {
        int32_t rows = n_tokens - first < form->page_tokens ? n_tokens - first
                                                            : form->page_tokens;

        memset(page, (int)(seed & 0xFF), page_bytes);
        for (int32_t i = 0; i < rows; i++) {
            row_of(seed, first + i, store, row, pl_row_bytes(form));
            pl_row_put(form, page, i, row);
        }
        sum += pl_digest_rows(form, page, 0, rows, first,
                              pl_digest_base(3, store));
    }
    free(page);
    return sum;
}

/* The page size is no part of a digest, nor is what lies behind the rows; an
 * index row counts as key, then scale, however the page is made.
 * 9.22 planar pages */
START_TEST(digest_does_not_know_pages)
{
    static const int32_t sizes[] = {1, 2, 3, 16, 64, 100, 1000, 1024};
    uint64_t seed                = pl_test_seed("digest_does_not_know_pages");
    static const pl_page_form_t forms[] = {{0, 64, 0}, {0, 60, 4},  {0, 8, 0},
                                           {0, 4, 4},  {0, 128, 4}, {0, 72, 0}};

    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        int store    = forms[f].scale_bytes == 0 ? 0 : 1;
        uint64_t sum = 0;
        uint8_t row[256];

        for (int32_t t = 0; t < TOKENS; t++) {
            row_of(seed, t, store, row, pl_row_bytes(&forms[f]));
            sum += pl_digest_row(pl_digest_base(3, store), t, row,
                                 pl_row_bytes(&forms[f]));
        }
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            pl_page_form_t form = forms[f];

            form.page_tokens = sizes[i];
            ck_assert_uint_eq(paged_digest(seed, &form, store, TOKENS), sum);
        }
    }
}
END_TEST

/* Whatever is exchanged or changed shows: bit, position, layer, store. */
START_TEST(digest_sees_every_change)
{
    uint64_t seed = pl_test_seed("digest_sees_every_change");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 2000; round++) {
        pl_page_form_t form = {16, 60, 4};
        uint8_t page[16 * 64];
        uint8_t row[ROW], other[ROW];
        int32_t a     = (int32_t)pl_rng_below(&rng, 16);
        int32_t b     = (a + 1 + (int32_t)pl_rng_below(&rng, 15)) % 16;
        uint64_t base = pl_digest_base(1, 1);
        uint64_t was;

        for (size_t i = 0; i < sizeof(page); i++) {
            page[i] = (uint8_t)pl_rng_next(&rng);
        }
        was = pl_digest_rows(&form, page, 0, 16, 32, base);
        ck_assert_uint_ne(was, pl_digest_rows(&form, page, 0, 16, 48, base));
        ck_assert_uint_ne(
            was, pl_digest_rows(&form, page, 0, 16, 32, pl_digest_base(2, 1)));
        ck_assert_uint_ne(
            was, pl_digest_rows(&form, page, 0, 16, 32, pl_digest_base(1, 0)));
        ck_assert_uint_eq(
            was, pl_digest_rows(&form, page, 0, a, 32, base) +
                     pl_digest_rows(&form, page, a, 16 - a, 32 + a, base));
        pl_row_get(&form, page, a, row);
        pl_row_get(&form, page, b, other);
        pl_row_put(&form, page, a, other);
        pl_row_put(&form, page, b, row);
        ck_assert_uint_ne(was, pl_digest_rows(&form, page, 0, 16, 32, base));
        pl_row_put(&form, page, a, row);
        pl_row_put(&form, page, b, other);
        page[pl_rng_below(&rng, sizeof(page))] ^=
            (uint8_t)(1U << pl_rng_below(&rng, 8));
        ck_assert_uint_ne(was, pl_digest_rows(&form, page, 0, 16, 32, base));
    }
}
END_TEST

/* Values that later releases must reproduce: digests stand in snapshots. */
START_TEST(digest_is_fixed)
{
    uint8_t row[ROW];

    for (size_t i = 0; i < sizeof(row); i++) {
        row[i] = (uint8_t)i;
    }
    /* The library's own XXH3 says the same as the inlined one. */
    ck_assert_uint_eq(
        pl_digest_row(pl_digest_base(4, 1), 9, row, 60),
        pl_hash64(row, 60, pl_digest_seed(pl_digest_base(4, 1), 9)));
    ck_assert_uint_eq(pl_digest_row(pl_digest_base(0, 0), 0, row, ROW),
                      UINT64_C(0xC077F59E98FA1EFF));
    ck_assert_uint_eq(pl_digest_row(pl_digest_base(7, 1), 12345, row, 8),
                      UINT64_C(0xBF42F60E0FAB7531));
}
END_TEST

START_TEST(guard_says_what_was_packed)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("guard_says_what_was_packed"));

    ck_assert_int_eq(pl_guard_owner(PL_GUARD_NEVER), -1);
    ck_assert_uint_ne(pl_guard_pack(0, 0, 0), PL_GUARD_NEVER);
    for (int round = 0; round < 20000; round++) {
        int owner           = (int)pl_rng_below(&rng, PL_MAX_RANKS);
        int32_t slot        = (int32_t)pl_rng_below(&rng, (uint64_t)INT32_MAX /
                                                              ((uint64_t)owner + 1));
        uint32_t generation = (uint32_t)pl_rng_below(&rng, 1U << 26);
        uint64_t guard      = pl_guard_pack(owner, slot, generation);

        ck_assert((guard != PL_GUARD_NEVER) && (guard != PL_GUARD_DAMAGED) &&
                  (pl_guard_owner(guard) == owner) &&
                  (pl_guard_slot(guard) == slot) &&
                  (pl_guard_generation(guard) == generation));
    }
}
END_TEST

static pl_violation_t some_violation(pl_rng_t *rng)
{
    pl_violation_t v = {
        .invariant = (int32_t)pl_rng_below(rng, 12) + 1,
        .tick      = (int64_t)pl_rng_below(rng, 3),
        .layer     = (int32_t)pl_rng_below(rng, 2),
        .store     = (int32_t)pl_rng_below(rng, 2),
        .position  = (int32_t)pl_rng_below(rng, 3),
        .reader    = (int32_t)pl_rng_below(rng, 3),
        .request   = (int32_t)pl_rng_below(rng, 3) - 1,
        .node      = (int64_t)pl_rng_below(rng, 3) - 1,
        .page      = (int32_t)pl_rng_below(rng, 3) - 1,
        .owner     = (int32_t)pl_rng_below(rng, 3) - 1,
        .slot      = (int32_t)pl_rng_below(rng, 3) - 1,
        .tier      = (pl_place_t)pl_rng_below(rng, PL_PLACES),
    };

    return v;
}

/* However violations are spread over ranks, the same one is the least. */
START_TEST(least_violation_does_not_depend_on_ranks)
{
    pl_rng_t rng =
        pl_rng_seed(pl_test_seed("least_violation_does_not_depend_on_ranks"));

    for (int round = 0; round < 500; round++) {
        pl_violations_t all      = {0};
        pl_violations_t ranks[3] = {{0}};
        pl_violations_t joined   = {0};
        uint64_t words[PL_VIOLATION_WORDS];
        int n = (int)pl_rng_below(&rng, 8);

        for (int i = 0; i < n; i++) {
            pl_violation_t v = some_violation(&rng);

            pl_violations_note(&all, &v);
            pl_violations_note(&ranks[pl_rng_below(&rng, 3)], &v);
        }
        for (int rank = 2; rank >= 0; rank--) {
            pl_violations_encode(&ranks[rank], words);
            ck_assert_int_eq(pl_violations_decode(&joined, words),
                             ranks[rank].n > 0);
        }
        ck_assert_int_eq(joined.n, all.n);
        if (n > 0) {
            ck_assert_int_eq(pl_violation_compare(&joined.least, &all.least),
                             0);
        }
    }
}
END_TEST

START_TEST(violation_order_begins_with_tick_layer_store_position_reader)
{
    pl_violation_t a = {.tick = 1, .layer = 9, .store = 1, .position = 9};
    pl_violation_t b = {.tick = 2};

    ck_assert_int_lt(pl_violation_compare(&a, &b), 0);
    b.tick = 1;
    ck_assert_int_gt(pl_violation_compare(&a, &b), 0);
    b.layer = 9;
    ck_assert_int_gt(pl_violation_compare(&a, &b), 0);
    b.store = 1;
    ck_assert_int_gt(pl_violation_compare(&a, &b), 0);
    b.position = 9;
    ck_assert_int_eq(pl_violation_compare(&a, &b), 0);
    b.reader    = 1;
    a.invariant = 9;
    ck_assert_int_lt(pl_violation_compare(&a, &b), 0);
}
END_TEST

START_TEST(violation_line_has_its_fixed_form)
{
    char line[PL_VIOLATION_LINE_BYTES];
    pl_violation_t v = {.invariant = PL_INVARIANT_BYTES,
                        .tick      = 20,
                        .layer     = 1,
                        .store     = PL_STORE_INDEX,
                        .position  = 131,
                        .reader    = 2,
                        .request   = 3,
                        .node      = -1,
                        .page      = 17,
                        .owner     = 1,
                        .slot      = 4,
                        .tier      = PL_PLACE_HOST};

    pl_violation_line(&v, 7, line);
    ck_assert_str_eq(line,
                     "pagelane violation: invariant=I7 req=3 node=-1 pos=131 "
                     "page=17 owner=1 reader=2 slot=4 layer=1 store=index "
                     "tier=host tick=20 seed=7");
}
END_TEST

START_TEST(nonsense_is_no_violation)
{
    uint64_t words[PL_VIOLATION_WORDS] = {0};
    pl_violations_t all                = {0};

    ck_assert(!pl_violations_decode(&all, words));
    words[0]  = 1;
    words[12] = PL_PLACES;
    ck_assert(!pl_violations_decode(&all, words));
    ck_assert_int_eq(all.n, 0);
}
END_TEST

static TCase *verify_case(void)
{
    TCase *tcase = tcase_create("verify");

    tcase_add_test(tcase, digest_does_not_know_pages);
    tcase_add_test(tcase, digest_sees_every_change);
    tcase_add_test(tcase, digest_is_fixed);
    tcase_add_test(tcase, guard_says_what_was_packed);
    tcase_add_test(tcase, least_violation_does_not_depend_on_ranks);
    tcase_add_test(
        tcase, violation_order_begins_with_tick_layer_store_position_reader);
    tcase_add_test(tcase, violation_line_has_its_fixed_form);
    tcase_add_test(tcase, nonsense_is_no_violation);
    return tcase;
}

PL_CHECK_MAIN("verify", verify_case(), store_case())
