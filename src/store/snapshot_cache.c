/* What stands in a snapshot's /hicache. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/snapshot_internal.h"

typedef PL_ARRAY(const pl_node_t *) node_list_t;

static pl_status_t collect(void *context, const pl_node_t *node)
{
    node_list_t *nodes = context;

    /* NOLINTNEXTLINE(bugprone-sizeof-expression): it holds pointers */
    return PL_ARRAY_PUSH(nodes, node);
}

static void *add(pl_content_t *content, const char *path, pl_item_t item,
                 size_t n, const char *label, const char *unit,
                 const char *description, int writer)
{
    pl_dataset_t dataset = {.item        = item,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {label},
                            .unit        = unit,
                            .description = description,
                            .writer      = writer};

    return pl_content_add(content, path, dataset);
}

/* ---- one number a node ---- */

typedef enum column {
    ID,
    PARENT,
    NAME_SPACE,
    FIRST_PAGE,
    N_PAGES,
    DEVICE,
    HOST,
    HITS,
    LAST_ACCESS,
    LOCK_REF,
    PIN_REF,
    WRITE_OP,
    LOAD_OP,
    COLUMNS
} column_t;

static const struct {
    const char *name;
    pl_item_t item;
    const char *unit, *description;
} NODE_COLUMNS[COLUMNS] = {
    [ID]     = {"id", PL_ITEM_I64, "1", "in order of creation"},
    [PARENT] = {"parent", PL_ITEM_I64, "1", "id of its parent; 0: the root"},
    [NAME_SPACE]  = {"name_space", PL_ITEM_U64, "1", "of its prompts; 0: none"},
    [FIRST_PAGE]  = {"first_page", PL_ITEM_I32, "page", "pages before it"},
    [N_PAGES]     = {"n_pages", PL_ITEM_I32, "page", "pages in it"},
    [DEVICE]      = {"device", PL_ITEM_U8, "1", "1: has device pages"},
    [HOST]        = {"host", PL_ITEM_U8, "1", "1: has a host copy"},
    [HITS]        = {"hits", PL_ITEM_U32, "1", "prompts that went through it"},
    [LAST_ACCESS] = {"last_access", PL_ITEM_U64, "1",
                     "logical clock of the tree"},
    [LOCK_REF] = {"lock_ref", PL_ITEM_I32, "1", "holders of its device pages"},
    [PIN_REF]  = {"pin_ref", PL_ITEM_I32, "1", "holders of its host copy"},
    [WRITE_OP] = {"write_op", PL_ITEM_I64, "1",
                  "backup under way: its operation; else 0"},
    [LOAD_OP]  = {"load_op", PL_ITEM_I64, "1",
                  "load-back under way: its operation; else 0"},
};

static int64_t number_of(const pl_node_t *node, column_t column)
{
    switch (column) {
    case ID:
        return node->id;
    case PARENT:
        return node->parent->id;
    case NAME_SPACE:
        return (int64_t)node->name_space;
    case FIRST_PAGE:
        return node->first_page;
    case N_PAGES:
        return node->n_pages;
    case DEVICE:
        return node->device != NULL ? 1 : 0;
    case HOST:
        return node->host.n_pages > 0 ? 1 : 0;
    case HITS:
        return node->hits;
    case LAST_ACCESS:
        return (int64_t)node->last_access;
    case LOCK_REF:
        return node->lock_ref;
    case PIN_REF:
        return node->pin_ref;
    case WRITE_OP:
        return node->write_op;
    case LOAD_OP:
        return node->load_op;
    case COLUMNS:
        break;
    }
    return 0;
}

static void put(void *column, pl_item_t item, size_t i, int64_t value)
{
    switch (pl_item_bytes(item, 0)) {
    case 1:
        ((uint8_t *)column)[i] = (uint8_t)value;
        break;
    case 4:
        ((uint32_t *)column)[i] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)column)[i] = (uint64_t)value;
        break;
    }
}

static void add_numbers(const node_list_t *nodes, pl_content_t *content)
{
    for (int c = 0; c < COLUMNS; c++) {
        char path[64];
        void *column;

        (void)snprintf(path, sizeof(path), "/hicache/nodes/%s",
                       NODE_COLUMNS[c].name);
        column = add(content, path, NODE_COLUMNS[c].item, nodes->n, "node",
                     NODE_COLUMNS[c].unit, NODE_COLUMNS[c].description,
                     PL_REPLICATED);
        for (size_t i = 0; (column != NULL) && (i < nodes->n); i++) {
            put(column, NODE_COLUMNS[c].item, i,
                number_of(nodes->items[i], (column_t)c));
        }
    }
}

/* ---- lists of pages ---- */

static int32_t pages_on(const pl_node_t *node, int tier)
{
    if (tier == PL_TREE_HOST) {
        return node->host.n_pages;
    }
    return node->device != NULL ? node->n_pages : 0;
}

/* offsets[0 .. n]; returns the last. */
static size_t count_pages(const node_list_t *nodes, int tier, int64_t *offsets)
{
    int64_t n = 0;

    for (size_t i = 0; i < nodes->n; i++) {
        offsets[i] = n;
        n += pages_on(nodes->items[i], tier);
    }
    offsets[nodes->n] = n;
    return (size_t)n;
}

