#include "property/cache/replay.h"

#include <string.h>

void replay_open(replay_t *replay, int n_lanes)
{
    memset(replay, 0, sizeof(*replay));
    replay->n_lanes = n_lanes;
}

static void law(replay_t *replay, bool holds, const char *fault)
{
    if (!holds && (replay->fault == NULL)) {
        replay->fault = fault;
    }
}

static replay_node_t *find(replay_t *replay, int64_t id)
{
    for (int i = 0; i < replay->n_nodes; i++) {
        if (replay->nodes[i].id == id) {
            return &replay->nodes[i];
        }
    }
    law(replay, false, "an event of a node that is not there");
    return &replay->nodes[REPLAY_NODES - 1];
}

static void move(replay_t *replay, int tier, const pl_page_t *pages, int32_t n,
                 bool to_used)
{
    for (int32_t i = 0; i < n; i++) {
        law(replay, (pages[i] >= 0) && (pages[i] < REPLAY_PAGES),
            "a page that cannot be");
        law(replay, replay->used[tier][pages[i]] != to_used,
            to_used ? "a page is given out twice" : "a page is freed twice");
        replay->used[tier][pages[i]] = to_used;
    }
}

/* Freed pages are nobody's. */
static void give_back(replay_t *replay, int tier, const pl_event_t *event)
{
    for (int k = 0; k < replay->n_nodes; k++) {
        const replay_node_t *node = &replay->nodes[k];
        bool holds = tier == PL_TREE_DEVICE ? node->on_device : node->on_host;
        const pl_page_t *pages =
            tier == PL_TREE_DEVICE ? node->device : node->host;

        for (int32_t i = 0; holds && (i < node->n); i++) {
            for (int32_t j = 0; j < event->n_pages; j++) {
                law(replay, pages[i] != event->pages[j],
                    "a page is freed that a node holds");
            }
        }
    }
    move(replay, tier, event->pages, event->n_pages, false);
}

static void set(bool *is_there, pl_page_t *mine, const pl_page_t *pages,
                int32_t n)
{
    *is_there = true;
    memcpy(mine, pages, (size_t)n * sizeof(*mine));
}

static void take_node(replay_t *replay, const pl_event_t *event)
{
    replay_node_t *node = &replay->nodes[replay->n_nodes++];

    memset(node, 0, sizeof(*node));
    node->id         = event->node;
    node->parent     = event->value;
    node->first_page = (int32_t)event->value2;
    node->n          = event->n_pages;
    set(&node->on_device, node->device, event->pages, node->n);
}

static void take_split(replay_t *replay, const pl_event_t *event)
{
    replay_node_t *node = find(replay, event->node);
    replay_node_t *head = &replay->nodes[replay->n_nodes++];
    int32_t at          = (int32_t)event->value2;
    size_t n_rest       = (size_t)(node->n - at);

    *head    = *node;
    head->id = event->value;
    head->n  = at;
    memmove(node->device, node->device + at, n_rest * sizeof(*node->device));
    memmove(node->host, node->host + at, n_rest * sizeof(*node->host));
    node->parent = head->id;
    node->first_page += at;
    node->n = (int32_t)n_rest;
}

static void take_remove(replay_t *replay, const pl_event_t *event)
{
    replay_node_t *node = find(replay, event->node);

    law(replay, !node->on_device && !node->on_host, "a node leaves with pages");
    for (int i = 0; i < replay->n_nodes; i++) {
        law(replay, replay->nodes[i].parent != node->id,
            "a node leaves before its children");
    }
    *node = replay->nodes[--replay->n_nodes];
}

static void take_backup(replay_t *replay, const pl_event_t *event)
{
    replay_node_t *node = find(replay, event->node);

    law(replay, node->on_device && !node->on_host, "a backup of nothing");
    law(replay,
        (node->n == event->n_pages) &&
            (memcmp(node->device, event->pages,
                    (size_t)node->n * sizeof(*event->pages)) == 0),
        "a backup of other pages than the node's");
    move(replay, PL_TREE_HOST, event->other, event->n_pages, true);
    set(&node->on_host, node->host, event->other, node->n);
    node->op = event->op;
}

static void take_backed_up(replay_t *replay, const pl_event_t *event)
{
    for (int i = 0; i < replay->n_nodes; i++) {
        replay_node_t *node = &replay->nodes[i];

        if (node->op == event->op) {
            node->op      = 0;
            node->on_host = event->value == 1;
        }
    }
}

static void take_load(replay_t *replay, const pl_event_t *event)
{
    struct replay_load *load = &replay->loads[replay->n_loads++];

    load->op   = event->op;
    load->n    = event->n_pages;
    load->next = 0;
    memcpy(load->device, event->pages, (size_t)load->n * sizeof(*load->device));
    memcpy(load->host, event->other, (size_t)load->n * sizeof(*load->host));
}

static struct replay_load *find_load(replay_t *replay, int64_t op)
{
    for (int i = 0; i < replay->n_loads; i++) {
        if (replay->loads[i].op == op) {
            return &replay->loads[i];
        }
    }
    law(replay, false, "an event of a load that is not there");
    return &replay->loads[0];
}

