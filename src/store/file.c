#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pl_status_t no_memory(const pl_log_t *log, const char *path)
{
    pl_log(log, PL_LOG_ERROR, "%s: out of memory", path);
    return PL_ERR_MEMORY;
}

pl_status_t pl_file_partial(const char *path, const pl_log_t *log,
                            char **partial_p)
{
    size_t n      = strlen(path) + sizeof(".partial");
    char *partial = malloc(n);

    if (partial == NULL) {
        return no_memory(log, path);
    }
    (void)snprintf(partial, n, "%s.partial", path);
    *partial_p = partial;
    return PL_OK;
}

static bool is_hdf5(const char *path)
{
    static const char magic[] = {'\211', 'H', 'D', 'F'};
    char start[sizeof(magic)] = {0};
    int fd                    = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n                 = fd < 0 ? 0 : pread(fd, start, sizeof(start), 0);

    if (fd >= 0) {
        (void)close(fd);
    }
    return (n == (ssize_t)sizeof(start)) &&
           (memcmp(start, magic, sizeof(magic)) == 0);
}

/* What rename() would not do, or what would then not be a file of its own. */
static const char *why_not(const char *path)
{
    struct stat about;
    size_t n = strlen(path);

    if ((n == 0) || (path[n - 1] == '/')) {
        return "the name of a file is missing";
    }
    if (stat(path, &about) != 0) {
        return errno == ENOENT ? NULL : strerror(errno);
    }
    if (S_ISDIR(about.st_mode)) {
        return "it is a folder";
    }
    if (!S_ISREG(about.st_mode)) {
        return "it is not a regular file";
    }
    return (about.st_size == 0) || is_hdf5(path)
               ? NULL
               : "what stands there is no HDF5 file, and is kept";
}

pl_status_t pl_file_check(const char *path, const char *what,
                          const pl_log_t *log)
{
    const char *why = why_not(path);
    char *partial   = NULL;
    int fd          = -1;

    PL_TRY(pl_file_partial(path, log, &partial));
    if (why == NULL) {
        fd  = open(partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        why = fd < 0 ? strerror(errno) : NULL;
    }
    if (fd >= 0) {
        /* Nobody else writes it: then it is ours to remove. */
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            (void)unlink(partial);
        }
        (void)close(fd);
    }
    free(partial);
    if (why != NULL) {
        pl_log(log, PL_LOG_ERROR,
               "%s %s: cannot be written: %s; expected a file in a folder that "
               "exists and that you may write to",
               what, path, why);
        return PL_ERR_IO;
    }
    return PL_OK;
}

/* Is the file that is open still the one of that name? */
static bool is_named(int fd, const char *path)
{
    struct stat mine, named;

    return (fstat(fd, &mine) == 0) && (stat(path, &named) == 0) &&
           (mine.st_ino == named.st_ino) && (mine.st_dev == named.st_dev);
}

pl_status_t pl_file_try_lock(const char *partial, const pl_log_t *log,
                             int *lock_p)
{
    int fd = open(partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0) {
        pl_log(log, PL_LOG_ERROR, "cannot write %s: %s", partial,
               strerror(errno));
        return PL_ERR_IO;
    }
    *lock_p = fd;
    if ((flock(fd, LOCK_EX | LOCK_NB) != 0) || !is_named(fd, partial)) {
        (void)close(fd); /* another run's, or published meanwhile */
        *lock_p = -1;
    }
    return PL_OK;
}

pl_status_t pl_file_lock(const char *partial, const pl_log_t *log, int *lock_p)
{
    enum { TRIES = 1200, PAUSE_NS = 50000000 };
    const struct timespec pause = {0, PAUSE_NS};

    for (int i = 0; i < TRIES; i++) {
        PL_TRY(pl_file_try_lock(partial, log, lock_p));
        if (*lock_p >= 0) {
            return PL_OK;
        }
        (void)nanosleep(&pause, NULL);
    }
    pl_log(log, PL_LOG_ERROR,
           "%s is being written by another run that does not end; give each "
           "run a --snapshot of its own",
           partial);
    return PL_ERR_IO;
}

void pl_file_unlock(int lock)
{
    if (lock >= 0) {
        (void)close(lock);
    }
}

static int write_range(pl_files_t *files, int fd, const char *bytes,
                       uint64_t at, uint64_t n)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, (size_t)n};

    return n == 0 ? 0 : pl_files_write(files, fd, &piece, 1, at);
}

