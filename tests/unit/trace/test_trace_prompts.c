/* The prompts format: one object of token lists. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"
#include "trace_support.h"

#define TWO "{\"prompts\": [[5, 17, 3], [5, 2147483647]]}"

/* However the text is laid out. */
static const char *const LAYOUTS[] = {
    TWO,
    TWO "\n\n",
    "\n \r\n" TWO,
    "\xEF\xBB\xBF" TWO,
    "{\n \"seed\": 7,\n \"prompts\": [\n  [5,\n   17, 3],\n  [5, "
    "2147483647]\n ]\n}\n",
    "{\"model\": null,\n\"prompts\":\r\n[[5,17,3],[5,2147483647]]}",
};

START_TEST(prompts_are_read)
{
    pl_trace_t *trace = must_open_text(LAYOUTS[_i], NULL);
    int32_t tokens[3] = {0};

    ck_assert_str_eq(pl_trace_format(trace), "prompts");
    ck_assert_int_eq(pl_trace_block_tokens(trace), 0);
    ck_assert_int_eq(pl_trace_count(trace), 2);
    for (int32_t i = 0; i < 2; i++) {
        const pl_request_t *request = pl_trace_request(trace, i);

        ck_assert_int_eq(request->arrival_ns, 0);
        ck_assert_int_eq(request->input_tokens, 3 - i);
        ck_assert_int_eq(request->output_tokens, 16);
        ck_assert_uint_eq(request->name_space, 0);
        ck_assert_int_eq(request->line, i + 1);
    }
    pl_trace_tokens(trace, 0, 0, 3, tokens);
    ck_assert_int_eq(tokens[0], 5);
    ck_assert_int_eq(tokens[1], 17);
    ck_assert_int_eq(tokens[2], 3);
    pl_trace_tokens(trace, 1, 1, 1, tokens);
    ck_assert_int_eq(tokens[0], 2147483647);
    pl_trace_close(trace);
}
END_TEST

/* --max-new is how many, not only at most how many. */
START_TEST(max_new_is_the_output)
{
    static const int32_t MAX_NEW[] = {1, 5, 16, 100};
    pl_trace_params_t params       = pl_trace_params_default();

    for (size_t i = 0; i < 4; i++) {
        pl_trace_t *trace;

        params.max_new = MAX_NEW[i];
        trace          = must_open_text(TWO, &params);
        ck_assert_int_eq(pl_trace_request(trace, 1)->output_tokens, MAX_NEW[i]);
        pl_trace_close(trace);
    }
}
END_TEST

START_TEST(offset_limit_and_passes)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;
    int32_t tokens[2];

    params.offset = 1;
    params.passes = 3;
    trace         = must_open_text(TWO, &params);
    ck_assert_int_eq(pl_trace_count(trace), 3);
    for (int32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_trace_request(trace, i)->line, 2);
        ck_assert_int_eq(pl_trace_request(trace, i)->arrival_ns, 0);
        pl_trace_tokens(trace, i, 0, 2, tokens);
        ck_assert_int_eq(tokens[1], 2147483647);
    }
    pl_trace_close(trace);
}
END_TEST

/* A shared prefix is seen by its pages. */
START_TEST(example_prompts)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;
    pl_page_key_t keys[2];

    params.token_limit = 512;
    params.max_new     = 16;
    trace = must_open_file(PAGELANE_EXAMPLES "/glm-tiny/prompts.json", &params);
    ck_assert_int_eq(pl_trace_count(trace), 6);
    ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 1);
    ck_assert_int_eq(pl_trace_request(trace, 4)->input_tokens, 200);
    ck_assert_int_eq(pl_trace_request(trace, 5)->input_tokens, 777);
    for (int32_t page = 0; page < 12; page++) {
        pl_trace_page_keys(trace, 4, 16, page, 1, &keys[0]);
        pl_trace_page_keys(trace, 5, 16, page, 1, &keys[1]);
        /* the first 100 tokens */
        ck_assert_int_eq(memcmp(&keys[0], &keys[1], sizeof(keys[0])) == 0,
                         page < 6);
    }
    pl_trace_close(trace);
}
END_TEST

static const struct {
    const char *text;
    int32_t token_limit;
    const char *says;
} BAD[] = {
    {"{\"prompts\": null}", 0, "\"prompts\" is missing"},
    {"{\"prompts\": []}", 0, "\"prompts\" is [ ]"},
    {"{\"prompts\": 7}", 0, "\"prompts\" is 7"},
    {"{\"prompts\": {}}", 0, "\"prompts\" is { }"},
    {"{\"prompts\": [[1], []]}", 0, "\"prompts\"[1] is [ ]"},
    {"{\"prompts\": [[1], 7]}", 0, "\"prompts\"[1] is 7"},
    {"{\"prompts\": [[1], null]}", 0, "\"prompts\"[1] is null"},
    {"{\"prompts\": [[1], \"abc\"]}", 0, "\"prompts\"[1] is \"abc\""},
    {"{\"prompts\": [[1, -1]]}", 0, "\"prompts\"[0][1] is -1"},
    {"{\"prompts\": [[1, 2.0]]}", 0, "\"prompts\"[0][1] is 2.0"},
    {"{\"prompts\": [[[1]]]}", 0, "\"prompts\"[0][0] is [ 1 ]"},
    {"{\"prompts\": [[2147483648]]}", 0, "0 to 2147483647"},
    {"{\"prompts\": [[99999999999999999999]]}", 0, "0 to 2147483647"},
    {"{\"prompts\": [[1], [511, 512]]}", 512,
     "\"prompts\"[1][1] is 512: expected a token from 0 to 511 (the model's"},
    {TWO "\n" TWO, 0, "not JSON"},
    {TWO "\nx", 0, "not JSON"},
    {"{\"prompts\": [[1, 2], [3", 0, "ends within its JSON"},
    {"{\n\"prompts\": [[1, 2], [3", 0, "ends within its JSON"},
    {"{\n\"prompt\": [[1, 2]]\n}", 0, "ends within its JSON"},
    {"{\"prompt\": [[1, 2]]}", 0, "JSON object with \"prompts\""},
};

START_TEST(bad_prompts_are_refused)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    params.token_limit = BAD[_i].token_limit;
    ck_assert_msg(open_text(BAD[_i].text, &params, &heard, &trace) ==
                      PL_ERR_INPUT,
                  "taken: %s", BAD[_i].text);
    ck_assert_ptr_null(trace);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strncmp(heard.error, "t.jsonl:", 8) == 0, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, BAD[_i].says) != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, "expected ") != NULL, "%s", heard.error);
}
END_TEST

START_TEST(block_tokens_have_no_meaning)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    params.block_tokens = 32;
    ck_assert_int_eq(open_text(TWO, &params, &heard, &trace), PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(heard.error, "--block-tokens 32"));
}
END_TEST

static TCase *prompts(void)
{
    TCase *tcase = tcase_create("prompts");

    tcase_add_loop_test(tcase, prompts_are_read, 0,
                        (int)(sizeof(LAYOUTS) / sizeof(*LAYOUTS)));
    tcase_add_test(tcase, max_new_is_the_output);
    tcase_add_test(tcase, offset_limit_and_passes);
    tcase_add_test(tcase, example_prompts);
    tcase_add_loop_test(tcase, bad_prompts_are_refused, 0,
                        (int)(sizeof(BAD) / sizeof(*BAD)));
    tcase_add_test(tcase, block_tokens_have_no_meaning);
    return tcase;
}

PL_CHECK_MAIN("trace_prompts", prompts())
