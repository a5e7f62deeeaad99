/* What a tier's index names is on disk, whole, and nobody else's. */
#include "store/tier.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/check.h"
#include "store/tier_folder.h"
#include "store/tier_index.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/tier_sample.h"

enum { SLOTS = 40 };

static log_capture_t said;
static char folder[64];

static void set_up(void)
{
    log_capture_open(&said);
    (void)strcpy(folder, "tier-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down(void)
{
    tier_sample_empty(folder);
    (void)rmdir(folder);
    log_capture_close(&said);
}

static tier_sample_t open_sample(int n_ranks, int32_t n_slots)
{
    tier_sample_t sample =
        tier_sample_make(folder, n_ranks, n_slots, &said.log);

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    return sample;
}

static int n_files(const char *begin)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    int n = 0;

    while ((entry = readdir(open)) != NULL) {
        n += strncmp(entry->d_name, begin, strlen(begin)) == 0 ? 1 : 0;
    }
    (void)closedir(open);
    return n;
}

/* ---- there and back ---- */

static const int RANKS[] = {1, 2, 3, 4, 8};

START_TEST(what_was_published_is_there)
{
    tier_sample_t sample = open_sample(RANKS[_i], SLOTS);

    ck_assert(tier_sample_store(&sample, 0, 0, 7));
    ck_assert(tier_sample_store(&sample, 0, 7, 1));
    ck_assert(tier_sample_store(&sample, 1, 0, 20));
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 2), 28);
    ck_assert(tier_sample_publish(&sample));
    ck_assert(tier_sample_store(&sample, 2, 0, 5)); /* of no index */
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 3), 33);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);

    sample = open_sample(RANKS[_i], SLOTS);
    ck_assert_ptr_null(sample.content.mismatch);
    ck_assert_int_eq(sample.content.start.n_entries, 28);
    ck_assert_int_eq(sample.content.start.own_set, 0);
    ck_assert_int_eq(sample.content.n_ranks, RANKS[_i]);
    ck_assert_int_eq(sample.content.n_slots, SLOTS);
    ck_assert_int_eq(sample.content.n_requests, 3);
    ck_assert_int_eq(sample.content.finished[1], 0);
    ck_assert_int_eq(sample.content.finished[2], 1);
    ck_assert_uint_eq(sample.content.trace, 77);
    /* Greater than the stamp of what no index names. */
    ck_assert_int_eq(sample.content.start.next_stamp, 5);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 3), 28);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* Everything stays, in another set; the old segments go with their last page.
 */
START_TEST(another_number_of_ranks_reads_it_all)
{
    tier_sample_t sample = open_sample(3, SLOTS);

    ck_assert(tier_sample_store(&sample, 0, 0, 30));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);

    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(sample.content.start.own_set, 1);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 30);
    ck_assert(tier_sample_store(&sample, 1, 0, 10));
    ck_assert(tier_sample_publish(&sample));
    ck_assert_int_eq(n_files("set0-"), 3);
    tier_sample_close(&sample);

    sample = open_sample(3, SLOTS);
    ck_assert_int_eq(sample.content.start.own_set, 0);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 2), 40);
    tier_sample_close(&sample);

    sample = open_sample(1, 12); /* too small for what is there */
    ck_assert_int_eq(sample.content.start.own_set, 2);
    ck_assert(tier_sample_store(&sample, 2, 0, 12));
    ck_assert(tier_sample_publish(&sample));
    ck_assert(tier_sample_fetch_all(&sample, 3) >= 12);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

START_TEST(segments_of_nothing_go)
{
    tier_sample_t sample = open_sample(2, SLOTS);

    ck_assert(tier_sample_store(&sample, 0, 0, 3));
    tier_sample_close(&sample); /* nothing was published */

    sample = open_sample(2, SLOTS);
    ck_assert_ptr_nonnull(sample.content.mismatch);
    ck_assert_int_eq(sample.content.start.own_set, 1);
    ck_assert_int_eq(sample.content.start.next_stamp, 2);
    ck_assert(tier_sample_store(&sample, 1, 0, 3));
    ck_assert_int_eq(n_files("set0-"), 2);
    ck_assert(tier_sample_publish(&sample));
    ck_assert_int_eq(n_files("set0-"), 0);
    ck_assert_int_eq(n_files("set1-"), 2);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 2), 3);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* A share of two segments: slots of pages of a MiB. */
