/* Snapshots on the way: the state of one moment, written later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/snapshot_series.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/snapshot_sample.h"

static log_capture_t said;
static char folder[64];
static char path[128];
static pl_series_t *series;

static void set_up(void)
{
    log_capture_open(&said);
    (void)snprintf(folder, sizeof(folder), "series-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/s.h5", folder);
    ck_assert_int_eq(pl_series_open(path, 2, &said.log, &series), PL_OK);
}

static char *name_of(int number)
{
    static char name[160];

    (void)snprintf(name, sizeof(name), "%s/s.%04d.h5", folder, number);
    return name;
}

static void tear_down(void)
{
    pl_series_close(series);
    for (int i = 0; i < 20; i++) {
        (void)unlink(name_of(i));
    }
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left */
    log_capture_close(&said);
}

static bool is_there(int number)
{
    return access(name_of(number), F_OK) == 0;
}

static snapshot_sample_t make(uint64_t seed, int64_t max_ticks)
{
    snapshot_sample_params_t params = snapshot_sample_params(seed);
    snapshot_sample_t sample;

    params.max_ticks = max_ticks;
    ck_assert_int_eq(snapshot_sample_run(&params, &said.log, &sample), PL_OK);
    return sample;
}

static char *slurp(const char *name, size_t *n_p)
{
    FILE *file = fopen(name, "rb");
    char *bytes;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *n_p  = (size_t)ftell(file);
    bytes = malloc(*n_p + 1);
    ck_assert_ptr_nonnull(bytes);
    rewind(file);
    ck_assert_uint_eq(fread(bytes, 1, *n_p, file), *n_p);
    (void)fclose(file);
    return bytes;
}

/* I10: the run goes on, and in the end is gone, before the first slice. */
START_TEST(what_is_written_is_the_moment_it_was_taken)
{
    snapshot_sample_t sample = make(3, 1 + 40 * _i);
    size_t n_now, n_later;
    char *now, *later;

    ck_assert_int_eq(pl_snapshot_write(&sample.input, NULL, path, &said.log),
                     PL_OK);
    pl_series_take(series, &sample.input);
    ck_assert(!is_there(1));
    snapshot_sample_close(&sample);
    pl_series_finish(series);

    now   = slurp(path, &n_now);
    later = slurp(name_of(1), &n_later);
    ck_assert_uint_eq(n_now, n_later);
    ck_assert_mem_eq(now, later, n_now);
    free(now);
    free(later);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* A name stands for a whole file at any moment; one at a time; the oldest goes
 * after the newest has come. */
START_TEST(one_after_another)
{
    snapshot_sample_t sample = make(1, 100);
    pl_series_cost_t cost;

    for (int number = 1; number <= 4; number++) {
        int n_steps = 0;

        pl_series_take(series, &sample.input);
        pl_series_take(series, &sample.input); /* skipped */
        while (pl_series_cost(series).written < number) {
            ck_assert(number < 3 || is_there(number - 2));
            pl_series_step(series);
            n_steps++;
        }
        ck_assert_int_gt(n_steps, 2);
        ck_assert(is_there(number));
        ck_assert(number < 3 || !is_there(number - 2));
        ck_assert(number < 2 || is_there(number - 1));
        pl_series_step(series); /* nothing is left to do */
    }
    cost = pl_series_cost(series);
    ck_assert_int_eq(cost.taken, 4);
    ck_assert_int_eq(cost.written, 4);
    ck_assert_int_eq(cost.skipped, 4);
    ck_assert_int_eq(cost.failed, 0);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(a_series_goes_on_behind_the_last)
{
    snapshot_sample_t sample = make(1, 100);
    char first[160];

    pl_series_take(series, &sample.input);
    pl_series_finish(series);
    (void)snprintf(first, sizeof(first), "%s", name_of(1));
    ck_assert_int_eq(rename(first, name_of(7)), 0);
    pl_series_take(series, &sample.input);
    pl_series_finish(series);
    ck_assert(is_there(7) && is_there(8));
    snapshot_sample_close(&sample);
}
END_TEST

/* Dropped in any slice: nothing is left of it, or all was done. */
START_TEST(what_is_not_finished_leaves_nothing)
{
    snapshot_sample_t sample = make(1, 100);

    pl_series_take(series, &sample.input);
    for (int i = 0; i < _i; i++) {
        pl_series_step(series);
    }
    pl_series_close(series);
    series = NULL;
    snapshot_sample_close(&sample);
}
END_TEST

/* Another run writes the name that would be next. */
START_TEST(runs_beside_each_other_take_other_numbers)
{
    snapshot_sample_t sample = make(1, 100);
    pl_series_t *other       = NULL;

    ck_assert_int_eq(pl_series_open(path, 2, &said.log, &other), PL_OK);
    pl_series_take(series, &sample.input);
    pl_series_take(other, &sample.input);
    pl_series_finish(other);
    ck_assert(is_there(2) && !is_there(1));
    pl_series_finish(series);
    ck_assert(is_there(1));
    ck_assert_int_eq(pl_series_cost(series).failed, 0);
    ck_assert_int_eq(said.n_lines, 0);
    pl_series_close(other);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(a_failure_is_told_once)
{
    snapshot_sample_t sample = make(1, 100);
    pl_series_t *nowhere     = NULL;

    ck_assert_int_eq(
        pl_series_open("no/such/folder/x.h5", 2, &said.log, &nowhere), PL_OK);
    for (int i = 0; i < 3; i++) {
        pl_series_take(nowhere, &sample.input);
        pl_series_step(nowhere);
    }
    ck_assert_int_eq(pl_series_cost(nowhere).failed, 3);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "no/such/folder/x.0001.h5"));
    pl_series_close(nowhere);
    snapshot_sample_close(&sample);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("series");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_is_written_is_the_moment_it_was_taken, 0,
                        6);
    tcase_add_test(tcase, one_after_another);
    tcase_add_test(tcase, a_series_goes_on_behind_the_last);
    tcase_add_loop_test(tcase, what_is_not_finished_leaves_nothing, 0, 6);
    tcase_add_test(tcase, runs_beside_each_other_take_other_numbers);
    tcase_add_test(tcase, a_failure_is_told_once);
    return tcase;
}

PL_CHECK_MAIN("series", all())
