/* The nccl communicator over virtual ranks, with a table that copies through
 * memory: what goes which way, and what happens when NCCL fails. */
#include <string.h>

#include "base/rng.h"
#include "comm/nccl_comm.h"
#include "fake_nccl.h"
#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/seed.h"
#include "test_comm.h"

enum { SLOTS = 12, PAGES = 60, PAGE_BYTES = 48, HEADER_BYTES = 24 };

static log_capture_t said;
static fake_nccl_t fake;

static void set_up(void)
{
    log_capture_open(&said);
    fake_nccl_open(&fake);
}

static void tear_down(void)
{
    fake_nccl_close();
    log_capture_close(&said);
}

/* ---- ranks with a device and an nccl communicator ---- */

typedef struct stores {
    uint8_t pages[SLOTS * PAGE_BYTES], headers[SLOTS * HEADER_BYTES];
    uint8_t page_view[PAGES * PAGE_BYTES], header_view[PAGES * HEADER_BYTES];
    pl_page_t list[PAGES];
    int32_t rows[PAGES];
} stores_t;

typedef struct work work_t;

struct work {
    pl_status_t (*body)(work_t *work, pl_comm_t *comm);
    uint64_t seed;
    double look_s; /* what the watch is told */
    pl_status_t opened[FAKE_RANKS];
    pl_status_t got[FAKE_RANKS];
    comm_notes_t notes[FAKE_RANKS];
    pl_device_t *devices[FAKE_RANKS];
    pl_comm_t *bases[FAKE_RANKS];
    stores_t stores[FAKE_RANKS]; /* peers may read until all have ended */
};

static pl_status_t open_and_run(void *context, pl_comm_t *base)
{
    work_t *work    = context;
    int rank        = base->rank;
    pl_comm_t *comm = NULL;
    pl_status_t status;

    PL_TRY(pl_device_open("cpu", base->log, &work->devices[rank]));
    fake.devices[rank] = work->devices[rank];
    work->bases[rank]  = base;
    status =
        pl_comm_open_nccl_with(base, work->devices[rank], &FAKE_NCCL, &comm);
    work->opened[rank] = status;
    if (status == PL_OK) {
        status = work->body(work, comm);
        if (status != PL_OK) {
            pl_comm_fail(comm, status);
        }
        pl_comm_close(comm);
    } else if (pl_comm_barrier(base) != PL_OK) { /* the caller's still */
        status = PL_ERR_ARGUMENT;
    }
    pl_device_close(work->devices[rank]);
    return status;
}

static pl_status_t run(work_t *work, int n_ranks, int n_prefill)
{
    return pl_comm_run_local(n_ranks, n_prefill, 20.0, &said.log, open_and_run,
                             work);
}

/* ---- what every communicator does ---- */

static pl_status_t run_the_suite(work_t *work, pl_comm_t *comm)
{
    for (int i = 0; i < n_comm_cases; i++) {
        comm_cases[i].run(comm, &work->notes[comm->rank]);
    }
    return PL_OK;
}

START_TEST(it_does_what_every_communicator_does)
{
    uint64_t seed = pl_test_seed("it_does_what_every_communicator_does");

    for (int n_prefill = 1; n_prefill <= _i; n_prefill++) {
        work_t work = {.body = run_the_suite};

        for (int rank = 0; rank < _i; rank++) {
            work.notes[rank].seed = seed + (uint64_t)n_prefill;
        }
        ck_assert_int_eq(run(&work, _i, n_prefill), PL_OK);
        for (int rank = 0; rank < _i; rank++) {
            ck_assert_msg(work.notes[rank].n_failed == 0, "%d failed, first %s",
                          work.notes[rank].n_failed, work.notes[rank].first);
        }
    }
    ck_assert_int_eq(fake.n_gathers, 0); /* its regions are the host's */
    ck_assert_int_gt(fake.n_opened, 0);
    ck_assert_int_eq(fake.n_closed, fake.n_opened);
}
END_TEST

/* ---- pages by NCCL, their headers by the base ---- */

static uint8_t byte_of(uint64_t seed, pl_page_t page, size_t i)
{
    return (uint8_t)pl_mix64(seed + (uint64_t)page * 7919 + i * 104729);
}