START_TEST(a_share_may_have_many_segments)
{
    tier_sample_t sample = tier_sample_make(folder, 1, 70, &said.log);

    sample.page_tokens = 512;
    sample.row_bytes   = 512;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(sample.identity.page_bytes, 1 << 20);
    ck_assert(tier_sample_store(&sample, 0, 0, 60));
    ck_assert(tier_sample_store(&sample, 1, 0, 8));
    ck_assert_int_eq(n_files("set0-rank0-"), 2);
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 2), 68);
    tier_sample_close(&sample);
}
END_TEST

/* ---- what is not ours ---- */

static void fill(void)
{
    tier_sample_t sample = open_sample(2, SLOTS);

    ck_assert(tier_sample_store(&sample, 0, 0, 9));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
}

START_TEST(another_identity_gets_nothing_and_is_told_why)
{
    static const struct {
        const char *dtype;
        int32_t page_tokens, n_layers, row_bytes;
        const char *why;
    } CASES[] = {
        {"bf16", 4, 2, 24, "its pages are stamp, this run's are bf16: none"},
        {"stamp", 8, 2, 24, "its pages have 4 tokens, this run's 8: none"},
        {"stamp", 4, 3, 24, "its pages have 2 layers, this run's 3: none"},
        {"stamp", 4, 2, 32, "laid out otherwise (384 bytes, this run's 512)"},
    };
    tier_sample_t sample = tier_sample_make(folder, 2, SLOTS, &said.log);

    fill();
    sample.dtype       = CASES[_i].dtype;
    sample.page_tokens = CASES[_i].page_tokens;
    sample.n_layers    = CASES[_i].n_layers;
    sample.row_bytes   = CASES[_i].row_bytes;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(sample.content.is_foreign);
    ck_assert_ptr_nonnull(strstr(sample.content.mismatch, CASES[_i].why));
    ck_assert_int_eq(sample.content.start.n_entries, 0);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 0);
    ck_assert(!tier_sample_store(&sample, 0, 0, 9)); /* and keeps what it has */
    ck_assert(!tier_sample_publish(&sample));
    tier_sample_close(&sample);

    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

START_TEST(one_run_at_a_time_writes)
{
    tier_sample_t sample = open_sample(1, SLOTS);
    tier_sample_t second = tier_sample_make(folder, 1, SLOTS, &said.log);

    ck_assert_int_eq(tier_sample_open(&second), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(said.text, "another run is writing it"));
    /* Rank 0 is gone; a door of another can still write. */
    pl_tier_release(sample.lock);
    sample.lock = NULL;
    ck_assert_int_eq(tier_sample_open(&second), PL_ERR_INPUT);
    second.read_only = true;
    ck_assert_int_eq(tier_sample_open(&second), PL_OK);
    tier_sample_close(&second);
    tier_sample_close(&sample);
    second.read_only = false;
    ck_assert_int_eq(tier_sample_open(&second), PL_OK);
    tier_sample_close(&second);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
    tier_sample_t sample = tier_sample_make(folder, 1, SLOTS, &said.log);
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/letter.txt", folder);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(said.text, "holds 'letter.txt'"));
    ck_assert_int_eq(n_files("lock"), 0);
}
END_TEST

START_TEST(readers_touch_nothing)
{
    tier_sample_t sample = tier_sample_make(folder, 2, SLOTS, &said.log);

    fill();
    sample.read_only = true;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(!sample.doors[0]->ops->can_write(sample.doors[0]));
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* ---- damage ---- */

static void change(const char *name, long at, int bits)
{
    char path[128];
    FILE *file;
    int byte;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    byte = fgetc(file);
    ck_assert_int_eq(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    ck_assert_int_ne(fputc(byte ^ bits, file), EOF);
    ck_assert_int_eq(fclose(file), 0);
}

static void shorten(const char *name, off_t n)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(truncate(path, n), 0);
}

START_TEST(a_damaged_index_is_none)
{
    pl_check_report_t report;
    tier_sample_t sample;

    fill();
    if (_i == 0) {
        change("index.h5", 700, 4);
    } else if (_i == 1) {
        change("index.h5", -200, 1);
    } else if (_i == 2) {
        shorten("index.h5", 500);
    } else if (_i == 3) {
        shorten("index.h5", 0);
    } else { /* nobody reads a hole of that size to find that it is none */
        shorten("index.h5", (off_t)1 << 40);
    }
    sample = open_sample(2, SLOTS);
    ck_assert_ptr_nonnull(sample.content.mismatch);
    ck_assert(!sample.content.is_foreign);
    ck_assert_int_eq(sample.content.start.own_set, 1);
    ck_assert(tier_sample_store(&sample, 0, 0, 9));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
    /* What it named is left to a repair. */
    ck_assert_int_eq(n_files("set0-"), 2);
    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_OK);
    ck_assert_int_eq(n_files("set0-"), 0);
    ck_assert_int_eq(report.good, 9);
}
END_TEST

