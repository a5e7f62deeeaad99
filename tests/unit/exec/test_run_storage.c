/* Whole runs with a storage tier behind a small host tier: what comes from
 * there changes no byte and no token, whoever has written it. */
#include "test_exec.h"

#include <stdlib.h>
#include <string.h>

#include "exec_support.h"
#include "support/memory_disk.h"

static exec_trace_t *trace;
static pl_run_params_t base; /* without storage */
static exec_result_t *base_result;
static memory_disk_t *disk;
static pl_storage_opener_t opener;

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 13,
                                  .n          = 80,
                                  .documents  = 7,
                                  .max_shared = 300,
                                  .max_own    = 80,
                                  .max_output = 6,
                                  .gap_ns     = 400000};

    trace = exec_trace_make(&params);
    base  = exec_params(trace);
    exec_pools(&base, 1400, 1200, 6400);
    base_result = exec_run(&base);
    disk        = memory_disk_make();
    opener      = memory_disk_opener(disk);
}

static void teardown(void)
{
    memory_disk_free(disk);
    exec_result_free(base_result);
    exec_trace_free(trace);
}

static pl_run_params_t with_storage(int n_prefill, int n_decode)
{
    pl_run_params_t params = base;

    params.engine.n_prefill = n_prefill;
    params.engine.n_decode  = n_decode;
    exec_pools(&params, 1400, 1200, 6400);
    params.engine.storage_pages             = 400;
    params.engine.prefetch                  = PL_PREFETCH_WAIT_COMPLETE;
    params.engine.prefetch_threshold_tokens = 16;
    params.storage                          = &opener;
    return params;
}

static exec_result_t *same_as_base(const pl_run_params_t *params,
                                   const char *what)
{
    exec_result_t *result = exec_run(params);

    exec_same(base_result, result, what);
    return result;
}

/* The same requests, whatever keeps their pages; some pages came from storage.
 */
START_TEST(storage_changes_nothing)
{
    static const struct {
        int n_prefill, n_decode;
        const char *device;
        pl_verify_t verify;
        pl_prefetch_t prefetch;
        int32_t explore;
        pl_ownership_t ownership;
    } points[] = {
        {1,
         0,
         "cpu",
         PL_VERIFY_DIGEST,
         PL_PREFETCH_WAIT_COMPLETE,
         0,
         {.kind = PL_OWNERSHIP_ZIGZAG}},
        {3,
         0,
         "cpu",
         PL_VERIFY_DIGEST,
         PL_PREFETCH_WAIT_COMPLETE,
         0,
         {.kind = PL_OWNERSHIP_ZIGZAG}},
        {4,
         1,
         "guard",
         PL_VERIFY_FULL,
         PL_PREFETCH_WAIT_COMPLETE,
         3,
         {.kind = PL_OWNERSHIP_ZIGZAG}},
        {4,
         0,
         "cpu",
         PL_VERIFY_OFF,
         PL_PREFETCH_WAIT_COMPLETE,
         0,
         {.kind = PL_OWNERSHIP_INTERLEAVE, .width = 1}},
        {3,
         1,
         "cpu",
         PL_VERIFY_DIGEST,
         PL_PREFETCH_TIMEOUT,
         2,
         {.kind = PL_OWNERSHIP_ZIGZAG}},
        {8,
         0,
         "cpu",
         PL_VERIFY_DIGEST,
         PL_PREFETCH_BEST_EFFORT,
         0,
         {.kind = PL_OWNERSHIP_ZIGZAG}},
        {3,
         0,
         "guard",
         PL_VERIFY_DIGEST,
         PL_PREFETCH_WAIT_COMPLETE,
         0,
         {.kind = PL_OWNERSHIP_REPLICATED}},
    };
    pl_run_params_t params = with_storage(1, 0);
    exec_result_t *result;

    params.engine.ownership = points[_i].ownership;
    params.engine.n_prefill = points[_i].n_prefill;
    params.engine.n_decode  = points[_i].n_decode;
    exec_pools(&params, 1400, 1200, 6400);
    exec_device(&params, points[_i].device);
    params.verify          = points[_i].verify;
    params.engine.prefetch = points[_i].prefetch;
    params.engine.explore  = points[_i].explore;
    result                 = same_as_base(&params, "storage");
    ck_assert_int_gt(result->storage.store_pages, 0);
    ck_assert_int_gt(result->storage.publications, 0);
    ck_assert_int_gt(result->storage.fetched_pages, 0);
    ck_assert_int_gt(result->counters.pages[PL_OP_FETCH], 0);
    ck_assert_int_eq(result->counters.pages[PL_OP_STORE],
                     result->storage.store_pages);
    ck_assert_int_eq(result->counters.bad_storage_pages, 0);
    ck_assert_int_gt(memory_disk_finished(disk), 0);
    exec_result_free(result);
}
END_TEST

