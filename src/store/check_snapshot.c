/* What the tables of a file say of each other. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/check_internal.h"
#include "store/reader.h"
#include "store/seal.h"
#include "store/sweep_table.h"

enum { NAME_BYTES = 96 };

typedef struct layout {
    int64_t n_lanes, device_pages, host_pages, device_reserved, host_reserved;
    bool is_on_all; /* every rank has all pages, or its layers of them */
} layout_t;

/* Pages of the nodes on one tier. */
typedef struct tier {
    const char *name;
    int64_t per_lane, reserved;
    pl_snapshot_column_t has, offset, pages;
    uint8_t *is_used; /* [n_lanes * per_lane] */
    int64_t *held;    /* [n_lanes] */
} tier_t;

typedef struct said {
    char line[512];
} said_t;

typedef struct check {
    const said_t *said; /* by the reader, last */
    pl_check_report_t *report;
    pl_snapshot_t *snapshot;
    layout_t layout;
    size_t n; /* nodes */
    pl_snapshot_column_t id, parent, first_page, n_pages;
    tier_t tiers[2]; /* device, host */
    pl_snapshot_column_t owners_offset, owners;
} check_t;

enum { DEVICE, HOST };

/* ---- reading ---- */

static void keep_line(void *context, pl_log_level_t level, const char *line)
{
    said_t *said = context;

    (void)level;
    (void)snprintf(said->line, sizeof(said->line), "%s", line);
}

static pl_status_t read_layout(check_t *check)
{
    const struct {
        const char *name;
        int64_t *value;
        int64_t min, max;
    } facts[] = {
        {"n_lanes", &check->layout.n_lanes, 1, PL_MAX_RANKS},
        {"device_pages", &check->layout.device_pages, 1, INT32_MAX},
        {"host_pages", &check->layout.host_pages, 0, INT32_MAX},
        {"device_reserved", &check->layout.device_reserved, 0, INT32_MAX},
        {"host_reserved", &check->layout.host_reserved, 0, INT32_MAX},
    };
    char *text = NULL;

    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        PL_TRY(pl_snapshot_integer(check->snapshot, "/layout", facts[i].name,
                                   facts[i].min, facts[i].max, facts[i].value));
    }
    PL_TRY(pl_snapshot_text(check->snapshot, "/layout", "ownership", &text));
    check->layout.is_on_all =
        (strcmp(text, "replicated") == 0) || (strcmp(text, "layer") == 0);
    free(text);
    return PL_OK;
}

static pl_status_t read_tier(check_t *check, int which)
{
    tier_t *tier = &check->tiers[which];
    char path[NAME_BYTES];

    tier->name = which == DEVICE ? "device" : "host";
    tier->per_lane =
        which == DEVICE ? check->layout.device_pages : check->layout.host_pages;
    tier->reserved = which == DEVICE ? check->layout.device_reserved
                                     : check->layout.host_reserved;
    (void)snprintf(path, sizeof(path), "/hicache/nodes/%s", tier->name);
    PL_TRY(pl_snapshot_read(check->snapshot, path, PL_ITEM_U8, check->n, 0,
                            &tier->has));
    (void)snprintf(path, sizeof(path), "/hicache/nodes/%s_pages", tier->name);
    PL_TRY(pl_snapshot_read(check->snapshot, path, PL_ITEM_I32, PL_ANY_ROWS, 0,
                            &tier->pages));
    (void)snprintf(path, sizeof(path), "/hicache/nodes/%s_pages_offset",
                   tier->name);
    PL_TRY(pl_snapshot_read_offsets(check->snapshot, path, check->n,
                                    tier->pages.rows, &tier->offset));
    tier->is_used =
        calloc((size_t)(check->layout.n_lanes * tier->per_lane) + 1, 1);
    tier->held = calloc((size_t)check->layout.n_lanes, sizeof(*tier->held));
    return (tier->is_used == NULL) || (tier->held == NULL) ? PL_ERR_MEMORY
                                                           : PL_OK;
}

