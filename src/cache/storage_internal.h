/* cache/storage_internal.h - the state behind cache/storage.h, and its parts:
 *   storage.c          opening, what the folder held
 *   storage_pages.c    pages by chain, their families, the order of use
 *   storage_write.c    places, writes, what becomes of them
 *   storage_drop.c     eviction and what is bad
 *   storage_read.c     looking up, reads
 *   storage_publish.c  publication
 *   storage_check.c    recount and state hash
 */
#ifndef PL_CACHE_STORAGE_INTERNAL_H
#define PL_CACHE_STORAGE_INTERNAL_H

#include <stddef.h>

#include "base/array.h"
#include "cache/storage.h"

#define PL_NO_ENTRY (-1)

/* A page that is kept, being written, or both (kept in a set of old, being
 * written to the own one). */
typedef struct pl_storage_page {
    pl_storage_entry_t entry; /* place, stamp and owner: while it is kept */
    bool is_kept;
    bool is_written; /* the write has ended, a page before it is not kept yet */
    int32_t holds;   /* reads under way */
    pl_page_t own;   /* its page of the own set, if it is kept there */
    pl_page_t next;  /* the page that it is being written to */
    int64_t write;   /* stamp of that write; 0: none */
    int32_t at;      /* in that write */
    int64_t epoch;   /* publications begun before it was kept */
    uint8_t mark;    /* scratch of an eviction */

    /* Indices of pages, or PL_NO_ENTRY. */
    int32_t parent, first_child, next_sibling, prev_sibling;
    int32_t older, newer;
    int32_t hash_next; /* also the list of unused ones */
} pl_storage_page_t;

typedef PL_ARRAY(pl_page_t) pl_storage_places_t;

/* A write under way. */
typedef struct pl_storage_write {
    int64_t stamp;
    int32_t n;
    int32_t *items;   /* [n] pages by index; PL_NO_ENTRY: dropped meanwhile */
    pl_page_t *pages; /* [n] of the own set */
} pl_storage_write_t;

/* A page that was dropped while somebody reads it: its place stays as it is. */
typedef struct pl_storage_ghost {
    uint64_t chain;
    int64_t stamp;
    pl_page_t own;
    int32_t holds;
} pl_storage_ghost_t;

struct pl_storage {
    pl_storage_params_t params; /* without start */
    const pl_log_t *log;
    int32_t own_set;
    int64_t next_stamp;
    pl_lanes_t *lanes; /* of the own set */

    PL_ARRAY(pl_storage_page_t) pages;
    int32_t unused;   /* first of a list */
    int32_t *buckets; /* [n_buckets] pages by chain */
    size_t n_buckets; /* a power of two */
    int32_t oldest, newest;
    int64_t n_kept;
    int64_t n_known; /* kept, being written, or both */

    PL_ARRAY(pl_storage_write_t) writes; /* stamps ascend */
    PL_ARRAY(pl_storage_ghost_t) ghosts;
    size_t n_holds; /* of all pages and ghosts */

    /* Own pages that wait for a publication: that begins after now, and that is
     * under way. */
    pl_storage_places_t dropped, dropping;
    int32_t *waiting;  /* [n_lanes] of both */
    int32_t *need;     /* [n_lanes] scratch of an eviction */
    int32_t *target;   /* [n_lanes] likewise */
    int32_t *deficits; /* [n_lanes] of an attempt */

    bool publishing;
    bool wanted;             /* places that wait for a publication */
    int64_t epoch;           /* publications begun, and one */
    int64_t begun;           /* epoch that the last one begun has closed */
    int64_t good;            /* epoch that the last good one has closed */
    int64_t n_named;         /* by the last good index */
    int64_t n_naming;        /* by the one under way */
    int64_t n_new;           /* kept, epoch > begun */
    int64_t n_pending;       /* kept, good < epoch <= begun */
    int64_t n_gone, n_going; /* named and kept no more: since the last begun
                                one, and before */
    int64_t n_tried;         /* n_new when a publication failed */

    PL_ARRAY(int32_t) work; /* scratch: room for all pages */
    pl_storage_counters_t counters;
};

static inline pl_storage_page_t *pl_storage_at(const pl_storage_t *storage,
                                               int32_t i)
{
    return &storage->pages.items[i];
}

static inline int pl_storage_lane(const pl_storage_t *storage, pl_page_t page)
{
    return pl_page_owner(page, storage->params.n_lanes);
}

pl_status_t pl_storage_no_memory(const pl_storage_t *storage);

/* --- storage_pages.c */

/* Room for n more pages, so that adding them cannot fail. */
pl_status_t pl_storage_reserve(pl_storage_t *storage, size_t n);
int32_t pl_storage_lookup(const pl_storage_t *storage, uint64_t chain,
                          pl_page_key_t key);
/* The page that a chain ends with, whatever its key. */
int32_t pl_storage_lookup_chain(const pl_storage_t *storage, uint64_t chain);
/* A page with this identity, in no order and no family yet. */
int32_t pl_storage_add(pl_storage_t *storage, const pl_storage_entry_t *entry);
void pl_storage_adopt(pl_storage_t *storage, int32_t parent, int32_t child);
/* The page was used last of all. */
void pl_storage_use(pl_storage_t *storage, int32_t i);
/* Put it into the order of use as the last. */
void pl_storage_append(pl_storage_t *storage, int32_t i);
/* It has no children any more: out of everything. */
void pl_storage_forget(pl_storage_t *storage, int32_t i);

/* --- storage_write.c */

/* The page is kept now where it was written to; those after it that were
 * written before follow. */
void pl_storage_keep(pl_storage_t *storage, int32_t i);
pl_storage_write_t *pl_storage_find_write(const pl_storage_t *storage,
                                          int64_t stamp);

/* --- storage_drop.c */

/* Drop a page and all that needs it.  Returns how many were kept. */
int64_t pl_storage_drop(pl_storage_t *storage, int32_t i);
/* An own page is free at the next publication (room was reserved). */
void pl_storage_quarantine(pl_storage_t *storage, pl_page_t page);
/* A page is kept no more where it lies: its place stays as it is as long as
 * somebody reads it. */
void pl_storage_leave_place(pl_storage_t *storage, pl_storage_page_t *page);
/* Say what was dropped since `dropped` had `before` items. */
void pl_storage_say_dropped(pl_storage_t *storage, int64_t n, size_t before);
/* Drop pages until deficits[lane] more are free or wait for a publication
 * (NULL: no deficits), and some ahead of need, and `excess` pages are gone in
 * all.  False: that cannot be, and nothing was dropped. */
bool pl_storage_evict(pl_storage_t *storage, const int32_t *deficits,
                      int64_t excess);

/* --- storage_publish.c */

/* Kept no more: what an index says of it is no longer so. */
void pl_storage_note_gone(pl_storage_t *storage, const pl_storage_page_t *page);

#endif /* PL_CACHE_STORAGE_INTERNAL_H */
