/* Whatever is wrong in a tier is found under its name; a repair keeps what is
 * good and nothing else. */
#include "store/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/tier_folder.h"
#include "store/tier_index.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/tier_sample.h"

enum { RANKS = 2, SLOTS = 40, PAGES = 30, PREFIXES = 3, PAGE_BYTES = 384 };

/* Slots of a segment, for shares of one, and of ten. */
static const int32_t SEGMENT_SLOTS[] = {SLOTS, 4};
static int32_t segment_slots;

static log_capture_t said;
static char folder[64];

static tier_sample_t open_sample(void)
{
    tier_sample_t sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    return sample;
}

static void set_up(void)
{
    log_capture_open(&said);
    (void)strcpy(folder, "check-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Three prefixes of ten pages, published. */
static void fill(int32_t slots)
{
    tier_sample_t sample;

    segment_slots    = slots;
    pl_segment_bytes = (int64_t)slots * PAGE_BYTES;
    sample           = open_sample();
    ck_assert_int_eq(sample.identity.page_bytes, PAGE_BYTES);
    for (uint64_t prefix = 0; prefix < PREFIXES; prefix++) {
        ck_assert(tier_sample_store(&sample, prefix, 0, PAGES / PREFIXES));
    }
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
}

static void tear_down(void)
{
    tier_sample_empty(folder);
    (void)rmdir(folder);
    log_capture_close(&said);
}

static pl_check_report_t look(bool repair)
{
    pl_check_report_t report;

    ck_assert_int_eq(pl_check(folder, repair, &said.log, &report), PL_OK);
    ck_assert(!report.is_snapshot);
    return report;
}

/* ---- ways to break it ---- */

static pl_tier_index_t read_index(void)
{
    pl_tier_index_t index;
    char *path = pl_tier_path(folder, PL_TIER_INDEX);

    ck_assert_int_eq(pl_tier_index_read(path, &said.log, &index), PL_OK);
    free(path);
    return index;
}

static void write_index(pl_tier_index_t *index)
{
    ck_assert_int_eq(
        pl_tier_index_publish(index, folder, NULL, NULL, 0, &said.log), PL_OK);
    pl_tier_index_free(index);
}

/* The file of a slot's segment, open, and where things lie in it. */
static int open_segment(int rank, int32_t slot, pl_segment_form_t *form)
{
    pl_segment_name_t name = {0, rank, slot / segment_slots};
    char text[PL_SEGMENT_NAME_BYTES];
    const char *why = "";
    char *path;
    int fd = pl_tier_open_segment(folder, name);

    ck_assert_int_eq(pl_segment_check(fd, name, form, &why), PL_OK);
    (void)close(fd);
    pl_segment_name_text(name, text);
    path = pl_tier_path(folder, text);
    fd   = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    free(path);
    return fd;
}

static void flip(int fd, uint64_t at)
{
    uint8_t byte = 0;

    ck_assert_int_eq(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 8;
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
}

static void leave_partial(void)
{
    char *path = pl_tier_path(folder, PL_TIER_INDEX ".partial");
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    (void)fputs("half an index", file);
    (void)fclose(file);
    free(path);
}

static void store_more(void)
{
    tier_sample_t sample = open_sample();

    ck_assert(tier_sample_store(&sample, 7, 0, 5));
    tier_sample_close(&sample);
}

static void store_elsewhere(void)
{
    tier_sample_t sample =
        tier_sample_make(folder, RANKS + 1, SLOTS, &said.log);

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(tier_sample_store(&sample, 7, 0, 5));
    tier_sample_close(&sample);
}

static void make_overlap(void)
{
    pl_tier_index_t index  = read_index();
    index.entries[4].place = index.entries[9].place;
    write_index(&index);
}

static void make_double(void)
{
    pl_tier_index_t index = read_index();
    index.entries[4]      = index.entries[9];
    write_index(&index);
}

/* The entry of the fourth page of some prefix goes. */
static void make_hole(void)
{
    pl_tier_index_t index = read_index();
    int32_t i             = 0;

    while (index.entries[i].position != 3) {
        i++;
    }
    index.n_entries--;
    index.entries[i] = index.entries[index.n_entries];
    index.digests[i] = index.digests[index.n_entries];
    write_index(&index);
}

static void change_owner(void)
{
    pl_tier_index_t index  = read_index();
    index.entries[3].owner = (pl_owner_t)(1 - index.entries[3].owner);
    write_index(&index);
}

static void change_chain(void)
{
    pl_tier_index_t index = read_index();
    index.entries[3].key.hi++;
    write_index(&index);
}

static void change_digest(void)
{
    pl_tier_index_t index = read_index();
    index.digests[3]++;
    write_index(&index);
}

static void change_page(void)
{
    pl_tier_index_t index = read_index();
    pl_storage_place_t at = index.entries[5].place;
    pl_segment_form_t form;
    int fd = open_segment(at.rank, at.slot, &form);

    flip(fd, form.pages_at +
                 (uint64_t)(at.slot % segment_slots * form.page_bytes) + 7);
    (void)close(fd);
    pl_tier_index_free(&index);
}

static void change_header(void)
{
    pl_tier_index_t index = read_index();
    pl_storage_place_t at = index.entries[5].place;
    pl_segment_form_t form;
    int fd = open_segment(at.rank, at.slot, &form);

    flip(fd, form.headers_at +
                 (uint64_t)(at.slot % segment_slots * PL_HEADER_BYTES));
    (void)close(fd);
    pl_tier_index_free(&index);
}

/* A stamp that no write had, in the last slot of a segment. */
static void write_nonsense_at(int rank, int32_t slot)
{
    const uint8_t byte = 0x80; /* it is negative */
    pl_segment_form_t form;
    int fd       = open_segment(rank, slot, &form);
    uint64_t end = form.headers_at + (uint64_t)form.slots * PL_HEADER_BYTES;

    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)end - 17), 1);
    (void)close(fd);
}

