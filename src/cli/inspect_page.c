/* pagelane inspect F page G: the lives of one page. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/events.h"
#include "cli/inspect.h"
#include "cli/table.h"

enum { NONE = -1 };

/* One line of a page's life. */
typedef struct moment {
    int64_t life; /* from 1: each time it was taken from its lane */
    size_t event;
    const char *what;
    int64_t node;        /* NONE: no matter */
    int64_t prompt_page; /* which of the prompt's pages it holds; or NONE */
    int64_t other;       /* the page it was copied from or to; or NONE */
} moment_t;

/* A copy under way that reads or writes the page. */
typedef struct copy {
    int64_t op;
    const char *good, *bad;
} copy_t;

typedef struct story {
    pl_inspect_layout_t layout;
    pl_events_t events;
    pl_replay_t replay;
    int tier;
    int64_t page, life;
    PL_ARRAY(moment_t) moments;
    PL_ARRAY(copy_t) copies;
    pl_status_t status;
} story_t;

/* ---- telling ---- */

static void add(story_t *story, size_t event, const char *what, int64_t node,
                int64_t prompt_page, int64_t other)
{
    moment_t moment = {story->life, event, what, node, prompt_page, other};

    if (story->status == PL_OK) {
        story->status = PL_ARRAY_PUSH(&story->moments, moment);
    }
}

static void begin_copy(story_t *story, size_t event, const char *good,
                       const char *bad)
{
    copy_t copy = {pl_event_at(&story->events, PL_FIELD_OP, event), good, bad};

    if (story->status == PL_OK) {
        story->status = PL_ARRAY_PUSH(&story->copies, copy);
    }
}

static void end_copy(story_t *story, size_t event)
{
    int64_t op = pl_event_at(&story->events, PL_FIELD_OP, event);

    for (size_t i = 0; i < story->copies.n; i++) {
        copy_t copy = story->copies.items[i];

        if (copy.op == op) {
            bool good = pl_event_at(&story->events, PL_FIELD_VALUE, event) != 0;

            story->copies.items[i] = story->copies.items[--story->copies.n];
            add(story, event, good ? copy.good : copy.bad, NONE, NONE, NONE);
            return;
        }
    }
}

/* Where the page stands in a list; NONE: not there. */
static int64_t find(const story_t *story, const int64_t *pages, size_t n)
{
    for (size_t i = 0; (pages != NULL) && (i < n); i++) {
        if (pages[i] == story->page) {
            return (int64_t)i;
        }
    }
    return NONE;
}

/* Events whose list of pages has the page at `at`. */
static void device_event(story_t *story, size_t i, int64_t at)
{
    const pl_events_t *events = &story->events;
    const int64_t *other      = pl_event_other(events, i);
    int64_t node              = pl_event_at(events, PL_FIELD_NODE, i);
    int64_t value             = pl_event_at(events, PL_FIELD_VALUE, i);
    int64_t value2            = pl_event_at(events, PL_FIELD_VALUE2, i);
    int64_t there             = other == NULL ? NONE : other[at];

    switch (pl_event_kind(events, i)) {
    case PL_KIND_ALLOC:
        story->life++;
        add(story, i, "allocated", NONE, NONE, NONE);
        break;
    case PL_KIND_CHUNK:
        add(story, i, "written", NONE, value / story->layout.page_tokens + at,
            NONE);
        break;
    case PL_KIND_NODE:
        add(story, i, "in a new node", node, value2 + at, NONE);
        break;
    case PL_KIND_ADOPT:
        add(story, i, "adopted by a node", node, NONE, NONE);
        break;
    case PL_KIND_BACKUP:
        add(story, i, "copied to host page", node, NONE, there);
        begin_copy(story, i, "copy is on host", "copy to host failed");
        break;
    case PL_KIND_LOAD:
        add(story, i, "loaded from host page", NONE, value + at, there);
        begin_copy(story, i, "load has ended", "load failed");
        break;
    case PL_KIND_SEND:
        add(story, i, "sent to decode page", NONE, value2 + at, there);
        begin_copy(story, i, "decode has it", "transfer failed");
        break;
    case PL_KIND_FREE:
        add(story, i, "freed", NONE, NONE, NONE);
        break;
    default:
        break;
    }
}

