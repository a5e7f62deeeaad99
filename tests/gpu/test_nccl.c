/* Pages by NCCL, one GPU for each virtual rank: right bytes, and an end of
 * every wait for a rank that does not come. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl_comm.h"
#include "device.cuh"
#include "gpu.h"
#include "nccl.cuh"
#include "support/comm_suite.h"
#include "support/log_capture.h"
#include "support/seed.h"

enum { MOST_RANKS = 8, SLOTS = 700, PAGES = 2000, HEADER = 64, ROUNDS = 40 };

static log_capture_t said;

static int n_gpus(void)
{
    int n = 0;

    return cudaGetDeviceCount(&n) != cudaSuccess ? 0
           : n < MOST_RANKS                      ? n
                                                 : MOST_RANKS;
}

/* ---- ranks ---- */

typedef struct work work_t;

struct work {
    pl_status_t (*body)(work_t *work, pl_comm_t *comm, pl_device_t *device);
    bool on_one_gpu;
    uint64_t seed;
    size_t page_bytes;
    comm_notes_t notes[MOST_RANKS];
    pl_status_t got[MOST_RANKS];
    double waited_s[MOST_RANKS];
};

static pl_status_t open_and_run(void *context, pl_comm_t *base)
{
    work_t *work        = context;
    pl_device_t *device = NULL;
    pl_comm_t *comm     = NULL;
    pl_status_t status;

    PL_TRY(pl_cuda_device_open(work->on_one_gpu ? 0 : base->rank, base->log,
                               &device));
    status = pl_comm_open_nccl_with(base, device, &PL_CUDA_NCCL, &comm);
    if (status == PL_OK) {
        status = work->body(work, comm, device);
        if (status != PL_OK) {
            pl_comm_fail(comm, status);
        }
        pl_comm_close(comm);
    }
    pl_device_close(device);
    return status;
}

static pl_status_t run(work_t *work, int n_ranks, double timeout_s)
{
    return pl_comm_run_local(n_ranks, n_ranks, timeout_s, &said.log,
                             open_and_run, work);
}

static void all_is_well(const work_t *work, int n_ranks)
{
    for (int rank = 0; rank < n_ranks; rank++) {
        ck_assert_msg(work->notes[rank].n_failed == 0, "%d failed, first %s",
                      work->notes[rank].n_failed, work->notes[rank].first);
    }
}

/* ---- right bytes ---- */

typedef struct memory {
    pl_comm_t *comm;
    pl_device_t *device;
    size_t page_bytes;
    uint8_t *store, *view;      /* device */
    uint8_t *headers, *staging; /* host; staging [PAGES] pages */
    uint8_t header_view[PAGES * HEADER];
    pl_page_t pages[PAGES];
    int32_t rows[PAGES];
} memory_t;

static uint8_t byte_of(uint64_t key, pl_page_t page, size_t i)
{
    return (uint8_t)pl_mix64(key + (uint64_t)page * 7919 + i / 8 * 104729 +
                             i % 8);
}

static void fill(uint64_t key, const pl_comm_t *comm, uint8_t *at,
                 size_t stride)
{
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        pl_page_t page = pl_page_at(comm->rank, slot, comm->n_prefill);

        for (size_t i = 0; i < stride; i++) {
            at[(size_t)slot * stride + i] = byte_of(key, page, i);
        }
    }
}

static bool is_right(uint64_t key, const pl_gather_t *gather,
                     const uint8_t *view, size_t stride)
{
    for (int32_t i = 0; i < gather->n_pages; i++) {
        const uint8_t *at = view + (size_t)gather->rows[i] * stride;

        for (size_t b = 0; b < stride; b++) {
            if (at[b] != byte_of(key, gather->pages[i], b)) {
                return false;
            }
        }
    }
    return true;
}

static pl_status_t copy(memory_t *m, void *to, const void *from, size_t bytes)
{
    const pl_copy_t one = {to, from, bytes};
    pl_fence_t fence;

    PL_TRY(pl_device_copy(m->device, PL_STREAM_GATHER, &one, 1, false));
    PL_TRY(pl_device_record(m->device, PL_STREAM_GATHER, &fence));
    return pl_device_wait(m->device, PL_STREAM_GATHER, fence);
}

static pl_status_t take(memory_t *m, pl_memory_t kind, size_t bytes,
                        uint8_t **to)
{
    void *mem = NULL;

    PL_TRY(pl_device_alloc(m->device, kind, bytes, "a test", &mem));
    *to = mem;
    return PL_OK;
}

