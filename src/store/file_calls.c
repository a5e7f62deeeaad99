/* The calls of store/file.h that change a disk, and what --inject makes of
 * them. */
#define _DEFAULT_SOURCE /* pwritev */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file.h"
#include "store/file_journal.h"

struct pl_files {
    pthread_mutex_t mutex; /* of inject and is_full */
    pl_inject_t inject;
    int rank;
    bool is_full;
    pl_files_journal_t *journal; /* or NULL */
    atomic_int_fast64_t n_syncs;
};

pl_status_t pl_files_open(const pl_inject_t *inject, int rank,
                          pl_files_journal_t *journal, pl_files_t **files_p)
{
    pl_files_t *files = calloc(1, sizeof(*files));

    if (files == NULL) {
        return PL_ERR_MEMORY;
    }
    (void)pthread_mutex_init(&files->mutex, NULL);
    files->rank    = rank;
    files->journal = journal;
    if (inject != NULL) {
        files->inject = *inject;
    }
    *files_p = files;
    return PL_OK;
}

void pl_files_close(pl_files_t *files)
{
    if (files != NULL) {
        (void)pthread_mutex_destroy(&files->mutex);
        free(files);
    }
}

int64_t pl_files_syncs(const pl_files_t *files)
{
    return atomic_load(&files->n_syncs);
}

static void count_sync(pl_files_t *files)
{
    if (files != NULL) {
        (void)atomic_fetch_add(&files->n_syncs, 1);
    }
}

/* ---- what breaks ---- */

typedef struct fault {
    int failed; /* error number of the call; 0: it is made */
    bool half;  /* a write: half of it, then EIO */
} fault_t;

static bool hits(pl_files_t *files, pl_inject_point_t point)
{
    return pl_inject_hit(&files->inject, point, files->rank, INT64_MAX);
}

/* The process ends here, and with it what was not synced. */
static void lose(pl_files_t *files)
{
    if (files->journal != NULL) {
        pl_journal_hold(files->journal); /* for good */
        pl_journal_lose(files->journal);
    }
    (void)kill(getpid(), SIGKILL);
    (void)pause();
}

/* One call more. */
static fault_t next_call(pl_files_t *files, bool takes_room)
{
    fault_t fault = {0};
    bool is_last;

    if (files == NULL) {
        return fault;
    }
    (void)pthread_mutex_lock(&files->mutex);
    is_last        = hits(files, PL_INJECT_FILE_LOST);
    fault.failed   = hits(files, PL_INJECT_FILE_FAIL) ? EIO : 0;
    fault.half     = hits(files, PL_INJECT_FILE_SHORT);
    files->is_full = hits(files, PL_INJECT_DISK_FULL) || files->is_full;
    if (files->is_full && takes_room && (fault.failed == 0)) {
        fault.failed = ENOSPC;
    }
    (void)pthread_mutex_unlock(&files->mutex);
    if (is_last) {
        lose(files);
    }
    if (fault.half && !takes_room) {
        fault.failed = EIO;
    }
    return fault;
}

/* The journal of these files, held; NULL: there is none. */
static pl_files_journal_t *hold(pl_files_t *files)
{
    if ((files == NULL) || (files->journal == NULL)) {
        return NULL;
    }
    pl_journal_hold(files->journal);
    return files->journal;
}

static void drop(pl_files_journal_t *journal)
{
    if (journal != NULL) {
        pl_journal_drop(journal);
    }
}

/* ---- the calls ---- */

int pl_files_open_file(pl_files_t *files, const char *path, int flags,
                       int *fd_p)
{
    int failed                  = next_call(files, false).failed;
    pl_files_journal_t *journal = hold(files);
    int fd                      = -1;

    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_will_open(journal, path, flags);
    }
    if (failed == 0) {
        fd     = open(path, flags | O_CLOEXEC, 0666);
        failed = fd < 0 ? errno : 0;
    }
    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_opened(journal, path, fd);
        if (failed != 0) {
            (void)close(fd);
        }
    }
    drop(journal);
    if (failed == 0) {
        *fd_p = fd;
    }
    return failed;
}

/* Take n bytes off the front of the pieces; how many pieces are used up. */
static int use_up(struct iovec *pieces, int n_pieces, size_t n)
{
    int i = 0;

    while ((i < n_pieces) && (n >= pieces[i].iov_len)) {
        n -= pieces[i].iov_len;
        i++;
    }
    if (i < n_pieces) {
        pieces[i].iov_base = (char *)pieces[i].iov_base + n;
        pieces[i].iov_len -= n;
    }
    return i;
}

enum { LONGEST_LIST = 1024 }; /* pieces the kernel takes at once */

