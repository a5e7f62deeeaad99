/* cache/hicache.h - the controller: tree + device lanes + host lanes as one
 * cache, with the storage tier behind it.
 *
 * Part of the replicated control plane: it decides which pages hold what and
 * which copies must be made; the copies themselves are operations that it hands
 * to its owner (the engine), who numbers them, has every rank reserve, agrees,
 * executes, and reports their end.  Host pages of *all* ranks are mirrored
 * (page owners tell them), so capacity needs no agreement.
 *
 * The one rule: load-back allocates exactly the owners that the host copy
 * recorded, all or nothing.  If a lane is short: evict for the deficit lanes,
 * retry once, then give up.  There is no allocation without owners.
 *
 * Eviction, in either tier, is aimed at lanes: a leaf qualifies if it, or a
 * node above it that can be freed once it is gone, holds a page of a lane that
 * needs pages; leaves go in policy order, and of a leaf the shortest suffix
 * that covers the need.  Below a node that nobody has locked nobody has locked
 * anything, so every page that pl_hicache_room counts can be had.  Which host
 * copies make room for others: docs/decisions/0001-host-drop-order.md.
 *
 * Storage rides behind the host tier: a host copy that is whole is written to
 * it when the pages before it are there, and stays pinned until the write has
 * ended on all ranks; what it keeps can be fetched into the host tier.  A store
 * begins only where all nodes above have host copies, so its pin keeps no
 * device page from being evicted.
 *
 * After PL_ERR_MEMORY the state is sound, and as before the call but for what
 * was evicted or counted until then.  After PL_ERR_INTERNAL the cache may only
 * be closed.
 *
 * Not thread-safe; the same calls give the same results on every rank.
 */
#ifndef PL_CACHE_HICACHE_H
#define PL_CACHE_HICACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/event.h>
#include <pagelane/lanes.h>
#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/storage.h"
#include "cache/tree.h"
#include "verify/inject.h"

typedef struct pl_hicache pl_hicache_t; /* opaque */

typedef enum pl_write_policy {
    PL_WRITE_THROUGH,           /* at a prompt's end (hits >= 1) */
    PL_WRITE_THROUGH_SELECTIVE, /* at a prompt's end, hits >= hot_threshold */
    PL_WRITE_BACK               /* when evicted */
} pl_write_policy_t;

/* One copy between the tiers, for the caller to carry out. */
typedef struct pl_hicache_copy {
    bool load;             /* host -> device; else device -> host */
    bool write_back;       /* a backup that frees its device pages at its end */
    const pl_node_t *node; /* backup: its node; load: the deepest node */
    int32_t first_page;    /* position of pages[0] from the root */
    int32_t n_pages;
    const pl_page_t *device;  /* [n_pages] borrowed for the call */
    const pl_page_t *host;    /* [n_pages] borrowed for the call */
    const pl_owner_t *owners; /* [n_pages] what the host copy records */
} pl_hicache_copy_t;

/* Pages that go to storage or come from it, for the caller to move. */
typedef struct pl_hicache_io {
    bool fetch;      /* storage -> host; else host -> storage */
    int64_t node;    /* store: its node; fetch: -1 */
    int32_t request; /* fetch: for whom; store: -1 */
    int32_t first_page;
    int32_t n_pages;
    /* [n_pages] each, borrowed for the call. */
    const pl_page_t *host;
    const pl_owner_t *owners; /* of the host pages */
    const pl_storage_place_t *places;
    const uint64_t *chains;
    const int64_t *stamps;
} pl_hicache_io_t;

typedef struct pl_hicache_params {
    int32_t page_tokens;
    int n_lanes;
    int32_t device_pages; /* per lane, scratch included */
    int32_t host_pages;   /* per lane; 0: no host tier */
    pl_write_policy_t write_policy;
    uint32_t hot_threshold;        /* hits */
    int32_t load_threshold_tokens; /* shorter host hits are not loaded */
    const pl_policy_ops_t *policy;
    const pl_future_t *future; /* borrowed; NULL unless the policy foresees */
    pl_inject_t *inject;       /* borrowed; may be NULL */
    /* Start a copy: returns its operation id (> 0, never used before).  Called
     * in deterministic order, in the middle of a change: the callee looks at
     * *copy alone and calls nothing of this header.  The end comes by
     * pl_hicache_load_end / _backup_end / _cancel, in any order. */
    int64_t (*copy)(void *context, const pl_hicache_copy_t *copy);
    void *copy_context;
    pl_storage_t *storage; /* borrowed; NULL: there is none */
    /* As copy, of what goes to storage or comes from it; the end comes by
     * pl_hicache_store_end / _fetch_end. */
    int64_t (*io)(void *context, const pl_hicache_io_t *io);
    void *io_context;
    pl_event_sink_t events;
} pl_hicache_params_t;

