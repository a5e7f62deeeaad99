/* Whole runs on a GPU: how often the host waits, and what is caught.
 *
 * Ranks are threads that share the GPUs there are, by peer.  The same runs on a
 * device that is far (tests/unit/exec/test_waits.c) say how often a host may
 * wait in each tick, whatever the number of layers; its comment says why.  A
 * GPU may be done before the host asks, so it is the most.  Besides that a
 * GPU's host waits, if it is ahead by so much, to hand over
 *   - a chunk or step: what was handed over two before is still on its way
 *     (tokens, rows, the page maps of both stores): 4;
 *   - the pages of a chunk's gathers, prefix and own: 2.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.cuh"
#include "forward.cuh"
#include "gpu.h"
#include "support/far_device.h"
#include "support/far_forward.h"
#include "support/seed.h"
#include "support/waits.h"

enum { SHALLOW = 2, DEEP = 24, HANDED_OVER = 4, GATHERED = 2 };

#define DEBUG_CHILD "--debug-child"

/* ---- on a GPU ---- */

static pl_status_t open_device(void *context, int rank, const pl_log_t *log,
                               pl_device_t **device_p)
{
    int n_gpus = 1;

    (void)context;
    (void)cudaGetDeviceCount(&n_gpus);
    return pl_cuda_device_open(rank % (n_gpus > 0 ? n_gpus : 1), log, device_p);
}

static pl_status_t open_forward(void *context, pl_device_t *device,
                                const pl_model_config_t *config,
                                const pl_weights_t *weights,
                                pl_kv_dtype_t dtype, const pl_log_t *log,
                                pl_forward_t **forward_p)
{
    (void)context;
    return pl_cuda_open_forward(device, config, weights, (int)dtype, log,
                                forward_p);
}

static waits_params_t on_gpu(uint64_t seed, int n_ranks, int32_t n_layers)
{
    return (waits_params_t){.seed             = seed,
                            .n_prefill        = n_ranks,
                            .n_layers         = n_layers,
                            .device           = {.open = open_device},
                            .forward          = {.open = open_forward},
                            .verify           = PL_VERIFY_OFF,
                            .synchronizations = pl_cuda_n_synchronizations};
}

static waits_run_t *take(const waits_params_t *params)
{
    waits_run_t *run = waits_take(params);

    waits_must_be_good(run);
    return run;
}

/* ---- waits ---- */

static void check_tick(const waits_tick_t *tick, const waits_tick_t *most,
                       int rank, size_t i)
{
    int64_t handed_over =
        (HANDED_OVER + GATHERED) * tick->chunks + HANDED_OVER * tick->steps;

    ck_assert_int_eq(tick->chunks, most->chunks);
    ck_assert_int_eq(tick->steps, most->steps);
    ck_assert_msg(tick->waits <= most->waits + handed_over,
                  "rank %d, tick %zu, %d chunks and %d steps: %d waits, of "
                  "which %d may be",
                  rank, i, (int)tick->chunks, (int)tick->steps,
                  (int)tick->waits, (int)(most->waits + handed_over));
}

/* But for the first tick, in whose waits are those of opening. */
static void check_waits(const waits_run_t *run, const waits_run_t *far)
{
    for (int rank = 0; rank < run->n_ranks; rank++) {
        ck_assert_uint_eq(run->ticks[rank].n, far->ticks[rank].n);
        for (size_t i = 1; i < run->ticks[rank].n; i++) {
            check_tick(&run->ticks[rank].items[i], &far->ticks[rank].items[i],
                       rank, i);
        }
    }
}

START_TEST(waits_do_not_grow_with_the_layers)
{
    static const int32_t depths[] = {SHALLOW, 6, DEEP};
    uint64_t seed                 = pl_test_seed("runs");
    waits_params_t params         = on_gpu(seed, 1 + _i, SHALLOW);
    waits_params_t of_far         = params;
    waits_run_t *far;

    of_far.device           = far_device_source();
    of_far.forward          = far_forward_source();
    of_far.synchronizations = NULL;
    far                     = take(&of_far);
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        waits_run_t *run;

        params.n_layers = depths[i];
        run             = take(&params);
        for (int rank = 0; rank < run->n_ranks; rank++) {
            printf("%2d layers, rank %d of %d: the host waits %d times in %d "
                   "ticks (far: %d)\n",
                   (int)depths[i], rank, run->n_ranks,
                   (int)waits_sum(run, rank), (int)run->ticks[rank].n,
                   (int)waits_sum(far, rank));
        }
        if (!pl_cuda_is_debug()) { /* there every launch is waited for */
            check_waits(run, far);
        }
        waits_free(run);
    }
    waits_free(far);
}
END_TEST