static pl_status_t open_memory(memory_t *m)
{
    size_t bytes = m->page_bytes;

    PL_TRY(take(m, PL_MEMORY_SHARED, SLOTS * bytes, &m->store));
    PL_TRY(take(m, PL_MEMORY_DEVICE, PAGES * bytes, &m->view));
    PL_TRY(take(m, PL_MEMORY_HOST, PAGES * bytes, &m->staging));
    PL_TRY(take(m, PL_MEMORY_HOST, SLOTS * HEADER, &m->headers));
    PL_TRY(
        pl_comm_expose(m->comm, 3, PL_MEMORY_SHARED, m->store, SLOTS * bytes));
    return pl_comm_expose(m->comm, 5, PL_MEMORY_HOST, m->headers,
                          SLOTS * HEADER);
}

static void close_memory(memory_t *m)
{
    pl_device_free(m->device, m->store);
    pl_device_free(m->device, m->view);
    pl_device_free(m->device, m->staging);
    pl_device_free(m->device, m->headers);
    free(m);
}

/* Now and then a list of before comes again; now and then one rank has none. */
static pl_gather_t draw(memory_t *m, uint64_t seed, int round)
{
    int n_lanes  = m->comm->n_prefill;
    pl_rng_t rng = pl_rng_seed(seed + (uint64_t)(round % 17));
    int32_t n    = between(&rng, 0, PAGES);

    for (int32_t i = 0; i < n; i++) {
        int owner = between(&rng, 0, n_lanes - 1);

        owner       = (round % 5 == 4) && (owner == 0) ? n_lanes - 1 : owner;
        m->pages[i] = pl_page_at(owner, between(&rng, 0, SLOTS - 1), n_lanes);
    }
    return (pl_gather_t){
        .pages   = m->pages,
        .n_pages = n,
        .n_parts = 2,
        .rows    = m->rows,
        .parts   = {{.region = 3, .stride = m->page_bytes, .view = m->view},
                    {.region = 5, .stride = HEADER, .view = m->header_view}}};
}

static pl_status_t one_round(memory_t *m, uint64_t seed, int round, bool *good)
{
    uint64_t key         = seed + (uint64_t)round;
    pl_gather_t gather   = draw(m, seed, round);
    size_t n             = (size_t)gather.n_pages * m->page_bytes;
    const pl_span_t view = {m->view, n};

    fill(key, m->comm, m->staging, m->page_bytes);
    fill(~key, m->comm, m->headers, HEADER);
    PL_TRY(copy(m, m->store, m->staging, SLOTS * m->page_bytes));
    PL_TRY(
        pl_device_fill(m->device, PL_STREAM_GATHER, &view, 1, PL_POISON_BYTE));
    PL_TRY(pl_comm_gather(m->comm, &gather));
    PL_TRY(copy(m, m->staging, m->view, n));
    *good = is_right(key, &gather, m->staging, m->page_bytes) &&
            is_right(~key, &gather, m->header_view, HEADER);
    return pl_comm_agree(m->comm, NULL, 0);
}

static pl_status_t gather_rounds(work_t *work, pl_comm_t *comm,
                                 pl_device_t *device)
{
    memory_t *m = calloc(1, sizeof(*m));
    pl_status_t status;

    m->comm       = comm;
    m->device     = device;
    m->page_bytes = work->page_bytes;
    status        = open_memory(m);
    for (int round = 0; (round < ROUNDS) && (status == PL_OK); round++) {
        bool good = false;

        status = one_round(m, work->seed, round, &good);
        COMM_CHECK(&work->notes[comm->rank], comm, good);
    }
    close_memory(m);
    return status;
}

START_TEST(pages_come_right)
{
    static const size_t sizes[] = {16, 656, 3280};
    uint64_t seed               = pl_test_seed("pages_come_right");

    for (int n_ranks = 1; n_ranks <= n_gpus(); n_ranks++) {
        work_t work = {
            .body = gather_rounds, .seed = seed, .page_bytes = sizes[_i]};

        ck_assert_int_eq(run(&work, n_ranks, 60.0), PL_OK);
        all_is_well(&work, n_ranks);
    }
    ck_assert_str_eq(said.text, "");
}
END_TEST

START_TEST(pages_that_are_not_of_16s_are_refused)
{
    work_t work = {.body = gather_rounds, .page_bytes = 24};

    ck_assert_int_eq(run(&work, 1, 60.0), PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(said.text, "pages of 24 bytes"));
}
END_TEST

/* ---- ranks that do not come ---- */

START_TEST(two_ranks_on_one_gpu_are_refused)
{
    work_t work = {.body = gather_rounds, .on_one_gpu = true};

    ck_assert_int_eq(run(&work, 2, 20.0), PL_ERR_DEVICE);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "ranks 0 and 1 have the same GPU"));
    ck_assert_ptr_nonnull(strstr(said.text, "--comm peer"));
}
END_TEST

