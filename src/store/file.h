/* store/file.h - the only door to open for writing, fsync and rename.
 *
 * A pl_files_t is one rank's way to the disk.  It counts its calls, so that
 * `--inject file=fail|short|lost@count:K` and `disk=full` can break the K-th
 * one.  NULL is the plain way: nothing is counted, nothing breaks on purpose.
 *
 * A file is published whole or not at all: it is written as <path>.partial,
 * synced, renamed over <path>, and the folder is synced.  A crash before the
 * rename leaves the last good file; the .partial of a crashed run is written
 * over by the next.  (Raw data that ranks add in parallel goes through HDF5,
 * which opens what stands here already.)
 *
 * Not collective.  Failures say one line with path and reason: PL_ERR_IO,
 * PL_ERR_MEMORY.
 */
#ifndef PL_STORE_FILE_H
#define PL_STORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "verify/inject.h"

/* ---- one rank's way to the disk ---- */

typedef struct pl_files pl_files_t; /* opaque */

/* What a process has written and not synced, so that `file=lost` can take it
 * back: one for all ranks of a process, closed after their pl_files_t. */
typedef struct pl_files_journal pl_files_journal_t; /* opaque */

/* *journal_p is NULL where `inject` (may be NULL) has no such rule: then
 * nothing is kept.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_files_journal_open(const pl_inject_t *inject,
                                                pl_files_journal_t **journal_p);
void pl_files_journal_close(pl_files_journal_t *journal); /* NULL is allowed */

/* `inject` (may be NULL) is copied, `journal` (may be NULL) borrowed. */
PL_MUST_CHECK pl_status_t pl_files_open(const pl_inject_t *inject, int rank,
                                        pl_files_journal_t *journal,
                                        pl_files_t **files_p);
void pl_files_close(pl_files_t *files); /* NULL is allowed */
/* How many syncs, of files and folders, there were so far. */
int64_t pl_files_syncs(const pl_files_t *files);

/* Each is one call of the layer.  Any thread.  They say nothing and return 0 or
 * an error number (errno.h). */
int pl_files_open_file(pl_files_t *files, const char *path, int flags,
                       int *fd_p); /* for writing; close it with close() */
/* All bytes of the pieces, in order, from place `at` on; the pieces are used
 * up.
 */
int pl_files_write(pl_files_t *files, int fd, struct iovec *pieces,
                   int n_pieces, uint64_t at);
int pl_files_allocate(pl_files_t *files, int fd, uint64_t n); /* room, zeroed */
int pl_files_sync(pl_files_t *files, int fd);
int pl_files_sync_data(pl_files_t *files, int fd); /* not times */
int pl_files_sync_folder(pl_files_t *files, const char *folder);
int pl_files_rename(pl_files_t *files, const char *from, const char *to);
int pl_files_unlink(pl_files_t *files, const char *path);
int pl_files_mkdir(pl_files_t *files, const char *path);
/* A write to a file of ours that HDF5 is about to make, on many ranks: counted,
 * so that it can fail; the journal knows nothing of its bytes. */
int pl_files_foreign_write(pl_files_t *files);

/* ---- files that are published whole ---- */

/* The name to write to until the file is published; the caller frees it.
 * PL_OK, PL_ERR_MEMORY (one line). */
PL_MUST_CHECK pl_status_t pl_file_partial(const char *path, const pl_log_t *log,
                                          char **partial_p);

/* Could <path> be published?  Makes and removes <path>.partial, unless another
 * run is writing it; <path> itself is not touched.  A file that stands there
 * and is no HDF5 file is not ours to replace.  `what` names the file in
 * messages: "option --snapshot". */
PL_MUST_CHECK pl_status_t pl_file_check(const char *path, const char *what,
                                        const pl_log_t *log);

/* Have `partial` to this process alone until pl_file_unlock; waits for another
 * run that writes it, a minute at most.  PL_ERR_IO says what to do. */
PL_MUST_CHECK pl_status_t pl_file_lock(const char *partial, const pl_log_t *log,
                                       int *lock_p);
/* The same without waiting: *lock_p is -1 if another run has it. */
PL_MUST_CHECK pl_status_t pl_file_try_lock(const char *partial,
                                           const pl_log_t *log, int *lock_p);
void pl_file_unlock(int lock); /* -1: nothing is held */

/* Bytes [first, first + n) of a file. */
typedef struct pl_file_range {
    uint64_t first, n;
} pl_file_range_t;

/* Make `partial` anew with bytes[n], reserving its place on the disk; what lies
 * in holes[n_holes] (ascending, apart, within n) is left for others to write.
 */
PL_MUST_CHECK pl_status_t pl_files_put(pl_files_t *files, const char *partial,
                                       const void *bytes, uint64_t n,
                                       const pl_file_range_t *holes,
                                       size_t n_holes, const pl_log_t *log);

/* Write bytes[n] behind the last of `partial`. */
PL_MUST_CHECK pl_status_t pl_files_append(pl_files_t *files,
                                          const char *partial,
                                          const void *bytes, uint64_t n,
                                          const pl_log_t *log);

/* Bring what was written to the disk. */
PL_MUST_CHECK pl_status_t pl_files_sync_path(pl_files_t *files,
                                             const char *partial,
                                             const pl_log_t *log);

/* Rename `partial` to `path` and sync the folder.  On failure `path` is as it
 * was, or (folder not synced) new. */
PL_MUST_CHECK pl_status_t pl_files_publish(pl_files_t *files,
                                           const char *partial,
                                           const char *path,
                                           const pl_log_t *log);

/* Remove what will not be published; silent. */
void pl_files_discard(pl_files_t *files, const char *partial);

/* The same the plain way. */
PL_MUST_CHECK pl_status_t pl_file_write(const char *partial, const void *bytes,
                                        uint64_t n,
                                        const pl_file_range_t *holes,
                                        size_t n_holes, const pl_log_t *log);
PL_MUST_CHECK pl_status_t pl_file_append(const char *partial, const void *bytes,
                                         uint64_t n, const pl_log_t *log);
PL_MUST_CHECK pl_status_t pl_file_sync(const char *partial,
                                       const pl_log_t *log);
PL_MUST_CHECK pl_status_t pl_file_publish(const char *partial, const char *path,
                                          const pl_log_t *log);
void pl_file_discard(const char *partial);

#endif /* PL_STORE_FILE_H */