static void take_load_node(replay_t *replay, const pl_event_t *event)
{
    replay_node_t *node      = find(replay, event->node);
    struct replay_load *load = find_load(replay, event->op);

    law(replay, !node->on_device && node->on_host && (node->op == 0),
        "a load of a node that has no good copy, or needs none");
    law(replay,
        (load->next + node->n <= load->n) &&
            (memcmp(node->host, load->host + load->next,
                    (size_t)node->n * sizeof(*node->host)) == 0),
        "a load from other pages than the node's");
    set(&node->on_device, node->device, load->device + load->next, node->n);
    load->next += node->n;
}

static void take_loaded(replay_t *replay, const pl_event_t *event)
{
    struct replay_load *load = find_load(replay, event->op);

    law(replay, load->next == load->n, "a load of fewer pages than it said");
    *load = replay->loads[--replay->n_loads];
}

void replay_take(replay_t *replay, const pl_event_t *event)
{
    if (replay->fault != NULL) {
        return; /* what follows means nothing */
    }
    law(replay, replay->n_nodes < REPLAY_NODES - 2, "too many nodes to replay");
    law(replay, event->n_pages <= REPLAY_RUN, "too many pages to replay");
    switch (event->kind) {
    case PL_EVENT_ALLOC:
        move(replay, PL_TREE_DEVICE, event->pages, event->n_pages, true);
        break;
    case PL_EVENT_FREE:
        give_back(replay, PL_TREE_DEVICE, event);
        break;
    case PL_EVENT_NODE:
        take_node(replay, event);
        break;
    case PL_EVENT_SPLIT:
        take_split(replay, event);
        break;
    case PL_EVENT_ADOPT: {
        replay_node_t *node = find(replay, event->node);

        law(replay, !node->on_device, "a node adopts what it has");
        set(&node->on_device, node->device, event->pages, node->n);
        break;
    }
    case PL_EVENT_EVICT:
        find(replay, event->node)->on_device = false;
        break;
    case PL_EVENT_REMOVE:
        take_remove(replay, event);
        break;
    case PL_EVENT_BACKUP:
        take_backup(replay, event);
        break;
    case PL_EVENT_BACKED_UP:
        take_backed_up(replay, event);
        break;
    case PL_EVENT_HOST_DROP:
        find(replay, event->node)->on_host = false;
        break;
    case PL_EVENT_HOST_FREE:
        give_back(replay, PL_TREE_HOST, event);
        break;
    case PL_EVENT_LOAD:
        take_load(replay, event);
        break;
    case PL_EVENT_LOAD_NODE:
        take_load_node(replay, event);
        break;
    case PL_EVENT_LOADED:
        take_loaded(replay, event);
        break;
    default: /* deficits, retries, skips: nothing moves */
        break;
    }
}

/* ---- comparing ---- */

static bool is_same(const pl_page_t *mine, bool is_there,
                    const pl_page_t *theirs, int32_t n)
{
    return (is_there == (theirs != NULL)) &&
           (!is_there ||
            (memcmp(mine, theirs, (size_t)n * sizeof(*mine)) == 0));
}

static pl_status_t compare_node(void *context, const pl_node_t *theirs)
{
    replay_t *replay    = context;
    replay_node_t *mine = find(replay, theirs->id);

    law(replay,
        (mine->parent == theirs->parent->id) && (mine->n == theirs->n_pages) &&
            (mine->first_page == theirs->first_page) &&
            (mine->op == theirs->write_op),
        "a node that stands elsewhere");
    law(replay, is_same(mine->device, mine->on_device, theirs->device, mine->n),
        "a node with other device pages");
    law(replay, is_same(mine->host, mine->on_host, theirs->host.pages, mine->n),
        "a node with other host pages");
    for (int32_t i = 0; mine->on_host && (i < mine->n); i++) {
        law(replay, theirs->host.owners[i] == mine->host[i] % replay->n_lanes,
            "an owner that is not the host page's");
    }
    return replay->fault == NULL ? PL_OK : PL_ERR_VIOLATION;
}

static void compare_lanes(replay_t *replay, int tier, const pl_lanes_t *lanes)
{
    int n_pages = replay->n_lanes * pl_lanes_pages_per_lane(lanes);

    for (pl_page_t page = pl_lanes_reserved(lanes) * replay->n_lanes;
         page < n_pages; page++) {
        law(replay, pl_lanes_is_free(lanes, page) != replay->used[tier][page],
            "a page that is free to one alone");
    }
}

const char *replay_compare(replay_t *replay, const pl_hicache_t *cache)
{
    const pl_tree_t *tree = pl_hicache_tree(cache);

    law(replay, replay->n_nodes == pl_tree_n_nodes(tree),
        "another number of nodes");
    if (pl_tree_visit(tree, compare_node, replay) != PL_OK) {
        return replay->fault;
    }
    compare_lanes(replay, PL_TREE_DEVICE, pl_hicache_device(cache));
    if (pl_hicache_host(cache) != NULL) {
        compare_lanes(replay, PL_TREE_HOST, pl_hicache_host(cache));
    }
    return replay->fault;
}
