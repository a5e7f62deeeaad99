/* Pages and page numbers on the GPU: copies, the inverse, lanes. */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "support/seed.h"

/* Pages of a source in a random order into random slots of a target: what
 * gather, scatter, load-back and backup all are. */
static void copy_both_ways(pl_rng_t *rng, int32_t n, size_t page_bytes,
                           bool pinned, int32_t n_blocks)
{
    const int32_t n_slots = n + between(rng, 0, 9);
    const size_t stride   = page_bytes + 16 * (size_t)between(rng, 0, 3);
    const size_t bytes    = stride * (size_t)(n_slots > 0 ? n_slots : 1);
    uint8_t *source       = pinned ? gpu_pinned(bytes) : host_bytes(bytes);
    uint8_t *got          = host_bytes(bytes);
    int32_t *from         = host_order(rng, n_slots);
    int32_t *to           = host_order(rng, n_slots);
    pl_page_place_t here  = {.slots  = GPU_UPLOAD(from, n_slots),
                             .stride = stride};
    pl_page_place_t there = {.slots  = GPU_UPLOAD(to, n_slots),
                             .stride = stride};
    uint8_t *target       = gpu_upload(NULL, bytes);
    int32_t n_near        = between(rng, 0, n);

    for (size_t i = 0; i < bytes; i++) {
        source[i] = (uint8_t)pl_rng_next(rng);
    }
    here.base  = pinned ? source : gpu_upload(source, bytes);
    there.base = target;
    ck_assert_int_eq(pl_cuda_gather_pages(&here, &there, n - n_near, n_near,
                                          page_bytes, n_blocks, NULL),
                     PL_OK);
    gpu_download(got, target, bytes);
    for (int32_t i = 0; i < n_slots; i++) {
        const uint8_t *page = got + (size_t)to[i] * stride;

        if (i < n) {
            ck_assert_mem_eq(page, source + (size_t)from[i] * stride,
                             page_bytes);
        }
        for (size_t b = i < n ? page_bytes : 0; b < stride; b++) {
            ck_assert_uint_eq(page[b], 0xFF); /* nobody's */
        }
    }
}

START_TEST(pages_come_where_they_belong)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        copy_both_ways(&rng, between(&rng, 0, 300),
                       16 * (size_t)between(&rng, 1, 700), round % 2 != 0,
                       round % 3 == 0 ? 0 : between(&rng, 1, 40));
        gpu_close();
    }
}
END_TEST

/* A list of logical pages over several stores, in one pass. */
START_TEST(pages_of_all_lanes_become_a_view)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int n_lanes = 1; n_lanes <= 8; n_lanes++) {
        const int32_t n_slots = 50, n = n_slots * n_lanes;
        const size_t page = 16 * (size_t)between(&rng, 1, 300);
        const void *bases[8];
        uint8_t *stores[8];
        int32_t *pages       = host_order(&rng, n);
        uint8_t *got         = host_bytes(page * (size_t)n);
        pl_page_place_t from = {.n_lanes = n_lanes, .stride = page};
        pl_page_place_t to   = {.stride = page};

        for (int lane = 0; lane < n_lanes; lane++) {
            stores[lane] = (uint8_t *)host_floats(&rng, page / 4 * 50);
            bases[lane]  = gpu_upload(stores[lane], page * 50);
        }
        from.slots = GPU_UPLOAD(pages, n);
        from.bases = gpu_upload(bases, sizeof(bases));
        to.base    = gpu_upload(NULL, page * (size_t)n);
        ck_assert_int_eq(pl_cuda_copy_pages(&from, &to, n, page, 0, NULL),
                         PL_OK);
        gpu_download(got, to.base, page * (size_t)n);
        for (int32_t i = 0; i < n; i++) {
            ck_assert_mem_eq(got + (size_t)i * page,
                             stores[pages[i] % n_lanes] +
                                 (size_t)(pages[i] / n_lanes) * page,
                             page);
        }
        gpu_close();
    }
}
END_TEST

