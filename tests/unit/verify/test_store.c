/* How pages lie in memory: one definition, no byte twice, none outside. */
#include "test_verify.h"

#include <stdlib.h>
#include <string.h>

#include "pool/store.h"
#include "support/log_capture.h"

static const int32_t page_sizes[] = {1, 2, 3, 16, 64, 100, 1000, 1024};

#define N_PAGE_SIZES ((int)(sizeof(page_sizes) / sizeof(page_sizes[0])))

/* I1, 9.23 (highest slot): each byte of memory belongs to at most one page, the
 * highest slot's page ends within it, and all pages are aligned. */
START_TEST(pages_tile_the_memory)
{
    static const uint8_t some[] = {1, 0, 1};
    pl_store_layout_t layout =
        pl_store_layout_stamp(page_sizes[_i / 2], 3, 20, 7);
    uint8_t *seen;
    size_t bytes;

    layout.has_index = _i % 2 == 0 ? NULL : some;
    bytes            = pl_store_bytes(&layout);
    seen             = calloc(bytes, 1);
    for (int which = 0; which < PL_STORES; which++) {
        size_t stride = pl_store_stride(&layout, which);

        ck_assert_uint_eq(stride % PL_PAGE_ALIGN, 0);
        for (int32_t layer = 0; layer < layout.n_layers; layer++) {
            if (!pl_store_has(&layout, which, layer)) {
                continue;
            }
            for (int32_t slot = 0; slot < layout.n_slots; slot++) {
                size_t at = pl_store_array(&layout, which, layer) +
                            (size_t)slot * stride;

                ck_assert_uint_eq(at % PL_PAGE_ALIGN, 0);
                ck_assert_uint_le(at + stride, bytes);
                ck_assert_ptr_null(memchr(seen + at, 1, stride));
                memset(seen + at, 1, stride);
            }
        }
    }
    ck_assert_ptr_null(memchr(seen, 0, bytes));
    free(seen);
}
END_TEST

/* So do the headers. */
START_TEST(headers_tile_their_array)
{
    static const uint8_t some[] = {0, 1, 1, 0};
    pl_store_layout_t layout    = pl_store_layout_stamp(3, 4, 12, 5);
    bool seen[64]               = {false};
    size_t n                    = 0;

    layout.has_index = _i == 0 ? NULL : some;
    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < layout.n_layers; layer++) {
            if (!pl_store_has(&layout, which, layer)) {
                continue;
            }
            for (int32_t slot = 0; slot < layout.n_slots; slot++) {
                size_t at =
                    pl_store_header_array(&layout, which, layer) + (size_t)slot;

                ck_assert_uint_lt(at, pl_store_n_headers(&layout));
                ck_assert(!seen[at]);
                seen[at] = true;
                n++;
            }
        }
    }
    ck_assert_uint_eq(n, pl_store_n_headers(&layout));
}
END_TEST

/* 9.22 planar: in an index page the keys come first, then the scales; and rows
 * come back as they went in, whatever the page size. */
START_TEST(index_pages_are_planar)
{
    pl_store_layout_t layout = pl_store_layout_stamp(page_sizes[_i], 1, 24, 1);
    pl_page_form_t form      = pl_store_form(&layout, PL_STORE_INDEX);
    uint8_t *page = calloc(pl_store_stride(&layout, PL_STORE_INDEX), 1);
    bool good     = true;

    for (int32_t t = 0; t < form.page_tokens; t++) {
        uint8_t row[24];

        memset(row, t & 0x7F, 20);
        memset(row + 20, 0x80 | (t & 0x7F), 4);
        pl_row_put(&form, page, t, row);
    }
    for (int32_t t = 0; t < form.page_tokens; t++) {
        uint8_t row[24];
        size_t scales = (size_t)form.page_tokens * 20;

        good = good && (page[(size_t)t * 20 + 19] == (t & 0x7F)) &&
               (page[scales + (size_t)t * 4] == (0x80 | (t & 0x7F)));
        pl_row_get(&form, page, t, row);
        good =
            good && (row[0] == (t & 0x7F)) && (row[23] == (0x80 | (t & 0x7F)));
    }
    ck_assert(good);
    free(page);
}
END_TEST

/* 9.21 the fp8 latent row is 656 bytes, an index page of 64 tokens 8,448: 8,192
 * of keys, then the scales at a multiple of 16. */
