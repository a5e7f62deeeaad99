/* Packed columns are what HDF5's own filters would make: they come back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "store/file.h"
#include "store/image.h"
#include "store/reader.h"
#include "store/snapshot.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/seed.h"

static log_capture_t said;
static char path[64];

static void set_up(void)
{
    log_capture_open(&said);
    (void)snprintf(path, sizeof(path), "pack-test-%d.h5", (int)getpid());
}

static void tear_down(void)
{
    (void)unlink(path);
    log_capture_close(&said);
}

/* Noise, runs and steps: what does not get smaller, and what does. */
static void fill(uint8_t *bytes, size_t n, pl_rng_t *rng)
{
    uint64_t kind = pl_rng_below(rng, 3);

    for (size_t i = 0; i < n; i++) {
        bytes[i] = kind == 0   ? (uint8_t)pl_rng_next(rng)
                   : kind == 1 ? (uint8_t)(i >> 12)
                               : (uint8_t)(i % 8 == 0 ? i >> 3 : 0);
    }
}

static const struct {
    pl_item_t item;
    uint64_t rows, columns; /* columns 0: one dimension */
} SHAPES[] = {
    {PL_ITEM_I64, 2048, 0},   {PL_ITEM_I64, 65536, 0}, {PL_ITEM_U64, 65537, 0},
    {PL_ITEM_I32, 200000, 0}, {PL_ITEM_U32, 4096, 0},  {PL_ITEM_I8, 700001, 0},
    {PL_ITEM_U8, 16384, 0},   {PL_ITEM_I32, 5000, 7},  {PL_ITEM_I64, 3, 80000},
    {PL_ITEM_I64, 9, 0},      {PL_ITEM_I32, 0, 0},
};

enum { N_SHAPES = sizeof(SHAPES) / sizeof(SHAPES[0]) };

static void name_of(size_t i, char text[32])
{
    (void)snprintf(text, 32, "/x/column%zu", i);
}

static pl_content_t make(pl_rng_t *rng)
{
    pl_content_t content = {0};

    pl_content_text(&content, "/", "format", PL_SNAPSHOT_FORMAT);
    pl_content_version(&content, "/", "schema_version", PL_SNAPSHOT_MAJOR, 0);
    pl_content_group(&content, "/x");
    for (size_t i = 0; i < N_SHAPES; i++) {
        bool wide            = SHAPES[i].columns > 0;
        pl_dataset_t dataset = {
            .item        = SHAPES[i].item,
            .n_dims      = wide ? 2 : 1,
            .dims        = {SHAPES[i].rows, wide ? SHAPES[i].columns : 1},
            .labels      = {"row", "column"},
            .unit        = "1",
            .description = "x",
            .writer      = PL_REPLICATED};
        char name[32];

        name_of(i, name);
        fill(pl_content_add(&content, name, dataset),
             pl_dataset_bytes(&dataset), rng);
    }
    ck_assert_int_eq(pl_content_status(&content), PL_OK);
    return content;
}

static pl_image_t image_of(const pl_content_t *content, size_t slice,
                           int n_threads)
{
    pl_pack_t pack   = {0};
    pl_image_t image = {0};

    ck_assert_int_eq(pl_pack_open(content, &pack), PL_OK);
    while (!pl_pack_done(&pack)) {
        ck_assert_int_eq(pl_pack_step(&pack, slice, n_threads), PL_OK);
    }
    ck_assert_int_eq(pl_image_make(&pack, "test", &said.log, &image), PL_OK);
    pl_pack_close(&pack);
    return image;
}

/* Item i of a column as the reader gives it. */
static int64_t item_of(const pl_dataset_t *dataset, size_t i)
{
    switch (dataset->item) {
    case PL_ITEM_I8:
        return ((const int8_t *)dataset->data)[i];
    case PL_ITEM_U8:
        return ((const uint8_t *)dataset->data)[i];
    case PL_ITEM_I32:
        return ((const int32_t *)dataset->data)[i];
    case PL_ITEM_U32:
        return ((const uint32_t *)dataset->data)[i];
    default:
        return ((const int64_t *)dataset->data)[i];
    }
}

/* HDF5 undoes what pack.c did, and the digest of the column still holds. */
START_TEST(packed_columns_come_back)
{
    pl_rng_t rng            = pl_rng_seed(pl_test_seed("pack") + (uint64_t)_i);
    pl_content_t content    = make(&rng);
    pl_image_t image        = image_of(&content, SIZE_MAX, 2);
    pl_snapshot_t *snapshot = NULL;

    ck_assert_int_eq(
        pl_file_write(path, image.bytes, image.n, NULL, 0, &said.log), PL_OK);
    ck_assert_int_eq(pl_snapshot_open(path, &said.log, &snapshot), PL_OK);
    for (size_t i = 0; i < N_SHAPES; i++) {
        const pl_dataset_t *dataset = &content.datasets.items[i];
        pl_snapshot_column_t column = {0};

        ck_assert_int_eq(pl_snapshot_read(snapshot, dataset->path,
                                          dataset->item, SHAPES[i].rows,
                                          SHAPES[i].columns, &column),
                         PL_OK);
        for (size_t k = 0; k < pl_dataset_items(dataset); k++) {
            if (column.items[k] != item_of(dataset, k)) {
                ck_abort_msg("%s: item %zu is another", dataset->path, k);
            }
        }
        pl_snapshot_column_free(&column);
    }
    ck_assert_int_eq(said.n_lines, 0);
    pl_snapshot_close(snapshot);
    pl_image_free(&image);
    pl_content_free(&content);
}
END_TEST

/* I10: however many threads and slices, the same bytes; and fewer of them. */
START_TEST(the_bytes_do_not_depend_on_who_packs)
{
    pl_rng_t rng         = pl_rng_seed(pl_test_seed("pack"));
    pl_content_t content = make(&rng);
    pl_image_t whole     = image_of(&content, SIZE_MAX, 1);

    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        pl_image_t other =
            image_of(&content, 1 + pl_rng_below(&rng, 2 << 20), n_threads);

        ck_assert_uint_eq(other.n, whole.n);
        ck_assert_mem_eq(other.bytes, whole.bytes, whole.n);
        pl_image_free(&other);
    }
    pl_image_free(&whole);
    pl_content_free(&content);
}
END_TEST

static TCase *packing(void)
{
    TCase *tcase = tcase_create("packing");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, packed_columns_come_back, 0, 3);
    tcase_add_test(tcase, the_bytes_do_not_depend_on_who_packs);
    return tcase;
}

PL_CHECK_MAIN("pack", packing())
