#include "cache/evict_bench.h"

#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "base/rng.h"
#include "cache/tree.h"

enum {
    N_LANES     = 8,
    N_FAMILIES  = 64,   /* prompts of one begin alike */
    N_PROMPTS   = 6000, /* different ones */
    N_OFTEN     = 600,  /* of these come half of the time */
    N_REQUESTS  = 20000,
    SHARED      = 4, /* pages that a family has in common */
    MOST_PAGES  = 24,
    MEAN_PAGES  = (SHARED + 1 + MOST_PAGES) / 2,
    N_CAPACITY  = N_PROMPTS * (MEAN_PAGES - SHARED) / 3,
    PAGE_TOKENS = 64,
    N_RUNS      = 3
};

typedef struct prompt {
    int32_t n;
    pl_page_key_t keys[MOST_PAGES];
} prompt_t;

typedef struct bench {
    pl_tree_t *tree;
    pl_future_t *future;
    const pl_log_t *log;
    int32_t requests[N_REQUESTS]; /* prompts, in order */
    int64_t n_free;
    pl_page_t next_page;
    int64_t n_evictions;
    double ns;
} bench_t;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static prompt_t make_prompt(int32_t which)
{
    uint64_t number = (uint64_t)which;
    prompt_t prompt = {
        .n = SHARED + 1 +
             (int32_t)(pl_mix64(number) % (uint64_t)(MOST_PAGES - SHARED))};

    for (int32_t i = 0; i < prompt.n; i++) {
        uint64_t of = i < SHARED ? number % N_FAMILIES : number + N_FAMILIES;

        prompt.keys[i] = (pl_page_key_t){of, (uint64_t)i};
    }
    return prompt;
}

static void choose_requests(bench_t *bench, uint64_t seed)
{
    pl_rng_t rng = pl_rng_seed(seed);

    for (int i = 0; i < N_REQUESTS; i++) {
        bool often = pl_rng_below(&rng, 2) == 0;

        bench->requests[i] =
            (int32_t)pl_rng_below(&rng, often ? N_OFTEN : N_PROMPTS);
    }
}

static pl_status_t read_ahead(bench_t *bench)
{
    PL_TRY(pl_future_open(N_REQUESTS, bench->log, &bench->future));
    for (int i = 0; i < N_REQUESTS; i++) {
        prompt_t prompt = make_prompt(bench->requests[i]);

        PL_TRY(pl_future_add(bench->future, i, 0, prompt.keys, prompt.n));
    }
    pl_future_seal(bench->future);
    return PL_OK;
}

static bool helps(const void *context, const pl_node_t *leaf)
{
    (void)context;
    (void)leaf;
    return true;
}

static int64_t free_pages(const void *context, int lane)
{
    const bench_t *bench = context;

    return (bench->n_free + lane) / N_LANES;
}

static pl_status_t make_room(bench_t *bench, int32_t n)
{
    pl_pick_t pick = {.which      = PL_TREE_DEVICE,
                      .limit      = UINT64_MAX,
                      .helps      = helps,
                      .free_pages = free_pages,
                      .context    = bench,
                      .at         = PL_PICK_START};

    while (bench->n_free < n) {
        double start = now_ns();
        int32_t from;
        pl_node_t *leaf = pl_tree_pick(bench->tree, &pick, &from);
        int64_t need    = n - bench->n_free;
        pl_node_t *parent;

        if (leaf == NULL) {
            return PL_ERR_INTERNAL;
        }
        if (leaf->n_pages - from > need) {
            from = leaf->n_pages - (int32_t)need;
        }
        if (from > 0) {
            PL_TRY(pl_tree_split(bench->tree, leaf, from, NULL));
        }
        parent = leaf->parent;
        bench->n_free += leaf->n_pages;
        pl_tree_drop_device(bench->tree, leaf);
        pick.rest = parent->linked[PL_TREE_DEVICE] ? parent : NULL;
        bench->ns += now_ns() - start;
        bench->n_evictions++;
    }
    return PL_OK;
}

static pl_status_t serve(bench_t *bench, int32_t request)
{
    prompt_t prompt = make_prompt(bench->requests[request]);
    pl_page_t pages[MOST_PAGES];
    pl_page_t dup[MOST_PAGES];
    pl_match_t match;
    pl_node_t *last;
    int32_t n;

    PL_TRY(pl_tree_match(bench->tree, 0, prompt.keys, prompt.n, &match));
    pl_tree_passed(bench->tree, request, 0, prompt.keys, prompt.n);
    n    = prompt.n - match.n_device;
    last = match.device;
    if (n > 0) {
        pl_tree_lock(bench->tree, match.device);
        PL_TRY(make_room(bench, n));
        pl_tree_unlock(bench->tree, match.device);
        for (int32_t i = 0; i < n; i++) {
            pages[i] = bench->next_page;
            bench->next_page =
                (bench->next_page + 1) % (pl_page_t)(N_CAPACITY * 2);
        }
        PL_TRY(pl_tree_insert(bench->tree, match.device, 0,
                              prompt.keys + match.n_device, n, pages, dup,
                              &last));
        bench->n_free -= n;
    }
    pl_tree_hit(bench->tree, last);
    return PL_OK;
}

static pl_status_t run_bench(bench_t *bench, const pl_policy_ops_t *policy)
{
    pl_tree_params_t params = {
        .page_tokens   = PAGE_TOKENS,
        .n_lanes       = N_LANES,
        .policy        = policy,
        .policy_params = {.pages = {N_CAPACITY, 0}},
    };

    if (policy->foresees) {
        PL_TRY(read_ahead(bench));
        params.policy_params.future = bench->future;
    }
    PL_TRY(pl_tree_open(&params, bench->log, &bench->tree));
    bench->n_free = N_CAPACITY;
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        PL_TRY(serve(bench, i));
    }
    return pl_tree_check(bench->tree);
}

/* The cache from empty to the end, once. */
static pl_status_t run_once(const pl_log_t *log, uint64_t seed,
                            const pl_policy_ops_t *policy,
                            pl_evict_bench_result_t *result_p)
{
    bench_t *bench = calloc(1, sizeof(*bench));
    pl_status_t status;

    if (bench == NULL) {
        pl_log(log, PL_LOG_ERROR, "bench tree: not enough memory");
        return PL_ERR_MEMORY;
    }
    bench->log = log;
    choose_requests(bench, seed);
    status = run_bench(bench, policy);
    if (status == PL_OK) {
        result_p->n_nodes     = pl_tree_n_nodes(bench->tree);
        result_p->n_evictions = bench->n_evictions;
        result_p->evict_ns =
            bench->n_evictions > 0 ? bench->ns / (double)bench->n_evictions : 0;
    }
    pl_tree_close(bench->tree);
    pl_future_close(bench->future);
    free(bench);
    return status;
}

pl_status_t pl_evict_bench(const pl_log_t *log, uint64_t seed,
                           const pl_policy_ops_t *policy,
                           pl_evict_bench_result_t *result_p)
{
    for (int i = 0; i < N_RUNS; i++) {
        pl_evict_bench_result_t result;

        PL_TRY(run_once(log, seed, policy, &result));
        if ((i == 0) || (result.evict_ns < result_p->evict_ns)) {
            *result_p = result;
        }
    }
    return PL_OK;
}
