/* base: status, log, arrays, text, hashing, random numbers. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pagelane/log.h>
#include <pagelane/status.h>
#include <pagelane/version.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "support/check_main.h"

static const pl_status_t ALL_STATUSES[] = {
#define NAME(name, value, text, exit_status) name,
    PL_STATUS_LIST(NAME)
#undef NAME
};

START_TEST(every_status_has_its_own_text_and_a_documented_exit)
{
    size_t n = sizeof(ALL_STATUSES) / sizeof(ALL_STATUSES[0]);

    for (size_t i = 0; i < n; i++) {
        int exit_status = pl_status_exit(ALL_STATUSES[i]);

        ck_assert_int_ge(exit_status, 0);
        ck_assert_int_le(exit_status, 5);
        ck_assert_int_eq(exit_status == 0, ALL_STATUSES[i] == PL_OK);
        for (size_t j = 0; j < i; j++) {
            ck_assert_str_ne(pl_status_text(ALL_STATUSES[i]),
                             pl_status_text(ALL_STATUSES[j]));
        }
    }
    ck_assert_int_eq(pl_status_exit((pl_status_t)99), 5);
    ck_assert_str_eq(pl_status_text((pl_status_t)99), "unknown status");
}
END_TEST

typedef struct heard {
    int n;
    pl_log_level_t level;
    char line[2048];
} heard_t;

static void hear(void *context, pl_log_level_t level, const char *line)
{
    heard_t *heard = context;

    heard->n++;
    heard->level = level;
    (void)snprintf(heard->line, sizeof(heard->line), "%s", line);
}

START_TEST(a_log_passes_on_what_is_loud_enough)
{
    heard_t heard = {0};

    for (int level = PL_LOG_ERROR; level <= PL_LOG_TRACE; level++) {
        pl_log_t log = {hear, &heard, (pl_log_level_t)level};

        for (int said = PL_LOG_ERROR; said <= PL_LOG_TRACE; said++) {
            heard.n = 0;
            pl_log(&log, (pl_log_level_t)said, "said %d of %s", said, "five");
            ck_assert_int_eq(heard.n, said <= level ? 1 : 0);
        }
    }
    ck_assert_str_eq(heard.line, "said 4 of five");
}
END_TEST

START_TEST(a_log_line_is_cut_not_overrun)
{
    heard_t heard = {0};
    pl_log_t log  = {hear, &heard, PL_LOG_INFO};
    char longer[3000];

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    pl_log(&log, PL_LOG_INFO, "%s", longer);
    ck_assert_uint_eq(strlen(heard.line), 1023);

    pl_log(NULL, PL_LOG_ERROR, "to nobody");
    log.write = NULL;
    pl_log(&log, PL_LOG_ERROR, "to nobody");
    ck_assert_int_eq(heard.n, 1);
}
END_TEST

START_TEST(an_array_keeps_what_was_pushed)
{
    PL_ARRAY(int32_t) numbers = {0};

    for (int32_t i = 0; i < 10000; i++) {
        ck_assert_int_eq(PL_ARRAY_PUSH(&numbers, i * 3), PL_OK);
        ck_assert_uint_ge(numbers.capacity, numbers.n);
    }
    for (int32_t i = 0; i < 10000; i++) {
        ck_assert_int_eq(numbers.items[i], i * 3);
    }
    PL_ARRAY_FREE(&numbers);
    ck_assert_ptr_null(numbers.items);
    ck_assert_uint_eq(numbers.n, 0);
    ck_assert_int_eq(PL_ARRAY_PUSH(&numbers, 7), PL_OK);
    ck_assert_int_eq(numbers.items[0], 7);
    PL_ARRAY_FREE(&numbers);
}
END_TEST

START_TEST(an_array_that_cannot_grow_stays_as_it_was)
{
    PL_ARRAY(int64_t) numbers = {0};
    size_t capacity;

    ck_assert_int_eq(PL_ARRAY_PUSH(&numbers, 5), PL_OK);
    capacity = numbers.capacity;
    ck_assert_int_eq(PL_ARRAY_RESERVE(&numbers, SIZE_MAX), PL_ERR_MEMORY);
    ck_assert_int_eq(PL_ARRAY_RESERVE(&numbers, SIZE_MAX / 8), PL_ERR_MEMORY);
    ck_assert_uint_eq(numbers.n, 1);
    ck_assert_uint_eq(numbers.capacity, capacity);
    ck_assert_int_eq(numbers.items[0], 5);
    PL_ARRAY_FREE(&numbers);
}
END_TEST

START_TEST(a_text_grows_with_every_addition)
{
    pl_text_t text = {0};
    char *string   = NULL;
    char expected[8];

    for (int i = 0; i < 1000; i++) {
        pl_text_add(&text, "%03d,", i);
    }
    ck_assert_uint_eq(text.n, 4000);
    ck_assert_int_eq(pl_text_take(&text, &string), PL_OK);
    ck_assert_ptr_null(text.bytes);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(expected, sizeof(expected), "%03d,", i);
        ck_assert_mem_eq(string + 4 * i, expected, 4);
    }
    ck_assert_int_eq(string[4000], '\0');
    free(string);
}
END_TEST

START_TEST(nouns_are_counted)
{
    static const int64_t many[] = {-1, 0, 2, 11, INT64_MAX};

    ck_assert_str_eq(pl_text_s(1), "");
    for (size_t i = 0; i < sizeof(many) / sizeof(*many); i++) {
        ck_assert_str_eq(pl_text_s(many[i]), "s");
    }
}
END_TEST

START_TEST(a_rank_stands_before_its_line_once)
{
    static const struct {
        const char *line;
        int rank;
        const char *want;
    } cases[] = {
        {"rank 1: gather: late", 1, "gather: late"},
        {"rank 1: rank 1: gather: late", 1, "gather: late"},
        {"rank 12: gather: late", 1, "rank 12: gather: late"},
        {"rank 1: gather: late", 12, "rank 1: gather: late"},
        {"rank 1 stops", 1, "rank 1 stops"},
        {"gather of rank 1: late", 1, "gather of rank 1: late"},
        {"rank 1: ", 1, ""},
        {"", 0, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ck_assert_str_eq(pl_text_without_rank(cases[i].line, cases[i].rank),
                         cases[i].want);
    }
}
END_TEST

START_TEST(an_empty_text_is_a_string_and_a_failed_one_is_none)
{
    pl_text_t text = {0};
    char *string   = NULL;

    ck_assert_int_eq(pl_text_take(&text, &string), PL_OK);
    ck_assert_str_eq(string, "");
    free(string);

    string = NULL;
    pl_text_add(&text, "some");
    text.status = PL_ERR_MEMORY;
    pl_text_add(&text, "more");
    ck_assert_uint_eq(text.n, 4);
    ck_assert_int_eq(pl_text_take(&text, &string), PL_ERR_MEMORY);
    ck_assert_ptr_null(string);
    ck_assert_ptr_null(text.bytes);
}
END_TEST

/* The published results of XXH3: another library version must not change
 * what a snapshot holds. */
