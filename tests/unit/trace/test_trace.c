/* Reading, selecting and scaling what is good. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_support.h"

#define ROW(time, input, output, ids)                                          \
    "{\"timestamp\": " #time ", \"input_length\": " #input                     \
    ", \"output_length\": " #output ", \"hash_ids\": [" ids "]}\n"

static void expect_request(const pl_trace_t *trace, int32_t i,
                           int64_t arrival_ns, int32_t input, int32_t output,
                           int64_t line)
{
    const pl_request_t *request = pl_trace_request(trace, i);

    ck_assert_int_eq(request->arrival_ns, arrival_ns);
    ck_assert_int_eq(request->input_tokens, input);
    ck_assert_int_eq(request->output_tokens, output);
    ck_assert_int_eq(request->line, line);
}

START_TEST(mooncake_rows)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;

    params.paced = true;
    trace = must_open_text(ROW(1000, 513, 7, "0, 1") ROW(1000.5, 512, 1, "0")
                               ROW(4000, 1024, 3, "0, 2"),
                           &params);
    ck_assert_str_eq(pl_trace_format(trace), "mooncake");
    ck_assert_int_eq(pl_trace_block_tokens(trace), 512);
    ck_assert_int_eq(pl_trace_count(trace), 3);
    expect_request(trace, 0, 0, 513, 7, 1);
    expect_request(trace, 1, 500000, 512, 1, 2);
    expect_request(trace, 2, 3000000000, 1024, 3, 3);
    ck_assert_uint_eq(pl_trace_request(trace, 0)->name_space, 0);
    pl_trace_close(trace);
}
END_TEST

START_TEST(token_rows)
{
    static const char TEXT[] =
        "{\"prompt_token_ids\": [5, 2147483647, 0], \"max_tokens\": 9, "
        "\"namespace\": \"7\"}\n"
        "{\"prompt_token_ids\": [5], \"namespace\": 7}\n"
        "{\"prompt_token_ids\": [6, 7], \"output_tokens\": 2, "
        "\"namespace\": \"7\"}\n"
        "{\"prompt_token_ids\": [8], \"output_length\": 3, "
        "\"namespace\": null, \"text\": [{}]}\n";
    pl_trace_t *trace = must_open_text(TEXT, NULL);
    int32_t tokens[3] = {0};
    uint64_t space[4];

    ck_assert_str_eq(pl_trace_format(trace), "tokens");
    ck_assert_int_eq(pl_trace_block_tokens(trace), 0);
    ck_assert_int_eq(pl_trace_count(trace), 4);
    expect_request(trace, 0, 0, 3, 9, 1);
    expect_request(trace, 1, 0, 1, 1, 2);
    expect_request(trace, 2, 0, 2, 2, 3);
    expect_request(trace, 3, 0, 1, 3, 4);
    pl_trace_tokens(trace, 0, 0, 3, tokens);
    ck_assert_int_eq(tokens[0], 5);
    ck_assert_int_eq(tokens[1], 2147483647);
    ck_assert_int_eq(tokens[2], 0);
    for (int i = 0; i < 4; i++) {
        space[i] = pl_trace_request(trace, i)->name_space;
    }
    ck_assert_uint_eq(space[0], space[2]);
    ck_assert_uint_ne(space[0], space[1]);
    ck_assert_uint_ne(space[0], 0);
    ck_assert_uint_ne(space[1], 0);
    ck_assert_uint_eq(space[3], 0);
    pl_trace_close(trace);
}
END_TEST

START_TEST(names_of_dialects)
{
    pl_trace_t *trace = must_open_text(
        "{\"created_time\": 3, \"input_tokens\": 5, \"output_tokens\": 6, "
        "\"hash_ids\": [1]}",
        NULL);

    expect_request(trace, 0, 0, 5, 6, 1);
    pl_trace_close(trace);
}
END_TEST

/* Line ends, blank lines, a byte order mark: the same requests. */
START_TEST(layout_of_text_does_not_matter)
{
    static const char *const TEXTS[] = {
        "\n  \n" ROW(0, 5, 1, "3") "\t\n" ROW(1, 6, 2, "3"),
        "\xEF\xBB\xBF\r\n\r\n{\"timestamp\":0,\"input_length\":5,"
        "\"output_length\":1,\"hash_ids\":[3]}\r\n\r\n  {\"hash_ids\":[3],"
        "\"timestamp\":1,\"input_length\":6,\"output_length\":2}  "};
    static const int LINES[][2] = {{3, 5}, {3, 5}};

    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        pl_trace_t *trace = must_open_text(TEXTS[i], NULL);

        ck_assert_int_eq(pl_trace_count(trace), 2);
        expect_request(trace, 0, 0, 5, 1, LINES[i][0]);
        expect_request(trace, 1, 0, 6, 2, LINES[i][1]);
        pl_trace_close(trace);
    }
}
END_TEST