static void write_pages(uint64_t seed, const pl_comm_t *comm, uint8_t *store,
                        size_t stride)
{
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        pl_page_t page = pl_page_at(comm->rank, slot, comm->n_prefill);

        for (size_t i = 0; i < stride; i++) {
            store[(size_t)slot * stride + i] = byte_of(seed, page, i);
        }
    }
}

static bool pages_are_right(uint64_t seed, const pl_gather_t *gather, int p)
{
    size_t stride = gather->parts[p].stride;

    for (int32_t i = 0; i < gather->n_pages; i++) {
        const uint8_t *at =
            gather->parts[p].view + (size_t)gather->rows[i] * stride;

        for (size_t b = 0; b < stride; b++) {
            if (at[b] != byte_of(seed, gather->pages[i], b)) {
                return false;
            }
        }
    }
    return true;
}

static bool rows_are_owner_major(const pl_comm_t *comm,
                                 const pl_gather_t *gather)
{
    int32_t row = 0;

    for (int owner = 0; owner < comm->n_prefill; owner++) {
        for (int32_t i = 0; i < gather->n_pages; i++) {
            if (pl_page_owner(gather->pages[i], comm->n_prefill) == owner) {
                if (gather->rows[i] != row++) {
                    return false;
                }
            }
        }
    }
    return true;
}

static pl_gather_t gather_of(stores_t *stores, int32_t n_pages)
{
    pl_gather_t gather = {
        .pages   = stores->list,
        .n_pages = n_pages,
        .n_parts = 2,
        .rows    = stores->rows,
        .parts   = {
              {.region = 4, .stride = HEADER_BYTES, .view = stores->header_view},
              {.region = PL_COMM_REGIONS - 1,
               .stride = PAGE_BYTES,
               .view   = stores->page_view}}};

    return gather;
}

static pl_status_t expose_stores(pl_comm_t *comm, stores_t *stores)
{
    PL_TRY(pl_comm_expose(comm, PL_COMM_REGIONS - 1, PL_MEMORY_DEVICE,
                          stores->pages, sizeof(stores->pages)));
    return pl_comm_expose(comm, 4, PL_MEMORY_HOST, stores->headers,
                          sizeof(stores->headers));
}

static void gather_rounds(work_t *work, pl_comm_t *comm, stores_t *stores)
{
    comm_notes_t *notes = &work->notes[comm->rank];
    pl_rng_t rng        = pl_rng_seed(work->seed);

    COMM_CHECK(notes, comm, expose_stores(comm, stores) == PL_OK);
    for (uint64_t round = 0; round < 10; round++) {
        int32_t n          = (int32_t)pl_rng_below(&rng, PAGES + 1);
        pl_gather_t gather = gather_of(stores, round == 3 ? 0 : n);

        for (int32_t i = 0; i < n; i++) {
            int owner = (int)pl_rng_below(&rng, (uint64_t)comm->n_prefill);

            stores->list[i] =
                pl_page_at(round == 4 ? 0 : owner,
                           (int32_t)pl_rng_below(&rng, SLOTS), comm->n_prefill);
        }
        write_pages(round, comm, stores->pages, PAGE_BYTES);
        write_pages(round + 99, comm, stores->headers, HEADER_BYTES);
        COMM_CHECK(notes, comm, pl_comm_gather(comm, &gather) == PL_OK);
        COMM_CHECK(notes, comm, rows_are_owner_major(comm, &gather));
        COMM_CHECK(notes, comm, pages_are_right(round + 99, &gather, 0));
        COMM_CHECK(notes, comm, pages_are_right(round, &gather, 1));
        COMM_CHECK(notes, comm, expose_stores(comm, stores) == PL_OK);
    }
}

static pl_status_t gather_both(work_t *work, pl_comm_t *comm)
{
    if (comm->rank < comm->n_prefill) {
        gather_rounds(work, comm, &work->stores[comm->rank]);
    }
    return pl_comm_agree_status(comm, PL_OK);
}

