/* What the formats are like in the files of others: further fields, fields left
 * out, lines in any order, numbers written otherwise; and files that are no
 * traces at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"
#include "trace/internal.h"
#include "trace/write.h"
#include "trace_support.h"

/* In two parts: the tree's rule on words. */
#define ASIDE                                                                  \
    "\"type\":\"sub"                                                           \
    "agent\""

#define ROW(more, ids)                                                         \
    "{\"input_length\":600,\"output_length\":5,\"hash_ids\":[" ids "]" more    \
    "}\n"
#define LENGTH(more) "{\"input_length\":600,\"output_length\":5" more "}\n"

static pl_trace_t *open_paced(const char *text)
{
    pl_trace_params_t params = pl_trace_params_default();

    params.paced = true;
    return must_open_text(text, &params);
}

/* Refused, in one line that says so. */
static void expect_bad_with(const pl_trace_params_t *params, const char *text,
                            pl_status_t status, const char *says)
{
    pl_trace_t *trace = NULL;
    heard_t heard;

    ck_assert_int_eq(open_text(text, params, &heard, &trace), status);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, says) != NULL, "%s: %s", says,
                  heard.error);
}

static void expect_bad(const char *text, const char *says)
{
    expect_bad_with(NULL, text, PL_ERR_INPUT, says);
}

/* Requests, in order: their lines, arrivals and delays in ms, and how many they
 * wait for. */
typedef struct expected {
    int64_t line;
    double arrival_ms, delay_ms;
    int32_t n_after;
} expected_t;

static void expect_all(pl_trace_t *trace, const expected_t *wanted, int32_t n)
{
    ck_assert_int_eq(pl_trace_count(trace), n);
    for (int32_t i = 0; i < n; i++) {
        const pl_request_t *request = pl_trace_request(trace, i);

        ck_assert_int_eq(request->line, wanted[i].line);
        ck_assert_int_eq(request->arrival_ns,
                         (int64_t)(wanted[i].arrival_ms * 1e6));
        ck_assert_int_eq(request->delay_ns,
                         (int64_t)(wanted[i].delay_ms * 1e6));
        ck_assert_int_eq(request->n_after, wanted[i].n_after);
    }
    pl_trace_close(trace);
}

/* ---- JSON lines ---- */

START_TEST(delays_add_up)
{
    static const expected_t WANTED[] = {
        {1, 0, 0, 0}, {4, 3, 3, 1}, {2, 7, 7, 1}, {3, 12.5, 12.5, 1}};

    expect_all(
        open_paced(ROW(",\"timestamp\":0,\"request_id\":\"a\"", "0,1")
                       ROW(",\"wait_for\":[\"a\"],\"tool_wait_ms\":7", "0,2")
                           ROW(",\"wait_for\":[\"a\"],\"delay\":5.5,"
                               "\"tool_wait_ms\":7",
                               "0,3") ROW(",\"wait_for\":[\"a\"],\"delay\":3,"
                                          "\"tool_wait_ms\":0",
                                          "0,4")),
        WANTED, 4);
    expect_bad(ROW(",\"timestamp\":0,\"delay\":9e12,\"tool_wait_ms\":1", "0,1"),
               "add up to more than 285 years");
}
END_TEST

/* Thousands of names on one line, each many times: each counts once. */
START_TEST(names_count_once)
{
    enum { TIMES = 100000 };
    size_t room = 64 * (size_t)TIMES;
    char *text  = malloc(room);
    pl_trace_t *trace;
    size_t at;

    ck_assert_ptr_nonnull(text);
    at = (size_t)snprintf(text, room, "%s",
                          ROW(",\"timestamp\":0,\"request_id\":1,"
                              "\"session_id\":1",
                              "0,1")
                              ROW(",\"timestamp\":1,\"request_id\":2", "0,1"));
    at += (size_t)snprintf(text + at, room - at,
                           "{\"input_length\":600,\"output_length\":5,"
                           "\"hash_ids\":[0,1],\"session_id\":1,\"wait_for\":"
                           "[1");
    for (int i = 0; i < TIMES; i++) {
        at += (size_t)snprintf(text + at, room - at, ",%d", 1 + i % 2);
    }
    (void)snprintf(text + at, room - at, "]}\n");
    trace = open_paced(text);
    ck_assert_int_eq(pl_trace_request(trace, 2)->n_after, 2);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[0], 0);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[1], 1);
    pl_trace_close(trace);
    free(text);
}
END_TEST

