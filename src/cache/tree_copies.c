#include "cache/tree_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- lane counts ---- */

/* Add the node's device pages to `to`, and take them from `from` if given. */
static void move_pages(const pl_tree_t *tree, const pl_node_t *node,
                       int64_t *from, int64_t *to)
{
    for (int32_t i = 0; i < node->n_pages; i++) {
        pl_owner_t lane = pl_page_owner(node->device[i], tree->n_lanes);

        if (from != NULL) {
            from[lane]--;
        }
        if (to != NULL) {
            to[lane]++;
        }
    }
}

int64_t pl_tree_unlocked(const pl_tree_t *tree, int lane)
{
    assert((lane >= 0) && (lane < tree->n_lanes));
    return tree->unlocked[lane];
}

int64_t pl_tree_locked(const pl_tree_t *tree, int lane)
{
    assert((lane >= 0) && (lane < tree->n_lanes));
    return tree->locked[lane];
}

/* ---- references ---- */

void pl_tree_lock(pl_tree_t *tree, pl_node_t *node)
{
    for (; node != NULL; node = node->parent) {
        if (node->lock_ref++ == 0) {
            if (node->device != NULL) {
                move_pages(tree, node, tree->unlocked, tree->locked);
            }
            pl_tree_reorder(tree, node);
        }
    }
}

void pl_tree_unlock(pl_tree_t *tree, pl_node_t *node)
{
    for (; node != NULL; node = node->parent) {
        assert(node->lock_ref > 0);
        if (--node->lock_ref == 0) {
            if (node->device != NULL) {
                move_pages(tree, node, tree->locked, tree->unlocked);
            }
            pl_tree_reorder(tree, node);
        }
    }
}

void pl_tree_pin(pl_tree_t *tree, pl_node_t *node)
{
    assert(node->host.n_pages > 0);
    node->pin_ref++;
    pl_tree_reorder(tree, node);
}

void pl_tree_unpin(pl_tree_t *tree, pl_node_t *node)
{
    assert(node->pin_ref > 0);
    node->pin_ref--;
    pl_tree_reorder(tree, node);
}

/* The passage of the prompt that brought it is its entry. */
static void access_copy(pl_tree_t *tree, pl_node_t *node, int which)
{
    if (!pl_tree_is_in(node, which)) {
        return;
    }
    if (node->rank[which].is_fresh) {
        node->rank[which].is_fresh = false;
    } else if (tree->policy->hit != NULL) {
        tree->policy->hit(tree, node, which);
    }
}

void pl_tree_hit(pl_tree_t *tree, pl_node_t *node)
{
    for (; node != tree->root; node = node->parent) {
        node->hits++;
        access_copy(tree, node, PL_TREE_DEVICE);
        access_copy(tree, node, PL_TREE_HOST);
        pl_tree_reorder(tree, node);
    }
}

/* ---- copies ---- */

void pl_tree_node_free(pl_node_t *node)
{
    if (node != NULL) {
        pl_meta_clear(&node->host);
        free(node->keys);
        free(node->device_room);
        free(node);
    }
}

void pl_tree_remove(pl_tree_t *tree, pl_node_t *node)
{
    assert((node != tree->root) && (node->n_children == 0));
    assert((node->lock_ref == 0) && (node->pin_ref == 0));
    assert(!node->linked[PL_TREE_DEVICE] && !node->linked[PL_TREE_HOST]);
    pl_tree_detach(tree, node);
    node->prev->next = node->next;
    if (node->next != NULL) {
        node->next->prev = node->prev;
    } else {
        tree->newest = node->prev;
    }
    tree->n_nodes--;
    pl_tree_node_free(node);
}

/* The copy takes the newest place of its tier.  A host copy is made when its
 * prompt has passed; device pages before. */
static void enter(pl_tree_t *tree, pl_node_t *node, int which)
{
    node->rank[which] = (pl_rank_t){.place    = ++tree->places,
                                    .is_fresh = which == PL_TREE_DEVICE};
    if (tree->policy->enter != NULL) {
        tree->policy->enter(tree, node, which);
    }
}

static void leave(pl_tree_t *tree, pl_node_t *node, int which)
{
    if (tree->policy->leave != NULL) {
        tree->policy->leave(tree, node, which);
    }
}

/* A copy came or went: the sets follow, and a node without any goes. */
static void follow_copy(pl_tree_t *tree, pl_node_t *node)
{
    pl_tree_reorder(tree, node);
    pl_tree_reorder(tree, node->parent);
    if ((node->device == NULL) && (node->host.n_pages == 0)) {
        pl_tree_remove(tree, node);
    }
}

void pl_tree_set_device(pl_tree_t *tree, pl_node_t *node,
                        const pl_page_t *pages)
{
    assert(node->device == NULL);
    assert((node->parent == tree->root) || (node->parent->device != NULL));
    memcpy(node->device_room, pages, (size_t)node->n_pages * sizeof(*pages));
    node->device = node->device_room;
    node->parent->n_device_children++;
    move_pages(tree, node, NULL,
               node->lock_ref > 0 ? tree->locked : tree->unlocked);
    enter(tree, node, PL_TREE_DEVICE);
    follow_copy(tree, node);
}

void pl_tree_drop_device(pl_tree_t *tree, pl_node_t *node)
{
    assert((node->device != NULL) && (node->lock_ref == 0));
    assert(node->n_device_children == 0);
    move_pages(tree, node, tree->unlocked, NULL);
    leave(tree, node, PL_TREE_DEVICE);
    node->device = NULL;
    node->parent->n_device_children--;
    follow_copy(tree, node);
}

void pl_tree_set_host(pl_tree_t *tree, pl_node_t *node, pl_meta_t meta)
{
    assert((node->host.n_pages == 0) && (meta.n_pages == node->n_pages));
    node->host = meta;
    node->parent->n_host_children++;
    enter(tree, node, PL_TREE_HOST);
    follow_copy(tree, node);
}

void pl_tree_drop_host(pl_tree_t *tree, pl_node_t *node)
{
    assert((node->host.n_pages > 0) && (node->pin_ref == 0));
    assert(node->write_op == 0);
    leave(tree, node, PL_TREE_HOST);
    pl_meta_clear(&node->host);
    node->parent->n_host_children--;
    follow_copy(tree, node);
}

void pl_tree_set_write_op(pl_tree_t *tree, pl_node_t *node, int64_t op)
{
    node->write_op = op;
    pl_tree_reorder(tree, node);
}

void pl_tree_set_load_op(pl_tree_t *tree, pl_node_t *node, int64_t op)
{
    node->load_op = op;
    pl_tree_reorder(tree, node);
}
