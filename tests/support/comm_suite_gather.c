/* gather: every prefill rank gets all pages, in the place that rows names. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/comm_suite_cases.h"

enum { MOST_SLOTS = 40, MOST_PAGES = 300, MARGIN = 64 };

/* What the page holds in this part after `round` rewrites. */
static uint8_t page_byte(uint64_t seed, pl_page_t page, int part, int round,
                         size_t i)
{
    return (uint8_t)pl_mix64(seed + (uint64_t)page * 7919 +
                             (uint64_t)(part * 31 + round) * 104729 +
                             (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15));
}

/* All that is drawn is drawn from the shared seed, alike on all ranks. */
typedef struct gather_test {
    pl_comm_t *comm;
    comm_notes_t *notes;
    pl_rng_t rng;
    int round;
    int n_parts;
    size_t strides[PL_GATHER_PARTS];
    size_t offsets[PL_GATHER_PARTS];
    int regions[PL_GATHER_PARTS];
    pl_memory_t kinds[PL_GATHER_PARTS]; /* their regions' */
    int32_t n_slots;
    size_t store_bytes;
    uint8_t *store; /* of this rank: both parts, in one region or two */
    uint8_t *views[PL_GATHER_PARTS];
    pl_page_t pages[MOST_PAGES];
    int32_t n_pages;
    int32_t rows[MOST_PAGES];
} gather_test_t;

static uint8_t *take_memory(const gather_test_t *test, size_t n_bytes)
{
    void *mem = NULL;

    if (test->notes->device == NULL) {
        return malloc(n_bytes);
    }
    COMM_CHECK(test->notes, test->comm,
               pl_device_alloc(test->notes->device, PL_MEMORY_SHARED, n_bytes,
                               "pages", &mem) == PL_OK);
    return mem;
}

static void give_memory(const gather_test_t *test, void *mem)
{
    if (test->notes->device == NULL) {
        free(mem);
    } else {
        pl_device_free(test->notes->device, mem);
    }
}

static void write_store(gather_test_t *test)
{
    memset(test->store, 0xEE, test->store_bytes);
    for (int p = 0; p < test->n_parts; p++) {
        for (int32_t slot = 0; slot < test->n_slots; slot++) {
            pl_page_t page =
                pl_page_at(test->comm->rank, slot, test->comm->n_prefill);
            uint8_t *at = test->store + test->offsets[p] +
                          (size_t)slot * test->strides[p];

            for (size_t i = 0; i < test->strides[p]; i++) {
                at[i] = page_byte(test->notes->seed, page, p, test->round, i);
            }
        }
    }
}

/* Regions are of either kind where there is a device; now and then of the
 * other one. */
static void expose(gather_test_t *test)
{
    for (int p = 0; p < test->n_parts; p++) {
        bool one = test->regions[p] == test->regions[0];

        test->kinds[p] = PL_MEMORY_HOST;
        if ((test->notes->device != NULL) &&
            (pl_rng_below(&test->rng, 3) > 0)) {
            test->kinds[p] = PL_MEMORY_SHARED;
        }
        test->kinds[p] = one ? test->kinds[0] : test->kinds[p];
        COMM_CHECK(test->notes, test->comm,
                   pl_comm_expose(test->comm, test->regions[p], test->kinds[p],
                                  test->store, test->store_bytes) == PL_OK);
    }
}

/* Both parts in one region, or each in its own (the same memory, so that one
 * store serves both).  The host promises no alignment, devices ask for it. */
static void open_gather(gather_test_t *test)
{
    static const size_t strides[] = {1, 13, 64, 1000, 4096};
    size_t unit                   = test->notes->device == NULL ? 1 : 16;
    size_t at                     = 3 * unit;

    test->n_parts = 1 + (int)pl_rng_below(&test->rng, PL_GATHER_PARTS);
    test->n_slots = 1 + (int32_t)pl_rng_below(&test->rng, MOST_SLOTS);
    for (int p = 0; p < test->n_parts; p++) {
        size_t stride = strides[pl_rng_below(&test->rng, 5)];

        test->strides[p] = (stride + unit - 1) / unit * unit;
        test->offsets[p] = at;
        test->regions[p] = pl_rng_below(&test->rng, 2) == 0 ? 2 : 2 + p;
        at += test->strides[p] * (size_t)test->n_slots;
        test->views[p] =
            take_memory(test, MOST_PAGES * test->strides[p] + MARGIN);
    }
    test->store_bytes = at;
    test->store       = take_memory(test, at);
}

