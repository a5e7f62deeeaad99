/* store/image.h - an HDF5 file in memory, as the bytes it will have on disk.
 *
 * HDF5 keeps a file that it could not close (a full disk) and trips over it
 * when the process ends.  So all that HDF5 has to say about a file's structure
 * is said in memory, where no disk can be full; the bytes go out by
 * store/file.h. Nothing but raw data is ever written by HDF5 to a file on disk.
 *
 * Packed datasets (store/pack.h) lie in chunks.  Every other lies in one piece,
 * at a place that is fixed when it is created: ranks can write theirs without
 * knowing of each other.  Not collective.
 */
#ifndef PL_STORE_IMAGE_H
#define PL_STORE_IMAGE_H

#include "store/content.h"
#include "store/file.h"
#include "store/h5.h"
#include "store/pack.h"

typedef struct pl_image {
    void *bytes; /* owned */
    uint64_t n;
    pl_file_range_t *raw; /* [n_raw] where the bytes of datasets lie that a
                             rank has for itself, ascending; owned */
    size_t n_raw;
} pl_image_t;

/* The file of pack->content, all data included; the pack is done.  `name` is
 * for messages.  PL_OK, PL_ERR_MEMORY, PL_ERR_INTERNAL (HDF5 refuses), one
 * line; on failure *image_p is untouched. */
PL_MUST_CHECK pl_status_t pl_image_make(const pl_pack_t *pack, const char *name,
                                        const pl_log_t *log,
                                        pl_image_t *image_p);
void pl_image_free(pl_image_t *image);

#endif /* PL_STORE_IMAGE_H */
