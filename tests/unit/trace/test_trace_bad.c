/* Input and parameters that must be refused: the status, and one line that
 * names the place, what was expected and the remedy. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"
#include "trace_support.h"

/* A good row, then one to be judged. */
#define GOOD                                                                   \
    "{\"timestamp\":0,\"input_length\":600,\"output_length\":1,"               \
    "\"hash_ids\":[1,2]}\n"
#define M(time, input, output, ids)                                            \
    GOOD "{\"timestamp\":" time ",\"input_length\":" input                     \
         ",\"output_length\":" output ",\"hash_ids\":" ids "}\n"
#define T_GOOD  "{\"prompt_token_ids\":[1,2],\"timestamp\":0}\n"
#define T(rest) T_GOOD "{\"timestamp\":1," rest "}\n"

typedef struct bad_text {
    const char *text;
    int line; /* that the message names; 0 = only the file */
    const char *says;
} bad_text_t;

static const bad_text_t BAD_TEXTS[] = {
    {"", 0, "no request in it"},
    {"\xEF\xBB\xBF", 0, "no request in it"},
    {" \r\n\n\t\n", 0, "no request in it"},
    {"timestamp,input\n1,2\n", 1, "no trace format known here"},
    {"\n\n{\"a\":1}\n", 3, "no trace format known here"},
    {"[1,2]\n", 1, "a JSON array"},
    {GOOD "7\n", 2, "ends within its JSON"},
    {GOOD "\"x\"\n", 2, "a JSON string"},
    {GOOD "{\"timestamp\":1,\n", 2, "ends within its JSON"},
    {GOOD "{\"timestamp\":1,}\n", 2, "not JSON"},
    {GOOD "{} {}\n", 2, "not JSON"},
    {GOOD "{}x\n", 2, "not JSON"},
    {GOOD "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 2, "not JSON"},
    {GOOD "{\"a\":\"\xFF\xFE\"}\n", 2, "not JSON"},
    {GOOD "{}\n", 2, "\"timestamp\" is missing, unlike on line 1"},
    {GOOD "\r\n\r\n{}\r\n", 4, "is missing"},
    /* mooncake: fields */
    {M("null", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("-1", "5", "1", "[1]"), 2, "\"timestamp\" is -1"},
    {M("\"0\"", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("true", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("NaN", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("1e400", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("99999999999999999999", "5", "1", "[1]"), 2, "\"timestamp\""},
    {M("0", "null", "1", "[1]"), 2, "\"input_length\" (or \"input_tokens\")"},
    {M("0", "0", "1", "[1]"), 2, "\"input_length\" is 0"},
    {M("0", "-5", "1", "[1]"), 2, "\"input_length\" is -5"},
    {M("0", "5.5", "1", "[1]"), 2, "\"input_length\" is 5.5"},
    {M("0", "1e300", "1", "[1]"), 2, "\"input_length\" is 1e300"},
    {M("0", "\"5\"", "1", "[1]"), 2, "\"input_length\""},
    {M("0", "[5]", "1", "[1]"), 2, "\"input_length\""},
    {M("0", "2147483648", "1", "[1]"), 2, "from 1 to 2147483647"},
    {M("0", "18446744073709551621", "1", "[1]"), 2, "\"input_length\""},
    {M("0", "5", "null", "[1]"), 2, "\"output_length\""},
    {M("0", "5", "-1", "[1]"), 2, "\"output_length\" is -1"},
    {M("0", "5", "4294967297", "[1]"), 2, "\"output_length\""},
    {M("0", "5", "1", "null"), 2, "\"hash_ids\" is missing"},
    {M("0", "5", "1", "[]"), 2, "at least one"},
    {M("0", "5", "1", "7"), 2, "\"hash_ids\" is 7"},
    {M("0", "5", "1", "[null]"), 2, "\"hash_ids\"[0] is null"},
    {M("0", "600", "1", "[1,-2]"), 2, "\"hash_ids\"[1] is -2"},
    {M("0", "5", "1", "[1.5]"), 2, "\"hash_ids\"[0] is 1.5"},
    {M("0", "5", "1", "[1.0]"), 2, "\"hash_ids\"[0] is 1.0"},
    {M("0", "5", "1", "[\"00112233445566g7\"]"), 2, "16 hexadecimal"},
    {M("0", "5", "1", "[\"1\"]"), 2, "\"hash_ids\"[0]"},
    {M("0", "5", "1", "[18446744073709551616]"), 2,
     "\"hash_ids\"[0] is a number of more than 64 bits"},
    {M("0", "5", "1", "[100000000000000000000000]"), 2, "\"hash_ids\"[0]"},
    {M("0", "5", "1,\"output_tokens\":1", "[1]"), 2, "remove the other"},
    {M("0,\"created_time\":0", "5", "1", "[1]"), 2, "remove the other"},
    {M("0", "5,\"input_tokens\":5", "1", "[1]"), 2, "remove the other"},
    /* mooncake: lengths and ids */
    {M("0", "513", "1", "[1]"), 2, "expected 1 to 512"},
    {M("0", "512", "1", "[1,2]"), 2, "expected 513 to 1024"},
    {M("0", "512", "1", "[1,2]"), 2, "an id stands for 256 to 511 tokens"},
    {M("0", "513", "1", "[1]"), 2, "an id stands for 513 tokens or more"},
    {M("0", "1025", "1", "[1,2]"), 2, "expected 513 to 1024"},
    {M("0", "1000", "1", "[3,3]"), 2, "hash id 3 comes twice"},
    {M("0", "1500", "1", "[1,2,1]"), 2, "hash id 1 is block 3"},
    {M("0", "1000", "1", "[3,2]"), 2, "hash id 2 follows id 3"},
    {M("0", "5", "1", "[2]"), 2, "hash id 2 is block 1: expected block 2"},
    {M("0", "1000", "1", "[3,1]"), 2, "as on line 1"},
    /* tokens */
    {T("\"output_length\":1"), 2, "\"prompt_token_ids\" is missing"},
    {T("\"prompt_token_ids\":[]"), 2, "at least one"},
    {T("\"prompt_token_ids\":\"abc\""), 2, "\"prompt_token_ids\""},
    {T("\"prompt_token_ids\":[1,-1]"), 2, "\"prompt_token_ids\"[1] is -1"},
    {T("\"prompt_token_ids\":[1,2.0]"), 2, "\"prompt_token_ids\"[1] is 2.0"},
    {T("\"prompt_token_ids\":[2147483648]"), 2, "0 to 2147483647"},
    {T("\"prompt_token_ids\":[99999999999999999999]"), 2, "2147483647"},
    {T("\"prompt_token_ids\":[1],\"output_length\":-1"), 2, "output_length"},
    {T("\"prompt_token_ids\":[1],\"output_length\":1,\"max_tokens\":1"), 2,
     "remove the other"},
    {T("\"prompt_token_ids\":[1],\"namespace\":1.5"), 2, "\"namespace\""},
    {T("\"prompt_token_ids\":[1],\"namespace\":-1"), 2, "\"namespace\""},
    {T("\"prompt_token_ids\":[1],\"namespace\":[]"), 2, "\"namespace\""},
    {T("\"prompt_token_ids\":[1],\"namespace\":18446744073709551616"), 2,
     "\"namespace\""},
    {T_GOOD "{\"prompt_token_ids\":[1]}", 2,
     "on every line that does not wait"},
    {"{\"prompt_token_ids\":[1]}\n" T_GOOD, 2,
     "on every line that does not wait"},
};

START_TEST(bad_text_is_refused)
{
    const bad_text_t *bad = &BAD_TEXTS[_i];
    pl_trace_t *trace     = NULL;
    char place[64];
    heard_t heard;
    pl_status_t status = open_text(bad->text, NULL, &heard, &trace);

    if (bad->line > 0) {
        (void)snprintf(place, sizeof(place), "t.jsonl:%d: ", bad->line);
    } else {
        (void)snprintf(place, sizeof(place), "t.jsonl: ");
    }
    ck_assert_msg(status == PL_ERR_INPUT, "%s\n-> %s", bad->text,
                  pl_status_text(status));
    ck_assert_ptr_null(trace);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strncmp(heard.error, place, strlen(place)) == 0, "%s",
                  heard.error);
    ck_assert_msg(strstr(heard.error, bad->says) != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, "expected ") != NULL, "%s", heard.error);
}
END_TEST

/* A bad line is found although the requests taken are before it. */
START_TEST(the_whole_file_is_checked)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    params.limit = 1;
    ck_assert_int_eq(
        open_text(M("0", "1000", "1", "[3,2]"), &params, &heard, &trace),
        PL_ERR_INPUT);
    params.offset = 1;
    ck_assert_int_eq(
        open_text(M("0", "1000", "1", "[3,2]"), &params, &heard, &trace),
        PL_ERR_INPUT);
}
END_TEST

START_TEST(a_null_byte_is_refused)
{
    static const char TEXT[] = "{\"prompt_token_ids\":[1]}\0 x\n";
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_trace_open_memory(&params, "t.jsonl", TEXT,
                                          sizeof(TEXT) - 1, &log, &trace),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "t.jsonl:1: not JSON"));
}
END_TEST

typedef struct bad_params {
    const char *says;
    pl_status_t status;
    pl_trace_params_t change; /* added to the defaults */
    const char *text;
} bad_params_t;

static const int32_t ALL_BANNED[] = {0, 1};

static const bad_params_t BAD_PARAMS[] = {
    {"--offset -1", PL_ERR_ARGUMENT, {.offset = -1}, GOOD},
    {"--offset 1", PL_ERR_INPUT, {.offset = 1}, GOOD},
    {"--limit 0", PL_ERR_ARGUMENT, {.limit = 1}, GOOD},
    {"--limit -2", PL_ERR_ARGUMENT, {.limit = -1}, GOOD},
    {"--block-tokens -1", PL_ERR_ARGUMENT, {.block_tokens = -1}, GOOD},
    {"--block-tokens 513", PL_ERR_ARGUMENT, {.block_tokens = 513}, GOOD},
    {"--block-tokens 64", PL_ERR_ARGUMENT, {.block_tokens = 64}, T_GOOD},
    {"--passes 0", PL_ERR_ARGUMENT, {.passes = -1}, GOOD},
    {"--passes 2147483647",
     PL_ERR_ARGUMENT,
     {.passes = INT32_MAX - 1},
     GOOD GOOD},
    {"--max-new -1", PL_ERR_ARGUMENT, {.max_new = -1}, GOOD},
    {"vocabulary", PL_ERR_ARGUMENT, {.vocab_size = -129280}, GOOD},
    {"vocabulary",
     PL_ERR_ARGUMENT,
     {.vocab_size = 2 - 129280, .banned = ALL_BANNED, .n_banned = 2},
     GOOD},
    {"t.jsonl:1: \"prompt_token_ids\"[1] is 2",
     PL_ERR_INPUT,
     {.token_limit = 2},
     T_GOOD},
};

START_TEST(bad_parameters_are_refused)
{
    const bad_params_t *bad  = &BAD_PARAMS[_i];
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;
    pl_status_t status;

    params.offset += bad->change.offset;
    params.limit += bad->change.limit;
    params.block_tokens += bad->change.block_tokens;
    params.passes += bad->change.passes;
    params.max_new += bad->change.max_new;
    params.vocab_size += bad->change.vocab_size;
    params.token_limit += bad->change.token_limit;
    params.banned   = bad->change.banned;
    params.n_banned = bad->change.n_banned;
    status          = open_text(bad->text, &params, &heard, &trace);
    ck_assert_msg(status == bad->status, "%s: %s", bad->says,
                  pl_status_text(status));
    ck_assert_ptr_null(trace);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, bad->says) != NULL, "%s", heard.error);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    static const char *const PATHS[] = {"no/such/file.jsonl", "."};
    pl_trace_params_t params         = pl_trace_params_default();
    pl_trace_t *trace                = NULL;
    heard_t heard;
    pl_log_t log;

    for (size_t i = 0; i < 2; i++) {
        log         = log_of(&heard);
        params.path = PATHS[i];
        ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_ERR_INPUT);
        ck_assert_int_eq(heard.n_errors, 1);
        ck_assert_ptr_nonnull(strstr(heard.error, PATHS[i]));
        ck_assert_ptr_nonnull(strstr(heard.error, "cannot be read"));
    }
    log         = log_of(&heard);
    params.path = NULL;
    ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(heard.error, "--trace"));
    ck_assert_int_eq(pl_trace_open(NULL, &log, &trace), PL_ERR_ARGUMENT);
    ck_assert_ptr_null(trace);
    pl_trace_close(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_bad");
    TCase *tcase = tcase_create("trace_bad");
    SRunner *runner;
    int n_failed;

    tcase_add_loop_test(tcase, bad_text_is_refused, 0,
                        (int)(sizeof(BAD_TEXTS) / sizeof(*BAD_TEXTS)));
    tcase_add_test(tcase, the_whole_file_is_checked);
    tcase_add_test(tcase, a_null_byte_is_refused);
    tcase_add_loop_test(tcase, bad_parameters_are_refused, 0,
                        (int)(sizeof(BAD_PARAMS) / sizeof(*BAD_PARAMS)));
    tcase_add_test(tcase, files_that_cannot_be_read);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
