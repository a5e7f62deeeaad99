/* store/sweep.h: what was written comes back, and nothing else does. */
#include "store/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check_main.h"
#include "support/log_capture.h"

enum { POINTS = 8 };

static char folder[64], journal[96];
static log_capture_t said;
static pl_sweep_point_t points[POINTS];

static void set_up(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/sweep-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(journal, sizeof(journal), "%s/a.h5.journal", folder);
    log_capture_open(&said);
    memset(points, 0, sizeof(points));
}

static void forget(void)
{
    for (int i = 0; i < POINTS; i++) {
        pl_sweep_point_free(&points[i]);
    }
}

static void tear_down(void)
{
    forget();
    pl_sweep_journal_remove(journal);
    (void)rmdir(folder);
    log_capture_close(&said);
}

static void begin(void)
{
    ck_assert_int_eq(
        pl_sweep_journal_open(journal, "cp = 1,2\n", false, &said.log), PL_OK);
}

/* Point i, whose numbers say which one it is. */
static void add(int rank, int i)
{
    pl_sweep_point_t point = {.n_seeds = i + 1, .rank = rank, .wall_ns = 7};

    for (int v = 0; v < 3; v++) {
        pl_sweep_value_t value = {.unit = "1e-6/s", .mean = 0, .half = v};

        (void)snprintf(value.name, sizeof(value.name), "number_%d", v);
        value.mean = v == 0 ? i : (v == 1 ? INT64_MIN : INT64_MAX);
        ck_assert_int_eq(PL_ARRAY_PUSH(&point.values, value), PL_OK);
    }
    ck_assert_int_eq(pl_sweep_journal_add(journal, rank, (size_t)i, &point,
                                          i % 2 == 0, &said.log),
                     PL_OK);
    pl_sweep_point_free(&point);
}

static void check(int i)
{
    const pl_sweep_point_t *point = &points[i];

    ck_assert(point->is_known);
    ck_assert_int_eq(point->status, PL_OK);
    ck_assert_ptr_null(point->why);
    ck_assert_int_eq(point->n_seeds, i + 1);
    ck_assert_int_eq(point->wall_ns, 7);
    ck_assert_uint_eq(point->values.n, 3);
    ck_assert_int_eq(pl_sweep_find(point, "number_0")->mean, i);
    ck_assert_int_eq(pl_sweep_find(point, "number_1")->mean, INT64_MIN);
    ck_assert_int_eq(pl_sweep_find(point, "number_2")->mean, INT64_MAX);
    ck_assert_int_eq(pl_sweep_find(point, "number_2")->half, 2);
    ck_assert_str_eq(pl_sweep_find(point, "number_0")->unit, "1e-6/s");
    ck_assert_ptr_null(pl_sweep_find(point, "number_3"));
}

static void read_all(void)
{
    forget();
    ck_assert_int_eq(pl_sweep_journal_read(journal, points, POINTS, &said.log),
                     PL_OK);
}

static int n_known(void)
{
    int n = 0;

    for (int i = 0; i < POINTS; i++) {
        n += points[i].is_known;
    }
    return n;
}

