/* Each policy against a slow model of it, and belady against MIN.
 *
 * Laws, after every prompt: the same pages are cached by the cache and by the
 * model (so nothing in use was evicted), the same are free; a mirror with the
 * same calls has the same state; the cache's own check passes.  Belady, where
 * it is exact (one lane, one tier, one prompt at a time), hits as many pages as
 * MIN over single pages, and no policy hits more.  Lane-aware picks what a
 * search over all leaves picks.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cache/hicache.h"
#include "cache/tree_internal.h"
#include "property/cache/policy_model.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/seed.h"

enum {
    SIDES     = 2,
    N_PROMPTS = 1500,
    N_KNOWN   = 60, /* different prompts */
    N_HOLDERS = 3,
    CHUNK     = 5
};

#define LAW(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg("%s: %s (PL_TEST_SEED=%" PRIu64 ", prompt %d) %s",    \
                         policy_name, #condition, seed, at_prompt, said.text); \
        }                                                                      \
    } while (0)

static const char *policy_name;
static uint64_t seed;
static int at_prompt;
static log_capture_t said;

typedef struct prompt {
    int n;
    uint64_t words[MODEL_PAGES];
    pl_page_key_t keys[MODEL_PAGES];
} prompt_t;

static prompt_t known[N_KNOWN];
static int order[N_PROMPTS];

/* Prompts share prefixes; few of them come often. */
static void make_prompts(pl_rng_t *rng)
{
    for (int k = 0; k < N_KNOWN; k++) {
        known[k].n = 1 + (int)pl_rng_below(rng, MODEL_PAGES);
        for (int i = 0; i < known[k].n; i++) {
            uint64_t word =
                pl_rng_below(rng, 100) < 60 ? 0 : pl_rng_below(rng, 4);

            known[k].words[i] = word;
            known[k].keys[i]  = (pl_page_key_t){word, (uint64_t)i};
        }
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        uint64_t among = pl_rng_below(rng, 100) < 50 ? 8 : N_KNOWN;

        order[i] = (int)pl_rng_below(rng, among);
    }
}

static int64_t no_copy(void *context, const pl_hicache_copy_t *copy)
{
    (void)context;
    (void)copy;
    return 0;
}

static pl_hicache_t *open_cache(const pl_policy_ops_t *policy, int capacity,
                                const pl_future_t *future)
{
    const pl_hicache_params_t params = {
        .page_tokens  = 16,
        .n_lanes      = 1,
        .device_pages = capacity + 1,
        .policy       = policy,
        .future       = future,
        .copy         = no_copy,
    };
    pl_hicache_t *cache;

    LAW(pl_hicache_open(&params, &said.log, &cache) == PL_OK);
    return cache;
}

/* ---- a prompt ---- */

static pl_match_t match(pl_hicache_t *cache, const prompt_t *prompt)
{
    pl_match_t found;
    int32_t below;

    LAW(pl_hicache_match(cache, 0, prompt->keys, prompt->n, &found, &below) ==
        PL_OK);
    pl_hicache_lock(cache, found.device);
    return found;
}

/* The next chunk, or false: everything is in use. */
static bool add_chunk(pl_hicache_t *cache, const prompt_t *prompt, int from,
                      int n, pl_node_t **node_p)
{
    static const pl_owner_t owners[MODEL_PAGES] = {0};
    pl_page_t pages[MODEL_PAGES];
    pl_hicache_try_t attempt;
    pl_node_t *last;
    pl_status_t status = pl_hicache_extend(cache, owners, n, pages, &attempt);

    LAW((status == PL_OK) || (status == PL_REFUSED_SHORT));
    if (status != PL_OK) {
        return false;
    }
    LAW(pl_hicache_insert(cache, *node_p, 0, prompt->keys + from, n, pages,
                          &last) == PL_OK);
    pl_hicache_lock(cache, last);
    pl_hicache_unlock(cache, *node_p);
    *node_p = last;
    return true;
}