/* ---- synchronizations ---- */

START_TEST(no_stream_is_synchronized_in_a_run)
{
    waits_params_t params = on_gpu(pl_test_seed("runs"), 1 + _i, 6);
    int64_t before        = pl_cuda_n_synchronizations();
    waits_run_t *run      = take(&params);

    ck_assert_int_gt(run->first, before); /* weights were sent: it counts */
    if (!pl_cuda_is_debug()) {
        ck_assert_int_eq(run->last, run->first);
    }
    waits_free(run);
}
END_TEST

/* With PAGELANE_DEBUG=1, which a process looks at once. */
static int debug_child(void)
{
    waits_params_t params = on_gpu(pl_test_seed("runs"), 1, SHALLOW);
    waits_run_t *run      = waits_take(&params);
    bool is_good          = run->result->status == PL_OK;
    bool grows            = run->last - run->first > (int64_t)run->ticks[0].n;

    printf("with PAGELANE_DEBUG=1: %s, %d synchronizations in %d ticks\n",
           pl_status_text(run->result->status), (int)(run->last - run->first),
           (int)run->ticks[0].n);
    waits_free(run);
    return is_good && grows ? EXIT_SUCCESS : EXIT_FAILURE;
}

START_TEST(debug_waits_for_every_launch)
{
    pid_t child = fork();
    int status  = 0;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)setenv("PAGELANE_DEBUG", "1", 1);
        (void)execl("/proc/self/exe", "test_gpu_runs", DEBUG_CHILD,
                    (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), EXIT_SUCCESS);
}
END_TEST

/* ---- what is read ---- */

/* Tokens and digests do not depend on who reads which pages where. */
START_TEST(ranks_say_the_same)
{
    uint64_t seed         = pl_test_seed("runs");
    waits_params_t params = on_gpu(seed, 1, 4);
    waits_run_t *alone;

    params.verify = PL_VERIFY_DIGEST;
    alone         = take(&params);
    for (params.n_prefill = 2; params.n_prefill <= 4; params.n_prefill++) {
        for (params.n_decode = 0; params.n_decode <= 1; params.n_decode++) {
            waits_run_t *run = take(&params);

            exec_same(alone->result, run->result, "ranks on a GPU");
            waits_free(run);
        }
    }
    waits_free(alone);
}
END_TEST

/* 9.1 the historical bug: a load-back whose pages ignore their owners */
START_TEST(wrong_owners_are_caught)
{
    waits_params_t params = on_gpu(pl_test_seed("runs"), 2 + 2 * _i, 4);
    waits_run_t *run;

    params.verify = PL_VERIFY_DIGEST;
    params.inject = "load.alloc=plain";
    run           = waits_take(&params);
    ck_assert_msg(run->result->status == PL_ERR_VIOLATION, "%s\n%s",
                  pl_status_text(run->result->status), run->result->said.text);
    ck_assert_msg(strstr(run->result->line, "invariant=I6 ") != NULL, "%s",
                  run->result->line);
    ck_assert_int_eq(run->result->n_lines, 2);
    waits_free(run);
}
END_TEST

static TCase *case_runs(void)
{
    TCase *tcase = tcase_create("runs");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, waits_do_not_grow_with_the_layers, 0, 2);
    tcase_add_loop_test(tcase, no_stream_is_synchronized_in_a_run, 0, 2);
    tcase_add_test(tcase, debug_waits_for_every_launch);
    tcase_add_test(tcase, ranks_say_the_same);
    tcase_add_loop_test(tcase, wrong_owners_are_caught, 0, 2);
    return tcase;
}

int main(int argc, char **argv)
{
    const char *required = getenv("PAGELANE_REQUIRE_GPU");
    Suite *suite         = suite_create("runs");
    SRunner *runner      = srunner_create(suite);
    int failed;

    if ((argc == 2) && (strcmp(argv[1], DEBUG_CHILD) == 0)) {
        srunner_free(runner);
        return debug_child();
    }
    if (!gpu_is_there()) {
        srunner_free(runner);
        return (required != NULL) && (required[0] == '1') ? EXIT_FAILURE : 77;
    }
    suite_add_tcase(suite, case_runs());
    srunner_set_fork_status(runner, CK_NOFORK); /* one context for all */
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
