/* Whole runs on virtual ranks: whatever the machine looks like, each request
 * receives the same bytes and says the same. */
#include "test_exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "exec_support.h"
#include "support/check_main.h"
#include "support/seed.h"

static exec_trace_t *trace;
static pl_run_params_t base;
static exec_result_t *base_result;

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 11,
                                  .n          = 80,
                                  .documents  = 7,
                                  .max_shared = 300,
                                  .max_own    = 80,
                                  .max_output = 10,
                                  .gap_ns     = 400000};

    trace = exec_trace_make(&params);
    base  = exec_params(trace);
    exec_pools(&base, 1400, 3000, 6400);
    base_result = exec_run(&base);
}

static void teardown(void)
{
    exec_result_free(base_result);
    exec_trace_free(trace);
}

/* Run with `params`, which gave the same as the base or fails; the result is
 * the caller's. */
static exec_result_t *same_as_base(const pl_run_params_t *params,
                                   const char *what)
{
    exec_result_t *result = exec_run(params);

    exec_same(base_result, result, what);
    return result;
}

static void expect_same(const pl_run_params_t *params, const char *what)
{
    exec_result_free(same_as_base(params, what));
}

/* Everything happens at the base: else the axes would show little. */
START_TEST(base_has_it_all)
{
    const exec_result_t *result = base_result;

    ck_assert_msg(result->status == PL_OK, "%s%s", result->said.text,
                  result->line);
    ck_assert_int_gt(result->cache.loads, 0);
    ck_assert_int_gt(result->cache.backups, 0);
    ck_assert_int_gt(result->cache.evictions, 0);
    ck_assert_int_gt(result->cache.deficits, 0);
    ck_assert_int_gt(result->cache.retries, 0);
    ck_assert_int_gt(result->counters.page_checks, 10000);
    ck_assert_int_gt(result->counters.poisoned_pages, 0);
    ck_assert_int_eq(result->n_failed, 0);
    for (int32_t i = 0; i < result->n; i++) {
        ck_assert_int_eq(result->offsets[i + 1] - result->offsets[i],
                         trace->requests[i].request.output_tokens);
    }
}
END_TEST

/* 9.54 for every C, with and without decode ranks */
START_TEST(ranks)
{
    pl_run_params_t params = base;

    params.engine.n_prefill = _i / 3 + 1;
    params.engine.n_decode  = _i % 3;
    exec_pools(&params, 1400, 3000, 6400);
    expect_same(&params, "ranks");
}
END_TEST

START_TEST(page_sizes)
{
    static const int32_t sizes[] = {1, 3, 16, 64, 100, 128};
    pl_run_params_t params       = base;

    params.engine.page_tokens  = sizes[_i];
    params.engine.chunk_tokens = (63 + sizes[_i]) / sizes[_i] * sizes[_i];
    exec_pools(&params, 1600, 3000, 6400);
    expect_same(&params, "page size");
}
END_TEST

START_TEST(chunks)
{
    static const int32_t lengths[] = {16, 48, 512, 8192};
    pl_run_params_t params         = base;

    params.engine.chunk_tokens = lengths[_i];
    expect_same(&params, "chunk");
}
END_TEST

/* Lanes that just hold the longest prompt: hits are cut where a lane has no
 * room for the rest, and what is computed anew lies in other lanes than what
 * the tree still has. */
START_TEST(cut_hits)
{
    static const int counts[] = {3, 4, 6, 8};
    pl_run_params_t params    = base;
    exec_result_t *result;

    params.engine.n_prefill    = counts[_i];
    params.engine.chunk_tokens = 80;
    params.engine.write_policy = _i % 2 == 0 ? PL_WRITE_THROUGH : PL_WRITE_BACK;
    params.engine.device_pages = 1;
    do {
        params.engine.device_pages++;
        result = exec_run(&params);
        if (result->status == PL_OK) {
            break;
        }
        ck_assert_int_eq(result->status, PL_ERR_RESOURCE);
        exec_result_free(result);
    } while (params.engine.device_pages < 100);
    exec_same(base_result, result, "cut hits");
    ck_assert_int_gt(result->engine.hit_cuts, 0);
    exec_result_free(result);
}
END_TEST

START_TEST(policies)
{
    static const pl_write_policy_t all[] = {
        PL_WRITE_THROUGH, PL_WRITE_THROUGH_SELECTIVE, PL_WRITE_BACK};
    pl_run_params_t params = base;

    params.engine.write_policy = all[_i];
    expect_same(&params, "write policy");
}
END_TEST

