/* cache/hicache_internal.h - the state behind cache/hicache.h, and its parts:
 *   hicache.c        opening, match, references, insert, events
 *   take.c           device pages with given owners: attempt, evict, retry
 *   evict.c          victims in either tier, and nodes that leave the tree
 *   backup.c         device -> host, by policy or on eviction
 *   load.c           host -> device with the saved owners
 *   copies.c         the records of copies under way
 *   store.c          host -> storage
 *   fetch.c          storage -> host
 *   lost.c           what the cache once held
 *   hicache_check.c  recount and state hash
 */
#ifndef PL_CACHE_HICACHE_INTERNAL_H
#define PL_CACHE_HICACHE_INTERNAL_H

#include <stddef.h>

#include "base/array.h"
#include "cache/hicache.h"

typedef enum pl_cache_copy_kind {
    PL_COPY_LOAD,
    PL_COPY_BACKUP,
    PL_COPY_WRITE_BACK, /* a backup that frees its device pages at its end */
    PL_COPY_PREFIX /* a backup of what stands before a write-back: it holds what
                      could go next */
} pl_cache_copy_kind_t;

/* A copy under way.  Its nodes are `anchor` and those above it that carry its
 * id (see tree.h), so splits need no bookkeeping; it holds one lock on the path
 * of the anchor and one pin on each of its nodes.
 *
 * If its nodes leave the tree before its end (a load below which it was begun
 * has failed), anchor is NULL and the pages belong to this record: nobody may
 * have them while the copy runs. */
typedef struct pl_cache_copy {
    int64_t op;
    pl_cache_copy_kind_t kind;
    pl_node_t *anchor;
    int64_t node; /* the anchor's id, also when it is gone */
    int32_t n_pages;
    pl_page_t *device;  /* [n_pages] root to leaf, as begun; owned */
    pl_page_t *host;    /* [n_pages], owned */
    pl_owner_t *owners; /* [n_pages] what the host copy records, owned */
} pl_cache_copy_t;

/* A store under way.  It pins `anchor` and the nodes above it that make up
 * n_span pages: at first those that were the anchor when it began.  Of these,
 * nodes may leave the tree before its end (a host copy has proved bad); from
 * then on their host pages, the last n_own of the store's, belong to this
 * record (other records may hold them too), and the span ends above; anchor is
 * NULL when nothing of it is left. */
typedef struct pl_cache_store {
    int64_t op;
    int64_t stamp; /* of the write, in the directory */
    pl_node_t *anchor;
    int64_t node; /* the anchor's id as it began */
    int32_t n_span;
    int32_t first_page, n_pages; /* positions from the root */
    int32_t n_own;
    pl_page_t *host; /* [n_pages] owned */
} pl_cache_store_t;

/* A fetch under way: its host pages are no node's. */
typedef struct pl_cache_fetch {
    int64_t op;
    int32_t request;
    uint64_t name_space;
    int32_t first, n;
    pl_page_key_t *keys;         /* [first + n] owned */
    pl_page_t *host;             /* [n] owned */
    pl_owner_t *owners;          /* [n] owned */
    pl_storage_entry_t *entries; /* [n] owned, held in the directory */
} pl_cache_fetch_t;

/* One of the two tiers, and room for one eviction in it at a time. */
typedef struct pl_cache_tier {
    pl_lanes_t *lanes; /* NULL: there is none */
    int32_t *deficits; /* [n_lanes] what an attempt lacked */
    int32_t *need;     /* [n_lanes] what eviction must still free */
    int32_t *left;     /* [n_lanes] of it, while a suffix is measured */
} pl_cache_tier_t;

struct pl_hicache {
    pl_hicache_params_t params;
    const pl_log_t *log;
    pl_tree_t *tree;
    pl_cache_tier_t tiers[2]; /* PL_TREE_DEVICE, PL_TREE_HOST */
    int32_t *lane_room;       /* what the tiers' arrays, promised and free
                                 point into */
    int32_t
        *promised; /* [n_lanes] device pages that write-backs under way free */
    int32_t *free; /* [n_lanes] scratch of the plain allocation */

