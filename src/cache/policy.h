/* cache/policy.h - which leaf goes first.  One policy, one file; what each does
 * is in docs/eviction.md.
 *
 * Each tier keeps its evictable leaves ordered by (policy value, node id), and
 * its own instance of the policy: a node has a rank of its own in each tier.  A
 * policy says what the value is, walks up the order, and returns one victim
 * after the other; leaves that cannot help are passed over as they are.  All of
 * it comes from the calls alone: never from wall time, addresses or chance, so
 * it is the same on every rank, and the tree's state hash covers it.
 *
 * An access is a prompt's passage (pl_tree_hit), once a prompt.  The passage of
 * the prompt that brought a node into the tier is its entry and no access.
 */
#ifndef PL_CACHE_POLICY_H
#define PL_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/future.h"

struct pl_node;
struct pl_tree;

/* What a policy keeps of a node in a tier; a split copies it to the head. */
typedef struct pl_rank {
    uint64_t place; /* in its queue; also what the policy makes of it */
    uint8_t queue;
    uint8_t uses;
    bool is_fresh; /* the passage of the prompt that brought it is to come */
    struct pl_node *older, *newer; /* neighbours, where a policy keeps a list */
} pl_rank_t;

/* A place in a tier's order. */
typedef struct pl_spot {
    uint64_t value;
    int64_t id;
} pl_spot_t;

/* One eviction: what its victims must be, and how far the walk has come. */
typedef struct pl_pick {
    int which;      /* PL_TREE_DEVICE, PL_TREE_HOST */
    uint64_t limit; /* leaves of this value or more stay */
    /* Would it free, then or later, pages that are needed?  Who cannot help now
     * will not before the end of this eviction. */
    bool (*helps)(const void *context, const struct pl_node *leaf);
    /* Pages of the tier that are free in a lane, or will be. */
    int64_t (*free_pages)(const void *context, int lane);
    const void *context;
    /* The parent of the last victim, if it has become a leaf, else NULL: if it
     * stands before the walk it missed its turn. */
    struct pl_node *rest;
    pl_spot_t at[2]; /* by queue: all up to here had their turn */
} pl_pick_t;

#define PL_PICK_START                                                          \
    {                                                                          \
        {0, -1},                                                               \
        {                                                                      \
            0, -1                                                              \
        }                                                                      \
    }

typedef struct pl_policy_params {
    int64_t pages[2];          /* of each tier, all lanes together */
    const pl_future_t *future; /* borrowed; NULL: none is known */
} pl_policy_params_t;

typedef struct pl_policy_ops {
    const char *name; /* --evict */
    /* The value is the node's in either tier, and no lower than that of any
     * node below it.  Then a host copy makes room only for a node of a higher
     * value; else for any, and what stands before that node stays. */
    bool compares;
    bool foresees; /* needs params.future */
    /* The order of `node` among the leaves of a tier: lower is evicted earlier.
     */
    uint64_t (*value)(const struct pl_node *node, int which);
    /* The next victim, or NULL.  The caller evicts it, or a suffix of it. */
    struct pl_node *(*pick)(struct pl_tree *tree, pl_pick_t *pick);
    /* Any of the rest may be NULL.  State: tree->policy_state.  PL_OK,
     * PL_ERR_MEMORY. */
    pl_status_t (*open)(const pl_policy_params_t *params, void **state_p);
    void (*close)(void *state);
    /* The node has come into the tier, with the newest place; leaves it; was
     * accessed in it; has given its first pages to `head` (in all its tiers).
     */
    void (*enter)(struct pl_tree *tree, struct pl_node *node, int which);
    void (*leave)(struct pl_tree *tree, struct pl_node *node, int which);
    void (*hit)(struct pl_tree *tree, struct pl_node *node, int which);
    void (*split)(struct pl_tree *tree, struct pl_node *head,
                  struct pl_node *node);
    /* A request's time has come; then, of each node on its path, the same. */
    void (*passed)(struct pl_tree *tree, int32_t request);
    void (*passed_node)(struct pl_tree *tree, struct pl_node *node);
    /* From which page on a victim's pages are worth the same. */
    int32_t (*same_from)(const struct pl_tree *tree,
                         const struct pl_node *node);
    uint64_t (*hash)(const void *state);
    /* Recount; static text or NULL. */
    const char *(*fault)(const struct pl_tree *tree);
} pl_policy_ops_t;

extern const pl_policy_ops_t pl_policy_lru;
extern const pl_policy_ops_t pl_policy_lfu;
extern const pl_policy_ops_t pl_policy_slru;
extern const pl_policy_ops_t pl_policy_fifo;
extern const pl_policy_ops_t pl_policy_s3fifo;
extern const pl_policy_ops_t pl_policy_sieve;
extern const pl_policy_ops_t pl_policy_lane_aware;
extern const pl_policy_ops_t pl_policy_belady;

/* The policy of that name, or NULL. */
const pl_policy_ops_t *pl_policy_find(const char *name);
/* All of them, in the order of the help; NULL from the end on. */
const pl_policy_ops_t *pl_policy_at(int i);

#endif /* PL_CACHE_POLICY_H */