/* Any pages; of one owner alone; all of a slot range; or none. */
static void draw_pages(gather_test_t *test)
{
    int n_lanes = test->comm->n_prefill;
    int kind    = (int)pl_rng_below(&test->rng, 5);
    int only    = (int)pl_rng_below(&test->rng, (uint64_t)n_lanes);

    test->n_pages =
        kind == 0 ? 0 : (int32_t)pl_rng_below(&test->rng, MOST_PAGES + 1);
    for (int32_t i = 0; i < test->n_pages; i++) {
        int owner =
            kind == 1 ? only : (int)pl_rng_below(&test->rng, (uint64_t)n_lanes);
        int32_t slot =
            (int32_t)pl_rng_below(&test->rng, (uint64_t)test->n_slots);

        if (kind == 2) { /* dense: neighbours in view and store */
            owner = i % n_lanes;
            slot  = i / n_lanes % test->n_slots;
        }
        test->pages[i] = pl_page_at(owner, slot, n_lanes);
    }
}

/* 9.18 nothing is padded: beyond the pages asked for no byte is touched */
static bool part_is_right(const gather_test_t *test, int p)
{
    size_t stride       = test->strides[p];
    const uint8_t *view = test->views[p];
    size_t n_bytes      = (size_t)test->n_pages * stride;

    for (int32_t i = 0; i < test->n_pages; i++) {
        const uint8_t *row = view + (size_t)test->rows[i] * stride;

        for (size_t b = 0; b < stride; b++) {
            if (row[b] != page_byte(test->notes->seed, test->pages[i], p,
                                    test->round, b)) {
                return false;
            }
        }
    }
    for (size_t b = n_bytes; b < MOST_PAGES * stride + MARGIN; b++) {
        if (view[b] != 0xCC) {
            return false;
        }
    }
    return true;
}

static bool rows_are_a_permutation(const gather_test_t *test)
{
    bool seen[MOST_PAGES] = {false};

    for (int32_t i = 0; i < test->n_pages; i++) {
        int32_t row = test->rows[i];

        if ((row < 0) || (row >= test->n_pages) || seen[row]) {
            return false;
        }
        seen[row] = true;
    }
    return true;
}

/* Where the device reads beside the host: until it has. */
static pl_status_t finish(const gather_test_t *test)
{
    pl_device_t *device = test->notes->device;
    pl_fence_t fence;

    if (!test->comm->queues || (device == NULL)) {
        return PL_OK;
    }
    PL_TRY(pl_device_record(device, PL_STREAM_GATHER, &fence));
    return pl_device_wait(device, PL_STREAM_GATHER, fence);
}

static void gather_once(gather_test_t *test)
{
    pl_gather_t gather = {.pages   = test->pages,
                          .n_pages = test->n_pages,
                          .n_parts = test->n_parts,
                          .rows    = test->rows};

    for (int p = 0; p < test->n_parts; p++) {
        pl_gather_part_t part = {test->regions[p], test->offsets[p],
                                 test->strides[p], test->views[p]};

        gather.parts[p] = part;
        memset(test->views[p], 0xCC, MOST_PAGES * test->strides[p] + MARGIN);
    }
    COMM_CHECK(test->notes, test->comm,
               pl_comm_gather(test->comm, &gather) == PL_OK);
    COMM_CHECK(test->notes, test->comm, finish(test) == PL_OK);
    COMM_CHECK(test->notes, test->comm, rows_are_a_permutation(test));
    for (int p = 0; p < test->n_parts; p++) {
        COMM_CHECK(test->notes, test->comm, part_is_right(test, p));
    }
}