START_TEST(pages_and_headers_come_to_the_same_rows)
{
    uint64_t seed = pl_test_seed("pages_and_headers_come_to_the_same_rows");

    for (int n_prefill = 1; n_prefill <= _i; n_prefill++) {
        work_t work = {.body = gather_both, .seed = seed};

        ck_assert_int_eq(run(&work, _i, n_prefill), PL_OK);
        for (int rank = 0; rank < _i; rank++) {
            ck_assert_msg(work.notes[rank].n_failed == 0, "%d failed, first %s",
                          work.notes[rank].n_failed, work.notes[rank].first);
        }
    }
    ck_assert_int_gt(fake.n_gathers, 0);
    ck_assert_int_eq(fake.n_aborted, 0);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* 9.33 NCCL sees no difference, as many pages but others, and the base no
 * gather: it is found at its next call. */
static pl_status_t gather_other_pages(work_t *work, pl_comm_t *comm)
{
    stores_t *stores   = &work->stores[comm->rank];
    pl_gather_t gather = gather_of(stores, 1);

    PL_TRY(expose_stores(comm, stores));
    stores->list[0] = pl_page_at(0, comm->rank == 1 ? 2 : 1, comm->n_prefill);
    gather.n_parts  = 1;
    gather.parts[0] = gather.parts[1];
    PL_TRY(pl_comm_gather(comm, &gather));
    return pl_comm_expose(work->bases[comm->rank], 1, PL_MEMORY_HOST, NULL, 0);
}

START_TEST(gathers_that_differ_are_found)
{
    work_t work = {.body = gather_other_pages};

    ck_assert_int_eq(run(&work, 3, 3), PL_ERR_DISAGREE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ranks disagree"));
}
END_TEST

/* ---- the order of streams ---- */

static pl_device_ops_t counting_ops; /* cpu's, with a count of `after` */
static const pl_device_ops_t *cpu_ops;
static int n_after[PL_STREAMS]; /* rank 0's */

static pl_status_t count_after(pl_device_t *self, pl_stream_t stream,
                               pl_stream_t other, pl_fence_t fence)
{
    if (other == PL_STREAM_GATHER) {
        n_after[stream]++;
    }
    return cpu_ops->after(self, stream, other, fence);
}

static pl_status_t agree_after_gathers(work_t *work, pl_comm_t *comm)
{
    comm_notes_t *notes = &work->notes[comm->rank];
    pl_device_t *device = work->devices[comm->rank];
    stores_t *stores    = &work->stores[comm->rank];
    pl_gather_t gather  = gather_of(stores, 1);

    cpu_ops            = device->ops;
    counting_ops       = *device->ops;
    counting_ops.after = count_after;
    device->ops        = &counting_ops;
    COMM_CHECK(notes, comm, comm->queues);
    COMM_CHECK(notes, comm, expose_stores(comm, stores) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_agree(comm, NULL, 0) == PL_OK);
    COMM_CHECK(notes, comm, n_after[PL_STREAM_LOAD] == 0);
    COMM_CHECK(notes, comm, pl_comm_gather(comm, &gather) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_gather(comm, &gather) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_agree(comm, NULL, 0) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_agree(comm, NULL, 0) == PL_OK);
    for (int i = 0; i < PL_STREAMS; i++) {
        COMM_CHECK(notes, comm, n_after[i] == (i != PL_STREAM_GATHER));
    }
    device->ops = cpu_ops;
    return PL_OK;
}

START_TEST(after_agree_every_stream_is_behind_the_gathers)
{
    work_t work = {.body = agree_after_gathers};

    memset(n_after, 0, sizeof(n_after));
    ck_assert_int_eq(run(&work, 1, 1), PL_OK);
    ck_assert_msg(work.notes[0].n_failed == 0, "%s", work.notes[0].first);
}
END_TEST

/* ---- the yardstick ---- */

static pl_status_t all_gather(work_t *work, pl_comm_t *comm)
{
    comm_notes_t *notes = &work->notes[comm->rank];
    uint8_t mine[3]     = {(uint8_t)comm->rank, 7, 8};
    uint8_t all[3 * 4]  = {0};
    pl_status_t status  = pl_comm_nccl_all_gather(comm, mine, all, 3);
    bool prefills       = comm->rank < comm->n_prefill;

    COMM_CHECK(notes, comm, status == (prefills ? PL_OK : PL_ERR_COMM));
    for (int rank = 0; (rank < comm->n_prefill) && prefills; rank++) {
        COMM_CHECK(notes, comm, all[3 * rank] == rank);
        COMM_CHECK(notes, comm, all[3 * rank + 2] == 8);
    }
    return pl_comm_barrier(comm);
}

START_TEST(the_yardstick_is_an_all_gather)
{
    work_t work = {.body = all_gather};

    ck_assert_int_eq(run(&work, 4, 3), PL_OK);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_msg(work.notes[rank].n_failed == 0, "%s",
                      work.notes[rank].first);
    }
}
END_TEST

/* ---- opening fails ---- */

static pl_status_t do_nothing(work_t *work, pl_comm_t *comm)
{
    (void)work;
    return pl_comm_barrier(comm);
}

START_TEST(two_ranks_on_one_gpu_are_refused)
{
    work_t work      = {.body = do_nothing};
    fake.same_gpu[0] = 1;
    fake.same_gpu[1] = 3;

    ck_assert_int_eq(run(&work, 5, 4), PL_ERR_DEVICE);
    ck_assert_int_eq(fake.n_opened, 0); /* before NCCL was told anything */
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ranks 1 and 3 have the same GPU"));
    ck_assert_ptr_nonnull(strstr(said.text, "--comm peer"));
    ck_assert_int_eq(work.opened[0], PL_ERR_DEVICE);
    ck_assert_int_eq(work.opened[4], PL_ERR_PEER); /* has no GPU in it */
}
END_TEST

START_TEST(a_decode_rank_may_be_on_a_gpu_of_another)
{
    work_t work      = {.body = do_nothing};
    fake.same_gpu[0] = 1;
    fake.same_gpu[1] = 3;

    ck_assert_int_eq(run(&work, 4, 3), PL_OK);
    ck_assert_int_eq(fake.n_opened, 3);
}
END_TEST

START_TEST(gpus_that_nobody_knows_are_not_the_same)
{
    work_t work       = {.body = do_nothing};
    fake.gpus_unknown = true;

    ck_assert_int_eq(run(&work, 3, 3), PL_OK);
}
END_TEST

START_TEST(without_the_library_all_ranks_know)
{
    work_t work     = {.body = do_nothing};
    fake.no_library = true;

    ck_assert_int_eq(run(&work, 4, 3), PL_ERR_DEVICE);
    ck_assert_int_eq(fake.n_opened, 0);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_int_eq(work.opened[0], PL_ERR_DEVICE);
    ck_assert_int_eq(work.opened[3], PL_ERR_PEER);
}
END_TEST

START_TEST(a_rank_that_cannot_open_ends_the_others)
{
    work_t work  = {.body = do_nothing};
    fake.no_open = 2;

    ck_assert_int_eq(run(&work, 4, 3), PL_ERR_COMM);
    ck_assert_int_eq(fake.n_opened, 2);
    ck_assert_int_eq(fake.n_aborted, 2); /* not closed: nobody would answer */
    ck_assert_int_eq(fake.n_closed, 2);
    ck_assert_int_eq(work.opened[0], PL_ERR_PEER);
    ck_assert_int_eq(work.opened[2], PL_ERR_COMM);
}
END_TEST

/* ---- NCCL fails ---- */

static pl_status_t look(work_t *work, pl_comm_t *comm)
{
    const pl_device_watch_t *watch = &work->devices[comm->rank]->watch;
    comm_notes_t *notes            = &work->notes[comm->rank];
    stores_t *stores               = &work->stores[comm->rank];
    pl_gather_t gather             = gather_of(stores, PAGES);

    for (int32_t i = 0; i < PAGES; i++) {
        stores->list[i] = pl_page_at(i % 2, 0, comm->n_prefill);
    }
    COMM_CHECK(notes, comm, expose_stores(comm, stores) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_gather(comm, &gather) == PL_OK);
    COMM_CHECK(notes, comm, watch->look(watch->context, 0.1) == PL_OK);
    COMM_CHECK(notes, comm, pl_comm_barrier(comm) == PL_OK);
    if (comm->rank == 0) {
        fake.is_ill = work->look_s < 1;
    }
    COMM_CHECK(notes, comm, pl_comm_barrier(comm) == PL_OK);
    work->got[comm->rank] = watch->look(watch->context, work->look_s);
    COMM_CHECK(notes, comm, watch->look(watch->context, 0.1) == PL_ERR_COMM);
    COMM_CHECK(notes, comm, pl_comm_gather(comm, &gather) == PL_ERR_COMM);
    COMM_CHECK(notes, comm, expose_stores(comm, stores) == PL_ERR_COMM);
    return work->got[comm->rank];
}

static void watch_test(double look_s, int n_lines)
{
    work_t work = {.body = look, .look_s = look_s};

    ck_assert_int_eq(run(&work, 3, 3), PL_ERR_COMM);
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(work.got[rank], PL_ERR_COMM);
        ck_assert_msg(work.notes[rank].n_failed == 0, "%s",
                      work.notes[rank].first);
    }
    ck_assert_int_eq(fake.n_aborted, 3); /* once each */
    ck_assert_int_eq(fake.n_closed, 3);
    ck_assert_int_eq(said.n_lines, n_lines);
}

