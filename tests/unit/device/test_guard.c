/* What guard catches.  Writes go through uint8_t pointers into memory that the
 * device itself reserved around the block, so no sanitizer minds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/log_capture.h"
#include "test_device.h"

static log_capture_t said;
static pl_device_t *device;

static void set_up(void)
{
    log_capture_open(&said);
    ck_assert_int_eq(pl_device_open("guard", &said.log, &device), PL_OK);
}

static void tear_down(void)
{
    pl_device_close(device);
    log_capture_close(&said);
}

static uint8_t *allocate(size_t bytes, const char *what)
{
    void *mem = NULL;

    ck_assert_int_eq(
        pl_device_alloc(device, PL_MEMORY_DEVICE, bytes, what, &mem), PL_OK);
    return mem;
}

/* 9.52 what nobody wrote is poison */
START_TEST(new_memory_is_poison)
{
    uint8_t *mem = allocate(1000, "store");
    float as_float;

    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(mem[i], PL_POISON_BYTE);
    }
    memcpy(&as_float, mem, sizeof(as_float));
    ck_assert(as_float != as_float);
    pl_device_free(device, mem);
}
END_TEST

/* Each single byte of both red zones is watched. */
START_TEST(a_write_beside_the_block_is_found)
{
    static const int offsets[] = {-256, -64, -1, 100, 101, 163, 355};
    int offset                 = offsets[_i];
    uint8_t *mem               = allocate(100, "the index pages");
    uint8_t before;

    ck_assert_int_eq(pl_device_check(device), PL_OK);
    before      = mem[offset];
    mem[offset] = PL_POISON_BYTE; /* poisoning too far must show too */
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "the index pages (100 bytes)"));
    ck_assert_ptr_nonnull(
        strstr(said.text, offset < 0 ? "before its begin" : "after its end"));
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
    mem[offset] = before;
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
    ck_assert_int_eq(said.n_lines, 1);
    pl_device_free(device, mem);
}
END_TEST

START_TEST(free_inspects_too)
{
    uint8_t *mem = allocate(64, "store");

    mem[64] = 0;
    pl_device_free(device, mem);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
}
END_TEST

START_TEST(freed_memory_is_poison_and_watched)
{
    uint8_t *mem = allocate(64, "old store");

    memset(mem, 3, 64);
    pl_device_free(device, mem);
    ck_assert_int_eq(pl_device_check(device), PL_OK);
    ck_assert_uint_eq(mem[10], PL_POISON_BYTE);
    mem[10] = 3;
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(strstr(said.text, "old store"));
    ck_assert_ptr_nonnull(strstr(said.text, "after it was freed, at byte 10"));
}
END_TEST

START_TEST(freed_blocks_do_not_pile_up)
{
    for (int i = 0; i < 40; i++) {
        pl_device_free(device, allocate((size_t)1 << 20, "big"));
    }
    pl_device_free(device, allocate((size_t)64 << 20, "bigger"));
    ck_assert_int_eq(pl_device_check(device), PL_OK);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

START_TEST(free_of_a_wrong_pointer_is_reported_and_ignored)
{
    uint8_t *mem = allocate(64, "store");
    uint8_t foreign;

    pl_device_free(device, &foreign);
    ck_assert_int_eq(said.n_lines, 1);
    pl_device_free(device, mem + 1);
    ck_assert_int_eq(said.n_lines, 2);
    pl_device_free(device, mem);
    ck_assert_int_eq(said.n_lines, 2);
    pl_device_free(device, mem); /* twice */
    ck_assert_int_eq(said.n_lines, 3);
    ck_assert_ptr_nonnull(strstr(said.text, "not in use: store"));
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
}
END_TEST

START_TEST(a_range_that_leaves_its_block_is_refused)
{
    uint8_t *mem     = allocate(100, "store");
    uint8_t *old     = allocate(100, "old store");
    uint8_t host[8]  = {0};
    pl_span_t beyond = {mem + 50, 51};
    pl_copy_t copies[2];
    pl_fence_t fence;

    pl_device_free(device, old);
    copies[0] = (pl_copy_t){mem, host, 8};
    copies[1] = (pl_copy_t){mem + 93, host, 8};
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, copies, 2, false),
                     PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(
        strstr(said.text, "copy to 8 bytes at byte 93 of store (100 bytes)"));
    copies[1] = (pl_copy_t){host, mem - 1, 8};
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, copies, 2, false),
                     PL_ERR_VIOLATION);
    copies[1] = (pl_copy_t){host, old, 8};
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, copies, 2, false),
                     PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(strstr(said.text, "old store (100 bytes, freed)"));
    ck_assert_int_eq(pl_device_fill(device, PL_STREAM_COMPUTE, &beyond, 1, 0),
                     PL_ERR_VIOLATION);
    ck_assert_int_eq(said.n_lines, 4);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_uint_eq(fence, 0);

    copies[1] = (pl_copy_t){mem + 92, host, 8};
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, copies, 2, false),
                     PL_OK);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_uint_eq(mem[99], 0);
    ck_assert_uint_eq(mem[91], PL_POISON_BYTE);
    pl_device_free(device, mem);
}
END_TEST

START_TEST(every_copy_is_late)
{
    uint8_t *mem   = allocate(1, "store");
    uint8_t byte   = 5;
    pl_copy_t copy = {mem, &byte, 1};
    pl_fence_t fence;

    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_LOAD, &copy, 1, false),
                     PL_OK);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_LOAD, &fence), PL_OK);
    ck_assert_uint_eq(*mem, PL_POISON_BYTE);
    byte = 6;
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_uint_eq(*mem, 6);
    pl_device_free(device, mem);
}
END_TEST

START_TEST(free_under_a_copy_is_reported_and_the_copy_dropped)
{
    uint8_t *mem     = allocate(8, "store");
    uint8_t bytes[8] = {0};
    pl_copy_t copy   = {bytes, mem, 8};
    pl_fence_t fence;

    memset(mem, 1, 8);
    ck_assert_int_eq(pl_device_copy(device, PL_STREAM_BACKUP, &copy, 1, false),
                     PL_OK);
    ck_assert_int_eq(pl_device_record(device, PL_STREAM_BACKUP, &fence), PL_OK);
    pl_device_free(device, mem);
    ck_assert_ptr_nonnull(strstr(said.text, "store was freed while a copy of "
                                            "8 bytes on stream backup"));
    ck_assert_int_eq(pl_device_wait(device, PL_STREAM_BACKUP, fence), PL_OK);
    ck_assert_uint_eq(bytes[0], 0);
    ck_assert_int_eq(pl_device_check(device), PL_ERR_VIOLATION);
}
END_TEST

TCase *guard_case(void)
{
    TCase *tcase = tcase_create("guard");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, new_memory_is_poison);
    tcase_add_loop_test(tcase, a_write_beside_the_block_is_found, 0, 7);
    tcase_add_test(tcase, free_inspects_too);
    tcase_add_test(tcase, freed_memory_is_poison_and_watched);
    tcase_add_test(tcase, freed_blocks_do_not_pile_up);
    tcase_add_test(tcase, free_of_a_wrong_pointer_is_reported_and_ignored);
    tcase_add_test(tcase, a_range_that_leaves_its_block_is_refused);
    tcase_add_test(tcase, every_copy_is_late);
    tcase_add_test(tcase, free_under_a_copy_is_reported_and_the_copy_dropped);
    return tcase;
}
