#include "cache/tree_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"

static size_t bucket_of(const pl_tree_t *tree, const pl_node_t *parent,
                        uint64_t name_space, pl_page_key_t first)
{
    /* Below the root's children the namespace is the parent's. */
    uint64_t h = parent == tree->root ? name_space : 0;

    h = pl_mix64(first.hi + h * UINT64_C(0x9E3779B97F4A7C15));
    h = pl_mix64(first.lo ^ (h + (uint64_t)parent->id));
    return (size_t)h & (tree->n_buckets - 1);
}

static bool begins_with(const pl_node_t *node, const pl_node_t *parent,
                        uint64_t name_space, pl_page_key_t first)
{
    return (node->parent == parent) && (node->name_space == name_space) &&
           (node->keys[0].lo == first.lo) && (node->keys[0].hi == first.hi);
}

pl_node_t *pl_tree_child(const pl_tree_t *tree, const pl_node_t *parent,
                         uint64_t name_space, pl_page_key_t first)
{
    pl_node_t *node = tree->buckets[bucket_of(tree, parent, name_space, first)];

    while ((node != NULL) && !begins_with(node, parent, name_space, first)) {
        node = node->hash_next;
    }
    return node;
}

static void link_bucket(pl_tree_t *tree, pl_node_t *node)
{
    size_t b = bucket_of(tree, node->parent, node->name_space, node->keys[0]);

    node->hash_next  = tree->buckets[b];
    tree->buckets[b] = node;
}

pl_status_t pl_tree_children_reserve(pl_tree_t *tree, int64_t n)
{
    size_t want = (size_t)(tree->n_nodes + n);
    size_t size = tree->n_buckets > 0 ? tree->n_buckets : 64;
    pl_node_t **buckets;

    while (size < want) {
        size *= 2;
    }
    if (size == tree->n_buckets) {
        return PL_OK;
    }
    buckets = calloc(size, sizeof(*buckets));
    if (buckets == NULL) {
        return PL_ERR_MEMORY;
    }
    free(tree->buckets);
    tree->buckets   = buckets;
    tree->n_buckets = size;
    for (pl_node_t *node = tree->root->next; node != NULL; node = node->next) {
        link_bucket(tree, node);
    }
    return PL_OK;
}

void pl_tree_attach(pl_tree_t *tree, pl_node_t *parent, pl_node_t *node)
{
    node->parent       = parent;
    node->prev_sibling = NULL;
    node->next_sibling = parent->first_child;
    if (parent->first_child != NULL) {
        parent->first_child->prev_sibling = node;
    }
    parent->first_child = node;
    parent->n_children++;
    link_bucket(tree, node);
}

void pl_tree_detach(pl_tree_t *tree, pl_node_t *node)
{
    pl_node_t *parent = node->parent;
    pl_node_t **at    = &tree->buckets[bucket_of(tree, parent, node->name_space,
                                                 node->keys[0])];

    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->hash_next;
    }
    *at = node->hash_next;

    if (node->next_sibling != NULL) {
        node->next_sibling->prev_sibling = node->prev_sibling;
    }
    if (node->prev_sibling != NULL) {
        node->prev_sibling->next_sibling = node->next_sibling;
    } else {
        parent->first_child = node->next_sibling;
    }
    parent->n_children--;
}
