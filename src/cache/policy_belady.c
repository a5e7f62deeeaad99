/* Belady's MIN (1966), which knows what comes: what is read furthest from now
 * goes first, page by page.  A page's next reader is the first request that can
 * hit it of those whose time has not come; a node stands where its last page
 * does, which is read last of all its pages.  What it is a bound of, and of
 * what not: docs/eviction.md. */
#include "cache/tree_internal.h"

#include <stdlib.h>

typedef struct belady {
    const pl_future_t *future;
    int32_t next;        /* requests before it have passed */
    uint8_t *has_passed; /* [n_requests] */
} belady_t;

static uint64_t belady_value(const pl_node_t *node, int which)
{
    return PL_FUTURE_NEVER - node->rank[which].place;
}

static pl_status_t belady_open(const pl_policy_params_t *params, void **state_p)
{
    belady_t *belady = calloc(1, sizeof(*belady));

    if (belady == NULL) {
        return PL_ERR_MEMORY;
    }
    belady->future = params->future;
    belady->has_passed =
        calloc((size_t)pl_future_n_requests(params->future) + 1, 1);
    if (belady->has_passed == NULL) {
        free(belady);
        return PL_ERR_MEMORY;
    }
    *state_p = belady;
    return PL_OK;
}

static void belady_close(void *state)
{
    belady_t *belady = state;

    free(belady->has_passed);
    free(belady);
}

static uint32_t next_reader(const pl_tree_t *tree, uint64_t chain)
{
    const belady_t *belady = tree->policy_state;
    uint32_t next = pl_future_next(belady->future, chain, belady->next);

    while ((next != PL_FUTURE_NEVER) && belady->has_passed[next]) {
        next = pl_future_next(belady->future, chain, (int32_t)next + 1);
    }
    return next;
}

static void tell(pl_tree_t *tree, pl_node_t *node)
{
    uint32_t next = next_reader(tree, node->chain);

    node->rank[PL_TREE_DEVICE].place = next;
    node->rank[PL_TREE_HOST].place   = next;
}

static void belady_enter(pl_tree_t *tree, pl_node_t *node, int which)
{
    (void)which;
    tell(tree, node);
}

/* The head's last page may be read before the other half's. */
static void belady_split(pl_tree_t *tree, pl_node_t *head, pl_node_t *node)
{
    (void)node;
    tell(tree, head);
}

static void belady_passed(pl_tree_t *tree, int32_t request)
{
    belady_t *belady = tree->policy_state;
    int32_t n        = pl_future_n_requests(belady->future);

    if ((request < 0) || (request >= n)) {
        return;
    }
    belady->has_passed[request] = 1;
    while ((belady->next < n) && belady->has_passed[belady->next]) {
        belady->next++;
    }
}

static void belady_passed_node(pl_tree_t *tree, pl_node_t *node)
{
    tell(tree, node);
    pl_tree_reorder(tree, node);
}

static int32_t belady_same_from(const pl_tree_t *tree, const pl_node_t *node)
{
    uint64_t chain = pl_tree_chain_before(tree, node);
    uint64_t last  = node->rank[PL_TREE_DEVICE].place;
    int32_t from   = 0;

    for (int32_t i = 0; i < node->n_pages; i++) {
        chain = pl_tree_chain_next(chain, node->keys[i]);
        from  = next_reader(tree, chain) != last ? i + 1 : from;
    }
    return from;
}

static uint64_t belady_hash(const void *state)
{
    const belady_t *belady = state;
    uint64_t h             = (uint64_t)belady->next;

    return pl_hash64(belady->has_passed,
                     (size_t)pl_future_n_requests(belady->future) + 1, h);
}

static const char *belady_fault(const pl_tree_t *tree)
{
    for (const pl_node_t *node = tree->root->next; node != NULL;
         node                  = node->next) {
        uint32_t next = next_reader(tree, node->chain);

        if ((node->rank[PL_TREE_DEVICE].place != next) ||
            (node->rank[PL_TREE_HOST].place != next)) {
            return "belady: a node stands for a reader that has passed";
        }
    }
    return NULL;
}

const pl_policy_ops_t pl_policy_belady = {
    .name        = "belady",
    .compares    = true,
    .foresees    = true,
    .value       = belady_value,
    .pick        = pl_pick_in_order,
    .open        = belady_open,
    .close       = belady_close,
    .enter       = belady_enter,
    .split       = belady_split,
    .passed      = belady_passed,
    .passed_node = belady_passed_node,
    .same_from   = belady_same_from,
    .hash        = belady_hash,
    .fault       = belady_fault,
};