START_TEST(other_rules)
{
    pl_run_params_t params = base;

    params.engine.ownership.kind  = PL_OWNERSHIP_INTERLEAVE;
    params.engine.ownership.width = _i;
    exec_pools(&params, 1800, 3000, 6400);
    expect_same(&params, "ownership");
}
END_TEST

/* I10: copies that come as late as they may, operations that end in later ticks
 */
START_TEST(late_copies)
{
    static const char *const delay[] = {"load.delay", NULL};
    static const char *const names[] = {"guard", "far", "cpu by peer"};
    pl_run_params_t params           = base;
    exec_result_t *late;

    params.engine.explore = _i;
    params.engine.seed    = (uint64_t)_i;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        exec_device(&params, names[i]);
        expect_same(&params, names[i]);
    }
    exec_device(&params, "cpu");
    late = exec_run_with(&params, delay, 30.0);
    exec_same(base_result, late, "load.delay");
    exec_result_free(late);
}
END_TEST

/* Latent rows of other sizes, and more layers, take the same ways. */
START_TEST(row_sizes)
{
    static const int32_t sizes[] = {8, 12, 100, 656};
    pl_run_params_t params       = base;
    pl_run_params_t one          = base;
    exec_result_t *a, *b;

    params.layout        = pl_store_layout_stamp(1, 3, sizes[_i], 0);
    one.layout           = params.layout;
    one.engine.n_prefill = 1;
    exec_pools(&one, 1400, 3000, 6400);
    a = exec_run(&params);
    b = exec_run(&one);
    exec_same(a, b, "row size");
    exec_result_free(a);
    exec_result_free(b);
}
END_TEST

/* A layer without an index of its own. */
START_TEST(shared_index)
{
    static const uint8_t has_index[] = {1, 0, 1};
    pl_run_params_t params           = base;
    pl_run_params_t one              = base;
    exec_result_t *a, *b;

    params.layout           = pl_store_layout_stamp(1, 3, 64, 0);
    params.layout.has_index = has_index;
    one.layout              = params.layout;
    one.engine.n_prefill    = 1;
    exec_pools(&one, 1400, 3000, 6400);
    a = exec_run(&params);
    b = exec_run(&one);
    exec_same(a, b, "shared index");
    exec_result_free(a);
    exec_result_free(b);
}
END_TEST

/* 9.51 what is not asked for is not done: no page is checked or poisoned */
START_TEST(verification_modes)
{
    static const pl_verify_t modes[] = {PL_VERIFY_OFF, PL_VERIFY_FULL};
    const pl_verify_t mode           = modes[_i % 2];
    pl_run_params_t params           = base;
    exec_result_t *result;

    params.verify = mode;
    exec_device(&params, _i < 2 ? "cpu" : "far");
    result = same_as_base(&params, "verify");
    ck_assert_int_eq(result->counters.page_checks > 0, mode != PL_VERIFY_OFF);
    ck_assert_int_eq(result->counters.poisoned_pages > 0,
                     mode != PL_VERIFY_OFF);
    exec_result_free(result);
}
END_TEST

/* 9.50 preempted to the host buffer and resumed, or come back as a new prompt:
 * the same tokens */
START_TEST(preemption)
{
    static const char *const names[] = {"cpu", "guard", "far", "far"};
    exec_trace_params_t of_trace     = {.seed       = 5,
                                        .n          = 24,
                                        .documents  = 3,
                                        .max_shared = 60,
                                        .max_own    = 40,
                                        .max_output = 60,
                                        .gap_ns     = 1000};
    exec_trace_t *talk               = exec_trace_make(&of_trace);
    pl_run_params_t roomy            = exec_params(talk);
    pl_run_params_t tight            = exec_params(talk);
    exec_result_t *a, *b;

    exec_pools(&roomy, 1400, 3000, 6400);
    tight                          = roomy;
    tight.engine.n_decode          = _i % 2;
    tight.engine.decode_pages      = 14;
    tight.engine.decode_host_pages = _i % 4 < 2 ? 0 : 24;
    exec_device(&tight, names[_i / 2]);
    a = exec_run(&roomy);
    b = exec_run(&tight);
    exec_same(a, b, "preemption");
    ck_assert_int_eq(a->preemptions + a->reentries, 0);
    ck_assert_int_gt(_i % 4 < 2 ? b->reentries : b->preemptions, 0);
    exec_result_free(a);
    exec_result_free(b);
    exec_trace_free(talk);
}
END_TEST

