/* Points of a sweep on their way to its file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "store/file.h"
#include "store/sweep_internal.h"

/* More than any sweep says of itself. */
static const size_t LARGEST = (size_t)1 << 30;

static const char GRID[] = "grid";
static const char RANK[] = "rank-";

enum { HASH_DIGITS = 16 };

void pl_sweep_point_free(pl_sweep_point_t *point)
{
    free(point->why);
    PL_ARRAY_FREE(&point->values);
    *point = (pl_sweep_point_t){0};
}

static int is_named(const void *name, const void *value)
{
    return strcmp(name, ((const pl_sweep_value_t *)value)->name);
}

const pl_sweep_value_t *pl_sweep_find(const pl_sweep_point_t *point,
                                      const char *name)
{
    return point->values.n == 0
               ? NULL
               : bsearch(name, point->values.items, point->values.n,
                         sizeof(point->values.items[0]), is_named);
}

/* ---- files of the folder ---- */

static pl_status_t no_memory(const pl_log_t *log, const char *folder)
{
    pl_log(log, PL_LOG_ERROR, "%s: out of memory", folder);
    return PL_ERR_MEMORY;
}

static pl_status_t cannot(const pl_log_t *log, const char *what,
                          const char *path, int why)
{
    pl_log(log, PL_LOG_ERROR, "cannot %s %s: %s", what, path, strerror(why));
    return PL_ERR_IO;
}

/* The caller frees it. */
static pl_status_t path_of(const char *folder, const char *name,
                           const pl_log_t *log, char **path_p)
{
    pl_text_t text = {0};

    pl_text_add(&text, "%s/%s", folder, name);
    return pl_text_take(&text, path_p) == PL_OK ? PL_OK
                                                : no_memory(log, folder);
}

/* The whole file as a string, for the caller to free; NULL: it is not there. */
static pl_status_t read_file(const char *path, const pl_log_t *log,
                             char **text_p, size_t *n_p)
{
    FILE *file         = fopen(path, "rb");
    char *text         = NULL;
    struct stat about  = {0};
    pl_status_t status = PL_OK;
    size_t n           = 0;

    if (file == NULL) {
        *text_p = NULL;
        return errno == ENOENT ? PL_OK : cannot(log, "read", path, errno);
    }
    if (fstat(fileno(file), &about) != 0) {
        status = cannot(log, "read", path, errno);
    } else if ((uintmax_t)about.st_size > LARGEST) {
        status = cannot(log, "read", path, EFBIG);
    } else {
        text   = malloc((size_t)about.st_size + 1);
        status = text == NULL ? no_memory(log, path) : PL_OK;
    }
    if (status == PL_OK) {
        n      = fread(text, 1, (size_t)about.st_size, file);
        status = ferror(file) != 0 ? cannot(log, "read", path, errno) : PL_OK;
    }
    (void)fclose(file);
    if (status != PL_OK) {
        free(text);
        return status;
    }
    text[n] = '\0';
    *text_p = text;
    *n_p    = n;
    return PL_OK;
}

/* ---- what is swept ---- */

/* One line of both that is not the same. */
static void first_difference(const char *was, const char *is, char *text,
                             size_t n)
{
    size_t a, b;

    for (;;) {
        a = strcspn(was, "\n");
        b = strcspn(is, "\n");
        if ((a != b) || (memcmp(was, is, a) != 0) || (was[a] == '\0') ||
            (is[b] == '\0')) {
            break;
        }
        was += a + 1;
        is += b + 1;
    }
    (void)snprintf(text, n, "'%.*s', now '%.*s'", (int)(a < 100 ? a : 100), was,
                   (int)(b < 100 ? b : 100), is);
}

pl_status_t pl_sweep_compare_grids(const char *where, const char *was,
                                   const char *is, const char *remedy,
                                   const pl_log_t *log)
{
    char text[256];

    if (strcmp(was, is) == 0) {
        return PL_OK;
    }
    first_difference(was, is, text, sizeof(text));
    pl_log(log, PL_LOG_ERROR, "%s holds points of another sweep: it had %s; %s",
           where, text, remedy);
    return PL_ERR_INPUT;
}

