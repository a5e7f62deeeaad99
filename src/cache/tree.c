#include "cache/tree_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- nodes ---- */

static pl_node_t *node_make(int32_t n_pages)
{
    pl_node_t *node = calloc(1, sizeof(*node));
    size_t n        = (size_t)n_pages;

    if (node == NULL) {
        return NULL;
    }
    node->n_pages     = n_pages;
    node->keys        = malloc((n > 0 ? n : 1) * sizeof(*node->keys));
    node->device_room = malloc((n > 0 ? n : 1) * sizeof(*node->device_room));
    if ((node->keys == NULL) || (node->device_room == NULL)) {
        pl_tree_node_free(node);
        return NULL;
    }
    return node;
}

static void append_by_id(pl_tree_t *tree, pl_node_t *node)
{
    node->id           = tree->next_id++;
    node->prev         = tree->newest;
    tree->newest->next = node;
    tree->newest       = node;
    tree->n_nodes++;
}

uint64_t pl_tree_chain_start(uint64_t name_space)
{
    return pl_mix64(name_space + UINT64_C(0x243F6A8885A308D3));
}

uint64_t pl_tree_chain_next(uint64_t chain, pl_page_key_t key)
{
    return pl_fold64(pl_fold64(chain, key.lo), key.hi);
}

uint64_t pl_tree_chain_before(const pl_tree_t *tree, const pl_node_t *node)
{
    return node->parent == tree->root ? pl_tree_chain_start(node->name_space)
                                      : node->parent->chain;
}

/* The hash at the end of a node that hangs below its parent. */
static uint64_t chain_of(const pl_tree_t *tree, const pl_node_t *node)
{
    uint64_t chain = pl_tree_chain_before(tree, node);

    for (int32_t i = 0; i < node->n_pages; i++) {
        chain = pl_tree_chain_next(chain, node->keys[i]);
    }
    return chain;
}

/* ---- opening ---- */

pl_status_t pl_tree_open(const pl_tree_params_t *params, const pl_log_t *log,
                         pl_tree_t **tree_p)
{
    pl_tree_t *tree;

    assert((params->n_lanes >= 1) && (params->n_lanes <= PL_MAX_RANKS));
    assert((params->page_tokens >= 1) && (params->policy != NULL));
    tree = calloc(1, sizeof(*tree));
    if (tree == NULL) {
        goto err;
    }
    tree->page_tokens = params->page_tokens;
    tree->n_lanes     = params->n_lanes;
    tree->policy      = params->policy;
    tree->observer    = params->observer;
    tree->log         = log;
    tree->next_id     = 1;
    tree->root        = node_make(0);
    tree->unlocked    = calloc((size_t)params->n_lanes * 2, sizeof(int64_t));
    if ((tree->root == NULL) || (tree->unlocked == NULL)) {
        goto err_close;
    }
    tree->locked = tree->unlocked + params->n_lanes;
    tree->newest = tree->root;
    if (pl_tree_children_reserve(tree, 1) != PL_OK) {
        goto err_close;
    }
    assert(!params->policy->foresees || (params->policy_params.future != NULL));
    if ((params->policy->open != NULL) &&
        (params->policy->open(&params->policy_params, &tree->policy_state) !=
         PL_OK)) {
        goto err_close;
    }
    *tree_p = tree;
    return PL_OK;

err_close:
    pl_tree_close(tree);
err:
    pl_log(log, PL_LOG_ERROR, "prefix tree: no memory for an empty tree");
    return PL_ERR_MEMORY;
}

void pl_tree_close(pl_tree_t *tree)
{
    pl_node_t *node;

    if (tree == NULL) {
        return;
    }
    node = tree->root;
    while (node != NULL) {
        pl_node_t *next = node->next;

        pl_tree_node_free(node);
        node = next;
    }
    if (tree->policy_state != NULL) {
        tree->policy->close(tree->policy_state);
    }
    free(tree->buckets);
    free(tree->unlocked);
    free(tree);
}

pl_node_t *pl_tree_root(const pl_tree_t *tree)
{
    return tree->root;
}

