/* cache/tree.h - the prefix tree: runs of whole pages, on device, on host, or
 * both.
 *
 * A node is a run of whole pages that follows its parent's.  Keys are page keys
 * (pagelane/trace.h); the children of a node differ in their first key, those
 * of the root in (namespace, first key).  The tree decides nothing about tiers:
 * the controller (cache/hicache.h) allocates, evicts and copies; the tree keeps
 * the structure, the references, and the two ordered sets of leaves that may be
 * evicted.
 *
 * What always holds (pl_tree_check recounts it):
 *   - the device set is prefix-closed: the parent of a node with device pages
 *     has them, too; device and host together are as well: each node has a copy
 *     on one of them at least;
 *   - lock_ref of a node >= the sum of its children's: a lock covers the path
 *     to the root.  pin_ref protects one node's host copy only;
 *   - an evictable device leaf has device pages, lock_ref 0 and no child with
 *     device pages; a droppable host copy has pin_ref 0, no write under way and
 *     no child with a host copy (so what is left of a prefix is its start), and
 *     its node has device pages or lock_ref 0;
 *   - an operation's nodes are a chain: the node it was begun on (for a load:
 *     the deepest) and those above it that carry the operation's id.  A split
 *     puts the id on both halves, so the chain stays whole.
 *
 * Not thread-safe; the same calls give the same tree, ids and order on every
 * rank.  Times are ticks of a logical clock that each match and insert
 * advances.
 */
#ifndef PL_CACHE_TREE_H
#define PL_CACHE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>
#include <pagelane/trace.h>

#include "cache/meta.h"
#include "cache/policy.h"

typedef struct pl_tree pl_tree_t; /* opaque */

/* The two tiers of a node, and the two ordered sets of leaves. */
enum { PL_TREE_DEVICE, PL_TREE_HOST };

/* Read by everyone, written by the tree alone. */
typedef struct pl_node {
    int64_t id; /* in order of creation, root 0; never used again */
    struct pl_node *parent;
    int32_t first_page; /* pages before it: its first page's position */
    int32_t n_pages;
    pl_page_key_t *keys; /* [n_pages] */
    pl_page_t *device;   /* [n_pages] logical device pages, or NULL */
    pl_meta_t host;      /* host copy; host.n_pages == 0: none.  While
                            write_op != 0 its bytes are not there yet */
    int64_t write_op;    /* backup under way: its operation id, else 0 */
    int64_t load_op;     /* load-back under way: its operation id, else 0 */
    int32_t lock_ref;    /* device pages may not go */
    int32_t pin_ref;     /* host copy may not go */
    int32_t n_children;
    int32_t n_device_children; /* children with device pages */
    int32_t n_host_children;   /* children with a host copy */
    uint32_t hits;             /* prompts that went through it */
    uint64_t last_access;      /* logical clock */
    uint64_t created;          /* logical clock; of a head: its other half's */
    uint64_t name_space;
    uint64_t chain; /* hash of (namespace, all keys from the root to its end) */
    pl_rank_t rank[2]; /* by tier: the policy's */

    /* The rest is the tree's. */
    pl_page_t *device_room; /* [n_pages] where device pages go: setting them
                               cannot fail */
    struct pl_node *first_child, *next_sibling, *prev_sibling;
    struct pl_node *hash_next;
    struct pl_node *next, *prev; /* by id */
    struct pl_node_link {
        struct pl_node *left, *right;
        uint64_t value; /* what the policy said when it was linked */
    } link[2];          /* PL_TREE_DEVICE, PL_TREE_HOST */
    bool linked[2];
} pl_node_t;

/* Told of structural changes that come about inside a match or insert, so that
 * the event log follows.  Any member may be NULL. */