/* 8 -> 4 -> 3 -> 1 -> 8 ranks, each starting with what the one before left. */
START_TEST(restarts_on_other_ranks)
{
    static const int ranks[] = {8, 4, 3, 1, 8};

    for (int i = 0; i < 5; i++) {
        pl_run_params_t params   = with_storage(ranks[i], i % 2);
        pl_storage_start_t start = memory_disk_start(disk);
        exec_result_t *result;

        params.engine.storage_start = &start;
        result                      = same_as_base(&params, "restart");
        if (i > 0) {
            ck_assert_int_gt(result->storage_hits, 0);
        }
        ck_assert_int_eq(result->counters.bad_storage_pages, 0);
        exec_result_free(result);
    }
}
END_TEST

/* An executor without bytes takes the same decisions, with the same faults. */
START_TEST(cost_decides_alike)
{
    static const char *const faults[][2] = {
        {NULL, NULL},
        {"fetch.fail@every", NULL},
        {"fetch.fail@rank:2,count:3", NULL},
        {"store.fail@rank:1,count:2", NULL},
        {"store.fail@every", NULL},
    };
    pl_run_params_t params = with_storage(4, _i / 5);
    exec_result_t *real, *cost;

    real = exec_run_with(&params, faults[_i % 5], 30.0);
    exec_same(base_result, real, "faults of storage");
    params.executor = "cost";
    params.verify   = PL_VERIFY_OFF;
    params.storage  = NULL;
    cost            = exec_run_with(&params, faults[_i % 5], 30.0);
    ck_assert_msg(cost->status == PL_OK, "%s", cost->said.text);
    ck_assert_mem_eq(&real->engine, &cost->engine, sizeof(real->engine));
    ck_assert_mem_eq(&real->cache, &cost->cache, sizeof(real->cache));
    ck_assert_mem_eq(&real->storage, &cost->storage, sizeof(real->storage));
    ck_assert_int_eq(real->counters.pages[PL_OP_STORE],
                     cost->counters.pages[PL_OP_STORE]);
    ck_assert_int_eq(real->counters.pages[PL_OP_FETCH],
                     cost->counters.pages[PL_OP_FETCH]);
    ck_assert_int_eq(real->counters.bad_storage_pages, 0);
    ck_assert_int_eq(real->counters.unread_storage_pages,
                     cost->counters.unread_storage_pages);
    if ((_i % 5 == 1) || (_i % 5 == 2)) {
        ck_assert_int_gt(real->storage.unread_pages, 0);
    } else if (_i % 5 > 2) {
        ck_assert_int_gt(real->storage.stores_failed, 0);
    }
    exec_result_free(real);
    exec_result_free(cost);
}
END_TEST

/* One rank's disk fails: the run goes on, and says nothing wrong. */
START_TEST(a_disk_that_fails_is_no_error)
{
    pl_run_params_t params = with_storage(4, 0);
    exec_result_t *result;

    if (_i == 0) {
        memory_disk_break(disk, 2);
    } else {
        memory_disk_refuse(disk, 2);
    }
    result = same_as_base(&params, "a broken disk");
    ck_assert_int_gt(result->storage.stores_failed, 0);
    exec_result_free(result);
}
END_TEST

START_TEST(storage_needs_a_place)
{
    pl_run_params_t params = with_storage(2, 0);
    exec_result_t *result;

    params.storage = NULL;
    result         = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(result->said.text, "--storage"));
    exec_result_free(result);
}
END_TEST

/* What is known of requests that are passed over stands among the results. */
START_TEST(finished_requests_are_passed_over)
{
    pl_run_params_t params = with_storage(3, 1);
    pl_run_results_t prior = {.n_requests    = base_result->n,
                              .digests       = base_result->digests,
                              .token_offsets = base_result->offsets,
                              .tokens        = base_result->tokens};
    uint64_t *known        = calloc((size_t)prior.n_requests, sizeof(*known));
    uint8_t *skip          = calloc((size_t)prior.n_requests, sizeof(*skip));
    exec_result_t *result;

    for (int32_t i = 0; i < prior.n_requests; i++) {
        skip[i]  = i % 3 == 0 ? 1 : 0;
        known[i] = 1;
    }
    prior.has_digest   = known;
    params.engine.skip = skip;
    params.prior       = &prior;
    result             = same_as_base(&params, "resumed");
    exec_result_free(result);
    params.prior = NULL;
    result       = exec_run(&params);
    ck_assert_int_eq(result->status, PL_OK);
    for (int32_t i = 0; i < result->n; i++) {
        ck_assert_uint_eq(result->digests[i],
                          skip[i] != 0 ? 0 : base_result->digests[i]);
    }
    exec_result_free(result);
    free(known);
    free(skip);
}
END_TEST

TCase *run_storage_case(void)
{
    TCase *tcase = tcase_create("storage");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, storage_changes_nothing, 0, 7);
    tcase_add_test(tcase, restarts_on_other_ranks);
    tcase_add_loop_test(tcase, cost_decides_alike, 0, 10);
    tcase_add_loop_test(tcase, a_disk_that_fails_is_no_error, 0, 2);
    tcase_add_test(tcase, storage_needs_a_place);
    tcase_add_test(tcase, finished_requests_are_passed_over);
    return tcase;
}