int64_t pl_tree_n_nodes(const pl_tree_t *tree)
{
    return tree->n_nodes;
}

uint64_t pl_tree_clock(const pl_tree_t *tree)
{
    return tree->clock;
}

static pl_status_t no_memory(const pl_tree_t *tree, int32_t n_pages)
{
    pl_log(tree->log, PL_LOG_ERROR,
           "prefix tree: no memory for a node of %" PRId32 " pages (%" PRId64
           " nodes so far)",
           n_pages, tree->n_nodes);
    return PL_ERR_MEMORY;
}

/* ---- walking ---- */

/* How far the tree agrees with a run of keys. */
typedef struct walk {
    pl_node_t *node; /* deepest node that agrees to its end */
    int32_t n;       /* pages down to there */
    pl_node_t *part; /* the child of it that agrees in its first n_part */
    int32_t n_part;  /* pages; 0: none */
} walk_t;

static int32_t common_pages(const pl_node_t *node, const pl_page_key_t *keys,
                            int32_t n)
{
    int32_t limit = n < node->n_pages ? n : node->n_pages;
    int32_t i     = 0;

    while ((i < limit) && (node->keys[i].lo == keys[i].lo) &&
           (node->keys[i].hi == keys[i].hi)) {
        i++;
    }
    return i;
}

static walk_t walk_down(const pl_tree_t *tree, pl_node_t *from,
                        uint64_t name_space, const pl_page_key_t *keys,
                        int32_t n)
{
    walk_t walk = {.node = from};

    while (walk.n < n) {
        pl_node_t *child =
            pl_tree_child(tree, walk.node, name_space, keys[walk.n]);
        int32_t common;

        if (child == NULL) {
            break;
        }
        common = common_pages(child, keys + walk.n, n - walk.n);
        if (common < child->n_pages) {
            walk.part   = child;
            walk.n_part = common;
            break;
        }
        walk.node = child;
        walk.n += common;
    }
    return walk;
}

/* The deepest node with device pages on the path to `node`. */
static pl_node_t *device_part(const pl_tree_t *tree, pl_node_t *node)
{
    while ((node != tree->root) && (node->device == NULL)) {
        node = node->parent;
    }
    return node;
}

static int32_t end_of(const pl_node_t *node)
{
    return node->first_page + node->n_pages;
}

static void stamp(pl_tree_t *tree, pl_node_t *node)
{
    tree->clock++;
    for (; node != tree->root; node = node->parent) {
        node->last_access = tree->clock;
        if (node->linked[PL_TREE_DEVICE] || node->linked[PL_TREE_HOST]) {
            pl_tree_reorder(tree, node);
        }
    }
}

pl_status_t pl_tree_match(pl_tree_t *tree, uint64_t name_space,
                          const pl_page_key_t *keys, int32_t n,
                          pl_match_t *match_p)
{
    walk_t walk     = walk_down(tree, tree->root, name_space, keys, n);
    pl_node_t *last = walk.node;
    pl_node_t *device;

    if (walk.n_part > 0) {
        PL_TRY(pl_tree_split(tree, walk.part, walk.n_part, &last));
    }
    stamp(tree, last);
    device            = device_part(tree, last);
    match_p->device   = device;
    match_p->last     = last;
    match_p->n_device = end_of(device);
    match_p->n_total  = end_of(last);
    return PL_OK;
}

void pl_tree_passed(pl_tree_t *tree, int32_t request, uint64_t name_space,
                    const pl_page_key_t *keys, int32_t n)
{
    pl_node_t *node;

    if (tree->policy->passed == NULL) {
        return;
    }
    tree->policy->passed(tree, request);
    node = walk_down(tree, tree->root, name_space, keys, n).node;
    for (; node != tree->root; node = node->parent) {
        tree->policy->passed_node(tree, node);
    }
}

