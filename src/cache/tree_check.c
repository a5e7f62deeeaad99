#include "cache/tree_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pl_status_t pl_tree_visit(const pl_tree_t *tree, pl_tree_visit_t visit,
                          void *context)
{
    pl_node_t *node = tree->root->next;

    while (node != NULL) {
        pl_node_t *next = node->next;

        PL_TRY(visit(context, node));
        node = next;
    }
    return PL_OK;
}

/* ---- state hash ---- */

static uint64_t fold_bytes(uint64_t h, const void *bytes, size_t n_bytes)
{
    return n_bytes > 0 ? pl_hash64(bytes, n_bytes, h) : pl_fold64(h, 0);
}

static uint64_t fold_node(uint64_t h, const pl_node_t *node)
{
    size_t n                = (size_t)node->n_pages;
    const uint64_t fields[] = {
        (uint64_t)node->id,
        (uint64_t)node->parent->id,
        (uint64_t)node->n_pages,
        node->name_space,
        node->chain,
        (uint64_t)node->write_op,
        (uint64_t)node->load_op,
        (uint64_t)node->lock_ref,
        (uint64_t)node->pin_ref,
        node->hits,
        node->last_access,
        node->created,
        node->device != NULL ? 1 : 0,
        node->host.n_pages > 0 ? 1 : 0,
    };

    for (int which = 0; which < 2; which++) {
        const pl_rank_t *rank = &node->rank[which];

        h = pl_fold64(h, rank->place);
        h = pl_fold64(h, ((uint64_t)rank->queue << 16) |
                             ((uint64_t)rank->uses << 8) | rank->is_fresh);
    }

    h = fold_bytes(h, fields, sizeof(fields));
    if (node->device != NULL) {
        h = fold_bytes(h, node->device, n * sizeof(*node->device));
    }
    if (node->host.n_pages > 0) {
        h = fold_bytes(h, node->host.owners, n * sizeof(*node->host.owners));
        h = fold_bytes(h, node->host.pages, n * sizeof(*node->host.pages));
    }
    return h;
}

uint64_t pl_tree_state_hash(const pl_tree_t *tree)
{
    uint64_t h = pl_fold64(tree->clock, (uint64_t)tree->next_id);

    h = pl_fold64(h, (uint64_t)tree->root->lock_ref);
    h = pl_fold64(h, tree->places);
    if (tree->policy->hash != NULL) {
        h = pl_fold64(h, tree->policy->hash(tree->policy_state));
    }
    for (pl_node_t *node = tree->root->next; node != NULL; node = node->next) {
        h = fold_node(h, node);
    }
    return h;
}

/* ---- recount ---- */

/* Sums over a node's children. */
typedef struct family {
    int64_t n, n_device, n_host, locks;
    bool is_linked; /* back links and parents agree */
} family_t;

static family_t count_family(const pl_node_t *node)
{
    family_t sum          = {.is_linked = true};
    const pl_node_t *prev = NULL;

    for (pl_node_t *child = node->first_child; child != NULL;
         child            = child->next_sibling) {
        sum.n++;
        sum.n_device += child->device != NULL ? 1 : 0;
        sum.n_host += child->host.n_pages > 0 ? 1 : 0;
        sum.locks += child->lock_ref;
        sum.is_linked = sum.is_linked && (child->parent == node) &&
                        (child->prev_sibling == prev);
        prev = child;
    }
    return sum;
}

static const char *family_fault(const pl_node_t *node)
{
    family_t sum = count_family(node);

    if (!sum.is_linked || (sum.n != node->n_children)) {
        return "its list of children is broken";
    }
    if ((sum.n_device != node->n_device_children) ||
        (sum.n_host != node->n_host_children)) {
        return "it miscounts its children's copies";
    }
    if (node->lock_ref < sum.locks) {
        return "its locks are fewer than its children's";
    }
    return NULL;
}

static const char *copy_fault(const pl_tree_t *tree, const pl_node_t *node)
{
    bool has_host = node->host.n_pages > 0;

    if ((node->device == NULL) && !has_host) {
        return "it has no copy";
    }
    if (has_host && (node->host.n_pages != node->n_pages)) {
        return "its host copy has another length";
    }
    if ((node->device != NULL) && (node->parent != tree->root) &&
        (node->parent->device == NULL)) {
        return "it is on device and its parent is not";
    }
    if ((node->lock_ref < 0) || (node->pin_ref < 0)) {
        return "it has a negative lock or pin";
    }
    if ((node->pin_ref > 0) && !has_host) {
        return "a copy is pinned that is not there";
    }
    if (((node->write_op != 0) || (node->load_op != 0)) &&
        ((node->device == NULL) || !has_host || (node->lock_ref == 0) ||
         (node->pin_ref == 0))) {
        return "an operation works on pages it does not hold";
    }
    if ((node->write_op != 0) && (node->load_op != 0)) {
        return "it is written and loaded at once";
    }
    return NULL;
}

static const char *place_fault(const pl_tree_t *tree, const pl_node_t *node)
{
    const pl_node_t *parent = node->parent;
    uint64_t chain          = pl_tree_chain_before(tree, node);

    if ((node->n_pages < 1) ||
        (node->first_page != parent->first_page + parent->n_pages)) {
        return "it does not follow its parent";
    }
    if ((parent != tree->root) && (parent->name_space != node->name_space)) {
        return "its parent is of another namespace";
    }
    if (pl_tree_child(tree, parent, node->name_space, node->keys[0]) != node) {
        return "it is not found by its first key";
    }
    for (int32_t i = 0; i < node->n_pages; i++) {
        chain = pl_tree_chain_next(chain, node->keys[i]);
    }
    if (chain != node->chain) {
        return "its chain hash is not that of its keys";
    }
    return NULL;
}

