/* SIEVE (Zhang et al., NSDI 2024): one queue in order of arrival, a bit for
 * what was accessed, and a hand that moves from the oldest to the newest,
 * clears bits, and evicts where it finds none. */
#include "cache/tree_internal.h"

#include <stdlib.h>

typedef struct sieve {
    pl_spot_t hand[2]; /* by tier: where it stands; what is newer comes next */
} sieve_t;

static uint64_t sieve_value(const pl_node_t *node, int which)
{
    return node->rank[which].place;
}

static pl_status_t sieve_open(const pl_policy_params_t *params, void **state_p)
{
    sieve_t *sieve = calloc(1, sizeof(*sieve));

    (void)params;
    *state_p = sieve;
    return sieve != NULL ? PL_OK : PL_ERR_MEMORY;
}

static void sieve_hit(pl_tree_t *tree, pl_node_t *node, int which)
{
    (void)tree;
    node->rank[which].uses = 1;
}

/* The leaf whose turn it is; NULL: the hand is at the newest end. */
static pl_node_t *turn(const pl_tree_t *tree, pl_pick_t *pick, pl_spot_t *hand)
{
    pl_node_t *leaf = pick->rest;

    pick->rest = NULL;
    if ((leaf == NULL) || !pl_stands_before(leaf, pick->which, *hand)) {
        leaf = pl_tree_after(tree, pick->which, hand->value, hand->id);
        if (leaf != NULL) {
            *hand = pl_spot_of(leaf, pick->which);
        }
    }
    return leaf;
}

/* A round in which nothing changes is enough; then the hand stays where it
 * last did something. */
static pl_node_t *sieve_pick(pl_tree_t *tree, pl_pick_t *pick)
{
    static const pl_spot_t start = {0, -1};
    sieve_t *sieve               = tree->policy_state;
    pl_spot_t *hand              = &sieve->hand[pick->which];
    pl_spot_t begun              = *hand;
    int n_ends                   = 0;

    while (n_ends < 2) {
        pl_node_t *leaf = turn(tree, pick, hand);

        if (leaf == NULL) {
            *hand = start;
            n_ends++;
        } else if (pick->helps(pick->context, leaf)) {
            if (leaf->rank[pick->which].uses == 0) {
                return leaf;
            }
            leaf->rank[pick->which].uses = 0;
            begun                        = *hand;
            n_ends                       = 0;
        }
    }
    *hand = begun;
    return NULL;
}

static uint64_t sieve_hash(const void *state)
{
    const sieve_t *sieve = state;
    uint64_t h           = 0;

    for (int which = 0; which < 2; which++) {
        h = pl_fold64(h, sieve->hand[which].value);
        h = pl_fold64(h, (uint64_t)sieve->hand[which].id);
    }
    return h;
}

const pl_policy_ops_t pl_policy_sieve = {
    .name  = "sieve",
    .value = sieve_value,
    .pick  = sieve_pick,
    .open  = sieve_open,
    .close = free,
    .hit   = sieve_hit,
    .hash  = sieve_hash,
};
