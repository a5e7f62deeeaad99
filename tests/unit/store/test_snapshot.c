/* A snapshot says what the run was, or there is none: the old one stays. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/file.h"
#include "store/reader.h"
#include "store/snapshot_internal.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/snapshot_sample.h"

static log_capture_t said;
static char folder[64];
static char path[128], partial[160];

static void set_up(void)
{
    log_capture_open(&said);
    (void)snprintf(folder, sizeof(folder), "snapshot-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/s.h5", folder);
    (void)snprintf(partial, sizeof(partial), "%s.partial", path);
}

static void tear_down(void)
{
    (void)unlink(path);
    (void)unlink(partial);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left there */
    log_capture_close(&said);
}

/* ---- help ---- */

typedef struct work {
    const pl_snapshot_input_t *input;
    const char *path;
} work_t;

/* Ranks besides 0 keep no log. */
static pl_status_t write_on(void *context, pl_comm_t *comm)
{
    const work_t *work        = context;
    pl_snapshot_input_t input = *work->input;

    input.log = comm->rank == 0 ? input.log : NULL;
    return pl_snapshot_write(&input, comm, work->path, &said.log);
}

static pl_status_t write_by(int n_ranks, const snapshot_sample_t *sample,
                            const char *to)
{
    work_t work = {&sample->input, to};

    return pl_comm_run_local(n_ranks, n_ranks, 60.0, &said.log, write_on,
                             &work);
}

static snapshot_sample_t make(const snapshot_sample_params_t *params)
{
    snapshot_sample_t sample;

    ck_assert_int_eq(snapshot_sample_run(params, NULL, &sample), PL_OK);
    return sample;
}

static snapshot_sample_t small(void)
{
    snapshot_sample_params_t params = snapshot_sample_params(1);

    return make(&params);
}

/* The whole file; the caller frees it. */
static char *slurp(const char *from, size_t *n_p)
{
    FILE *file = fopen(from, "rb");
    char *bytes;
    struct stat about;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fstat(fileno(file), &about), 0);
    *n_p  = (size_t)about.st_size;
    bytes = malloc(*n_p + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *n_p, file), *n_p);
    (void)fclose(file);
    return bytes;
}

static void check_same_file(const char *a, const char *bytes, size_t n)
{
    size_t n_a;
    char *bytes_a = slurp(a, &n_a);

    ck_assert_uint_eq(n_a, n);
    ck_assert_mem_eq(bytes_a, bytes, n);
    free(bytes_a);
}

static pl_snapshot_t *open_it(void)
{
    pl_snapshot_t *snapshot = NULL;

    ck_assert_msg(pl_snapshot_open(path, &said.log, &snapshot) == PL_OK, "%s",
                  said.text);
    return snapshot;
}

static pl_snapshot_column_t read_it(const pl_snapshot_t *snapshot,
                                    const char *object, pl_item_t item,
                                    size_t rows)
{
    pl_snapshot_column_t column = {0};

    ck_assert_msg(pl_snapshot_read(snapshot, object, item, rows, 0, &column) ==
                      PL_OK,
                  "%s", said.text);
    return column;
}

/* ---- what is written is what was ---- */

