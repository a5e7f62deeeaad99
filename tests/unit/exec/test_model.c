/* A real transformer through the whole pipeline: whatever the machine looks
 * like, each request receives the same rows and says the same, per kv-dtype;
 * and what comes out is what one rank computes cold. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exec_support.h"
#include "model/transformer.h"
#include "support/check_main.h"
#include "support/far_forward.h"
#include "support/random_model.h"
#include "support/seed.h"

#define VOCAB    257
#define N_DTYPES 3
/* Few: prompts go to the host tier and come back. */
#define DEVICE_TOKENS 500

static exec_trace_t *trace;
static pl_model_config_t config;
static pl_weights_t *weights;
static pl_run_params_t base; /* one rank */
static exec_result_t *results[N_DTYPES];

static void setup(void)
{
    exec_trace_params_t params = {.seed       = 13,
                                  .n          = 30,
                                  .documents  = 4,
                                  .max_shared = 150,
                                  .max_own    = 60,
                                  .max_output = 8,
                                  .gap_ns     = 400000};
    uint64_t seed              = pl_test_seed("model");
    pl_rng_t rng               = pl_rng_seed(seed);

    trace             = exec_trace_make(&params);
    trace->vocab      = VOCAB;
    config            = pl_test_config(&rng);
    config.vocab_size = VOCAB;
    config.hidden += 24; /* enough for a wrong row to show in what is said */
    weights               = pl_test_weights(&config, seed);
    base                  = exec_params(trace);
    base.executor         = "model";
    base.model            = &config;
    base.weights          = weights;
    base.engine.n_prefill = 1;
    exec_pools(&base, DEVICE_TOKENS, 3000, 6400);
    for (int dtype = 0; dtype < N_DTYPES; dtype++) {
        base.kv_dtype  = (pl_kv_dtype_t)dtype;
        results[dtype] = exec_run(&base);
    }
    base.kv_dtype = PL_KV_F32;
}

static void teardown(void)
{
    for (int dtype = 0; dtype < N_DTYPES; dtype++) {
        exec_result_free(results[dtype]);
    }
    pl_weights_close(weights);
    exec_trace_free(trace);
}

static void expect_same(const pl_run_params_t *params, const char *what)
{
    exec_result_t *result = exec_run(params);

    exec_same(results[params->kv_dtype], result, what);
    exec_result_free(result);
}

/* ---- the same, whatever the machine ---- */

START_TEST(base_has_hits)
{
    for (int dtype = 0; dtype < N_DTYPES; dtype++) {
        const exec_result_t *result = results[dtype];

        ck_assert_msg(result->status == PL_OK, "%s%s", result->said.text,
                      result->line);
        ck_assert_int_gt(result->cache.loads, 0);
        ck_assert_int_gt(result->cache.evictions, 0);
        ck_assert_int_eq(result->n_failed, 0);
        for (int other = 0; other < dtype; other++) {
            ck_assert_uint_ne(result->digests[0], results[other]->digests[0]);
        }
    }
}
END_TEST

/* 9.54; with 8 ranks some have nothing to do */
START_TEST(ranks)
{
    static const int counts[] = {2, 3, 4, 8};
    pl_run_params_t params    = base;

    params.kv_dtype         = (pl_kv_dtype_t)(_i % N_DTYPES);
    params.engine.n_prefill = counts[_i / N_DTYPES];
    for (params.engine.n_decode = 0; params.engine.n_decode <= 1;
         params.engine.n_decode++) {
        exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
        expect_same(&params, "ranks");
    }
}
END_TEST

/* Every rank keeps all pages: attention reads the rank's own store. */
START_TEST(replicated)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    pl_run_params_t params    = base;

    params.engine.ownership.kind = PL_OWNERSHIP_REPLICATED;
    params.engine.n_prefill      = counts[_i];
    params.engine.n_decode       = _i % 2;
    params.engine.page_tokens    = _i % 2 == 0 ? 16 : 64;
    for (int dtype = 0; dtype < N_DTYPES; dtype++) {
        params.kv_dtype = (pl_kv_dtype_t)dtype;
        exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
        expect_same(&params, "replicated");
    }
}
END_TEST

