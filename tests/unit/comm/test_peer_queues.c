/* Peers whose devices work beside the host: nothing here is waited for before
 * the end, so what the events do not order is seen. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/peer.h"
#include "support/comm_suite.h"
#include "support/far_device.h"
#include "support/log_capture.h"
#include "test_comm.h"

enum { RANKS = 4, ROUNDS = 12, STRIDE = 256, BYTES = RANKS * STRIDE };

static log_capture_t said;

static void set_up(void)
{
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

typedef struct rank {
    pl_device_t *device;
    uint8_t *store;                /* one page */
    uint8_t *views[ROUNDS];        /* RANKS pages */
    uint8_t pages[ROUNDS][STRIDE]; /* what the page is, round by round */
    int32_t rows[ROUNDS][RANKS];
} rank_t;

static rank_t *ranks; /* [RANKS] */

static uint8_t byte_of(int owner, int round)
{
    return (uint8_t)(owner * 37 + round * 5 + 1);
}

static uint8_t *take(rank_t *rank, pl_memory_t kind, size_t n_bytes)
{
    void *mem = NULL;

    ck_assert_int_eq(
        pl_device_alloc(rank->device, kind, n_bytes, "pages", &mem), PL_OK);
    return mem;
}

/* Write the page anew, late, and gather those of all. */
static pl_status_t one_round(rank_t *rank, pl_comm_t *comm, int round)
{
    static const pl_page_t pages[RANKS] = {0, 1, 2, 3};
    pl_copy_t copy     = {rank->store, rank->pages[round], STRIDE};
    pl_gather_t gather = {.pages   = pages,
                          .n_pages = RANKS,
                          .n_parts = 1,
                          .rows    = rank->rows[round]};
    uint64_t word      = 0;

    gather.parts[0].region = 1;
    gather.parts[0].stride = STRIDE;
    gather.parts[0].view   = rank->views[round];
    memset(rank->pages[round], byte_of(comm->rank, round), STRIDE);
    PL_TRY(pl_device_copy(rank->device, PL_STREAM_COMPUTE, &copy, 1, true));
    PL_TRY(pl_device_order(rank->device, PL_STREAM_GATHER, PL_STREAM_COMPUTE));
    PL_TRY(pl_comm_gather(comm, &gather));
    return pl_comm_agree(comm, &word, 1);
}

static pl_status_t run_rounds(rank_t *rank, pl_comm_t *comm)
{
    pl_fence_t fence;

    PL_TRY(pl_comm_expose(comm, 1, PL_MEMORY_SHARED, rank->store, STRIDE));
    for (int round = 0; round < ROUNDS; round++) {
        PL_TRY(one_round(rank, comm, round));
    }
    PL_TRY(pl_device_record(rank->device, PL_STREAM_GATHER, &fence));
    PL_TRY(pl_device_wait(rank->device, PL_STREAM_GATHER, fence));
    return pl_comm_barrier(comm);
}

static pl_status_t take_part(void *context, pl_comm_t *base)
{
    rank_t *rank    = &ranks[base->rank];
    pl_comm_t *comm = NULL;
    pl_status_t status;

    (void)context;
    PL_TRY(pl_comm_open_peer(base, rank->device, &comm));
    status = run_rounds(rank, comm);
    if (status != PL_OK) {
        pl_comm_fail(comm, status);
    }
    pl_comm_close(comm);
    return status == PL_OK ? pl_comm_barrier(base) : status; /* still open */
}

static void open_rank(rank_t *rank, const char *device)
{
    ck_assert_int_eq(far_device_open_named(device, &said.log, &rank->device),
                     PL_OK);
    rank->store = take(rank, PL_MEMORY_SHARED, STRIDE);
    for (int round = 0; round < ROUNDS; round++) {
        rank->views[round] = take(rank, PL_MEMORY_DEVICE, BYTES);
    }
}

static void check_views(rank_t *rank)
{
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *view = far_device_reach(rank->device, PL_STREAM_GATHER,
                                               rank->views[round]);

        for (int i = 0; i < BYTES; i++) {
            ck_assert_int_eq(view[i], byte_of(i / STRIDE, round));
        }
    }
}

static void close_rank(rank_t *rank)
{
    pl_device_free(rank->device, rank->store);
    for (int round = 0; round < ROUNDS; round++) {
        pl_device_free(rank->device, rank->views[round]);
    }
    pl_device_close(rank->device);
}

START_TEST(pages_are_read_between_two_writes_of_their_owner)
{
    static const char *const devices[] = {"cpu", "guard", "far"};

    ranks = calloc(RANKS, sizeof(*ranks));
    for (int i = 0; i < RANKS; i++) {
        open_rank(&ranks[i], devices[_i]);
    }
    ck_assert_int_eq(
        pl_comm_run_local(RANKS, RANKS, 60.0, &said.log, take_part, NULL),
        PL_OK);
    for (int i = 0; i < RANKS; i++) {
        check_views(&ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        close_rank(&ranks[i]);
    }
    free(ranks);
    ck_assert_str_eq(said.text, "");
}
END_TEST

TCase *peer_queues_case(void)
{
    TCase *tcase = tcase_create("peer queues");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, pages_are_read_between_two_writes_of_their_owner,
                        0, 3);
    return tcase;
}
