/* Owners as runs: what is printed means the owners again. */
#include "cli/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"

enum { MOST_PAGES = 64 };

static char *runs_of(const int64_t *owners, size_t n, size_t most)
{
    pl_text_t text = {0};
    char *runs     = NULL;

    pl_text_add(&text, "%s", "");
    pl_inspect_owners(&text, owners, n, most);
    ck_assert_int_eq(pl_text_take(&text, &runs), PL_OK);
    return runs;
}

/* One group, "A", "A-B", "AxN" or "A-BxN": its owners; how many. */
static size_t expand(const char *group, int64_t *owners)
{
    long first = 0, last = 0, length = 1;
    size_t n = 0;

    if (sscanf(group, "%ld-%ldx%ld", &first, &last, &length) < 2) {
        length = 1;
        (void)sscanf(group, "%ldx%ld", &first, &length);
        last = first;
    }
    for (long owner = first;; owner += first < last ? 1 : -1) {
        for (long i = 0; i < length; i++) {
            ck_assert_uint_lt(n, MOST_PAGES);
            owners[n++] = owner;
        }
        if (owner == last) {
            return n;
        }
    }
}

START_TEST(runs_mean_the_owners_again)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("inspect"));

    for (int round = 0; round < 3000; round++) {
        size_t n          = (size_t)pl_rng_below(&rng, MOST_PAGES);
        uint64_t n_owners = 1 + pl_rng_below(&rng, 5);
        int64_t owners[MOST_PAGES + 1], again[MOST_PAGES];
        size_t n_again = 0;
        char *runs;

        for (size_t i = 0; i < n; i++) {
            /* long runs are as likely as short ones */
            owners[i] = (i > 0) && (pl_rng_below(&rng, 3) > 0)
                            ? owners[i - 1]
                            : (int64_t)pl_rng_below(&rng, n_owners);
        }
        runs = runs_of(owners, n, 0);
        for (char *group = strtok(runs, " "); group != NULL;
             group       = strtok(NULL, " ")) {
            int64_t some[MOST_PAGES];
            size_t n_some = expand(group, some);

            ck_assert_uint_le(n_again + n_some, n);
            memcpy(again + n_again, some, n_some * sizeof(*some));
            n_again += n_some;
        }
        ck_assert_uint_eq(n_again, n);
        ck_assert(memcmp(again, owners, n * sizeof(*owners)) == 0);
        free(runs);
    }
}
END_TEST

START_TEST(zigzag_is_short)
{
    static const int64_t OWNERS[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3,
                                     3, 3, 3, 3, 2, 2, 1, 1, 0, 0};
    char *runs                    = runs_of(OWNERS, 20, 0);

    ck_assert_str_eq(runs, "0-2x3 3x5 2-0x2");
    free(runs);
    runs = runs_of(OWNERS, 20, 2);
    ck_assert_str_eq(runs, "0-2x3 3x5 +6");
    free(runs);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("owners");

    tcase_add_test(tcase, runs_mean_the_owners_again);
    tcase_add_test(tcase, zigzag_is_short);
    return tcase;
}

PL_CHECK_MAIN("inspect", all())
