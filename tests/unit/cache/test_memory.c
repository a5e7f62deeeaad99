/* Memory that cannot be had: each allocation of a call fails in turn, and the
 * call says so and leaves everything as it was.
 *
 * malloc, calloc and realloc are wrapped by the linker (CMakeLists.txt). */
#include <stdbool.h>
#include <stddef.h>

#include "support/check_main.h"
#include "unit/cache/rig.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *at, size_t n);

static int fail_in; /* the how manyeth allocation from now fails; 0: none */

static bool fails(void)
{
    return (fail_in > 0) && (--fail_in == 0);
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *at, size_t n)
{
    return fails() ? NULL : __real_realloc(at, n);
}

static rig_t rig;

typedef struct step {
    void (*prepare)(void);
    pl_status_t (*call)(void);
    bool is_partial; /* what was counted or evicted before stays so */
} step_t;

static pl_page_key_t keys[8];
static pl_page_t pages[8];
static pl_match_t match;
static pl_node_t *node;
static pl_node_t *last;
static int32_t below;
static int64_t op;
static pl_hicache_try_t attempt;

static void two_nodes(void)
{
    node = rig_below(&rig, rig_cold(&rig, 1, "0101"), 1, "1100");
    rig_keys(keys, 1, 3, 2, 8);
}

static pl_status_t call_match(void)
{
    return pl_hicache_match(rig.cache, 0, keys, 8, &match, &below);
}

static void host_nodes(void)
{
    two_nodes();
    rig_done(&rig, node);
    rig_end_all(&rig, true);
    rig_evict(&rig, 0, 16);
    rig_evict(&rig, 1, 16);
}

static void new_chunk(void)
{
    const pl_owner_t owners[8] = {0, 1, 0, 1, 0, 1, 0, 1};

    ck_assert_int_eq(pl_hicache_extend(rig.cache, owners, 8, pages, &attempt),
                     PL_OK);
    rig_keys(keys, 1, 3, 2, 8); /* three pages of the tree's, five new */
    for (int lane = 0; lane < 2; lane++) {
        rig.given[lane] = 4;
    }
}

static void chunk_for_device(void)
{
    two_nodes();
    new_chunk();
}

static void chunk_for_host(void)
{
    host_nodes();
    new_chunk();
}

static pl_status_t call_insert(void)
{
    pl_status_t status =
        pl_hicache_insert(rig.cache, pl_tree_root(pl_hicache_tree(rig.cache)),
                          0, keys, 8, pages, &last);

    if (status == PL_OK) {
        memset(rig.given, 0, sizeof(rig.given));
    }
    return status;
}

static void one_node(void)
{
    node = rig_cold(&rig, 1, "0101");
}

static pl_status_t call_done(void)
{
    return pl_hicache_prompt_done(rig.cache, node);
}

static void ready_to_load(void)
{
    host_nodes();
    match = rig_match(&rig, 1, 6);
    pl_hicache_lock(rig.cache, match.device);
    pl_hicache_pin(rig.cache, &match);
}

static pl_status_t call_load(void)
{
    return pl_hicache_load(rig.cache, &match, &attempt, &op);
}

static pl_status_t call_evict(void)
{
    const int32_t deficits[2] = {0, 16};
    int64_t pending;

    return pl_hicache_evict(rig.cache, deficits, &pending);
}

static pl_status_t call_check(void)
{
    return pl_hicache_check(rig.cache, rig.given);
}

static const step_t steps[] = {
    {two_nodes, call_match, false},
    {host_nodes, call_match, false},
    {chunk_for_device, call_insert, false},
    {chunk_for_host, call_insert, false},
    {one_node, call_done, true},
    {ready_to_load, call_load, false},
    {two_nodes, call_evict, true},
    {two_nodes, call_check, false},
};

START_TEST(a_call_without_memory_changes_nothing)
{
    const step_t *step = &steps[_i];
    int n_failures     = 0;

    for (int k = 1;; k++) {
        pl_hicache_params_t params = rig_params(2, 16, 16);
        uint64_t before;
        int lines_before;
        pl_status_t status;
        bool failed;

        rig_open(&rig, params);
        step->prepare();
        before       = pl_hicache_state_hash(rig.cache);
        lines_before = rig.said.n_lines;
        fail_in      = k;
        status       = step->call();
        failed       = fail_in == 0;
        fail_in      = 0;
        if (failed && (status != PL_OK)) {
            ck_assert_int_eq(status, PL_ERR_MEMORY);
            ck_assert_int_eq(rig.said.n_lines, lines_before + 1);
            ck_assert(step->is_partial ||
                      (pl_hicache_state_hash(rig.cache) == before));
            rig_check(&rig);
            n_failures++;
            ck_assert_int_eq(step->call(), PL_OK); /* now there is some */
        } else {
            /* A block that could not shrink is no failure. */
            ck_assert_int_eq(status, PL_OK);
        }
        rig_close(&rig);
        if (!failed) {
            break;
        }
    }
    ck_assert_int_gt(n_failures, 0);
}
END_TEST

START_TEST(a_cache_is_opened_whole_or_not_at_all)
{
    for (int k = 1;; k++) {
        pl_hicache_params_t params = rig_params(3, 8, 8);
        pl_hicache_t *cache        = NULL;
        pl_status_t status;

        params.copy = rig_take_copy;
        fail_in     = k;
        status      = pl_hicache_open(&params, NULL, &cache);
        if (fail_in > 0) {
            fail_in = 0;
            ck_assert_int_eq(status, PL_OK);
            pl_hicache_close(cache);
            ck_assert_int_gt(k, 10);
            break;
        }
        ck_assert_int_eq(status, PL_ERR_MEMORY);
        ck_assert_ptr_eq(cache, NULL);
    }
}
END_TEST

static TCase *memory_case(void)
{
    TCase *tcase = tcase_create("memory");

    tcase_add_loop_test(tcase, a_call_without_memory_changes_nothing, 0,
                        (int)(sizeof(steps) / sizeof(steps[0])));
    tcase_add_test(tcase, a_cache_is_opened_whole_or_not_at_all);
    return tcase;
}

PL_CHECK_MAIN("cache memory", memory_case())