static pl_status_t write_grid(const char *folder, const char *path,
                              const char *grid, const pl_log_t *log)
{
    char *partial = NULL;
    pl_status_t status;
    int failed = pl_files_mkdir(NULL, folder);

    if ((failed != 0) && (failed != EEXIST)) {
        return cannot(log, "make", folder, failed);
    }
    PL_TRY(pl_file_partial(path, log, &partial));
    status = pl_file_write(partial, grid, strlen(grid), NULL, 0, log);
    if (status == PL_OK) {
        status = pl_file_sync(partial, log);
    }
    if (status == PL_OK) {
        status = pl_file_publish(partial, path, log);
    }
    free(partial);
    return status;
}

pl_status_t pl_sweep_journal_open(const char *folder, const char *grid,
                                  bool resume, const pl_log_t *log)
{
    char *path = NULL;
    char *was  = NULL;
    size_t n   = 0;
    bool holds = false;
    pl_status_t status;

    PL_TRY(pl_sweep_journal_holds(folder, log, &holds));
    if (!holds) {
        pl_sweep_journal_remove(folder);
    }
    PL_TRY(path_of(folder, GRID, log, &path));
    status = read_file(path, log, &was, &n);
    if ((status == PL_OK) && (was == NULL)) {
        status = write_grid(folder, path, grid, log);
    } else if ((status == PL_OK) && !resume) {
        pl_log(log, PL_LOG_ERROR,
               "%s holds points of a sweep that has not ended: add --resume to "
               "go on with it, or remove the folder",
               folder);
        status = PL_ERR_ARGUMENT;
    } else if (status == PL_OK) {
        status = pl_sweep_compare_grids(
            folder, was, grid, "repeat that one, or remove the folder", log);
    }
    free(was);
    free(path);
    return status;
}

/* ---- a line ---- */

static uint64_t hash_of(const char *bytes, size_t n)
{
    return pl_hash64(bytes, n, 0);
}

/* Without its hash and its end. */
static void add_point(pl_text_t *text, size_t index,
                      const pl_sweep_point_t *point)
{
    pl_text_add(text, "%zu %d %" PRId32 " %" PRId32 " %" PRId64 " %zu", index,
                (int)point->status, point->n_seeds, point->rank, point->wall_ns,
                point->values.n);
    for (size_t i = 0; i < point->values.n; i++) {
        const pl_sweep_value_t *value = &point->values.items[i];

        pl_text_add(text, " %s %s %" PRId64 " %" PRId64, value->name,
                    value->unit, value->mean, value->half);
    }
    pl_text_add(text, " %s", point->why == NULL ? "" : point->why);
}

/* One line, whatever stands in `why`. */
static void straighten(char *line)
{
    for (; *line != '\0'; line++) {
        if ((*line == '\n') || (*line == '\r')) {
            *line = ' ';
        }
    }
}

static pl_status_t read_values(const char **at, size_t n,
                               pl_sweep_point_t *point)
{
    for (size_t i = 0; i < n; i++) {
        pl_sweep_value_t value = {0};
        int end                = 0;

        if (sscanf(*at, " %47s %15s %" SCNd64 " %" SCNd64 "%n", value.name,
                   value.unit, &value.mean, &value.half, &end) != 4) {
            return PL_ERR_INPUT;
        }
        *at += end;
        PL_TRY(PL_ARRAY_PUSH(&point->values, value));
    }
    return PL_OK;
}

