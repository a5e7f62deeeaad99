#include "cli/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ---- */

static const struct {
    const char *path;
    pl_item_t item;
} FIELDS[PL_EVENT_FIELDS] = {
    [PL_FIELD_TICK]    = {"/events/tick", PL_ITEM_I64},
    [PL_FIELD_TIME]    = {"/events/time_ns", PL_ITEM_I64},
    [PL_FIELD_KIND]    = {"/events/kind", PL_ITEM_I32},
    [PL_FIELD_REQUEST] = {"/events/request", PL_ITEM_I32},
    [PL_FIELD_NODE]    = {"/events/node", PL_ITEM_I64},
    [PL_FIELD_OP]      = {"/events/op", PL_ITEM_I64},
    [PL_FIELD_VALUE]   = {"/events/value", PL_ITEM_I64},
    [PL_FIELD_VALUE2]  = {"/events/value2", PL_ITEM_I64},
};

static pl_kind_t kind_of(const char *name)
{
    static const char *const TEXTS[PL_KINDS] = {[PL_KIND_OTHER] = "",
#define PL_KIND_TEXT(kind, text) [PL_KIND_##kind] = text,
                                                PL_KIND_LIST(PL_KIND_TEXT)
#undef PL_KIND_TEXT
    };

    for (int kind = 1; kind < PL_KINDS; kind++) {
        if (strcmp(TEXTS[kind], name) == 0) {
            return (pl_kind_t)kind;
        }
    }
    return PL_KIND_OTHER;
}

static pl_status_t load_kinds(const pl_snapshot_t *snapshot,
                              pl_events_t *events)
{
    const pl_snapshot_column_t *column = &events->fields[PL_FIELD_KIND];

    PL_TRY(pl_snapshot_read_texts(snapshot, "/events/kinds", PL_ANY_ROWS,
                                  &events->names));
    events->kinds = calloc(events->names.n, sizeof(*events->kinds));
    if (events->kinds == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < events->names.n; i++) {
        events->kinds[i] = kind_of(pl_snapshot_text_at(&events->names, i));
    }
    for (size_t i = 0; i < events->n; i++) {
        if ((column->items[i] < 0) ||
            (column->items[i] >= (int64_t)events->names.n)) {
            return pl_snapshot_refuse(snapshot, "/events/kind",
                                      "%" PRId64 " of event %zu is out of "
                                      "range; there are %zu kinds",
                                      column->items[i], i, events->names.n);
        }
    }
    return PL_OK;
}

/* As many items as the event has pages, or none; no page below 0. */
static pl_status_t check_lists(const pl_snapshot_t *snapshot,
                               const pl_events_t *events)
{
    for (size_t i = 0; i < events->n; i++) {
        int64_t n_pages =
            events->pages_offset.items[i + 1] - events->pages_offset.items[i];
        int64_t n_other =
            events->other_offset.items[i + 1] - events->other_offset.items[i];

        if ((n_other != 0) && (n_other != n_pages)) {
            return pl_snapshot_refuse(snapshot, "/events/other_offset",
                                      "event %zu has %" PRId64 " pages and "
                                      "%" PRId64 " others",
                                      i, n_pages, n_other);
        }
    }
    for (size_t i = 0; i < events->pages.rows; i++) {
        if (events->pages.items[i] < 0) {
            return pl_snapshot_refuse(snapshot, "/events/pages",
                                      "there is no page %" PRId64,
                                      events->pages.items[i]);
        }
    }
    for (size_t i = 0; i < events->other.rows; i++) {
        if (events->other.items[i] < 0) {
            return pl_snapshot_refuse(snapshot, "/events/other",
                                      "there is no page %" PRId64,
                                      events->other.items[i]);
        }
    }
    return PL_OK;
}

static pl_status_t load_lists(const pl_snapshot_t *snapshot,
                              pl_events_t *events)
{
    PL_TRY(pl_snapshot_read(snapshot, "/events/pages", PL_ITEM_I32, PL_ANY_ROWS,
                            0, &events->pages));
    PL_TRY(pl_snapshot_read(snapshot, "/events/other", PL_ITEM_I32, PL_ANY_ROWS,
                            0, &events->other));
    PL_TRY(pl_snapshot_read_offsets(snapshot, "/events/pages_offset", events->n,
                                    events->pages.rows, &events->pages_offset));
    PL_TRY(pl_snapshot_read_offsets(snapshot, "/events/other_offset", events->n,
                                    events->other.rows, &events->other_offset));
    return check_lists(snapshot, events);
}