/* All that wait for nobody say when they come, or none does. */
START_TEST(times_may_be_absent)
{
    static const expected_t AT_ONCE[] = {
        {1, 0, 0, 0}, {2, 0, 0, 0}, {3, 4, 4, 1}};
    static const expected_t LATER[] = {{2, 0, 0, 0}, {1, 0, 0, 1}};
    pl_trace_params_t params        = pl_trace_params_default();
    pl_trace_t *trace               = NULL;
    heard_t heard;

    params.paced = true;
    ck_assert_int_eq(open_text(ROW("", "0,1") ROW(",\"session_id\":1", "0,1")
                                   ROW(",\"session_id\":1,\"delay\":4", "0,2"),
                               &params, &heard, &trace),
                     PL_OK);
    ck_assert_ptr_nonnull(strstr(heard.warning, "no timestamps"));
    expect_all(trace, AT_ONCE, 3);
    /* The first line waits: it says nothing of the others. */
    expect_all(open_paced("{\"prompt_token_ids\":[1],\"wait_for\":[7]}\n"
                          "{\"prompt_token_ids\":[1],\"timestamp\":9,"
                          "\"request_id\":7}\n"),
               LATER, 2);
    expect_bad("{\"prompt_token_ids\":[1],\"wait_for\":[7]}\n"
               "{\"prompt_token_ids\":[1],\"timestamp\":9,\"request_id\":7}\n"
               "{\"prompt_token_ids\":[1]}\n",
               "t.jsonl:3: \"timestamp\" is missing, unlike on line 2");
}
END_TEST

START_TEST(lengths_alone)
{
    static const expected_t WANTED[] = {
        {1, 0, 0, 0}, {3, 1, 0, 0}, {2, 5, 5, 1}};
    pl_trace_t *trace =
        open_paced(LENGTH(",\"timestamp\":0,\"session_id\":1")
                       LENGTH(",\"timestamp\":5,"
                              "\"session_id\":1,"
                              "\"hash_ids\":null") LENGTH(",\"timestamp\":1"));

    ck_assert_str_eq(pl_trace_format(trace), "lengths");
    ck_assert(!pl_trace_has_prefixes(trace));
    expect_all(trace, WANTED, 3);
    pl_trace_close(open_paced("{\"input_tokens\":1,\"output_tokens\":1}\n"));
    expect_bad(LENGTH("") ROW("", "0,1"), "\"hash_ids\" is there, unlike");
    expect_bad(ROW("", "0,1") LENGTH(""), "\"hash_ids\" is missing");
    expect_bad(LENGTH(",\"chat_id\":1"), "chats without \"hash_ids\"");
    expect_bad("{\"input_length\":1}\n", "\"output_length\"");
}
END_TEST

/* 600.0 and 6e2 are 600; 16 hexadecimal digits are 64 bits. */
START_TEST(numbers_written_otherwise)
{
    pl_trace_t *trace = open_paced(
        "{\"timestamp\":0,\"input_length\":600.0,\"output_length\":6e2,"
        "\"hash_ids\":[\"00000000000000ff\",\"FFFFFFFFFFFFFFFF\"]}\n"
        "{\"timestamp\":0,\"input_length\":600,\"output_length\":5,"
        "\"hash_ids\":[255,18446744073709551615]}\n");
    pl_page_key_t a, b;

    ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 600);
    ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 600);
    for (int32_t page = 0; page < 6; page++) {
        pl_trace_page_keys(trace, 0, 100, page, 1, &a);
        pl_trace_page_keys(trace, 1, 100, page, 1, &b);
        ck_assert_mem_eq(&a, &b, sizeof(a));
    }
    pl_trace_close(trace);
}
END_TEST

/* ---- what an id stands for ---- */

#define CHAT(chat, parent, s, input, ids)                                      \
    "{\"chat_id\":" chat "," parent "\"timestamp\":" s                         \
    ",\"input_length\":" input ",\"output_length\":3,\"hash_ids\":[" ids       \
    "]}\n"

