/* store/tier.h - a storage tier on disk: a folder of segment files and one
 * index.
 *
 *     index.h5                     what is kept, and where; renamed in whole
 *     set<S>-rank<R>-<NNNN>.h5     a segment: slots of rank R's share of set S
 *     lock                         held while a run writes the folder
 *
 * All ranks see the folder.  A segment's skeleton is on the disk before its
 * first page is written; a page's bytes and header lie at places that are fixed
 * by its slot.  The index is put out by rank 0 after every write that it names
 * has been synced on all ranks, so it never points at bytes that are not on
 * disk: docs/storage.md has the layout and why a crash at any point leaves a
 * folder that can be trusted.
 *
 * The folder belongs to one kind of content, its identity: whoever brings
 * another gets no page of it, and is told why.
 */
#ifndef PL_STORE_TIER_H
#define PL_STORE_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/storage.h"
#include "cache/storage_table.h"
#include "pool/store.h"
#include "store/file.h"
#include "verify/inject.h"

/* What a page's bytes depend on besides its tokens.  On disk a page is the
 * latent pages of all layers, then the index pages of the layers that have one,
 * each with its padding (pool/store.h): the pieces of a page, in this order. */
typedef struct pl_tier_identity {
    const char *model; /* borrowed: who made the bytes, and with what weights */
    const char *tokens; /* borrowed: how page keys come from a trace (what turns
                           ids into tokens) */
    const char *dtype;  /* borrowed: "f32", "bf16", "fp8", "stamp" */
    /* set by pl_tier_identity_layout */
    int32_t page_tokens;
    int32_t n_layers;
    int64_t page_bytes; /* of all layers and stores */
    uint64_t layout;    /* a hash of row sizes, and of which layers have what */
    int32_t latent_row_bytes, index_key_bytes, index_scale_bytes;
    const uint8_t *has_index; /* [n_layers], borrowed; NULL: every layer */
} pl_tier_identity_t;

/* How pages lie in memory, for the identity: `layout` is checked. */
void pl_tier_identity_layout(pl_tier_identity_t *identity,
                             const pl_store_layout_t *layout);

/* What a folder holds, as its index says. */
typedef struct pl_tier_content {
    pl_storage_start_t start; /* entries owned by the content */
    const char *mismatch; /* why nothing of it can be used ("its pages are bf16,
                             this run's are fp8"), or NULL */
    char *owned;          /* of mismatch */
    bool
        is_foreign; /* it holds pages of another identity, and keeps them: doors
                       to it do not write (can_write is false, silently) */
    int32_t n_requests; /* of the run that published last */
    uint8_t *finished;  /* [n_requests], owned */
    uint64_t trace;     /* identity of that run's requests; 0: none */
    /* of the set that it wrote */
    int32_t n_ranks;
    int32_t n_slots;
} pl_tier_content_t;

/* Is there a tier in the folder?  (An index, or segments without one.) */
bool pl_tier_exists(const char *folder);

/* Read the index, and the stamps in the segments of the set that will be
 * continued; not collective: rank 0 reads and tells the others (or every rank
 * does, before one writes).  n_ranks, n_slots: of the run that is to begin, to
 * choose start.own_set.  An index that is not whole, or a folder without one,
 * is an empty content with a reason in `mismatch`; one that cannot be read now,
 * like a segment that cannot, is PL_ERR_IO and nothing follows from it.  PL_OK;
 * PL_ERR_INPUT (no such folder; a later major version), PL_ERR_IO,
 * PL_ERR_MEMORY, one line. */
PL_MUST_CHECK pl_status_t pl_tier_read(const char *folder,
                                       const pl_tier_identity_t *identity,
                                       int32_t n_ranks, int32_t n_slots,
                                       const pl_log_t *log,
                                       pl_tier_content_t *content_p);
void pl_tier_content_free(pl_tier_content_t *content);

/* Make the folder if it is not there, take its lock, bring to the disk what a
 * crash left between (names of files), and remove what it left unpublished
 * (.partial).  Rank 0, before the doors are opened; these have
 * a share in the lock, so that no other run writes while one of them can.
 * `files` may be NULL.  PL_OK; PL_ERR_INPUT: another run writes it, it holds
 * something else, it cannot be made, or not be written by this user;
 * PL_ERR_MEMORY; PL_ERR_IO: the disk fails, which is said as a warning: nothing
 * can be written, the folder can be read. */
typedef struct pl_tier_lock pl_tier_lock_t;
PL_MUST_CHECK pl_status_t pl_tier_prepare(const char *folder, pl_files_t *files,
                                          const pl_log_t *log,
                                          pl_tier_lock_t **lock_p);
void pl_tier_release(pl_tier_lock_t *lock); /* NULL is allowed */

typedef struct pl_tier_params {
    const char *folder;
    pl_tier_identity_t identity; /* texts borrowed until close */
    int32_t own_set, n_ranks, n_slots;
    bool read_only;
    int rank;
    uint64_t trace;    /* for the index */
    pl_files_t *files; /* this rank's way to the disk, borrowed; may be NULL */
    const pl_inject_t *inject; /* copied: the door counts on its own, and knows
                                  no ticks; may be NULL */
    const pl_log_t *log;
} pl_tier_params_t;

/* One rank's door (cache/storage_table.h).  Work is done by a thread of its
 * own, in the order it was asked for; writes that wait together are synced
 * together.  PL_OK, PL_ERR_MEMORY, PL_ERR_RESOURCE (no thread). */
PL_MUST_CHECK pl_status_t pl_tier_open(const pl_tier_params_t *params,
                                       pl_storage_door_t **door_p);

#endif /* PL_STORE_TIER_H */