static int chunk_at(const prompt_t *prompt, int from)
{
    return prompt->n - from < CHUNK ? prompt->n - from : CHUNK;
}

/* All of it, alone; pages hit. */
static int pass_alone(pl_hicache_t *cache, const prompt_t *prompt)
{
    pl_match_t found = match(cache, prompt);
    pl_node_t *node  = found.device;

    pl_hicache_passed(cache, at_prompt, 0, prompt->keys, prompt->n);
    for (int from = found.n_device; from < prompt->n;
         from += chunk_at(prompt, from)) {
        LAW(add_chunk(cache, prompt, from, chunk_at(prompt, from), &node));
    }
    LAW(pl_hicache_prompt_done(cache, node) == PL_OK);
    pl_hicache_unlock(cache, node);
    return found.n_device;
}

/* ---- against the model ---- */

typedef struct trial {
    pl_hicache_t *caches[SIDES];
    model_t model;
    struct {
        pl_node_t *nodes[SIDES]; /* NULL: nobody */
        int node;                /* of the model */
    } holders[N_HOLDERS];
    int64_t n_hit, n_refused;
} trial_t;

static void let_go(trial_t *t, int k)
{
    if (t->holders[k].nodes[0] != NULL) {
        for (int s = 0; s < SIDES; s++) {
            pl_hicache_unlock(t->caches[s], t->holders[k].nodes[s]);
            t->holders[k].nodes[s] = NULL;
        }
        model_lock(&t->model, t->holders[k].node, -1);
    }
}

static void pass(trial_t *t, const prompt_t *prompt, int holder)
{
    pl_node_t *nodes[SIDES];
    int node;
    int n     = model_match(&t->model, prompt->words, prompt->n, &node);
    bool good = true;

    model_lock(&t->model, node, 1);
    t->n_hit += n;
    for (int s = 0; s < SIDES; s++) {
        pl_match_t found = match(t->caches[s], prompt);

        LAW(found.n_device == n);
        nodes[s] = found.device;
    }
    while (good && (n < prompt->n)) {
        int chunk = chunk_at(prompt, n);

        good = model_extend(&t->model, chunk);
        for (int s = 0; s < SIDES; s++) {
            LAW(add_chunk(t->caches[s], prompt, n, chunk, &nodes[s]) == good);
        }
        if (good) {
            int next = model_insert(&t->model, node, prompt->words + n, chunk);

            model_lock(&t->model, next, 1);
            model_lock(&t->model, node, -1);
            node = next;
            n += chunk;
        }
    }
    t->n_refused += good ? 0 : 1;
    for (int s = 0; s < SIDES; s++) {
        LAW(!good || (pl_hicache_prompt_done(t->caches[s], nodes[s]) == PL_OK));
        t->holders[holder].nodes[s] = nodes[s];
    }
    if (good) {
        model_done(&t->model, node);
    }
    t->holders[holder].node = node;
}

static void compare(const trial_t *t)
{
    LAW(pl_lanes_free_count(pl_hicache_device(t->caches[0]), 0) ==
        t->model.n_free);
    for (int k = 0; k < N_KNOWN; k++) {
        int32_t device;
        int32_t total;

        pl_tree_peek(pl_hicache_tree(t->caches[0]), 0, known[k].keys,
                     known[k].n, &device, &total);
        LAW(device == model_peek(&t->model, known[k].words, known[k].n));
    }
    LAW(pl_hicache_state_hash(t->caches[0]) ==
        pl_hicache_state_hash(t->caches[1]));
    for (int s = 0; s < SIDES; s++) {
        LAW(pl_hicache_check(t->caches[s], NULL) == PL_OK);
    }
}