/* Events whose pages, or (BACKUP, LOAD, STORE) others, have it at `at`. */
static void host_event(story_t *story, size_t i, int64_t at)
{
    const pl_events_t *events = &story->events;
    size_t n;
    int64_t there  = pl_event_pages(events, i, &n)[at];
    int64_t node   = pl_event_at(events, PL_FIELD_NODE, i);
    int64_t value  = pl_event_at(events, PL_FIELD_VALUE, i);
    int64_t value2 = pl_event_at(events, PL_FIELD_VALUE2, i);

    switch (pl_event_kind(events, i)) {
    case PL_KIND_BACKUP:
        story->life++;
        add(story, i, "taken for a copy of device page", node, NONE, there);
        begin_copy(story, i, "written", "copy failed");
        break;
    case PL_KIND_FETCH:
        story->life++;
        add(story, i, "taken for a fetch from storage", NONE, value + at, NONE);
        begin_copy(story, i, "fetch has ended", "nothing was fetched");
        break;
    case PL_KIND_HOST_NODE:
        add(story, i, "in a new node", node, value2 + at, NONE);
        break;
    case PL_KIND_LOAD:
        add(story, i, "loaded to device page", NONE, value + at, there);
        begin_copy(story, i, "load has ended", "load failed");
        break;
    case PL_KIND_STORE:
        add(story, i, "stored at storage page", node, NONE, there);
        begin_copy(story, i, "copy is on storage", "copy to storage failed");
        break;
    case PL_KIND_HOST_FREE:
        add(story, i, "freed", NONE, NONE, NONE);
        break;
    default:
        break;
    }
}

/* Does the event name the tier's pages in its second list? */
static bool is_other(const story_t *story, pl_kind_t kind)
{
    return (story->tier == PL_TIER_HOST) &&
           ((kind == PL_KIND_BACKUP) || (kind == PL_KIND_LOAD) ||
            (kind == PL_KIND_STORE));
}

static bool is_of_tier(const story_t *story, pl_kind_t kind)
{
    bool both = (kind == PL_KIND_BACKUP) || (kind == PL_KIND_LOAD);
    bool host = both || (kind == PL_KIND_FETCH) ||
                (kind == PL_KIND_HOST_NODE) || (kind == PL_KIND_STORE) ||
                (kind == PL_KIND_HOST_FREE);
    bool device = both || (kind == PL_KIND_ALLOC) || (kind == PL_KIND_CHUNK) ||
                  (kind == PL_KIND_NODE) || (kind == PL_KIND_ADOPT) ||
                  (kind == PL_KIND_SEND) || (kind == PL_KIND_FREE);

    return story->tier == PL_TIER_HOST ? host : device;
}

static void list_event(story_t *story, size_t i)
{
    const pl_events_t *events = &story->events;
    pl_kind_t kind            = pl_event_kind(events, i);
    size_t n;
    const int64_t *pages = pl_event_pages(events, i, &n);
    int64_t at           = NONE;

    if (is_of_tier(story, kind)) {
        at = find(story,
                  is_other(story, kind) ? pl_event_other(events, i) : pages, n);
    }
    if ((at != NONE) && (story->tier == PL_TIER_HOST)) {
        host_event(story, i, at);
    } else if (at != NONE) {
        device_event(story, i, at);
    }
    if ((kind == PL_KIND_BACKED_UP) || (kind == PL_KIND_LOADED) ||
        (kind == PL_KIND_SENT) || (kind == PL_KIND_FETCHED) ||
        (kind == PL_KIND_STORED)) {
        end_copy(story, i);
    }
}

/* Where a node has the page; NONE: it has not. */
static int64_t place_in_node(story_t *story, int64_t id)
{
    pl_replay_node_t *node = pl_replay_find(&story->replay, id);

    return node == NULL
               ? NONE
               : find(story, node->pages[story->tier], (size_t)node->n);
}

static void node_event_before(story_t *story, size_t i)
{
    pl_kind_t kind = pl_event_kind(&story->events, i);
    pl_kind_t loses =
        story->tier == PL_TIER_HOST ? PL_KIND_HOST_DROP : PL_KIND_EVICT;
    int64_t id = pl_event_at(&story->events, PL_FIELD_NODE, i);

    if ((kind == loses) && (place_in_node(story, id) != NONE)) {
        add(story, i, story->tier == PL_TIER_HOST ? "dropped" : "evicted", id,
            NONE, NONE);
    }
}

static void node_event_after(story_t *story, size_t i)
{
    pl_kind_t kind = pl_event_kind(&story->events, i);
    int64_t id     = pl_event_at(&story->events, PL_FIELD_NODE, i);

    if (kind == PL_KIND_SPLIT) {
        id = pl_event_at(&story->events, PL_FIELD_VALUE, i);
    }
    if (((kind == PL_KIND_SPLIT) ||
         ((kind == PL_KIND_LOAD_NODE) && (story->tier == PL_TIER_DEVICE))) &&
        (place_in_node(story, id) != NONE)) {
        add(story, i,
            kind == PL_KIND_SPLIT ? "node split, now in" : "taken by a node",
            id, NONE, NONE);
    }
}

static pl_status_t tell(story_t *story)
{
    story->replay.events = &story->events;
    for (size_t i = 0; (i < story->events.n) && (story->status == PL_OK); i++) {
        node_event_before(story, i);
        list_event(story, i);
        PL_TRY(pl_replay_step(&story->replay, i));
        node_event_after(story, i);
    }
    return story->status;
}

/* ---- printing ---- */