/* Something stands under the name and cannot be opened: a link to itself; or
 * what it hid is there again. */
static void hide(const char *name, bool again)
{
    char path[128], away[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)snprintf(away, sizeof(away), "%s.away", folder);
    if (again) {
        ck_assert_int_eq(rename(away, path), 0);
    } else {
        ck_assert_int_eq(rename(path, away), 0);
        ck_assert_int_eq(symlink(name, path), 0);
    }
}

/* ... is not lost: the run does not begin. */
START_TEST(an_index_that_cannot_be_read)
{
    tier_sample_t sample = tier_sample_make(folder, 2, SLOTS, &said.log);

    fill();
    hide("index.h5", false);
    for (int i = 0; i < 2; i++) {
        sample.read_only = i == 1;
        ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_IO);
        ck_assert_int_eq(said.n_lines, i + 1);
        ck_assert_ptr_nonnull(strstr(said.text, "its pages are kept"));
    }
    hide("index.h5", true);
    ck_assert_int_eq(n_files("set0-"), 2);
    ck_assert_int_eq(n_files("set1-"), 0);
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* ... has no pages now, which says nothing of what it has: an index without
 * them is not put out, and it is neither made anew nor removed. */
START_TEST(a_segment_that_cannot_be_read)
{
    static const char NAME[] = "set0-rank1-0000.h5";
    tier_sample_t sample     = tier_sample_make(folder, 3, SLOTS, &said.log);
    pl_check_report_t report;

    fill();
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(sample.content.start.own_set, 1);
    ck_assert(tier_sample_store(&sample, 1, 0, 9));
    hide(NAME, false);
    ck_assert(!tier_sample_publish(&sample));
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert(!sample.doors[0]->ops->can_write(sample.doors[0]));
    tier_sample_close(&sample);

    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(said.text, NAME));
    ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_IO);
    ck_assert_int_eq(said.n_lines, 3);
    hide(NAME, true);
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* ... keeps its pages in the directory: they are read the next time.  What is
 * gone or too short for certain is dropped. */
START_TEST(pages_that_cannot_be_read_now_stay)
{
    static const char NAME[] = "set0-rank1-0000.h5";
    char path[128];
    tier_sample_t sample;

    fill();
    sample = open_sample(2, SLOTS);
    hide(NAME, false);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 1);
    ck_assert_int_eq(pl_storage_counters(sample.storage)->unread_pages, 8);
    ck_assert_int_eq(pl_storage_counters(sample.storage)->bad_pages, 0);
    hide(NAME, true);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);

    sample = open_sample(2, SLOTS);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, NAME);
    ck_assert_int_eq(_i == 0   ? unlink(path)
                     : _i == 1 ? truncate(path, 9000)
                               : truncate(path, 0),
                     0);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 1);
    ck_assert_int_eq(pl_storage_counters(sample.storage)->unread_pages, 0);
    ck_assert_int_eq(pl_storage_counters(sample.storage)->bad_pages, 8);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

static void change_index(pl_tier_index_t *index, int which)
{
    pl_storage_entry_t *entry = &index->entries[5];

    switch (which) {
    case 0:
        entry->position = INT32_MAX;
        break;
    case 1:
        entry->position = INT32_MAX / index->page_tokens;
        break;
    case 2:
        entry->place.slot = SLOTS;
        break;
    case 3:
        entry->place.set = 1;
        break;
    case 4:
        index->own_set = index->sets[0].number = PL_TIER_MOST_SETS;
        break;
    case 5:
        index->sets[0].slots = INT32_MAX;
        break;
    case 6:
        index->settled_stamp = index->next_stamp;
        break;
    default:
        index->next_stamp = entry->stamp;
    }
}

