/* store/tier_index.h - the index of a storage tier; inside store.
 *
 *     HDF5        attributes: identity, stamps; /sets, /entries, /run and
 *                 /identity
 *     contents    text: every number and text of it, and where each column lies
 *     seal        store/seal.h, of all before it
 *
 * The contents stand behind HDF5's last byte, so HDF5 takes no notice of them;
 * and who reads an index through them, as all code here does, never hands a
 * file from outside to HDF5.  An index without its seal is not whole.
 *
 * Not collective.
 */
#ifndef PL_STORE_TIER_INDEX_H
#define PL_STORE_TIER_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/storage.h"
#include "store/file.h"
#include "store/tier.h"
#include "verify/inject.h"

#define PL_TIER_FORMAT "pagelane-tier"
#define PL_TIER_MAJOR  1
#define PL_TIER_MINOR  0
#define PL_TIER_INDEX  "index.h5"
#define PL_TIER_LOCK   "lock"

#define PL_TIER_MOST_SETS 1000000 /* numbers are below it */

typedef struct pl_tier_set {
    int32_t number, ranks, slots; /* slots of each rank's share */
    int32_t lanes;                /* `ranks`, or 1: all ranks hold alike */
} pl_tier_set_t;

typedef struct pl_tier_index {
    char *model, *tokens, *dtype; /* owned */
    int32_t page_tokens, n_layers;
    int64_t page_bytes;
    uint64_t layout;
    int32_t latent_row_bytes, index_key_bytes, index_scale_bytes;
    uint8_t *has_index; /* [n_layers], owned */

    int64_t settled_stamp; /* all writes up to it had ended */
    int64_t next_stamp;    /* greater than any */
    int32_t own_set;       /* of the run that published */
    uint64_t trace;
    int32_t n_requests;
    uint8_t *finished; /* [n_requests], owned */

    int32_t n_sets;
    pl_tier_set_t *sets; /* ascending, owned */
    int32_t n_entries;
    pl_storage_entry_t *entries; /* least recently used first, owned */
    uint64_t *digests;           /* [n_entries], owned */
} pl_tier_index_t;

void pl_tier_index_free(pl_tier_index_t *index);

/* NULL: the index does not have it. */
const pl_tier_set_t *pl_tier_index_set(const pl_tier_index_t *index,
                                       int32_t number);

/* Every number is in its range (places within their sets, owners, stamps below
 * next_stamp, positions of tokens that can be counted); that entries fit
 * together is for others to see.  PL_OK; PL_ERR_INPUT: not whole, or no index;
 * PL_REFUSED_UNSUPPORTED: of a later major version; PL_ERR_IO: it cannot be
 * read; PL_ERR_MEMORY.  One line. */
PL_MUST_CHECK pl_status_t pl_tier_index_read(const char *path,
                                             const pl_log_t *log,
                                             pl_tier_index_t *index_p);

/* The same of bytes[n] that have been read, or will be written, as `path`. */
PL_MUST_CHECK pl_status_t pl_tier_index_parse(const char *path,
                                              const void *bytes, size_t n,
                                              const pl_log_t *log,
                                              pl_tier_index_t *index_p);

/* The identity in it, borrowed from the index. */
pl_tier_identity_t pl_tier_index_identity(const pl_tier_index_t *index);
/* And the other way: copies.  PL_OK, PL_ERR_MEMORY (silent). */
PL_MUST_CHECK pl_status_t pl_tier_index_identify(
    pl_tier_index_t *index, const pl_tier_identity_t *identity);

/* Put it out as <folder>/index.h5: written beside it, synced, renamed, the
 * folder synced.  On failure the old one stands, or (folder not synced) the new
 * one.  `inject` (may be NULL): die=publish, publish-sync, publish-rename,
 * publish-folder, published on `rank`.  PL_OK, PL_ERR_IO, PL_ERR_MEMORY,
 * PL_ERR_INTERNAL (one that would be refused when it is read; nothing is
 * written), one line. */
PL_MUST_CHECK pl_status_t pl_tier_index_publish(const pl_tier_index_t *index,
                                                const char *folder,
                                                pl_files_t *files,
                                                pl_inject_t *inject, int rank,
                                                const pl_log_t *log);

#endif /* PL_STORE_TIER_INDEX_H */
