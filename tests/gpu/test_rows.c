/* A chunk's rows into pages: the bytes that the plain C version writes. */
#include <string.h>

#include "gpu.h"
#include "support/seed.h"

typedef struct rows {
    pl_row_layout_t layout;
    pl_page_form_t form;
    int32_t n, n_slots;
    size_t stride;
    const float *values;
    const int32_t *rows;
    uint8_t *want, *got;
} rows_t;

/* Some values of all kinds: zero tiles, tiny ones, large ones. */
static float *make_values(pl_rng_t *rng, int32_t n, int32_t width)
{
    float *values = host_floats(rng, (size_t)n * (size_t)width);

    for (int32_t i = 0; i < n; i++) {
        static const float factors[] = {1.0F, 0.0F, 1e-38F, 1e6F, 300.0F};
        float factor                 = factors[between(rng, 0, 4)];

        for (int32_t d = 0; d < width; d++) {
            values[(size_t)i * (size_t)width + (size_t)d] *= factor;
        }
    }
    return values;
}

/* Rows in a random order, every tenth of them padding. */
static rows_t make_rows(pl_rng_t *rng, const pl_row_layout_t *layout,
                        pl_page_form_t form, int32_t width)
{
    rows_t made = {.layout = *layout, .form = form};
    size_t page = (size_t)form.page_tokens * pl_row_bytes(&form);
    int32_t *rows;

    made.n_slots = between(rng, 1, 20);
    made.n       = made.n_slots * form.page_tokens;
    made.stride  = (page + 15) / 16 * 16;
    made.values  = make_values(rng, made.n, width);
    rows         = host_order(rng, made.n);
    for (int32_t i = 0; i < made.n; i += 10) {
        rows[i] = -1;
    }
    made.rows = rows;
    made.want = host_bytes(made.stride * (size_t)made.n_slots);
    made.got  = host_bytes(made.stride * (size_t)made.n_slots);
    memset(made.want, 0xFF, made.stride * (size_t)made.n_slots);
    return made;
}

static uint8_t *page_of(const rows_t *rows, int32_t i)
{
    return rows->want +
           (size_t)(rows->rows[i] / rows->form.page_tokens) * rows->stride;
}

static void check_latent(pl_rng_t *rng, const pl_row_layout_t *layout)
{
    pl_page_form_t form = {between(rng, 1, 70), layout->latent_bytes, 0};
    int32_t width       = layout->kv_lora + layout->rope;
    rows_t rows         = make_rows(rng, layout, form, width);
    size_t bytes        = rows.stride * (size_t)rows.n_slots;
    uint8_t *pages      = gpu_upload(rows.want, bytes);

    for (int32_t i = 0; i < rows.n; i++) {
        if (rows.rows[i] >= 0) {
            pl_latent_store(
                layout, rows.values + (size_t)i * (size_t)width,
                page_of(&rows, i) +
                    pl_row_key(&form, rows.rows[i] % form.page_tokens));
        }
    }
    ck_assert_int_eq(pl_cuda_store_latent(
                         layout, &form, GPU_UPLOAD(rows.values, rows.n * width),
                         rows.n, GPU_UPLOAD(rows.rows, rows.n), pages,
                         rows.stride, NULL),
                     PL_OK);
    gpu_download(rows.got, pages, bytes);
    ck_assert_mem_eq(rows.got, rows.want, bytes);
}

static void check_index(pl_rng_t *rng, const pl_row_layout_t *layout)
{
    pl_page_form_t form = {between(rng, 1, 70), layout->index_key_bytes,
                           layout->index_scale_bytes};
    int32_t width       = layout->index_dim;
    rows_t rows         = make_rows(rng, layout, form, width);
    size_t bytes        = rows.stride * (size_t)rows.n_slots;
    uint8_t *pages      = gpu_upload(rows.want, bytes);

    for (int32_t i = 0; i < rows.n; i++) {
        if (rows.rows[i] >= 0) {
            int32_t row = rows.rows[i] % form.page_tokens;

            pl_index_store(layout, rows.values + (size_t)i * (size_t)width,
                           page_of(&rows, i) + pl_row_key(&form, row),
                           page_of(&rows, i) + pl_row_scale(&form, row));
        }
    }
    ck_assert_int_eq(pl_cuda_store_index(
                         layout, &form, GPU_UPLOAD(rows.values, rows.n * width),
                         rows.n, GPU_UPLOAD(rows.rows, rows.n), pages,
                         rows.stride, NULL),
                     PL_OK);
    gpu_download(rows.got, pages, bytes);
    ck_assert_mem_eq(rows.got, rows.want, bytes);
}

START_TEST(rows_are_stored_bit_for_bit)
{
    static const int32_t dims[][3] = {
        {512, 64, 128}, {32, 8, 16}, {130, 6, 24}, {40, 4, 132}};
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 36; round++) {
        const int32_t *d = dims[round % 4];
        pl_row_layout_t layout =
            pl_row_layout_make((pl_kv_dtype_t)(round % 3), d[0], d[1], d[2]);

        check_latent(&rng, &layout);
        check_index(&rng, &layout);
        gpu_close();
    }
}
END_TEST

TCase *case_rows(void)
{
    TCase *tc = tcase_create("rows");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rows_are_stored_bit_for_bit);
    return tc;
}
