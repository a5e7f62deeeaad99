/* Whatever breaks at whatever call: the next run finds what the last
 * publication said, right in every byte. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/check.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/tier_sample.h"

enum { RANKS = 2, SLOTS = 8, PREFIXES = 5, MOST_CALLS = 400 };

static log_capture_t said;
static char folder[64];

static void remove_folder(void)
{
    tier_sample_empty(folder);
    (void)rmdir(folder);
}

static void set_up(void)
{
    log_capture_open(&said);
    /* In memory, where a sync costs nothing; what it is good for is known to
     * the layer's journal. */
    (void)strcpy(folder, access("/dev/shm", W_OK) == 0
                             ? "/dev/shm/tier-faults-XXXXXX"
                             : "tier-faults-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)rmdir(folder); /* the run makes it */
}

static void tear_down(void)
{
    remove_folder();
    log_capture_close(&said);
}

/* ---- a small run ---- */

/* What an index names: how many pages, and the sum of their chains. */
typedef struct named {
    int32_t n;
    uint64_t chains;
} named_t;

typedef struct told {
    bool ended;         /* by itself */
    named_t published;  /* by the last index that was put out */
    named_t to_publish; /* by it, or by one that is on its way */
} told_t;

static void tell(int to, told_t told)
{
    (void)!write(to, &told, sizeof(told));
}

/* What is missing of the first n pages of a prefix, in two writes. */
static void store(tier_sample_t *sample, uint64_t prefix, int32_t n)
{
    int32_t kept = tier_sample_fetch(sample, prefix);

    for (int32_t most = n - n / 3; (kept >= 0) && (kept < n); most = n) {
        if (kept < most) {
            if (!tier_sample_store(sample, prefix, kept, most - kept)) {
                return;
            }
            kept = most;
        }
    }
}

static pl_status_t add_named(void *context, const pl_storage_entry_t *entry)
{
    named_t *named = context;

    named->n++;
    named->chains += entry->chain;
    return PL_OK;
}

static void publish(tier_sample_t *sample, int to, told_t *told)
{
    told->to_publish = (named_t){0};
    ck_assert_int_eq(
        pl_storage_visit(sample->storage, add_named, &told->to_publish), PL_OK);
    tell(to, *told);
    if (tier_sample_publish(sample)) {
        told->published = told->to_publish;
        tell(to, *told);
    }
}

/* Stores, evicts, writes places again, publishes four times, and begins again
 * in the middle.  Failures are no matter; what it says is what counts. */
static void play(int to, const pl_inject_t *inject)
{
    told_t told = {0};

    for (uint64_t half = 0; half < 2; half++) {
        tier_sample_t sample =
            tier_sample_make(folder, RANKS, SLOTS, &said.log);

        sample.inject = inject;
        if (tier_sample_open(&sample) != PL_OK) {
            continue;
        }
        for (uint64_t i = 0; i < 2; i++) {
            store(&sample, 2 * half + i, 7);
            publish(&sample, to, &told);
            store(&sample, 4, 3);
        }
        tier_sample_close(&sample);
    }
    told.ended = true;
    tell(to, told);
}

static pl_inject_t inject_of(const char *point, int rank, int count)
{
    pl_inject_t inject = {0};
    char text[64];

    (void)snprintf(text, sizeof(text), "%s@rank:%d,count:%d", point, rank,
                   count);
    ck_assert_int_eq(pl_inject_parse(&inject, text, &said.log), PL_OK);
    return inject;
}

/* In a process of its own, which may die; the last that it said. */
static told_t run(const pl_inject_t *inject, int *ended_p)
{
    told_t told = {0};
    told_t next;
    int ends[2];
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)close(ends[0]);
        play(ends[1], inject);
        _exit(0);
    }
    (void)close(ends[1]);
    while (read(ends[0], &next, sizeof(next)) == (ssize_t)sizeof(next)) {
        told = next;
    }
    (void)close(ends[0]);
    ck_assert_int_eq(waitpid(child, ended_p, 0), child);
    return told;
}

/* ---- and the next one ---- */

