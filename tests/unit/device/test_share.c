/* Memory of kind SHARED: a peer, in this process or another, reads it. */
#include "device/device.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/log_capture.h"
#include "test_device.h"

enum { BYTES = 70001 };

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
}

static uint8_t *shared_memory(size_t bytes)
{
    void *mem = NULL;

    ck_assert_int_eq(pl_device_alloc(device, PL_MEMORY_SHARED, bytes,
                                     "the shared store", &mem),
                     PL_OK);
    ck_assert_uint_eq((uintptr_t)mem % 64, 0);
    return mem;
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

static void write_pattern(uint8_t *mem)
{
    for (size_t i = 0; i < BYTES; i++) {
        mem[i] = pattern(i);
    }
}

static bool is_pattern(const uint8_t *mem)
{
    size_t i = 0;

    while ((i < BYTES) && (mem[i] == pattern(i))) {
        i++;
    }
    return i == BYTES;
}

static pl_share_t share_of(void *mem)
{
    pl_share_t share;

    ck_assert_int_eq(device->ops->share(device, mem, &share), PL_OK);
    return share;
}

START_TEST(a_rank_of_the_same_process_gets_the_address)
{
    uint8_t *mem;
    pl_share_t share;
    void *opened = NULL;

    open_device(_i);
    mem   = shared_memory(BYTES);
    share = share_of(mem);
    ck_assert_int_eq(device->ops->open_shared(device, &share, &opened), PL_OK);
    ck_assert_ptr_eq(opened, mem);
    device->ops->close_shared(device, opened);
    write_pattern(mem); /* it is still there */
    ck_assert_int_eq(pl_device_check(device), PL_OK);
    pl_device_free(device, mem);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* ---- two processes ---- */

static void tell(int fd, const void *bytes, size_t n)
{
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
}

static void hear(int fd, void *bytes, size_t n)
{
    ck_assert_int_eq(read(fd, bytes, n), (ssize_t)n);
}

/* The peer: what it read is its exit status. */
static void be_peer(const pl_share_t *share, int hears, int tells)
{
    pl_device_t *own = NULL;
    void *opened     = NULL;
    char byte        = 0;
    bool good;

    good = (pl_device_open("cpu", NULL, &own) == PL_OK) &&
           (own->ops->open_shared(own, share, &opened) == PL_OK) &&
           (write(tells, &byte, 1) == 1) && (read(hears, &byte, 1) == 1) &&
           is_pattern(opened);
    if (good) {
        own->ops->close_shared(own, opened);
        pl_device_close(own);
    }
    _exit(good ? 0 : 1);
}

START_TEST(another_process_reads_what_is_written_later)
{
    int to[2], from[2], status;
    uint8_t *mem;
    pl_share_t share;
    char byte = 0;
    pid_t child;

    open_device(_i);
    mem   = shared_memory(BYTES);
    share = share_of(mem);
    ck_assert(pipe(to) == 0 && pipe(from) == 0);
    child = fork();
    if (child == 0) {
        be_peer(&share, to[0], from[1]);
    }
    (void)close(from[1]); /* so that a peer that failed is heard of */
    hear(from[0], &byte, 1);
    write_pattern(mem);
    tell(to[1], &byte, 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pl_device_free(device, mem);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

/* A process that shares what it has written, and waits to be killed. */
static pid_t start_owner(int i, pl_share_t *share)
{
    int ends[2];
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        uint8_t *mem;

        open_device(i);
        mem = shared_memory(BYTES);
        write_pattern(mem);
        *share = share_of(mem);
        tell(ends[1], share, sizeof(*share));
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    hear(ends[0], share, sizeof(*share));
    (void)close(ends[0]);
    return child;
}

static void end_owner(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(what_is_open_outlives_the_process_that_shared_it)
{
    pl_share_t share;
    void *opened = NULL;
    pid_t child  = start_owner(_i, &share);

    open_device(_i);
    ck_assert_int_eq(device->ops->open_shared(device, &share, &opened), PL_OK);
    end_owner(child);
    ck_assert(is_pattern(opened));
    device->ops->close_shared(device, opened);
    pl_device_close(device);
    ck_assert_str_eq(said.text, "");
}
END_TEST

START_TEST(memory_of_a_process_that_has_ended_is_refused)
{
    pl_share_t share;
    void *opened = NULL;
    pid_t child  = start_owner(_i, &share);

    end_owner(child);
    open_device(_i);
    ck_assert_int_eq(device->ops->open_shared(device, &share, &opened),
                     PL_ERR_DEVICE);
    ck_assert_ptr_null(opened);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "use --comm mpi"));
    pl_device_close(device);
}
END_TEST

/* One that now has the number, and another file behind it; one elsewhere. */
START_TEST(memory_of_another_than_was_told_is_refused)
{
    pl_share_t share, other;
    void *opened = NULL;
    pid_t child  = start_owner(_i, &share);

    open_device(_i);
    other = share;
    other.handle[8] ^= 1; /* the file's own number */
    ck_assert_int_eq(device->ops->open_shared(device, &other, &opened),
                     PL_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(said.text, "has ended or freed it"));
    other = share;
    other.handle[0] ^= 1; /* the machine's */
    ck_assert_int_eq(device->ops->open_shared(device, &other, &opened),
                     PL_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(said.text, "another machine"));
    other.process = getpid(); /* and so no address of ours */
    ck_assert_int_eq(device->ops->open_shared(device, &other, &opened),
                     PL_ERR_DEVICE);
    ck_assert_int_eq(said.n_lines, 3);
    ck_assert_ptr_null(opened);
    end_owner(child);
    pl_device_close(device);
}
END_TEST

START_TEST(only_shared_memory_is_shared)
{
    void *mem = NULL;
    uint8_t *shared;
    pl_share_t share;

    open_device(_i);
    shared = shared_memory(100);
    ck_assert_int_eq(
        pl_device_alloc(device, PL_MEMORY_DEVICE, 100, "a view", &mem), PL_OK);
    ck_assert_int_eq(device->ops->share(device, mem, &share), PL_ERR_ARGUMENT);
    ck_assert_int_eq(device->ops->share(device, shared + 1, &share),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(said.n_lines, 2);
    pl_device_free(device, mem);
    pl_device_free(device, shared);
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 2);
}
END_TEST

START_TEST(too_much_shared_memory_is_refused_with_one_line)
{
    void *mem = NULL;

    open_device(_i);
    ck_assert_int_eq(pl_device_alloc(device, PL_MEMORY_SHARED, SIZE_MAX / 4,
                                     "the latent pages", &mem),
                     PL_ERR_MEMORY);
    ck_assert_ptr_null(mem);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "the latent pages"));
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1);
}
END_TEST