static const char *order_fault(const pl_tree_t *tree, const pl_node_t *node)
{
    const bool member[2] = {pl_tree_evictable(node), pl_tree_droppable(node)};

    for (int which = 0; which < 2; which++) {
        if (node->linked[which] != member[which]) {
            return member[which] ? "it is a free leaf and in no order"
                                 : "it is ordered and no free leaf";
        }
        if (member[which] &&
            (node->link[which].value != pl_tree_value(tree, node, which))) {
            return "it stands in the order by an old value";
        }
    }
    return NULL;
}

static pl_status_t report(const pl_tree_t *tree, const pl_node_t *node,
                          const char *fault)
{
    pl_log(tree->log, PL_LOG_ERROR,
           "prefix tree: node %" PRId64 " (pages %" PRId32 " to %" PRId32
           ", %" PRId32 " locks, %" PRId32 " pins): %s",
           node->id, node->first_page, node->first_page + node->n_pages - 1,
           node->lock_ref, node->pin_ref, fault);
    return PL_ERR_INTERNAL;
}

/* The ordered sets hold n_members nodes each, ascending. */
static pl_status_t check_orders(const pl_tree_t *tree,
                                const int64_t n_members[2])
{
    for (int which = 0; which < 2; which++) {
        const pl_node_t *last = NULL;
        int64_t n             = 0;

        for (pl_node_t *node = pl_tree_first(tree, which); node != NULL;
             node            = pl_tree_next(tree, which, node)) {
            if ((last != NULL) &&
                ((last->link[which].value > node->link[which].value) ||
                 ((last->link[which].value == node->link[which].value) &&
                  (last->id >= node->id)))) {
                return report(tree, node, "it is out of order");
            }
            last = node;
            n++;
        }
        if (n != n_members[which]) {
            return report(tree, tree->root, "an order lost a leaf");
        }
    }
    return PL_OK;
}

int64_t pl_tree_queue_pages(const pl_tree_t *tree, int which, uint8_t queue)
{
    int64_t n = 0;

    for (const pl_node_t *node = tree->root->next; node != NULL;
         node                  = node->next) {
        n += pl_tree_is_in(node, which) && (node->rank[which].queue == queue)
                 ? node->n_pages
                 : 0;
    }
    return n;
}

static pl_status_t check_policy(const pl_tree_t *tree)
{
    const char *fault =
        tree->policy->fault != NULL ? tree->policy->fault(tree) : NULL;

    return fault != NULL ? report(tree, tree->root, fault) : PL_OK;
}

static void count_lanes(const pl_tree_t *tree, const pl_node_t *node,
                        int64_t *unlocked, int64_t *locked)
{
    int64_t *count = node->lock_ref > 0 ? locked : unlocked;

    for (int32_t i = 0; (node->device != NULL) && (i < node->n_pages); i++) {
        count[pl_page_owner(node->device[i], tree->n_lanes)]++;
    }
}

static pl_status_t check_nodes(const pl_tree_t *tree, int64_t *lanes)
{
    int64_t n_members[2]  = {0};
    const pl_node_t *prev = tree->root;
    int64_t n             = 0;
    const char *fault     = family_fault(tree->root);

    for (pl_node_t *node = tree->root->next; node != NULL; node = node->next) {
        fault = fault != NULL ? fault : family_fault(node);
        fault = fault != NULL ? fault : copy_fault(tree, node);
        fault = fault != NULL ? fault : place_fault(tree, node);
        fault = fault != NULL ? fault : order_fault(tree, node);
        if ((fault == NULL) &&
            ((node->prev != prev) || (node->id <= prev->id))) {
            fault = "it is out of the order of ids";
        }
        if (fault != NULL) {
            return report(tree, node, fault);
        }
        count_lanes(tree, node, lanes, lanes + tree->n_lanes);
        n_members[PL_TREE_DEVICE] += node->linked[PL_TREE_DEVICE] ? 1 : 0;
        n_members[PL_TREE_HOST] += node->linked[PL_TREE_HOST] ? 1 : 0;
        prev = node;
        n++;
    }
    if ((n != tree->n_nodes) || (tree->newest != prev) || (fault != NULL)) {
        return report(tree, tree->root, "the tree miscounts its nodes");
    }
    return check_orders(tree, n_members);
}

pl_status_t pl_tree_check(const pl_tree_t *tree)
{
    size_t n_lanes     = (size_t)tree->n_lanes;
    int64_t *lanes     = calloc(n_lanes * 2, sizeof(*lanes));
    pl_status_t status = PL_ERR_MEMORY;

    if (lanes == NULL) {
        pl_log(tree->log, PL_LOG_ERROR, "prefix tree: no memory to check it");
        return PL_ERR_MEMORY;
    }
    status = check_nodes(tree, lanes);
    if ((status == PL_OK) &&
        ((memcmp(lanes, tree->unlocked, n_lanes * sizeof(*lanes)) != 0) ||
         (memcmp(lanes + n_lanes, tree->locked, n_lanes * sizeof(*lanes)) !=
          0))) {
        status =
            report(tree, tree->root, "the pages counted by lane are not its");
    }
    free(lanes);
    return status == PL_OK ? check_policy(tree) : status;
}