/* Ids that agree in 32, 53 and 63 bits are still different blocks. */
START_TEST(ids_are_kept_whole)
{
    pl_trace_t *trace = must_open_text(
        ROW(0, 64, 1, "18446744073709551615")
            ROW(0, 64, 1, "18446744073709551614")
                ROW(0, 64, 1, "9223372036854775807") ROW(0, 64, 1, "4294967295")
                    ROW(0, 64, 1, "18446744073709551615"),
        NULL);
    pl_page_key_t keys[5];

    for (int32_t i = 0; i < 5; i++) {
        pl_trace_page_keys(trace, i, 64, 0, 1, &keys[i]);
    }
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < i; j++) {
            ck_assert_int_eq(memcmp(&keys[i], &keys[j], sizeof(keys[0])) == 0,
                             (i == 4) && (j == 0));
        }
    }
    pl_trace_close(trace);
}
END_TEST

START_TEST(long_lines_are_fine)
{
    size_t n   = 200000;
    char *text = malloc(n * 8 + 200);
    size_t at;
    pl_trace_t *trace;

    ck_assert_ptr_nonnull(text);
    at = (size_t)sprintf(text, "{\"prompt_token_ids\": [0");
    for (size_t i = 1; i < n; i++) {
        at += (size_t)sprintf(text + at, ", %zu", i % 1000);
    }
    (void)sprintf(text + at, "]}");
    trace = must_open_text(text, NULL);
    ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, (int)n);
    pl_trace_close(trace);
    free(text);
}
END_TEST

START_TEST(offset_limit_and_passes)
{
    static const char TEXT[] = ROW(10, 1, 1, "1") ROW(20, 2, 1, "1")
        ROW(30, 3, 1, "1") ROW(50, 4, 1, "1") ROW(60, 5, 1, "1");
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;

    params.offset = 1;
    params.limit  = 3;
    params.passes = 2;
    params.paced  = true;
    trace         = must_open_text(TEXT, &params);
    ck_assert_int_eq(pl_trace_count(trace), 6);
    expect_request(trace, 0, 0, 2, 1, 2);
    expect_request(trace, 1, 10000000, 3, 1, 3);
    expect_request(trace, 2, 30000000, 4, 1, 4);
    expect_request(trace, 3, 31000000, 2, 1, 2); /* 1 ms after the last */
    expect_request(trace, 4, 41000000, 3, 1, 3);
    expect_request(trace, 5, 61000000, 4, 1, 4);
    pl_trace_close(trace);

    params.paced = false;
    params.limit = 100; /* more than there are */
    trace        = must_open_text(TEXT, &params);
    ck_assert_int_eq(pl_trace_count(trace), 8);
    expect_request(trace, 7, 0, 5, 1, 5);
    pl_trace_close(trace);
}
END_TEST

/* input' = (n-1)*B + ceil(last*B/512), output' = ceil(output*B/512), then the
 * cap. */