/* ... where no page is: each rank has fifteen. */
static void write_nonsense(void)
{
    write_nonsense_at(1, PAGES / RANKS);
}

static void tear_segment(void)
{
    pl_segment_form_t form;
    int fd = open_segment(1, 0, &form);

    ck_assert_int_eq(ftruncate(fd, (off_t)form.bytes - 1), 0);
    (void)close(fd);
}

static void lose_segment(void)
{
    char *path = pl_tier_path(folder, "set0-rank1-0000.h5");

    ck_assert_int_eq(unlink(path), 0);
    free(path);
}

static void damage_index(void)
{
    char *path = pl_tier_path(folder, PL_TIER_INDEX);
    int fd     = open(path, O_RDWR);

    flip(fd, 3000);
    (void)close(fd);
    free(path);
}

static void lose_index(void)
{
    char *path = pl_tier_path(folder, PL_TIER_INDEX);

    ck_assert_int_eq(unlink(path), 0);
    free(path);
}

static const struct {
    void (*break_it)(void);
    pl_check_kind_t kind;
    int least_good, most_good; /* pages that a repair keeps; more, where a
                                  segment is a part of a share */
} CASES[] = {
    {leave_partial, PL_CHECK_UNFINISHED, PAGES, PAGES},
    {store_more, PL_CHECK_ORPHAN, PAGES, PAGES},
    {store_elsewhere, PL_CHECK_ORPHAN, PAGES, PAGES},
    {write_nonsense, PL_CHECK_ORPHAN, PAGES, PAGES},
    {make_overlap, PL_CHECK_OVERLAP, PAGES - 10, PAGES - 1},
    {make_double, PL_CHECK_DOUBLED, PAGES - 10, PAGES - 1},
    {make_hole, PL_CHECK_MISSING, PAGES - 7, PAGES - 7},
    {change_owner, PL_CHECK_OWNERS, PAGES - 10, PAGES - 1},
    {change_chain, PL_CHECK_CHAIN, PAGES - 10, PAGES - 1},
    {change_digest, PL_CHECK_DIGEST, PAGES - 10, PAGES - 1},
    {change_page, PL_CHECK_DIGEST, PAGES - 10, PAGES - 1},
    {change_header, PL_CHECK_MISSING, PAGES - 10, PAGES - 1},
    {tear_segment, PL_CHECK_TORN, 0, PREFIXES},
    {lose_segment, PL_CHECK_MISSING, 0, PREFIXES},
    {damage_index, PL_CHECK_INDEX, 0, 0},
    {lose_index, PL_CHECK_INDEX, 0, 0},
};

enum { N_CASES = sizeof(CASES) / sizeof(CASES[0]) };

/* Is that what is left, of one segment a rank or of many? */
static void expect_good(int i, bool is_many, int64_t good)
{
    if (is_many && (CASES[i].most_good == PREFIXES)) {
        ck_assert_int_ge(good, PAGES / PREFIXES * 2);
        ck_assert_int_lt(good, PAGES);
    } else {
        ck_assert_int_ge(good, CASES[i].least_good);
        ck_assert_int_le(good, CASES[i].most_good);
    }
}

/* The next run finds it, and goes on. */
static void go_on(int64_t good)
{
    tier_sample_t sample = open_sample();
    pl_check_report_t report;

    ck_assert_int_eq(tier_sample_fetch_all(&sample, PREFIXES), good);
    ck_assert(tier_sample_store(&sample, 8, 0, 5));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    report = look(false);
    ck_assert_int_eq(pl_check_total(&report), 0);
    ck_assert_int_eq(report.pages, good + 5);
}

