/* cache/storage.h - the directory of the storage tier: which pages of which
 * prefixes lie on disk, and where.
 *
 * Part of the replicated control plane, beside the tree: a page is known by the
 * chain hash of the whole prefix that ends with it, and by its own key, so its
 * identity does not depend on nodes, owners or the number of ranks.  The
 * directory decides places, order of eviction and what may be used again; bytes
 * are moved through cache/storage_table.h.
 *
 * A page's life:
 *
 *     free -> written (a STORE under way) -> kept (acknowledged on all ranks)
 *          -> dropped (evicted, or found bad) -> free at the next publication
 *
 * A place is not handed out again before an index without the page that lay
 * there has been published: what is on disk never points at other bytes.  Kept
 * pages can be read at once, published or not.
 *
 * Places belong to sets.  The set that this run writes (`own`) has n_ranks
 * shares of n_slots slots; page g of its lanes lies in share g mod n_ranks,
 * slot g div n_ranks.  Sets that a run with other ranks or another size has
 * left are read and evicted from, never written.
 *
 * Pages go in the order of their last use, of one use the deepest first, but
 * only those that help, with what needs them: of the own set, where a lane is to
 * have places again; of any, where there would be more than the bound.  What
 * stays is prefix-closed.
 *
 * Not thread-safe; the same calls give the same results on every rank.
 */
#ifndef PL_CACHE_STORAGE_H
#define PL_CACHE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/event.h>
#include <pagelane/lanes.h>
#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>
#include <pagelane/trace.h>

/* Where a page lies on disk. */
typedef struct pl_storage_place {
    int32_t set;  /* number of the set */
    int32_t rank; /* whose share of it */
    int32_t slot; /* in that share */
} pl_storage_place_t;

/* A kept page as an index file names it. */
typedef struct pl_storage_entry {
    uint64_t chain;  /* of the prefix that ends with it: pl_tree_chain_next */
    uint64_t parent; /* chain of the page before; of the first: the namespace's
                        pl_tree_chain_start */
    pl_page_key_t key;
    int32_t position; /* pages before it */
    pl_owner_t owner; /* lane it was written from, and is fetched to */
    pl_storage_place_t place;
    int64_t
        stamp; /* the write that made it; ascending over the folder's life */
} pl_storage_entry_t;

/* What a folder held when the run began.  Borrowed for the opening. */
typedef struct pl_storage_start {
    int32_t n_entries;
    const pl_storage_entry_t *entries; /* least recently used first */
    int32_t own_set;    /* the set that this run writes: continued if one of the
                           folder's fits it in ranks and slots, else new */
    int64_t next_stamp; /* greater than any stamp of the folder */
} pl_storage_start_t;

typedef struct pl_storage_params {
    int n_lanes; /* of the host tier */
    int n_ranks; /* prefill ranks, the shares of the own set */
    int32_t pages_per_lane;
    int64_t bound;  /* of pages that are kept or being written, of all sets;
                       0: that of the own set's places and what was there */
    bool read_only; /* nothing is stored, evicted or published */
    const pl_storage_start_t *start; /* NULL: an empty folder */
    pl_event_sink_t events;
} pl_storage_params_t;

typedef struct pl_storage pl_storage_t; /* opaque */

/* Entries of the start whose prefix is not whole are left out, and of two with
 * one chain the earlier is; then, unless it is read only, those used least
 * recently, until the bound holds.  A page of the own set is fetched to the lane
 * it was written from; one of another set, at position p, to lane p mod n_lanes.
 * PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_storage_open(const pl_storage_params_t *params,
                                          const pl_log_t *log,
                                          pl_storage_t **storage_p);
void pl_storage_close(pl_storage_t *storage); /* NULL is allowed */

/* ---- looking up ---- */

/* How many of keys[first .. n-1] are kept in a row, given the chain of the
 * prefix before `first` (pl_tree_chain_start for first == 0).  No trace. */
int32_t pl_storage_find(const pl_storage_t *storage, uint64_t chain,
                        const pl_page_key_t *keys, int32_t first, int32_t n);
/* A prompt with these pages has come: what is kept of it is used now. */
void pl_storage_touch(pl_storage_t *storage, uint64_t name_space,
                      const pl_page_key_t *keys, int32_t n);

/* ---- writing ---- */

/* Places for n pages that follow `chain` (whose page the storage has, or that
 * begins a namespace), page i in lane owners[i]; none of them is own yet.
 * pages[i] are pages of the own set's lanes, taken until pl_storage_stored;
 * *stamp_p names the write.  A short lane evicts what was used least recently,
 * if that can be enough; it is of use after a publication, so a lane that runs
 * low does so ahead of need.  For the bound pages go at once, if enough can; for
 * nothing else any page goes.  All or nothing: PL_OK, PL_REFUSED_SHORT (nothing
 * taken), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_storage_take(pl_storage_t *storage, uint64_t chain,
                                          const pl_page_key_t *keys,
                                          int32_t position,
                                          const pl_owner_t *owners, int32_t n,
                                          pl_page_t *pages, int64_t *stamp_p);
/* The write with that stamp has ended on all ranks.  good == false: its places
 * are free again (no index has named them), and what was written after it with
 * these pages before it is of no use.  A page is kept once all before it are.
 */
PL_MUST_CHECK pl_status_t pl_storage_stored(pl_storage_t *storage,
                                            int64_t stamp, bool good);
