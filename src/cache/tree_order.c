/* The ordered sets of leaves: two treaps over (policy value, id), intrusive and
 * without parent links.  A node's priority is a mix of its id, so the shape
 * depends on the members alone, and a set of n has a depth of O(log n). */
#include "cache/tree_internal.h"

#include <assert.h>

bool pl_tree_evictable(const pl_node_t *node)
{
    return (node->device != NULL) && (node->lock_ref == 0) &&
           (node->n_device_children == 0);
}

bool pl_tree_droppable(const pl_node_t *node)
{
    return (node->host.n_pages > 0) && (node->pin_ref == 0) &&
           (node->write_op == 0) && (node->n_host_children == 0) &&
           ((node->device != NULL) || (node->lock_ref == 0));
}

static bool is_below(const pl_node_t *node, int which, uint64_t value,
                     int64_t id)
{
    uint64_t mine = node->link[which].value;

    return mine != value ? mine < value : node->id < id;
}

static bool comes_first(const pl_node_t *a, const pl_node_t *b, int which)
{
    return is_below(a, which, b->link[which].value, b->id);
}

static uint64_t priority(const pl_node_t *node)
{
    return pl_mix64((uint64_t)node->id);
}

/* Put `node` where its priority belongs and divide what was there by it. */
static void link_node(pl_tree_t *tree, int which, pl_node_t *node)
{
    pl_node_t **at = &tree->order[which];
    pl_node_t **left, **right;
    pl_node_t *rest;

    node->link[which].value = pl_tree_value(tree, node, which);
    while ((*at != NULL) && (priority(*at) >= priority(node))) {
        at = comes_first(node, *at, which) ? &(*at)->link[which].left
                                           : &(*at)->link[which].right;
    }
    rest  = *at;
    *at   = node;
    left  = &node->link[which].left;
    right = &node->link[which].right;
    while (rest != NULL) {
        if (comes_first(rest, node, which)) {
            *left = rest;
            left  = &rest->link[which].right;
            rest  = *left;
        } else {
            *right = rest;
            right  = &rest->link[which].left;
            rest   = *right;
        }
    }
    *left               = NULL;
    *right              = NULL;
    node->linked[which] = true;
}

static void unlink_node(pl_tree_t *tree, int which, pl_node_t *node)
{
    pl_node_t **at  = &tree->order[which];
    pl_node_t *low  = node->link[which].left;
    pl_node_t *high = node->link[which].right;

    while (*at != node) {
        assert(*at != NULL);
        at = comes_first(node, *at, which) ? &(*at)->link[which].left
                                           : &(*at)->link[which].right;
    }
    while ((low != NULL) && (high != NULL)) {
        if (priority(low) >= priority(high)) {
            *at = low;
            at  = &low->link[which].right;
            low = *at;
        } else {
            *at  = high;
            at   = &high->link[which].left;
            high = *at;
        }
    }
    *at                 = low != NULL ? low : high;
    node->linked[which] = false;
}

void pl_tree_reorder(pl_tree_t *tree, pl_node_t *node)
{
    bool member[2];

    if (node == tree->root) {
        return;
    }
    member[PL_TREE_DEVICE] = pl_tree_evictable(node);
    member[PL_TREE_HOST]   = pl_tree_droppable(node);
    for (int which = 0; which < 2; which++) {
        bool is_stale =
            node->linked[which] &&
            (node->link[which].value != pl_tree_value(tree, node, which));

        if (node->linked[which] && (!member[which] || is_stale)) {
            unlink_node(tree, which, node);
        }
        if (!node->linked[which] && member[which]) {
            link_node(tree, which, node);
        }
    }
}

uint64_t pl_tree_value(const pl_tree_t *tree, const pl_node_t *node, int which)
{
    return tree->policy->value(node, which);
}

pl_node_t *pl_tree_first(const pl_tree_t *tree, int which)
{
    pl_node_t *node = tree->order[which];

    while ((node != NULL) && (node->link[which].left != NULL)) {
        node = node->link[which].left;
    }
    return node;
}

pl_node_t *pl_tree_after(const pl_tree_t *tree, int which, uint64_t value,
                         int64_t id)
{
    pl_node_t *node  = tree->order[which];
    pl_node_t *above = NULL;

    while (node != NULL) {
        bool is_above =
            !is_below(node, which, value, id) &&
            !((node->link[which].value == value) && (node->id == id));

        above = is_above ? node : above;
        node  = is_above ? node->link[which].left : node->link[which].right;
    }
    return above;
}

pl_node_t *pl_tree_next(const pl_tree_t *tree, int which, const pl_node_t *node)
{
    assert(node->linked[which]);
    return pl_tree_after(tree, which, node->link[which].value, node->id);
}

/* ---- picking ---- */

bool pl_stands_before(const pl_node_t *leaf, int which, pl_spot_t place)
{
    return is_below(leaf, which, place.value, place.id);
}

void pl_pick_rewind(pl_pick_t *pick, int queue)
{
    pl_node_t *leaf = pick->rest;

    pick->rest = NULL;
    if ((leaf != NULL) &&
        pl_stands_before(leaf, pick->which, pick->at[queue])) {
        pick->at[queue] = pl_spot_of(leaf, pick->which);
        pick->at[queue].id--;
    }
}

pl_node_t *pl_pick_in_order(pl_tree_t *tree, pl_pick_t *pick)
{
    int which     = pick->which;
    pl_spot_t *at = &pick->at[0];
    pl_node_t *leaf;

    pl_pick_rewind(pick, 0);
    do {
        leaf = pl_tree_after(tree, which, at->value, at->id);
        if ((leaf == NULL) || (leaf->link[which].value >= pick->limit)) {
            return NULL;
        }
        *at = pl_spot_of(leaf, which);
    } while (!pick->helps(pick->context, leaf));
    return leaf;
}

pl_node_t *pl_tree_pick(pl_tree_t *tree, pl_pick_t *pick, int32_t *from_p)
{
    pl_node_t *leaf = tree->policy->pick(tree, pick);

    *from_p = (leaf != NULL) && (tree->policy->same_from != NULL)
                  ? tree->policy->same_from(tree, leaf)
                  : 0;
    return leaf;
}

bool pl_tree_compares(const pl_tree_t *tree)
{
    return tree->policy->compares;
}
