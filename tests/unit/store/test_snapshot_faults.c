/* Whatever breaks at whatever call while a snapshot is written: at its place
 * stands the last one or the new one, whole. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/check.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/snapshot_sample.h"

enum { MOST_CALLS = 40 };

static log_capture_t said;
static char folder[64];
static char path[128], partial[160];
static snapshot_sample_t old, new;

static void set_up(void)
{
    snapshot_sample_params_t params = snapshot_sample_params(1);

    log_capture_open(&said);
    (void)strcpy(folder, access("/dev/shm", W_OK) == 0
                             ? "/dev/shm/snapshot-faults-XXXXXX"
                             : "snapshot-faults-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/s.h5", folder);
    (void)snprintf(partial, sizeof(partial), "%s.partial", path);
    params.n_requests = 5;
    ck_assert_int_eq(snapshot_sample_run(&params, NULL, &old), PL_OK);
    params.n_requests = 9;
    ck_assert_int_eq(snapshot_sample_run(&params, NULL, &new), PL_OK);
}

static void tear_down(void)
{
    snapshot_sample_close(&old);
    snapshot_sample_close(&new);
    (void)unlink(path);
    (void)unlink(partial);
    (void)rmdir(folder);
    log_capture_close(&said);
}

static const char *const FAULTS[] = {"file=fail", "file=short", "file=lost",
                                     "disk=full"};

static pl_inject_t inject_of(const char *point, int count)
{
    pl_inject_t inject = {0};
    char text[64];

    (void)snprintf(text, sizeof(text), "%s@count:%d", point, count);
    ck_assert_int_eq(pl_inject_parse(&inject, text, &said.log), PL_OK);
    return inject;
}

/* In a process of its own: 0 written, 1 refused, 2 the process was killed. */
static int write_new(const pl_inject_t *inject)
{
    int ended   = 0;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pl_files_journal_t *journal = NULL;
        pl_status_t status;

        if ((pl_files_journal_open(inject, &journal) != PL_OK) ||
            (pl_files_open(inject, 0, journal, &new.input.files) != PL_OK)) {
            _exit(3);
        }
        status = pl_snapshot_write(&new.input, NULL, path, NULL);
        _exit(status == PL_OK ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    ck_assert(!WIFEXITED(ended) || (WEXITSTATUS(ended) <= 1));
    return WIFSIGNALED(ended) ? 2 : WEXITSTATUS(ended);
}

static int64_t bytes_of_it(void)
{
    pl_check_report_t report;

    ck_assert_int_eq(pl_check(path, false, &said.log, &report), PL_OK);
    ck_assert_int_eq(pl_check_total(&report), 0);
    return report.bytes;
}

START_TEST(the_last_good_one_or_the_new_one)
{
    int64_t before, after;
    int outcome = 1;
    int k       = 0;

    ck_assert_int_eq(pl_snapshot_write(&new.input, NULL, path, &said.log),
                     PL_OK);
    after = bytes_of_it();
    while (outcome != 0) {
        pl_inject_t inject = inject_of(FAULTS[_i], ++k);
        int64_t found;

        ck_assert_int_lt(k, MOST_CALLS);
        ck_assert_int_eq(pl_snapshot_write(&old.input, NULL, path, &said.log),
                         PL_OK);
        before  = bytes_of_it();
        outcome = write_new(&inject);
        found   = bytes_of_it();
        ck_assert_int_ne(before, after);
        ck_assert((found == before) || (found == after));
        ck_assert((outcome != 0) || (found == after));
    }
    ck_assert_int_gt(k, 3);
}
END_TEST

TCase *case_snapshot_faults(void);
TCase *case_snapshot_faults(void)
{
    TCase *tests = tcase_create("snapshot faults");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, the_last_good_one_or_the_new_one, 0, 4);
    return tests;
}

PL_CHECK_MAIN("snapshot_faults", case_snapshot_faults())