typedef struct pl_tree_observer {
    void *context;
    /* `head` is new and took the first pages of `node`, which keeps its
     * identity, its requests and its id. */
    void (*split)(void *context, const pl_node_t *head, const pl_node_t *node);
    void (*created)(void *context, const pl_node_t *node);
    /* An insert gave device pages to a node that had a host copy only. */
    void (*adopted)(void *context, const pl_node_t *node);
} pl_tree_observer_t;

typedef struct pl_tree_params {
    int32_t page_tokens;
    int n_lanes;
    const pl_policy_ops_t *policy;
    pl_tree_observer_t observer;
    pl_policy_params_t policy_params;
} pl_tree_params_t;

PL_MUST_CHECK pl_status_t pl_tree_open(const pl_tree_params_t *params,
                                       const pl_log_t *log, pl_tree_t **tree_p);
void pl_tree_close(pl_tree_t *tree); /* NULL is allowed */

pl_node_t *pl_tree_root(const pl_tree_t *tree);
int64_t pl_tree_n_nodes(const pl_tree_t *tree); /* without the root */
uint64_t pl_tree_clock(const pl_tree_t *tree);

typedef struct pl_match {
    pl_node_t *device; /* deepest node with device pages (root: none) */
    pl_node_t *last;   /* deepest matched node, device or host */
    int32_t n_device;  /* pages matched down to `device` */
    int32_t n_total;   /* pages matched down to `last`; the pages between are
                          on host only */
} pl_match_t;

/* The longest prefix of keys[0 .. n-1] in whole pages; O(pages matched). Splits
 * the node in which it ends and stamps last_access along the path.
 * PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_tree_match(pl_tree_t *tree, uint64_t name_space,
                                        const pl_page_key_t *keys, int32_t n,
                                        pl_match_t *match_p);

/* The same without a trace: no split, no clock, no stamp. */
void pl_tree_peek(const pl_tree_t *tree, uint64_t name_space,
                  const pl_page_key_t *keys, int32_t n, int32_t *n_device_p,
                  int32_t *n_total_p);

/* Put pages with keys[0 .. n-1] below `at` (device pages or root).
 *
 * Where the tree has a page on device already, the tree's page stays and the
 * caller's is a duplicate; where it has only a host copy, the node adopts the
 * caller's page (its host copy stays, with its own owners); else a new node is
 * made.  On return pages[i] is the page the tree holds for key i, dup[i] the
 * caller's page where it was a duplicate, else PL_NO_PAGE (the caller frees
 * those).  *last_p is the deepest node.  Stamps last_access from there to the
 * root, no hits.  PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_tree_insert(pl_tree_t *tree, pl_node_t *at,
                                         uint64_t name_space,
                                         const pl_page_key_t *keys, int32_t n,
                                         pl_page_t *pages, pl_page_t *dup,
                                         pl_node_t **last_p);

/* A new node below `at` that has a host copy only (meta: of n pages, taken over
 * on PL_OK).  No child of `at` begins with keys[0].  Stamps as an insert; tells
 * no observer.  PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_tree_insert_host(pl_tree_t *tree, pl_node_t *at,
                                              uint64_t name_space,
                                              const pl_page_key_t *keys,
                                              int32_t n, pl_meta_t meta,
                                              pl_node_t **node_p);

/* Cut `node` after `at` of its pages (0 < at < n_pages).  The new node, the
 * head, is the parent of `node`; lock_ref, pin_ref, hits, times, pending write
 * and load are on both, device pages and host copy are divided.  Whoever holds
 * locks, pins or an operation holds a chain that ends in `node`, and lets go of
 * the head when he lets go of the chain.  *head_p may be NULL as a pointer.
 * What the policy says of both is its own (cache/policy.h).
 * PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_tree_split(pl_tree_t *tree, pl_node_t *node,
                                        int32_t at, pl_node_t **head_p);

void pl_tree_lock(pl_tree_t *tree, pl_node_t *node);   /* node and path */
void pl_tree_unlock(pl_tree_t *tree, pl_node_t *node); /* its counterpart */
void pl_tree_pin(pl_tree_t *tree, pl_node_t *node);    /* this host copy */
void pl_tree_unpin(pl_tree_t *tree, pl_node_t *node);