START_TEST(what_is_wrong_is_found_and_repaired)
{
    bool is_many = _i >= N_CASES;
    int i        = _i % N_CASES;
    pl_check_report_t report;
    int64_t good;

    fill(SEGMENT_SLOTS[is_many ? 1 : 0]);
    CASES[i].break_it();
    report = look(false);
    ck_assert_int_gt(report.found[CASES[i].kind].count, 0);
    ck_assert_int_ne(report.found[CASES[i].kind].first[0], '\0');
    good = report.good;
    expect_good(i, is_many, good);
    /* Each page is good, found, or behind one that is not good. */
    ck_assert_int_ge(report.behind, 0);
    ck_assert_int_le(report.pages - good - report.behind,
                     pl_check_total(&report));
    report = look(false);
    ck_assert_int_eq(report.good, good); /* looking changes nothing */

    report = look(true);
    ck_assert(report.is_repaired);
    ck_assert_int_eq(report.good, good);
    report = look(false);
    ck_assert_msg(pl_check_total(&report) == 0, "kind %d still", i);
    ck_assert_int_eq(report.pages, good);
    ck_assert_int_eq(report.good, good);
    go_on(good);
}
END_TEST

START_TEST(nothing_is_wrong_with_what_was_published)
{
    pl_check_report_t report;

    fill(SEGMENT_SLOTS[_i]);
    report = look(true);
    ck_assert_int_eq(pl_check_total(&report), 0);
    ck_assert(!report.is_repaired);
    ck_assert_int_eq(report.pages, PAGES);
    ck_assert_int_eq(report.good, PAGES);
    ck_assert_int_gt(report.bytes, 0);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* Segments of 8, 8 and 2 slots: the last slot of the last, and no other, is
 * cleared; every page stays. */
START_TEST(a_repair_touches_no_page_of_another_segment)
{
    enum { FEW_SLOTS = 18, FEW_PAGES = 17 };
    tier_sample_t sample = tier_sample_make(folder, 1, FEW_SLOTS, &said.log);
    pl_check_report_t report;

    segment_slots    = 8;
    pl_segment_bytes = (int64_t)segment_slots * PAGE_BYTES;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(tier_sample_store(&sample, 0, 0, FEW_PAGES));
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    write_nonsense_at(0, FEW_SLOTS - 1);
    report = look(true);
    ck_assert_int_eq(report.found[PL_CHECK_ORPHAN].count, 1);
    ck_assert_int_eq(report.good, FEW_PAGES);
    report = look(false);
    ck_assert_int_eq(pl_check_total(&report), 0);
    ck_assert_int_eq(report.good, FEW_PAGES);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch(&sample, 0), FEW_PAGES);
    tier_sample_close(&sample);
}
END_TEST

START_TEST(a_tier_in_use_is_left_alone)
{
    tier_sample_t sample;
    pl_check_report_t report;

    fill(SEGMENT_SLOTS[0]);
    sample = open_sample();
    ck_assert_int_eq(pl_check(folder, false, &said.log, &report), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(said.text, "another run is writing it"));
    tier_sample_close(&sample);
}
END_TEST

START_TEST(other_folders_are_no_tier)
{
    pl_check_report_t report;
    char *path = pl_tier_path(folder, "letter.txt");
    FILE *file;

    tier_sample_empty(folder);
    report = look(true); /* but nothing is wrong with an empty one */
    ck_assert_int_eq(pl_check_total(&report), 0);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    free(path);
    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(said.text, "is no storage tier"));
    ck_assert_int_eq(pl_check("not-there", true, &said.log, &report),
                     PL_ERR_INPUT);
}
END_TEST

/* What somebody keeps there is not ours to remove, whatever its name. */
START_TEST(a_file_of_somebody_is_kept)
{
    static const struct {
        const char *name;
        bool in_a_tier;
    } FILES[]  = {{"index.h5", false}, {"notes.txt", true}, {"index.h5", true}};
    char *path = pl_tier_path(folder, FILES[_i].name);
    pl_check_report_t report;
    tier_sample_t sample;
    FILE *file;

    if (FILES[_i].in_a_tier) {
        fill(SEGMENT_SLOTS[0]);
        leave_partial();
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fputs("what somebody has written, and wants to keep, in a file that "
                "is as long as a seal, or longer",
                file);
    (void)fclose(file);
    ck_assert_int_eq(pl_check(folder, false, &said.log, &report), PL_ERR_INPUT);
    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_ERR_INPUT);
    ck_assert_int_eq(said.n_lines, 2);
    sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);
    ck_assert_int_eq(tier_sample_open(&sample), PL_ERR_INPUT);
    ck_assert_int_eq(access(path, F_OK), 0);
    free(path);
    path = pl_tier_path(folder, "set0-rank1-0000.h5");
    ck_assert(!FILES[_i].in_a_tier || (access(path, F_OK) == 0));
    free(path);
}
END_TEST

TCase *case_check(void);
TCase *case_check(void)
{
    TCase *tests = tcase_create("check");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, what_is_wrong_is_found_and_repaired, 0,
                        2 * N_CASES);
    tcase_add_loop_test(tests, nothing_is_wrong_with_what_was_published, 0, 2);
    tcase_add_test(tests, a_repair_touches_no_page_of_another_segment);
    tcase_add_test(tests, a_tier_in_use_is_left_alone);
    tcase_add_test(tests, other_folders_are_no_tier);
    tcase_add_loop_test(tests, a_file_of_somebody_is_kept, 0, 3);
    return tests;
}

PL_CHECK_MAIN("check", case_check())
