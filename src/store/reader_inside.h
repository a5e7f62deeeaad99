/* store/reader_inside.h - what reads a file through HDF5, inside the
 * process that store/reader.h starts for it:
 *   reader_inside.c      files, objects, datasets
 *   reader_attributes.c  attributes
 *   reader_members.c     what stands in a group, and texts
 *
 * Names, types, sizes and offsets are checked here before they are used.
 * Statuses and lines as in store/reader.h.  HDF5's own messages are off already
 * (pl_h5_quiet).  A file whose structure was made to break HDF5 may break the
 * process.
 */
#ifndef PL_STORE_READER_INSIDE_H
#define PL_STORE_READER_INSIDE_H

#include "store/h5.h"
#include "store/reader.h"

typedef struct pl_inside {
    const char *path; /* borrowed */
    hid_t file;
    uint64_t file_bytes;
    const pl_log_t *log;
    int64_t minor;
    bool is_sweep; /* else a snapshot */
} pl_inside_t;

/* Open, and check format and version (`any`: or that of a sweep); to be closed
 * after any status. */
PL_MUST_CHECK pl_status_t pl_inside_open(const char *path, bool any,
                                         const pl_log_t *log,
                                         pl_inside_t *inside);
void pl_inside_close(pl_inside_t *inside);

/* As their namesakes in store/reader.h. */
bool pl_inside_has(const pl_inside_t *inside, const char *path,
                   H5I_type_t kind);
PL_MUST_CHECK pl_status_t pl_inside_integer(const pl_inside_t *inside,
                                            const char *group, const char *name,
                                            int64_t min, int64_t max,
                                            int64_t *value_p);
PL_MUST_CHECK pl_status_t pl_inside_text(const pl_inside_t *inside,
                                         const char *group, const char *name,
                                         char **text_p);
PL_MUST_CHECK pl_status_t pl_inside_attributes(const pl_inside_t *inside,
                                               const char *group,
                                               pl_snapshot_visit_t visit,
                                               void *context);
PL_MUST_CHECK pl_status_t pl_inside_read(const pl_inside_t *inside,
                                         const char *path, pl_item_t item,
                                         size_t rows, size_t columns,
                                         pl_snapshot_column_t *column_p);
pl_status_t pl_inside_refuse(const pl_inside_t *inside, const char *object,
                             const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* reader_members.c: each member of a group by its name, with a text: "group",
 * or the number of its item (pl_item_t) and its columns. */
PL_MUST_CHECK pl_status_t pl_inside_members(const pl_inside_t *inside,
                                            const char *group,
                                            pl_snapshot_visit_t visit,
                                            void *context);
/* The texts of a dataset, as they stand in the file: *n_p of *width_p bytes
 * each.  The caller frees *bytes_p. */
PL_MUST_CHECK pl_status_t pl_inside_texts(const pl_inside_t *inside,
                                          const char *path, size_t rows,
                                          char **bytes_p, size_t *n_p,
                                          size_t *width_p);

/* ---- between the files ---- */

/* What the file is, in words: "snapshot". */
const char *pl_inside_noun(const pl_inside_t *inside);

/* Rows and columns of a dataset, which must be as many as are asked for
 * (columns 0: it has one dimension).  Its items are not read. */
PL_MUST_CHECK pl_status_t pl_inside_shape(const pl_inside_t *inside,
                                          const char *path, hid_t dataset,
                                          size_t rows, size_t columns,
                                          pl_snapshot_column_t *column);

/* Could the file hold that many items of so many bytes? */
PL_MUST_CHECK pl_status_t
pl_inside_check_size(const pl_inside_t *inside, const char *path, hid_t dataset,
                     size_t item_bytes, const pl_snapshot_column_t *column);

/* Bytes in this file, packed by filters that come with HDF5. */
bool pl_inside_is_plain(hid_t dataset);

/* Do the bytes have the digest that stands beside the dataset, if one does? */
PL_MUST_CHECK pl_status_t pl_inside_check_digest(const pl_inside_t *inside,
                                                 const char *path,
                                                 hid_t dataset,
                                                 const void *bytes, size_t n);

/* Open an object of that kind that is reached by plain links only; negative:
 * there is none.  Silent. */
hid_t pl_inside_object(const pl_inside_t *inside, const char *path,
                       H5I_type_t kind);

pl_status_t pl_inside_no_memory(const pl_inside_t *inside, const char *object);

/* n integers of an attribute of a group; n == 0: a scalar, into integers[0]. */
PL_MUST_CHECK pl_status_t pl_inside_integers(const pl_inside_t *inside,
                                             const char *group,
                                             const char *name, int n,
                                             int64_t *integers);

/* The attribute xxh3_64 of a dataset. */
PL_MUST_CHECK pl_status_t pl_inside_digest(const pl_inside_t *inside,
                                           const char *path, hid_t dataset,
                                           uint64_t *digest_p);

#endif /* PL_STORE_READER_INSIDE_H */