PL_MUST_CHECK pl_status_t pl_hicache_open(const pl_hicache_params_t *params,
                                          const pl_log_t *log,
                                          pl_hicache_t **cache_p);
void pl_hicache_close(pl_hicache_t *cache);

pl_tree_t *pl_hicache_tree(const pl_hicache_t *cache);
const pl_lanes_t *pl_hicache_device(const pl_hicache_t *cache);
const pl_lanes_t *pl_hicache_host(const pl_hicache_t *cache); /* NULL: none */

/* The tick and request that events and injections of the next calls belong to.
 */
void pl_hicache_at(pl_hicache_t *cache, int64_t tick, int32_t request);

/* Longest cached prefix of keys[0 .. n-1].  Host pages beyond the device part
 * (their copies are complete: a node that is being written has its device pages
 * still) count only if they reach the load threshold; else *match_p ends at the
 * device part and *below_threshold_p says how many were passed over.  Nodes
 * that are being loaded count as device pages: load_op says what to wait for.
 */
PL_MUST_CHECK pl_status_t pl_hicache_match(pl_hicache_t *cache,
                                           uint64_t name_space,
                                           const pl_page_key_t *keys, int32_t n,
                                           pl_match_t *match_p,
                                           int32_t *below_threshold_p);

/* Pages of keys[from .. n-1] that the cache once held (and lost) in a row with
 * their prefix: the rest was never seen.  `at` is the match's last node, which
 * ends after `from` pages or before. */
int32_t pl_hicache_once_held(const pl_hicache_t *cache, const pl_node_t *at,
                             uint64_t name_space, const pl_page_key_t *keys,
                             int32_t from, int32_t n);

/* The time of a request has come, in which it may hit keys[0 .. n-1]: for a
 * policy that foresees. */
void pl_hicache_passed(pl_hicache_t *cache, int32_t request,
                       uint64_t name_space, const pl_page_key_t *keys,
                       int32_t n);

/* Requests hold the path they use.  Lock the deepest node (the root too may be
 * locked); pin what is to be loaded (every host-only node from match->last up
 * to match->device).  Unpin takes the same match, whatever was split or loaded
 * between. */
void pl_hicache_lock(pl_hicache_t *cache, pl_node_t *node);
void pl_hicache_unlock(pl_hicache_t *cache, pl_node_t *node);
void pl_hicache_pin(pl_hicache_t *cache, const pl_match_t *match);
void pl_hicache_unpin(pl_hicache_t *cache, const pl_match_t *match);

/* What can be had in a lane without waiting: free pages + pages of unlocked
 * nodes. */
int64_t pl_hicache_room(const pl_hicache_t *cache, int lane);

/* Owners of the host-only pages of a match, root to leaf:
 * owners[match->n_total - match->n_device]. */
void pl_hicache_saved_owners(const pl_hicache_t *cache, const pl_match_t *match,
                             pl_owner_t *owners);

/* How an allocation went, beside its status.  One shortage is one deficit and
 * one retry, however often the caller has to come back for write-backs (the
 * calls belong together by the request of pl_hicache_at). */
typedef struct pl_hicache_try {
    bool deficit; /* a lane was short, and not by a shortage that waited */
    bool retried; /* eviction ran, and this call tried again (or was the retry
                     of one that waited) */
    bool wait;    /* PL_REFUSED_SHORT, but write-backs are under way: keep locks
                     and pins, match no other prompt, and make the same call
                     again when the last of them has ended */
} pl_hicache_try_t;

/* Device pages for a chunk, page i in lane owners[i]; evicts for deficit lanes
 * and retries once.  PL_OK, PL_REFUSED_SHORT (nothing allocated), PL_ERR_*. */
