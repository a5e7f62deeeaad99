/* Whole runs where every rank keeps all pages: the yardstick gives the same as
 * sharded lanes, and what goes wrong in one copy is found there. */
#include <string.h>

#include "base/rng.h"
#include "exec_support.h"
#include "support/check_main.h"
#include "support/seed.h"

static exec_trace_t *trace;
static pl_run_params_t base;
static exec_result_t *sharded; /* zigzag on four ranks */

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 17,
                                  .n          = 60,
                                  .documents  = 6,
                                  .max_shared = 300,
                                  .max_own    = 80,
                                  .max_output = 10,
                                  .gap_ns     = 400000};

    trace = exec_trace_make(&params);
    base  = exec_params(trace);
    exec_pools(&base, 1400, 3000, 6400);
    sharded                    = exec_run(&base);
    base.engine.ownership.kind = PL_OWNERSHIP_REPLICATED;
    exec_pools(&base, 1400, 3000, 6400);
}

static void teardown(void)
{
    exec_result_free(sharded);
    exec_trace_free(trace);
}

static exec_result_t *same_as_sharded(const pl_run_params_t *params,
                                      const char *what)
{
    exec_result_t *result = exec_run(params);

    exec_same(sharded, result, what);
    return result;
}

/* 9.54; copies are of all pages on each rank, sends of each page by one */
START_TEST(same_as_sharded_lanes)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    pl_run_params_t params    = base;

    params.engine.page_tokens = _i % 2 == 0 ? 16 : 64;
    params.engine.n_decode    = _i / 2;
    exec_pools(&params, 1600, 3000, 6400);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        int n = counts[c];
        exec_result_t *result;

        params.engine.n_prefill = n;
        result                  = same_as_sharded(&params, "replicated");
        ck_assert_int_gt(result->cache.loads, 0);
        ck_assert_int_gt(result->cache.evictions, 0);
        ck_assert_int_eq(result->counters.pages[PL_OP_SEND],
                         result->engine.send_pages);
        ck_assert_int_eq(result->counters.pages[PL_OP_BACKUP] % n, 0);
        exec_result_free(result);
    }
}
END_TEST

/* The cost executor takes the same decisions and counts what would be moved. */
START_TEST(cost_counts_the_same)
{
    static const char *const faults[] = {
        "load.fail@every,tick:50", "host.alloc=fail@count:2,rank:3",
        "backup.fail@count:3", "transfer.abort@count:9", NULL};
    static const char *const none[] = {NULL};
    const char *const *with         = _i < 2 ? none : faults;
    pl_run_params_t params          = base;
    exec_result_t *stamp, *cost;

    params.engine.n_decode = _i % 2;
    stamp                  = exec_run_with(&params, with, 30.0);
    params.executor        = "cost";
    cost                   = exec_run_with(&params, with, 30.0);
    ck_assert_msg(stamp->status == PL_OK, "%s%s", stamp->said.text,
                  stamp->line);
    ck_assert_msg(cost->status == PL_OK, "%s", cost->said.text);
    ck_assert_int_eq(stamp->n_failed > 0, _i >= 2);
    ck_assert_mem_eq(&stamp->engine, &cost->engine, sizeof(cost->engine));
    ck_assert_mem_eq(&stamp->cache, &cost->cache, sizeof(cost->cache));
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        ck_assert_int_eq(stamp->counters.pages[kind],
                         cost->counters.pages[kind]);
        ck_assert_int_eq(stamp->counters.bytes[kind],
                         cost->counters.bytes[kind]);
    }
    exec_result_free(stamp);
    exec_result_free(cost);
}
END_TEST

/* Ranks that keep layers move theirs of every page, which count once, and any
 * of them may fail. */
START_TEST(layers_count_once)
{
    static const char *const faults[] = {
        "load.fail@count:3,rank:3", "host.alloc=fail@count:2,rank:1",
        "store.fail@count:2,rank:2", "transfer.abort@count:4,rank:3", NULL};
    static const char *const none[] = {NULL};
    pl_run_params_t params          = base;
    exec_result_t *cost;

    params.executor              = "cost";
    params.engine.ownership.kind = PL_OWNERSHIP_LAYER;
    params.engine.storage_pages  = 2000;
    cost = exec_run_with(&params, _i == 0 ? none : faults, 30.0);
    ck_assert_msg(cost->status == PL_OK, "%s", cost->said.text);
    ck_assert_int_gt(cost->cache.loads, 0);
    ck_assert_int_gt(cost->storage.stores, 0);
    ck_assert_int_eq(cost->engine.sends_failed, _i);
    ck_assert_int_eq(cost->engine.reservations_failed, _i);
    ck_assert_int_eq(cost->storage.stores_failed, _i);
    ck_assert_int_eq(cost->cache.loads_failed, _i);
    ck_assert_int_eq(cost->counters.pages[PL_OP_SEND], cost->engine.send_pages);
    ck_assert_int_eq(cost->counters.pages[PL_OP_STORE],
                     cost->storage.store_pages);
    ck_assert_int_eq(cost->counters.pages[PL_OP_LOAD], cost->cache.load_pages);
    ck_assert_int_eq(cost->counters.bytes[PL_OP_LOAD],
                     cost->cache.load_pages * pl_run_page_bytes(&params));
    ck_assert_int_gt(cost->engine.link_bytes[PL_LINK_H2D],
                     cost->counters.bytes[PL_OP_LOAD] / 4);
    exec_result_free(cost);
}
END_TEST

