/* cli/bench_transfer.h: right pages count none wrong, and each wrong byte is
 * counted. */
#include "cli/bench_transfer.h"

#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"
#include "support/log_capture.h"

enum { PAGE = 16 * PL_TRANSFER_ROW_BYTES };

START_TEST(a_page_is_known_by_every_byte)
{
    uint8_t page[64];
    uint8_t other[64];

    pl_transfer_stamp(5, 7, page, sizeof(page));
    ck_assert_uint_eq(pl_transfer_wrong(5, 7, page, sizeof(page)), 0);
    for (size_t i = 0; i < sizeof(page); i++) {
        page[i] ^= 0x10;
        ck_assert_uint_eq(pl_transfer_wrong(5, 7, page, sizeof(page)), 1);
        page[i] ^= 0x10;
    }
    ck_assert_uint_gt(pl_transfer_wrong(5, 8, page, sizeof(page)), 48);
    ck_assert_uint_gt(pl_transfer_wrong(6, 7, page, sizeof(page)), 48);
    memset(other, 0xFF, sizeof(other));
    ck_assert_uint_gt(pl_transfer_wrong(5, 7, other, sizeof(other)), 48);
    memcpy(other, page + 8, 56); /* the same bytes, elsewhere in the page */
    ck_assert_uint_gt(pl_transfer_wrong(5, 7, other, 56), 40);
}
END_TEST

START_TEST(bandwidths_are_those_of_nccl_tests)
{
    const pl_transfer_figure_t figure = {.bytes = 4000000, .us = 100};

    ck_assert_double_eq_tol(pl_transfer_algbw(&figure, figure.us), 40, 1e-9);
    ck_assert_double_eq_tol(pl_transfer_busbw(&figure, figure.us, 4), 30, 1e-9);
    ck_assert_double_eq_tol(pl_transfer_busbw(&figure, figure.us, 1), 0, 1e-9);
}
END_TEST

/* ---- a communicator that goes wrong ---- */

typedef enum fault { NONE, FLIP, SKIP, STALE } fault_t;

typedef struct work {
    fault_t fault;
    pl_transfer_params_t params;
    pl_transfer_result_t results[4];
    pl_log_t *log;
} work_t;

static const pl_comm_ops_t *right;
static fault_t the_fault;

/* Rank 1's view: one byte flipped; nothing brought; the first page instead of
 * the last. */
static pl_status_t gather_wrong(pl_comm_t *comm, const pl_gather_t *gather)
{
    const pl_gather_part_t *part = &gather->parts[0];
    uint8_t *last                = part->view;
    pl_status_t status           = PL_OK;

    if ((the_fault == SKIP) && (comm->rank == 1)) {
        pl_gather_t aside = *gather;

        aside.parts[0].view = malloc((size_t)gather->n_pages * part->stride);
        status              = right->gather(comm, &aside);
        free(aside.parts[0].view);
        return status;
    }
    status = right->gather(comm, gather);
    if (comm->rank != 1) {
        return status;
    }
    last += (size_t)(gather->n_pages - 1) * part->stride;
    if (the_fault == FLIP) {
        last[part->stride - 1] ^= 1;
    } else if (the_fault == STALE) {
        memmove(last, part->view, part->stride);
    }
    return status;
}

static pl_status_t measure(void *context, pl_comm_t *comm)
{
    work_t *work      = context;
    pl_comm_ops_t ops = *comm->ops;
    pl_device_t *device;
    pl_status_t status;

    PL_TRY(pl_comm_barrier(comm));
    if (comm->rank == 0) {
        right     = comm->ops;
        the_fault = work->fault;
    }
    PL_TRY(pl_comm_barrier(comm));
    ops.gather = gather_wrong;
    comm->ops  = &ops;
    PL_TRY(pl_device_open("cpu", work->log, &device));
    status = pl_transfer_measure(&work->params, comm, device,
                                 &work->results[comm->rank]);
    pl_device_close(device);
    comm->ops = right;
    return status;
}

static void run(work_t *work, fault_t fault, size_t min, size_t max,
                pl_transfer_yardstick_t yardstick, pl_status_t wanted)
{
    log_capture_t said;

    log_capture_open(&said);
    work->fault  = fault;
    work->log    = &said.log;
    work->params = (pl_transfer_params_t){
        .page_tokens = 16, .min = min, .max = max, .yardstick = yardstick};
    ck_assert_int_eq(pl_comm_run_local(3, 3, 60.0, &said.log, measure, work),
                     wanted);
    ck_assert_int_eq(said.n_lines, wanted == PL_OK ? 0 : 1);
    log_capture_close(&said);
}

START_TEST(sizes_go_up_by_four_and_all_ranks_know_them)
{
    work_t work = {0};

    run(&work, NONE, 4 * PAGE, 65 * PAGE, (pl_transfer_yardstick_t)_i, PL_OK);
    for (int rank = 0; rank < 3; rank++) {
        const pl_transfer_result_t *result = &work.results[rank];

        ck_assert_int_eq(result->n, 3);
        for (int i = 0; i < 3; i++) {
            const pl_transfer_figure_t *f = &result->figures[i];

            ck_assert_int_eq(f->pages, 3 * (4 << (2 * i)));
            ck_assert_int_eq(f->bytes, f->pages * PAGE);
            ck_assert_uint_eq(f->n_wrong, 0);
            ck_assert(f->us > 0);
            ck_assert(f->yardstick_us > 0);
            ck_assert_mem_eq(f, &work.results[0].figures[i], sizeof(*f));
        }
    }
}
END_TEST

START_TEST(wrong_bytes_are_counted)
{
    work_t work = {0};

    run(&work, FLIP, PAGE, PAGE, PL_TRANSFER_MEMORY, PL_OK);
    ck_assert_uint_eq(work.results[0].figures[0].n_wrong, 1);
    run(&work, SKIP, PAGE, PAGE, PL_TRANSFER_MEMORY, PL_OK);
    ck_assert_uint_gt(work.results[2].figures[0].n_wrong, 3 * PAGE * 9 / 10);
    run(&work, STALE, PAGE, PAGE, PL_TRANSFER_MEMORY, PL_OK);
    ck_assert_uint_gt(work.results[0].figures[0].n_wrong, PAGE * 9 / 10);
    ck_assert_uint_le(work.results[0].figures[0].n_wrong, PAGE);
}
END_TEST

START_TEST(sizes_that_cannot_be_are_refused)
{
    work_t work = {0};

    run(&work, NONE, PAGE, PAGE - 1, PL_TRANSFER_MEMORY, PL_ERR_ARGUMENT);
    run(&work, NONE, 1, PAGE - 1, PL_TRANSFER_MEMORY, PL_ERR_ARGUMENT);
    run(&work, NONE, 0, PAGE, PL_TRANSFER_MEMORY, PL_ERR_ARGUMENT);
    run(&work, NONE, PAGE, (size_t)PAGE << 30, PL_TRANSFER_MEMORY,
        PL_ERR_ARGUMENT);
}
END_TEST

static TCase *transfer_case(void)
{
    TCase *tcase = tcase_create("transfer");

    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, a_page_is_known_by_every_byte);
    tcase_add_test(tcase, bandwidths_are_those_of_nccl_tests);
    tcase_add_loop_test(tcase, sizes_go_up_by_four_and_all_ranks_know_them,
                        PL_TRANSFER_MEMORY, PL_TRANSFER_PEERS + 1);
    tcase_add_test(tcase, wrong_bytes_are_counted);
    tcase_add_test(tcase, sizes_that_cannot_be_are_refused);
    return tcase;
}

PL_CHECK_MAIN("transfer", transfer_case())