START_TEST(sizes_that_files_do_not_say)
{
    static const char *const TEXTS[] = {
        "{\"input_length\":100,\"output_length\":5,\"hash_ids\":[1,2]}\n",
        CHAT("1", "", "0", "100", "1,2"),
        "{\"requests\":[{\"t\":0,\"in\":100,\"out\":1,\"hash_ids\":[1]}]}",
    };
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    params.id_tokens = 60;
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        trace = must_open_text(TEXTS[i], &params);
        ck_assert_int_eq(pl_trace_block_tokens(trace), 60);
        ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 100);
        pl_trace_close(trace);
        trace = NULL;
    }
    ck_assert_int_eq(open_text("{\"input_length\":100,\"output_length\":5,"
                               "\"hash_ids\":[1,2],\"block_size\":64}\n",
                               &params, &heard, &trace),
                     PL_OK);
    ck_assert_int_eq(pl_trace_block_tokens(trace), 64);
    ck_assert_ptr_nonnull(
        strstr(heard.warning, "--trace-block-size 60 has no effect"));
    pl_trace_close(trace);
    expect_bad_with(&params, "{\"prompt_token_ids\":[1]}\n", PL_ERR_ARGUMENT,
                    "--trace-block-size 60: t.jsonl holds tokens");
    expect_bad_with(&params, LENGTH(""), PL_ERR_ARGUMENT, "holds lengths");
    params.id_tokens = -1;
    expect_bad_with(&params, TEXTS[0], PL_ERR_ARGUMENT,
                    "--trace-block-size -1");
}
END_TEST

/* ---- bailian ---- */

/* A parent stands above or below, or is not there; a chat may name itself. */
START_TEST(parents_anywhere)
{
    static const expected_t WANTED[] = {
        {3, 0, 0, 0}, {4, 500, 0, 0}, {2, 1000, 0, 1}, {1, 2000, 0, 1}};
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    params.paced = true;
    ck_assert_int_eq(
        open_text(
            CHAT("3", "\"parent_chat_id\":2,", "2", "20", "0,1")
                CHAT("2", "\"parent_chat_id\":1,", "1", "20", "0,1")
                    CHAT("1", "\"parent_chat_id\":null,", "0", "20", "0,1")
                        CHAT("4", "\"parent_chat_id\":4,", "0.5", "20", "0,1"),
            &params, &heard, &trace),
        PL_OK);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[0], 0);
    ck_assert_int_eq(pl_trace_request(trace, 3)->after[0], 2);
    for (int32_t i = 0; i < 4; i++) { /* one conversation, and another */
        ck_assert_int_eq(pl_trace_row(trace, i)->session, i == 1 ? 2 : 1);
    }
    expect_all(trace, WANTED, 4);
    expect_bad(CHAT("1", "\"parent_chat_id\":2,", "2", "20", "0,1")
                   CHAT("2", "\"parent_chat_id\":1,", "1", "20", "0,1"),
               "waits for itself");
}
END_TEST

/* ---- agentic ---- */

/* A list that was launched to run on is waited for by nobody; what a list has
 * started last counts to its end, also if it has no request of its own. */
START_TEST(lists_beside)
{
    static const expected_t RUNS_ON[] = {
        {1, 0, 0, 0}, {3, 1000, 1000, 1}, {2, 2000, 2000, 1}};
    static const expected_t NESTED[] = {{1, 0, 0, 0}, {2, 7000, 1000, 1}};
    static const expected_t LAST[]   = {{1, 0, 0, 0},
                                        {2, 1000, 1000, 1},
                                        {3, 4000, 3000, 1},
                                        {4, 9000, 4000, 3}};

    expect_all(open_paced("{\"requests\":["
                          "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[1]},"
                          "{\"t\":2," ASIDE ",\"status\":\"async_launched\","
                          "\"duration_ms\":null,\"requests\":["
                          "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[2]}]},"
                          "{\"t\":1,\"in\":64,\"out\":1,\"hash_ids\":[3],"
                          "\"think_time\":1}]}"),
               RUNS_ON, 3);
    expect_all(open_paced("{\"requests\":[{\"t\":5," ASIDE ",\"requests\":["
                          "{\"t\":3," ASIDE
                          ",\"duration_ms\":6000,\"requests\":["
                          "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[7]}]}]},"
                          "{\"t\":9,\"in\":64,\"out\":1,\"hash_ids\":[1]}]}"),
               NESTED, 2);
    expect_all(
        open_paced("{\"requests\":["
                   "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[1]},"
                   "{\"t\":5," ASIDE ",\"duration_ms\":4000,\"requests\":["
                   "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[2]},"
                   "{\"t\":4," ASIDE ",\"duration_ms\":1000,\"requests\":["
                   "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[3]}]}]},"
                   "{\"t\":9,\"in\":64,\"out\":1,\"hash_ids\":[4]}]}"),
        LAST, 4);
}
END_TEST

/* As an agentic file, and back. */
static pl_trace_t *there_and_back(pl_trace_t *trace)
{
    pl_trace_write_params_t write = {.format = "agentic"};
    char *text                    = NULL;
    size_t n                      = 0;
    FILE *file                    = open_memstream(&text, &n);
    pl_trace_t *again;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(pl_trace_write(trace, &write, file, NULL), PL_OK);
    ck_assert_int_eq(fclose(file), 0);
    again = open_paced(text);
    free(text);
    pl_trace_close(trace);
    return again;
}

