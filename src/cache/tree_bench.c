#include "cache/tree_bench.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/rng.h"
#include "cache/tree.h"

enum {
    PAGE_TOKENS = 64,
    N_PAGES     = 100000 / PAGE_TOKENS,
    N_TOKENS    = N_PAGES * PAGE_TOKENS,
    N_LANES     = 8,
    N_SPLITS    = 220,
    N_OTHERS    = 50000,
    MOST_PAGES  = 24, /* of another prompt's part */
    N_BETWEEN   = 4,  /* other prompts matched between two timed calls */
    N_BATCHES   = 5,
    N_CALLS     = 41 /* per batch */
};

typedef struct bench {
    pl_tree_t *tree;
    const pl_log_t *log;
    pl_rng_t rng;
    int32_t tokens[N_TOKENS];
    int32_t same_tokens[N_TOKENS];
    pl_page_key_t keys[N_PAGES];
    pl_page_key_t computed[N_PAGES];
    pl_page_t pages[N_PAGES];
    pl_page_t dup[N_PAGES];
    pl_node_t *nodes[N_OTHERS]; /* where other prompts branch off */
    int32_t n_nodes;
    pl_page_t next_page;
    int equal; /* what memcmp said, so that it is not left out */
} bench_t;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void compute_keys(const int32_t *tokens, pl_page_key_t *keys)
{
    for (int32_t i = 0; i < N_PAGES; i++) {
        pl_hash128_t hash = pl_hash128(tokens + (size_t)i * PAGE_TOKENS,
                                       PAGE_TOKENS * sizeof(*tokens), 0);

        keys[i] = (pl_page_key_t){hash.lo, hash.hi};
    }
}

static pl_page_key_t random_key(bench_t *bench)
{
    pl_page_key_t key;

    key.lo = pl_rng_next(&bench->rng);
    key.hi = pl_rng_next(&bench->rng);
    return key;
}

/* Insert keys[0 .. n-1] below `at`; the new node is at *last_p. */
static pl_status_t insert(bench_t *bench, pl_node_t *at,
                          const pl_page_key_t *keys, int32_t n,
                          pl_node_t **last_p)
{
    for (int32_t i = 0; i < n; i++) {
        bench->pages[i] = bench->next_page++;
    }
    return pl_tree_insert(bench->tree, at, 0, keys, n, bench->pages, bench->dup,
                          last_p);
}

/* A prompt that leaves the long one after a number of pages: a split. */
static pl_status_t branch_off(bench_t *bench, int32_t n_shared)
{
    pl_page_key_t kept = bench->keys[n_shared];
    pl_node_t *last;
    pl_status_t status;

    bench->keys[n_shared] = random_key(bench);
    status = insert(bench, pl_tree_root(bench->tree), bench->keys, n_shared + 1,
                    &last);
    bench->keys[n_shared] = kept;
    return status;
}

static pl_status_t add_other(bench_t *bench)
{
    uint64_t pick = pl_rng_below(&bench->rng, (uint64_t)bench->n_nodes + 1);
    pl_node_t *at = pick < (uint64_t)bench->n_nodes ? bench->nodes[pick]
                                                    : pl_tree_root(bench->tree);
    int32_t n     = 1 + (int32_t)pl_rng_below(&bench->rng, MOST_PAGES);
    pl_page_key_t keys[MOST_PAGES];

    for (int32_t i = 0; i < n; i++) {
        keys[i] = random_key(bench);
    }
    PL_TRY(insert(bench, at, keys, n, &bench->nodes[bench->n_nodes]));
    bench->n_nodes++;
    return PL_OK;
}

/* A host copy; the pages' numbers are of no interest here. */
static pl_status_t back_up(void *context, const pl_node_t *node)
{
    bench_t *bench = context;
    pl_owner_t owners[N_PAGES];
    pl_meta_t meta;

    for (int32_t i = 0; i < node->n_pages; i++) {
        owners[i] = pl_page_owner(node->device[i], N_LANES);
    }
    PL_TRY(
        pl_meta_make(PAGE_TOKENS, node->n_pages, owners, node->device, &meta));
    pl_tree_set_host(bench->tree, (pl_node_t *)(uintptr_t)node, meta);
    return PL_OK;
}