void pl_tree_peek(const pl_tree_t *tree, uint64_t name_space,
                  const pl_page_key_t *keys, int32_t n, int32_t *n_device_p,
                  int32_t *n_total_p)
{
    walk_t walk = walk_down(tree, tree->root, name_space, keys, n);

    *n_total_p = walk.n + walk.n_part;
    if ((walk.n_part > 0) && (walk.part->device != NULL)) {
        *n_device_p = *n_total_p;
    } else {
        *n_device_p = end_of(device_part(tree, walk.node));
    }
}

/* ---- changing ---- */

/* The pages of child are on device already, or are the caller's from now on. */
static void merge_pages(pl_tree_t *tree, pl_node_t *child, pl_page_t *pages,
                        pl_page_t *dup)
{
    if (child->device == NULL) {
        pl_tree_set_device(tree, child, pages);
        if (tree->observer.adopted != NULL) {
            tree->observer.adopted(tree->observer.context, child);
        }
        return;
    }
    for (int32_t i = 0; i < child->n_pages; i++) {
        dup[i]   = pages[i] != child->device[i] ? pages[i] : PL_NO_PAGE;
        pages[i] = child->device[i];
    }
}

/* Hang a fresh node without a copy below `parent`. */
static void hang(pl_tree_t *tree, pl_node_t *parent, uint64_t name_space,
                 pl_node_t *fresh, const pl_page_key_t *keys)
{
    memcpy(fresh->keys, keys, (size_t)fresh->n_pages * sizeof(*keys));
    fresh->name_space  = name_space;
    fresh->first_page  = end_of(parent);
    fresh->created     = tree->clock + 1; /* as the stamp that follows */
    fresh->last_access = tree->clock + 1;
    append_by_id(tree, fresh);
    pl_tree_attach(tree, parent, fresh);
    fresh->chain = chain_of(tree, fresh);
}

/* The same with device pages. */
static void grow(pl_tree_t *tree, pl_node_t *parent, uint64_t name_space,
                 pl_node_t *fresh, const pl_page_key_t *keys,
                 const pl_page_t *pages)
{
    hang(tree, parent, name_space, fresh, keys);
    pl_tree_set_device(tree, fresh, pages);
    if (tree->observer.created != NULL) {
        tree->observer.created(tree->observer.context, fresh);
    }
}

pl_status_t pl_tree_insert(pl_tree_t *tree, pl_node_t *at, uint64_t name_space,
                           const pl_page_key_t *keys, int32_t n,
                           pl_page_t *pages, pl_page_t *dup, pl_node_t **last_p)
{
    walk_t walk      = walk_down(tree, at, name_space, keys, n);
    int32_t n_shared = walk.n + walk.n_part;
    pl_node_t *fresh = NULL;
    pl_node_t *last  = at;

    assert((at == tree->root) || (at->device != NULL));
    assert((at == tree->root) || (at->name_space == name_space));

    /* All that can fail comes before the first change. */
    if (pl_tree_children_reserve(tree, 2) != PL_OK) {
        return no_memory(tree, n);
    }
    if (n_shared < n) {
        fresh = node_make(n - n_shared);
        if (fresh == NULL) {
            return no_memory(tree, n - n_shared);
        }
    }
    if (walk.n_part > 0) {
        pl_status_t status = pl_tree_split(tree, walk.part, walk.n_part, NULL);

        if (status != PL_OK) {
            pl_tree_node_free(fresh);
            return status;
        }
    }

    for (int32_t i = 0; i < n; i++) {
        dup[i] = PL_NO_PAGE;
    }
    for (int32_t i = 0; i < n_shared; i += last->n_pages) {
        last = pl_tree_child(tree, last, name_space, keys[i]);
        merge_pages(tree, last, pages + i, dup + i);
    }
    if (fresh != NULL) {
        grow(tree, last, name_space, fresh, keys + n_shared, pages + n_shared);
        last = fresh;
    }
    stamp(tree, last);
    *last_p = last;
    return PL_OK;
}