static void optional_cell(pl_table_t *table, int64_t value)
{
    if (value == NONE) {
        pl_table_cell(table, "%s", "");
    } else {
        pl_table_cell(table, "%" PRId64, value);
    }
}

static const char *tier_name(const story_t *story)
{
    return story->tier == PL_TIER_HOST ? "host" : "device";
}

static bool is_reserved(const story_t *story)
{
    int64_t slot = story->page / story->layout.n_lanes;

    return slot < (story->tier == PL_TIER_HOST ? story->layout.host_reserved
                                               : story->layout.device_reserved);
}

static pl_status_t print_table(const story_t *story)
{
    pl_table_t *table =
        pl_table_open("life>,tick>,virtual ms>,what<,other page>,request>,"
                      "node>,page of prompt>");
    pl_status_t status;

    printf("%s page %" PRId64 ": lane %" PRId64 ", slot %" PRId64 "; ",
           tier_name(story), story->page, story->page % story->layout.n_lanes,
           story->page / story->layout.n_lanes);
    if (is_reserved(story)) {
        printf("scratch, never handed out\n\n");
    } else {
        printf("taken %" PRId64 " time%s\n\n", story->life,
               pl_text_s(story->life));
    }
    for (size_t i = 0; i < story->moments.n; i++) {
        const moment_t *m = &story->moments.items[i];

        pl_table_cell(table, "%" PRId64, m->life);
        pl_table_cell(table, "%" PRId64,
                      pl_event_at(&story->events, PL_FIELD_TICK, m->event));
        pl_table_cell(
            table, "%.3f",
            (double)pl_event_at(&story->events, PL_FIELD_TIME, m->event) / 1e6);
        pl_table_cell(table, "%s", m->what);
        optional_cell(table, m->other);
        optional_cell(table,
                      pl_event_at(&story->events, PL_FIELD_REQUEST, m->event));
        optional_cell(table, m->node);
        optional_cell(table, m->prompt_page);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static json_object *moment_json(const story_t *story, const moment_t *m)
{
    const pl_events_t *events = &story->events;
    json_object *object       = json_object_new_object();

    pl_json_integer(object, "life", m->life);
    pl_json_integer(object, "event", (int64_t)m->event);
    pl_json_integer(object, "tick",
                    pl_event_at(events, PL_FIELD_TICK, m->event));
    pl_json_integer(object, "time_ns",
                    pl_event_at(events, PL_FIELD_TIME, m->event));
    pl_json_text(object, "kind", pl_event_name(events, m->event));
    pl_json_text(object, "what", m->what);
    pl_json_integer(object, "request",
                    pl_event_at(events, PL_FIELD_REQUEST, m->event));
    pl_json_integer(object, "node", m->node);
    pl_json_integer(object, "prompt_page", m->prompt_page);
    pl_json_integer(object, "other_page", m->other);
    return object;
}

static pl_status_t print_json(const story_t *story)
{
    json_object *object = json_object_new_object();
    json_object *array  = json_object_new_array();

    pl_json_text(object, "tier", tier_name(story));
    pl_json_integer(object, "page", story->page);
    pl_json_integer(object, "lane", story->page % story->layout.n_lanes);
    pl_json_integer(object, "slot", story->page / story->layout.n_lanes);
    pl_json_integer(object, "lives", story->life);
    for (size_t i = 0; i < story->moments.n; i++) {
        json_object_array_add(array,
                              moment_json(story, &story->moments.items[i]));
    }
    json_object_object_add(object, "moments", array);
    return pl_json_print(object, stdout);
}

static pl_status_t load_and_tell(const pl_inspect_t *inspect, story_t *story)
{
    const pl_inspect_layout_t *l = &story->layout;
    int64_t pages;

    PL_TRY(pl_inspect_layout(inspect->snapshot, &story->layout));
    pages = story->tier == PL_TIER_HOST ? l->host_pages : l->device_pages;
    if (pages == 0) {
        return pl_snapshot_refuse(inspect->snapshot, "/layout/host_pages",
                                  "the run had no host tier");
    }
    PL_TRY(pl_inspect_number(inspect, 2, "page", l->n_lanes * pages - 1,
                             &story->page));
    PL_TRY(pl_events_load(inspect->snapshot, "inspect page", true,
                          &story->events));
    return tell(story);
}

pl_status_t pl_inspect_page(const pl_inspect_t *inspect)
{
    story_t story      = {.tier = inspect->cli->options.tier == PL_OPT_TIER_HOST
                                      ? PL_TIER_HOST
                                      : PL_TIER_DEVICE};
    pl_status_t status = load_and_tell(inspect, &story);

    if (status == PL_OK) {
        status = inspect->json ? print_json(&story) : print_table(&story);
    }
    pl_replay_free(&story.replay);
    pl_events_free(&story.events);
    PL_ARRAY_FREE(&story.moments);
    PL_ARRAY_FREE(&story.copies);
    return status;
}