START_TEST(opening_alone_ends)
{
    uint8_t id[PL_NCCL_ID_BYTES];
    pl_device_t *device = NULL;
    pl_nccl_t *nccl     = NULL;
    double begin        = comm_now_s();

    ck_assert_int_eq(pl_cuda_device_open(0, &said.log, &device), PL_OK);
    ck_assert_int_eq(PL_CUDA_NCCL.make_id(&said.log, id), PL_OK);
    ck_assert_int_eq(PL_CUDA_NCCL.open(device, id, 0, 2, 1.5, &nccl),
                     PL_ERR_COMM);
    ck_assert(comm_now_s() - begin >= 1.5);
    ck_assert_ptr_null(nccl);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(
        strstr(said.text, "waited 1.5 s for the other 1 ranks"));
    pl_device_close(device);
}
END_TEST

/* Rank 0 gathers alone: as the first time, when NCCL still has to connect, or
 * after a gather of both, when the device waits. */
static pl_status_t gather_alone(work_t *work, pl_comm_t *comm,
                                pl_device_t *device)
{
    memory_t *m  = calloc(1, sizeof(*m));
    bool good    = false;
    double begin = 0;
    pl_status_t status;

    m->comm       = comm;
    m->device     = device;
    m->page_bytes = work->page_bytes;
    status        = open_memory(m);
    if ((status == PL_OK) && (work->seed == 1)) {
        status = one_round(m, 1, 1, &good);
    }
    if (status == PL_OK) {
        status = pl_comm_barrier(comm);
    }
    if ((status == PL_OK) && (comm->rank == 0)) {
        pl_gather_t gather = draw(m, 1, 2);

        gather.n_parts = 1; /* no headers: the base would see it at once */
        begin          = comm_now_s();
        status         = pl_comm_gather(comm, &gather);
        status = status == PL_OK ? copy(m, m->staging, m->view, 16) : status;
        work->waited_s[0] = comm_now_s() - begin;
    }
    work->got[comm->rank] = status;
    if ((status == PL_OK) && (comm->rank != 0)) {
        comm_pause_s(4); /* alive, and elsewhere */
    }
    if (status != PL_OK) {
        pl_comm_fail(comm, status);
    }
    close_memory(m);
    return status;
}

START_TEST(a_gather_alone_ends)
{
    work_t work = {
        .body = gather_alone, .seed = (uint64_t)_i, .page_bytes = 3280};

    if (n_gpus() < 2) {
        return;
    }
    ck_assert_int_eq(run(&work, 2, 2.0), PL_ERR_COMM);
    ck_assert_int_eq(work.got[0], PL_ERR_COMM);
    ck_assert(work.waited_s[0] >= 2.0);
    ck_assert_ptr_nonnull(strstr(said.text, "rank 0: "));
    ck_assert_ptr_nonnull(strstr(said.text, "waited 2"));
}
END_TEST

/* ---- */

static void set_up(void)
{
    log_capture_open(&said);
    said.log.level = PL_LOG_WARN;
}

static void tear_down(void)
{
    log_capture_close(&said);
}

static TCase *case_nccl(void)
{
    TCase *tcase = tcase_create("nccl");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, pages_come_right, 0, 3);
    tcase_add_test(tcase, pages_that_are_not_of_16s_are_refused);
    tcase_add_test(tcase, two_ranks_on_one_gpu_are_refused);
    tcase_add_test(tcase, opening_alone_ends);
    tcase_add_loop_test(tcase, a_gather_alone_ends, 0, 2);
    return tcase;
}

static bool has_nccl(void)
{
    uint8_t id[PL_NCCL_ID_BYTES];
    const pl_log_t log = pl_log_stderr(PL_LOG_WARN);

    return PL_CUDA_NCCL.make_id(&log, id) == PL_OK;
}

int main(void)
{
    const char *required = getenv("PAGELANE_REQUIRE_GPU");
    Suite *suite         = suite_create("nccl");
    SRunner *runner      = srunner_create(suite);
    int failed;

    if (!gpu_is_there() || !has_nccl()) {
        srunner_free(runner);
        return (required != NULL) && (required[0] == '1') ? EXIT_FAILURE : 77;
    }
    printf("%d GPUs%s\n", n_gpus(),
           n_gpus() < 2 ? "; a gather alone needs two" : "");
    suite_add_tcase(suite, case_nccl());
    srunner_set_fork_status(runner, CK_NOFORK); /* one context for all */
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
