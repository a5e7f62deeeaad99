/* What is to stand in a file: names, data, and what is packed. */
#include <string.h>

#include "store/content.h"
#include "support/check_main.h"

/* Chunks are small enough for a reader's cache, and no longer than the column;
 * what a rank has for itself lies in one piece. */
START_TEST(long_columns_are_packed)
{
    pl_dataset_t column = {.item   = PL_ITEM_I64,
                           .dims   = {2048, 1},
                           .n_dims = 1,
                           .writer = PL_REPLICATED};

    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 2048);
    column.dims[0] = 2047; /* just too short */
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 0);
    column.dims[0] = 1 << 20;
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 1 << 16);
    column.n_dims  = 2;
    column.dims[1] = 8;
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 1 << 13);
    column.dims[1] = 1 << 20; /* a row is larger than a chunk */
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 1);
    column.dims[1] = 0;
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 0);
    column.dims[1] = 8;
    column.writer  = 0;
    ck_assert_uint_eq(pl_dataset_chunk_rows(&column), 0);
}
END_TEST

START_TEST(owned_data_is_a_copy)
{
    pl_content_t content = {0};
    int32_t items[3]     = {1, 2, 3};
    pl_dataset_t column  = {.item   = PL_ITEM_I32,
                            .dims   = {3},
                            .n_dims = 1,
                            .data   = items,
                            .writer = PL_REPLICATED};

    (void)pl_content_add(&content, "/a", column);
    column.data = NULL;
    ck_assert_ptr_nonnull(pl_content_add(&content, "/b", column));
    ck_assert_int_eq(pl_content_own(&content), PL_OK);
    items[1] = 9;
    ck_assert_int_eq(((const int32_t *)content.datasets.items[0].data)[1], 2);
    pl_content_free(&content);
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

    tcase_add_test(tcase, long_columns_are_packed);
    tcase_add_test(tcase, owned_data_is_a_copy);
    tcase_add_test(tcase, names_become_identifiers);
    tcase_add_test(tcase, memory_that_is_not_given_comes_zeroed);
    return tcase;
}

PL_CHECK_MAIN("content", all())