START_TEST(requests_come_back)
{
    snapshot_sample_t sample = small();
    size_t n                 = (size_t)sample.params.n_requests;
    pl_snapshot_t *snapshot;
    pl_snapshot_column_t finished, home, lost, digest, tokens, offsets;

    ck_assert_int_eq(write_by(1, &sample, path), PL_OK);
    snapshot = open_it();
    finished = read_it(snapshot, "/requests/finished_ns", PL_ITEM_I64, n);
    home     = read_it(snapshot, "/requests/home", PL_ITEM_I32, n);
    lost     = read_it(snapshot, "/requests/miss_evicted", PL_ITEM_I32, n);
    digest   = read_it(snapshot, "/requests/digest", PL_ITEM_U64, n);
    tokens   = read_it(snapshot, "/requests/tokens", PL_ITEM_I32, PL_ANY_ROWS);
    ck_assert_int_eq(pl_snapshot_read_offsets(snapshot,
                                              "/requests/tokens_offset", n,
                                              tokens.rows, &offsets),
                     PL_OK);
    for (size_t i = 0; i < n; i++) {
        const pl_record_t *record = pl_engine_record(sample.engine, (int)i);

        ck_assert_int_eq(finished.items[i], record->finished_ns);
        ck_assert_int_eq(home.items[i], record->home);
        ck_assert_int_eq(lost.items[i], record->miss_pages[PL_MISS_EVICTED]);
        ck_assert_uint_eq((uint64_t)digest.items[i], sample.digests[i]);
        ck_assert_int_eq(offsets.items[i], sample.tokens_offset[i]);
    }
    for (size_t i = 0; i < tokens.rows; i++) {
        ck_assert_int_eq(tokens.items[i], sample.tokens[i]);
    }
    pl_snapshot_column_free(&finished);
    pl_snapshot_column_free(&home);
    pl_snapshot_column_free(&lost);
    pl_snapshot_column_free(&digest);
    pl_snapshot_column_free(&tokens);
    pl_snapshot_column_free(&offsets);
    pl_snapshot_close(snapshot);
    snapshot_sample_close(&sample);
}
END_TEST

static pl_status_t note_first(void *context, const char *name, const char *text,
                              bool is_number)
{
    char *line = context;

    (void)snprintf(line, 64, "%s=%s%s", name, text, is_number ? "#" : "");
    return PL_REFUSED_SHORT; /* enough: the walk ends with what we return */
}

START_TEST(groups_come_back)
{
    snapshot_sample_t sample = small();
    pl_snapshot_t *snapshot;
    char line[64];
    char *text    = NULL;
    int64_t value = 0;

    ck_assert_int_eq(write_by(1, &sample, path), PL_OK);
    snapshot = open_it();
    ck_assert_int_eq(pl_snapshot_minor(snapshot), PL_SNAPSHOT_MINOR);
    ck_assert_int_eq(
        pl_snapshot_text(snapshot, "/config", "write_policy", &text), PL_OK);
    ck_assert_str_eq(text, "write_through");
    free(text);
    ck_assert_int_eq(pl_snapshot_integer(snapshot, "/counters/cache",
                                         "evictions", 0, INT64_MAX, &value),
                     PL_OK);
    ck_assert_int_eq(
        value, pl_hicache_counters(pl_engine_cache(sample.engine))->evictions);
    ck_assert_int_eq(
        pl_snapshot_attributes(snapshot, "/counters/data", note_first, line),
        PL_REFUSED_SHORT);
    ck_assert_str_eq(line, "pages_checked=12345#");
    ck_assert(pl_snapshot_has(snapshot, "/events"));
    ck_assert(!pl_snapshot_has(snapshot, "/events/tick")); /* no group */
    ck_assert_int_eq(said.n_lines, 0);
    pl_snapshot_close(snapshot);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(empty_engine)
{
    snapshot_sample_params_t params = snapshot_sample_params(1);
    snapshot_sample_t sample;
    pl_snapshot_t *snapshot;
    pl_snapshot_column_t column;

    params.n_requests = 0;
    sample            = make(&params);
    ck_assert_int_eq(write_by(1, &sample, path), PL_OK);
    snapshot = open_it();
    column   = read_it(snapshot, "/requests/home", PL_ITEM_I32, 0);
    pl_snapshot_column_free(&column);
    column = read_it(snapshot, "/hicache/page_owners", PL_ITEM_I8, 0);
    pl_snapshot_column_free(&column);
    ck_assert_int_eq(pl_snapshot_read_offsets(snapshot,
                                              "/hicache/page_owners_offset", 0,
                                              0, &column),
                     PL_OK);
    pl_snapshot_column_free(&column);
    pl_snapshot_close(snapshot);
    snapshot_sample_close(&sample);
}
END_TEST

/* Without results, without events. */
START_TEST(what_an_executor_does_not_have_may_be_missing)
{
    snapshot_sample_params_t params = snapshot_sample_params(1);
    snapshot_sample_t sample;
    pl_snapshot_t *snapshot;
    pl_snapshot_column_t column;

    params.most_events         = 0;
    sample                     = make(&params);
    sample.input.digests       = NULL;
    sample.input.tokens        = NULL;
    sample.input.tokens_offset = NULL;
    ck_assert_int_eq(write_by(1, &sample, path), PL_OK);
    snapshot = open_it();
    ck_assert(!pl_snapshot_has(snapshot, "/events"));
    column = read_it(snapshot, "/requests/digest", PL_ITEM_U64,
                     (size_t)params.n_requests);
    ck_assert_int_eq(column.items[0], 0);
    pl_snapshot_column_free(&column);
    column = read_it(snapshot, "/lanes/running", PL_ITEM_I32, PL_ANY_ROWS);
    ck_assert_uint_gt(column.rows, 0);
    pl_snapshot_column_free(&column);
    pl_snapshot_close(snapshot);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(virtual_ranks_write_the_same_file)
{
    snapshot_sample_t sample = small();
    char other[160];
    size_t n;
    char *bytes;

    (void)snprintf(other, sizeof(other), "%s/o.h5", folder);
    ck_assert_int_eq(write_by(1, &sample, other), PL_OK);
    ck_assert_int_eq(write_by(_i, &sample, path), PL_OK);
    bytes = slurp(other, &n);
    check_same_file(path, bytes, n);
    free(bytes);
    (void)unlink(other);
    snapshot_sample_close(&sample);
}
END_TEST

/* ---- a file is published whole or not at all ---- */

START_TEST(missing_folder_fails_on_every_rank)
{
    snapshot_sample_t sample = small();

    ck_assert_int_eq(write_by(_i, &sample, "no/such/folder/x.h5"), PL_ERR_IO);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "no/such/folder/x.h5.partial"));
    snapshot_sample_close(&sample);
}
END_TEST