static void try_policy(const pl_policy_ops_t *policy, model_policy_t model,
                       int capacity, pl_rng_t *rng)
{
    static trial_t t;

    memset(&t, 0, sizeof(t));
    policy_name = policy->name;
    make_prompts(rng);
    model_open(&t.model, model, capacity);
    for (int s = 0; s < SIDES; s++) {
        t.caches[s] = open_cache(policy, capacity, NULL);
    }
    for (at_prompt = 0; at_prompt < N_PROMPTS; at_prompt++) {
        int holder = (int)pl_rng_below(rng, N_HOLDERS);

        let_go(&t, holder);
        pass(&t, &known[order[at_prompt]], holder);
        if (pl_rng_below(rng, 100) < 60) {
            let_go(&t, holder);
        }
        compare(&t);
    }
    LAW(pl_hicache_counters(t.caches[0])->evictions > 100);
    LAW(t.n_hit > 500);
    printf("%-7s %2d pages: %5" PRId64 " hit, %" PRId64 " evicted, %" PRId64
           " prompts refused\n",
           policy_name, capacity, t.n_hit,
           pl_hicache_counters(t.caches[0])->evicted_pages, t.n_refused);
    for (int k = 0; k < N_HOLDERS; k++) {
        let_go(&t, k);
    }
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_close(t.caches[s]);
    }
}

START_TEST(each_policy_is_as_its_paper_says)
{
    static const struct {
        const pl_policy_ops_t *policy;
        model_policy_t model;
    } pairs[] = {
        {&pl_policy_lru, MODEL_LRU},       {&pl_policy_lfu, MODEL_LFU},
        {&pl_policy_slru, MODEL_SLRU},     {&pl_policy_fifo, MODEL_FIFO},
        {&pl_policy_s3fifo, MODEL_S3FIFO}, {&pl_policy_sieve, MODEL_SIEVE},
    };
    static const int capacities[] = {20, 45, 90};
    pl_rng_t rng;

    seed = pl_test_seed("property_policies");
    rng  = pl_rng_seed(seed);
    log_capture_open(&said);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        for (size_t c = 0; c < sizeof(capacities) / sizeof(*capacities); c++) {
            try_policy(pairs[i].policy, pairs[i].model, capacities[c], &rng);
        }
    }
    log_capture_close(&said);
}
END_TEST

/* ---- belady ---- */

/* A page is a prefix: prompt k's page i, by the first prompt that has it. */
typedef struct min_page {
    int prompt, i;
    bool is_cached;
} min_page_t;

static bool has_page(const prompt_t *prompt, const min_page_t *page)
{
    return (prompt->n > page->i) &&
           (memcmp(prompt->words, known[page->prompt].words,
                   (size_t)(page->i + 1) * sizeof(*prompt->words)) == 0);
}

static int find_pages(min_page_t *pages)
{
    int n = 0;

    for (int k = 0; k < N_KNOWN; k++) {
        for (int i = 0; i < known[k].n; i++) {
            min_page_t page = {k, i, false};
            bool is_new     = true;

            for (int p = 0; is_new && (p < n); p++) {
                is_new = (pages[p].i != i) || !has_page(&known[k], &pages[p]);
            }
            if (is_new) {
                pages[n++] = page;
            }
        }
    }
    return n;
}

static int next_use(const min_page_t *page, int from)
{
    while ((from < N_PROMPTS) && !has_page(&known[order[from]], page)) {
        from++;
    }
    return from;
}

/* MIN: of the pages that the prompt in hand does not use, the one that is used
 * furthest from now. */
static int64_t count_min_hits(int capacity)
{
    static min_page_t pages[N_KNOWN * MODEL_PAGES];
    int n_pages   = find_pages(pages);
    int n_free    = capacity;
    int64_t n_hit = 0;

    for (int now = 0; now < N_PROMPTS; now++) {
        const prompt_t *prompt = &known[order[now]];

        for (int p = 0; p < n_pages; p++) {
            n_hit += has_page(prompt, &pages[p]) && pages[p].is_cached;
        }
        for (int p = 0; p < n_pages; p++) {
            int furthest = -1;

            if (!has_page(prompt, &pages[p]) || pages[p].is_cached) {
                continue;
            }
            for (int v = 0; (n_free == 0) && (v < n_pages); v++) {
                if (pages[v].is_cached && !has_page(prompt, &pages[v]) &&
                    ((furthest < 0) || (next_use(&pages[v], now) >
                                        next_use(&pages[furthest], now)))) {
                    furthest = v;
                }
            }
            if (furthest >= 0) {
                pages[furthest].is_cached = false;
                n_free++;
            }
            pages[p].is_cached = true;
            n_free--;
        }
    }
    return n_hit;
}