PL_MUST_CHECK pl_status_t pl_hicache_extend(pl_hicache_t *cache,
                                            const pl_owner_t *owners, int32_t n,
                                            pl_page_t *pages,
                                            pl_hicache_try_t *try_p);

/* Bring the host-only nodes of `match` back: pages in exactly the saved owners,
 * concatenated root to leaf; all nodes get device pages now, are locked and
 * pinned by the operation until its end, and their bytes are there when the
 * copy is.  The caller has locked match->device and pinned the match; after
 * PL_OK it may lock match->last and let go of both.
 * PL_OK with *op_p; PL_REFUSED_SHORT (no page taken, no node changed; see
 * try_p->wait: a miss otherwise); PL_ERR_INTERNAL also if the match is stale.
 */
PL_MUST_CHECK pl_status_t pl_hicache_load(pl_hicache_t *cache,
                                          const pl_match_t *match,
                                          pl_hicache_try_t *try_p,
                                          int64_t *op_p);

/* The copy has ended on all ranks.  good == false: the host copies are bad; the
 * nodes leave the tree with all below, and their pages are free.  No request
 * holds any of them: the caller has let go before (PL_ERR_INTERNAL else). Pages
 * of other copies that are under way below are freed when those end. */
PL_MUST_CHECK pl_status_t pl_hicache_load_end(pl_hicache_t *cache, int64_t op,
                                              bool good);
/* The copy was not started (a rank could not reserve): the nodes are on host
 * only again; what was evicted for it stays evicted.  No request has locked or
 * extended the loaded nodes (PL_ERR_INTERNAL else). */
PL_MUST_CHECK pl_status_t pl_hicache_load_cancel(pl_hicache_t *cache,
                                                 int64_t op);

/* Insert a chunk's whole pages below `at` (see pl_tree_insert).  Duplicates are
 * freed here; pages[i] becomes the tree's page.  *last_p is the deepest node,
 * not yet locked by the caller. */
PL_MUST_CHECK pl_status_t pl_hicache_insert(pl_hicache_t *cache, pl_node_t *at,
                                            uint64_t name_space,
                                            const pl_page_key_t *keys,
                                            int32_t n, pl_page_t *pages,
                                            pl_node_t **last_p);

/* A prompt's prefill is done; `last` is its deepest node: count the passage and
 * back up what the write policy wants, root to leaf.  A node for which the host
 * tier has no room even after eviction is skipped (event backup_skip), and so
 * is one below it: its copy would be of no use. */
PL_MUST_CHECK pl_status_t pl_hicache_prompt_done(pl_hicache_t *cache,
                                                 pl_node_t *last);

/* A backup has ended on all ranks (good or not), or was not started (cancel).
 * Unlocks, unpins; not good: the host pages are freed.  A write-back then frees
 * its device pages, from its end up, as far as nobody has come to hold them
 * meanwhile; without a good copy its node leaves the tree. */
PL_MUST_CHECK pl_status_t pl_hicache_backup_end(pl_hicache_t *cache, int64_t op,
                                                bool good);
PL_MUST_CHECK pl_status_t pl_hicache_backup_cancel(pl_hicache_t *cache,
                                                   int64_t op);

/* A store has ended on all ranks (good or not), or was not started (not good).
 * Unpins.  After three in a row that were not good none is begun any more. */
#define PL_STORE_FAILURES 3
PL_MUST_CHECK pl_status_t pl_hicache_store_end(pl_hicache_t *cache, int64_t op,
                                               bool good);

/* What to fetch for a prompt: pages first .. first+n-1 of its keys, which
 * pl_storage_find has counted after `chain` and which the tree does not have.
 */
typedef struct pl_hicache_want {
    int32_t request;
    uint64_t name_space;
    const pl_page_key_t *keys; /* [first + n] borrowed for the call */
    uint64_t chain;            /* of the prefix before `first` */
    int32_t first, n;
    int32_t least;       /* fewer are not worth a fetch; 1 .. n */
    const int32_t *room; /* [n_lanes] host pages that it may take at most */
} pl_hicache_want_t;