static void add_pages(const node_list_t *nodes, int tier, pl_content_t *content)
{
    bool on_host     = tier == PL_TREE_HOST;
    int64_t *offsets = add(content,
                           on_host ? "/hicache/nodes/host_pages_offset"
                                   : "/hicache/nodes/device_pages_offset",
                           PL_ITEM_I64, nodes->n + 1, "node+1", "1",
                           "where a node's pages begin", PL_REPLICATED);
    pl_page_t *pages;
    size_t n;

    if (offsets == NULL) {
        return;
    }
    n     = count_pages(nodes, tier, offsets);
    pages = add(content,
                on_host ? "/hicache/nodes/host_pages"
                        : "/hicache/nodes/device_pages",
                PL_ITEM_I32, n, "page", "1",
                on_host ? "logical pages of the host tier"
                        : "logical pages of the device tier",
                PL_REPLICATED);

    for (size_t i = 0; (pages != NULL) && (i < nodes->n); i++) {
        const pl_node_t *node = nodes->items[i];
        size_t n_pages        = (size_t)pages_on(node, tier);

        if (n_pages > 0) {
            memcpy(pages + offsets[i],
                   on_host ? node->host.pages : node->device,
                   n_pages * sizeof(*pages));
        }
    }
}

static void add_owners(const node_list_t *nodes, pl_content_t *content)
{
    int64_t *offsets =
        add(content, "/hicache/page_owners_offset", PL_ITEM_I64, nodes->n + 1,
            "node+1", "1", "where a node's owners begin", PL_REPLICATED);
    size_t n = 0;
    pl_owner_t *owners;

    if (offsets == NULL) {
        return;
    }
    n      = count_pages(nodes, PL_TREE_HOST, offsets);
    owners = add(content, "/hicache/page_owners", PL_ITEM_I8, n, "page", "1",
                 "ranks that hold the pages of the host copies", PL_REPLICATED);

    for (size_t i = 0; (owners != NULL) && (i < nodes->n); i++) {
        const pl_meta_t *host = &nodes->items[i]->host;

        if (host->n_pages > 0) {
            memcpy(owners + offsets[i], host->owners,
                   (size_t)host->n_pages * sizeof(*owners));
        }
    }
}

/* ---- what each rank has ---- */

/* With one lane every rank has all positions. */
static bool has_position(const pl_meta_t *host, int32_t position, int rank,
                         int n_lanes)
{
    return (n_lanes == 1) || (host->owners[position] == rank);
}

static size_t count_owned(const node_list_t *nodes, int rank, int n_lanes,
                          int64_t *offsets)
{
    int64_t n = 0;

    for (size_t i = 0; i < nodes->n; i++) {
        const pl_meta_t *host = &nodes->items[i]->host;

        offsets[i] = n;
        for (int32_t p = 0; p < host->n_pages; p++) {
            n += has_position(host, p, rank, n_lanes) ? 1 : 0;
        }
    }
    offsets[nodes->n] = n;
    return (size_t)n;
}

static void fill_owned(const node_list_t *nodes, int rank, int n_lanes,
                       const int64_t *offsets, int32_t *positions,
                       int32_t *slots)
{
    for (size_t i = 0; i < nodes->n; i++) {
        const pl_meta_t *host = &nodes->items[i]->host;
        int64_t at            = offsets[i];

        for (int32_t p = 0; p < host->n_pages; p++) {
            if (has_position(host, p, rank, n_lanes)) {
                positions[at] = p;
                slots[at++]   = pl_page_slot(host->pages[p], n_lanes);
            }
        }
    }
}

static void add_rank(const node_list_t *nodes, int rank, int n_lanes,
                     pl_content_t *content)
{
    char group[64];
    char path[96];
    int64_t *offsets;
    int32_t *positions, *slots;
    size_t n;

    (void)snprintf(group, sizeof(group), "/hicache/rank/%d", rank);
    pl_content_group(content, group);
    (void)snprintf(path, sizeof(path), "%s/offset", group);
    offsets = add(content, path, PL_ITEM_I64, nodes->n + 1, "node+1", "1",
                  "where a node's positions and slots begin", rank);
    if (offsets == NULL) {
        return;
    }
    n = count_owned(nodes, rank, n_lanes, offsets);
    (void)snprintf(path, sizeof(path), "%s/positions", group);
    positions = add(content, path, PL_ITEM_I32, n, "page", "page",
                    "positions within the node that the rank owns", rank);
    (void)snprintf(path, sizeof(path), "%s/slots", group);
    slots = add(content, path, PL_ITEM_I32, n, "page", "1",
                "slots of the rank's host store that hold them", rank);
    if ((positions != NULL) && (slots != NULL)) {
        fill_owned(nodes, rank, n_lanes, offsets, positions, slots);
    }
}

void pl_snapshot_add_cache(const pl_engine_t *engine, pl_content_t *content)
{
    const pl_tree_t *tree = pl_hicache_tree(pl_engine_cache(engine));
    int n_ranks           = pl_engine_config(engine)->n_prefill;
    node_list_t nodes     = {0};

    if (pl_tree_visit(tree, collect, &nodes) != PL_OK) {
        content->status = PL_ERR_MEMORY;
    }
    pl_content_group(content, "/hicache");
    pl_content_group(content, "/hicache/nodes");
    add_numbers(&nodes, content);
    add_pages(&nodes, PL_TREE_DEVICE, content);
    add_pages(&nodes, PL_TREE_HOST, content);
    add_owners(&nodes, content);
    pl_content_group(content, "/hicache/rank");
    for (int rank = 0; rank < n_ranks; rank++) {
        add_rank(&nodes, rank, pl_engine_lanes(engine), content);
    }
    PL_ARRAY_FREE(&nodes);
}