static void write_old(const char *text)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Somebody's notes, or the trace itself. */
START_TEST(what_is_no_snapshot_is_not_replaced)
{
    static const char NOTES[] = "{\"timestamp\": 0}";

    write_old(NOTES);
    ck_assert_int_eq(pl_snapshot_check_path(path, &said.log), PL_ERR_IO);
    check_same_file(path, NOTES, sizeof(NOTES) - 1);
    ck_assert_int_eq(access(partial, F_OK), -1);
    ck_assert_int_eq(said.n_lines, 1);
}
END_TEST

START_TEST(path_is_checked_before_the_run)
{
    static const char OLD[] = "\211HDF the last good file";

    write_old(OLD);
    ck_assert_int_eq(pl_snapshot_check_path(path, &said.log), PL_OK);
    check_same_file(path, OLD, sizeof(OLD) - 1);
    ck_assert_int_eq(access(partial, F_OK), -1);
    ck_assert_int_eq(said.n_lines, 0);

    ck_assert_int_eq(pl_snapshot_check_path("no/such/x.h5", &said.log),
                     PL_ERR_IO);
    ck_assert_int_eq(pl_snapshot_check_path(folder, &said.log), PL_ERR_IO);
    ck_assert_int_eq(pl_snapshot_check_path("", &said.log), PL_ERR_IO);
    ck_assert_int_eq(pl_snapshot_check_path("/dev/null", &said.log), PL_ERR_IO);
    ck_assert_int_eq(said.n_lines, 4);
    ck_assert_ptr_nonnull(strstr(said.text, "option --snapshot no/such/x.h5"));
}
END_TEST

