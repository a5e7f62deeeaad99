/* What every device does alike: each test runs on all that open here. */
#include "device/device.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/log_capture.h"
#include "test_device.h"

#define SEED UINT64_C(20260802)

static log_capture_t said;
static pl_device_t *device;

static void set_up(void)
{
    log_capture_open(&said);
}

static void tear_down(void)
{
    log_capture_close(&said);
}

static void open_device(int i)
{
    ck_assert_int_eq(pl_device_open(pl_device_name(i), &said.log, &device),
                     PL_OK);
    ck_assert_str_eq(device->ops->name, pl_device_name(i));
}

static uint8_t *allocate(size_t bytes, const char *what)
{
    void *mem = NULL;

    ck_assert_int_eq(
        pl_device_alloc(device, PL_MEMORY_DEVICE, bytes, what, &mem), PL_OK);
    ck_assert_ptr_nonnull(mem);
    ck_assert_uint_eq((uintptr_t)mem % 64, 0);
    return mem;
}

static void wait_for_all(pl_stream_t stream)
{
    pl_fence_t fence;

    ck_assert_int_eq(pl_device_record(device, stream, &fence), PL_OK);
    ck_assert_int_eq(pl_device_wait(device, stream, fence), PL_OK);
}

START_TEST(every_size_is_aligned_and_usable)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000003};

    open_device(_i);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *mem   = allocate(sizes[i], "a block");
        pl_span_t span = {mem, sizes[i]};

        ck_assert_int_eq(pl_device_fill(device, PL_STREAM_COMPUTE, &span, 1, 7),
                         PL_OK);
        for (size_t b = 0; b < sizes[i]; b++) {
            ck_assert_uint_eq(mem[b], 7);
        }
        ck_assert_int_eq(pl_device_check(device), PL_OK);
        pl_device_free(device, mem);
    }
    pl_device_free(device, NULL);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

START_TEST(too_much_memory_is_refused_with_one_line)
{
    void *mem = NULL;
    uint8_t *small;

    open_device(_i);
    ck_assert_int_eq(pl_device_alloc(device, PL_MEMORY_DEVICE, SIZE_MAX - 1,
                                     "the latent pages", &mem),
                     PL_ERR_MEMORY);
    ck_assert_ptr_null(mem);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "the latent pages"));
    ck_assert_ptr_nonnull(strstr(said.text, "18446744073709551614 bytes"));

    small = allocate(10, "small");
    pl_device_free(device, small);
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1);
}
END_TEST

/* The law of streams: after a wait, memory is what the copies before its fence
 * give when they are done one by one, whatever was late and whatever another
 * stream still has to do.  Streams have buffers of their own here. */
typedef struct lane {
    uint8_t *real, *model; /* n_cells * cell bytes */
    pl_fence_t fence;
    uint8_t *at_fence; /* the model when the fence was recorded */
} lane_t;

enum { N_CELLS = 16, CELL_BYTES = 24, LANE_BYTES = N_CELLS * CELL_BYTES };

static void lane_open(lane_t *lane, pl_rng_t *rng)
{
    lane->real     = allocate(LANE_BYTES, "real");
    lane->model    = malloc(LANE_BYTES);
    lane->at_fence = malloc(LANE_BYTES);
    lane->fence    = 0;
    ck_assert(lane->model != NULL && lane->at_fence != NULL);
    for (int i = 0; i < LANE_BYTES; i++) {
        lane->real[i] = (uint8_t)pl_rng_next(rng);
    }
    memcpy(lane->model, lane->real, LANE_BYTES);
    memcpy(lane->at_fence, lane->real, LANE_BYTES);
}

static void lane_copy(lane_t *lane, pl_stream_t stream, pl_rng_t *rng)
{
    pl_copy_t copies[5];
    int32_t n = (int32_t)pl_rng_below(rng, 6);

    for (int32_t i = 0; i < n; i++) {
        size_t from = (size_t)pl_rng_below(rng, N_CELLS) * CELL_BYTES;
        size_t to   = (size_t)pl_rng_below(rng, N_CELLS) * CELL_BYTES;

        copies[i].src   = lane->real + from;
        copies[i].dst   = lane->real + to;
        copies[i].bytes = (size_t)pl_rng_below(rng, CELL_BYTES + 1);
        memmove(lane->model + to, lane->model + from, copies[i].bytes);
    }
    ck_assert_int_eq(
        pl_device_copy(device, stream, copies, n, pl_rng_below(rng, 2) == 0),
        PL_OK);
}

