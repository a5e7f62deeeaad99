/* What stands in a snapshot's /hicache. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/snapshot_internal.h"

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

/* ---- all columns, filled in two walks over the tree ---- */

/* What a rank has: with one lane every rank has all positions. */
typedef struct rank_table {
    int64_t *offsets;
    int32_t *positions, *slots;
    int64_t n;
} rank_table_t;

typedef struct tables {
    size_t n; /* nodes */
    size_t i; /* the one that is visited */
    int n_ranks, n_lanes;
    void *numbers[COLUMNS];
    int64_t *device_offsets, *host_offsets, *owner_offsets; /* [n + 1] */
    int64_t n_device, n_host;
    pl_page_t *device, *host;
    pl_owner_t *owners;
    rank_table_t ranks[PL_MAX_RANKS]; /* [n_ranks] */
} tables_t;

static void add_numbers(tables_t *tables, pl_content_t *content)
{
    for (int c = 0; c < COLUMNS; c++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/hicache/nodes/%s",
                       NODE_COLUMNS[c].name);
        tables->numbers[c] = add(content, path, NODE_COLUMNS[c].item, tables->n,
                                 "node", NODE_COLUMNS[c].unit,
                                 NODE_COLUMNS[c].description, PL_REPLICATED);
    }
}

static void rank_path(int rank, const char *name, char path[64])
{
    (void)snprintf(path, 64, "/hicache/rank/%d/%s", rank, name);
}

static int64_t *add_offsets(const tables_t *tables, const char *path,
                            const char *description, int writer,
                            pl_content_t *content)
{
    return add(content, path, PL_ITEM_I64, tables->n + 1, "node+1", "1",
               description, writer);
}

static void add_all_offsets(tables_t *tables, pl_content_t *content)
{
    char path[64];

    tables->device_offsets =
        add_offsets(tables, "/hicache/nodes/device_pages_offset",
                    "where a node's pages begin", PL_REPLICATED, content);
    tables->host_offsets =
        add_offsets(tables, "/hicache/nodes/host_pages_offset",
                    "where a node's pages begin", PL_REPLICATED, content);
    tables->owner_offsets =
        add_offsets(tables, "/hicache/page_owners_offset",
                    "where a node's owners begin", PL_REPLICATED, content);
    pl_content_group(content, "/hicache/rank");
    for (int rank = 0; rank < tables->n_ranks; rank++) {
        (void)snprintf(path, sizeof(path), "/hicache/rank/%d", rank);
        pl_content_group(content, path);
        rank_path(rank, "offset", path);
        tables->ranks[rank].offsets = add_offsets(
            tables, path, "where a node's positions and slots begin", rank,
            content);
    }
}

static void add_all_pages(tables_t *tables, pl_content_t *content)
{
    char path[64];

    tables->device = add(content, "/hicache/nodes/device_pages", PL_ITEM_I32,
                         (size_t)tables->n_device, "page", "1",
                         "logical pages of the device tier", PL_REPLICATED);
    tables->host   = add(content, "/hicache/nodes/host_pages", PL_ITEM_I32,
                         (size_t)tables->n_host, "page", "1",
                         "logical pages of the host tier", PL_REPLICATED);
    tables->owners =
        add(content, "/hicache/page_owners", PL_ITEM_I8, (size_t)tables->n_host,
            "page", "1", "ranks that hold the pages of the host copies",
            PL_REPLICATED);
    for (int rank = 0; rank < tables->n_ranks; rank++) {
        rank_table_t *table = &tables->ranks[rank];

        rank_path(rank, "positions", path);
        table->positions =
            add(content, path, PL_ITEM_I32, (size_t)table->n, "page", "page",
                "positions within the node that the rank owns", rank);
        rank_path(rank, "slots", path);
        table->slots =
            add(content, path, PL_ITEM_I32, (size_t)table->n, "page", "1",
                "slots of the rank's host store that hold them", rank);
        table->n = 0; /* filled, from here on */
    }
}