static pl_status_t read_nodes(check_t *check)
{
    PL_TRY(pl_snapshot_read(check->snapshot, "/hicache/nodes/id", PL_ITEM_I64,
                            PL_ANY_ROWS, 0, &check->id));
    check->n = check->id.rows;
    PL_TRY(pl_snapshot_read(check->snapshot, "/hicache/nodes/parent",
                            PL_ITEM_I64, check->n, 0, &check->parent));
    PL_TRY(pl_snapshot_read(check->snapshot, "/hicache/nodes/first_page",
                            PL_ITEM_I32, check->n, 0, &check->first_page));
    PL_TRY(pl_snapshot_read(check->snapshot, "/hicache/nodes/n_pages",
                            PL_ITEM_I32, check->n, 0, &check->n_pages));
    PL_TRY(read_tier(check, DEVICE));
    PL_TRY(read_tier(check, HOST));
    PL_TRY(pl_snapshot_read(check->snapshot, "/hicache/page_owners", PL_ITEM_I8,
                            PL_ANY_ROWS, 0, &check->owners));
    return pl_snapshot_read_offsets(check->snapshot,
                                    "/hicache/page_owners_offset", check->n,
                                    check->owners.rows, &check->owners_offset);
}

static void free_all(check_t *check)
{
    pl_snapshot_column_t *columns[] = {
        &check->id,           &check->parent,          &check->first_page,
        &check->n_pages,      &check->owners_offset,   &check->owners,
        &check->tiers[0].has, &check->tiers[0].offset, &check->tiers[0].pages,
        &check->tiers[1].has, &check->tiers[1].offset, &check->tiers[1].pages,
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        pl_snapshot_column_free(columns[i]);
    }
    for (int i = 0; i < 2; i++) {
        free(check->tiers[i].is_used);
        free(check->tiers[i].held);
    }
    pl_snapshot_close(check->snapshot);
}

/* ---- the tree ---- */

