/* A seal holds for the bytes before it and for no others. */
#include "store/seal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/file.h"
#include "support/check_main.h"
#include "support/log_capture.h"

enum { MORE_THAN_A_BLOCK = (1 << 20) + 17 };

static const size_t SIZES[] = {0, 1, 63, 64, 65, 4096, MORE_THAN_A_BLOCK};
static log_capture_t said;
static char path[] = "seal-test-XXXXXX";
static char *bytes;

static void set_up(void)
{
    int fd;

    log_capture_open(&said);
    (void)strcpy(path, "seal-test-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    bytes = malloc(MORE_THAN_A_BLOCK);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < MORE_THAN_A_BLOCK; i++) {
        bytes[i] = (char)(i * 31 >> 3);
    }
}

static void tear_down(void)
{
    free(bytes);
    (void)unlink(path);
    log_capture_close(&said);
}

static void write_sealed(size_t n, uint64_t digest)
{
    char seal[PL_SEAL_BYTES];

    pl_seal_text(digest, n, seal);
    ck_assert_int_eq(pl_file_write(path, bytes, n, NULL, 0, &said.log), PL_OK);
    ck_assert_int_eq(pl_file_append(path, seal, sizeof(seal), &said.log),
                     PL_OK);
}

START_TEST(what_was_sealed_is_whole)
{
    size_t n = SIZES[_i];

    write_sealed(n, pl_seal_digest(bytes, n));
    ck_assert_int_eq(pl_seal_check(path, &said.log), PL_OK);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* 9.38 a torn or changed file is found */
START_TEST(other_bytes_are_found)
{
    size_t n        = SIZES[_i];
    uint64_t digest = pl_seal_digest(bytes, n);

    for (int where = 0; (n > 0) && (where < 3); where++) {
        char *byte = &bytes[(n - 1) * (size_t)where / 2];

        *byte = (char)(*byte ^ 4);
        write_sealed(n, digest);
        *byte = (char)(*byte ^ 4);
        ck_assert_int_eq(pl_seal_check(path, &said.log), PL_ERR_INPUT);
        ck_assert_int_eq(said.n_lines, where + 1);
    }
}
END_TEST

/* Who edits a file takes the seal away. */
START_TEST(file_without_a_seal_is_taken)
{
    ck_assert_int_eq(pl_file_write(path, bytes, SIZES[_i], NULL, 0, &said.log),
                     PL_OK);
    ck_assert_int_eq(pl_seal_check(path, &said.log), PL_OK);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* ... and whoever wants one finds only a whole one, at the very end. */
START_TEST(seal_is_found_only_whole_and_last)
{
    const size_t n = 4096;
    char seal[PL_SEAL_BYTES];
    bool is_there = false;

    pl_seal_text(pl_seal_digest(bytes, n), n, seal);
    write_sealed(n, pl_seal_digest(bytes, n));
    ck_assert_int_eq(pl_seal_find(path, &said.log, &is_there), PL_OK);
    ck_assert(is_there);
    for (size_t cut = 1; cut <= PL_SEAL_BYTES; cut++) {
        ck_assert_int_eq(truncate(path, (off_t)(n + PL_SEAL_BYTES - cut)), 0);
        ck_assert_int_eq(pl_seal_find(path, &said.log, &is_there), PL_OK);
        ck_assert(!is_there);
    }
    write_sealed(n, pl_seal_digest(bytes, n));
    ck_assert_int_eq(pl_file_append(path, "\n", 1, &said.log), PL_OK);
    ck_assert_int_eq(pl_seal_find(path, &said.log, &is_there), PL_OK);
    ck_assert(!is_there);
    ck_assert_int_eq(pl_file_write(path, bytes, 1, NULL, 0, &said.log), PL_OK);
    ck_assert_int_eq(pl_seal_find(path, &said.log, &is_there), PL_OK);
    ck_assert(!is_there);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

START_TEST(missing_file_is_named)
{
    bool is_there = true;

    ck_assert_int_eq(pl_seal_find("no/such/file", &said.log, &is_there),
                     PL_ERR_INPUT);
    ck_assert_int_eq(pl_seal_check("no/such/file", &said.log), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(said.text, "no/such/file"));
}
END_TEST

/* pl_file_write leaves holes alone and fills what is between. */
START_TEST(holes_are_left_for_others)
{
    const pl_file_range_t holes[] = {{0, 10}, {10, 5}, {100, 20}};
    char found[200];
    FILE *file;

    ck_assert_int_eq(pl_file_write(path, bytes, 150, holes, 3, &said.log),
                     PL_OK);
    file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(found, 1, sizeof(found), file), 150);
    (void)fclose(file);
    for (size_t i = 0; i < 150; i++) {
        bool is_hole = (i < 15) || ((i >= 100) && (i < 120));

        ck_assert_int_eq(found[i], is_hole ? 0 : bytes[i]);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("seal");
    int n        = (int)(sizeof(SIZES) / sizeof(SIZES[0]));

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, what_was_sealed_is_whole, 0, n);
    tcase_add_loop_test(tcase, other_bytes_are_found, 0, n);
    tcase_add_loop_test(tcase, file_without_a_seal_is_taken, 0, n);
    tcase_add_test(tcase, seal_is_found_only_whole_and_last);
    tcase_add_test(tcase, missing_file_is_named);
    tcase_add_test(tcase, holes_are_left_for_others);
    return tcase;
}

PL_CHECK_MAIN("seal", all())