START_TEST(what_a_peer_shared_and_nobody_closed_is_reported)
{
    pl_share_t share;
    void *opened = NULL;
    pid_t child  = start_owner(_i, &share);

    open_device(_i);
    ck_assert_int_eq(device->ops->open_shared(device, &share, &opened), PL_OK);
    end_owner(child);
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "were not closed"));
}
END_TEST

START_TEST(guard_watches_shared_memory_too)
{
    uint8_t *mem;

    ck_assert_int_eq(pl_device_open("guard", &said.log, &device), PL_OK);
    mem = shared_memory(100);
    ck_assert_uint_eq(mem[0], PL_POISON_BYTE);
    ck_assert_uint_eq(mem[99], PL_POISON_BYTE);
    mem[100] = 0;
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(
        strstr(said.text, "the shared store (100 bytes) was written after its "
                          "end"));
    pl_device_free(device, mem);
    mem[5] = 1; /* in quarantine it is still mapped */
    pl_device_close(device);
    ck_assert_int_eq(said.n_lines, 1); /* each block is told of once */
}
END_TEST

TCase *share_case(int n_devices)
{
    TCase *tcase = tcase_create("share");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_rank_of_the_same_process_gets_the_address, 0,
                        n_devices);
    tcase_add_loop_test(tcase, another_process_reads_what_is_written_later, 0,
                        n_devices);
    tcase_add_loop_test(tcase, what_is_open_outlives_the_process_that_shared_it,
                        0, n_devices);
    tcase_add_loop_test(tcase, memory_of_a_process_that_has_ended_is_refused, 0,
                        n_devices);
    tcase_add_loop_test(tcase, memory_of_another_than_was_told_is_refused, 0,
                        n_devices);
    tcase_add_loop_test(tcase, only_shared_memory_is_shared, 0, n_devices);
    tcase_add_loop_test(tcase, too_much_shared_memory_is_refused_with_one_line,
                        0, n_devices);
    tcase_add_loop_test(tcase, what_a_peer_shared_and_nobody_closed_is_reported,
                        0, n_devices);
    tcase_add_test(tcase, guard_watches_shared_memory_too);
    return tcase;
}
