#include "store/snapshot_series.h"

#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/file.h"
#include "store/pack.h"
#include "store/seal.h"
#include "store/snapshot_internal.h"

enum { SLICE_BYTES = 8 << 20, NAME_ROOM = 32 };

/* What the next step does. */
typedef enum stage { NOTHING, PACK, IMAGE, WRITE, SEAL, WAIT } stage_t;

struct pl_series {
    char *stem;   /* path of the final snapshot, without .h5 */
    char *folder; /* of it */
    int keep;
    const pl_log_t *log;
    char said[512]; /* by the first of what failed */
    bool has_warned;
    pl_series_cost_t cost;

    stage_t stage; /* of the one under way: */
    char *path, *partial;
    int lock;
    pl_files_t *files; /* of its input */
    pl_content_t content;
    pl_pack_t pack;
    pl_image_t image;
    uint64_t n_written;
    /* Bringing it to the disk takes as long as the disk likes: a thread does
     * it, from the start of WAIT on. */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_done;
    pl_status_t published;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- failures: told once ---- */

static void keep_line(void *context, pl_log_level_t level, const char *line)
{
    pl_series_t *series = context;

    (void)level;
    (void)snprintf(series->said, sizeof(series->said), "%s", line);
}

static pl_log_t quiet_log(pl_series_t *series)
{
    pl_log_t log = {keep_line, series, PL_LOG_ERROR};

    return log;
}

/* Back to nothing under way. */
static void drop(pl_series_t *series)
{
    pl_pack_close(&series->pack);
    pl_content_free(&series->content);
    pl_image_free(&series->image);
    pl_file_unlock(series->lock);
    free(series->path);
    free(series->partial);
    series->lock      = -1;
    series->path      = NULL;
    series->partial   = NULL;
    series->n_written = 0;
    series->stage     = NOTHING;
}

static void give_up(pl_series_t *series)
{
    if (series->lock >= 0) {
        pl_files_discard(series->files, series->partial);
    }
    series->cost.failed++;
    if (!series->has_warned) {
        series->has_warned = true;
        pl_log(series->log, PL_LOG_WARN,
               "%s; the run goes on without this snapshot, and says no more of "
               "others like it",
               series->said);
    }
    drop(series);
}

/* ---- the files of the series ---- */

/* The number in "<stem's last part>.<number>.h5"; 0: another file. */
static int64_t number_of(const pl_series_t *series, const char *name)
{
    const char *slash = strrchr(series->stem, '/');
    const char *base  = slash == NULL ? series->stem : slash + 1;
    size_t n          = strlen(base);
    const char *digits;
    int n_digits = 0;
    int64_t number;

    if ((strncmp(name, base, n) != 0) || (name[n] != '.')) {
        return 0;
    }
    digits = name + n + 1;
    while ((digits[n_digits] >= '0') && (digits[n_digits] <= '9')) {
        n_digits++;
    }
    if ((n_digits < 4) || (n_digits > 15) ||
        (strcmp(digits + n_digits, ".h5") != 0)) {
        return 0;
    }
    number = strtoll(digits, NULL, 10);
    return (n_digits > 4) && (digits[0] == '0') ? 0 : number;
}

/* How many there are, the lowest and the highest number; 0: none. */
static int64_t list_files(const pl_series_t *series, int64_t *lowest_p,
                          int64_t *highest_p)
{
    DIR *folder = opendir(series->folder);
    int64_t n   = 0;
    struct dirent *entry;

    *lowest_p  = 0;
    *highest_p = 0;
    while ((folder != NULL) && ((entry = readdir(folder)) != NULL)) {
        int64_t number = number_of(series, entry->d_name);

        if (number > 0) {
            n++;
            *highest_p = number > *highest_p ? number : *highest_p;
            *lowest_p =
                (*lowest_p == 0) || (number < *lowest_p) ? number : *lowest_p;
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return n;
}

/* The caller frees it; NULL: out of memory. */
static char *path_of(const pl_series_t *series, int64_t number)
{
    size_t n   = strlen(series->stem) + NAME_ROOM;
    char *path = malloc(n);

    if (path != NULL) {
        (void)snprintf(path, n, "%s.%04" PRId64 ".h5", series->stem, number);
    }
    return path;
}

static void remove_oldest(const pl_series_t *series)
{
    int64_t lowest, highest;
    int64_t n = list_files(series, &lowest, &highest);

    while (n > series->keep) {
        char *path = path_of(series, lowest);

        if (path == NULL) {
            return;
        }
        pl_files_discard(series->files, path);
        free(path);
        if (list_files(series, &lowest, &highest) >= n) {
            return; /* it cannot be removed */
        }
        n--;
    }
}

/* A name behind the highest that nobody else is writing. */
static pl_status_t choose_name(pl_series_t *series, const pl_log_t *log)
{
    enum { TRIES = 100 };
    int64_t lowest, highest;

    (void)list_files(series, &lowest, &highest);
    for (int i = 1; i <= TRIES; i++) {
        series->path = path_of(series, highest + i);
        if (series->path == NULL) {
            pl_log(log, PL_LOG_ERROR, "%s: out of memory", series->stem);
            return PL_ERR_MEMORY;
        }
        PL_TRY(pl_file_partial(series->path, log, &series->partial));
        PL_TRY(pl_file_try_lock(series->partial, log, &series->lock));
        if (series->lock >= 0) {
            return PL_OK;
        }
        free(series->path);
        free(series->partial);
        series->path    = NULL;
        series->partial = NULL;
    }
    pl_log(log, PL_LOG_ERROR, "%s: too many runs write it", series->stem);
    return PL_ERR_IO;
}

/* ---- one after another ---- */

static pl_status_t take(pl_series_t *series, const pl_snapshot_input_t *input)
{
    pl_log_t log = quiet_log(series);

    series->files = input->files;
    PL_TRY(choose_name(series, &log));
    PL_TRY(pl_snapshot_content(input, &log, &series->content));
    if ((pl_content_own(&series->content) != PL_OK) ||
        (pl_pack_open(&series->content, &series->pack) != PL_OK)) {
        pl_log(&log, PL_LOG_ERROR, "%s: out of memory", series->path);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t pack_slice(pl_series_t *series, const pl_log_t *log)
{
    if (pl_pack_step(&series->pack, SLICE_BYTES, pl_pack_threads()) != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", series->path);
        return PL_ERR_MEMORY;
    }
    series->stage = pl_pack_done(&series->pack) ? IMAGE : PACK;
    return PL_OK;
}

static pl_status_t make_image(pl_series_t *series, const pl_log_t *log)
{
    pl_h5_quiet_t quiet = pl_h5_quiet();
    pl_status_t status =
        pl_image_make(&series->pack, series->path, log, &series->image);

    pl_h5_loud(quiet);
    pl_pack_close(&series->pack);
    pl_content_free(&series->content);
    series->stage = WRITE;
    return status;
}

static pl_status_t write_slice(pl_series_t *series, const pl_log_t *log)
{
    uint64_t left     = series->image.n - series->n_written;
    uint64_t n        = left < SLICE_BYTES ? left : SLICE_BYTES;
    const char *bytes = (const char *)series->image.bytes + series->n_written;

    if (series->n_written == 0) {
        PL_TRY(pl_files_put(series->files, series->partial, bytes, n, NULL, 0,
                            log));
    } else {
        PL_TRY(pl_files_append(series->files, series->partial, bytes, n, log));
    }
    series->n_written += n;
    series->stage = n == left ? SEAL : WRITE;
    return PL_OK;
}

static void *publish(void *context)
{
    pl_series_t *series = context;
    pl_log_t log        = quiet_log(series);

    series->published =
        pl_files_sync_path(series->files, series->partial, &log);
    if (series->published == PL_OK) {
        series->published = pl_files_publish(series->files, series->partial,
                                             series->path, &log);
    }
    atomic_store(&series->is_done, true);
    return NULL;
}

static pl_status_t seal(pl_series_t *series, const pl_log_t *log)
{
    char text[PL_SEAL_BYTES];

    pl_seal_text(pl_seal_digest(series->image.bytes, series->image.n),
                 series->image.n, text);
    PL_TRY(pl_files_append(series->files, series->partial, text, PL_SEAL_BYTES,
                           log));
    series->stage = WAIT;
    atomic_store(&series->is_done, false);
    series->has_thread =
        pthread_create(&series->thread, NULL, publish, series) == 0;
    if (!series->has_thread) {
        (void)publish(series);
    }
    return PL_OK;
}

/* Wait for the thread, and see what came of it. */
static pl_status_t end_wait(pl_series_t *series)
{
    if (series->has_thread) {
        (void)pthread_join(series->thread, NULL);
        series->has_thread = false;
    }
    PL_TRY(series->published);
    series->cost.written++;
    series->cost.bytes += (int64_t)series->image.n + PL_SEAL_BYTES;
    remove_oldest(series);
    drop(series);
    return PL_OK;
}

static pl_status_t next_slice(pl_series_t *series, const pl_log_t *log)
{
    switch (series->stage) {
    case PACK:
        return pack_slice(series, log);
    case IMAGE:
        return make_image(series, log);
    case WRITE:
        return write_slice(series, log);
    case SEAL:
        return seal(series, log);
    case WAIT:
        return atomic_load(&series->is_done) ? end_wait(series) : PL_OK;
    case NOTHING:
        break;
    }
    return PL_OK;
}

static void step(pl_series_t *series)
{
    pl_log_t log = quiet_log(series);

    if (next_slice(series, &log) != PL_OK) {
        give_up(series);
    }
}

/* What a disk still does must not decide if the next one is skipped. */
static void end_if_waiting(pl_series_t *series)
{
    if ((series->stage == WAIT) && (end_wait(series) != PL_OK)) {
        give_up(series);
    }
}

void pl_series_take(pl_series_t *series, const pl_snapshot_input_t *input)
{
    int64_t start = now_ns();

    end_if_waiting(series);
    if (series->stage != NOTHING) {
        series->cost.skipped++;
        step(series);
    } else {
        series->cost.taken++;
        series->stage = PACK;
        if (take(series, input) != PL_OK) {
            give_up(series);
        }
    }
    series->cost.loop_ns += now_ns() - start;
}

void pl_series_step(pl_series_t *series)
{
    if (series->stage != NOTHING) {
        int64_t start = now_ns();

        step(series);
        series->cost.loop_ns += now_ns() - start;
    }
}

void pl_series_finish(pl_series_t *series)
{
    int64_t start = now_ns();

    while ((series->stage != NOTHING) && (series->stage != WAIT)) {
        step(series);
    }
    end_if_waiting(series);
    series->cost.loop_ns += now_ns() - start;
}

pl_series_cost_t pl_series_cost(const pl_series_t *series)
{
    return series->cost;
}

/* ---- opening and closing ---- */

static char *folder_of(const char *path)
{
    char *copy   = strdup(path);
    char *folder = copy == NULL ? NULL : strdup(dirname(copy));

    free(copy);
    return folder;
}

pl_status_t pl_series_open(const char *path, int keep, const pl_log_t *log,
                           pl_series_t **series_p)
{
    pl_series_t *series = calloc(1, sizeof(*series));
    size_t n            = strlen(path);

    if (series != NULL) {
        series->keep   = keep;
        series->log    = log;
        series->lock   = -1;
        series->stem   = strdup(path);
        series->folder = folder_of(path);
    }
    if ((series == NULL) || (series->stem == NULL) ||
        (series->folder == NULL)) {
        pl_series_close(series);
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", path);
        return PL_ERR_MEMORY;
    }
    if ((n > 3) && (strcmp(path + n - 3, ".h5") == 0)) {
        series->stem[n - 3] = '\0';
    }
    *series_p = series;
    return PL_OK;
}

void pl_series_close(pl_series_t *series)
{
    if (series == NULL) {
        return;
    }
    end_if_waiting(series);
    if (series->stage != NOTHING) {
        pl_files_discard(series->files, series->partial);
        drop(series);
    }
    free(series->stem);
    free(series->folder);
    free(series);
}