/* Of a line whose hash is right; PL_ERR_INPUT: it is none of ours. */
static pl_status_t read_point(const char *line, pl_sweep_point_t *points,
                              size_t n_points)
{
    pl_sweep_point_t point = {.is_known = true};
    size_t index           = 0;
    size_t n               = 0;
    int status             = 0;
    int end                = 0;
    pl_status_t done       = PL_ERR_INPUT;

    if (sscanf(line, "%zu %d %" SCNd32 " %" SCNd32 " %" SCNd64 " %zu%n", &index,
               &status, &point.n_seeds, &point.rank, &point.wall_ns, &n,
               &end) == 6) {
        line += end;
        done = read_values(&line, n, &point);
    }
    if ((done == PL_OK) && (line[0] == ' ') && (line[1] != '\0')) {
        point.why = strdup(line + 1);
        done      = point.why == NULL ? PL_ERR_MEMORY : PL_OK;
    }
    point.status = (pl_status_t)status;
    if ((done != PL_OK) || (index >= n_points) || points[index].is_known) {
        pl_sweep_point_free(&point);
        return done;
    }
    points[index] = point;
    return PL_OK;
}

static bool is_whole(const char *line, size_t n)
{
    uint64_t hash = 0;

    return (n > HASH_DIGITS + 1) && (line[HASH_DIGITS] == ' ') &&
           (sscanf(line, "%16" SCNx64, &hash) == 1) &&
           (hash == hash_of(line + HASH_DIGITS + 1, n - HASH_DIGITS - 1));
}

/* ---- reading ---- */

/* Points that are read, or whether one of them ran. */
typedef struct reading {
    pl_sweep_point_t *points; /* NULL: that alone is asked */
    size_t n_points;
    bool ran;
} reading_t;

static pl_status_t read_line(const char *line, reading_t *reading)
{
    int status = 0;

    if ((sscanf(line, "%*u %d", &status) == 1) && (status == PL_OK)) {
        reading->ran = true;
    }
    return reading->points == NULL
               ? PL_OK
               : read_point(line, reading->points, reading->n_points);
}

/* Line by line: there may be 100,000 of some kilobytes. */
static pl_status_t read_lines(FILE *file, const char *path, reading_t *reading,
                              const pl_log_t *log)
{
    char *line         = NULL;
    size_t capacity    = 0;
    pl_status_t status = PL_OK;
    ssize_t n;

    errno = 0;
    /* without its end a run was killed while it wrote it */
    while ((status == PL_OK) && ((n = getline(&line, &capacity, file)) > 0) &&
           (line[n - 1] == '\n')) {
        line[n - 1] = '\0';
        if (is_whole(line, (size_t)n - 1) &&
            (read_line(line + HASH_DIGITS + 1, reading) == PL_ERR_MEMORY)) {
            status = no_memory(log, path);
        }
    }
    if ((status == PL_OK) && (errno == ENOMEM)) {
        status = no_memory(log, path);
    } else if ((status == PL_OK) && (ferror(file) != 0)) {
        status = cannot(log, "read", path, errno);
    }
    free(line);
    return status;
}

static pl_status_t read_rank(const char *folder, const char *name,
                             reading_t *reading, const pl_log_t *log)
{
    char *path = NULL;
    FILE *file;
    pl_status_t status;

    PL_TRY(path_of(folder, name, log, &path));
    file = fopen(path, "rb");
    if (file == NULL) {
        status = errno == ENOENT ? PL_OK : cannot(log, "read", path, errno);
    } else {
        status = read_lines(file, path, reading, log);
        (void)fclose(file);
    }
    free(path);
    return status;
}

static pl_status_t read_ranks(DIR *listing, const char *folder,
                              reading_t *reading, const pl_log_t *log)
{
    pl_status_t status = PL_OK;

    for (const struct dirent *entry                  = readdir(listing);
         (entry != NULL) && (status == PL_OK); entry = readdir(listing)) {
        if (strncmp(entry->d_name, RANK, strlen(RANK)) == 0) {
            status = read_rank(folder, entry->d_name, reading, log);
        }
    }
    return status;
}

pl_status_t pl_sweep_journal_read(const char *folder, pl_sweep_point_t *points,
                                  size_t n_points, const pl_log_t *log)
{
    reading_t reading = {.points = points, .n_points = n_points};
    DIR *listing      = opendir(folder);
    pl_status_t status;

    if (listing == NULL) {
        return cannot(log, "read", folder, errno);
    }
    status = read_ranks(listing, folder, &reading, log);
    (void)closedir(listing);
    return status;
}

