/* property/cache/policy_model.h - a prefix cache of one lane and one tier, with
 * each policy as its paper has it: queues are arrays, victims are searched for.
 *
 * Nothing of it is fast and nothing is shared with the cache.  Nodes lie in an
 * array; `older` orders two of them in a queue.
 */
#ifndef PROPERTY_CACHE_POLICY_MODEL_H
#define PROPERTY_CACHE_POLICY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MODEL_PAGES  = 16,  /* of a prompt at most */
    MODEL_NODES  = 256, /* at a time */
    MODEL_GHOSTS = 512,
    MODEL_ROOT   = 0
};

typedef enum model_policy {
    MODEL_LRU,
    MODEL_LFU,
    MODEL_SLRU,
    MODEL_FIFO,
    MODEL_S3FIFO,
    MODEL_SIEVE
} model_policy_t;

typedef struct model_node {
    bool used;
    int64_t id;
    int parent; /* index; MODEL_ROOT is the root */
    int n;
    uint64_t words[MODEL_PAGES]; /* its pages */
    uint64_t first;              /* names the prefix up to its first page */
    int n_locks;
    int64_t hits, last_access;
    bool is_new; /* the passage of the prompt that brought it is to come */
    int queue;   /* 0: probation, small; 1: protected, main */
    int64_t place;
    int uses;
} model_node_t;

typedef struct model {
    model_policy_t policy;
    int capacity, n_free;
    model_node_t nodes[MODEL_NODES];
    int64_t next_id, clock, places;
    struct {
        uint64_t first;
        int n;
    } ghosts[MODEL_GHOSTS]; /* oldest first */
    int n_ghosts;
    int64_t hand_place, hand_id; /* SIEVE: what stands after it comes next */
} model_t;

void model_open(model_t *m, model_policy_t policy, int capacity);
/* How many of the words are cached; *node_p is where they end, cut there. */
int model_match(model_t *m, const uint64_t *words, int n, int *node_p);
/* The same without a trace. */
int model_peek(const model_t *m, const uint64_t *words, int n);
/* Room for n pages, evicting if need be; false: there is none. */
bool model_extend(model_t *m, int n);
/* Put words below `at`, which pages from model_extend are for; the new node. */
int model_insert(model_t *m, int at, const uint64_t *words, int n);
void model_lock(model_t *m, int node, int by);
/* A prompt that ends in `node` has passed. */
void model_done(model_t *m, int node);

#endif /* PROPERTY_CACHE_POLICY_MODEL_H */