START_TEST(hashes_are_those_of_xxh3)
{
    ck_assert_uint_eq(pl_hash64("", 0, 0), UINT64_C(0x2D06800538D394C2));
    ck_assert_uint_eq(pl_hash128("", 0, 0).lo, UINT64_C(0x6001C324468D497F));
    ck_assert_uint_eq(pl_hash128("", 0, 0).hi, UINT64_C(0x99AA06D3014798D8));
    ck_assert_uint_ne(pl_hash64("page", 4, 0), pl_hash64("page", 4, 1));
    ck_assert_uint_ne(pl_fold64(pl_fold64(0, 1), 2),
                      pl_fold64(pl_fold64(0, 2), 1));
}
END_TEST

START_TEST(random_numbers_repeat_and_stay_below)
{
    pl_rng_t rng   = pl_rng_seed(42);
    pl_rng_t again = rng;
    int seen[7]    = {0};

    for (int i = 0; i < 7000; i++) {
        uint64_t x = pl_rng_below(&rng, 7);

        ck_assert_uint_eq(x, pl_rng_below(&again, 7));
        ck_assert_uint_lt(x, 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++) {
        ck_assert_int_gt(seen[i], 800);
        ck_assert_int_lt(seen[i], 1200);
    }
    for (int i = 0; i < 1000; i++) {
        double x = pl_rng_unit(&rng);

        ck_assert(x >= 0.0 && x < 1.0);
    }
    ck_assert_uint_eq(pl_rng_below(&rng, 1), 0);
}
END_TEST

START_TEST(the_version_has_three_numbers)
{
    int major, minor, patch;
    char rest;

    ck_assert_int_eq(
        sscanf(pl_version(), "%d.%d.%d%c", &major, &minor, &patch, &rest), 3);
    ck_assert_uint_gt(strlen(pl_version_commit()), 0);
    ck_assert_ptr_nonnull(strstr(pl_version_built_with(), "HDF5"));
}
END_TEST

static TCase *base_case(void)
{
    TCase *tcase = tcase_create("base");

    tcase_add_test(tcase, every_status_has_its_own_text_and_a_documented_exit);
    tcase_add_test(tcase, a_log_passes_on_what_is_loud_enough);
    tcase_add_test(tcase, a_log_line_is_cut_not_overrun);
    tcase_add_test(tcase, an_array_keeps_what_was_pushed);
    tcase_add_test(tcase, an_array_that_cannot_grow_stays_as_it_was);
    tcase_add_test(tcase, a_text_grows_with_every_addition);
    tcase_add_test(tcase, an_empty_text_is_a_string_and_a_failed_one_is_none);
    tcase_add_test(tcase, nouns_are_counted);
    tcase_add_test(tcase, a_rank_stands_before_its_line_once);
    tcase_add_test(tcase, hashes_are_those_of_xxh3);
    tcase_add_test(tcase, random_numbers_repeat_and_stay_below);
    tcase_add_test(tcase, the_version_has_three_numbers);
    return tcase;
}

PL_CHECK_MAIN("base", base_case())
