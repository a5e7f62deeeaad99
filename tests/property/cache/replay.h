/* property/cache/replay.h - the state of a cache, rebuilt from its events
 * alone.
 *
 * Knows nothing of trees or policies: it takes one event after the other, moves
 * pages between lanes, requests and nodes as the event says, and keeps the
 * first thing that cannot be (a page given out twice, freed while a node holds
 * it, a copy of other pages than the node's).  replay_compare holds it against
 * the cache.
 */
#ifndef PROPERTY_CACHE_REPLAY_H
#define PROPERTY_CACHE_REPLAY_H

#include "cache/hicache.h"

enum {
    REPLAY_NODES = 512,
    REPLAY_PAGES = 1024, /* of a tier */
    REPLAY_RUN   = 64,   /* pages of a node or a copy */
    REPLAY_LOADS = 64
};

typedef struct replay_node {
    int64_t id, parent;
    int32_t first_page, n;
    bool on_device, on_host;
    int64_t op; /* of the backup under way */
    pl_page_t device[REPLAY_RUN], host[REPLAY_RUN];
} replay_node_t;

typedef struct replay {
    int n_lanes;
    bool used[2][REPLAY_PAGES]; /* by tier: PL_TREE_DEVICE, PL_TREE_HOST */
    replay_node_t nodes[REPLAY_NODES];
    int n_nodes;
    struct replay_load {
        int64_t op;
        int32_t n, next;
        pl_page_t device[REPLAY_RUN], host[REPLAY_RUN];
    } loads[REPLAY_LOADS];
    int n_loads;
    const char *fault; /* the first thing that cannot be, or NULL */
} replay_t;

void replay_open(replay_t *replay, int n_lanes);
void replay_take(replay_t *replay, const pl_event_t *event);
/* The first difference, or NULL. */
const char *replay_compare(replay_t *replay, const pl_hicache_t *cache);

#endif /* PROPERTY_CACHE_REPLAY_H */