static int fill(pl_files_t *files, int fd, const char *bytes, uint64_t n,
                const pl_file_range_t *holes, size_t n_holes)
{
    uint64_t first = 0;
    int failed     = n > 0 ? pl_files_allocate(files, fd, n) : 0;

    for (size_t i = 0; (failed == 0) && (i < n_holes); i++) {
        failed = write_range(files, fd, bytes + first, first,
                             holes[i].first - first);
        first  = holes[i].first + holes[i].n;
    }
    return failed == 0 ? write_range(files, fd, bytes + first, first, n - first)
                       : failed;
}

/* Close fd, if it is open, and say what has failed. */
static pl_status_t finish_write(int fd, int failed, const char *partial,
                                const pl_log_t *log)
{
    if ((fd >= 0) && (close(fd) != 0) && (failed == 0)) {
        failed = errno;
    }
    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot write %s: %s", partial,
               strerror(failed));
        return PL_ERR_IO;
    }
    return PL_OK;
}

pl_status_t pl_files_put(pl_files_t *files, const char *partial,
                         const void *bytes, uint64_t n,
                         const pl_file_range_t *holes, size_t n_holes,
                         const pl_log_t *log)
{
    int fd = -1;
    int failed =
        pl_files_open_file(files, partial, O_WRONLY | O_CREAT | O_TRUNC, &fd);

    if (failed == 0) {
        failed = fill(files, fd, bytes, n, holes, n_holes);
    }
    return finish_write(fd, failed, partial, log);
}

pl_status_t pl_files_append(pl_files_t *files, const char *partial,
                            const void *bytes, uint64_t n, const pl_log_t *log)
{
    int fd     = -1;
    int failed = pl_files_open_file(files, partial, O_WRONLY, &fd);
    off_t end  = failed != 0 ? 0 : lseek(fd, 0, SEEK_END);

    if (end < 0) {
        failed = errno;
    }
    if (failed == 0) {
        failed = write_range(files, fd, bytes, (uint64_t)end, n);
    }
    return finish_write(fd, failed, partial, log);
}

static pl_status_t cannot_sync(const char *path, int failed,
                               const pl_log_t *log)
{
    pl_log(log, PL_LOG_ERROR, "cannot bring %s to the disk: %s", path,
           strerror(failed));
    return PL_ERR_IO;
}

pl_status_t pl_files_sync_path(pl_files_t *files, const char *partial,
                               const pl_log_t *log)
{
    int fd     = -1;
    int failed = pl_files_open_file(files, partial, O_RDWR, &fd);

    if (failed == 0) {
        failed = pl_files_sync(files, fd);
        (void)close(fd);
    }
    return failed == 0 ? PL_OK : cannot_sync(partial, failed, log);
}

pl_status_t pl_files_publish(pl_files_t *files, const char *partial,
                             const char *path, const pl_log_t *log)
{
    int failed = pl_files_rename(files, partial, path);
    const char *folder;
    char *copy;

    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot rename %s to %s: %s", partial, path,
               strerror(failed));
        return PL_ERR_IO;
    }
    copy = strdup(path);
    if (copy == NULL) {
        return no_memory(log, path);
    }
    folder = dirname(copy);
    failed = pl_files_sync_folder(files, folder);
    if (failed != 0) {
        (void)cannot_sync(folder, failed, log);
    }
    free(copy);
    return failed == 0 ? PL_OK : PL_ERR_IO;
}

void pl_files_discard(pl_files_t *files, const char *partial)
{
    (void)pl_files_unlink(files, partial);
}

/* ---- the plain way ---- */

pl_status_t pl_file_write(const char *partial, const void *bytes, uint64_t n,
                          const pl_file_range_t *holes, size_t n_holes,
                          const pl_log_t *log)
{
    return pl_files_put(NULL, partial, bytes, n, holes, n_holes, log);
}

pl_status_t pl_file_append(const char *partial, const void *bytes, uint64_t n,
                           const pl_log_t *log)
{
    return pl_files_append(NULL, partial, bytes, n, log);
}

pl_status_t pl_file_sync(const char *partial, const pl_log_t *log)
{
    return pl_files_sync_path(NULL, partial, log);
}

pl_status_t pl_file_publish(const char *partial, const char *path,
                            const pl_log_t *log)
{
    return pl_files_publish(NULL, partial, path, log);
}

void pl_file_discard(const char *partial)
{
    pl_files_discard(NULL, partial);
}