static int write_all(int fd, struct iovec *pieces, int n_pieces, uint64_t at)
{
    while (n_pieces > 0) {
        int n        = n_pieces < LONGEST_LIST ? n_pieces : LONGEST_LIST;
        ssize_t done = pwritev(fd, pieces, n, (off_t)at);
        int used;

        if ((done < 0) && (errno == EINTR)) {
            continue;
        }
        if (done < 0) {
            return errno;
        }
        used = use_up(pieces, n_pieces, (size_t)done);
        if ((done == 0) && (used == 0)) {
            return EIO;
        }
        pieces += used;
        n_pieces -= used;
        at += (uint64_t)done;
    }
    return 0;
}

static uint64_t bytes_of(const struct iovec *pieces, int n_pieces)
{
    uint64_t n = 0;

    for (int i = 0; i < n_pieces; i++) {
        n += pieces[i].iov_len;
    }
    return n;
}

/* Keep the first n bytes only; how many pieces they have. */
static int keep_first(struct iovec *pieces, int n_pieces, uint64_t n)
{
    int i = 0;

    for (; (i < n_pieces) && (n > 0); i++) {
        if (pieces[i].iov_len > n) {
            pieces[i].iov_len = (size_t)n;
        }
        n -= pieces[i].iov_len;
    }
    return i;
}

int pl_files_write(pl_files_t *files, int fd, struct iovec *pieces,
                   int n_pieces, uint64_t at)
{
    fault_t fault               = next_call(files, true);
    pl_files_journal_t *journal = hold(files);
    int failed                  = fault.failed;

    if (fault.half) {
        n_pieces = keep_first(pieces, n_pieces, bytes_of(pieces, n_pieces) / 2);
    }
    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_bytes(journal, fd, at, bytes_of(pieces, n_pieces));
    }
    if (failed == 0) {
        failed = write_all(fd, pieces, n_pieces, at);
    }
    drop(journal);
    return (failed == 0) && fault.half ? EIO : failed;
}

int pl_files_allocate(pl_files_t *files, int fd, uint64_t n)
{
    fault_t fault               = next_call(files, true);
    pl_files_journal_t *journal = hold(files);
    int failed                  = fault.half ? EIO : fault.failed;

    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_bytes(journal, fd, 0, 0);
    }
    if (failed == 0) {
        failed = posix_fallocate(fd, 0, (off_t)n);
        /* A disk that cannot reserve is no reason not to try. */
        if ((failed == EOPNOTSUPP) || (failed == EINVAL)) {
            failed = ftruncate(fd, (off_t)n) != 0 ? errno : 0;
        }
    }
    drop(journal);
    return failed;
}

static int sync_fd(pl_files_t *files, int fd, int (*sync)(int))
{
    int failed                  = next_call(files, false).failed;
    pl_files_journal_t *journal = hold(files);

    count_sync(files);
    if ((failed == 0) && (sync(fd) != 0)) {
        failed = errno;
    }
    if ((failed == 0) && (journal != NULL)) {
        pl_journal_synced(journal, fd);
    }
    drop(journal);
    return failed;
}

int pl_files_sync(pl_files_t *files, int fd)
{
    return sync_fd(files, fd, fsync);
}

int pl_files_sync_data(pl_files_t *files, int fd)
{
    return sync_fd(files, fd, fdatasync);
}

int pl_files_sync_folder(pl_files_t *files, const char *folder)
{
    int failed                  = next_call(files, false).failed;
    pl_files_journal_t *journal = hold(files);
    int fd                      = -1;

    count_sync(files);
    if (failed == 0) {
        fd     = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        failed = (fd < 0) || (fsync(fd) != 0) ? errno : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if ((failed == 0) && (journal != NULL)) {
        pl_journal_synced_folder(journal, folder);
    }
    drop(journal);
    return failed;
}

int pl_files_rename(pl_files_t *files, const char *from, const char *to)
{
    int failed                  = next_call(files, false).failed;
    pl_files_journal_t *journal = hold(files);

    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_rename(journal, from, to);
    }
    if ((failed == 0) && (rename(from, to) != 0)) {
        failed = errno;
    }
    drop(journal);
    return failed;
}

int pl_files_unlink(pl_files_t *files, const char *path)
{
    int failed                  = next_call(files, false).failed;
    pl_files_journal_t *journal = hold(files);

    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_unlink(journal, path);
    }
    if ((failed == 0) && (unlink(path) != 0)) {
        failed = errno;
    }
    drop(journal);
    return failed;
}

int pl_files_mkdir(pl_files_t *files, const char *path)
{
    int failed                  = next_call(files, true).failed;
    pl_files_journal_t *journal = hold(files);

    if ((failed == 0) && (mkdir(path, 0777) != 0)) {
        failed = errno;
    }
    if ((failed == 0) && (journal != NULL)) {
        failed = pl_journal_mkdir(journal, path);
    }
    drop(journal);
    return failed;
}

int pl_files_foreign_write(pl_files_t *files)
{
    fault_t fault = next_call(files, true);

    return fault.half ? EIO : fault.failed;
}