/* Runs `body` in a child and returns how it ended (waitpid's status). */
static int in_child(void (*body)(const snapshot_sample_t *sample),
                    const snapshot_sample_t *sample)
{
    pid_t child = fork();
    int ended   = 0;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        body(sample);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    return ended;
}

static pl_status_t write_and_die(void *context, pl_comm_t *comm)
{
    const snapshot_sample_t *sample = context;
    pl_content_t content            = {0};

    if ((pl_snapshot_content(&sample->input, NULL, &content) == PL_OK) &&
        (pl_snapshot_write_partial(&content, comm, partial, NULL) == PL_OK)) {
        (void)raise(SIGKILL);
    }
    return PL_OK;
}

static void die_before_rename(const snapshot_sample_t *sample)
{
    snapshot_sample_t copy = *sample;

    _exit((int)pl_comm_run_local(1, 1, 60.0, NULL, write_and_die, &copy));
}

/* 9.38, I8: the name stands for a whole file at any moment */
START_TEST(killed_before_the_rename_leaves_the_old_file)
{
    snapshot_sample_params_t params = snapshot_sample_params(2);
    snapshot_sample_t first         = small();
    snapshot_sample_t second        = make(&params);
    size_t n;
    char *old;
    int ended;

    ck_assert_int_eq(write_by(1, &first, path), PL_OK);
    old   = slurp(path, &n);
    ended = in_child(die_before_rename, &second);
    ck_assert(WIFSIGNALED(ended) && (WTERMSIG(ended) == SIGKILL));
    check_same_file(path, old, n);
    ck_assert_int_eq(access(partial, F_OK), 0); /* it had got that far */

    /* What it left does not hinder the next. */
    ck_assert_int_eq(write_by(1, &second, path), PL_OK);
    ck_assert_int_eq(access(partial, F_OK), -1);
    pl_snapshot_close(open_it());
    free(old);
    snapshot_sample_close(&first);
    snapshot_sample_close(&second);
}
END_TEST

/* 9.38, I8: the disk is full, as far as this process can tell: after some
 * bytes, writes fail. */
static void write_to_full_disk(const snapshot_sample_t *sample)
{
    struct rlimit limit = {64 * 1024, 64 * 1024};

    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        _exit(9);
    }
    said.n_lines = 0;
    _exit((write_by(1, sample, path) == PL_ERR_IO) && (said.n_lines == 1) ? 3
                                                                          : 8);
}

START_TEST(full_disk_leaves_the_old_file)
{
    snapshot_sample_t sample = small();
    size_t n;
    char *old;
    int ended;

    ck_assert_int_eq(write_by(1, &sample, path), PL_OK);
    old   = slurp(path, &n);
    ended = in_child(write_to_full_disk, &sample);
    ck_assert_msg(WIFEXITED(ended) && (WEXITSTATUS(ended) == 3),
                  "child ended with %d", ended);
    check_same_file(path, old, n);
    ck_assert_int_eq(access(partial, F_OK), -1);
    free(old);
    snapshot_sample_close(&sample);
}
END_TEST

static TCase *contents(void)
{
    TCase *tcase = tcase_create("contents");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, requests_come_back);
    tcase_add_test(tcase, groups_come_back);
    tcase_add_test(tcase, empty_engine);
    tcase_add_test(tcase, what_an_executor_does_not_have_may_be_missing);
    tcase_add_loop_test(tcase, virtual_ranks_write_the_same_file, 1, 5);
    return tcase;
}

static TCase *publishing(void)
{
    TCase *tcase = tcase_create("publishing");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, missing_folder_fails_on_every_rank, 1, 4);
    tcase_add_test(tcase, what_is_no_snapshot_is_not_replaced);
    tcase_add_test(tcase, path_is_checked_before_the_run);
    tcase_add_test(tcase, killed_before_the_rename_leaves_the_old_file);
    tcase_add_test(tcase, full_disk_leaves_the_old_file);
    return tcase;
}

PL_CHECK_MAIN("snapshot", contents(), publishing())
