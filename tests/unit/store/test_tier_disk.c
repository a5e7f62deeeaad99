#define _DEFAULT_SOURCE /* preadv */
/* A disk whose calls fail by themselves: fsync, fdatasync and preadv of this
 * program are its own. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/check.h"
#include "store/tier_internal.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/tier_sample.h"

enum { PAGE_BYTES = 384 };

/* Changed while the door's thread has nothing to do. */
static struct {
    int n_data_syncs;
    int bad_data_sync; /* this one fails, once, as on Linux; 0: none */
    bool folder_synced;
    bool is_too_late; /* the folder was not, when pages were */
    bool cannot_read;
} disk;

int fdatasync(int fd)
{
    (void)fd;
    disk.n_data_syncs++;
    disk.is_too_late = disk.is_too_late || !disk.folder_synced;
    if (disk.n_data_syncs == disk.bad_data_sync) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int fsync(int fd)
{
    struct stat about;

    if ((fstat(fd, &about) == 0) && S_ISDIR(about.st_mode)) {
        disk.folder_synced = true;
    }
    return 0;
}

/* The first piece is enough: callers go on. */
ssize_t preadv(int fd, const struct iovec *pieces, int n, off_t at)
{
    (void)n;
    if (disk.cannot_read) {
        errno = EIO;
        return -1;
    }
    return pread(fd, pieces->iov_base, pieces->iov_len, at);
}

static log_capture_t said;
static char folder[64];
static int64_t plain_bytes;

static void set_up(void)
{
    log_capture_open(&said);
    (void)strcpy(folder, access("/dev/shm", W_OK) == 0
                             ? "/dev/shm/tier-disk-XXXXXX"
                             : "tier-disk-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    memset(&disk, 0, sizeof(disk));
    plain_bytes = pl_segment_bytes;
}

static void tear_down(void)
{
    pl_segment_bytes = plain_bytes;
    tier_sample_empty(folder);
    (void)rmdir(folder);
    log_capture_close(&said);
}

/* ---- syncs ---- */

enum { JOB_PAGES = 80, JOBS = 3, SEGMENT_SLOTS = 2 };

typedef struct write {
    pl_storage_place_t places[JOB_PAGES];
    pl_storage_header_t headers[JOB_PAGES];
    pl_storage_piece_t pieces[JOB_PAGES];
    pl_tier_job_t job;
} write_t;

/* A batch: writes that follow each other, to more segments than can be open. */
static void make_batch(write_t *writes)
{
    static uint8_t page[PAGE_BYTES];

    for (int w = 0; w < JOBS; w++) {
        write_t *write = &writes[w];

        for (int i = 0; i < JOB_PAGES; i++) {
            write->places[i] = (pl_storage_place_t){0, 0, w * JOB_PAGES + i};
            write->headers[i] =
                (pl_storage_header_t){w + 1, (uint64_t)i + 1, 0};
            write->pieces[i] = (pl_storage_piece_t){page, sizeof(page)};
        }
        write->job =
            (pl_tier_job_t){.kind    = PL_TIER_WRITE,
                            .io      = {.n_pages = JOB_PAGES, .n_pieces = 1},
                            .places  = write->places,
                            .headers = write->headers,
                            .pieces  = write->pieces,
                            .next = w + 1 < JOBS ? &writes[w + 1].job : NULL};
    }
}

/* The batch while the k-th sync fails; false: there are less. */
static bool write_batch(int k)
{
    tier_sample_t sample =
        tier_sample_make(folder, 1, JOBS * JOB_PAGES, &said.log);
    write_t *writes = calloc(JOBS, sizeof(*writes));
    bool has_failed;

    disk.n_data_syncs  = 0;
    disk.bad_data_sync = k;
    pl_segment_bytes   = SEGMENT_SLOTS * PAGE_BYTES;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(sample.identity.page_bytes, PAGE_BYTES);
    make_batch(writes);
    pl_tier_write_jobs((pl_tier_t *)sample.doors[0], &writes[0].job, NULL);
    has_failed = disk.n_data_syncs >= k;
    for (int w = 0; w < JOBS; w++) {
        ck_assert_int_eq((int)writes[w].job.bad, has_failed ? 1 : 0);
    }
    if (has_failed) { /* nor is anything asked for again */
        ck_assert_int_eq(disk.n_data_syncs, k);
    }
    ck_assert(sample.doors[0]->ops->can_write(sample.doors[0]) == !has_failed);
    tier_sample_close(&sample);
    tier_sample_empty(folder);
    free(writes);
    return has_failed;
}

START_TEST(a_failed_sync_spoils_its_whole_batch)
{
    int k = 1;

    while (write_batch(k)) {
        k++;
    }
    ck_assert_int_gt(k, PL_TIER_HANDLES);
}
END_TEST

/* Segments that are closed on the way and opened again, the last a short one.
 */
START_TEST(many_segments_and_few_handles)
{
    enum { SLOTS = 131, PREFIXES = 2, LENGTH = 60 };
    tier_sample_t sample = tier_sample_make(folder, 1, SLOTS, &said.log);
    pl_check_report_t report;
    int32_t kept;

    pl_segment_bytes = SEGMENT_SLOTS * PAGE_BYTES;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    for (uint64_t prefix = 0; prefix < PREFIXES; prefix++) {
        ck_assert(tier_sample_store(&sample, prefix, 0, LENGTH));
    }
    ck_assert(tier_sample_store(&sample, PREFIXES, 0, SLOTS - 120));
    kept = (int32_t)pl_storage_n_kept(sample.storage);
    ck_assert_int_gt(kept, PL_TIER_HANDLES * SEGMENT_SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, PREFIXES + 1), kept);
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    ck_assert_int_eq(pl_check(folder, false, &said.log, &report), PL_OK);
    ck_assert_int_eq(report.good, kept);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, PREFIXES + 1), kept);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* ---- reads ---- */