START_TEST(chunks_and_pages)
{
    static const int32_t chunks[] = {64, 128, 4096};
    static const int32_t pages[]  = {16, 64};
    pl_run_params_t params        = base;

    params.kv_dtype            = (pl_kv_dtype_t)(_i / 2 % N_DTYPES);
    params.engine.n_prefill    = 1 + _i;
    params.engine.page_tokens  = pages[_i % 2];
    params.engine.chunk_tokens = chunks[_i / 2];
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    expect_same(&params, "chunk and page");
}
END_TEST

/* Few decode pages: requests leave for the host buffer, or come back as new
 * prompts. */
START_TEST(preemption)
{
    exec_trace_params_t of_trace = {.seed       = 5,
                                    .n          = 24,
                                    .documents  = 3,
                                    .max_shared = 60,
                                    .max_own    = 40,
                                    .max_output = 60,
                                    .gap_ns     = 1000};
    exec_trace_t *talk           = exec_trace_make(&of_trace);
    pl_run_params_t roomy        = base;
    pl_run_params_t tight;
    exec_result_t *a, *b;

    talk->vocab                    = VOCAB;
    roomy.source                   = exec_trace_source(talk);
    roomy.prompts                  = exec_trace_tokens(talk);
    roomy.kv_dtype                 = PL_KV_FP8;
    tight                          = roomy;
    tight.engine.n_prefill         = 2;
    tight.engine.n_decode          = _i % 2;
    tight.engine.decode_pages      = 14;
    tight.engine.decode_host_pages = _i < 2 ? 0 : 24;
    tight.verify                   = PL_VERIFY_FULL;
    a                              = exec_run(&roomy);
    b                              = exec_run(&tight);
    exec_same(a, b, "preemption");
    ck_assert_int_gt(_i < 2 ? b->reentries : b->preemptions, 0);
    exec_result_free(a);
    exec_result_free(b);
    exec_trace_free(talk);
}
END_TEST

/* Memory that the host cannot touch: a forward of the device, over all tiers,
 * and cold as well. */
START_TEST(far)
{
    pl_run_params_t params = base;

    exec_device(&params, "far");
    params.forward  = far_forward_source();
    params.verify   = (pl_verify_t)(_i % 3);
    params.kv_dtype = (pl_kv_dtype_t)(_i / 3 % N_DTYPES);
    params.engine.ownership.kind =
        _i < 9 ? params.engine.ownership.kind : PL_OWNERSHIP_REPLICATED;
    params.engine.n_prefill = 1 + _i % 4;
    params.engine.n_decode  = _i % 2;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    expect_same(&params, "far");
}
END_TEST

START_TEST(the_hosts_forward_is_refused_there)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    exec_device(&params, "far");
    result = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    ck_assert_msg(strstr(result->said.text, "cannot reach the memory of") !=
                      NULL,
                  "%s", result->said.text);
    exec_result_free(result);
}
END_TEST

/* ---- cold ---- */

START_TEST(cold_gives_the_same)
{
    pl_run_params_t params = base;

    params.verify           = PL_VERIFY_FULL;
    params.kv_dtype         = (pl_kv_dtype_t)_i;
    params.engine.n_prefill = 3;
    params.engine.n_decode  = _i % 2;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    expect_same(&params, "cold");
}
END_TEST

/* The prompts that are read after the last tick are others. */
typedef struct liar {
    pl_token_reader_t honest;
    int32_t request, position;
    int n_done; /* ranks' last ticks seen */
} liar_t;

