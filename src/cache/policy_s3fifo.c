/* S3-FIFO (Yang et al., SOSP 2023): a small queue through which new nodes pass,
 * a main queue for those that were accessed twice meanwhile or come back soon,
 * and a ghost queue that remembers what the small one gave up. */
#include "cache/tree_internal.h"

#include <stdlib.h>

enum {
    SMALL,
    MAIN,
    SMALL_PERCENT = 10, /* of the tier's pages */
    MOST_USES     = 3,  /* two bits */
    ENOUGH_USES   = 2   /* to pass from the small queue to the main one */
};

/* The first page of a node that left the small queue, by its chain hash. */
typedef struct ghost {
    uint64_t chain;
    int64_t number; /* of all that ever were */
    int64_t older, newer;
    int32_t n_pages; /* of the node */
} ghost_t;

/* A queue of ghosts, found by chain (open addressing).  Each counts a page at
 * least, so that there are never more than pages.  Indices begin at 1; 0: none.
 */
typedef struct ghosts {
    ghost_t *items;
    int64_t *slots;
    int64_t n_slots; /* a power of two */
    int64_t oldest, newest;
    int64_t unused;  /* a list by `newer` of those given back */
    int64_t n_items; /* used so far */
    int64_t n_ever;
    int64_t most_pages, pages;
    uint64_t sum; /* of their hashes: the queue's own hash */
} ghosts_t;

typedef struct s3fifo {
    struct s3fifo_tier {
        int64_t capacity;
        int64_t pages[2]; /* of all nodes in SMALL and in MAIN */
        ghosts_t ghosts;
    } tiers[2];
} s3fifo_t;

/* ---- ghosts ---- */

static void ghosts_close(ghosts_t *ghosts)
{
    free(ghosts->items);
    free(ghosts->slots);
}