START_TEST(copies_are_done_in_order_up_to_the_fence)
{
    pl_rng_t rng = pl_rng_seed(SEED + (uint64_t)_i);
    lane_t lanes[PL_STREAMS];

    printf("seed %" PRIu64 "\n", SEED + (uint64_t)_i);
    open_device(_i);
    for (int s = 0; s < PL_STREAMS; s++) {
        lane_open(&lanes[s], &rng);
    }
    for (int step = 0; step < 4000; step++) {
        pl_stream_t stream = (pl_stream_t)pl_rng_below(&rng, PL_STREAMS);
        lane_t *lane       = &lanes[stream];

        if (pl_rng_below(&rng, 4) > 0) {
            lane_copy(lane, stream, &rng);
            continue;
        }
        ck_assert_int_eq(pl_device_record(device, stream, &lane->fence), PL_OK);
        memcpy(lane->at_fence, lane->model, LANE_BYTES);
        /* What comes behind the fence may be done by the wait, or not. */
        ck_assert_int_eq(pl_device_wait(device, stream, lane->fence), PL_OK);
        ck_assert_mem_eq(lane->real, lane->at_fence, LANE_BYTES);
    }
    for (int s = 0; s < PL_STREAMS; s++) {
        wait_for_all((pl_stream_t)s);
        ck_assert_mem_eq(lanes[s].real, lanes[s].model, LANE_BYTES);
        pl_device_free(device, lanes[s].real);
        free(lanes[s].model);
        free(lanes[s].at_fence);
    }
    ck_assert_int_eq(pl_device_check(device), PL_OK);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* A late copy reads its source at the wait, up to its fence only, and a copy
 * that follows it on the stream does not overtake it. */
START_TEST(a_late_copy_waits_and_keeps_its_place)
{
    uint8_t *src;
    uint8_t *dst;
    pl_copy_t first, second;
    pl_fence_t fence, end;

    open_device(_i);
    src = allocate(2, "source");
    dst = allocate(2, "destination");
    memcpy(src, "ab", 2);
    memcpy(dst, "..", 2);
    first  = (pl_copy_t){dst, src, 1};
    second = (pl_copy_t){dst + 1, dst, 1};
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, &first, 1, true),
                     PL_OK);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_uint_ne(fence, 0);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, &second, 1, false),
                     PL_OK);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &end), PL_OK);
    wait_for_all(PL_STREAM_BACKUP); /* another stream does nothing for it */
    ck_assert_mem_eq(dst, "..", 2);

    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_mem_eq(dst, "a.", 2);
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, end), PL_OK);
    ck_assert_mem_eq(dst, "aa", 2);
    /* again, and an older one: nothing is done twice */
    src[0] = 'x';
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, end), PL_OK);
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, 0), PL_OK);
    ck_assert_mem_eq(dst, "aa", 2);
    pl_device_free(device, src);
    pl_device_free(device, dst);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

START_TEST(a_copy_never_waited_for_is_reported_at_close)
{
    uint8_t src[4] = {1, 2, 3, 4};
    uint8_t dst[4] = {0};
    pl_copy_t copy = {dst, src, sizeof(dst)};

    open_device(_i);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_BACKUP, &copy, 1, true),
                     PL_OK);
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "stream backup"));
    ck_assert_uint_eq(dst[0], 0);
}
END_TEST

START_TEST(memory_that_was_not_freed_is_reported_at_close)
{
    uint8_t *mem;

    open_device(_i);
    mem = allocate(100, "a forgotten store");
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "not freed"));
    if (strcmp(pl_device_name(_i), "guard") == 0) {
        ck_assert_ptr_nonnull(strstr(said.text, "a forgotten store"));
    } else {
        free(mem);
    }
}
END_TEST

START_TEST(wrong_arguments_change_nothing)
{
    uint8_t byte      = 1;
    pl_copy_t copy    = {NULL, &byte, 1};
    pl_span_t nowhere = {NULL, 1};
    pl_fence_t fence;
    void *mem = NULL;

    open_device(_i);
    ck_assert_int_eq(pl_device_alloc(device, PL_MEMORY_DEVICE, 1, NULL, &mem),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, &copy, 1, true),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, NULL, -1, true),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAMS, &copy, 0, true),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_record(device, PL_STREAMS, &fence),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_fill(device, PL_STREAM_COMPUTE, &nowhere, 1, 0),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, 1),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(said.n_lines, 7);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_uint_eq(fence, 0);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, NULL, 0, false),
                     PL_OK);
    pl_device_close(device);
    pl_device_close(NULL);
    ck_assert_int_eq(said.n_lines, 7);
}
END_TEST

START_TEST(an_unknown_device_is_refused_by_name)
{
    pl_device_t *none = NULL;

    ck_assert_int_eq(pl_device_open("gpu", &said.log, &none), PL_ERR_ARGUMENT);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "'gpu'"));
    for (int i = 0; pl_device_name(i) != NULL; i++) {
        ck_assert_ptr_nonnull(strstr(said.text, pl_device_name(i)));
    }
    ck_assert_int_eq(pl_device_open(NULL, &said.log, &none), PL_ERR_ARGUMENT);
    ck_assert_ptr_null(pl_device_name(-1));
}
END_TEST

static int device_count(void)
{
    int n = 0;

    while (pl_device_name(n) != NULL) {
        n++;
    }
    return n;
}

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tcase = tcase_create("every device");
    SRunner *runner;
    int n = device_count();
    int n_failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, every_size_is_aligned_and_usable, 0, n);
    tcase_add_loop_test(tcase, too_much_memory_is_refused_with_one_line, 0, n);
    tcase_add_loop_test(tcase, copies_are_done_in_order_up_to_the_fence, 0, n);
    tcase_add_loop_test(tcase, a_late_copy_waits_and_keeps_its_place, 0, n);
    tcase_add_loop_test(tcase, a_copy_never_waited_for_is_reported_at_close, 0,
                        n);
    tcase_add_loop_test(tcase, memory_that_was_not_freed_is_reported_at_close,
                        0, n);
    tcase_add_loop_test(tcase, wrong_arguments_change_nothing, 0, n);
    tcase_add_test(tcase, an_unknown_device_is_refused_by_name);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, guard_case());
    suite_add_tcase(suite, share_case(n));
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
