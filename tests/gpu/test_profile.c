/* Where the time of streams goes, as their device says. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <cuda_runtime.h>

#include "device.cuh"
#include "gpu.h"
#include "profile.cuh"
#include "support/log_capture.h"

static log_capture_t said;
static pl_device_t *device;

static void set_up(void)
{
    log_capture_open(&said);
    ck_assert_int_eq(pl_cuda_device_open(0, &said.log, &device), PL_OK);
}

static void tear_down(void)
{
    device->ops->close(device);
    ck_assert_str_eq(said.text, "");
    log_capture_close(&said);
}

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void nap(long ms)
{
    const struct timespec time = {0, ms * 1000000};

    (void)nanosleep(&time, NULL);
}

typedef struct task {
    atomic_int may_begin;
    long ms; /* and then takes as long */
} task_t;

static void do_task(void *context)
{
    task_t *task = context;

    while (atomic_load(&task->may_begin) == 0) {
        nap(1);
    }
    nap(task->ms);
}

/* Such work; then it is nothing again. */
static void work(pl_stream_t stream, pl_work_t kind, task_t *task)
{
    (void)pl_cuda_mark(device, stream, kind);
    ck_assert_int_eq(cudaLaunchHostFunc(pl_cuda_device_stream(device, stream),
                                        do_task, task),
                     cudaSuccess);
    ck_assert_int_eq(pl_cuda_mark(device, stream, PL_WORK_NONE), kind);
}

static int64_t all_calls(const pl_profile_t *profile)
{
    int64_t n = 0;

    for (int s = 0; s < PL_STREAMS; s++) {
        for (int k = 0; k < PL_WORKS; k++) {
            n += profile->times[s][k].calls;
        }
    }
    return n;
}

START_TEST(time_is_that_of_the_stream)
{
    const pl_device_ops_t *ops = device->ops;
    pl_profile_t profile       = {0};
    task_t first = {0, 60}, second = {1, 30};
    double begun, all;
    int64_t in_turn; /* no two of these at once */
    pl_fence_t fence;

    ck_assert_int_eq(ops->profile_begin(device), PL_OK);
    begun = now_ns();
    work(PL_STREAM_LOAD, PL_WORK_STORE, &first);
    work(PL_STREAM_LOAD, PL_WORK_HEAD, &second);
    ck_assert_int_eq(ops->record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_int_eq(
        ops->after(device, PL_STREAM_COMPUTE, PL_STREAM_LOAD, fence), PL_OK);
    work(PL_STREAM_COMPUTE, PL_WORK_MLP, &second);
    work(PL_STREAM_COMPUTE, PL_WORK_MLP, &second);
    atomic_store(&first.may_begin, 1); /* so nobody has waited */
    ck_assert_int_eq(ops->profile_read(device, &profile), PL_OK);
    all = now_ns() - begun;
    for (int s = 0; s < PL_STREAMS; s++) {
        double sum = 0;

        for (int k = 0; k < PL_WORKS; k++) {
            sum += (double)profile.times[s][k].ns;
        }
        ck_assert_double_le(sum, all);
    }
    ck_assert_int_ge(profile.times[PL_STREAM_LOAD][PL_WORK_STORE].ns, 59000000);
    ck_assert_int_ge(profile.times[PL_STREAM_LOAD][PL_WORK_HEAD].ns, 29000000);
    in_turn = profile.times[PL_STREAM_LOAD][PL_WORK_STORE].ns +
              profile.times[PL_STREAM_LOAD][PL_WORK_HEAD].ns +
              profile.times[PL_STREAM_COMPUTE][PL_WORK_MLP].ns;
    ck_assert_double_le((double)in_turn, all);
    ck_assert_int_ge(profile.times[PL_STREAM_COMPUTE][PL_WORK_WAIT].ns,
                     80000000);
    ck_assert_int_eq(profile.times[PL_STREAM_COMPUTE][PL_WORK_MLP].calls, 2);
    ck_assert_int_eq(all_calls(&profile), 5);
}
END_TEST

START_TEST(what_was_read_is_not_read_again)
{
    const pl_device_ops_t *ops = device->ops;
    pl_profile_t profile       = {0};
    task_t task                = {1, 1};

    ck_assert_int_eq(ops->profile_begin(device), PL_OK);
    for (int i = 1; i <= 3; i++) {
        work(PL_STREAM_SEND, PL_WORK_COPY, &task);
        ck_assert_int_eq(ops->profile_read(device, &profile), PL_OK);
        ck_assert_int_eq(all_calls(&profile), i);
    }
    ck_assert_int_eq(ops->profile_read(device, &profile), PL_OK);
    ck_assert_int_eq(all_calls(&profile), 3);
}
END_TEST

START_TEST(without_a_profile_nothing_is_marked)
{
    pl_profile_t profile = {0};

    ck_assert_int_eq(pl_cuda_mark(device, PL_STREAM_LOAD, PL_WORK_COPY),
                     PL_WORK_NONE);
    ck_assert_int_eq(pl_cuda_mark(device, PL_STREAM_LOAD, PL_WORK_HEAD),
                     PL_WORK_NONE);
    ck_assert_int_eq(device->ops->profile_read(device, &profile),
                     PL_ERR_ARGUMENT);
}
END_TEST

TCase *case_profile(void)
{
    TCase *tc = tcase_create("profile");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, time_is_that_of_the_stream);
    tcase_add_test(tc, what_was_read_is_not_read_again);
    tcase_add_test(tc, without_a_profile_nothing_is_marked);
    return tc;
}