static pl_future_t *read_ahead(void)
{
    pl_future_t *future;

    LAW(pl_future_open(N_PROMPTS, &said.log, &future) == PL_OK);
    for (int i = 0; i < N_PROMPTS; i++) {
        LAW(pl_future_add(future, i, 0, known[order[i]].keys,
                          known[order[i]].n) == PL_OK);
    }
    pl_future_seal(future);
    return future;
}

static int64_t count_hits(const pl_policy_ops_t *policy, int capacity)
{
    pl_future_t *future = policy->foresees ? read_ahead() : NULL;
    pl_hicache_t *cache = open_cache(policy, capacity, future);
    int64_t n_hit       = 0;

    policy_name = policy->name;
    for (at_prompt = 0; at_prompt < N_PROMPTS; at_prompt++) {
        n_hit += pass_alone(cache, &known[order[at_prompt]]);
        LAW(pl_hicache_check(cache, NULL) == PL_OK);
    }
    pl_hicache_close(cache);
    pl_future_close(future);
    return n_hit;
}

START_TEST(belady_is_min_and_nobody_hits_more)
{
    static const int capacities[] = {16, 25, 60, 110};
    pl_rng_t rng;

    seed = pl_test_seed("property_policies");
    rng  = pl_rng_seed(seed + 1);
    log_capture_open(&said);
    for (size_t c = 0; c < sizeof(capacities) / sizeof(*capacities); c++) {
        int64_t most;

        policy_name = "min";
        make_prompts(&rng);
        most = count_min_hits(capacities[c]);
        printf("%3d pages: MIN %" PRId64, capacities[c], most);
        for (int i = 0; pl_policy_at(i) != NULL; i++) {
            int64_t hits = count_hits(pl_policy_at(i), capacities[c]);

            printf(", %s %" PRId64, policy_name, hits);
            LAW(hits <= most);
            LAW((pl_policy_at(i) != &pl_policy_belady) || (hits == most));
        }
        printf("\n");
    }
    log_capture_close(&said);
}
END_TEST

/* ---- lane-aware ---- */

enum { LANES = 4, N_TREES = 300, TREE_NODES = 40 };

typedef struct lanes {
    int64_t n_free[LANES];
    uint64_t helpers; /* nodes by id mod 64 */
} lanes_t;

static bool helps(const void *context, const pl_node_t *leaf)
{
    const lanes_t *lanes = context;

    return ((lanes->helpers >> (leaf->id % 64)) & 1) != 0;
}

static int64_t free_pages(const void *context, int lane)
{
    const lanes_t *lanes = context;

    return lanes->n_free[lane];
}

static bool is_candidate(const lanes_t *lanes, const pl_node_t *node)
{
    return node->linked[PL_TREE_DEVICE] && helps(lanes, node);
}

static bool is_older(const pl_node_t *a, const pl_node_t *b)
{
    return a->last_access != b->last_access ? a->last_access < b->last_access
                                            : a->id < b->id;
}

static double short_share(const lanes_t *lanes, const pl_node_t *node)
{
    double mean = 0;
    double n    = 0;

    for (int lane = 0; lane < LANES; lane++) {
        mean += (double)lanes->n_free[lane] / LANES;
    }
    for (int32_t i = 0; i < node->n_pages; i++) {
        n +=
            (double)lanes->n_free[pl_page_owner(node->device[i], LANES)] < mean;
    }
    return n / node->n_pages;
}

/* Of all nodes, those that fewer than eight candidates are older than; of these
 * the one with the largest share, and of equal ones the oldest. */