/* `pagelane check --repair` makes it clean and loses no page that is named. */
static void repair(void)
{
    pl_check_report_t report;

    if (!pl_tier_exists(folder)) {
        return;
    }
    ck_assert_int_eq(pl_check(folder, true, &said.log, &report), PL_OK);
    ck_assert_int_eq(report.good, report.pages);
    ck_assert_int_eq(pl_check(folder, false, &said.log, &report), PL_OK);
    ck_assert_int_eq(pl_check_total(&report), 0);
}

static bool is_same(named_t a, named_t b)
{
    return (a.n == b.n) && (a.chains == b.chains);
}

/* Which of the two indexes may be there? */
typedef enum which { ANY, THE_LAST, THE_LAST_OR_NEXT } which_t;

static void expect_index(const tier_sample_t *sample, told_t told,
                         which_t which)
{
    named_t found = {0};

    for (int32_t i = 0; i < sample->content.start.n_entries; i++) {
        (void)add_named(&found, &sample->content.start.entries[i]);
    }
    if (told.published.n > 0) {
        ck_assert_msg(sample->content.mismatch == NULL, "%s",
                      sample->content.mismatch);
        ck_assert_int_gt(found.n, 0);
    }
    if (which != ANY) {
        ck_assert(
            is_same(found, told.published) ||
            ((which == THE_LAST_OR_NEXT) && is_same(found, told.to_publish)));
    }
}

static void look(told_t told, which_t which)
{
    tier_sample_t sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);
    int32_t n;

    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    n = sample.content.start.n_entries;
    expect_index(&sample, told, which);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, PREFIXES), n);
    /* It goes on; places of what was evicted are free with the next index. */
    if (!tier_sample_store(&sample, 9, 0, 6)) {
        ck_assert(tier_sample_publish(&sample));
        ck_assert(tier_sample_store(&sample, 9, 0, 6));
    }
    ck_assert(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert_int_eq(tier_sample_fetch(&sample, 9), 6);
    ck_assert_int_ge(tier_sample_fetch_all(&sample, PREFIXES), 0);
    tier_sample_close(&sample);
}

static const struct {
    const char *point;
    bool kills;
} FILE_FAULTS[] = {{"file=fail", false},
                   {"file=short", false},
                   {"file=lost", true},
                   {"disk=full", false}};

/* As many as a rank makes, about. */
static const int CALLS[RANKS] = {50, 20};

/* Every call of the layer, of either rank. */
START_TEST(every_call_may_break)
{
    const char *point = FILE_FAULTS[_i / RANKS].point;
    bool kills        = FILE_FAULTS[_i / RANKS].kills;
    bool hit          = true;
    int k             = 0;

    while (hit) {
        pl_inject_t inject = inject_of(point, _i % RANKS, ++k);
        int ended          = 0;
        told_t told        = run(&inject, &ended);

        ck_assert_int_lt(k, MOST_CALLS);
        if (kills) {
            hit = WIFSIGNALED(ended);
            ck_assert(hit == !told.ended);
        } else {
            ck_assert(WIFEXITED(ended) && told.ended);
            hit = k < CALLS[_i % RANKS];
        }
        if (k % 2 == 1) {
            repair();
        }
        /* A publication whose last sync fails may have come through. */
        look(told, kills ? THE_LAST_OR_NEXT : ANY);
        remove_folder();
    }
    ck_assert_int_gt(k, 15);
}
END_TEST

/* ---- a rank that is killed ---- */

static const struct {
    const char *point;
    int count;
    bool is_out; /* the index that was on its way */
} DEATHS[] = {
    {"die=store", 1, false},          {"die=store", 4, false},
    {"die=store-sync", 1, false},     {"die=store-sync", 3, false},
    {"die=publish", 1, false},        {"die=publish", 2, false},
    {"die=publish-sync", 1, false},   {"die=publish-sync", 2, false},
    {"die=publish-rename", 1, false}, {"die=publish-rename", 2, false},
    {"die=publish-folder", 1, true},  {"die=publish-folder", 2, true},
    {"die=published", 1, true},       {"die=published", 2, true},
};

