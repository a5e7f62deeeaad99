#include "store/tier_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/seal.h"
#include "store/tier_index.h"

#define PARTIAL PL_TIER_INDEX ".partial"

struct pl_tier_lock {
    int fd;
};

char *pl_tier_path(const char *folder, const char *name)
{
    size_t n   = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);

    if (path != NULL) {
        (void)snprintf(path, n, "%s/%s", folder, name);
    }
    return path;
}

int pl_tier_open_segment(const char *folder, pl_segment_name_t name)
{
    char text[PL_SEGMENT_NAME_BYTES];
    char *path;
    int fd, failed;

    pl_segment_name_text(name, text);
    path   = pl_tier_path(folder, text);
    fd     = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    failed = path == NULL ? ENOMEM : errno;
    free(path);
    errno = failed;
    return fd;
}

/* ---- what is there ---- */

static int by_name(const void *a, const void *b)
{
    const pl_segment_name_t *x = a;
    const pl_segment_name_t *y = b;

    if (x->set != y->set) {
        return x->set < y->set ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

static pl_status_t add_file(const char *file, pl_tier_listing_t *listing)
{
    pl_segment_name_t name;

    if (strcmp(file, PL_TIER_INDEX) == 0) {
        listing->has_index = true;
    } else if (strcmp(file, PARTIAL) == 0) {
        listing->has_partial = true;
    } else if (strcmp(file, PL_TIER_LOCK) == 0) {
        listing->has_lock = true;
    } else if (pl_segment_name_parse(file, &name)) {
        return PL_ARRAY_PUSH(&listing->segments, name);
    } else if ((strcmp(file, ".") != 0) && (strcmp(file, "..") != 0)) {
        (void)snprintf(listing->stranger, sizeof(listing->stranger), "%s",
                       file);
    }
    return PL_OK;
}

/* Neither as HDF5 begins nor as we end: no damage makes that of an index.  What
 * cannot be read is not known, and an empty file is nobody's loss. */
static bool is_foreign_index(const char *folder)
{
    static const char MAGIC[] = {'\211', 'H', 'D', 'F'};
    char *path                = pl_tier_path(folder, PL_TIER_INDEX);
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char start[sizeof(MAGIC)] = "";
    char seal[PL_SEAL_BYTES]  = "";
    bool is_foreign           = false;
    struct stat about;

    if ((fd >= 0) && (fstat(fd, &about) == 0)) {
        is_foreign = !S_ISREG(about.st_mode);
        if (!is_foreign && (about.st_size > 0) &&
            (pread(fd, start, sizeof(start), 0) >= 0) &&
            ((about.st_size < PL_SEAL_BYTES) ||
             (pread(fd, seal, sizeof(seal), about.st_size - PL_SEAL_BYTES) >=
              0))) {
            is_foreign =
                (memcmp(start, MAGIC, sizeof(MAGIC)) != 0) && !pl_seal_is(seal);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    free(path);
    return is_foreign;
}

pl_status_t pl_tier_list(const char *folder, const pl_log_t *log,
                         pl_tier_listing_t *listing_p)
{
    pl_tier_listing_t listing = {0};
    DIR *open                 = opendir(folder);
    pl_status_t status        = PL_OK;
    struct dirent *entry;

    if (open == NULL) {
        pl_log(log, PL_LOG_ERROR, "cannot read the folder %s: %s", folder,
               strerror(errno));
        return PL_ERR_INPUT;
    }
    while ((status == PL_OK) && ((entry = readdir(open)) != NULL)) {
        status = add_file(entry->d_name, &listing);
    }
    (void)closedir(open);
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", folder);
        pl_tier_listing_free(&listing);
        return status;
    }
    if (listing.has_index && is_foreign_index(folder)) {
        (void)snprintf(listing.stranger, sizeof(listing.stranger), "%s",
                       PL_TIER_INDEX);
    }
    if (listing.segments.n > 1) {
        qsort(listing.segments.items, listing.segments.n,
              sizeof(*listing.segments.items), by_name);
    }
    *listing_p = listing;
    return PL_OK;
}

void pl_tier_listing_free(pl_tier_listing_t *listing)
{
    PL_ARRAY_FREE(&listing->segments);
}

bool pl_tier_exists(const char *folder)
{
    pl_tier_listing_t listing = {0};
    bool exists;

    if (pl_tier_list(folder, NULL, &listing) != PL_OK) {
        return false;
    }
    exists = listing.has_index || (listing.segments.n > 0);
    pl_tier_listing_free(&listing);
    return exists;
}

/* ---- a run that writes ---- */

static pl_status_t refuse_folder(const char *folder, const char *what,
                                 int failed, const pl_log_t *log)
{
    pl_log(log, PL_LOG_ERROR,
           "storage %s: cannot %s: %s; name a folder that can be made and that "
           "you may write to",
           folder, what, strerror(failed));
    return PL_ERR_INPUT;
}

/* A folder that this user cannot write is a wrong one; what a disk does not do
 * is no reason not to run. */
static pl_status_t failed_at(const char *folder, const char *what, int failed,
                             const pl_log_t *log)
{
    switch (failed) {
    case EACCES:
    case EPERM:
    case EROFS:
        return refuse_folder(folder, what, failed, log);
    case ENOMEM:
        pl_log(log, PL_LOG_ERROR, "storage %s: out of memory", folder);
        return PL_ERR_MEMORY;
    default:
        pl_log(log, PL_LOG_WARN,
               "storage %s: cannot %s: %s; nothing is stored, what is there "
               "can be read",
               folder, what, strerror(failed));
        return PL_ERR_IO;
    }
}

static pl_status_t make_folder(const char *folder, pl_files_t *files,
                               const pl_log_t *log)
{
    struct stat about;
    char *copy;
    int failed;

    if (stat(folder, &about) == 0) {
        return S_ISDIR(about.st_mode)
                   ? PL_OK
                   : refuse_folder(folder, "make the folder", ENOTDIR, log);
    }
    failed = pl_files_mkdir(files, folder);
    if (failed != 0) {
        return refuse_folder(folder, "make the folder", failed, log);
    }
    copy   = strdup(folder);
    failed = copy == NULL ? ENOMEM : pl_files_sync_folder(files, dirname(copy));
    free(copy);
    return failed == 0 ? PL_OK
                       : failed_at(folder, "bring it to the disk", failed, log);
}

/* The lock of an open file, alone (LOCK_EX) or with others (LOCK_SH); closes it
 * if that cannot be had. */
static pl_status_t lock_file(const char *folder, int fd, int how,
                             const pl_log_t *log)
{
    if (flock(fd, how | LOCK_NB) != 0) {
        (void)close(fd);
        pl_log(log, PL_LOG_ERROR,
               "storage %s: another run is writing it; wait for its end, or "
               "give each run a folder of its own",
               folder);
        return PL_ERR_INPUT;
    }
    return PL_OK;
}

static pl_status_t take_lock(const char *folder, pl_files_t *files,
                             const pl_log_t *log, int *fd_p)
{
    char *path = pl_tier_path(folder, PL_TIER_LOCK);
    int fd     = -1;
    int failed = path == NULL
                     ? ENOMEM
                     : pl_files_open_file(files, path, O_RDWR | O_CREAT, &fd);

    free(path);
    if (failed != 0) {
        return failed_at(folder, "take its lock", failed, log);
    }
    PL_TRY(lock_file(folder, fd, LOCK_EX, log));
    *fd_p = fd;
    return PL_OK;
}

int pl_tier_speak_first(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return -2;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        bool is_taken = errno == EWOULDBLOCK;

        (void)close(fd);
        return is_taken ? -1 : -2;
    }
    return fd;
}

int pl_tier_share(const char *folder)
{
    char *path = pl_tier_path(folder, PL_TIER_LOCK);
    int fd     = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);

    free(path);
    return (fd >= 0) && (lock_file(folder, fd, LOCK_SH, NULL) != PL_OK) ? -1
                                                                        : fd;
}

pl_status_t pl_tier_hold(const char *folder, const pl_log_t *log,
                         pl_tier_lock_t **lock_p)
{
    char *path           = pl_tier_path(folder, PL_TIER_LOCK);
    pl_tier_lock_t *lock = malloc(sizeof(*lock));
    int fd               = -1;

    if ((path == NULL) || (lock == NULL)) {
        free(path);
        free(lock);
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", folder);
        return PL_ERR_MEMORY;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    free(path);
    if ((fd >= 0) && (lock_file(folder, fd, LOCK_EX, log) != PL_OK)) {
        free(lock);
        return PL_ERR_INPUT;
    }
    lock->fd = fd;
    *lock_p  = lock;
    return PL_OK;
}

/* A run may have died between the renaming of its index and the sync of the
 * folder.  What this run reads and builds on must not be taken back later, when
 * places that only the index before it names have been written again. */
static pl_status_t settle(const char *folder, pl_files_t *files,
                          const pl_log_t *log)
{
    int failed = pl_files_sync_folder(files, folder);

    return failed == 0 ? PL_OK
                       : failed_at(folder, "bring it to the disk", failed, log);
}

static pl_status_t clean(const char *folder, pl_files_t *files,
                         const pl_tier_listing_t *listing, const pl_log_t *log)
{
    char *path;
    int failed;

    if (!listing->has_partial) {
        return PL_OK;
    }
    path   = pl_tier_path(folder, PARTIAL);
    failed = path == NULL ? ENOMEM : pl_files_unlink(files, path);
    free(path);
    return failed == 0 ? PL_OK
                       : failed_at(folder, "remove " PARTIAL, failed, log);
}

pl_status_t pl_tier_prepare(const char *folder, pl_files_t *files,
                            const pl_log_t *log, pl_tier_lock_t **lock_p)
{
    pl_tier_listing_t listing = {0};
    pl_tier_lock_t *lock      = NULL;
    pl_status_t status        = PL_OK;

    PL_TRY(make_folder(folder, files, log));
    PL_TRY(pl_tier_list(folder, log, &listing));
    if (listing.stranger[0] != '\0') {
        pl_log(log, PL_LOG_ERROR,
               "storage %s: it holds '%s', which is no part of a storage tier; "
               "name an empty or a new folder",
               folder, listing.stranger);
        status = PL_ERR_INPUT;
        goto out;
    }
    lock = malloc(sizeof(*lock));
    if (lock == NULL) {
        status = failed_at(folder, "take its lock", ENOMEM, log);
        goto out;
    }
    lock->fd = -1;
    PL_TRY_GOTO(status, take_lock(folder, files, log, &lock->fd), out);
    /* Only now it is nobody else's. */
    PL_TRY_GOTO(status, settle(folder, files, log), out);
    PL_TRY_GOTO(status, clean(folder, files, &listing, log), out);
    /* From here on the doors of all ranks have it as well. */
    status = lock_file(folder, lock->fd, LOCK_SH, log);
    if (status != PL_OK) {
        lock->fd = -1;
        goto out;
    }
    *lock_p = lock;
    lock    = NULL;

out:
    pl_tier_release(lock);
    pl_tier_listing_free(&listing);
    return status;
}

void pl_tier_release(pl_tier_lock_t *lock)
{
    if (lock != NULL) {
        if (lock->fd >= 0) {
            (void)close(lock->fd);
        }
        free(lock);
    }
}
