/* Every row of a dataset is written by exactly one rank. */
#include <string.h>

#include "store/content.h"
#include "support/check_main.h"

enum { MOST_RANKS = 9, MOST_ROWS = 40 };

START_TEST(each_row_has_one_writer)
{
    for (uint64_t rows = 0; rows < MOST_ROWS; rows++) {
        pl_dataset_t dataset = {
            .dims = {rows}, .n_dims = 1, .writer = PL_ALL_RANKS};
        uint64_t next = 0;

        for (int rank = 0; rank < _i; rank++) {
            uint64_t first, n;

            pl_dataset_rows(&dataset, rank, _i, &first, &n);
            ck_assert_uint_eq(first, next);
            ck_assert_uint_le(n, rows / (uint64_t)_i + 1); /* evenly */
            next = first + n;
        }
        ck_assert_uint_eq(next, rows);
    }
}
END_TEST

START_TEST(own_dataset_has_its_writer)
{
    for (int writer = 0; writer < 2 * MOST_RANKS; writer++) {
        pl_dataset_t dataset = {.dims = {7}, .n_dims = 1, .writer = writer};

        for (int rank = 0; rank < _i; rank++) {
            uint64_t first, n;

            pl_dataset_rows(&dataset, rank, _i, &first, &n);
            ck_assert_uint_eq(first, 0);
            ck_assert_uint_eq(n, rank == writer % _i ? 7 : 0);
        }
    }
}
END_TEST

START_TEST(names_become_identifiers)
{
    pl_content_t content = {0};

    pl_content_text(&content, "/config", "page-size", "64");
    pl_content_integer(&content, "/x", "a.b c_9", 5);
    ck_assert_int_eq(pl_content_status(&content), PL_OK);
    ck_assert_str_eq(content.attributes.items[0].name, "page_size");
    ck_assert_str_eq(content.attributes.items[1].name, "a_b_c_9");
    pl_content_free(&content);
}
END_TEST

START_TEST(memory_that_is_not_given_comes_zeroed)
{
    pl_content_t content = {0};
    pl_dataset_t dataset = {.item = PL_ITEM_I32, .n_dims = 2, .dims = {3, 2}};
    int32_t given[6]     = {0};
    int32_t *column      = pl_content_add(&content, "/x", dataset);

    ck_assert_ptr_nonnull(column);
    ck_assert_mem_eq(column, given, sizeof(given));
    dataset.data = given;
    ck_assert_ptr_null(pl_content_add(&content, "/y", dataset));
    ck_assert_int_eq(pl_content_status(&content), PL_OK);
    ck_assert_ptr_eq(content.datasets.items[1].data, given);
    pl_content_free(&content);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("content");

    tcase_add_loop_test(tcase, each_row_has_one_writer, 1, MOST_RANKS);
    tcase_add_loop_test(tcase, own_dataset_has_its_writer, 1, MOST_RANKS);
    tcase_add_test(tcase, names_become_identifiers);
    tcase_add_test(tcase, memory_that_is_not_given_comes_zeroed);
    return tcase;
}

PL_CHECK_MAIN("content", all())