pl_status_t pl_tree_insert_host(pl_tree_t *tree, pl_node_t *at,
                                uint64_t name_space, const pl_page_key_t *keys,
                                int32_t n, pl_meta_t meta, pl_node_t **node_p)
{
    pl_node_t *fresh;

    assert((at == tree->root) || (at->name_space == name_space));
    assert(pl_tree_child(tree, at, name_space, keys[0]) == NULL);
    if (pl_tree_children_reserve(tree, 1) != PL_OK) {
        return no_memory(tree, n);
    }
    fresh = node_make(n);
    if (fresh == NULL) {
        return no_memory(tree, n);
    }
    hang(tree, at, name_space, fresh, keys);
    pl_tree_set_host(tree, fresh, meta);
    fresh->rank[PL_TREE_HOST].is_fresh = true;
    stamp(tree, fresh);
    *node_p = fresh;
    return PL_OK;
}

/* Keep the last n_rest pages of a node, in less memory if realloc will. */
static void keep_rest(pl_node_t *node, int32_t n_rest)
{
    size_t n     = (size_t)n_rest;
    size_t first = (size_t)(node->n_pages - n_rest);
    void *less;

    memmove(node->keys, node->keys + first, n * sizeof(*node->keys));
    if (node->device != NULL) {
        memmove(node->device, node->device + first, n * sizeof(*node->device));
    }
    less              = realloc(node->keys, n * sizeof(*node->keys));
    node->keys        = less != NULL ? less : node->keys;
    less              = realloc(node->device_room, n * sizeof(*node->device));
    node->device_room = less != NULL ? less : node->device_room;
    node->device      = node->device != NULL ? node->device_room : NULL;
    node->first_page += (int32_t)first;
    node->n_pages = n_rest;
}

/* What both halves have in common, and the head's share of the pages. */
static void fill_head(pl_node_t *head, const pl_node_t *node)
{
    size_t n = (size_t)head->n_pages;

    memcpy(head->keys, node->keys, n * sizeof(*head->keys));
    if (node->device != NULL) {
        memcpy(head->device_room, node->device, n * sizeof(*head->device));
        head->device = head->device_room;
    }
    head->first_page  = node->first_page;
    head->name_space  = node->name_space;
    head->write_op    = node->write_op;
    head->load_op     = node->load_op;
    head->lock_ref    = node->lock_ref;
    head->pin_ref     = node->pin_ref;
    head->hits        = node->hits;
    head->last_access = node->last_access;
    head->created     = node->created;
    memcpy(head->rank, node->rank, sizeof(head->rank));
}

pl_status_t pl_tree_split(pl_tree_t *tree, pl_node_t *node, int32_t at,
                          pl_node_t **head_p)
{
    pl_node_t *head;

    assert((node != tree->root) && (at > 0) && (at < node->n_pages));
    if (pl_tree_children_reserve(tree, 1) != PL_OK) {
        return no_memory(tree, at);
    }
    head = node_make(at);
    if (head == NULL) {
        return no_memory(tree, at);
    }
    if (node->host.n_pages > 0) {
        pl_status_t status =
            pl_meta_split(&node->host, (int64_t)at * tree->page_tokens,
                          tree->log, &head->host);

        if (status != PL_OK) {
            pl_tree_node_free(head);
            return status == PL_ERR_MEMORY ? no_memory(tree, at) : status;
        }
    }
    append_by_id(tree, head);
    fill_head(head, node);
    pl_tree_detach(tree, node);
    pl_tree_attach(tree, node->parent, head);
    head->chain = chain_of(tree, head);
    keep_rest(node, node->n_pages - at);
    pl_tree_attach(tree, head, node);
    head->n_device_children = node->device != NULL ? 1 : 0;
    head->n_host_children   = node->host.n_pages > 0 ? 1 : 0;

    if (tree->policy->split != NULL) {
        tree->policy->split(tree, head, node);
    }

    /* A head is no leaf of the tiers that its other half is in; the rest of the
     * state, and so the other half's places in the sets, did not change. */
    pl_tree_reorder(tree, head);
    if (tree->observer.split != NULL) {
        tree->observer.split(tree->observer.context, head, node);
    }
    if (head_p != NULL) {
        *head_p = head;
    }
    return PL_OK;
}