/* I10: the same run twice is the same run: counters of all kinds included. */
START_TEST(runs_repeat)
{
    pl_run_params_t params = base;
    exec_result_t *a, *b;

    params.engine.n_decode = 1;
    params.engine.explore  = 2;
    exec_device(&params, "guard");
    a = exec_run(&params);
    b = exec_run(&params);
    exec_same(a, b, "again");
    ck_assert_mem_eq(&a->counters, &b->counters, sizeof(a->counters));
    ck_assert_mem_eq(&a->engine, &b->engine, sizeof(a->engine));
    ck_assert_mem_eq(&a->cache, &b->cache, sizeof(a->cache));
    exec_result_free(a);
    exec_result_free(b);
}
END_TEST

/* The cost executor takes the same decisions and counts what would be moved. */
START_TEST(cost_counts_the_same)
{
    static const char *const faults[] = {
        "load.fail@every,tick:50", "host.alloc=fail@count:2",
        "backup.fail@count:3", "transfer.abort@count:9", NULL};
    static const char *const none[] = {NULL};
    pl_run_params_t params          = base;
    exec_result_t *stamp, *cost;

    params.engine.n_decode     = _i % 2;
    params.engine.decode_pages = 60;
    stamp           = exec_run_with(&params, _i < 2 ? none : faults, 30.0);
    params.executor = "cost";
    cost            = exec_run_with(&params, _i < 2 ? none : faults, 30.0);
    ck_assert_msg(stamp->status == PL_OK, "%s%s", stamp->said.text,
                  stamp->line);
    ck_assert_msg(cost->status == PL_OK, "%s", cost->said.text);
    ck_assert_int_eq(stamp->n_failed, cost->n_failed);
    ck_assert_int_eq(stamp->n_failed > 0, _i >= 2);
    ck_assert_mem_eq(&stamp->engine, &cost->engine, sizeof(cost->engine));
    ck_assert_mem_eq(&stamp->cache, &cost->cache, sizeof(cost->cache));
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        /* What was aborted was not packed, but counts as sent. */
        ck_assert_int_eq(stamp->counters.pages[kind],
                         cost->counters.pages[kind]);
        ck_assert_int_eq(stamp->counters.bytes[kind],
                         cost->counters.bytes[kind]);
    }
    exec_result_free(stamp);
    exec_result_free(cost);
}
END_TEST

/* 9.54, I7, I12: corners of the whole grid at random. */
START_TEST(random_corners)
{
    static const int32_t sizes[]     = {1, 4, 16, 33, 64};
    static const char *const names[] = {"cpu", "guard", "far", "cpu by peer"};
    pl_rng_t rng = pl_rng_seed(pl_test_seed("random_corners"));

    for (int round = 0; round < 15; round++) {
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
        exec_device(&params, names[pl_rng_below(&rng, 4)]);
        if (pl_rng_below(&rng, 2) == 0) {
            params.engine.ownership.kind  = PL_OWNERSHIP_INTERLEAVE;
            params.engine.ownership.width = 1 + (int)pl_rng_below(&rng, 3);
        }
        exec_pools(&params, 1800 + (int32_t)pl_rng_below(&rng, 2000),
                   (int32_t)pl_rng_below(&rng, 4000),
                   700 + (int32_t)pl_rng_below(&rng, 2000));
        params.engine.decode_host_pages =
            (int32_t)pl_rng_below(&rng, 800) / params.engine.page_tokens;
        snprintf(what, sizeof(what),
                 "round %d: C %d D %d P %d chunk %d policy %d explore %d",
                 round, params.engine.n_prefill, params.engine.n_decode,
                 params.engine.page_tokens, params.engine.chunk_tokens,
                 params.engine.write_policy, params.engine.explore);
        expect_same(&params, what);
    }
}
END_TEST

static TCase *run_case(void)
{
    TCase *tcase = tcase_create("run");

    tcase_set_timeout(tcase, 200);
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, base_has_it_all);
    tcase_add_loop_test(tcase, ranks, 0, 24);
    tcase_add_loop_test(tcase, page_sizes, 0, 6);
    tcase_add_loop_test(tcase, chunks, 0, 4);
    tcase_add_loop_test(tcase, cut_hits, 0, 4);
    tcase_add_loop_test(tcase, policies, 0, 3);
    tcase_add_loop_test(tcase, other_rules, 1, 4);
    tcase_add_loop_test(tcase, late_copies, 0, 4);
    tcase_add_loop_test(tcase, row_sizes, 0, 4);
    tcase_add_test(tcase, shared_index);
    tcase_add_loop_test(tcase, verification_modes, 0, 4);
    tcase_add_loop_test(tcase, preemption, 0, 8);
    tcase_add_test(tcase, runs_repeat);
    tcase_add_loop_test(tcase, cost_counts_the_same, 0, 4);
    tcase_add_test(tcase, random_corners);
    return tcase;
}

PL_CHECK_MAIN("exec run", run_case(), faults_case(), run_storage_case())