static pl_status_t load_dropped(const pl_snapshot_t *snapshot, const char *who,
                                bool whole, pl_events_t *events)
{
    PL_TRY(pl_snapshot_integer(snapshot, "/events", "dropped", 0, INT64_MAX,
                               &events->n_dropped));
    PL_TRY(pl_snapshot_integer(snapshot, "/events", "first_tick", 0, INT64_MAX,
                               &events->first_tick));
    if (whole && (events->n_dropped > 0)) {
        return pl_snapshot_refuse(
            snapshot, "/events",
            "the first %" PRId64 " were dropped, up to tick %" PRId64 ", and "
            "%s looks back to the beginning; run with --events all",
            events->n_dropped, events->first_tick, who);
    }
    return PL_OK;
}

pl_status_t pl_events_load(const pl_snapshot_t *snapshot, const char *who,
                           bool whole, pl_events_t *events)
{
    size_t rows = PL_ANY_ROWS;

    if (!pl_snapshot_has(snapshot, "/events")) {
        return pl_snapshot_refuse(snapshot, "/events",
                                  "is missing, and %s needs it; run with "
                                  "--events all",
                                  who);
    }
    PL_TRY(load_dropped(snapshot, who, whole, events));
    for (int f = 0; f < PL_EVENT_FIELDS; f++) {
        PL_TRY(pl_snapshot_read(snapshot, FIELDS[f].path, FIELDS[f].item, rows,
                                0, &events->fields[f]));
        rows = events->fields[f].rows;
    }
    events->n = rows;
    PL_TRY(load_kinds(snapshot, events));
    return load_lists(snapshot, events);
}

void pl_events_free(pl_events_t *events)
{
    for (int f = 0; f < PL_EVENT_FIELDS; f++) {
        pl_snapshot_column_free(&events->fields[f]);
    }
    pl_snapshot_column_free(&events->pages);
    pl_snapshot_column_free(&events->pages_offset);
    pl_snapshot_column_free(&events->other);
    pl_snapshot_column_free(&events->other_offset);
    pl_snapshot_texts_free(&events->names);
    free(events->kinds);
    memset(events, 0, sizeof(*events));
}

const int64_t *pl_event_pages(const pl_events_t *events, size_t i, size_t *n_p)
{
    const int64_t *offsets = events->pages_offset.items;

    *n_p = (size_t)(offsets[i + 1] - offsets[i]);
    return events->pages.items + offsets[i];
}

const int64_t *pl_event_other(const pl_events_t *events, size_t i)
{
    const int64_t *offsets = events->other_offset.items;

    return offsets[i + 1] > offsets[i] ? events->other.items + offsets[i]
                                       : NULL;
}

/* ---- playing back ---- */

pl_replay_node_t *pl_replay_find(pl_replay_t *replay, int64_t id)
{
    size_t low  = 0;
    size_t high = replay->nodes.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (replay->nodes.items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < replay->nodes.n) && (replay->nodes.items[low].id == id)
               ? &replay->nodes.items[low]
               : NULL;
}

/* Ids ascend in order of creation. */
static pl_status_t add_node(pl_replay_t *replay, const pl_replay_node_t *node)
{
    size_t n = replay->nodes.n;

    if ((n > 0) && (replay->nodes.items[n - 1].id >= node->id)) {
        return PL_OK;
    }
    return PL_ARRAY_PUSH(&replay->nodes, *node);
}

static pl_status_t begin_node(pl_replay_t *replay, size_t i, int tier)
{
    const pl_events_t *events = replay->events;
    size_t n;
    const int64_t *pages  = pl_event_pages(events, i, &n);
    pl_replay_node_t node = {
        .id      = pl_event_at(events, PL_FIELD_NODE, i),
        .first   = pl_event_at(events, PL_FIELD_VALUE2, i),
        .n       = (int64_t)n,
        .request = pl_event_at(events, PL_FIELD_REQUEST, i),
    };

    if ((node.first < 0) || (node.first > INT32_MAX)) {
        return PL_OK;
    }
    node.pages[tier] = pages;
    return add_node(replay, &node);
}

