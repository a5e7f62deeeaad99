/* Faults on purpose: what must be caught is caught where it is, what may fail
 * fails alone, and nobody waits for ever. */
#include "test_exec.h"

#include <stdlib.h>
#include <string.h>

#include "exec_support.h"

static exec_trace_t *trace;
static pl_run_params_t base;
static exec_result_t *base_result;

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 12,
                                  .n          = 60,
                                  .documents  = 7,
                                  .max_shared = 300,
                                  .max_own    = 80,
                                  .max_output = 6,
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

static exec_result_t *run_with(const pl_run_params_t *params,
                               const char *injection)
{
    const char *list[] = {injection, NULL};

    return exec_run_with(params, list, 30.0);
}

/* ---- caught ---- */

static const struct {
    const char *injection;
    const char *says; /* in the line */
} caught[] = {
    {"load.alloc=plain", "invariant=I6 "},
    {"load.alloc=plain", " tier=device "},
    {"write.owner=shift", " tier=device "},
    {"flip=device", " tier=device "},
    {"flip=device@rank:3,count:5", " tier=device "},
    {"flip=device@tick:9", " tier=device "},
    {"flip=host", " tier=host "},
    {"flip=host@rank:2,count:2", " tier=host "},
    {"flip=host@every", " tier=host "},
    {"flip=transfer", " tier=transfer "},
    {"flip=transfer@rank:1,count:2", " tier=transfer "},
};

#define N_CAUGHT ((int)(sizeof(caught) / sizeof(caught[0])))

/* 9.52, I2, I6, I7: the historical bug, and a flipped bit in each tier; the
 * same line each time, then the command. */
START_TEST(violations_are_caught_and_located)
{
    static const char *const names[] = {"cpu", "guard", "far"};
    pl_run_params_t params           = base;

    for (int devices = 0; devices < 3; devices++) {
        exec_result_t *a, *b;

        exec_device(&params, names[devices]);
        a = run_with(&params, caught[_i].injection);
        b = run_with(&params, caught[_i].injection);
        ck_assert_msg(a->status == PL_ERR_VIOLATION, "%s: %s, %s",
                      caught[_i].injection, pl_status_text(a->status),
                      a->said.text);
        ck_assert_int_eq(a->n_lines, 2);
        ck_assert_int_eq(
            strncmp(a->line, "pagelane violation: invariant=I", 31), 0);
        ck_assert_msg(strstr(a->line, caught[_i].says) != NULL, "%s: %s",
                      caught[_i].injection, a->line);
        ck_assert_ptr_null(strstr(a->line, " page=-1"));
        ck_assert_ptr_null(strstr(a->line, " owner=-1"));
        ck_assert_str_eq(a->line, b->line);
        ck_assert_str_eq(a->second, params.reproduce);
        exec_result_free(a);
        exec_result_free(b);
    }
}
END_TEST

/* With decode ranks of their own. */
START_TEST(flipped_transfer_is_caught_on_a_decode_rank)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.engine.n_decode = 2;
    result                 = run_with(&params, _i == 0 ? "flip=transfer"
                                                       : "flip=transfer@rank:5,count:3");
    ck_assert_int_eq(result->status, PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(strstr(result->line, " tier=transfer "));
    ck_assert_ptr_nonnull(
        strstr(result->line, _i == 0 ? " reader=4 " : " reader=5 "));
    exec_result_free(result);
}
END_TEST

/* Without verification nobody looks; a wrong byte then changes what is said. */
START_TEST(unverified_faults_change_the_digest)
{
    pl_run_params_t params = base;
    exec_result_t *result;
    int differ = 0;

    params.verify = PL_VERIFY_OFF;
    result        = run_with(&params, "flip=device");
    ck_assert_int_eq(result->status, PL_OK);
    for (int32_t i = 0; i < result->n; i++) {
        differ += result->digests[i] != base_result->digests[i] ? 1 : 0;
    }
    ck_assert_int_gt(differ, 0);
    exec_result_free(result);
}
END_TEST

/* ---- failed, but not wrong ---- */

static const char *const harmless[] = {"load.fail",
                                       "load.fail@rank:2",
                                       "load.fail@every",
                                       "backup.fail",
                                       "backup.fail@every",
                                       "host.alloc=fail",
                                       "load.delay",
                                       "host.alloc=fail@every",
                                       "split.during-write",
                                       "backup.fail@rank:3,count:2",
                                       "split.during-write@every"};

#define N_HARMLESS ((int)(sizeof(harmless) / sizeof(harmless[0])))

/* A copy that fails is a miss; no request gets other bytes for it. */
START_TEST(failed_copies_are_misses)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    const char *fault = harmless[_i % N_HARMLESS];

    params.engine.explore  = _i % 3;
    params.engine.n_decode = _i % 2;
    exec_device(&params, _i < N_HARMLESS ? "cpu" : "far");
    result = run_with(&params, fault);
    exec_same(base_result, result, fault);
    ck_assert_int_eq(result->n_failed, 0);
    exec_result_free(result);
}
END_TEST

/* 9.44, 9.45 an aborted transfer is that request's failure alone */
START_TEST(aborted_transfers_fail_their_request)
{
    static const char *const texts[] = {
        "transfer.abort", "transfer.abort@count:7", "transfer.abort@rank:2",
        "transfer.abort@every"};
    pl_run_params_t params = base;
    exec_result_t *result;
    int equal = 0;

    params.engine.n_decode = 1;
    exec_device(&params, _i < 4 ? "cpu" : "far");
    result = run_with(&params, texts[_i % 4]);
    ck_assert_msg(result->status == PL_OK, "%s%s", result->said.text,
                  result->line);
    ck_assert_int_ge(result->n_failed, 1);
    ck_assert(_i % 4 == 3 || result->n_failed == 1);
    for (int32_t i = 0; i < result->n; i++) {
        equal += result->digests[i] == base_result->digests[i] ? 1 : 0;
    }
    ck_assert_int_ge(equal, result->n - result->n_failed);
    exec_result_free(result);
}
END_TEST

