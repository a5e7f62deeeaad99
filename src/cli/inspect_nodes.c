/* pagelane inspect F nodes: the prefix tree, node by node. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/inspect.h"
#include "cli/table.h"

typedef enum column {
    ID,
    PARENT,
    NAME_SPACE,
    FIRST_PAGE,
    N_PAGES,
    HITS,
    LAST_ACCESS,
    LOCK_REF,
    PIN_REF,
    WRITE_OP,
    LOAD_OP,
    COLUMNS
} column_t;

static const pl_inspect_spec_t SPECS[COLUMNS] = {
    [ID]          = {"id", PL_ITEM_I64},
    [PARENT]      = {"parent", PL_ITEM_I64},
    [NAME_SPACE]  = {"name_space", PL_ITEM_U64},
    [FIRST_PAGE]  = {"first_page", PL_ITEM_I32},
    [N_PAGES]     = {"n_pages", PL_ITEM_I32},
    [HITS]        = {"hits", PL_ITEM_U32},
    [LAST_ACCESS] = {"last_access", PL_ITEM_U64},
    [LOCK_REF]    = {"lock_ref", PL_ITEM_I32},
    [PIN_REF]     = {"pin_ref", PL_ITEM_I32},
    [WRITE_OP]    = {"write_op", PL_ITEM_I64},
    [LOAD_OP]     = {"load_op", PL_ITEM_I64},
};

/* A list of pages, or owners, a node. */
typedef struct ragged {
    pl_snapshot_column_t items, offsets;
} ragged_t;

enum { DEVICE_PAGES, HOST_PAGES, PAGE_OWNERS, LISTS };

typedef struct nodes {
    pl_inspect_layout_t layout;
    pl_snapshot_column_t columns[COLUMNS];
    ragged_t lists[LISTS];
    size_t n;
} nodes_t;

static int64_t at(const nodes_t *nodes, column_t column, size_t i)
{
    return nodes->columns[column].items[i];
}

static const int64_t *list_of(const nodes_t *nodes, int list, size_t i,
                              size_t *n_p)
{
    const int64_t *offsets = nodes->lists[list].offsets.items;

    *n_p = (size_t)(offsets[i + 1] - offsets[i]);
    return nodes->lists[list].items.items + offsets[i];
}

/* ---- loading ---- */

/* A node has all its pages in a tier, or none; each within the tier. */
static pl_status_t check_list(const pl_snapshot_t *snapshot, const char *path,
                              const nodes_t *nodes, int list, int64_t limit)
{
    for (size_t i = 0; i < nodes->n; i++) {
        size_t n;
        const int64_t *items = list_of(nodes, list, i, &n);

        if ((n != 0) && ((int64_t)n != at(nodes, N_PAGES, i))) {
            return pl_snapshot_refuse(snapshot, path,
                                      "node %" PRId64 " has %zu of them, but "
                                      "%" PRId64 " pages",
                                      at(nodes, ID, i), n,
                                      at(nodes, N_PAGES, i));
        }
        for (size_t p = 0; p < n; p++) {
            if ((items[p] < 0) || (items[p] >= limit)) {
                return pl_snapshot_refuse(snapshot, path,
                                          "%" PRId64 " of node %" PRId64
                                          " is out of range; expected 0 to "
                                          "%" PRId64,
                                          items[p], at(nodes, ID, i),
                                          limit - 1);
            }
        }
    }
    return PL_OK;
}

static pl_status_t load_lists(const pl_snapshot_t *snapshot, nodes_t *nodes)
{
    static const struct {
        const char *items, *offsets;
        pl_item_t item;
    } PATHS[LISTS] = {
        [DEVICE_PAGES] = {"/hicache/nodes/device_pages",
                          "/hicache/nodes/device_pages_offset", PL_ITEM_I32},
        [HOST_PAGES]   = {"/hicache/nodes/host_pages",
                          "/hicache/nodes/host_pages_offset", PL_ITEM_I32},
        [PAGE_OWNERS]  = {"/hicache/page_owners", "/hicache/page_owners_offset",
                          PL_ITEM_I8},
    };
    const int64_t limits[LISTS] = {
        [DEVICE_PAGES] = nodes->layout.n_lanes * nodes->layout.device_pages,
        [HOST_PAGES]   = nodes->layout.n_lanes * nodes->layout.host_pages,
        [PAGE_OWNERS]  = nodes->layout.n_lanes,
    };

    for (int l = 0; l < LISTS; l++) {
        ragged_t *list = &nodes->lists[l];

        PL_TRY(pl_snapshot_read(snapshot, PATHS[l].items, PATHS[l].item,
                                PL_ANY_ROWS, 0, &list->items));
        PL_TRY(pl_snapshot_read_offsets(snapshot, PATHS[l].offsets, nodes->n,
                                        list->items.rows, &list->offsets));
        PL_TRY(check_list(snapshot, PATHS[l].items, nodes, l, limits[l]));
    }
    return PL_OK;
}

static pl_status_t load(const pl_snapshot_t *snapshot, nodes_t *nodes)
{
    PL_TRY(pl_inspect_layout(snapshot, &nodes->layout));
    PL_TRY(pl_inspect_columns(snapshot, "/hicache/nodes", SPECS, COLUMNS,
                              nodes->columns, &nodes->n));
    PL_TRY(pl_snapshot_check_tree(snapshot, "/hicache/nodes/parent",
                                  nodes->columns[ID].items,
                                  nodes->columns[PARENT].items, nodes->n));
    return load_lists(snapshot, nodes);
}