/* Lists that run on stand behind the request that starts them, those that are
 * waited for before the one that does. */
START_TEST(lists_there_and_back)
{
    static const expected_t WANTED[] = {{1, 0, 0, 0},
                                        {2, 1000, 1000, 1},
                                        {4, 2000, 2000, 1},
                                        {3, 3000, 1000, 1},
                                        {5, 9000, 6000, 2}};
    pl_trace_t *trace                = open_paced(
                       "{\"requests\":["
                                      "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[1]},"
                                      "{\"t\":1," ASIDE ",\"status\":\"async_launched\",\"requests\":["
                                      "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[2]},"
                                      "{\"t\":2,\"in\":64,\"out\":1,\"hash_ids\":[3],"
                                      "\"think_time\":1}]},"
                                      "{\"t\":3," ASIDE ",\"duration_ms\":1000,\"requests\":["
                                      "{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[4]}]},"
                                      "{\"t\":9,\"in\":64,\"out\":1,\"hash_ids\":[5]}]}");

    ck_assert_int_eq(pl_trace_count(trace), 5);
    expect_all(there_and_back(trace), WANTED, 5);
}
END_TEST

/* ---- csv ---- */

START_TEST(csv_of_others)
{
    static const expected_t WANTED[] = {{2, 0, 0, 0}, {3, 52, 0, 0}};
    static const char *const TEXTS[] = {
        "TIMESTAMP;ContextTokens;GeneratedTokens\n0;4808.0;10.\n0.052;3180;8\n",
        "a\tTIMESTAMP\tContextTokens\tGeneratedTokens\t\n"
        "\"b\tc\"\t0\t4808\t10\t\n\t0.052\t3180\t8.00\n",
        "timestamp_ms,input_tokens,output_tokens\n"
        "1700000000000.25,4808,10\n1700000000052.250000,3180,8\n",
    };
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;

    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        trace = open_paced(TEXTS[i]);
        ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 4808);
        ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 10);
        ck_assert_int_eq(pl_trace_request(trace, 1)->input_tokens, 3180);
        ck_assert_int_eq(pl_trace_request(trace, 1)->output_tokens, 8);
        expect_all(trace, WANTED, 2);
    }
    params.paced = true;
    ck_assert_int_eq(open_text("num_prefill_tokens,num_decode_tokens\n5,6\n",
                               &params, &heard, &trace),
                     PL_OK);
    ck_assert_ptr_nonnull(strstr(heard.warning, "no timestamps"));
    pl_trace_close(trace);
}
END_TEST

/* Who failed before the prompt was counted is passed over, also as a turn. */
START_TEST(csv_without_prompts)
{
    static const expected_t WANTED[] = {{2, 0, 0, 0}, {5, 2000, 0, 1}};
    pl_trace_params_t params         = pl_trace_params_default();
    pl_trace_t *trace                = NULL;
    heard_t heard;

    params.paced = true;
    ck_assert_int_eq(
        open_text("Timestamp,Session ID,Request tokens,Response tokens\n"
                  "1,a,5,6\n2,a,0,0\n2.5,b,0.0,7\n3,a,8,9\n",
                  &params, &heard, &trace),
        PL_OK);
    ck_assert_int_eq(heard.n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(
        heard.warning, "t.jsonl:3: a prompt of 0 tokens (2 lines in all"));
    expect_all(trace, WANTED, 2);
}
END_TEST

/* Turns that say how long after the answer they come, and not when. */
START_TEST(csv_think_times)
{
    static const expected_t WANTED[] = {
        {2, 0, 0, 0}, {3, 2500, 2500, 1}, {4, 2500, 0, 1}, {5, 4000, 0, 0}};
#define NAMES                                                                  \
    "session_start_at,think_time,num_prefill_tokens,num_decode_tokens,"        \
    "session_id\n"

    expect_all(open_paced(NAMES "1,0,10,5,a\n,2.5,20,5,a\n,0,30,5,a\n"
                                "5,0,10,5,b\n"),
               WANTED, 4);
    expect_bad(NAMES ",2.5,20,5,a\n", "column of times is ''");
    expect_bad(NAMES "1,0,10,5,a\n,,20,5,a\n", "column of times is ''");
    expect_bad(NAMES "1,0,10,5,a\n,1,20,5,\n", "column of times is ''");
}
END_TEST