START_TEST(an_index_that_nobody_would_read_is_not_put_out)
{
    pl_tier_index_t index;
    tier_sample_t sample;
    char path[128];

    fill();
    (void)snprintf(path, sizeof(path), "%s/index.h5", folder);
    ck_assert_int_eq(pl_tier_index_read(path, &said.log, &index), PL_OK);
    change_index(&index, _i);
    ck_assert_int_eq(
        pl_tier_index_publish(&index, folder, NULL, NULL, 0, &said.log),
        PL_ERR_INTERNAL);
    ck_assert_int_eq(said.n_lines, 1);
    pl_tier_index_free(&index);
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* A number that no index can have is no segment's; the greatest that one can
 * have leaves room for the next. */
START_TEST(segments_from_elsewhere)
{
    static const char *const NAMES[] = {
        "set999999999-rank0-0000.h5", "set1000000-rank0-0000.h5",
        "set0-rank4096-0000.h5", "set999999-rank0-999999999.h5"};
    tier_sample_t sample = tier_sample_make(folder, 1, SLOTS, &said.log);
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, NAMES[_i]);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    if (_i < 3) {
        ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(said.text, "is no part of a storage"));
        return;
    }
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(sample.content.start.own_set, 0);
    ck_assert(tier_sample_store(&sample, 0, 0, 9));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    sample = open_sample(1, SLOTS);
    ck_assert_ptr_null(sample.content.mismatch);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 1), 9);
    tier_sample_close(&sample);
}
END_TEST

/* Where headers and pages of a segment lie. */
static pl_segment_form_t form_of(pl_segment_name_t name)
{
    int fd          = pl_tier_open_segment(folder, name);
    const char *why = "";
    pl_segment_form_t form;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pl_segment_check(fd, name, &form, &why), PL_OK);
    (void)close(fd);
    return form;
}

/* A bit of what all slots have at that place. */
static void change_slots(const char *name, uint64_t first, int64_t step)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        change(name, (long)first + slot * step, 16);
    }
}

/* Pages that are lost are misses, all others are right. */
START_TEST(damaged_segments_are_misses)
{
    static const char NAME[] = "set0-rank1-0000.h5";
    pl_segment_form_t form;
    tier_sample_t sample;

    fill();
    form = form_of((pl_segment_name_t){0, 1, 0});
    switch (_i) {
    case 0:
        change(NAME, 5, 1); /* block */
        break;
    case 1:
        change(NAME, PL_SEGMENT_BLOCK + 4, 1); /* what HDF5 reads */
        break;
    case 2:
        change_slots(NAME, form.headers_at + 8, PL_HEADER_BYTES); /* chain */
        break;
    case 3:
        change_slots(NAME, form.headers_at + 16, PL_HEADER_BYTES); /* digest */
        break;
    case 4:
        change_slots(NAME, form.pages_at + 100, form.page_bytes);
        break;
    case 5:
        shorten(NAME, PL_SEGMENT_BLOCK);
        break;
    case 6:
        shorten(NAME, (off_t)form.bytes - 1);
        break;
    default:
        shorten(NAME, 0);
    }
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(sample.content.start.n_entries, 9);
    ck_assert_int_ge(tier_sample_fetch_all(&sample, 1), 0);
    ck_assert_int_lt(tier_sample_fetch_all(&sample, 1), 9);
    ck_assert(tier_sample_store(&sample, 3, 0, 20));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    sample = open_sample(2, SLOTS);
    ck_assert_int_eq(tier_sample_fetch(&sample, 3), 20);
    ck_assert_int_lt(tier_sample_fetch(&sample, 0), 9);
    tier_sample_close(&sample);
}
END_TEST

TCase *case_there_and_back(void);
TCase *case_there_and_back(void)
{
    TCase *tests = tcase_create("there and back");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, what_was_published_is_there, 0,
                        sizeof(RANKS) / sizeof(RANKS[0]));
    tcase_add_test(tests, another_number_of_ranks_reads_it_all);
    tcase_add_test(tests, segments_of_nothing_go);
    tcase_add_test(tests, a_share_may_have_many_segments);
    return tests;
}

TCase *case_not_ours(void);
TCase *case_not_ours(void)
{
    TCase *tests = tcase_create("not ours");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, another_identity_gets_nothing_and_is_told_why, 0,
                        4);
    tcase_add_test(tests, one_run_at_a_time_writes);
    tcase_add_test(tests, other_files_are_left_alone);
    tcase_add_test(tests, readers_touch_nothing);
    tcase_add_loop_test(tests, a_damaged_index_is_none, 0, 5);
    tcase_add_loop_test(tests, damaged_segments_are_misses, 0, 8);
    tcase_add_test(tests, an_index_that_cannot_be_read);
    tcase_add_test(tests, a_segment_that_cannot_be_read);
    tcase_add_loop_test(tests, pages_that_cannot_be_read_now_stay, 0, 3);
    tcase_add_loop_test(tests, segments_from_elsewhere, 0, 4);
    tcase_add_loop_test(tests, an_index_that_nobody_would_read_is_not_put_out,
                        0, 8);
    return tests;
}

PL_CHECK_MAIN("tier", case_there_and_back(), case_not_ours())