START_TEST(every_step_may_be_the_last)
{
    pl_inject_t inject = inject_of(DEATHS[_i].point, 0, DEATHS[_i].count);
    int ended          = 0;
    told_t told        = run(&inject, &ended);

    ck_assert(WIFSIGNALED(ended) && (WTERMSIG(ended) == SIGKILL));
    repair();
    look(told, DEATHS[_i].is_out ? THE_LAST_OR_NEXT : THE_LAST);
}
END_TEST

/* ---- what is said ---- */

START_TEST(a_full_disk_is_said_once_and_reads_go_on)
{
    pl_inject_t inject   = inject_of("disk=full", 0, 25);
    tier_sample_t sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);
    int32_t kept;

    sample.inject = &inject;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(tier_sample_store(&sample, 0, 0, 3));
    for (uint64_t i = 1; i < 5; i++) {
        (void)tier_sample_store(&sample, i, 0, 3);
        (void)tier_sample_publish(&sample);
    }
    ck_assert(!sample.doors[0]->ops->can_write(sample.doors[0]));
    ck_assert(sample.doors[1]->ops->can_write(sample.doors[1]));
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "No space left on device"));
    kept = (int32_t)pl_storage_n_kept(sample.storage);
    ck_assert_int_gt(kept, 0);
    ck_assert_int_eq(tier_sample_fetch_all(&sample, 5), kept);
    tier_sample_close(&sample);
    ck_assert_int_eq(said.n_lines, 1);
}
END_TEST

/* Making the folder, taking its lock, ...: a warning, and the folder can be
 * read; only a folder that cannot be made is an error. */
START_TEST(a_disk_may_fail_at_the_start)
{
    tier_sample_t sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);
    bool is_there        = _i == 1;
    pl_status_t status   = PL_ERR_IO;
    int k;

    if (is_there) {
        ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
        ck_assert(tier_sample_store(&sample, 0, 0, 7));
        ck_assert(tier_sample_publish(&sample));
        tier_sample_close(&sample);
    }
    for (k = 1; status != PL_OK; k++) {
        pl_inject_t inject   = inject_of("file=fail", 0, k);
        pl_files_t *files    = NULL;
        pl_tier_lock_t *lock = NULL;

        ck_assert_int_eq(pl_files_open(&inject, 0, NULL, &files), PL_OK);
        status = pl_tier_prepare(folder, files, &said.log, &lock);
        pl_tier_release(lock);
        pl_files_close(files);
        if (status != PL_OK) {
            ck_assert_int_eq(status,
                             !is_there && (k == 1) ? PL_ERR_INPUT : PL_ERR_IO);
            ck_assert_int_eq(said.n_lines, k);
        }
        if (!is_there) {
            remove_folder();
        }
    }
    ck_assert_int_ge(k, is_there ? 3 : 5);
    if (is_there) {
        sample.read_only = true;
        ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
        ck_assert_int_eq(tier_sample_fetch(&sample, 0), 7);
        tier_sample_close(&sample);
    }
}
END_TEST

START_TEST(a_flipped_bit_shows_in_the_digest)
{
    pl_inject_t inject   = inject_of("flip=storage", 1, 1);
    tier_sample_t sample = tier_sample_make(folder, RANKS, SLOTS, &said.log);

    sample.inject = &inject;
    ck_assert_int_eq(tier_sample_open(&sample), PL_OK);
    ck_assert(tier_sample_store(&sample, 0, 0, 7));
    ck_assert_int_eq(tier_sample_fetch(&sample, 0), 1); /* rank 1's first */
    tier_sample_close(&sample);
}
END_TEST

TCase *case_faults(void);
TCase *case_faults(void)
{
    TCase *tests = tcase_create("faults");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, every_call_may_break, 0, 4 * RANKS);
    tcase_add_loop_test(tests, every_step_may_be_the_last, 0,
                        sizeof(DEATHS) / sizeof(DEATHS[0]));
    tcase_add_test(tests, a_full_disk_is_said_once_and_reads_go_on);
    tcase_add_loop_test(tests, a_disk_may_fail_at_the_start, 0, 2);
    tcase_add_test(tests, a_flipped_bit_shows_in_the_digest);
    return tests;
}

PL_CHECK_MAIN("tier_faults", case_faults())
