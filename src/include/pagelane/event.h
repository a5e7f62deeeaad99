/* pagelane/event.h - what happened, in order: enough to rebuild every tier.
 *
 * The control plane reports each change as one event.  Who replays them needs
 * nothing else to know, at any moment, which pages are free, who owns what, and
 * where a node's pages lie (tests/replay_events.py does so).  Pages are logical
 * pages of the tier named in the comment; owner = page mod lanes.
 */
#ifndef PAGELANE_EVENT_H
#define PAGELANE_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <pagelane/layout.h>

/* name, text in files, what the fields say:
 *   pages: pages of the tier;  other: a second list of the same length. */
#define PL_EVENT_LIST(X)                                                       \
    /* requests */                                                             \
    X(PL_EVENT_ARRIVE, "arrive")     /* request; value: prompt tokens */       \
    X(PL_EVENT_ADMIT, "admit")       /* request, value: device-hit tokens,     \
                                        value2: host-hit tokens */             \
    X(PL_EVENT_CUT, "cut")           /* request; value: pages cut off the hit */ \
    X(PL_EVENT_CHUNK, "chunk")       /* op, request; value: first token,       \
                                        value2: tokens; pages: all of the      \
                                        chunk's */                             \
    X(PL_EVENT_FINISH, "finish")     /* request; value: 0 good, 1 failed */    \
    /* device tier */                                                          \
    X(PL_EVENT_ALLOC, "alloc")       /* pages leave the lanes; request */      \
    X(PL_EVENT_FREE, "free")         /* pages go back to the lanes */          \
    X(PL_EVENT_DEFICIT, "deficit")   /* request or node; value: lanes short,   \
                                        value2: pages short; one per attempt */ \
    X(PL_EVENT_RETRY, "retry")       /* value: 1 the retry succeeded, else 0 */ \
    /* nodes */                                                                \
    X(PL_EVENT_NODE, "node")         /* node; value: parent id, value2: first  \
                                        page; pages: its device pages */       \
    X(PL_EVENT_SPLIT, "split")       /* node; value: id of the new head, value2: \
                                        pages that went to the head, which is  \
                                        now the node's parent */               \
    X(PL_EVENT_ADOPT, "adopt")       /* node without device pages takes pages */ \
    X(PL_EVENT_EVICT, "evict")       /* node loses its device pages (a free    \
                                        event follows when they are free) */   \
    X(PL_EVENT_REMOVE, "remove")     /* node leaves the tree */                \
    /* host tier */                                                            \
    X(PL_EVENT_BACKUP, "backup")     /* node, op; pages: device, other: host   \
                                        pages, which leave the host lanes and  \
                                        are the node's host copy from now on */ \
    X(PL_EVENT_BACKED_UP, "backed_up") /* node, op; value: 1 good, 0 failed or \
                                        cancelled: no node that the operation  \
                                        was about has a host copy (a host_free \
                                        follows) */                            \
    X(PL_EVENT_BACKUP_SKIP, "backup_skip") /* node; value: pages; no room */   \
    X(PL_EVENT_HOST_DROP, "host_drop") /* node loses its host copy */          \
    X(PL_EVENT_HOST_FREE, "host_free") /* pages go back to the host lanes */   \
    X(PL_EVENT_LOAD, "load")         /* op, request; value: first page; pages: \
                                        device, other: host */                 \
    X(PL_EVENT_LOAD_NODE, "load_node") /* node, op: takes the next pages of    \
                                        the load */                            \
    X(PL_EVENT_LOADED, "loaded")     /* op; value: 1 good, 0 failed or         \
                                        cancelled: its request waits again */  \
    /* storage tier; its pages are those of the set that the run writes */     \
    X(PL_EVENT_STORE, "store")       /* node, op; value: first page; pages:    \
                                        storage, other: host */                \
    X(PL_EVENT_STORED, "stored")     /* op; value: 1 good, 0 failed or         \
                                        cancelled: its storage pages are free */ \
    X(PL_EVENT_STORE_SKIP, "store_skip") /* node; value: pages; no room */     \
    X(PL_EVENT_FETCH, "fetch")       /* op, request; value: first page; pages: \
                                        host, which leave the host lanes */    \
    X(PL_EVENT_FETCHED, "fetched")   /* op, request; value: pages that arrived; \
                                        a host_node takes some of its pages,   \
                                        a host_free follows for the others */  \
    X(PL_EVENT_HOST_NODE, "host_node") /* node is new and has a host copy only; \
                                        value: parent id, value2: first page;  \
                                        pages: host, of a fetch */             \
    X(PL_EVENT_STORAGE_DROP, "storage_drop") /* value: pages dropped; pages:   \
                                        those of the own set among them, free  \
                                        when a publication has ended */        \
    X(PL_EVENT_PUBLISH, "publish")   /* op; value: pages named */              \
    X(PL_EVENT_PUBLISHED, "published") /* op; value: 1 good, 0 failed; pages:  \
                                        storage, free now */                   \
    /* decode pools: value is the home rank */                                 \
    X(PL_EVENT_DECODE_ALLOC, "decode_alloc") /* request, pages; the first one of \
                                        an admission ends the waiting */       \
    X(PL_EVENT_DECODE_FREE, "decode_free")   /* request, pages */              \
    X(PL_EVENT_SEND, "send")         /* op, request; pages: device, other:     \
                                        decode pages; value2: first page */    \
    X(PL_EVENT_SENT, "sent")         /* op, request; value: 1 good, 0 failed */ \
    X(PL_EVENT_START, "start")       /* request decodes on its home */         \
    X(PL_EVENT_OFFLOAD, "offload")   /* op, request; pages: decode, other:     \
                                        decode host pages */                   \
    X(PL_EVENT_OFFLOADED, "offloaded") /* op, request; value: 1 good, 0 failed: \
                                          its host pages are free again */     \
    X(PL_EVENT_RESUME, "resume")     /* op, request; pages: decode, other:     \
                                        decode host pages */                   \
    X(PL_EVENT_RESUMED, "resumed")   /* op, request; value: 1 good: its host   \
                                        pages are free again, 0 failed */      \
    X(PL_EVENT_REENTER, "reenter")   /* request; value2: its new prompt tokens */

