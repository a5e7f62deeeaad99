/* Checkpoints through the whole pipeline, their prompts twice with so few pages
 * that the second time comes from the host tier: the greedy tokens of Hugging
 * Face transformers for every number of ranks, chunk and page size. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "exec_support.h"
#include "model/transformer.h"
#include "support/check_main.h"
#include "support/oracle.h"

#define N_NEW  16
#define PASSES 2

/* [checkpoint] pages for little more than its longest prompt */
static const int32_t device_tokens[ORACLES] = {780, 410, 520, 1520};

static const struct {
    int n_prefill, n_decode;
    int32_t page, chunk;
} shapes[] = {{1, 0, 64, 256},  {2, 0, 16, 64},  {3, 1, 64, 128},
              {4, 0, 16, 4096}, {8, 0, 16, 128}, {1, 1, 16, 64}};

#define N_SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static exec_trace_t *make_trace(const oracle_t *oracle)
{
    exec_trace_t *trace = calloc(1, sizeof(*trace));

    trace->n        = PASSES * oracle->n_prompts;
    trace->requests = calloc((size_t)trace->n, sizeof(*trace->requests));
    trace->texts    = calloc((size_t)trace->n, sizeof(*trace->texts));
    for (int32_t i = 0; i < trace->n; i++) {
        pl_request_t *request = &trace->requests[i].request;

        trace->texts[i]        = oracle->prompts[i % oracle->n_prompts];
        request->arrival_ns    = i;
        request->input_tokens  = oracle->lengths[i % oracle->n_prompts];
        request->output_tokens = N_NEW;
        request->line          = i + 1;
    }
    return trace;
}

static void free_trace(exec_trace_t *trace)
{
    free(trace->texts);
    exec_trace_free(trace);
}

static void compare(const oracle_t *oracle, const exec_result_t *result)
{
    for (int32_t i = 0; i < result->n; i++) {
        int prompt = i % oracle->n_prompts;
        const pl_safetensor_t *greedy =
            oracle_find(oracle, "greedy", prompt, -1);

        ck_assert_ptr_nonnull(greedy);
        ck_assert_int_eq(result->offsets[i + 1] - result->offsets[i], N_NEW);
        ck_assert_msg(memcmp(result->tokens + result->offsets[i], greedy->bytes,
                             N_NEW * sizeof(int32_t)) == 0,
                      "tokens of prompt %d", prompt);
        ck_assert_uint_eq(result->digests[i], result->digests[prompt]);
    }
}

/* Shapes of one checkpoint; equal digests among them. */
START_TEST(says_what_transformers_say)
{
    oracle_t *oracle     = oracle_open(_i);
    exec_result_t *first = NULL;
    int64_t n_loads      = 0;
    exec_trace_t *trace;

    if (oracle == NULL) {
        return;
    }
    trace = make_trace(oracle);
    for (int shape = 0; shape < N_SHAPES; shape++) {
        pl_run_params_t params = exec_params(trace);
        exec_result_t *result;

        params.executor            = "model";
        params.model               = &oracle->config;
        params.weights             = oracle->weights;
        params.engine.n_prefill    = shapes[shape].n_prefill;
        params.engine.n_decode     = shapes[shape].n_decode;
        params.engine.page_tokens  = shapes[shape].page;
        params.engine.chunk_tokens = shapes[shape].chunk;
        exec_pools(&params, device_tokens[_i], 8000, 8000);
        result = exec_run(&params);
        ck_assert_msg(result->status == PL_OK, "%s%s", result->said.text,
                      result->line);
        n_loads += result->cache.loads;
        compare(oracle, result);
        if (first == NULL) {
            first = result;
        } else {
            exec_same(first, result, "shape");
            exec_result_free(result);
        }
    }
    ck_assert_int_gt(n_loads, 0);
    exec_result_free(first);
    free_trace(trace);
    oracle_close(oracle);
}
END_TEST

static TCase *oracle_case(void)
{
    TCase *tcase = tcase_create("oracle");

    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, says_what_transformers_say, 0, ORACLES);
    return tcase;
}

PL_CHECK_MAIN("exec model oracle", oracle_case())