    PL_ARRAY(pl_cache_copy_t)
    copies;                /* under way, in the order they were begun */
    int64_t n_write_backs; /* of these, and of their prefixes */
    PL_ARRAY(pl_cache_store_t) stores;
    PL_ARRAY(pl_cache_fetch_t) fetches;
    int n_store_failures; /* in a row */

    int64_t tick;
    int32_t request;
    int32_t waiting; /* the request whose retry is due when write-backs have
                        ended; -1: none */

    struct pl_cache_lost {
        uint64_t *slots; /* chain hashes, open addressing; 0: free */
        size_t n_slots;  /* 0 or a power of two */
        size_t n;
        uint64_t sum; /* of the hashes: the set's own hash */
    } lost;

    PL_ARRAY(pl_page_t) dup;     /* scratch of insert */
    PL_ARRAY(pl_node_t *) nodes; /* scratch: a path, root to leaf */
    pl_hicache_counters_t counters;
};

/* --- hicache.c */

pl_status_t pl_cache_no_memory(const pl_hicache_t *cache, const char *what);
/* An event of the request in hand about a node (NULL: none) and some pages. */
void pl_cache_emit(const pl_hicache_t *cache, pl_event_kind_t kind,
                   const pl_node_t *node, int64_t op, int64_t value,
                   int64_t value2);
void pl_cache_emit_pages(const pl_hicache_t *cache, pl_event_kind_t kind,
                         const pl_page_t *pages, int32_t n_pages);
/* Give pages back to a tier's lanes, with the event. */
pl_status_t pl_cache_give_back(pl_hicache_t *cache, int tier,
                               const pl_page_t *pages, int32_t n_pages);
/* The pages of a node in a tier. */
static inline const pl_page_t *pl_cache_pages(const pl_node_t *node, int tier)
{
    return tier == PL_TREE_DEVICE ? node->device : node->host.pages;
}
/* A copy whose bytes are there. */
static inline bool pl_cache_is_backed_up(const pl_node_t *node)
{
    return (node->host.n_pages > 0) && (node->write_op == 0);
}
/* Sum a node's or list's pages into counts[lane], `by` for each. */
void pl_cache_count_lanes(const pl_hicache_t *cache, const pl_page_t *pages,
                          int32_t n_pages, int32_t by, int32_t *counts);

/* --- take.c */

/* n device pages, page i in lane owners[i]; evicts for deficit lanes and
 * retries once.  As pl_hicache_extend. */
pl_status_t pl_cache_take(pl_hicache_t *cache, const pl_owner_t *owners,
                          int32_t n, pl_page_t *pages, pl_hicache_try_t *try_p);

/* --- evict.c */

/* Free device pages for deficits[lane], as far as write-backs under way do not
 * promise them already. */
pl_status_t pl_cache_evict_device(pl_hicache_t *cache, const int32_t *deficits);
/* Drop host copies for deficits[lane], to make room for a node (or below it):
 * of what the policy ranks below it, or, if its values do not compare so, of
 * what does not lie on the path to `end`.  The root: of all. */
pl_status_t pl_cache_evict_host(pl_hicache_t *cache, const int32_t *deficits,
                                const pl_node_t *whom, const pl_node_t *end);
/* Drop a node's copy in the device tier / in the host tier; a node that has no
 * other copy leaves the tree (it has no children then). */
pl_status_t pl_cache_drop_device(pl_hicache_t *cache, pl_node_t *node);
pl_status_t pl_cache_drop_host(pl_hicache_t *cache, pl_node_t *node);
/* The node and all below leave the tree; nobody holds any of them, but copies
 * whose records have no anchor keep their pages. */
pl_status_t pl_cache_remove(pl_hicache_t *cache, pl_node_t *node);
/* The node after `at` in a walk of what is below `top`, parents first; NULL at
 * the end.  pl_cache_skip_below: what is below `at` is left out. */