/* Executors with bytes move whole pages. */
START_TEST(layers_are_for_simulations)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.engine.ownership.kind = PL_OWNERSHIP_LAYER;
    result                       = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(result->said.text, "--ownership layer"));
    exec_result_free(result);
}
END_TEST

/* I7: one bit of one rank's copy, and the tier that it flipped in is named. */
START_TEST(a_flipped_bit_of_any_copy_is_found)
{
    static const char *const texts[][2] = {
        {"flip=device", "tier=device"},
        {"flip=device@rank:2", "tier=device"},
        {"flip=host", "tier=host"},
        {"flip=host@rank:3", "reader=3 "},
        {"flip=transfer", "tier=transfer"}};
    const char *const inject[] = {texts[_i % 5][0], NULL};
    pl_run_params_t params     = base;
    exec_result_t *result;

    exec_device(&params, _i < 5 ? "cpu" : "far");
    result = exec_run_with(&params, inject, 30.0);
    ck_assert_msg(result->status == PL_ERR_VIOLATION, "%s", result->said.text);
    ck_assert_msg(strstr(result->line, "invariant=I7 ") != NULL, "%s",
                  result->line);
    ck_assert_msg(strstr(result->line, texts[_i % 5][1]) != NULL, "%s",
                  result->line);
    exec_result_free(result);
}
END_TEST

/* There are no owners that a load-back could get wrong. */
START_TEST(no_owners_no_historical_bug)
{
    static const char *const plain[] = {"load.alloc=plain", NULL};
    exec_result_t *result            = exec_run_with(&base, plain, 30.0);

    ck_assert_int_gt(result->cache.loads, 0);
    exec_same(sharded, result, "plain allocation");
    exec_result_free(result);
}
END_TEST

/* 9.54, I7: corners at random. */
START_TEST(random_corners)
{
    static const int32_t sizes[]     = {1, 4, 16, 33, 64};
    static const char *const names[] = {"cpu", "guard", "far", "cpu by peer"};
    pl_rng_t rng = pl_rng_seed(pl_test_seed("replicated random_corners"));

    for (int round = 0; round < 20; round++) {
        pl_run_params_t params = base;
        char what[200];

        params.engine.n_prefill   = 1 + (int)pl_rng_below(&rng, 8);
        params.engine.n_decode    = (int)pl_rng_below(&rng, 3);
        params.engine.page_tokens = sizes[pl_rng_below(&rng, 5)];
        params.engine.chunk_tokens =
            params.engine.page_tokens *
            (1 + (int32_t)pl_rng_below(
                     &rng, 1 + 200U / (uint64_t)params.engine.page_tokens));
        params.engine.write_policy = (pl_write_policy_t)pl_rng_below(&rng, 3);
        params.engine.explore      = (int32_t)pl_rng_below(&rng, 4);
        params.engine.seed         = pl_rng_next(&rng);
        params.engine.max_batch    = 1 + (int32_t)pl_rng_below(&rng, 16);
        params.verify =
            pl_rng_below(&rng, 4) == 0 ? PL_VERIFY_OFF : base.verify;
        exec_device(&params, names[pl_rng_below(&rng, 4)]);
        exec_pools(&params, 600 + (int32_t)pl_rng_below(&rng, 2000),
                   (int32_t)pl_rng_below(&rng, 4000),
                   700 + (int32_t)pl_rng_below(&rng, 2000));
        params.engine.decode_host_pages =
            (int32_t)pl_rng_below(&rng, 800) / params.engine.page_tokens;
        snprintf(what, sizeof(what),
                 "round %d: C %d D %d P %d chunk %d policy %d explore %d",
                 round, params.engine.n_prefill, params.engine.n_decode,
                 params.engine.page_tokens, params.engine.chunk_tokens,
                 params.engine.write_policy, params.engine.explore);
        exec_result_free(same_as_sharded(&params, what));
    }
}
END_TEST

static TCase *replicated_case(void)
{
    TCase *tcase = tcase_create("replicated");

    tcase_set_timeout(tcase, 200);
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, same_as_sharded_lanes, 0, 4);
    tcase_add_loop_test(tcase, cost_counts_the_same, 0, 4);
    tcase_add_loop_test(tcase, layers_count_once, 0, 2);
    tcase_add_test(tcase, layers_are_for_simulations);
    tcase_add_loop_test(tcase, a_flipped_bit_of_any_copy_is_found, 0, 10);
    tcase_add_test(tcase, no_owners_no_historical_bug);
    tcase_add_test(tcase, random_corners);
    return tcase;
}

PL_CHECK_MAIN("exec replicated", replicated_case())
