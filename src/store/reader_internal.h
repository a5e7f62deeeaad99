/* store/reader_internal.h - the parts of store/reader.h:
 *   reader.c             files, objects, datasets
 *   reader_attributes.c  attributes
 */
#ifndef PL_STORE_READER_INTERNAL_H
#define PL_STORE_READER_INTERNAL_H

#include "store/h5.h"
#include "store/reader.h"

struct pl_snapshot {
    char *path;
    hid_t file;
    uint64_t file_bytes;
    const pl_log_t *log;
    pl_h5_quiet_t quiet;
    int64_t minor;
};

/* Open an object of that kind that is reached by plain links only; negative:
 * there is none.  Silent. */
hid_t pl_snapshot_object(const pl_snapshot_t *snapshot, const char *path,
                         H5I_type_t kind);

pl_status_t pl_snapshot_no_memory(const pl_snapshot_t *snapshot,
                                  const char *object);

/* n integers of an attribute of a group; n == 0: a scalar, into integers[0]. */
PL_MUST_CHECK pl_status_t pl_snapshot_integers(const pl_snapshot_t *snapshot,
                                               const char *group,
                                               const char *name, int n,
                                               int64_t *integers);

/* The attribute xxh3_64 of a dataset. */
PL_MUST_CHECK pl_status_t pl_snapshot_digest(const pl_snapshot_t *snapshot,
                                             const char *path, hid_t dataset,
                                             uint64_t *digest_p);

#endif /* PL_STORE_READER_INTERNAL_H */