/* The tables that a host page with that owner stands in: [*first_p, end). */
static int ranks_with(const tables_t *tables, pl_owner_t owner, int *first_p)
{
    *first_p = tables->n_lanes == 1 ? 0 : owner;
    return tables->n_lanes == 1 ? tables->n_ranks : owner + 1;
}

/* First walk: numbers, and how many pages there are before each node. */
static pl_status_t count_node(void *context, const pl_node_t *node)
{
    tables_t *tables      = context;
    const pl_meta_t *host = &node->host;
    size_t i              = tables->i++;

    for (int c = 0; c < COLUMNS; c++) {
        put(tables->numbers[c], NODE_COLUMNS[c].item, i,
            number_of(node, (column_t)c));
    }
    tables->device_offsets[i] = tables->n_device;
    tables->host_offsets[i]   = tables->n_host;
    tables->owner_offsets[i]  = tables->n_host;
    for (int rank = 0; rank < tables->n_ranks; rank++) {
        tables->ranks[rank].offsets[i] = tables->ranks[rank].n;
    }
    tables->n_device += node->device != NULL ? node->n_pages : 0;
    tables->n_host += host->n_pages;
    for (int32_t p = 0; p < host->n_pages; p++) {
        int rank;
        int end = ranks_with(tables, host->owners[p], &rank);

        for (; rank < end; rank++) {
            tables->ranks[rank].n++;
        }
    }
    return PL_OK;
}

static void end_offsets(tables_t *tables)
{
    tables->device_offsets[tables->n] = tables->n_device;
    tables->host_offsets[tables->n]   = tables->n_host;
    tables->owner_offsets[tables->n]  = tables->n_host;
    for (int rank = 0; rank < tables->n_ranks; rank++) {
        tables->ranks[rank].offsets[tables->n] = tables->ranks[rank].n;
    }
}

/* Second walk: the pages themselves. */
static pl_status_t fill_node(void *context, const pl_node_t *node)
{
    tables_t *tables      = context;
    const pl_meta_t *host = &node->host;
    size_t i              = tables->i++;
    size_t n_host         = (size_t)host->n_pages;

    if (node->device != NULL) {
        memcpy(tables->device + tables->device_offsets[i], node->device,
               (size_t)node->n_pages * sizeof(*node->device));
    }
    if (n_host == 0) {
        return PL_OK;
    }
    memcpy(tables->host + tables->host_offsets[i], host->pages,
           n_host * sizeof(*host->pages));
    memcpy(tables->owners + tables->owner_offsets[i], host->owners,
           n_host * sizeof(*host->owners));
    for (int32_t p = 0; p < host->n_pages; p++) {
        int rank;
        int end = ranks_with(tables, host->owners[p], &rank);

        for (; rank < end; rank++) {
            rank_table_t *table = &tables->ranks[rank];

            table->positions[table->n] = p;
            table->slots[table->n++] =
                pl_page_slot(host->pages[p], tables->n_lanes);
        }
    }
    return PL_OK;
}

void pl_snapshot_add_cache(const pl_engine_t *engine, const pl_tree_t *tree,
                           pl_content_t *content)
{
    tables_t tables = {.n       = (size_t)pl_tree_n_nodes(tree),
                       .n_ranks = pl_engine_config(engine)->n_prefill,
                       .n_lanes = pl_engine_lanes(engine)};

    pl_content_group(content, "/hicache");
    pl_content_group(content, "/hicache/nodes");
    add_numbers(&tables, content);
    add_all_offsets(&tables, content);
    if ((pl_content_status(content) != PL_OK) ||
        (pl_tree_visit(tree, count_node, &tables) != PL_OK)) {
        return;
    }
    end_offsets(&tables);
    add_all_pages(&tables, content);
    tables.i = 0;
    if (pl_content_status(content) == PL_OK) {
        content->status = pl_tree_visit(tree, fill_node, &tables);
    }
}
