/* cache/meta.h - what a node's host copy records: who owns which page.
 *
 * A page is read where it was written, and who wrote it is data.  The copy of a
 * node in the host tier holds, for each of its pages in order, the owner (the
 * rank that holds the bytes; equal on all ranks) and the logical page of the
 * host tier they lie in.  Everything a single rank needs follows from it: the
 * positions it owns and its host slots.  A rank may own none of a node's pages.
 *
 * These owners describe the *host copy*.  The owners of device pages follow
 * from their ids; after evict -> recompute the two differ, and both are right.
 */
#ifndef PL_CACHE_META_H
#define PL_CACHE_META_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_meta {
    int32_t page_tokens;
    int32_t n_pages;    /* 0: no copy */
    pl_owner_t *owners; /* [n_pages], owned */
    pl_page_t *pages;   /* [n_pages] logical pages of the host tier, owned;
                           owner of pages[i] == owners[i] in a sound copy */
} pl_meta_t;

/* Copies owners and pages.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_meta_make(int32_t page_tokens, int32_t n_pages,
                                       const pl_owner_t *owners,
                                       const pl_page_t *pages,
                                       pl_meta_t *meta_p);
void pl_meta_clear(pl_meta_t *meta); /* frees; empty afterwards */

/* Every owner in 0 .. n_lanes-1, every host page in its owner's lane and in
 * range, none twice, page_tokens as given.  One line names the first fault;
 * PL_ERR_INTERNAL. */
PL_MUST_CHECK pl_status_t pl_meta_validate(const pl_meta_t *meta, int n_lanes,
                                           int32_t host_pages_per_lane,
                                           int32_t page_tokens,
                                           const pl_log_t *log);

/* Cut after at_tokens tokens: `meta` keeps the rest, *head_p gets the start.
 * at_tokens must be a multiple of page_tokens with at least one page on each
 * side: PL_ERR_INTERNAL, one line, nothing changed.  Halves without a page of
 * some rank are legal.  head + rest == what was. */
PL_MUST_CHECK pl_status_t pl_meta_split(pl_meta_t *meta, int64_t at_tokens,
                                        const pl_log_t *log, pl_meta_t *head_p);

/* The positions (ascending) rank owns and, for each, its host slot; both have
 * room for n_pages.  Returns how many. */
int32_t pl_meta_owned(const pl_meta_t *meta, int rank, int n_lanes,
                      int32_t *positions, int32_t *slots);

#endif /* PL_CACHE_META_H */