static pl_status_t split(pl_replay_t *replay, size_t i, pl_replay_node_t *tail)
{
    int64_t k             = pl_event_at(replay->events, PL_FIELD_VALUE2, i);
    pl_replay_node_t head = *tail;

    if ((k < 1) || (k >= tail->n)) {
        return PL_OK;
    }
    head.id = pl_event_at(replay->events, PL_FIELD_VALUE, i);
    head.n  = k;
    tail->first += k;
    tail->n -= k;
    for (int tier = 0; tier < PL_NODE_TIERS; tier++) {
        tail->pages[tier] += tail->pages[tier] != NULL ? k : 0;
    }
    return add_node(replay, &head);
}

/* The pages of an event, if they are as many as the node has. */
static const int64_t *if_fits(const pl_replay_node_t *node,
                              const int64_t *pages, size_t n)
{
    return (int64_t)n == node->n ? pages : NULL;
}

static void load_node(pl_replay_t *replay, size_t i, pl_replay_node_t *node)
{
    int64_t op = pl_event_at(replay->events, PL_FIELD_OP, i);

    for (size_t l = 0; l < replay->loads.n; l++) {
        pl_replay_load_t *load = &replay->loads.items[l];

        if ((load->op == op) && ((int64_t)load->n >= node->n)) {
            node->pages[PL_TIER_DEVICE] = load->pages;
            load->pages += node->n;
            load->n -= (size_t)node->n;
            return;
        }
    }
}

static void end_load(pl_replay_t *replay, int64_t op)
{
    for (size_t l = 0; l < replay->loads.n; l++) {
        if (replay->loads.items[l].op == op) {
            replay->loads.items[l] = replay->loads.items[--replay->loads.n];
            return;
        }
    }
}

/* A backup came to nothing: no node of it has a host copy. */
static void cancel_backup(pl_replay_t *replay, int64_t op)
{
    for (size_t n = 0; n < replay->nodes.n; n++) {
        pl_replay_node_t *node = &replay->nodes.items[n];

        if ((op != 0) && (node->write_op == op)) {
            node->pages[PL_TIER_HOST] = NULL;
            node->write_op            = 0;
        }
    }
}

/* Events about one node that is there. */
static pl_status_t change_node(pl_replay_t *replay, size_t i,
                               pl_replay_node_t *node)
{
    const pl_events_t *events = replay->events;
    size_t n;
    const int64_t *pages = pl_event_pages(events, i, &n);
    const int64_t *other = pl_event_other(events, i);

    switch (pl_event_kind(events, i)) {
    case PL_KIND_SPLIT:
        return split(replay, i, node);
    case PL_KIND_ADOPT:
        node->pages[PL_TIER_DEVICE] = if_fits(node, pages, n);
        break;
    case PL_KIND_LOAD_NODE:
        load_node(replay, i, node);
        break;
    case PL_KIND_EVICT:
        node->pages[PL_TIER_DEVICE] = NULL;
        break;
    case PL_KIND_BACKUP:
        node->pages[PL_TIER_HOST] =
            other == NULL ? NULL : if_fits(node, other, n);
        node->write_op = pl_event_at(events, PL_FIELD_OP, i);
        break;
    case PL_KIND_HOST_DROP:
        node->pages[PL_TIER_HOST] = NULL;
        break;
    default:
        break;
    }
    return PL_OK;
}

pl_status_t pl_replay_step(pl_replay_t *replay, size_t i)
{
    const pl_events_t *events = replay->events;
    int64_t op                = pl_event_at(events, PL_FIELD_OP, i);
    pl_replay_load_t load     = {.op = op};
    pl_replay_node_t *node;

    switch (pl_event_kind(events, i)) {
    case PL_KIND_NODE:
        return begin_node(replay, i, PL_TIER_DEVICE);
    case PL_KIND_HOST_NODE:
        return begin_node(replay, i, PL_TIER_HOST);
    case PL_KIND_LOAD:
        load.pages = pl_event_pages(events, i, &load.n);
        return PL_ARRAY_PUSH(&replay->loads, load);
    case PL_KIND_LOADED:
        end_load(replay, op);
        return PL_OK;
    case PL_KIND_BACKED_UP:
        if (pl_event_at(events, PL_FIELD_VALUE, i) == 0) {
            cancel_backup(replay, op);
        }
        return PL_OK;
    default:
        node = pl_replay_find(replay, pl_event_at(events, PL_FIELD_NODE, i));
        return node == NULL ? PL_OK : change_node(replay, i, node);
    }
}

void pl_replay_free(pl_replay_t *replay)
{
    PL_ARRAY_FREE(&replay->nodes);
    PL_ARRAY_FREE(&replay->loads);
}