START_TEST(locations_become_positions)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 20; round++) {
        const int32_t p         = between(&rng, 1, 200);
        const int32_t n_logical = between(&rng, 1, 900);
        const int32_t n_pages   = between(&rng, 0, n_logical);
        const int32_t n         = between(&rng, 0, 5000);
        int32_t *pages          = host_order(&rng, n_logical);
        int32_t *locations      = host_bytes((size_t)n * 4 + 4);
        int32_t *got            = host_bytes((size_t)n * 4 + 4);
        int32_t *all            = host_bytes((size_t)n_logical * 4);
        int32_t *on_gpu         = GPU_UPLOAD(pages, n_pages);
        int32_t *inverse        = gpu_upload(NULL, (size_t)n_logical * 4);
        int32_t *places         = gpu_upload(NULL, (size_t)n * 4);

        for (int32_t i = 0; i < n; i++) {
            locations[i] = between(&rng, -2, n_logical * p - 1);
        }
        ck_assert_int_eq(pl_cuda_inverse_set(inverse, on_gpu, n_pages, NULL),
                         PL_OK);
        ck_assert_int_eq(pl_cuda_remap(inverse, p, GPU_UPLOAD(locations, n), n,
                                       places, NULL),
                         PL_OK);
        ck_assert_int_eq(pl_cuda_inverse_clear(inverse, on_gpu, n_pages, NULL),
                         PL_OK);
        gpu_download(got, places, (size_t)n * 4);
        for (int32_t i = 0; i < n; i++) {
            int32_t want = -1;

            for (int32_t k = 0; (locations[i] >= 0) && (k < n_pages); k++) {
                want = pages[k] == locations[i] / p ? k * p + locations[i] % p
                                                    : want;
            }
            ck_assert_int_eq(got[i], want);
        }
        gpu_download(all, inverse, (size_t)n_logical * 4);
        for (int32_t i = 0; i < n_logical; i++) {
            ck_assert_int_eq(all[i], -1); /* ready for the next request */
        }
        gpu_close();
    }
}
END_TEST

/* The lowest free slot of a lane, which is then taken; -1: none is left. */
static int32_t take_lowest(uint64_t *bits, int32_t n_words)
{
    for (int32_t w = 0; w < n_words; w++) {
        for (int32_t b = 0; b < 64; b++) {
            if ((bits[w] >> b & 1) != 0) {
                bits[w] &= ~(UINT64_C(1) << b);
                return w * 64 + b;
            }
        }
    }
    return -1;
}

static void take_from_lanes(pl_rng_t *rng)
{
    const int32_t n_lanes = between(rng, 1, 8);
    const int32_t n_words = between(rng, 1, 60);
    const int32_t n       = between(rng, 0, n_words * 64 * n_lanes / 3);
    const size_t bytes    = (size_t)(n_lanes * n_words) * sizeof(uint64_t);
    pl_owner_t *owners    = host_bytes((size_t)n + 1);
    pl_page_t *want       = host_bytes((size_t)n * sizeof(*want));
    pl_page_t *got        = host_bytes((size_t)n * sizeof(*got));
    uint64_t *bits        = host_bytes(bytes);
    uint64_t *left        = host_bytes(bytes);
    int32_t lacking = 0, n_short = 0;
    int32_t *lacks   = gpu_upload(NULL, sizeof(*lacks));
    int32_t *scratch = gpu_upload(NULL, (size_t)(n + n_lanes) * 4);
    pl_page_t *taken = gpu_upload(NULL, (size_t)n * sizeof(*taken));
    uint64_t *on_gpu;

    for (int32_t w = 0; w < n_lanes * n_words; w++) {
        bits[w] = pl_rng_next(rng) & pl_rng_next(rng);
    }
    memcpy(left, bits, bytes);
    for (int32_t i = 0; i < n; i++) {
        int32_t slot;

        owners[i] = (pl_owner_t)between(rng, 0, n_lanes - 1);
        slot      = take_lowest(left + owners[i] * n_words, n_words);
        want[i]   = slot * n_lanes + owners[i];
        n_short += slot < 0 ? 1 : 0;
    }
    on_gpu = gpu_upload(bits, bytes);
    ck_assert_int_eq(pl_cuda_take_pages(on_gpu, n_lanes, n_words,
                                        GPU_UPLOAD(owners, n), n, taken, lacks,
                                        scratch, NULL),
                     PL_OK);
    gpu_download(&lacking, lacks, sizeof(lacking));
    ck_assert_int_eq(lacking, n_short);
    memcpy(left, n_short > 0 ? bits : left, bytes); /* all or nothing */
    gpu_download(bits, on_gpu, bytes);
    ck_assert_mem_eq(bits, left, bytes);
    if (n_short == 0) {
        gpu_download(got, taken, (size_t)n * sizeof(*got));
        ck_assert_mem_eq(got, want, (size_t)n * sizeof(*got));
    }
}

START_TEST(lanes_give_their_lowest_free_slots_or_nothing)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 30; round++) {
        take_from_lanes(&rng);
        gpu_close();
    }
}
END_TEST

TCase *case_pages(void)
{
    TCase *tc = tcase_create("pages");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, pages_come_where_they_belong);
    tcase_add_test(tc, pages_of_all_lanes_become_a_view);
    tcase_add_test(tc, locations_become_positions);
    tcase_add_test(tc, lanes_give_their_lowest_free_slots_or_nothing);
    return tc;
}