START_TEST(an_asynchronous_error_ends_the_wait)
{
    watch_test(0.2, 0); /* the table has said it */
}
END_TEST

START_TEST(a_wait_without_end_ends)
{
    watch_test(20.5, 3);
    ck_assert_ptr_nonnull(strstr(said.text,
                                 "rank 2: waited 20.5 s for the device, whose "
                                 "last work by NCCL is gather 1, of pages of "
                                 "ranks 0, 1\n"));
}
END_TEST

static pl_status_t gather_alone(work_t *work, pl_comm_t *comm)
{
    stores_t *stores   = &work->stores[comm->rank];
    pl_gather_t gather = gather_of(stores, 1);
    pl_status_t status = expose_stores(comm, stores);

    if ((status == PL_OK) && (comm->rank == fake.no_gather)) {
        status = pl_comm_gather(comm, &gather);
    }
    work->got[comm->rank] = status;
    return status != PL_OK ? status : pl_comm_barrier(comm);
}

START_TEST(a_gather_that_fails_is_aborted_and_wakes_the_others)
{
    work_t work    = {.body = gather_alone};
    fake.no_gather = 1;

    ck_assert_int_eq(run(&work, 3, 3), PL_ERR_COMM);
    ck_assert_int_eq(work.got[1], PL_ERR_COMM);
    ck_assert_int_eq(fake.n_aborted, 3); /* its own, and of those it woke */
    ck_assert_int_eq(fake.n_closed, 3);
}
END_TEST