static void read_and_lie(void *context, int32_t request, int32_t first,
                         int32_t n, int32_t *tokens)
{
    liar_t *liar = context;

    liar->honest.read(liar->honest.context, request, first, n, tokens);
    if ((__atomic_load_n(&liar->n_done, __ATOMIC_SEQ_CST) > 0) &&
        (request == liar->request) && (first <= liar->position) &&
        (liar->position < first + n)) {
        tokens[liar->position - first] =
            (tokens[liar->position - first] + 1) % VOCAB;
    }
}

static void note_end(void *context, int rank, const pl_engine_t *engine)
{
    liar_t *liar = context;

    (void)rank;
    if (pl_engine_done(engine)) {
        __atomic_store_n(&liar->n_done, 1, __ATOMIC_SEQ_CST);
    }
}

START_TEST(cold_difference_is_named)
{
    pl_run_params_t params = base;
    liar_t liar            = {.honest = base.prompts, .request = 17};
    exec_result_t *result;

    params.verify           = PL_VERIFY_FULL;
    params.engine.n_prefill = 1 + _i;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    params.prompts          = (pl_token_reader_t){&liar, read_and_lie};
    params.observer.tick    = note_end;
    params.observer.context = &liar;
    result                  = exec_run(&params);
    ck_assert_msg(result->status == PL_ERR_VIOLATION, "%s", result->said.text);
    ck_assert_msg(strstr(result->line, "invariant=I7 req=17 ") != NULL, "%s",
                  result->line);
    ck_assert_int_eq(result->n_lines, 2);
    exec_result_free(result);
    /* nobody looks */
    params.verify = PL_VERIFY_DIGEST;
    liar.n_done   = 0;
    result        = exec_run(&params);
    ck_assert_int_eq(result->status, PL_OK);
    exec_result_free(result);
}
END_TEST

/* ---- faults ---- */

/* 9.1 the historical bug as its users saw it: without checks another text */
START_TEST(wrong_owners_change_the_text)
{
    static const char *const plain[] = {"load.alloc=plain", NULL};
    pl_run_params_t params           = base;
    exec_result_t *result;
    size_t n_tokens = (size_t)results[0]->offsets[results[0]->n];

    params.engine.n_prefill = 4;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    params.verify = PL_VERIFY_OFF;
    result        = exec_run_with(&params, plain, 30.0);
    ck_assert_msg(result->status == PL_OK, "%s", result->said.text);
    ck_assert_uint_eq((size_t)result->offsets[result->n], n_tokens);
    ck_assert_int_ne(memcmp(result->tokens, results[0]->tokens,
                            n_tokens * sizeof(*result->tokens)),
                     0);
    exec_result_free(result);
    params.verify = PL_VERIFY_DIGEST;
    result        = exec_run_with(&params, plain, 30.0);
    ck_assert_int_eq(result->status, PL_ERR_VIOLATION);
    ck_assert_ptr_nonnull(strstr(result->line, "invariant=I6 "));
    exec_result_free(result);
}
END_TEST

START_TEST(token_beyond_the_vocabulary_is_one_line)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    trace->vocab            = VOCAB + 40;
    params.engine.n_prefill = 1 + _i;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    result       = exec_run(&params);
    trace->vocab = VOCAB;
    ck_assert_int_eq(result->status, PL_ERR_INPUT);
    ck_assert_msg(strstr(result->said.text, "none of the model's 257") != NULL,
                  "%s", result->said.text);
    exec_result_free(result);
}
END_TEST

START_TEST(long_requests_are_a_warning)
{
    pl_run_params_t params  = base;
    pl_model_config_t brief = config;
    exec_result_t *result;

    brief.max_positions     = 100;
    params.model            = &brief;
    params.engine.n_prefill = 2;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    result = exec_run(&params);
    exec_same(results[0], result, "warning");
    ck_assert_int_eq(result->said.n_lines, 1);
    ck_assert_msg(strstr(result->said.text, "the model's 100 positions") !=
                      NULL,
                  "%s", result->said.text);
    exec_result_free(result);
}
END_TEST