static const pl_node_t *search(const pl_tree_t *t, const lanes_t *lanes)
{
    const pl_node_t *best = NULL;

    for (const pl_node_t *node = t->root->next; node != NULL;
         node                  = node->next) {
        int n_older = 0;

        if (!is_candidate(lanes, node)) {
            continue;
        }
        for (const pl_node_t *other = t->root->next; other != NULL;
             other                  = other->next) {
            n_older += is_candidate(lanes, other) && is_older(other, node);
        }
        if (n_older >= 8) {
            continue;
        }
        if ((best == NULL) ||
            (short_share(lanes, node) > short_share(lanes, best)) ||
            ((short_share(lanes, node) == short_share(lanes, best)) &&
             is_older(node, best))) {
            best = node;
        }
    }
    return best;
}

static void grow_tree(pl_tree_t *t, pl_rng_t *rng)
{
    pl_page_t next = LANES;

    for (int k = 0; k < TREE_NODES; k++) {
        const prompt_t *prompt = &known[pl_rng_below(rng, N_KNOWN)];
        pl_page_t pages[MODEL_PAGES];
        pl_page_t dup[MODEL_PAGES];
        pl_node_t *last;

        for (int i = 0; i < prompt->n; i++) {
            pages[i] = next + (pl_page_t)pl_rng_below(rng, 8);
            next     = pages[i] + 1;
        }
        LAW(pl_tree_insert(t, t->root, 0, prompt->keys, prompt->n, pages, dup,
                           &last) == PL_OK);
    }
}

START_TEST(lane_aware_picks_what_a_search_finds)
{
    const pl_tree_params_t params = {
        .page_tokens = 16, .n_lanes = LANES, .policy = &pl_policy_lane_aware};
    int n_not_oldest = 0;
    pl_rng_t rng;

    seed        = pl_test_seed("property_policies");
    rng         = pl_rng_seed(seed + 2);
    policy_name = "lane-aware";
    log_capture_open(&said);
    make_prompts(&rng);
    for (at_prompt = 0; at_prompt < N_TREES; at_prompt++) {
        lanes_t lanes  = {.helpers = pl_rng_next(&rng) | pl_rng_next(&rng)};
        pl_pick_t pick = {.which      = PL_TREE_DEVICE,
                          .limit      = UINT64_MAX,
                          .helps      = helps,
                          .free_pages = free_pages,
                          .context    = &lanes,
                          .at         = PL_PICK_START};
        const pl_node_t *expected = NULL;
        pl_tree_t *t;

        LAW(pl_tree_open(&params, &said.log, &t) == PL_OK);
        grow_tree(t, &rng);
        do {
            int32_t from;
            pl_node_t *leaf;
            pl_node_t *parent;

            for (int lane = 0; lane < LANES; lane++) {
                lanes.n_free[lane] = (int64_t)pl_rng_below(&rng, 5);
            }
            expected = search(t, &lanes);
            leaf     = pl_tree_pick(t, &pick, &from);
            LAW((leaf == expected) && (from == 0));
            if (leaf != NULL) {
                n_not_oldest += leaf != pl_tree_first(t, PL_TREE_DEVICE);
                parent = leaf->parent;
                pl_tree_drop_device(t, leaf);
                pick.rest = parent->linked[PL_TREE_DEVICE] ? parent : NULL;
                LAW(pl_tree_check(t) == PL_OK);
            }
        } while (expected != NULL);
        pl_tree_close(t);
    }
    LAW(n_not_oldest > N_TREES);
    log_capture_close(&said);
}
END_TEST

static TCase *policies_case(void)
{
    TCase *tcase = tcase_create("policies");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, each_policy_is_as_its_paper_says);
    tcase_add_test(tcase, belady_is_min_and_nobody_hits_more);
    tcase_add_test(tcase, lane_aware_picks_what_a_search_finds);
    return tcase;
}

PL_CHECK_MAIN("property: policies", policies_case())