START_TEST(published_sizes)
{
    pl_store_layout_t layout = {.page_tokens       = 64,
                                .n_layers          = 61,
                                .latent_row_bytes  = 656,
                                .index_key_bytes   = 128,
                                .index_scale_bytes = 4,
                                .n_slots           = 3};
    pl_page_form_t form      = pl_store_form(&layout, PL_STORE_INDEX);

    ck_assert_uint_eq(pl_store_stride(&layout, PL_STORE_LATENT), 64 * 656);
    ck_assert_uint_eq(pl_store_stride(&layout, PL_STORE_INDEX), 8448);
    ck_assert_uint_eq(pl_row_scale(&form, 0), 8192);
    ck_assert_uint_eq(pl_store_page_bytes(&layout), 61 * 64 * 788);
}
END_TEST

/* GLM-5.2 in fp8 on eight ranks: ten layers on the first, of which four have an
 * index; on one rank all, and on many the largest is a layer with one. */
START_TEST(runs_of_layers)
{
    uint8_t has_index[78]    = {1, 1};
    pl_store_layout_t layout = {.page_tokens       = 64,
                                .n_layers          = 78,
                                .latent_row_bytes  = 656,
                                .index_key_bytes   = 128,
                                .index_scale_bytes = 4,
                                .has_index         = has_index};
    size_t latent            = 64 * 656;
    size_t index             = 64 * 132;

    for (int32_t layer = 2; layer < 78; layer += 4) {
        has_index[layer] = 1;
    }
    ck_assert_uint_eq(pl_store_page_bytes(&layout), 78 * latent + 21 * index);
    ck_assert_uint_eq(pl_store_run_bytes(&layout, 1),
                      pl_store_page_bytes(&layout));
    /* layers 0 to 9: 0, 1, 2 and 6 */
    ck_assert_uint_eq(pl_store_run_bytes(&layout, 8), 10 * latent + 4 * index);
    ck_assert_uint_eq(pl_store_run_bytes(&layout, 127), latent + index);
}
END_TEST

/* --stamp-row-bytes R gives R bytes to a row of either store. */
START_TEST(stamp_rows)
{
    pl_store_layout_t layout = pl_store_layout_stamp(64, 2, 64, 1);
    pl_page_form_t latent    = pl_store_form(&layout, PL_STORE_LATENT);
    pl_page_form_t index     = pl_store_form(&layout, PL_STORE_INDEX);

    ck_assert_uint_eq(pl_row_bytes(&latent), 64);
    ck_assert_uint_eq(pl_row_bytes(&index), 64);
    ck_assert_int_eq(index.scale_bytes, 4);
}
END_TEST

START_TEST(bad_layouts_are_refused_with_one_line)
{
    static const pl_store_layout_t bad[] = {
        {0, 2, 64, 60, 4, 1, NULL},
        {1025, 2, 64, 60, 4, 1, NULL},
        {64, 0, 64, 60, 4, 1, NULL},
        {64, 2, 0, 60, 4, 1, NULL},
        {64, 2, 64, 0, 4, 1, NULL},
        {64, 2, 64, 60, 4, -1, NULL},
        {64, 2, 65540, 60, 4, 1, NULL},
        {64, 2, 64, 65536, 4, 1, NULL},
        {1024, INT32_MAX, 65536, 60, 4, INT32_MAX, NULL}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        log_capture_t said;

        log_capture_open(&said);
        ck_assert_int_eq(pl_store_layout_check(&bad[i], &said.log),
                         PL_ERR_ARGUMENT);
        ck_assert_int_eq(said.n_lines, 1);
        log_capture_close(&said);
    }
    for (int i = 0; i < N_PAGE_SIZES; i++) {
        pl_store_layout_t good =
            pl_store_layout_stamp(page_sizes[i], 2, 8, 1000);

        ck_assert_int_eq(pl_store_layout_check(&good, NULL), PL_OK);
    }
}
END_TEST

TCase *store_case(void)
{
    TCase *tcase = tcase_create("store");

    tcase_add_loop_test(tcase, pages_tile_the_memory, 0, 2 * N_PAGE_SIZES);
    tcase_add_loop_test(tcase, headers_tile_their_array, 0, 2);
    tcase_add_loop_test(tcase, index_pages_are_planar, 0, N_PAGE_SIZES);
    tcase_add_test(tcase, published_sizes);
    tcase_add_test(tcase, runs_of_layers);
    tcase_add_test(tcase, stamp_rows);
    tcase_add_test(tcase, bad_layouts_are_refused_with_one_line);
    return tcase;
}