pl_node_t *pl_cache_next_below(const pl_node_t *top, const pl_node_t *at);
pl_node_t *pl_cache_skip_below(const pl_node_t *top, const pl_node_t *at);
/* Does anybody pin a host copy below the node? */
bool pl_cache_is_pinned_below(const pl_node_t *node);

/* --- backup.c */

/* Begin a backup of a node without host copy, on the path to `end`.  PL_OK,
 * PL_REFUSED_SHORT (no room; nothing but host copies dropped), PL_ERR_*. */
pl_status_t pl_cache_backup(pl_hicache_t *cache, pl_node_t *node,
                            const pl_node_t *end, pl_cache_copy_kind_t kind);

/* --- store.c */

/* Write to storage what it lacks of the node, if it may be written now. */
pl_status_t pl_cache_store(pl_hicache_t *cache, pl_node_t *node);
/* The same of the nodes from below `above` down to `anchor`, whose host copies
 * are whole, and of all that waited below for these. */
pl_status_t pl_cache_store_path(pl_hicache_t *cache, pl_node_t *anchor,
                                const pl_node_t *above);
/* Stores let go of their nodes from `top` down and keep the pages. */
void pl_cache_stores_orphan(pl_hicache_t *cache, const pl_node_t *top);
void pl_cache_store_clear(pl_cache_store_t *store);
/* Give host pages back, but those that a copy or store has kept from nodes that
 * left the tree: the last of these gives them back. */
pl_status_t pl_cache_give_back_host(pl_hicache_t *cache, const pl_page_t *pages,
                                    int32_t n);
/* Has a record kept the page so? */
bool pl_cache_is_orphaned(const pl_hicache_t *cache, pl_page_t page);
bool pl_cache_is_within(const pl_node_t *node, const pl_node_t *top);

/* --- fetch.c */

void pl_cache_fetch_clear(pl_cache_fetch_t *fetch);

/* --- copies.c */

/* A record of n pages; owned by the caller until it is added. */
pl_status_t pl_cache_copy_make(pl_hicache_t *cache, int32_t n_pages,
                               pl_cache_copy_t *copy_p);
void pl_cache_copy_clear(pl_cache_copy_t *copy);
/* Room for one more record, so that adding it cannot fail. */
pl_status_t pl_cache_copies_reserve(pl_hicache_t *cache);
/* Ask the owner to start the copy that ends at copy->anchor, and keep the
 * record.  PL_ERR_INTERNAL if it gives no usable number. */
pl_status_t pl_cache_copies_start(pl_hicache_t *cache, pl_cache_copy_t *copy);
/* The record of an operation of that direction; NULL and one line if there is
 * none. */
pl_cache_copy_t *pl_cache_copies_find(pl_hicache_t *cache, int64_t op,
                                      bool load);
/* Take the record out; the caller clears it. */
pl_cache_copy_t pl_cache_copies_take(pl_hicache_t *cache,
                                     pl_cache_copy_t *copy);
/* Let go of lock and pins and, unless they are kept to tell whose pages these
 * are, of the marks; returns the node above the copy's topmost. */
pl_node_t *pl_cache_copies_release(pl_hicache_t *cache,
                                   const pl_cache_copy_t *copy,
                                   bool keep_marks);
/* Does the node belong to the copy? */
bool pl_cache_copies_covers(const pl_cache_copy_t *copy, const pl_node_t *node);
/* The end of a copy whose nodes have left the tree: its pages are free now. */
pl_status_t pl_cache_copies_end_orphan(pl_hicache_t *cache,
                                       const pl_cache_copy_t *copy);

/* --- lost.c */

/* A node's pages leave the tree.  PL_ERR_MEMORY (nothing changed). */
pl_status_t pl_cache_lost_add(pl_hicache_t *cache, const pl_node_t *node);
bool pl_cache_lost_has(const pl_hicache_t *cache, uint64_t chain);

#endif /* PL_CACHE_HICACHE_INTERNAL_H */
