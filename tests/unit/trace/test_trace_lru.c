/* The LRU curve: against a cache that is run at every size. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/check_main.h"
#include "support/seed.h"
#include "trace/internal.h"
#include "trace/lru.h"
#include "trace/prefix.h"
#include "trace/stats.h"
#include "trace_support.h"

/* Keys, the least recently touched one first. */
typedef struct cache {
    pl_page_key_t keys[4096];
    int n, capacity;
} cache_t;

static int find(const cache_t *cache, pl_page_key_t key)
{
    for (int i = 0; i < cache->n; i++) {
        if ((cache->keys[i].lo == key.lo) && (cache->keys[i].hi == key.hi)) {
            return i;
        }
    }
    return -1;
}

static void remove_at(cache_t *cache, int at)
{
    memmove(&cache->keys[at], &cache->keys[at + 1],
            (size_t)(cache->n - at - 1) * sizeof(cache->keys[0]));
    cache->n--;
}

static void touch(cache_t *cache, pl_page_key_t key)
{
    int at = find(cache, key);

    if (at >= 0) {
        remove_at(cache, at);
    } else if (cache->n == cache->capacity) {
        remove_at(cache, 0);
    }
    cache->keys[cache->n++] = key;
}

/* Hit blocks of one request, which is then taken in. */
static int use(cache_t *cache, const pl_trace_t *trace, int32_t i, int32_t page,
               bool pages)
{
    const pl_request_t *request = pl_trace_request(trace, i);
    pl_page_key_t prefix        = pl_prefix_start(request);
    int32_t size = pages ? page : pl_prefix_block_tokens(trace, i, page);
    int32_t n    = request->input_tokens / size;
    int32_t most = pages ? (request->input_tokens - 1) / size : n;
    pl_page_key_t keys[512], key;
    int hits = 0;

    if (!pages && (request->input_tokens % size > 0)) {
        n++;
        most = n;
    }
    for (int32_t k = 0; k < n; k++) {
        if (pages) {
            pl_trace_page_keys(trace, i, size, k, 1, &key);
            prefix = pl_prefix_chain(prefix, key);
        } else {
            prefix = pl_prefix_block(trace, i, size, k, prefix);
        }
        keys[k] = prefix;
        hits += (hits == k) && (k < most) && (find(cache, prefix) >= 0);
    }
    for (int32_t k = n - 1; (k >= 0) && (cache->capacity > 0); k--) {
        touch(cache, keys[k]);
    }
    return hits;
}

static void compare(const pl_trace_t *trace, int32_t page, bool pages)
{
    static cache_t cache;
    pl_lru_curve_t curve;

    ck_assert_int_eq(pl_lru_curve(trace, page, pages, NULL, &curve), PL_OK);
    for (int capacity = 0; capacity <= curve.most + 2; capacity++) {
        int64_t hits = 0;

        cache.n        = 0;
        cache.capacity = capacity;
        for (int32_t i = 0; i < pl_trace_count(trace); i++) {
            hits += use(&cache, trace, i, page, pages);
        }
        ck_assert_int_eq(curve.hit_blocks[pl_lru_curve_at(&curve, capacity)],
                         hits);
    }
    pl_lru_curve_free(&curve);
}

START_TEST(every_size_of_random_traces)
{
    uint64_t seed = pl_test_seed("lru");

    for (uint64_t k = 0; k < 8; k++) {
        char *text        = random_trie(seed + k, 60, 8);
        pl_trace_t *trace = must_open_text(text, NULL);

        compare(trace, 64, false);
        compare(trace, 200, true);
        pl_trace_close(trace);
        free(text);
    }
}
END_TEST

START_TEST(every_size_of_tokens)
{
    pl_trace_t *trace =
        must_open_file(PAGELANE_DATASETS "/tokens_sample.jsonl", NULL);

    compare(trace, 16, false);
    compare(trace, 16, true);
    pl_trace_close(trace);
}
END_TEST

/* With room for all it is the ceiling of the statistics. */
START_TEST(the_end_is_the_ceiling)
{
    pl_trace_t *trace = must_open_file(
        PAGELANE_DATASETS "/mooncake_conversation_slice.jsonl", NULL);
    pl_trace_stats_t stats;
    pl_lru_curve_t blocks, pages;

    ck_assert_int_eq(pl_trace_stats(trace, 64, NULL, &stats), PL_OK);
    ck_assert_int_eq(pl_lru_curve(trace, 64, false, NULL, &blocks), PL_OK);
    ck_assert_int_eq(pl_lru_curve(trace, 64, true, NULL, &pages), PL_OK);
    ck_assert_int_eq(blocks.n_blocks, stats.n_blocks);
    ck_assert_int_eq(blocks.n_tokens, stats.input.total);
    ck_assert_int_eq(blocks.hit_blocks[blocks.most], stats.hit_blocks);
    ck_assert_int_eq(blocks.hit_tokens[blocks.most], stats.hit_tokens);
    ck_assert_int_eq(pages.hit_tokens[pages.most], stats.page_hit_tokens);
    ck_assert_int_eq(blocks.hit_blocks[0], 0);
    pl_lru_curve_free(&blocks);
    pl_lru_curve_free(&pages);
    pl_trace_close(trace);
}
END_TEST

/* Published: blocks of 512 tokens; see datasets/README.md. */
START_TEST(conversation)
{
    static const struct {
        int64_t capacity;
        const char *ratio;
    } KNOWN[] = {{19, "0.0417"},    {195, "0.0419"},   {1000, "0.0445"},
                 {1953, "0.0533"},  {3906, "0.0848"},  {5859, "0.1361"},
                 {9765, "0.2071"},  {10000, "0.2116"}, {19531, "0.2852"},
                 {30000, "0.3257"}, {39062, "0.3513"}, {50000, "0.3546"},
                 {97656, "0.3635"}, {100000, "0.3637"}};
    const char *folder = getenv("PAGELANE_SHARED");
    char path[4096], ratio[16];
    pl_lru_curve_t curve;
    pl_trace_t *trace;

    (void)snprintf(path, sizeof(path),
                   "%s/traces/mooncake/conversation_trace.jsonl",
                   folder != NULL ? folder : PAGELANE_SHARED_DEFAULT);
    if (access(path, R_OK) != 0) {
        printf("skipped: no %s\n", path);
        return;
    }
    trace = must_open_file(path, NULL);
    ck_assert_int_eq(pl_lru_curve(trace, 64, false, NULL, &curve), PL_OK);
    for (size_t i = 0; i < sizeof(KNOWN) / sizeof(*KNOWN); i++) {
        int64_t at = pl_lru_curve_at(&curve, KNOWN[i].capacity);

        (void)snprintf(ratio, sizeof(ratio), "%.4f",
                       (double)curve.hit_blocks[at] / (double)curve.n_blocks);
        ck_assert_str_eq(ratio, KNOWN[i].ratio);
    }
    pl_lru_curve_free(&curve);
    pl_trace_close(trace);
}
END_TEST

static TCase *curves(void)
{
    TCase *tcase = tcase_create("curves");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_size_of_random_traces);
    tcase_add_test(tcase, every_size_of_tokens);
    tcase_add_test(tcase, the_end_is_the_ceiling);
    tcase_add_test(tcase, conversation);
    return tcase;
}

PL_CHECK_MAIN("trace_lru", curves())