pl_status_t pl_sweep_journal_holds(const char *folder, const pl_log_t *log,
                                   bool *holds_p)
{
    reading_t reading = {.points = NULL};
    DIR *listing      = opendir(folder);
    pl_status_t status;

    *holds_p = false;
    if (listing == NULL) {
        return errno == ENOENT ? PL_OK : cannot(log, "read", folder, errno);
    }
    status = read_ranks(listing, folder, &reading, log);
    (void)closedir(listing);
    *holds_p = reading.ran;
    return status;
}

/* ---- writing ---- */

/* Behind what stands there; a newline first, where a line was cut off. */
static int append(const char *path, const char *bytes, size_t n, bool sync)
{
    struct iovec pieces[2] = {{(void *)(uintptr_t) "\n", 1},
                              {(void *)(uintptr_t)bytes, n}};
    int fd                 = -1;
    int failed = pl_files_open_file(NULL, path, O_RDWR | O_CREAT, &fd);
    char last  = '\n';
    off_t end;

    if (failed != 0) {
        return failed;
    }
    end = lseek(fd, 0, SEEK_END);
    if ((end < 0) || ((end > 0) && (pread(fd, &last, 1, end - 1) != 1))) {
        failed = errno;
    }
    if (failed == 0) {
        bool cut = last != '\n';

        failed = pl_files_write(NULL, fd, cut ? pieces : pieces + 1,
                                cut ? 2 : 1, (uint64_t)end);
    }
    if ((failed == 0) && sync) {
        failed = pl_files_sync(NULL, fd);
    }
    if ((close(fd) != 0) && (failed == 0)) {
        failed = errno;
    }
    return failed;
}

static pl_status_t add_line(const char *folder, int rank, const char *line,
                            bool sync, const pl_log_t *log)
{
    char name[32];
    char *path = NULL;
    struct stat about;
    bool is_new;
    int failed;

    (void)snprintf(name, sizeof(name), "%s%05d", RANK, rank);
    PL_TRY(path_of(folder, name, log, &path));
    is_new = stat(path, &about) != 0;
    failed = append(path, line, strlen(line), sync);
    if ((failed == 0) && is_new) {
        failed = pl_files_sync_folder(NULL, folder);
    }
    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot write %s: %s; put that right, and go on with --resume",
               path, strerror(failed));
    }
    free(path);
    return failed == 0 ? PL_OK : PL_ERR_IO;
}

pl_status_t pl_sweep_journal_add(const char *folder, int rank, size_t index,
                                 const pl_sweep_point_t *point, bool sync,
                                 const pl_log_t *log)
{
    pl_text_t body = {0};
    pl_text_t line = {0};
    char *text     = NULL;
    char *whole    = NULL;
    pl_status_t status;

    add_point(&body, index, point);
    if (pl_text_take(&body, &text) != PL_OK) {
        return no_memory(log, folder);
    }
    straighten(text);
    pl_text_add(&line, "%016" PRIx64 " %s\n", hash_of(text, strlen(text)),
                text);
    free(text);
    if (pl_text_take(&line, &whole) != PL_OK) {
        return no_memory(log, folder);
    }
    status = add_line(folder, rank, whole, sync, log);
    free(whole);
    return status;
}

/* ---- the end ---- */

static void remove_file(const char *folder, const char *name)
{
    char *path = NULL;

    if (path_of(folder, name, NULL, &path) == PL_OK) {
        (void)pl_files_unlink(NULL, path);
        free(path);
    }
}

/* The grid last: what is left behind is still that of this sweep. */
void pl_sweep_journal_remove(const char *folder)
{
    DIR *listing = opendir(folder);

    if (listing == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(listing); entry != NULL;
         entry                      = readdir(listing)) {
        if (strncmp(entry->d_name, RANK, strlen(RANK)) == 0) {
            remove_file(folder, entry->d_name);
        }
    }
    (void)closedir(listing);
    remove_file(folder, GRID);
    (void)rmdir(folder);
}
