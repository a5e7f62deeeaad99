/* cli/events.h - the events of a snapshot, and where nodes and their pages are
 * while they are played back.
 *
 * Kinds are told by the names in the file; those that this program does not
 * know are PL_KIND_OTHER and change nothing here.  What an event says stands in
 * docs/schema.md.
 */
#ifndef PL_CLI_EVENTS_H
#define PL_CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "store/reader.h"

#define PL_KIND_LIST(X)                                                        \
    X(ARRIVE, "arrive")                                                        \
    X(ADMIT, "admit")                                                          \
    X(CHUNK, "chunk")                                                          \
    X(FINISH, "finish")                                                        \
    X(ALLOC, "alloc")                                                          \
    X(FREE, "free")                                                            \
    X(NODE, "node")                                                            \
    X(HOST_NODE, "host_node")                                                  \
    X(SPLIT, "split")                                                          \
    X(ADOPT, "adopt")                                                          \
    X(EVICT, "evict")                                                          \
    X(REMOVE, "remove")                                                        \
    X(BACKUP, "backup")                                                        \
    X(BACKED_UP, "backed_up")                                                  \
    X(BACKUP_SKIP, "backup_skip")                                              \
    X(HOST_DROP, "host_drop")                                                  \
    X(HOST_FREE, "host_free")                                                  \
    X(LOAD, "load")                                                            \
    X(LOAD_NODE, "load_node")                                                  \
    X(LOADED, "loaded")                                                        \
    X(FETCH, "fetch")                                                          \
    X(FETCHED, "fetched")                                                      \
    X(STORE, "store")                                                          \
    X(STORED, "stored")                                                        \
    X(SEND, "send")                                                            \
    X(SENT, "sent")                                                            \
    X(REENTER, "reenter")

typedef enum pl_kind {
    PL_KIND_OTHER,
#define PL_KIND_ENUM(name, text) PL_KIND_##name,
    PL_KIND_LIST(PL_KIND_ENUM)
#undef PL_KIND_ENUM
        PL_KINDS
} pl_kind_t;

typedef enum pl_event_field {
    PL_FIELD_TICK,
    PL_FIELD_TIME,
    PL_FIELD_KIND,
    PL_FIELD_REQUEST,
    PL_FIELD_NODE,
    PL_FIELD_OP,
    PL_FIELD_VALUE,
    PL_FIELD_VALUE2,
    PL_EVENT_FIELDS
} pl_event_field_t;

typedef struct pl_events {
    size_t n;
    pl_snapshot_column_t fields[PL_EVENT_FIELDS];
    pl_snapshot_column_t pages, pages_offset, other, other_offset;
    pl_snapshot_texts_t names; /* of the file's kinds */
    pl_kind_t *kinds;          /* [names.n] what they mean */
    int64_t n_dropped, first_tick;
} pl_events_t;

/* Read /events.  A file without, or (`whole`) without the first ones, is
 * refused with one line; `who` says who wants them: "inspect why". */
PL_MUST_CHECK pl_status_t pl_events_load(const pl_snapshot_t *snapshot,
                                         const char *who, bool whole,
                                         pl_events_t *events);
void pl_events_free(pl_events_t *events); /* zeroed before a load is fine */

static inline int64_t pl_event_at(const pl_events_t *events,
                                  pl_event_field_t field, size_t i)
{
    return events->fields[field].items[i];
}

static inline pl_kind_t pl_event_kind(const pl_events_t *events, size_t i)
{
    return events->kinds[events->fields[PL_FIELD_KIND].items[i]];
}

static inline const char *pl_event_name(const pl_events_t *events, size_t i)
{
    return pl_snapshot_text_at(&events->names,
                               (size_t)events->fields[PL_FIELD_KIND].items[i]);
}

const int64_t *pl_event_pages(const pl_events_t *events, size_t i, size_t *n_p);
/* NULL if there is none. */
const int64_t *pl_event_other(const pl_events_t *events, size_t i);

/* ---- playing back ---- */

/* Tiers that nodes hold pages of. */
enum { PL_TIER_DEVICE, PL_TIER_HOST, PL_NODE_TIERS };

/* A node; pages point into the events. */
typedef struct pl_replay_node {
    int64_t id;
    int64_t first, n; /* pages of the prompt that made it */
    int64_t request;  /* whose prompt; -1: nobody's of this run */
    const int64_t *pages[PL_NODE_TIERS]; /* [n], or NULL: none there */
    int64_t write_op; /* of the backup that made the host copy */
} pl_replay_node_t;

/* A load that hands its pages out to nodes. */
typedef struct pl_replay_load {
    int64_t op;
    const int64_t *pages;
    size_t n;
} pl_replay_load_t;

typedef struct pl_replay {
    const pl_events_t *events;
    PL_ARRAY(pl_replay_node_t) nodes; /* ascending ids; removed ones stay */
    PL_ARRAY(pl_replay_load_t) loads;
} pl_replay_t;

/* Zeroed but for `events` is the state before the first event.  Events come in
 * order, each once.  After the call nodes stand as event i left them (a node
 * that it removed still says what it was).  A file whose events contradict each
 * other is not followed: what does not fit is passed over.  PL_OK,
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_replay_step(pl_replay_t *replay, size_t i);
void pl_replay_free(pl_replay_t *replay);

/* NULL: there never was one. */
pl_replay_node_t *pl_replay_find(pl_replay_t *replay, int64_t id);

#endif /* PL_CLI_EVENTS_H */