typedef enum pl_event_kind {
#define PL_EVENT_ENUM(name, text) name,
    PL_EVENT_LIST(PL_EVENT_ENUM)
#undef PL_EVENT_ENUM
    PL_EVENT_KINDS
} pl_event_kind_t;

typedef struct pl_event {
    pl_event_kind_t kind;
    int64_t tick;     /* filled in by the engine */
    int64_t time_ns;  /* virtual; filled in by the engine */
    int32_t request;  /* -1: none */
    int64_t node;     /* -1: none */
    int64_t op;       /* 0: none */
    int64_t value, value2;
    const pl_page_t *pages; /* [n_pages], borrowed for the call */
    const pl_page_t *other; /* [n_pages] or NULL */
    int32_t n_pages;
} pl_event_t;

/* An event with no request, node, op or pages. */
static inline pl_event_t pl_event_make(pl_event_kind_t kind)
{
    pl_event_t event; /* = {0} is no C++ where an enum comes first */

    memset(&event, 0, sizeof(event));
    event.kind    = kind;
    event.request = -1;
    event.node    = -1;
    return event;
}

/* Where events go; `take` may be NULL. */
typedef struct pl_event_sink {
    void (*take)(void *context, const pl_event_t *event);
    void *context;
} pl_event_sink_t;

static inline void pl_event_emit(const pl_event_sink_t *sink,
                                 const pl_event_t *event)
{
    if (sink->take != NULL) {
        sink->take(sink->context, event);
    }
}

#endif /* PAGELANE_EVENT_H */