START_TEST(no_model_is_one_line)
{
    pl_run_params_t params = base;
    exec_result_t *result;

    params.model = NULL;
    result       = exec_run(&params);
    ck_assert_int_eq(result->status, PL_ERR_ARGUMENT);
    ck_assert_int_eq(result->said.n_lines, 1);
    exec_result_free(result);
}
END_TEST

/* ---- observers ---- */

typedef struct seen {
    pthread_mutex_t mutex;
    int32_t greedy[64]; /* [request] */
    int32_t n_prompts, n_selected;
} seen_t;

static void see_logits(void *context, int32_t request, int32_t n_prompt,
                       const float *logits, int32_t n)
{
    seen_t *seen = context;

    pthread_mutex_lock(&seen->mutex);
    seen->n_prompts +=
        (n == VOCAB) &&
                (n_prompt == trace->requests[request].request.input_tokens)
            ? 1
            : 0;
    seen->greedy[request] = pl_greedy(logits, n);
    pthread_mutex_unlock(&seen->mutex);
}

static void see_selected(void *context, int32_t request, int32_t layer,
                         int32_t position, const int32_t *positions, int32_t n,
                         const float *scores, int32_t n_keys)
{
    seen_t *seen = context;

    pthread_mutex_lock(&seen->mutex);
    seen->n_selected +=
        (position < trace->requests[request].request.input_tokens) &&
                config.full_indexer[layer] && (n_keys == position + 1) &&
                (positions[n - 1] <= position) && !isnan(scores[position])
            ? 1
            : 0;
    pthread_mutex_unlock(&seen->mutex);
}

START_TEST(observer_sees_each_prompt)
{
    seen_t seen            = {0};
    pl_run_params_t params = base;
    int32_t n_full         = 0;
    exec_result_t *result;

    pthread_mutex_init(&seen.mutex, NULL);
    params.engine.n_prefill = 2;
    exec_pools(&params, DEVICE_TOKENS, 3000, 6400);
    params.verify = PL_VERIFY_FULL; /* is not observed */
    params.model_observer =
        (pl_model_observer_t){&seen, see_logits, see_selected};
    result = exec_run(&params);
    exec_same(results[0], result, "observed");
    ck_assert_int_eq(seen.n_prompts, trace->n);
    for (int32_t i = 0; i < trace->n; i++) {
        ck_assert_int_eq(seen.greedy[i], result->tokens[result->offsets[i]]);
    }
    for (int32_t layer = 0; layer < config.n_layers; layer++) {
        n_full += config.full_indexer[layer] ? 1 : 0;
    }
    ck_assert_int_eq(seen.n_selected, n_full * result->engine.prefill_tokens);
    pthread_mutex_destroy(&seen.mutex);
    exec_result_free(result);
}
END_TEST

static TCase *model_case(void)
{
    TCase *tcase = tcase_create("model");

    tcase_set_timeout(tcase, 200);
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, base_has_hits);
    tcase_add_loop_test(tcase, ranks, 0, 4 * N_DTYPES);
    tcase_add_loop_test(tcase, replicated, 0, 5);
    tcase_add_loop_test(tcase, chunks_and_pages, 0, 6);
    tcase_add_loop_test(tcase, preemption, 0, 4);
    tcase_add_loop_test(tcase, far, 0, 12);
    tcase_add_test(tcase, the_hosts_forward_is_refused_there);
    tcase_add_loop_test(tcase, cold_gives_the_same, 0, N_DTYPES);
    tcase_add_loop_test(tcase, cold_difference_is_named, 0, 3);
    tcase_add_test(tcase, wrong_owners_change_the_text);
    tcase_add_loop_test(tcase, token_beyond_the_vocabulary_is_one_line, 0, 2);
    tcase_add_test(tcase, long_requests_are_a_warning);
    tcase_add_test(tcase, no_model_is_one_line);
    tcase_add_test(tcase, observer_sees_each_prompt);
    return tcase;
}

PL_CHECK_MAIN("exec model", model_case())