static pl_status_t ghosts_open(ghosts_t *ghosts, int64_t most_pages)
{
    ghosts->most_pages = most_pages;
    ghosts->n_slots    = 4;
    while (ghosts->n_slots < 2 * most_pages) {
        ghosts->n_slots *= 2;
    }
    ghosts->items = calloc((size_t)most_pages + 1, sizeof(*ghosts->items));
    ghosts->slots = calloc((size_t)ghosts->n_slots, sizeof(*ghosts->slots));
    if ((ghosts->items == NULL) || (ghosts->slots == NULL)) {
        ghosts_close(ghosts);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static int64_t home_slot(const ghosts_t *ghosts, uint64_t chain)
{
    return (int64_t)(pl_mix64(chain) & (uint64_t)(ghosts->n_slots - 1));
}

/* The slot of the chain, or the free one where it would be. */
static int64_t find_slot(const ghosts_t *ghosts, uint64_t chain)
{
    int64_t at = home_slot(ghosts, chain);

    while ((ghosts->slots[at] != 0) &&
           (ghosts->items[ghosts->slots[at]].chain != chain)) {
        at = (at + 1) & (ghosts->n_slots - 1);
    }
    return at;
}

/* Free a slot, and move up those that it kept from their home. */
static void free_slot(ghosts_t *ghosts, int64_t gap)
{
    int64_t mask = ghosts->n_slots - 1;

    for (int64_t at = (gap + 1) & mask; ghosts->slots[at] != 0;
         at         = (at + 1) & mask) {
        int64_t home =
            home_slot(ghosts, ghosts->items[ghosts->slots[at]].chain);

        if (((at - home) & mask) >= ((at - gap) & mask)) {
            ghosts->slots[gap] = ghosts->slots[at];
            gap                = at;
        }
    }
    ghosts->slots[gap] = 0;
}

static uint64_t hash_ghost(const ghost_t *ghost)
{
    return pl_fold64(pl_fold64(ghost->chain, (uint64_t)ghost->number),
                     (uint64_t)ghost->n_pages);
}

static void forget(ghosts_t *ghosts, int64_t which)
{
    ghost_t *ghost = &ghosts->items[which];

    free_slot(ghosts, find_slot(ghosts, ghost->chain));
    *(ghost->older != 0 ? &ghosts->items[ghost->older].newer
                        : &ghosts->oldest) = ghost->newer;
    *(ghost->newer != 0 ? &ghosts->items[ghost->newer].older
                        : &ghosts->newest) = ghost->older;
    ghosts->sum -= hash_ghost(ghost);
    ghosts->pages -= ghost->n_pages;
    ghost->newer   = ghosts->unused;
    ghosts->unused = which;
}

/* Was the chain among them?  It is not any more. */
static bool ghosts_take(ghosts_t *ghosts, uint64_t chain)
{
    int64_t which = ghosts->slots[find_slot(ghosts, chain)];

    if (which != 0) {
        forget(ghosts, which);
    }
    return which != 0;
}

static int64_t unused_item(ghosts_t *ghosts)
{
    int64_t which = ghosts->unused;

    if (which == 0) {
        return ++ghosts->n_items;
    }
    ghosts->unused = ghosts->items[which].newer;
    return which;
}

static void ghosts_add(ghosts_t *ghosts, uint64_t chain, int32_t n_pages)
{
    ghost_t *ghost;
    int64_t which;

    (void)ghosts_take(ghosts, chain); /* it is younger now */
    if (n_pages > ghosts->most_pages) {
        return;
    }
    while (ghosts->pages + n_pages > ghosts->most_pages) {
        forget(ghosts, ghosts->oldest);
    }
    which                                   = unused_item(ghosts);
    ghost                                   = &ghosts->items[which];
    *ghost                                  = (ghost_t){.chain   = chain,
                                                        .number  = ghosts->n_ever++,
                                                        .older   = ghosts->newest,
                                                        .n_pages = n_pages};
    *(ghost->older != 0 ? &ghosts->items[ghost->older].newer
                        : &ghosts->oldest)  = which;
    ghosts->newest                          = which;
    ghosts->slots[find_slot(ghosts, chain)] = which;
    ghosts->pages += n_pages;
    ghosts->sum += hash_ghost(ghost);
}

/* ---- queues ---- */

static struct s3fifo_tier *tier_of(const pl_tree_t *tree, int which)
{
    s3fifo_t *s3fifo = tree->policy_state;

    return &s3fifo->tiers[which];
}

static uint64_t s3fifo_value(const pl_node_t *node, int which)
{
    const pl_rank_t *rank = &node->rank[which];

    return pl_rank_value(rank->queue, rank->place);
}

static void s3fifo_close(void *state)
{
    s3fifo_t *s3fifo = state;

    for (int which = 0; which < 2; which++) {
        ghosts_close(&s3fifo->tiers[which].ghosts);
    }
    free(s3fifo);
}

static pl_status_t s3fifo_open(const pl_policy_params_t *params, void **state_p)
{
    s3fifo_t *s3fifo = calloc(1, sizeof(*s3fifo));

    if (s3fifo == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int which = 0; which < 2; which++) {
        struct s3fifo_tier *tier = &s3fifo->tiers[which];
        int64_t small            = params->pages[which] * SMALL_PERCENT / 100;

        tier->capacity = params->pages[which];
        if (ghosts_open(&tier->ghosts, tier->capacity - small) != PL_OK) {
            tier->ghosts = (ghosts_t){0};
            s3fifo_close(s3fifo);
            return PL_ERR_MEMORY;
        }
    }
    *state_p = s3fifo;
    return PL_OK;
}

static uint64_t first_chain(const pl_tree_t *tree, const pl_node_t *node)
{
    return pl_tree_chain_next(pl_tree_chain_before(tree, node), node->keys[0]);
}

static void s3fifo_enter(pl_tree_t *tree, pl_node_t *node, int which)
{
    struct s3fifo_tier *tier = tier_of(tree, which);
    bool is_back = ghosts_take(&tier->ghosts, first_chain(tree, node));

    node->rank[which].queue = is_back ? MAIN : SMALL;
    tier->pages[node->rank[which].queue] += node->n_pages;
}

static void s3fifo_leave(pl_tree_t *tree, pl_node_t *node, int which)
{
    struct s3fifo_tier *tier = tier_of(tree, which);

    tier->pages[node->rank[which].queue] -= node->n_pages;
    if (node->rank[which].queue == SMALL) {
        ghosts_add(&tier->ghosts, first_chain(tree, node), node->n_pages);
    }
}

static void s3fifo_hit(pl_tree_t *tree, pl_node_t *node, int which)
{
    (void)tree;
    if (node->rank[which].uses < MOST_USES) {
        node->rank[which].uses++;
    }
}

/* ---- eviction ---- */

/* A leaf of the queue that has not had its turn: the oldest. */
static pl_node_t *oldest_of(const pl_tree_t *tree, pl_pick_t *pick, int queue)
{
    pl_spot_t at = pick->at[queue];
    pl_node_t *leaf;

    if (at.value < pl_rank_value((uint8_t)queue, 0)) {
        at = (pl_spot_t){pl_rank_value((uint8_t)queue, 0), -1};
    }
    leaf = pl_tree_after(tree, pick->which, at.value, at.id);
    if ((leaf == NULL) || (leaf->rank[pick->which].queue != queue)) {
        return NULL;
    }
    pick->at[queue] = pl_spot_of(leaf, pick->which);
    return leaf;
}

/* From the small queue while it has its share of the tier, or there is nothing
 * in the main one. */
static pl_node_t *turn(const pl_tree_t *tree, pl_pick_t *pick)
{
    const struct s3fifo_tier *tier = tier_of(tree, pick->which);
    bool is_large = tier->pages[SMALL] * 100 >= tier->capacity * SMALL_PERCENT;
    pl_node_t *leaf = oldest_of(tree, pick, is_large ? SMALL : MAIN);

    return leaf != NULL ? leaf : oldest_of(tree, pick, is_large ? MAIN : SMALL);
}

/* A second chance for what was accessed: the newest place of the main queue. */
static bool spare(pl_tree_t *tree, pl_node_t *leaf, int which)
{
    struct s3fifo_tier *tier = tier_of(tree, which);
    pl_rank_t *rank          = &leaf->rank[which];

    if (rank->uses < (rank->queue == SMALL ? ENOUGH_USES : 1)) {
        return false;
    }
    tier->pages[rank->queue] -= leaf->n_pages;
    tier->pages[MAIN] += leaf->n_pages;
    rank->uses  = rank->queue == SMALL ? 0 : (uint8_t)(rank->uses - 1);
    rank->queue = MAIN;
    rank->place = ++tree->places;
    pl_tree_reorder(tree, leaf);
    return true;
}

static pl_node_t *s3fifo_pick(pl_tree_t *tree, pl_pick_t *pick)
{
    pl_node_t *leaf;

    if (pick->rest != NULL) {
        pl_pick_rewind(pick, pick->rest->rank[pick->which].queue);
    }
    leaf = turn(tree, pick);
    while ((leaf != NULL) && (!pick->helps(pick->context, leaf) ||
                              spare(tree, leaf, pick->which))) {
        leaf = turn(tree, pick);
    }
    return leaf;
}

/* ---- looking in ---- */

static uint64_t s3fifo_hash(const void *state)
{
    const s3fifo_t *s3fifo = state;
    uint64_t h             = 0;

    for (int which = 0; which < 2; which++) {
        const struct s3fifo_tier *tier = &s3fifo->tiers[which];

        h = pl_fold64(h, (uint64_t)tier->pages[SMALL]);
        h = pl_fold64(h, (uint64_t)tier->pages[MAIN]);
        h = pl_fold64(h, (uint64_t)tier->ghosts.n_ever);
        h = pl_fold64(h, tier->ghosts.sum);
    }
    return h;
}

static const char *ghosts_fault(const ghosts_t *ghosts)
{
    int64_t pages   = 0;
    int64_t n_found = 0;

    for (int64_t i = ghosts->oldest; i != 0; i = ghosts->items[i].newer) {
        const ghost_t *ghost = &ghosts->items[i];

        if (ghosts->slots[find_slot(ghosts, ghost->chain)] != i) {
            return "s3fifo: a ghost cannot be found";
        }
        pages += ghost->n_pages;
        n_found++;
    }
    for (int64_t i = 0; i < ghosts->n_slots; i++) {
        n_found -= ghosts->slots[i] != 0 ? 1 : 0;
    }
    return (pages != ghosts->pages) || (pages > ghosts->most_pages) ||
                   (n_found != 0)
               ? "s3fifo: it miscounts its ghosts"
               : NULL;
}

static const char *s3fifo_fault(const pl_tree_t *tree)
{
    for (int which = 0; which < 2; which++) {
        const struct s3fifo_tier *tier = tier_of(tree, which);
        const char *fault              = ghosts_fault(&tier->ghosts);

        if (fault != NULL) {
            return fault;
        }
        if ((tier->pages[SMALL] != pl_tree_queue_pages(tree, which, SMALL)) ||
            (tier->pages[MAIN] != pl_tree_queue_pages(tree, which, MAIN))) {
            return "s3fifo: it miscounts its queues";
        }
    }
    return NULL;
}

const pl_policy_ops_t pl_policy_s3fifo = {
    .name  = "s3fifo",
    .value = s3fifo_value,
    .pick  = s3fifo_pick,
    .open  = s3fifo_open,
    .close = s3fifo_close,
    .enter = s3fifo_enter,
    .leave = s3fifo_leave,
    .hit   = s3fifo_hit,
    .hash  = s3fifo_hash,
    .fault = s3fifo_fault,
};
