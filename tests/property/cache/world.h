/* property/cache/world.h - a cache in use, its mirror, and a model of it.
 *
 * Two caches get the same calls.  The model is plain: what is written in which
 * page.  A page's content is the chain hash of the prefix it was computed for;
 * a rank's memory is the pages of its lane, and in a copy each rank moves what
 * the recorded owners call its own, so a copy into another rank's lane moves
 * nothing.  Every page that the tree shows must hold what its place says.
 */
#ifndef PROPERTY_CACHE_WORLD_H
#define PROPERTY_CACHE_WORLD_H

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/rng.h"
#include "cache/hicache.h"
#include "property/cache/replay.h"
#include "support/log_capture.h"

enum {
    SIDES      = 2, /* the cache and its mirror */
    MOST_PAGES = 14,
    REQUESTS   = 4,
    COPIES     = 64,
    FORESEEN   = 4096, /* prompts that a policy may know of */
    PLACES     = 2048  /* of the table by chain; a power of two */
};

/* Check writes a file for each assertion: too slow for millions of them. */
#define LAW(w, condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg("%s (PL_TEST_SEED=%" PRIu64 ", world %d, step %d, "   \
                         "C %d) %s",                                           \
                         #condition, (w)->seed, (w)->number, (w)->step,        \
                         (w)->params.n_lanes, (w)->said.text);                 \
        }                                                                      \
    } while (0)

typedef struct request {
    bool used;
    uint64_t name_space;
    int n; /* pages of the prompt */
    pl_page_key_t keys[MOST_PAGES];
    uint64_t chains[MOST_PAGES];
    pl_match_t match[SIDES]; /* while it waits for a load */
    pl_node_t *node[SIDES];  /* locked, when it does not */
    int n_done;
    pl_page_t pages[MOST_PAGES]; /* of its path so far: nobody may move them */
    int n_chunk;                 /* while it waits for a chunk's pages */
    pl_owner_t owners[MOST_PAGES];
} request_t;

typedef struct copy {
    int64_t op;
    bool load, write_back;
    int32_t n;
    pl_page_t device[MOST_PAGES], host[MOST_PAGES];
    pl_owner_t owners[MOST_PAGES];
} copy_t;

typedef struct place {
    uint64_t chain; /* 0: free */
    pl_page_t host; /* PL_NO_PAGE: no host copy */
    pl_owner_t owner;
} place_t;

/* One of the two caches. */
typedef struct side {
    struct world *world;
    int index;
    pl_hicache_t *cache;
    int64_t next_op;
    uint64_t events; /* a hash of all so far */
    pl_inject_t inject;
} side_t;

typedef struct world {
    uint64_t seed;
    int number, step;
    pl_rng_t rng;
    log_capture_t said;
    pl_hicache_params_t params;
    side_t sides[SIDES];
    replay_t replay; /* of the first side */

    pl_future_t *future; /* NULL: the policy does not foresee */
    int n_prompts;       /* so far */
    request_t requests[REQUESTS];
    request_t *blocked; /* waits for write-backs: nobody else goes on */
    copy_t copies[COPIES];
    int n_copies;

    uint64_t in_device[REPLAY_PAGES]; /* the chain hash written there */
    uint64_t in_host[REPLAY_PAGES];
    place_t
        places[PLACES]; /* where each prefix's page was after the last step */

    int64_t n_waits, n_orphans, n_cancels, n_misses, n_resets;
} world_t;

void world_open(world_t *w, uint64_t seed, int number,
                pl_hicache_params_t params);
void world_step(world_t *w);
/* Let everything end and look that nothing is left. */
void world_close(world_t *w);

#endif /* PROPERTY_CACHE_WORLD_H */