START_TEST(a_segment_is_not_made_anew_for_a_hiccup)
{
    tier_sample_t sample = tier_sample_make(folder, 1, 40, &said.log);
    pl_check_report_t report;

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(tier_sample_store(&sample, 0, 0, 9));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    disk.cannot_read = true;
    ck_assert(!tier_sample_store(&sample, 1, 0, 5));
    disk.cannot_read = false;
    ck_assert_int_eq(said.n_lines, 1);
    tier_sample_close(&sample);

    disk.cannot_read = true;
    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_ERR_IO);
    ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_IO);
    disk.cannot_read = false;
    ck_assert_int_eq(said.n_lines, 3);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* ---- a machine that goes down after a run that died ---- */

enum { FEW_SLOTS = 8, FEW_PAGES = 7 };

/* Puts out an index, whose copy lies at `before`, then one without its pages;
 * dies before that one's name is on the disk. */
static void play(const char *before)
{
    tier_sample_t sample = tier_sample_make(folder, 1, FEW_SLOTS, &said.log);
    pl_inject_t inject   = {0};
    char path[128];

    if (pl_inject_parse(&inject, "die=publish-folder@count:2", NULL) != PL_OK) {
        abort();
    }
    (void)snprintf(path, sizeof(path), "%s/index.h5", folder);
    sample.inject = &inject;
    if ((tier_sample_open(&sample) != PL_OK) ||
        !tier_sample_store(&sample, 0, 0, FEW_PAGES) ||
        !tier_sample_publish(&sample) || (link(path, before) != 0)) {
        abort();
    }
    (void)tier_sample_store(&sample, 1, 0, FEW_PAGES); /* there is no room */
    (void)tier_sample_publish(&sample);
    abort();
}

/* What the next run builds on cannot be taken back. */
START_TEST(an_index_stays_that_the_next_run_has_read)
{
    tier_sample_t sample = tier_sample_make(folder, 1, FEW_SLOTS, &said.log);
    char before[128], path[128];
    int ended   = 0;
    pid_t child = fork();

    (void)snprintf(before, sizeof(before), "%s.before", folder);
    (void)snprintf(path, sizeof(path), "%s/index.h5", folder);
    if (child == 0) {
        play(before);
    }
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    ck_assert(WIFSIGNALED(ended) && (WTERMSIG(ended) == SIGKILL));

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_lt(sample.content.start.n_entries, FEW_PAGES);
    ck_assert(tier_sample_store(&sample, 1, 0, FEW_PAGES));
    ck_assert_int_gt(disk.n_data_syncs, 0);
    tier_sample_close(&sample);
    if (disk.is_too_late) {
        ck_assert_int_eq(rename(before, path), 0);
    }
    (void)unlink(before);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 2),
                     sample.content.start.n_entries);
    tier_sample_close(&sample);
}
END_TEST

TCase *case_disk(void);
TCase *case_disk(void)
{
    TCase *tests = tcase_create("disk");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_failed_sync_spoils_its_whole_batch);
    tcase_add_test(tests, many_segments_and_few_handles);
    tcase_add_test(tests, a_segment_is_not_made_anew_for_a_hiccup);
    tcase_add_test(tests, an_index_stays_that_the_next_run_has_read);
    return tests;
}

PL_CHECK_MAIN("tier_disk", case_disk())
