/* store/pack.h - columns as chunks, shuffled and deflated.
 *
 * The bytes are those that HDF5's own filters would make, so that any HDF5
 * reads them, but made without HDF5: by several threads, or a slice at a time.
 * The same columns give the same bytes.
 *
 * Deflate looks for runs only (Z_RLE): shuffled columns are runs and noise, and
 * that is twice as fast as level 1 for a tenth more bytes.  A chunk that does
 * not get smaller is stored shuffled (HDF5's filter mask says so).
 *
 *   pl_pack_open -> pl_pack_step until pl_pack_done -> pl_image_make
 *                -> pl_pack_close
 *
 * Not collective.
 */
#ifndef PL_STORE_PACK_H
#define PL_STORE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "store/content.h"

/* As HDF5 counts filters: shuffle (not of single bytes), then deflate. */
#define PL_PACK_LEVEL 1

typedef struct pl_packed_chunk {
    size_t dataset;     /* index */
    uint64_t first_row; /* its rows beyond the dataset's last are zero */
    void *bytes;        /* owned; NULL: not packed yet */
    size_t n;
    bool is_deflated;
} pl_packed_chunk_t;

typedef struct pl_pack {
    const pl_content_t *content;        /* borrowed */
    PL_ARRAY(pl_packed_chunk_t) chunks; /* dataset by dataset, ascending rows */
    size_t n_done;                      /* of them, from the first on */
} pl_pack_t;

/* List the chunks of all datasets that are to be packed.  `content` and its
 * data stay as they are until the last step.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_pack_open(const pl_content_t *content,
                                       pl_pack_t *pack);
void pl_pack_close(pl_pack_t *pack); /* zero-initialised is allowed */

/* Pack the next chunks: one at least, at most about so many bytes of columns,
 * on up to n_threads threads (the caller's is one of them).  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_pack_step(pl_pack_t *pack, size_t most_bytes,
                                       int n_threads);
bool pl_pack_done(const pl_pack_t *pack);

/* Threads that make sense on this machine. */
int pl_pack_threads(void);

#endif /* PL_STORE_PACK_H */