/* The row of a node; -1: there is none. */
static int64_t find_node(const check_t *check, int64_t id)
{
    size_t low  = 0;
    size_t high = check->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (check->id.items[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < check->n) && (check->id.items[low] == id) ? (int64_t)low : -1;
}

static void check_prefix(check_t *check, size_t i)
{
    pl_check_report_t *report = check->report;
    int64_t id                = check->id.items[i];
    int64_t parent            = check->parent.items[i];
    int64_t p                 = parent == 0 ? 0 : find_node(check, parent);
    int64_t first             = 0;
    bool has_device           = true;

    if (p < 0) {
        pl_check_find(report, PL_CHECK_MISSING,
                      "node %" PRId64 ": its parent %" PRId64 " is nowhere", id,
                      parent);
        return;
    }
    if (parent != 0) {
        first      = check->first_page.items[p] + check->n_pages.items[p];
        has_device = check->tiers[DEVICE].has.items[p] != 0;
    }
    if ((check->n_pages.items[i] < 1) ||
        (check->first_page.items[i] != first)) {
        pl_check_find(report, PL_CHECK_CHAIN,
                      "node %" PRId64 ": its pages do not follow those of its "
                      "parent %" PRId64,
                      id, parent);
    }
    if ((check->tiers[DEVICE].has.items[i] != 0) && !has_device) {
        pl_check_find(report, PL_CHECK_MISSING,
                      "node %" PRId64 " has device pages, and its parent "
                      "%" PRId64 " has none",
                      id, parent);
    }
    if ((check->tiers[DEVICE].has.items[i] == 0) &&
        (check->tiers[HOST].has.items[i] == 0)) {
        pl_check_find(report, PL_CHECK_MISSING,
                      "node %" PRId64 " has pages on no tier", id);
    }
}

/* ---- pages ---- */

static void check_page(check_t *check, tier_t *tier, int64_t id, int64_t page)
{
    int64_t lanes = check->layout.n_lanes;

    if ((page < 0) || (page >= lanes * tier->per_lane) ||
        (page / lanes < tier->reserved)) {
        pl_check_find(check->report, PL_CHECK_OVERLAP,
                      "node %" PRId64 ": %s page %" PRId64
                      " is none that can be handed out",
                      id, tier->name, page);
        return;
    }
    if (tier->is_used[page] != 0) {
        pl_check_find(check->report, PL_CHECK_OVERLAP,
                      "node %" PRId64 ": %s page %" PRId64
                      " is another node's, too",
                      id, tier->name, page);
        return;
    }
    tier->is_used[page] = 1;
    tier->held[page % lanes]++;
    check->report->good++;
}

static void check_tier_of(check_t *check, tier_t *tier, size_t i)
{
    int64_t first  = tier->offset.items[i];
    int64_t n      = tier->offset.items[i + 1] - first;
    int64_t wanted = tier->has.items[i] != 0 ? check->n_pages.items[i] : 0;
    int64_t id     = check->id.items[i];

    if (n != wanted) {
        pl_check_find(check->report,
                      n < wanted ? PL_CHECK_MISSING : PL_CHECK_DOUBLED,
                      "node %" PRId64 " has %" PRId64 " %s pages, and should "
                      "have %" PRId64,
                      id, n, tier->name, wanted);
    }
    check->report->pages += n;
    for (int64_t k = 0; k < n; k++) {
        check_page(check, tier, id, tier->pages.items[first + k]);
    }
}

static void check_owners(check_t *check, size_t i)
{
    const tier_t *host = &check->tiers[HOST];
    int64_t first      = host->offset.items[i];
    int64_t n          = host->offset.items[i + 1] - first;
    int64_t own        = check->owners_offset.items[i];
    int64_t id         = check->id.items[i];

    if (check->owners_offset.items[i + 1] - own != n) {
        pl_check_find(check->report, PL_CHECK_OWNERS,
                      "node %" PRId64 ": not as many owners as host pages", id);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        if (check->owners.items[own + k] !=
            host->pages.items[first + k] % check->layout.n_lanes) {
            pl_check_find(check->report, PL_CHECK_OWNERS,
                          "node %" PRId64 ": the owner of its page %" PRId64
                          " is not the lane that it lies in",
                          id, k);
        }
    }
}

/* ---- what the ranks say ---- */

typedef struct share {
    pl_snapshot_column_t offset, positions, slots;
} share_t;

static pl_status_t read_share(check_t *check, int rank, share_t *share)
{
    char path[NAME_BYTES];

    (void)snprintf(path, sizeof(path), "/hicache/rank/%d/positions", rank);
    PL_TRY(pl_snapshot_read(check->snapshot, path, PL_ITEM_I32, PL_ANY_ROWS, 0,
                            &share->positions));
    (void)snprintf(path, sizeof(path), "/hicache/rank/%d/slots", rank);
    PL_TRY(pl_snapshot_read(check->snapshot, path, PL_ITEM_I32,
                            share->positions.rows, 0, &share->slots));
    (void)snprintf(path, sizeof(path), "/hicache/rank/%d/offset", rank);
    return pl_snapshot_read_offsets(check->snapshot, path, check->n,
                                    share->positions.rows, &share->offset);
}

/* A page that rank `rank` says it has; counted in times[]. */
static void check_claim(check_t *check, int rank, size_t node, int64_t position,
                        int64_t slot, uint8_t *times)
{
    const tier_t *host = &check->tiers[HOST];
    int64_t first      = host->offset.items[node];
    int64_t n          = host->offset.items[node + 1] - first;
    int64_t lanes      = check->layout.n_lanes;
    int64_t page;

    if ((position < 0) || (position >= n)) {
        pl_check_find(check->report, PL_CHECK_OWNERS,
                      "rank %d has page %" PRId64 " of node %" PRId64
                      ", which has %" PRId64,
                      rank, position, check->id.items[node], n);
        return;
    }
    page = host->pages.items[first + position];
    if ((page / lanes != slot) ||
        (!check->layout.is_on_all && (page % lanes != rank))) {
        pl_check_find(
            check->report, PL_CHECK_OWNERS,
            "rank %d has page %" PRId64 " of node %" PRId64 " in slot %" PRId64
            ", the node says rank %" PRId64 " slot %" PRId64,
            rank, position, check->id.items[node], slot,
            check->layout.is_on_all ? rank : page % lanes, page / lanes);
    }
    if (times[first + position] < UINT8_MAX) {
        times[first + position]++;
    }
}

static pl_status_t check_rank(check_t *check, int rank, uint8_t *times)
{
    share_t share      = {{0}, {0}, {0}};
    pl_status_t status = read_share(check, rank, &share);

    for (size_t i = 0; (status == PL_OK) && (i < check->n); i++) {
        for (int64_t k = share.offset.items[i]; k < share.offset.items[i + 1];
             k++) {
            check_claim(check, rank, i, share.positions.items[k],
                        share.slots.items[k], times);
        }
    }
    pl_snapshot_column_free(&share.offset);
    pl_snapshot_column_free(&share.positions);
    pl_snapshot_column_free(&share.slots);
    return status;
}

/* Each host page is claimed once, or by every rank. */
static void check_times(check_t *check, int n_ranks, const uint8_t *times)
{
    const tier_t *host = &check->tiers[HOST];
    int wanted         = check->layout.is_on_all ? n_ranks : 1;

    for (size_t i = 0; i < check->n; i++) {
        for (int64_t k = host->offset.items[i]; k < host->offset.items[i + 1];
             k++) {
            if (times[k] != wanted) {
                pl_check_find(check->report,
                              times[k] < wanted ? PL_CHECK_MISSING
                                                : PL_CHECK_DOUBLED,
                              "node %" PRId64 ": %d ranks have its host page "
                              "%" PRId64 ", %d should",
                              check->id.items[i], times[k],
                              k - host->offset.items[i], wanted);
            }
        }
    }
}

static pl_status_t check_ranks(check_t *check)
{
    uint8_t *times     = calloc(check->tiers[HOST].pages.rows + 1, 1);
    pl_status_t status = times == NULL ? PL_ERR_MEMORY : PL_OK;
    int rank           = 0;
    char path[NAME_BYTES];

    for (; (status == PL_OK) && (rank <= PL_MAX_RANKS); rank++) {
        (void)snprintf(path, sizeof(path), "/hicache/rank/%d", rank);
        if (!pl_snapshot_has(check->snapshot, path)) {
            break;
        }
        status = check_rank(check, rank, times);
    }
    if (status == PL_OK) {
        check_times(check, rank, times);
    }
    free(times);
    return status;
}

/* ---- lanes ---- */

/* At the end of the last tick: free + held by nodes <= all; operations and
 * requests have the rest. */
static pl_status_t check_lanes(check_t *check, const tier_t *tier)
{
    size_t lanes              = (size_t)check->layout.n_lanes;
    pl_snapshot_column_t left = {0};
    char path[NAME_BYTES];

    (void)snprintf(path, sizeof(path), "/lanes/%s_free", tier->name);
    PL_TRY(pl_snapshot_read(check->snapshot, path, PL_ITEM_I32, PL_ANY_ROWS,
                            lanes, &left));
    for (size_t lane = 0; (left.rows > 0) && (lane < lanes); lane++) {
        int64_t n_free = left.items[(left.rows - 1) * lanes + lane];
        int64_t all    = tier->per_lane - tier->reserved;

        all = all > 0 ? all : 0;
        if ((n_free < 0) || (n_free + tier->held[lane] > all)) {
            pl_check_find(check->report, PL_CHECK_LANES,
                          "%s lane %zu: %" PRId64 " free and %" PRId64
                          " held by nodes, of %" PRId64,
                          tier->name, lane, n_free, tier->held[lane], all);
        }
    }
    pl_snapshot_column_free(&left);
    return PL_OK;
}

/* ---- every dataset ---- */

enum { DEEPEST = 8 };

typedef struct member {
    char path[NAME_BYTES];
    bool is_group;
    pl_item_t item;
    size_t columns;
} member_t;

typedef struct group {
    const char *path;
    PL_ARRAY(member_t) members;
} group_t;

static pl_status_t take_member(void *context, const pl_snapshot_member_t *about)
{
    group_t *group  = context;
    member_t member = {.is_group = about->is_group,
                       .item     = about->item,
                       .columns  = about->columns};

    (void)snprintf(member.path, sizeof(member.path), "%s/%s",
                   strcmp(group->path, "/") == 0 ? "" : group->path,
                   about->name);
    return PL_ARRAY_PUSH(&group->members, member);
}

/* Its bytes have the digest that stands beside them. */
static pl_status_t check_dataset(check_t *check, const member_t *member)
{
    pl_snapshot_column_t column = {0};
    pl_snapshot_texts_t texts   = {0};
    pl_status_t status;

    if (member->item == PL_ITEM_TEXT) {
        status = pl_snapshot_read_texts(check->snapshot, member->path,
                                        PL_ANY_ROWS, &texts);
        pl_snapshot_texts_free(&texts);
    } else {
        status = pl_snapshot_read(check->snapshot, member->path, member->item,
                                  PL_ANY_ROWS, member->columns, &column);
        check->report->bytes += (int64_t)(column.rows * column.columns *
                                          pl_item_bytes(member->item, 0));
        pl_snapshot_column_free(&column);
    }
    if (status == PL_ERR_INPUT) {
        pl_check_find(check->report, PL_CHECK_FILE, "%.190s",
                      check->said->line);
        return PL_OK;
    }
    return status;
}

static pl_status_t check_group(check_t *check, const char *path, int depth)
{
    group_t group      = {.path = path};
    pl_status_t status = PL_OK;

    if (depth < DEEPEST) {
        status =
            pl_snapshot_members(check->snapshot, path, take_member, &group);
    }
    for (size_t i = 0; (status == PL_OK) && (i < group.members.n); i++) {
        const member_t *member = &group.members.items[i];

        status = member->is_group ? check_group(check, member->path, depth + 1)
                                  : check_dataset(check, member);
    }
    PL_ARRAY_FREE(&group.members);
    return status;
}

/* ---- the whole ---- */

static pl_status_t check_tables(check_t *check)
{
    if (pl_snapshot_has(check->snapshot, "/instances")) {
        return pl_check_fleet(check->snapshot, check->report);
    }
    PL_TRY(read_layout(check));
    PL_TRY(read_nodes(check));
    for (size_t i = 0; i < check->n; i++) {
        if ((i > 0) && (check->id.items[i] <= check->id.items[i - 1])) {
            pl_check_find(check->report, PL_CHECK_DOUBLED,
                          "node %" PRId64 " stands behind node %" PRId64,
                          check->id.items[i], check->id.items[i - 1]);
        }
    }
    for (size_t i = 0; i < check->n; i++) {
        check_prefix(check, i);
        check_tier_of(check, &check->tiers[DEVICE], i);
        check_tier_of(check, &check->tiers[HOST], i);
        check_owners(check, i);
    }
    PL_TRY(check_ranks(check));
    PL_TRY(check_lanes(check, &check->tiers[DEVICE]));
    return check_lanes(check, &check->tiers[HOST]);
}

static pl_status_t check_sweep(check_t *check)
{
    pl_sweep_table_t table = {0};
    pl_status_t status     = pl_sweep_table_read(check->snapshot, &table);

    check->report->points = (int64_t)table.n;
    pl_sweep_table_free(&table);
    return status;
}

/* A reader takes a file without one; here it is as damaged as any. */
static pl_status_t check_seal(check_t *check, const char *path,
                              const pl_log_t *log)
{
    bool is_there = false;

    PL_TRY(pl_seal_find(path, log, &is_there));
    if (!is_there) {
        pl_check_find(check->report, PL_CHECK_FILE,
                      "the file does not end with its seal, so that nobody can "
                      "tell if it is what was written: cut, damaged, or opened "
                      "for writing since");
    }
    return PL_OK;
}

pl_status_t pl_check_file(const char *path, const pl_log_t *log,
                          pl_check_report_t *report)
{
    said_t said       = {"out of memory"};
    pl_log_t listener = {keep_line, &said, PL_LOG_ERROR};
    check_t check     = {.said = &said, .report = report};
    int64_t before; /* findings, beside those of what is read */
    pl_status_t status;

    report->is_snapshot = true; /* as long as nobody can tell */
    /* Damage is what is looked for; another kind of file is an error. */
    status = pl_seal_check(path, &listener);
    if (status == PL_ERR_MEMORY) {
        pl_log(log, PL_LOG_ERROR, "%s", said.line);
        return status;
    }
    if (status != PL_OK) {
        pl_check_find(report, PL_CHECK_FILE, "%.190s", said.line);
        return PL_OK;
    }
    status = pl_snapshot_open_any(path, &listener, &check.snapshot);
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s", said.line);
        return status;
    }
    report->is_sweep    = pl_snapshot_is_sweep(check.snapshot);
    report->is_snapshot = !report->is_sweep;
    status              = check_seal(&check, path, &listener);
    before              = report->found[PL_CHECK_FILE].count;
    if (status == PL_OK) {
        status = check_group(&check, "/", 0);
    }
    if (status == PL_OK) {
        status = report->is_sweep ? check_sweep(&check) : check_tables(&check);
    }
    free_all(&check);
    if (status == PL_ERR_INPUT) {
        if (report->found[PL_CHECK_FILE].count == before) {
            pl_check_find(report, PL_CHECK_FILE, "%.190s", said.line);
        }
        return PL_OK;
    }
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s", said.line);
    }
    return status;
}
