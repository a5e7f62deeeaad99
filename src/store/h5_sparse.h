/* store/h5_sparse.h - an HDF5 file in memory of which only what is written
 * takes memory: for skeletons with room for far more than they have; inside
 * store.
 *
 *   pl_h5_sparse_t sparse = {0};
 *   pl_h5_sparse_use(list, &sparse)      of a file access list; then H5Fcreate,
 *                                        ..., H5Fclose
 *   pl_h5_sparse_read(&sparse, ...)      from then on
 *   pl_h5_sparse_free(&sparse)
 */
#ifndef PL_STORE_H5_SPARSE_H
#define PL_STORE_H5_SPARSE_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

typedef struct pl_h5_sparse {
    PL_ARRAY(uint8_t *) blocks; /* owned; NULL: nothing was written there */
    uint64_t n;                 /* bytes of the file, its user block included */
    bool is_short; /* a write found no memory: look after H5Fclose.  HDF5 is not
                      told, since it tries to write again, after this is gone */
} pl_h5_sparse_t;

/* One file is made with the list.  Negative: failed. */
herr_t pl_h5_sparse_use(hid_t list, pl_h5_sparse_t *sparse);

/* n bytes from `at` on; zero where nothing was written. */
void pl_h5_sparse_read(const pl_h5_sparse_t *sparse, uint64_t at, size_t n,
                       void *bytes);
void pl_h5_sparse_free(pl_h5_sparse_t *sparse);

#endif /* PL_STORE_H5_SPARSE_H */