static void unload(nodes_t *nodes)
{
    pl_inspect_free(nodes->columns, COLUMNS);
    for (int l = 0; l < LISTS; l++) {
        pl_snapshot_column_free(&nodes->lists[l].items);
        pl_snapshot_column_free(&nodes->lists[l].offsets);
    }
}

static const char *tier_of(const nodes_t *nodes, size_t i)
{
    size_t n_device, n_host;

    (void)list_of(nodes, DEVICE_PAGES, i, &n_device);
    (void)list_of(nodes, HOST_PAGES, i, &n_host);
    if ((n_device > 0) && (n_host > 0)) {
        return "device+host";
    }
    return n_device > 0 ? "device" : n_host > 0 ? "host" : "none";
}

/* The owners of the device pages follow from their ids. */
static pl_status_t device_owners(const nodes_t *nodes, size_t i,
                                 int64_t **owners_p, size_t *n_p)
{
    const int64_t *pages = list_of(nodes, DEVICE_PAGES, i, n_p);
    int64_t *owners      = malloc((*n_p + 1) * sizeof(*owners));

    if (owners == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t p = 0; p < *n_p; p++) {
        owners[p] = pages[p] % nodes->layout.n_lanes;
    }
    *owners_p = owners;
    return PL_OK;
}

/* ---- for people ---- */

enum { MOST_RUNS = 6 };

static pl_status_t owners_cell(pl_table_t *table, const int64_t *owners,
                               size_t n)
{
    pl_text_t text = {0};
    char *cell     = NULL;

    pl_text_add(&text, "%s", n == 0 ? "-" : "");
    pl_inspect_owners(&text, owners, n, MOST_RUNS);
    PL_TRY(pl_text_take(&text, &cell));
    pl_table_cell(table, "%s", cell);
    free(cell);
    return PL_OK;
}

static pl_status_t add_row(pl_table_t *table, const nodes_t *nodes, size_t i)
{
    int64_t *owners = NULL;
    size_t n_device, n_host;
    const int64_t *saved = list_of(nodes, PAGE_OWNERS, i, &n_host);
    pl_status_t status;

    PL_TRY(device_owners(nodes, i, &owners, &n_device));
    pl_table_cell(table, "%" PRId64, at(nodes, ID, i));
    pl_table_cell(table, "%" PRId64, at(nodes, PARENT, i));
    pl_table_cell(table, "%" PRId64, at(nodes, FIRST_PAGE, i));
    pl_table_cell(table, "%" PRId64, at(nodes, N_PAGES, i));
    pl_table_cell(table, "%s", tier_of(nodes, i));
    status = owners_cell(table, owners, n_device);
    if (status == PL_OK) {
        status = owners_cell(table, saved, n_host);
    }
    pl_table_cell(table, "%" PRId64, at(nodes, HITS, i));
    pl_table_cell(table, "%" PRIu64, (uint64_t)at(nodes, LAST_ACCESS, i));
    pl_table_cell(table, "%" PRId64, at(nodes, LOCK_REF, i));
    pl_table_cell(table, "%" PRId64, at(nodes, PIN_REF, i));
    free(owners);
    return status;
}

static pl_status_t print_table(const nodes_t *nodes)
{
    pl_table_t *table = pl_table_open(
        "node>,parent>,first page>,pages>,tier<,device owners<,host owners<,"
        "hits>,last access>,locks>,pins>");
    pl_status_t status = PL_OK;

    for (size_t i = 0; (status == PL_OK) && (i < nodes->n); i++) {
        status = add_row(table, nodes, i);
    }
    if (status == PL_OK) {
        status = pl_table_print(table, stdout);
    }
    pl_table_close(table);
    return status;
}

/* ---- for programs ---- */

static json_object *json_of(const nodes_t *nodes, size_t i)
{
    static const char *const NAMES[LISTS] = {
        [DEVICE_PAGES] = "device_pages",
        [HOST_PAGES]   = "host_pages",
        [PAGE_OWNERS]  = "page_owners",
    };
    json_object *object = json_object_new_object();

    for (int c = 0; c < COLUMNS; c++) {
        int64_t value = at(nodes, (column_t)c, i);

        if (SPECS[c].item == PL_ITEM_U64) {
            json_object_object_add(object, SPECS[c].name,
                                   json_object_new_uint64((uint64_t)value));
        } else {
            pl_json_integer(object, SPECS[c].name, value);
        }
    }
    json_object_object_add(object, "tier",
                           json_object_new_string(tier_of(nodes, i)));
    for (int l = 0; l < LISTS; l++) {
        size_t n;
        const int64_t *items = list_of(nodes, l, i, &n);

        json_object_object_add(object, NAMES[l], pl_json_integers(items, n));
    }
    return object;
}

static pl_status_t print_json(const nodes_t *nodes)
{
    json_object *object = json_object_new_object();
    json_object *array  = json_object_new_array();

    for (size_t i = 0; i < nodes->n; i++) {
        json_object_array_add(array, json_of(nodes, i));
    }
    json_object_object_add(object, "nodes", array);
    return pl_json_print(object, stdout);
}

pl_status_t pl_inspect_nodes(const pl_inspect_t *inspect)
{
    nodes_t nodes      = {0};
    pl_status_t status = load(inspect->snapshot, &nodes);

    if (status == PL_OK) {
        status = inspect->json ? print_json(&nodes) : print_table(&nodes);
    }
    unload(&nodes);
    return status;
}
