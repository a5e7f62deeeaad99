/* store/file.h - the only door to open for writing, fsync and rename.
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

#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* The name to write to until the file is published; the caller frees it.
 * PL_OK, PL_ERR_MEMORY (one line). */
PL_MUST_CHECK pl_status_t pl_file_partial(const char *path, const pl_log_t *log,
                                          char **partial_p);

/* Could <path> be published?  Makes and removes <path>.partial, unless another
 * run is writing it; <path> itself is not touched.  A file that stands there and
 * is no HDF5 file is not ours to replace.  `what` names the file in messages:
 * "option --snapshot". */
PL_MUST_CHECK pl_status_t pl_file_check(const char *path, const char *what,
                                        const pl_log_t *log);

/* Have `partial` to this process alone until pl_file_unlock; waits for another
 * run that writes it, a minute at most.  PL_ERR_IO says what to do. */
PL_MUST_CHECK pl_status_t pl_file_lock(const char *partial, const pl_log_t *log,
                                       int *lock_p);
void pl_file_unlock(int lock); /* -1: nothing is held */

/* Bytes [first, first + n) of a file. */
typedef struct pl_file_range {
    uint64_t first, n;
} pl_file_range_t;

/* Make `partial` anew with bytes[n], reserving its place on the disk; what lies
 * in holes[n_holes] (ascending, apart, within n) is left for others to write.
 */
PL_MUST_CHECK pl_status_t pl_file_write(const char *partial, const void *bytes,
                                        uint64_t n,
                                        const pl_file_range_t *holes,
                                        size_t n_holes, const pl_log_t *log);

/* Write bytes[n] behind the last of `partial`. */
PL_MUST_CHECK pl_status_t pl_file_append(const char *partial, const void *bytes,
                                         uint64_t n, const pl_log_t *log);

/* Bring what was written to the disk. */
PL_MUST_CHECK pl_status_t pl_file_sync(const char *partial,
                                       const pl_log_t *log);

/* Rename `partial` to `path` and sync the folder.  On failure `path` is as it
 * was, or (folder not synced) new. */
PL_MUST_CHECK pl_status_t pl_file_publish(const char *partial, const char *path,
                                          const pl_log_t *log);

/* Remove what will not be published; silent. */
void pl_file_discard(const char *partial);

#endif /* PL_STORE_FILE_H */