/* The device's watch is what it was, and the base is the caller's. */
static pl_status_t no_look(void *context, double waited_s)
{
    (void)context;
    (void)waited_s;
    return PL_OK;
}

static pl_status_t open_and_close(void *context, pl_comm_t *base)
{
    comm_notes_t *notes = context;
    pl_comm_t *comm     = NULL;
    pl_device_t *device;

    PL_TRY(pl_device_open("cpu", base->log, &device));
    device->watch.look = no_look;
    COMM_CHECK(notes, base,
               pl_comm_open_nccl_with(base, device, &FAKE_NCCL, &comm) ==
                   PL_OK);
    COMM_CHECK(notes, base, device->watch.look != no_look);
    pl_comm_close(comm);
    COMM_CHECK(notes, base, device->watch.look == no_look);
    pl_device_close(device);
    return pl_comm_barrier(base);
}

START_TEST(closing_leaves_device_and_base_as_they_were)
{
    comm_notes_t notes = {0};

    ck_assert_int_eq(
        pl_comm_run_local(1, 1, 20.0, &said.log, open_and_close, &notes),
        PL_OK);
    ck_assert_msg(notes.n_failed == 0, "%s", notes.first);
}
END_TEST

TCase *nccl_case(void)
{
    TCase *tcase = tcase_create("nccl");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, it_does_what_every_communicator_does, 1, 6);
    tcase_add_loop_test(tcase, pages_and_headers_come_to_the_same_rows, 1,
                        FAKE_RANKS + 1);
    tcase_add_test(tcase, gathers_that_differ_are_found);
    tcase_add_test(tcase, after_agree_every_stream_is_behind_the_gathers);
    tcase_add_test(tcase, the_yardstick_is_an_all_gather);
    tcase_add_test(tcase, two_ranks_on_one_gpu_are_refused);
    tcase_add_test(tcase, a_decode_rank_may_be_on_a_gpu_of_another);
    tcase_add_test(tcase, gpus_that_nobody_knows_are_not_the_same);
    tcase_add_test(tcase, without_the_library_all_ranks_know);
    tcase_add_test(tcase, a_rank_that_cannot_open_ends_the_others);
    tcase_add_test(tcase, an_asynchronous_error_ends_the_wait);
    tcase_add_test(tcase, a_wait_without_end_ends);
    tcase_add_test(tcase, a_gather_that_fails_is_aborted_and_wakes_the_others);
    tcase_add_test(tcase, closing_leaves_device_and_base_as_they_were);
    return tcase;
}