/* ---- nobody waits for ever ---- */

START_TEST(stalled_rank_is_noticed)
{
    static const char *const list[] = {"rank.stall@rank:2,tick:5", NULL};
    pl_run_params_t params          = base;
    bool stalled                    = false;

    exec_device(&params, _i == 0 ? "cpu" : "far");
    /* On a busy machine another rank may be missed before that one stalls. */
    for (double timeout_s = 0.3; !stalled; timeout_s *= 4) {
        exec_result_t *result = exec_run_with(&params, list, timeout_s);

        ck_assert_int_eq(result->status, PL_ERR_COMM);
        ck_assert_ptr_nonnull(strstr(result->said.text, "waited"));
        stalled = strstr(result->said.text, "rank 2 stops") != NULL;
        exec_result_free(result);
    }
}
END_TEST

typedef struct different {
    pl_run_params_t params;
    int odd_rank;
    int what;
    pl_status_t status[8];
} different_t;

/* One rank is told something else than the others. */
static pl_status_t run_one(void *context, pl_comm_t *comm)
{
    static char no_device[] = "no such device";
    different_t *all        = context;
    pl_run_params_t own     = all->params;

    if (comm->rank == all->odd_rank) {
        switch (all->what) {
        case 0:
            own.engine.costs.decode[PL_COST_LAUNCH].step_ns++;
            break;
        case 1:
            own.engine.explore = 3;
            break;
        default:
            own.device.context = no_device;
            break;
        }
    }
    all->status[comm->rank] = pl_run(&own, comm);
    return all->status[comm->rank];
}

/* 9.33, I4: whatever differs is found in debug mode, on all ranks, and named */
START_TEST(ranks_that_differ_are_found)
{
    log_capture_t said;
    different_t all = {.params = base, .odd_rank = _i / 2, .what = _i % 2};

    log_capture_open(&said);
    said.log.level = PL_LOG_WARN;
    all.params.log = &said.log;
    ck_assert_int_eq(pl_comm_run_local(4, 4, 20.0, &said.log, run_one, &all),
                     PL_ERR_DISAGREE);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(all.status[rank], PL_ERR_DISAGREE);
    }
    ck_assert_ptr_nonnull(strstr(said.text, "differ in tick"));
    log_capture_close(&said);
}
END_TEST

/* What one rank cannot open, no rank runs without. */
START_TEST(rank_that_cannot_open_stops_all)
{
    log_capture_t said;
    different_t all = {.params = base, .odd_rank = _i % 4, .what = 2};

    exec_device(&all.params, _i < 4 ? "cpu" : "far");
    log_capture_open(&said);
    said.log.level = PL_LOG_WARN;
    all.params.log = &said.log;
    ck_assert_int_eq(pl_comm_run_local(4, 4, 20.0, &said.log, run_one, &all),
                     PL_ERR_ARGUMENT);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(all.status[rank],
                         rank == _i % 4 ? PL_ERR_ARGUMENT : PL_ERR_PEER);
    }
    log_capture_close(&said);
}
END_TEST

/* ---- refused at the start ---- */

/* One line from rank 0 that says how many bytes, and what to lower. */
START_TEST(too_little_memory_is_said_in_bytes)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.available_bytes = 100000;
    result                 = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_RESOURCE);
    ck_assert_int_eq(result->said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(result->said.text, "but 100,000 bytes"));
    ck_assert_ptr_nonnull(strstr(result->said.text, "lower --decode-pages"));
    exec_result_free(result);
}
END_TEST

START_TEST(pool_too_small_for_a_prompt_is_one_line)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.engine.device_pages = 3;
    result                     = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_RESOURCE);
    ck_assert_int_eq(result->said.n_lines, 1);
    exec_result_free(result);
}
END_TEST

START_TEST(unlimited_pages_need_the_cost_executor)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.engine.device_pages = PL_PAGES_UNLIMITED;
    result                     = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    ck_assert_int_eq(result->said.n_lines, 1);
    exec_result_free(result);
    params.executor = "cost";
    result          = exec_run(&params);
    ck_assert_msg(result->status == PL_OK, "%s", result->said.text);
    ck_assert_int_eq(result->cache.evictions, 0);
    exec_result_free(result);
    params.executor = "guess";
    result          = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    exec_result_free(result);
}
END_TEST

TCase *faults_case(void)
{
    TCase *tcase = tcase_create("faults");

    tcase_set_timeout(tcase, 60);
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, violations_are_caught_and_located, 0, N_CAUGHT);
    tcase_add_loop_test(tcase, flipped_transfer_is_caught_on_a_decode_rank, 0,
                        2);
    tcase_add_test(tcase, unverified_faults_change_the_digest);
    tcase_add_loop_test(tcase, failed_copies_are_misses, 0, 2 * N_HARMLESS);
    tcase_add_loop_test(tcase, aborted_transfers_fail_their_request, 0, 8);
    tcase_add_loop_test(tcase, stalled_rank_is_noticed, 0, 2);
    tcase_add_loop_test(tcase, ranks_that_differ_are_found, 0, 8);
    tcase_add_loop_test(tcase, rank_that_cannot_open_stops_all, 0, 8);
    tcase_add_test(tcase, too_little_memory_is_said_in_bytes);
    tcase_add_test(tcase, pool_too_small_for_a_prompt_is_one_line);
    tcase_add_test(tcase, unlimited_pages_need_the_cost_executor);
    return tcase;
}
