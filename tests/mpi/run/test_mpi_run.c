/* Whole runs on processes: the same bytes and tokens as on virtual ranks, and
 * all ranks end alike when one of them cannot go on. */
#include <pagelane/mpi.h>
#include <stdlib.h>
#include <string.h>

#include "exec_support.h"
#include "support/memory_disk.h"
#include "support/mpi_check.h"

static exec_trace_t *trace;
static pl_run_params_t base;
static int rank, n_ranks;

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 13,
                                  .n          = 40,
                                  .documents  = 5,
                                  .max_shared = 300,
                                  .max_own    = 80,
                                  .max_output = 8,
                                  .gap_ns     = 400000};

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    trace = exec_trace_make(&params);
    base  = exec_params(trace);
    exec_pools(&base, 1400, 3000, 6400);
}

static void teardown(void)
{
    exec_trace_free(trace);
}

/* All ranks of the world, the last n_decode of them for decode. */
static pl_run_params_t on_world(int n_decode)
{
    pl_run_params_t params = base;

    params.engine.n_decode  = n_decode;
    params.engine.n_prefill = n_ranks - n_decode;
    exec_pools(&params, 1400, 3000, 6400);
    return params;
}

static exec_result_t *run_on_world(const pl_run_params_t *params)
{
    pl_comm_t *comm = NULL;
    exec_result_t *result;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_mpi_comm_create(MPI_COMM_WORLD, params->engine.n_prefill,
                                     60.0, NULL, &comm) == PL_OK);
    result = exec_run_on(params, comm);
    pl_mpi_comm_close(comm);
    return result;
}

static bool equal(const exec_result_t *a, const exec_result_t *b)
{
    size_t n = (size_t)a->n;

    return (a->status == PL_OK) && (b->status == PL_OK) && (a->n == b->n) &&
           (memcmp(a->digests, b->digests, n * sizeof(*a->digests)) == 0) &&
           (memcmp(a->offsets, b->offsets, (n + 1) * sizeof(*a->offsets)) ==
            0) &&
           (memcmp(a->tokens, b->tokens,
                   (size_t)a->offsets[n] * sizeof(*a->tokens)) == 0);
}

/* Every rank gets the results of all requests, equal to those of virtual ranks
 * and, where C and D are the same, counted the same. */
START_TEST(processes_give_what_virtual_ranks_give)
{
    int n_decode           = _i % 3 < n_ranks ? _i % 3 : 0;
    pl_run_params_t params = on_world(n_decode);
    exec_result_t *one, *virtual_ranks, *result;

    exec_device(&params, _i < 3 ? "cpu" : "guard");
    one           = exec_run(&base);
    virtual_ranks = exec_run(&params);
    result        = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD, equal(one, result));
    ck_assert_all(MPI_COMM_WORLD, equal(virtual_ranks, result));
    ck_assert_all(MPI_COMM_WORLD,
                  memcmp(&virtual_ranks->counters, &result->counters,
                         sizeof(result->counters)) == 0);
    ck_assert_all(MPI_COMM_WORLD, result->cache.loads > 0);
    ck_assert_all(MPI_COMM_WORLD, result->cache.evictions > 0);
    exec_result_free(one);
    exec_result_free(virtual_ranks);
    exec_result_free(result);
}
END_TEST

/* With a storage tier behind a small host tier; the disk of a process has what
 * its rank wrote, which is what it is to read. */
START_TEST(processes_fetch_what_virtual_ranks_fetch)
{
    pl_run_params_t params = on_world(n_ranks > 2 ? _i : 0);
    memory_disk_t *disks[] = {memory_disk_make(), memory_disk_make()};
    pl_storage_opener_t doors[2];
    exec_result_t *one, *virtual_ranks, *result;

    for (int i = 0; i < 2; i++) {
        doors[i] = memory_disk_opener(disks[i]);
    }
    one = exec_run(&base);
    exec_pools(&params, 1400, 1000, 6400);
    params.engine.storage_pages             = 300;
    params.engine.prefetch                  = PL_PREFETCH_WAIT_COMPLETE;
    params.engine.prefetch_threshold_tokens = 16;
    params.storage                          = &doors[0];
    virtual_ranks                           = exec_run(&params);
    params.storage                          = &doors[1];
    result                                  = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD, equal(one, result));
    ck_assert_all(MPI_COMM_WORLD, result->storage.fetched_pages > 0);
    ck_assert_all(MPI_COMM_WORLD,
                  memcmp(&virtual_ranks->storage, &result->storage,
                         sizeof(result->storage)) == 0);
    ck_assert_all(MPI_COMM_WORLD,
                  memcmp(&virtual_ranks->counters, &result->counters,
                         sizeof(result->counters)) == 0);
    ck_assert_all(MPI_COMM_WORLD,
                  (memory_disk_publications(disks[1]) > 0) == (rank == 0));
    exec_result_free(one);
    exec_result_free(virtual_ranks);
    exec_result_free(result);
    memory_disk_free(disks[0]);
    memory_disk_free(disks[1]);
}
END_TEST