START_TEST(blocks_scale_down)
{
    static const char TEXT[] = ROW(0, 1, 1, "1") ROW(0, 512, 512, "1")
        ROW(0, 513, 513, "1, 2") ROW(0, 1030, 100, "1, 2, 3");
    static const int EXPECTED[][3][2] = {
        /* B = 64: 1/8 */
        {{1, 1}, {64, 64}, {65, 65}},
        /* B = 1 */
        {{1, 1}, {1, 1}, {2, 2}},
        /* B = 500: 512*500/512 = 500; 501/512 rounds up */
        {{1, 1}, {500, 500}, {501, 501}},
    };
    static const int BLOCKS[] = {64, 1, 500};
    pl_trace_params_t params  = pl_trace_params_default();

    for (int k = 0; k < 3; k++) {
        pl_trace_t *trace;

        params.block_tokens = BLOCKS[k];
        trace               = must_open_text(TEXT, &params);
        ck_assert_int_eq(pl_trace_block_tokens(trace), BLOCKS[k]);
        for (int i = 0; i < 3; i++) {
            expect_request(trace, i, 0, EXPECTED[k][i][0], EXPECTED[k][i][1],
                           i + 1);
        }
        pl_trace_close(trace);
    }

    params.block_tokens = 64;
    params.max_new      = 12;
    {
        pl_trace_t *trace = must_open_text(TEXT, &params);

        expect_request(trace, 2, 0, 65, 12, 3);  /* 65, capped */
        expect_request(trace, 3, 0, 129, 12, 4); /* 100*64/512 = 12.5 -> 13 */
        pl_trace_close(trace);
    }
}
END_TEST

START_TEST(times_out_of_order_are_sorted)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;
    static const int64_t LINES[] = {3, 5, 1, 2, 4};

    params.paced = true;
    ck_assert_int_eq(open_text(ROW(20, 1, 1, "1") ROW(20, 1, 1, "1")
                                   ROW(10, 1, 1, "1") ROW(20, 1, 1, "1")
                                       ROW(15, 1, 1, "1"),
                               &params, &heard, &trace),
                     PL_OK);
    ck_assert_int_eq(heard.n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(heard.warning, "t.jsonl:3: "));
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(pl_trace_request(trace, i)->line, LINES[i]);
    }
    ck_assert_int_eq(pl_trace_request(trace, 0)->arrival_ns, 0);
    ck_assert_int_eq(pl_trace_request(trace, 4)->arrival_ns, 10000000);
    pl_trace_close(trace);
}
END_TEST

/* What is taken otherwise than written is said, once. */
START_TEST(warnings)
{
    static const struct {
        const char *text, *expected;
    } CASES[] = {
        {ROW(0, 1, 1, "1") ROW(0, 1, 0, "1") ROW(0, 1, 0, "1"),
         "t.jsonl:2: output length 0"},
        {"{\"prompt_token_ids\":[1]}", "no timestamps"},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        pl_trace_params_t params = pl_trace_params_default();
        pl_trace_t *trace        = NULL;
        heard_t heard;

        params.paced = true;
        ck_assert_int_eq(open_text(CASES[i].text, &params, &heard, &trace),
                         PL_OK);
        ck_assert_int_eq(heard.n_warnings, 1);
        ck_assert_msg(strstr(heard.warning, CASES[i].expected) != NULL, "%s",
                      heard.warning);
        ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 1);
        pl_trace_close(trace);
    }
}
END_TEST