/* Begin to fetch as many of them as there is room for, into host pages of the
 * lanes that the directory names; host copies that were used before now make
 * room.  The pages belong to the fetch until its end.  *op_p: 0 if it was not
 * worth it; else *n_p pages are on their way. */
PL_MUST_CHECK pl_status_t pl_hicache_fetch(pl_hicache_t *cache,
                                           const pl_hicache_want_t *want,
                                           int64_t *op_p, int32_t *n_p);

/* What became of a fetch. */
typedef struct pl_hicache_fetched {
    int32_t request;
    int32_t first_page, n_pages; /* as it was begun */
    int32_t n_good;              /* sound on all ranks */
    /* Positions that came into the tree; none if the prefix before them has
     * gone, or somebody else has put them there. */
    int32_t first_landed, n_landed;
} pl_hicache_fetched_t;

/* It has ended on all ranks: its first n_good pages (or all, if that is more)
 * are sound, and become a node with a host copy only.  first_bad >= n_good: the
 * first page that storage has to drop; none if that is no page of it. */
PL_MUST_CHECK pl_status_t pl_hicache_fetch_end(pl_hicache_t *cache, int64_t op,
                                               int32_t n_good,
                                               int32_t first_bad,
                                               pl_hicache_fetched_t *fetched_p);
/* It was not started (a rank could not reserve). */
PL_MUST_CHECK pl_status_t pl_hicache_fetch_cancel(
    pl_hicache_t *cache, int64_t op, pl_hicache_fetched_t *fetched_p);

/* Free device pages that never entered the tree (a request's partial page, the
 * chunk of a failed prompt). */
PL_MUST_CHECK pl_status_t pl_hicache_free(pl_hicache_t *cache,
                                          const pl_page_t *pages, int32_t n);

/* Evict device pages so that `deficits[lane]` more pages become free where
 * possible.  A leaf with a complete host copy loses its device pages; under
 * write_back another one is backed up (with a storage tier that is written, so
 * is all before it that the host lacks, as far as there is room: else it could
 * not be stored), and its pages are free when that ends; any other leaves the
 * tree with all below (not while a page below is pinned). What write-backs
 * under way have promised counts as covered.  *pending_p: pages that they will
 * free, in all.  Stops when none qualifies; PL_OK also then. */
PL_MUST_CHECK pl_status_t pl_hicache_evict(pl_hicache_t *cache,
                                           const int32_t *deficits,
                                           int64_t *pending_p);

/* Drop everything that nobody holds.  PL_REFUSED_SHORT and nothing changed
 * while a copy, store or fetch is under way or a lock is held. */
PL_MUST_CHECK pl_status_t pl_hicache_reset(pl_hicache_t *cache);

typedef struct pl_hicache_counters {
    int64_t takes; /* allocations on the device, whatever came of them */
    int64_t deficits, retries, retries_failed;
    int64_t alone_deficits; /* of these, with as many pages free in all */
    int64_t evictions, evicted_pages;       /* device tier: nodes, pages */
    int64_t lane_collateral_pages;          /* evicted or written back for other
                                               lanes' sake */
    int64_t host_drops, host_dropped_pages; /* nodes, pages */
    int64_t backups, backup_pages;          /* begun, write-backs included */
    int64_t backups_skipped;                /* no room */
    int64_t backups_failed;                 /* or not started */
    int64_t loads, load_pages;              /* begun */
    int64_t loads_failed;                   /* or not started, or in vain */
    int64_t write_backs;
} pl_hicache_counters_t;
const pl_hicache_counters_t *pl_hicache_counters(const pl_hicache_t *cache);

/* Copies between device and host; stores and fetches are none: they give back
 * no device page. */
int64_t pl_hicache_copies_under_way(const pl_hicache_t *cache);
int64_t pl_hicache_ios_under_way(const pl_hicache_t *cache);

uint64_t pl_hicache_state_hash(const pl_hicache_t *cache);
/* Lanes conserve: free + held by nodes + given to requests (n_given[lane], may
 * be NULL to skip) == pages; owners of host copies equal to their lanes (unless
 * injected); tree check.  PL_ERR_INTERNAL with one line. */
PL_MUST_CHECK pl_status_t pl_hicache_check(const pl_hicache_t *cache,
                                           const int64_t *n_given);

#endif /* PL_CACHE_HICACHE_H */