static void append(int rank, const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/rank-%05d", journal, rank);
    file = fopen(path, "a");
    ck_assert_ptr_nonnull(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

START_TEST(points_of_all_ranks_come_back)
{
    begin();
    read_all();
    ck_assert_int_eq(n_known(), 0);
    for (int i = 0; i < 6; i++) {
        add(i % 3, i);
    }
    read_all();
    ck_assert_int_eq(n_known(), 6);
    for (int i = 0; i < 6; i++) {
        check(i);
        ck_assert_int_eq(points[i].rank, i % 3);
    }
}
END_TEST

START_TEST(why_a_point_cannot_be_run_comes_back)
{
    pl_sweep_point_t point = {.status = PL_ERR_RESOURCE};

    begin();
    point.why = strdup("no room:\n  take --cp 8");
    ck_assert_int_eq(
        pl_sweep_journal_add(journal, 0, 3, &point, true, &said.log), PL_OK);
    pl_sweep_point_free(&point);
    add(0, 4);
    read_all();
    ck_assert_int_eq(n_known(), 2);
    ck_assert_int_eq(points[3].status, PL_ERR_RESOURCE);
    ck_assert_str_eq(points[3].why, "no room:   take --cp 8");
    check(4);
}
END_TEST

/* Cut anywhere, the line is not there, and what is added behind it is. */
START_TEST(a_line_that_was_cut_off_is_passed_over)
{
    char path[128];
    struct stat about;
    off_t whole;

    begin();
    (void)snprintf(path, sizeof(path), "%s/rank-00000", journal);
    add(0, 0);
    ck_assert_int_eq(stat(path, &about), 0);
    whole = about.st_size;
    for (off_t n = 0; n < whole; n++) {
        ck_assert_int_eq(truncate(path, n), 0);
        read_all();
        ck_assert_int_eq(n_known(), 0);
        add(0, 1);
        read_all();
        ck_assert_int_eq(n_known(), 1 + (n == whole - 1));
        check(1);
        ck_assert_int_eq(truncate(path, 0), 0);
        add(0, 0);
    }
}
END_TEST

START_TEST(a_line_with_a_wrong_bit_is_passed_over)
{
    char path[128];
    FILE *file;
    long n;

    begin();
    (void)snprintf(path, sizeof(path), "%s/rank-00000", journal);
    add(0, 0);
    file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    (void)fseek(file, 0, SEEK_END);
    n = ftell(file);
    for (long at = 0; at < n - 1; at++) {
        int was;

        (void)fseek(file, at, SEEK_SET);
        was = fgetc(file);
        (void)fseek(file, at, SEEK_SET);
        (void)fputc(was ^ 1, file);
        (void)fflush(file);
        read_all();
        ck_assert_msg(n_known() == 0, "byte %ld", at);
        (void)fseek(file, at, SEEK_SET);
        (void)fputc(was, file);
        (void)fflush(file);
    }
    (void)fclose(file);
    read_all();
    check(0);
}
END_TEST

START_TEST(what_is_no_line_of_ours_is_passed_over)
{
    begin();
    append(7, "\n\n0 0 0\nnonsense\n0123456789abcdef \n");
    add(7, POINTS + 1); /* a point that the grid does not have */
    add(7, 2);
    add(6, 2); /* twice: the same numbers */
    read_all();
    ck_assert_int_eq(n_known(), 1);
    check(2);
}
END_TEST

START_TEST(only_the_same_grid_goes_on)
{
    begin();
    add(0, 0);
    ck_assert_int_eq(
        pl_sweep_journal_open(journal, "cp = 1,2\n", false, &said.log),
        PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(said.text, "add --resume"));
    ck_assert_int_eq(
        pl_sweep_journal_open(journal, "cp = 1,2\n", true, &said.log), PL_OK);
    ck_assert_int_eq(
        pl_sweep_journal_open(journal, "cp = 1,4\n", true, &said.log),
        PL_ERR_INPUT);
    ck_assert_ptr_nonnull(
        strstr(said.text, "it had 'cp = 1,2', now 'cp = 1,4'"));
    read_all();
    check(0);
    pl_sweep_journal_remove(journal);
    ck_assert_int_ne(access(journal, F_OK), 0);
    ck_assert_int_eq(
        pl_sweep_journal_open(journal, "cp = 1,4\n", true, &said.log), PL_OK);
}
END_TEST

/* Whoever began it, with whatever grid: nothing is lost. */
START_TEST(one_in_which_no_point_ran_is_made_anew)
{
    pl_sweep_point_t point = {.status = PL_ERR_ARGUMENT};
    bool holds             = true;

    ck_assert_int_eq(pl_sweep_journal_holds(journal, &said.log, &holds), PL_OK);
    ck_assert(!holds);
    for (int resume = 0; resume < 2; resume++) {
        begin();
        append(0, "0123456789abcdef 0 0 1 0 7 0 cut off");
        ck_assert_int_eq(
            pl_sweep_journal_add(journal, 1, 3, &point, true, &said.log),
            PL_OK);
        ck_assert_int_eq(pl_sweep_journal_holds(journal, &said.log, &holds),
                         PL_OK);
        ck_assert(!holds);
        ck_assert_int_eq(pl_sweep_journal_open(journal, "cp = 1,4\n",
                                               resume != 0, &said.log),
                         PL_OK);
        read_all();
        ck_assert_int_eq(n_known(), 0);
    }
    add(0, 1);
    ck_assert_int_eq(pl_sweep_journal_holds(journal, &said.log, &holds), PL_OK);
    ck_assert(holds);
}
END_TEST

START_TEST(a_folder_that_cannot_be_is_one_line)
{
    ck_assert_int_eq(pl_sweep_journal_open("/nowhere/a.journal", "cp = 1\n",
                                           false, &said.log),
                     PL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(said.text, "/nowhere/a.journal"));
    pl_sweep_journal_remove("/nowhere/a.journal");
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("sweep");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, points_of_all_ranks_come_back);
    tcase_add_test(tcase, why_a_point_cannot_be_run_comes_back);
    tcase_add_test(tcase, a_line_that_was_cut_off_is_passed_over);
    tcase_add_test(tcase, a_line_with_a_wrong_bit_is_passed_over);
    tcase_add_test(tcase, what_is_no_line_of_ours_is_passed_over);
    tcase_add_test(tcase, only_the_same_grid_goes_on);
    tcase_add_test(tcase, one_in_which_no_point_ran_is_made_anew);
    tcase_add_test(tcase, a_folder_that_cannot_be_is_one_line);
    return tcase;
}

PL_CHECK_MAIN("sweep", all())