/* Count a prompt's passage: hits + 1 on the node and all above it; to the
 * policy it is an access, but where it is that of the prompt that brought the
 * node. */
void pl_tree_hit(pl_tree_t *tree, pl_node_t *node);

/* The time of a request has come, with these pages of its prompt to be hit: of
 * interest to a policy that knows the future. */
void pl_tree_passed(pl_tree_t *tree, int32_t request, uint64_t name_space,
                    const pl_page_key_t *keys, int32_t n);

/* Device pages of nodes that no lock holds, in `lane`: what eviction can free.
 */
int64_t pl_tree_unlocked(const pl_tree_t *tree, int lane);
/* The same with a lock. */
int64_t pl_tree_locked(const pl_tree_t *tree, int lane);

/* The ordered sets: lowest first, then the next higher; NULL at the end.
 * pl_tree_after gives the lowest above (value, id), in the set or not: a walk
 * that goes on when the node it stood on is gone. */
pl_node_t *pl_tree_first(const pl_tree_t *tree, int which);
pl_node_t *pl_tree_next(const pl_tree_t *tree, int which,
                        const pl_node_t *node);
pl_node_t *pl_tree_after(const pl_tree_t *tree, int which, uint64_t value,
                         int64_t id);
/* What the policy says of a node now. */
uint64_t pl_tree_value(const pl_tree_t *tree, const pl_node_t *node, int which);
/* The policy's next victim, or NULL; of its pages those from *from_p on are
 * worth the same. */
pl_node_t *pl_tree_pick(pl_tree_t *tree, pl_pick_t *pick, int32_t *from_p);
/* Values of nodes in a tier compare with those of others that are not in it. */
bool pl_tree_compares(const pl_tree_t *tree);

/* Steps of the controller; none can fail.  The pages themselves are the
 * caller's to free; it reads them before. set_device, set_host: give a node a
 * copy that it lacks (set_host takes the arrays over). drop_device: node has
 * device pages, no lock, no child with device pages. drop_host: node has a host
 * copy that nobody pins and no write under way. A node left without any copy
 * leaves the tree and is freed; it must have no children then. */
void pl_tree_set_device(pl_tree_t *tree, pl_node_t *node,
                        const pl_page_t *pages);
void pl_tree_set_host(pl_tree_t *tree, pl_node_t *node, pl_meta_t meta);
void pl_tree_drop_device(pl_tree_t *tree, pl_node_t *node);
void pl_tree_drop_host(pl_tree_t *tree, pl_node_t *node);
void pl_tree_set_write_op(pl_tree_t *tree, pl_node_t *node, int64_t op);
void pl_tree_set_load_op(pl_tree_t *tree, pl_node_t *node, int64_t op);

/* Visit every node but the root, ids ascending; stops at the first status that
 * is not PL_OK and returns it. */
typedef pl_status_t (*pl_tree_visit_t)(void *context, const pl_node_t *node);
PL_MUST_CHECK pl_status_t pl_tree_visit(const pl_tree_t *tree,
                                        pl_tree_visit_t visit, void *context);

/* The next page's chain hash: that of a node's end, or, for the first page of a
 * namespace, pl_tree_chain_start.  Folding a prefix's keys from there gives the
 * `chain` of the node that ends with it. */
uint64_t pl_tree_chain_start(uint64_t name_space);
uint64_t pl_tree_chain_next(uint64_t chain, pl_page_key_t key);

/* A hash of everything that decides later results; O(nodes), for debug mode. */
uint64_t pl_tree_state_hash(const pl_tree_t *tree);
/* Recount everything that "always holds"; one line and PL_ERR_INTERNAL.
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_tree_check(const pl_tree_t *tree);

#endif /* PL_CACHE_TREE_H */