/* Is the page that ends with `chain` kept, or being written? */
bool pl_storage_has(const pl_storage_t *storage, uint64_t chain,
                    pl_page_key_t key);
/* The same in the own set: if not, the page may be written to it. */
bool pl_storage_is_own(const pl_storage_t *storage, uint64_t chain,
                       pl_page_key_t key);

/* ---- reading ---- */

/* Entries of keys[first .. first+n-1] after `chain`, which pl_storage_find has
 * counted; held (not to be evicted) until released.  entries: [n]. */
PL_MUST_CHECK pl_status_t pl_storage_hold(pl_storage_t *storage, uint64_t chain,
                                          const pl_page_key_t *keys,
                                          int32_t first, int32_t n,
                                          pl_storage_entry_t *entries);
/* A read of n of the pages that are held has begun. */
void pl_storage_note_fetch(pl_storage_t *storage, int32_t n);
/* Does a read hold it? */
bool pl_storage_is_held(const pl_storage_t *storage, uint64_t chain,
                        pl_page_key_t key);
/* How many of the first n entries, held since then, are still kept as they
 * were: what a read brought of the others is not to be used. */
int32_t pl_storage_sound(const pl_storage_t *storage,
                         const pl_storage_entry_t *entries, int32_t n);
/* Nothing was read, so nothing is known of them. */
void pl_storage_unhold(pl_storage_t *storage, const pl_storage_entry_t *entries,
                       int32_t n);
/* The read has ended: the first n_good of the n entries were sound on all
 * ranks.  first_bad >= n_good: the first that is not what was written, dropped
 * with all that needs it; n: none.  Of those between, nothing is known: they
 * could not be read now, and stay. */
PL_MUST_CHECK pl_status_t pl_storage_release(pl_storage_t *storage,
                                             const pl_storage_entry_t *entries,
                                             int32_t n, int32_t n_good,
                                             int32_t first_bad);

/* ---- publication ---- */

/* Is it time?  When enough is kept that no index names (an eighth of what one
 * does, at least PL_STORAGE_PUBLISH pages), or places that a publication would
 * free were wanted; after one that failed, when that is so anew. */
#define PL_STORAGE_PUBLISH 256
bool pl_storage_wants_publication(const pl_storage_t *storage);
/* Does the last index say anything else than what is kept? */
bool pl_storage_has_changed(const pl_storage_t *storage);
/* A publication begins: it names what is kept now. */
void pl_storage_publish(pl_storage_t *storage);
/* It has ended.  good: what was dropped before it began is free.  The event has
 * no operation: the owner fills it in. */
PL_MUST_CHECK pl_status_t pl_storage_published(pl_storage_t *storage,
                                               bool good);

/* What is kept now, least recently used first: what a publication that begins
 * now names.  Visits stop at the first status that is not PL_OK. */
typedef pl_status_t (*pl_storage_visit_t)(void *context,
                                          const pl_storage_entry_t *entry);
PL_MUST_CHECK pl_status_t pl_storage_visit(const pl_storage_t *storage,
                                           pl_storage_visit_t visit,
                                           void *context);
int32_t pl_storage_own_set(const pl_storage_t *storage);
/* Where a page of the own set's lanes lies. */
pl_storage_place_t pl_storage_place_of(const pl_storage_t *storage,
                                       pl_page_t page);
bool pl_storage_is_read_only(const pl_storage_t *storage);
/* All writes up to this stamp have ended. */
int64_t pl_storage_settled_stamp(const pl_storage_t *storage);

/* ---- accounts ---- */

/* start_pages - left_out_pages + new_pages - evicted_pages - dropped_pages are
 * kept now. */
typedef struct pl_storage_counters {
    int64_t start_pages;          /* that the start named */
    int64_t left_out_pages;       /* of them, not sound or without prefix */
    int64_t new_pages;            /* that came to be kept */
    int64_t moved_pages;          /* kept in a set of old, then in the own */
    int64_t dropped_pages;        /* found bad, or in need of one that was */
    int64_t stores, store_pages;  /* begun */
    int64_t stores_failed;        /* or not started */
    int64_t stores_skipped;       /* no room */
    int64_t fetches, fetch_pages; /* begun */
    int64_t fetched_pages;        /* that arrived sound on all ranks */
    int64_t bad_pages;            /* that were not what was written, or lie
                                     behind one in the same read */
    int64_t unread_pages;         /* that could not be read then, likewise */
    int64_t evicted_pages;        /* at the start for the bound, too */
    int64_t publications, publications_failed;
} pl_storage_counters_t;
const pl_storage_counters_t *pl_storage_counters(const pl_storage_t *storage);

const pl_lanes_t *pl_storage_lanes(const pl_storage_t *storage); /* own set */
int64_t pl_storage_n_kept(const pl_storage_t *storage);
/* Of them, where they lie now named by the last index that was published: what
 * a later run can start with. */
int64_t pl_storage_n_indexed(const pl_storage_t *storage);

uint64_t pl_storage_state_hash(const pl_storage_t *storage);
/* Recount: every place of the own set is free, being written, kept or dropped;
 * kept is prefix-closed; order and table agree.  PL_ERR_INTERNAL, one line. */
PL_MUST_CHECK pl_status_t pl_storage_check(const pl_storage_t *storage);

#endif /* PL_CACHE_STORAGE_H */