static pl_status_t build(bench_t *bench)
{
    pl_node_t *last;

    for (int32_t i = 0; i < N_TOKENS; i++) {
        bench->tokens[i] = (int32_t)pl_rng_below(&bench->rng, 129280);
    }
    memcpy(bench->same_tokens, bench->tokens, sizeof(bench->tokens));
    compute_keys(bench->tokens, bench->keys);
    PL_TRY(
        insert(bench, pl_tree_root(bench->tree), bench->keys, N_PAGES, &last));
    while (bench->n_nodes < N_OTHERS / 2) {
        PL_TRY(add_other(bench));
    }
    for (int32_t i = 0; i < N_SPLITS; i++) {
        int32_t span = (N_PAGES - 1) / N_SPLITS;

        PL_TRY(branch_off(
            bench,
            1 + i * span + (int32_t)pl_rng_below(&bench->rng, (uint64_t)span)));
    }
    while (bench->n_nodes < N_OTHERS) {
        PL_TRY(add_other(bench));
    }
    return pl_tree_visit(bench->tree, back_up, bench);
}

typedef pl_status_t (*timed_call_t)(bench_t *bench);

static pl_status_t call_match(bench_t *bench)
{
    pl_match_t match;

    PL_TRY(pl_tree_match(bench->tree, 0, bench->keys, N_PAGES, &match));
    if (match.n_device != N_PAGES) {
        pl_log(bench->log, PL_LOG_ERROR,
               "bench tree: %" PRId32 " of %d pages matched", match.n_device,
               N_PAGES);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

static pl_status_t call_keys_match(bench_t *bench)
{
    compute_keys(bench->tokens, bench->computed);
    bench->equal += memcmp(bench->computed, bench->keys, sizeof(bench->keys));
    return call_match(bench);
}

static pl_status_t call_memcmp(bench_t *bench)
{
    bench->equal +=
        memcmp(bench->tokens, bench->same_tokens, sizeof(bench->tokens));
    return PL_OK;
}

/* Another prompt is matched: the caches hold more than the long one. */
static pl_status_t match_other(bench_t *bench)
{
    const pl_node_t *node =
        bench->nodes[pl_rng_below(&bench->rng, (uint64_t)bench->n_nodes)];
    pl_match_t match;

    while (node->parent != pl_tree_root(bench->tree)) {
        node = node->parent;
    }
    return pl_tree_match(bench->tree, 0, node->keys, node->n_pages, &match);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static pl_status_t measure(bench_t *bench, timed_call_t call, double *best_p)
{
    *best_p = 1e18;
    for (int b = 0; b < N_BATCHES; b++) {
        double times[N_CALLS];

        for (int c = 0; c < N_CALLS; c++) {
            double start;

            for (int o = 0; o < N_BETWEEN; o++) {
                PL_TRY(match_other(bench));
            }
            start = now_ns();
            PL_TRY(call(bench));
            times[c] = now_ns() - start;
        }
        qsort(times, N_CALLS, sizeof(*times), compare_doubles);
        *best_p = times[N_CALLS / 2] < *best_p ? times[N_CALLS / 2] : *best_p;
    }
    return PL_OK;
}

static int32_t path_nodes(const bench_t *bench)
{
    int32_t n = 0;
    pl_match_t match;

    if (pl_tree_match(bench->tree, 0, bench->keys, N_PAGES, &match) == PL_OK) {
        for (const pl_node_t *node = match.last; node->parent != NULL;
             node                  = node->parent) {
            n++;
        }
    }
    return n;
}

static pl_status_t run_bench(bench_t *bench, pl_tree_bench_result_t *result)
{
    PL_TRY(build(bench));
    result->n_path  = path_nodes(bench);
    result->n_nodes = pl_tree_n_nodes(bench->tree);
    PL_TRY(measure(bench, call_memcmp, &result->memcmp_ns));
    PL_TRY(measure(bench, call_match, &result->match_ns));
    PL_TRY(measure(bench, call_keys_match, &result->keys_match_ns));
    assert(bench->equal == 0);
    return pl_tree_check(bench->tree);
}

pl_status_t pl_tree_bench(const pl_log_t *log, uint64_t seed,
                          pl_tree_bench_result_t *result_p)
{
    const pl_tree_params_t params = {
        .page_tokens = PAGE_TOKENS,
        .n_lanes     = N_LANES,
        .policy      = &pl_policy_lru,
    };
    pl_tree_bench_result_t result = {
        .page_tokens = PAGE_TOKENS,
        .n_pages     = N_PAGES,
        .n_bytes     = (int64_t)N_TOKENS * (int64_t)sizeof(int32_t),
    };
    pl_status_t status;
    bench_t *bench = calloc(1, sizeof(*bench));

    if (bench == NULL) {
        pl_log(log, PL_LOG_ERROR, "bench tree: not enough memory");
        return PL_ERR_MEMORY;
    }
    bench->log = log;
    bench->rng = pl_rng_seed(seed);
    PL_TRY_GOTO(status, pl_tree_open(&params, log, &bench->tree), out);
    status = run_bench(bench, &result);
    if (status == PL_OK) {
        *result_p = result;
    }
    pl_tree_close(bench->tree);

out:
    free(bench);
    return status;
}