/* 9.16, 9.29, I12: more ranks than a prompt has pages: some own none of it, and
 * with two decode ranks one request leaves the other with nothing to do. */
START_TEST(idle_ranks_take_part)
{
    exec_trace_params_t short_prompts = {.seed       = 3,
                                         .n          = 5,
                                         .documents  = 1,
                                         .max_shared = 16,
                                         .max_own    = 20,
                                         .max_output = 3,
                                         .gap_ns     = INT64_C(1000000000)};
    exec_trace_t *few                 = exec_trace_make(&short_prompts);
    pl_run_params_t params            = on_world(n_ranks > 2 ? 2 : 0);
    pl_run_params_t one               = exec_params(few);
    exec_result_t *a, *b;

    params.source  = exec_trace_source(few);
    params.prompts = exec_trace_tokens(few);
    a              = exec_run(&one);
    b              = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD, equal(a, b));
    exec_result_free(a);
    exec_result_free(b);
    exec_trace_free(few);
}
END_TEST

/* Each fault on the last prefill rank: a miss, no other bytes. */
START_TEST(rank_whose_copies_fail)
{
    static const char *const faults[] = {"load.fail@every", "backup.fail@every",
                                         "host.alloc=fail@every"};
    pl_run_params_t params            = on_world(n_ranks > 1 ? 1 : 0);
    exec_result_t *one, *result;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_inject_parse(&params.inject, faults[_i], NULL) == PL_OK);
    for (int i = 0; i < PL_INJECT_POINTS; i++) {
        params.inject.rules[i].rank = params.engine.n_prefill - 1;
    }
    one    = exec_run(&base);
    result = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD, equal(one, result));
    ck_assert_all(MPI_COMM_WORLD, result->n_failed == 0);
    exec_result_free(one);
    exec_result_free(result);
}
END_TEST

/* A violation on one rank ends all ranks with it; rank 0 says which. */
START_TEST(violation_ends_all_ranks)
{
    static const char *const faults[] = {"flip=device", "flip=host",
                                         "flip=transfer", "load.alloc=plain"};
    pl_run_params_t params            = on_world(n_ranks > 1 ? 1 : 0);
    exec_result_t *virtual_ranks, *result;

    ck_assert_all(MPI_COMM_WORLD,
                  pl_inject_parse(&params.inject, faults[_i], NULL) == PL_OK);
    virtual_ranks = exec_run(&params);
    result        = run_on_world(&params);
    if ((_i == 3) && (params.engine.n_prefill == 1)) {
        /* One lane has no wrong owner. */
        ck_assert_all(MPI_COMM_WORLD, result->status == PL_OK);
    } else {
        ck_assert_all(MPI_COMM_WORLD, result->status == PL_ERR_VIOLATION);
        ck_assert_all(MPI_COMM_WORLD, result->n_lines == (rank == 0 ? 2 : 0));
        ck_assert_all(MPI_COMM_WORLD,
                      (rank != 0) ||
                          (strcmp(result->line, virtual_ranks->line) == 0));
    }
    exec_result_free(virtual_ranks);
    exec_result_free(result);
}
END_TEST

/* What one rank cannot open, no rank runs without. */
START_TEST(rank_that_cannot_open_stops_all)
{
    pl_run_params_t params = on_world(0);
    int odd                = n_ranks - 1;
    exec_result_t *result;

    if (rank == odd) {
        exec_device(&params, "no such device");
    }
    result = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD,
                  result->status ==
                      (rank == odd ? PL_ERR_ARGUMENT : PL_ERR_PEER));
    exec_result_free(result);
}
END_TEST

/* Too little memory is the same refusal on every rank, said once. */
START_TEST(resource_refusal_is_everywhere)
{
    pl_run_params_t params = on_world(0);
    exec_result_t *result;

    params.available_bytes = 5000;
    result                 = run_on_world(&params);
    ck_assert_all(MPI_COMM_WORLD, result->status == PL_ERR_RESOURCE);
    ck_assert_all(MPI_COMM_WORLD, result->said.n_lines == (rank == 0 ? 1 : 0));
    exec_result_free(result);
}
END_TEST

static Suite *run_suite(void)
{
    Suite *suite = suite_create("runs on processes");
    TCase *tcase = tcase_create("run");

    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, processes_give_what_virtual_ranks_give, 0, 6);
    tcase_add_loop_test(tcase, processes_fetch_what_virtual_ranks_fetch, 0, 2);
    tcase_add_test(tcase, idle_ranks_take_part);
    tcase_add_loop_test(tcase, rank_whose_copies_fail, 0, 3);
    tcase_add_loop_test(tcase, violation_ends_all_ranks, 0, 4);
    tcase_add_test(tcase, rank_that_cannot_open_stops_all);
    tcase_add_test(tcase, resource_refusal_is_everywhere);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return mpi_check_main(&argc, &argv, run_suite);
}