START_TEST(bad_csv_of_others)
{
#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    expect_bad(HEAD "2023-02-29 18:17:03,2,3\n", "column of times");
    expect_bad(HEAD "2023-04-31 18:17:03,2,3\n", "column of times");
    expect_bad(HEAD "0x10,2,3\n", "column of times");
    expect_bad(HEAD "1700000000000,2,3\n", "TIMESTAMP_MS");
    expect_bad(HEAD "0,2.50,3\n", "column of input tokens is '2.50'");
    expect_bad(HEAD "0,.0,3\n", "column of input tokens is '.0'");
    expect_bad("Model,ContextTokens,GeneratedTokens\nGPT-4, large,2,3\n",
               "column 4 is '3': expected 3 columns");
    expect_bad("Model,ContextTokens,GeneratedTokens\nGPT-4, 0,2,3\n",
               "t.jsonl:2: column 4 is '3': expected 3 columns");
    pl_trace_close(open_paced(HEAD "0,2,3,,\n"));
    expect_bad(
        "TIMESTAMP,ContextTokens,input_tokens,GeneratedTokens\n1,2,3,4\n",
        "t.jsonl:1: column input_tokens says what another one says");
    expect_bad(
        "TIMESTAMP,timestamp_ms,ContextTokens,GeneratedTokens\n1,2,3,4\n",
        "two columns of times");
    pl_trace_close(open_paced(HEAD "2024-02-29 18:17:03,2,3\n"
                                   "2024-12-31 23:59:60,2,3\n"));
}
END_TEST

/* ---- what is no trace ---- */

typedef struct other {
    const char *text;
    size_t n;
    const char *says;
} other_t;

#define OTHER(text, says)                                                      \
    {                                                                          \
        text, sizeof(text) - 1, says                                           \
    }

static const other_t OTHERS[] = {
    OTHER("\xFD"
          "7zXZ\0\0",
          "t.jsonl: packed by xz"),
    OTHER("BZh91AY", "packed by bzip2"),
    OTHER("PK\x03\x04\x14", "a zip archive"),
    OTHER("PAR1\x15\x04", "a Parquet file"),
    OTHER("\x89HDF\r\n\x1A\n", "an HDF5 file"),
    OTHER("\xFF\xFE{\0", "text in UTF-16"),
    OTHER("\xFE\xFF\0{", "text in UTF-16"),
    OTHER("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    OTHER("<!DOCTYPE html>\n", "a web page"),
    OTHER("404: Not Found", "t.jsonl:1: no trace format known here"),
    OTHER("\n\n0,4808,10\n", "t.jsonl:3: no trace format known here"),
    OTHER("\0\0\0", "t.jsonl:1: no trace format known here"),
    OTHER("{\"schema\":\"dynamo.agentic_mooncake\",\"version\":2}\n",
          "a header line"),
    OTHER("{\"text_input\":\"a\",\"output_length\":4}\n", "requests as text"),
    OTHER("{\"messages\":[],\"output_length\":4}\n", "requests as text"),
    OTHER("{\"prompt\":\"a\"}\n", "requests as text"),
    OTHER("[{\"conversations\":[]}]", "jq -c '.[]'"),
    OTHER("{\n\"a\": 1\n}", "jq -c ."),
};

START_TEST(other_files_are_told)
{
    const other_t *other     = &OTHERS[_i];
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_trace_open_memory(&params, "t.jsonl", other->text,
                                          other->n, &log, &trace),
                     PL_ERR_INPUT);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, other->says) != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, "expected ") != NULL, "%s", heard.error);
}
END_TEST

static TCase *dialects(void)
{
    TCase *tcase = tcase_create("dialects");

    tcase_add_test(tcase, delays_add_up);
    tcase_add_test(tcase, names_count_once);
    tcase_add_test(tcase, times_may_be_absent);
    tcase_add_test(tcase, lengths_alone);
    tcase_add_test(tcase, numbers_written_otherwise);
    tcase_add_test(tcase, sizes_that_files_do_not_say);
    tcase_add_test(tcase, parents_anywhere);
    tcase_add_test(tcase, lists_beside);
    tcase_add_test(tcase, lists_there_and_back);
    tcase_add_test(tcase, csv_of_others);
    tcase_add_test(tcase, csv_without_prompts);
    tcase_add_test(tcase, csv_think_times);
    tcase_add_test(tcase, bad_csv_of_others);
    tcase_add_loop_test(tcase, other_files_are_told, 0,
                        (int)(sizeof(OTHERS) / sizeof(*OTHERS)));
    return tcase;
}

PL_CHECK_MAIN("trace_dialects", dialects())