static void one_round(gather_test_t *test, uint64_t *rows_hash)
{
    if (test->round % 3 == 0) {
        expose(test);
    }
    write_store(test);
    draw_pages(test);
    gather_once(test);
    *rows_hash = pl_hash64(
        test->rows, (size_t)test->n_pages * sizeof(*test->rows), *rows_hash);
}

/* The time in which peers may read ends with agree; where gathers do not queue,
 * with any prefill-collective call. */
static void end_reading(gather_test_t *test)
{
    pl_comm_t *comm = test->comm;
    uint64_t word   = 0;

    if (comm->queues || (test->round % 2 == 0)) {
        COMM_CHECK(test->notes, comm, pl_comm_agree(comm, &word, 1) == PL_OK);
    } else if (comm->rank < comm->n_prefill) {
        COMM_CHECK(test->notes, comm,
                   pl_comm_expose(comm, 0, PL_MEMORY_HOST, NULL, 0) == PL_OK);
    }
}

/* Stores are rewritten between the rounds, after one collective call: so a
 * gather that reads late, or that sends what was there before, is seen. */
void comm_case_gather(pl_comm_t *comm, comm_notes_t *notes)
{
    static const int n_rounds = 8;
    gather_test_t *test       = calloc(1, sizeof(*test));
    bool prefills             = comm->rank < comm->n_prefill;
    uint64_t rows_hash        = 0;

    test->comm  = comm;
    test->notes = notes;
    test->rng   = pl_rng_seed(notes->seed);
    if (prefills) { /* the others have nothing to do */
        open_gather(test);
    }
    for (test->round = 0; test->round < n_rounds; test->round++) {
        if (prefills) {
            one_round(test, &rows_hash);
        }
        end_reading(test);
    }
    COMM_CHECK(notes, comm, same_on_first(comm, comm->n_prefill, rows_hash));
    give_memory(test, test->store);
    give_memory(test, test->views[0]);
    give_memory(test, test->views[1]);
    free(test);
}

void comm_case_gather_refuses(pl_comm_t *comm, comm_notes_t *notes)
{
    uint8_t store[8]   = {0};
    uint8_t view[8]    = {0};
    pl_page_t page     = PL_NO_PAGE;
    int32_t row        = 0;
    pl_gather_t gather = {
        .pages = &page, .n_pages = 1, .n_parts = 1, .rows = &row};

    gather.parts[0].region = 1;
    gather.parts[0].stride = 8;
    gather.parts[0].view   = view;
    if (comm->rank >= comm->n_prefill) {
        COMM_CHECK(notes, comm,
                   pl_comm_gather(comm, &gather) == PL_ERR_ARGUMENT);
        COMM_CHECK(notes, comm,
                   pl_comm_expose(comm, 1, PL_MEMORY_HOST, store, 8) ==
                       PL_ERR_ARGUMENT);
    } else {
        COMM_CHECK(notes, comm,
                   pl_comm_expose(comm, 1, PL_MEMORY_HOST, store, 8) == PL_OK);
        COMM_CHECK(notes, comm,
                   pl_comm_gather(comm, &gather) == PL_ERR_ARGUMENT);
        page = pl_page_at(comm->rank, 1, comm->n_prefill); /* one too far */
        COMM_CHECK(notes, comm,
                   pl_comm_gather(comm, &gather) == PL_ERR_ARGUMENT);
        gather.parts[0].region = PL_COMM_REGIONS;
        COMM_CHECK(notes, comm,
                   pl_comm_gather(comm, &gather) == PL_ERR_ARGUMENT);
        COMM_CHECK(notes, comm,
                   pl_comm_expose(comm, PL_COMM_REGIONS, PL_MEMORY_HOST, store,
                                  8) == PL_ERR_ARGUMENT);
    }
    /* refused calls have not happened: the ranks still agree */
    COMM_CHECK(notes, comm, pl_comm_agree_status(comm, PL_OK) == PL_OK);
}