/* Tokens of the vocabulary without the banned ones, about equally often. */
START_TEST(expansion_is_uniform_over_what_is_not_banned)
{
    enum { VOCAB = 10, N = 65536 };
    static const int32_t BANNED[]      = {7, 3, 3, -1, 50, 0};
    static const bool IS_BANNED[VOCAB] = {[0] = true, [3] = true, [7] = true};
    pl_trace_params_t params           = pl_trace_params_default();
    int counts[VOCAB]                  = {0};
    int32_t *tokens                    = malloc(N * sizeof(*tokens));
    char *text                         = malloc(4096);
    size_t at;
    pl_trace_t *trace;

    ck_assert(tokens != NULL && text != NULL);
    at = (size_t)sprintf(text,
                         "{\"timestamp\":0,\"input_length\":%d,"
                         "\"output_length\":1,\"hash_ids\":[0",
                         N);
    for (int i = 1; i < N / 512; i++) {
        at += (size_t)sprintf(text + at, ",%d", i);
    }
    (void)sprintf(text + at, "]}");
    params.vocab_size = VOCAB;
    params.banned     = BANNED;
    params.n_banned   = 6;
    trace             = must_open_text(text, &params);
    pl_trace_tokens(trace, 0, 0, N, tokens);
    for (int i = 0; i < N; i++) {
        ck_assert_int_ge(tokens[i], 0);
        ck_assert_int_lt(tokens[i], VOCAB);
        counts[tokens[i]]++;
    }
    for (int t = 0; t < VOCAB; t++) {
        if (IS_BANNED[t]) {
            ck_assert_int_eq(counts[t], 0);
        } else { /* 9362 expected, 90 the standard deviation */
            ck_assert_int_gt(counts[t], 9362 - 540);
            ck_assert_int_lt(counts[t], 9362 + 540);
        }
    }
    pl_trace_close(trace);
    free(text);
    free(tokens);
}
END_TEST

START_TEST(seed_changes_tokens_and_not_keys)
{
    pl_trace_params_t params = pl_trace_params_default();
    int32_t tokens[2][512];
    pl_page_key_t keys[2];
    pl_trace_t *trace;

    for (int k = 0; k < 2; k++) {
        params.seed = (uint64_t)k;
        trace       = must_open_text(ROW(0, 512, 1, "4"), &params);
        pl_trace_tokens(trace, 0, 0, 512, tokens[k]);
        pl_trace_page_keys(trace, 0, 512, 0, 1, &keys[k]);
        pl_trace_close(trace);
    }
    ck_assert_int_ne(memcmp(tokens[0], tokens[1], sizeof(tokens[0])), 0);
    ck_assert_int_eq(memcmp(&keys[0], &keys[1], sizeof(keys[0])), 0);
}
END_TEST

/* What a release once expanded must stay: recorded runs depend on it. */
START_TEST(golden_expansion)
{
    static const int32_t TOKENS[]  = {111016, 87008, 124036, 63067};
    static const pl_page_key_t KEY = {UINT64_C(0xdb207a59808d3e1d),
                                      UINT64_C(0x2febff27f73c90e6)};
    pl_trace_t *trace = must_open_text(ROW(0, 700, 1, "4, 9"), NULL);
    int32_t tokens[4];
    pl_page_key_t key;

    pl_trace_tokens(trace, 0, 510, 4, tokens);
    pl_trace_page_keys(trace, 0, 100, 5, 1, &key);
    ck_assert_int_eq(memcmp(tokens, TOKENS, sizeof(tokens)), 0);
    ck_assert_uint_eq(key.lo, KEY.lo);
    ck_assert_uint_eq(key.hi, KEY.hi);
    pl_trace_close(trace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tcase = tcase_create("trace");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tcase, mooncake_rows);
    tcase_add_test(tcase, token_rows);
    tcase_add_test(tcase, names_of_dialects);
    tcase_add_test(tcase, layout_of_text_does_not_matter);
    tcase_add_test(tcase, ids_are_kept_whole);
    tcase_add_test(tcase, long_lines_are_fine);
    tcase_add_test(tcase, offset_limit_and_passes);
    tcase_add_test(tcase, blocks_scale_down);
    tcase_add_test(tcase, times_out_of_order_are_sorted);
    tcase_add_test(tcase, warnings);
    tcase_add_test(tcase, expansion_is_uniform_over_what_is_not_banned);
    tcase_add_test(tcase, seed_changes_tokens_and_not_keys);
    tcase_add_test(tcase, golden_expansion);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
