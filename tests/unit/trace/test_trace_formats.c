/* What each format says, and in which order requests come that wait. */
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "support/check_main.h"
#include "trace/internal.h"
#include "trace_support.h"

/* In two parts: the tree's rule on words. */
#define ASIDE                                                                  \
    "\"type\":\"sub"                                                           \
    "agent\""

static pl_trace_t *open_paced(const char *text)
{
    pl_trace_params_t params = pl_trace_params_default();

    params.paced = true;
    return must_open_text(text, &params);
}

static void expect_bad(const char *text, const char *says)
{
    pl_trace_t *trace = NULL;
    heard_t heard;

    ck_assert_int_eq(open_text(text, NULL, &heard, &trace), PL_ERR_INPUT);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, says) != NULL, "%s: %s", says,
                  heard.error);
}

/* Request i: its line, arrival in ms, whom it waits for (-1: nobody; -2: not
 * asked), and how many ms. */
static void expect(const pl_trace_t *trace, int32_t i, int64_t line,
                   int64_t arrival_ms, int32_t after, int64_t delay_ms)
{
    const pl_request_t *request = pl_trace_request(trace, i);

    ck_assert_int_eq(request->line, line);
    ck_assert_int_eq(request->arrival_ns, arrival_ms * 1000000);
    if (after != -2) {
        ck_assert_int_eq(request->n_after, after < 0 ? 0 : 1);
        ck_assert_int_eq(after < 0 ? -1 : request->after[0], after);
    }
    ck_assert_int_eq(request->delay_ns, delay_ms * 1000000);
}

/* ---- mooncake ---- */

#define ROW(more, ids)                                                         \
    "{\"input_length\":600,\"output_length\":5,\"hash_ids\":[" ids "]" more    \
    "}\n"

START_TEST(turns_of_sessions)
{
    pl_trace_t *trace = open_paced(
        ROW(",\"timestamp\":0,\"session_id\":\"a\"", "0,1")
            ROW(",\"timestamp\":10,\"session_id\":\"b\",\"delay\":7", "0,2")
                ROW(",\"timestamp\":400,\"session_id\":\"a\"", "0,3")
                    ROW(",\"session_id\":\"b\",\"delay_ms\":250.5", "0,4")
                        ROW(",\"timestamp\":1000,\"session_id\":7", "0,5"));

    ck_assert_int_eq(pl_trace_count(trace), 5);
    expect(trace, 0, 1, 0, -1, 0);
    expect(trace, 1, 2, 10, -1, 7);
    ck_assert_int_eq(pl_trace_request(trace, 2)->line, 4); /* 260.5 ms */
    ck_assert_int_eq(pl_trace_request(trace, 2)->arrival_ns, 260500000);
    ck_assert_int_eq(pl_trace_request(trace, 2)->delay_ns, 250500000);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[0], 1);
    ck_assert(!pl_trace_request(trace, 2)->not_before);
    expect(trace, 3, 3, 400, 0, 400); /* the delta of the timestamps */
    expect(trace, 4, 5, 1000, -1, 0);
    pl_trace_close(trace);
}
END_TEST

/* A request may wait for lines below it, and for several. */
START_TEST(waits_by_name)
{
    pl_trace_t *trace = open_paced(
        ROW(",\"wait_for\":[\"x\",9],\"tool_wait_ms\":3",
            "0,1") ROW(",\"timestamp\":5,\"request_id\":\"x\"", "0,2")
            ROW(",\"timestamp\":9,\"request_id\":9,\"wait_for\":[]", "0,3"));

    expect(trace, 0, 2, 0, -1, 0);
    expect(trace, 1, 3, 4, -1, 0);
    expect(trace, 2, 1, 7, -2, 3);
    ck_assert_int_eq(pl_trace_request(trace, 2)->n_after, 2);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[0], 0);
    ck_assert_int_eq(pl_trace_request(trace, 2)->after[1], 1);
    pl_trace_close(trace);
}
END_TEST

/* At one time those that are waited for come first, wherever they stand. */
START_TEST(order_at_one_time)
{
    pl_trace_t *trace = open_paced(
        ROW(",\"timestamp\":5,\"wait_for\":[2]", "0,1")
            ROW(",\"timestamp\":5,\"request_id\":2,\"wait_for\":[3]", "0,2")
                ROW(",\"timestamp\":5,\"request_id\":3", "0,3"));

    expect(trace, 0, 3, 0, -1, 0);
    expect(trace, 1, 2, 0, 0, 0);
    expect(trace, 2, 1, 0, 1, 0);
    pl_trace_close(trace);
}
END_TEST

START_TEST(what_cannot_wait_is_refused)
{
    expect_bad(ROW(",\"timestamp\":0", "0,1") ROW("", "0,1"),
               "\"timestamp\" is missing, unlike on line 1");
    expect_bad(ROW("", "0,1") ROW(",\"timestamp\":0", "0,1"),
               "\"timestamp\" is there, unlike on line 1");
    expect_bad(ROW(",\"timestamp\":1,\"wait_for\":[1]", "0,1"),
               "names a request that is not there");
    expect_bad(ROW(",\"timestamp\":1,\"wait_for\":1", "0,1"),
               "\"wait_for\" is");
    expect_bad(ROW(",\"timestamp\":1,\"session_id\":1.5", "0,1"),
               "\"session_id\" is");
    expect_bad(ROW(",\"timestamp\":1,\"request_id\":1", "0,1")
                   ROW(",\"timestamp\":1,\"request_id\":1", "0,1"),
               "comes twice");
    expect_bad(ROW(",\"wait_for\":[2],\"request_id\":1", "0,1")
                   ROW(",\"wait_for\":[1],\"request_id\":2", "0,1"),
               "waits for itself");
    expect_bad(ROW(",\"wait_for\":[1],\"request_id\":1", "0,1"),
               "waits for itself");
    expect_bad(ROW(",\"timestamp\":9e12,\"request_id\":1", "0,1")
                   ROW(",\"wait_for\":[1],\"delay\":9e12", "0,1"),
               "more than 285 years");
    expect_bad(ROW(",\"timestamp\":1,\"delay\":1,\"delay_ms\":1", "0,1"),
               "both \"delay\" and");
}
END_TEST

/* Requests wait for those that are taken; none left: they come at their time.
 */
START_TEST(selection_cuts_waits)
{
    static const char TEXT[] = ROW(",\"timestamp\":0,\"session_id\":1", "0,1")
        ROW(",\"session_id\":1,\"delay\":10", "0,2")
            ROW(",\"session_id\":1,\"delay\":20", "0,3");
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;

    params.paced   = true;
    params.offset  = 1;
    params.passes  = 2;
    params.speedup = 2.0;
    trace          = must_open_text(TEXT, &params);
    ck_assert_int_eq(pl_trace_count(trace), 4);
    expect(trace, 0, 2, 0, -1, 5);
    expect(trace, 1, 3, 10, 0, 10);
    expect(trace, 2, 2, 11, -1, 5); /* a ms after the last */
    expect(trace, 3, 3, 21, 2, 10);
    pl_trace_close(trace);

    params.paced = false; /* nobody thinks, but turns keep their order */
    trace        = must_open_text(TEXT, &params);
    expect(trace, 1, 3, 0, 0, 0);
    pl_trace_close(trace);
}
END_TEST

START_TEST(block_size_of_a_line)
{
    static const char TEXT[] =
        "{\"timestamp\":0,\"input_length\":40,\"output_length\":16,"
        "\"block_size\":16,\"hash_ids\":[1,2,3]}\n" ROW(",\"timestamp\":1",
                                                        "7,8");
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = must_open_text(TEXT, NULL);
    int32_t tokens[8], again[8];

    ck_assert_int_eq(pl_trace_block_tokens(trace), 512);
    pl_trace_tokens(trace, 0, 16, 8, tokens); /* the second block's first */
    pl_trace_close(trace);
    trace = must_open_text("{\"timestamp\":0,\"input_length\":600,"
                           "\"output_length\":1,\"hash_ids\":[1,2]}",
                           NULL);
    pl_trace_tokens(trace, 0, 512, 8, again);
    ck_assert_mem_eq(tokens, again, sizeof(tokens));
    pl_trace_close(trace);

    params.block_tokens = 8;
    trace               = must_open_text(TEXT, &params);
    ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 20);
    ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 8);
    ck_assert_int_eq(pl_trace_request(trace, 1)->input_tokens, 10);
    pl_trace_close(trace);

    expect_bad(ROW(",\"timestamp\":1,\"block_size\":16", "0,1"), "16 tokens");
    expect_bad(ROW(",\"timestamp\":1", "1,2")
                   ROW(",\"timestamp\":1,\"block_size\":300", "1,2"),
               "stands for 300 tokens: expected 512 as on line 1");
}
END_TEST

/* ---- bailian ---- */

#define CHAT(chat, parent, time, input, ids)                                   \
    "{\"chat_id\":" #chat ",\"parent_chat_id\":" #parent                       \
    ",\"timestamp\":" #time ",\"input_length\":" #input                        \
    ",\"output_length\":4,\"type\":\"text\","                                  \
    "\"turn\":1,\"hash_ids\":[" ids "]}\n"

START_TEST(bailian_rows)
{
    pl_trace_t *trace =
        open_paced(CHAT(5, -1, 0.0, 20, "0,1") CHAT(6, 5, 1.25, 40, "0,1,2")
                       CHAT(7, 99, 2, 16, "0") CHAT(8, 5, 3, 17, "0,9"));

    ck_assert_str_eq(pl_trace_format(trace), "bailian");
    ck_assert_int_eq(pl_trace_block_tokens(trace), 16);
    expect(trace, 0, 1, 0, -1, 0);
    expect(trace, 1, 2, 1250, 0, 0);
    ck_assert(pl_trace_request(trace, 1)->not_before);
    expect(trace, 2, 3, 2000, -1, 0); /* its parent is not in the file */
    expect(trace, 3, 4, 3000, 0, 0);
    pl_trace_close(trace);
    expect_bad(CHAT(1, -2, 0, 20, "0,1"), "\"parent_chat_id\" is -2");
    expect_bad(CHAT(1, -1, 0, 40, "0,1"), "a block of 16 tokens");
}
END_TEST

/* ---- csv ---- */

START_TEST(csv_columns)
{
    static const char *const TEXTS[] = {
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:17:03.9799600,4808,10\r\n"
        "2023-11-16 18:17:04.0319600,3180,8",
        "\xEF\xBB\xBFTIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2024-02-28 23:59:59.9900000+00:00,2,4808,10\n\n"
        "2024-02-29T01:00:00.042+01:00,0,3180,8\n",
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,"
        "Response tokens,Total tokens,Log Type\n"
        "5,,1.5,\"GPT-4, large\",4808,10,18,\"API log\"\n"
        "5.052,,,ChatGPT,\"3180\",8,0,x\n",
        "arrived_at,num_prefill_tokens,num_decode_tokens\n"
        "0,4808,10\n5.2e-2,3180,8\n",
    };

    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        pl_trace_t *trace = open_paced(TEXTS[i]);

        ck_assert_str_eq(pl_trace_format(trace), "csv");
        ck_assert(!pl_trace_has_prefixes(trace));
        ck_assert_int_eq(pl_trace_count(trace), 2);
        ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 4808);
        ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 10);
        ck_assert_int_eq(pl_trace_request(trace, 1)->input_tokens, 3180);
        ck_assert_int_eq(pl_trace_request(trace, 1)->arrival_ns, 52000000);
        pl_trace_close(trace);
    }
}
END_TEST

/* No two prompts have a page in common. */
START_TEST(csv_prompts_are_their_own)
{
    pl_trace_t *trace =
        open_paced("TIMESTAMP,ContextTokens,GeneratedTokens\n0,64,1\n0,64,1\n");
    pl_page_key_t keys[2];

    pl_trace_page_keys(trace, 0, 16, 0, 1, &keys[0]);
    pl_trace_page_keys(trace, 1, 16, 0, 1, &keys[1]);
    ck_assert_mem_ne(&keys[0], &keys[1], sizeof(keys[0]));
    pl_trace_close(trace);
}
END_TEST

START_TEST(csv_sessions)
{
    pl_trace_t *trace = open_paced(
        "Timestamp,Session ID,Elapsed time,Request tokens,Response tokens\n"
        "0,a,2,10,1\n1,b,,10,1\n5,a,1,10,1\n6,b,,10,1\n");

    expect(trace, 2, 4, 5000, 0, 3000); /* 2 s after the answer, at 2 s */
    ck_assert(!pl_trace_request(trace, 2)->not_before);
    expect(trace, 3, 5, 6000, 1, 0); /* nobody knows when it had its answer */
    ck_assert(pl_trace_request(trace, 3)->not_before);
    pl_trace_close(trace);
}
END_TEST

START_TEST(bad_csv)
{
#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    expect_bad("TIMESTAMP,ContextTokens\n1,2\n", "a column is missing");
    expect_bad(HEAD, "no request in it");
    expect_bad(HEAD "1,2\n", "column of output tokens is ''");
    expect_bad(HEAD "x,2,3\n", "t.jsonl:2: column of times is 'x'");
    expect_bad(HEAD "-1,2,3\n", "column of times");
    expect_bad(HEAD ",2,3\n", "column of times");
    expect_bad(HEAD "inf,2,3\n", "column of times");
    expect_bad(HEAD "9000000001,2,3\n", "column of times");
    expect_bad(HEAD "2023-13-16 18:17:03,2,3\n", "column of times");
    expect_bad(HEAD "2023-11-16 18:17:03x,2,3\n", "column of times");
    expect_bad(HEAD "1969-11-16 18:17:03,2,3\n", "column of times");
    expect_bad(HEAD "0,0,3\n", "no request in it");
    expect_bad(HEAD "0,2147483648,3\n", "column of input tokens");
    expect_bad(HEAD "0,1.5,3\n", "column of input tokens");
    expect_bad(HEAD "0,1,-3\n", "column of output tokens");
}
END_TEST

/* ---- agentic ---- */

START_TEST(agentic_session)
{
    static const char TEXT[] =
        "{\"id\":\"s\",\"block_size\":64,\"hash_id_scope\":\"local\",\n"
        "\"requests\":[\n"
        "{\"t\":1,\"type\":\"n\",\"in\":130,\"out\":9,\"hash_ids\":[1,2],"
        "\"api_time\":2.5,\"think_time\":0},\n"
        "{\"t\":7," ASIDE ",\"duration_ms\":3000,\"requests\":["
        "{\"t\":0,\"type\":\"n\",\"in\":64,\"out\":2,\"hash_ids\":[9],"
        "\"api_time\":1,\"think_time\":0},"
        "{\"t\":1.5,\"type\":\"n\",\"in\":128,\"out\":2,\"hash_ids\":[9,10],"
        "\"api_time\":1,\"think_time\":0.25}]},\n"
        "{\"t\":6.5," ASIDE ",\"duration_ms\":2500,\"requests\":["
        "{\"t\":0,\"type\":\"n\",\"in\":20,\"out\":2,\"hash_ids\":[]}]},\n"
        "{\"t\":8,\"type\":\"s\",\"in\":192,\"out\":3,\"hash_ids\":[1,2,3],"
        "\"api_time\":1,\"think_time\":4.5},\n"
        "{\"t\":12,\"type\":\"s\",\"in\":193,\"out\":3,\"hash_ids\":[1,2,3],"
        "\"think_time\":0.75}]}\n";
    pl_trace_t *trace = open_paced(TEXT);
    const pl_request_t *next;

    ck_assert_str_eq(pl_trace_format(trace), "agentic");
    ck_assert_int_eq(pl_trace_block_tokens(trace), 64);
    ck_assert_int_eq(pl_trace_count(trace), 6);
    expect(trace, 0, 1, 0, -1, 0);
    expect(trace, 1, 2, 3000, 0, 500); /* from 4 s; the answer is at 3.5 */
    expect(trace, 2, 4, 3000, 0, 500);
    expect(trace, 3, 3, 4500, 1, 250);
    expect(trace, 4, 5, 7000, -2, 1000); /* 1 s after the later of the two */
    next = pl_trace_request(trace, 4);
    ck_assert_int_eq(next->n_after, 3);
    ck_assert_int_eq(next->after[0], 0);
    ck_assert_int_eq(next->after[1], 2);
    ck_assert_int_eq(next->after[2], 3);
    expect(trace, 5, 6, 11000, 4, 750);
    pl_trace_close(trace);
}
END_TEST

/* Sessions on lines, whose ids are their own or not. */
START_TEST(agentic_scopes)
{
#define SESSION(scope)                                                         \
    "{\"block_size\":64,\"hash_id_scope\":\"" scope                            \
    "\",\"requests\":[{\"t\":0,"                                               \
    "\"in\":64,\"out\":1,\"hash_ids\":[1]}]}\n"
    static const struct {
        const char *text;
        bool same;
    } CASES[] = {{SESSION("local") SESSION("local"), false},
                 {SESSION("global") SESSION("global"), true},
                 {SESSION("local") SESSION("global"), false}};

    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        pl_trace_t *trace = open_paced(CASES[i].text);
        pl_page_key_t keys[2];

        ck_assert_int_eq(pl_trace_count(trace), 2);
        pl_trace_page_keys(trace, 0, 64, 0, 1, &keys[0]);
        pl_trace_page_keys(trace, 1, 64, 0, 1, &keys[1]);
        ck_assert_int_eq(memcmp(&keys[0], &keys[1], sizeof(keys[0])) == 0,
                         CASES[i].same);
        pl_trace_close(trace);
    }
    expect_bad("{\"requests\":[]}", "no request in it");
    expect_bad("{\"requests\":[1]}", "\"requests\"[0] is 1");
    expect_bad("{\"requests\":[{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[]}]}",
               "expected 1");
    expect_bad(
        "{\"requests\":[{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[1.5]}]}",
        "\"hash_ids\"[0] is 1.5");
    expect_bad("{\"requests\":[{\"in\":64,\"out\":1,\"hash_ids\":[1]}]}",
               "\"t\" is missing");
}
END_TEST

/* ---- packed ---- */

static const char PLAIN[] =
    ROW(",\"timestamp\":0", "0,1") ROW(",\"timestamp\":5", "0,2");

static size_t pack_gzip(const char *text, size_t n, unsigned char *packed,
                        size_t room)
{
    z_stream z = {0};
    size_t size;

    ck_assert_int_eq(
        deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in   = (Bytef *)(uintptr_t)text;
    z.avail_in  = (uInt)n;
    z.next_out  = packed;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    size = room - z.avail_out;
    (void)deflateEnd(&z);
    return size;
}

static pl_status_t open_bytes(const unsigned char *bytes, size_t n,
                              heard_t *heard, pl_trace_t **trace_p)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_log_t log             = log_of(heard);

    return pl_trace_open_memory(&params, "t.gz", (const char *)bytes, n, &log,
                                trace_p);
}

/* One member or two; and no piece of it opens without a word. */
START_TEST(gzip_members)
{
    size_t half = (size_t)(strchr(PLAIN, '\n') - PLAIN) + 1;
    unsigned char packed[1024];
    pl_trace_t *trace = NULL;
    heard_t heard;
    size_t n = pack_gzip(PLAIN, half, packed, sizeof(packed));

    n += pack_gzip(PLAIN + half, sizeof(PLAIN) - 1 - half, packed + n,
                   sizeof(packed) - n);
    for (size_t padding = 0; padding < 100; padding += 99) {
        memset(packed + n, 0, padding);
        ck_assert_int_eq(open_bytes(packed, n + padding, &heard, &trace),
                         PL_OK);
        ck_assert_int_eq(pl_trace_count(trace), 2);
        pl_trace_close(trace);
    }
    packed[n + 50] = 1;
    ck_assert_int_eq(open_bytes(packed, n + 99, &heard, &trace), PL_ERR_INPUT);
    for (size_t cut = 2; cut < n; cut++) {
        trace = NULL;
        if (open_bytes(packed, cut, &heard, &trace) == PL_OK) {
            ck_assert_int_eq(pl_trace_count(trace), 1); /* the first member */
            pl_trace_close(trace);
        } else {
            ck_assert_int_eq(heard.n_errors, 1);
        }
    }
    packed[n / 4] ^= 0x55;
    ck_assert_int_eq(open_bytes(packed, n, &heard, &trace), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "packed by gzip, and damaged"));
}
END_TEST

/* What `zstd` makes of one row, a frame and the same again. */
START_TEST(zstd_frames)
{
    static const unsigned char FRAME[] = {
        0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x42, 0xF5, 0x01, 0x00, 0x64, 0x03, 0x7B,
        0x22, 0x74, 0x69, 0x6D, 0x65, 0x73, 0x74, 0x61, 0x6D, 0x70, 0x22, 0x3A,
        0x30, 0x2C, 0x22, 0x69, 0x6E, 0x70, 0x75, 0x74, 0x5F, 0x6C, 0x65, 0x6E,
        0x67, 0x74, 0x68, 0x22, 0x3A, 0x35, 0x2C, 0x22, 0x6F, 0x75, 0x74, 0x31,
        0x2C, 0x22, 0x68, 0x61, 0x73, 0x68, 0x5F, 0x69, 0x64, 0x73, 0x22, 0x3A,
        0x5B, 0x31, 0x5D, 0x7D, 0x0A, 0x01, 0x00, 0x2C, 0x6E, 0x3E, 0x01};
    static const unsigned char LONG[] = {
        /* a window of 2 GiB */
        0x28, 0xB5, 0x2F, 0xFD, 0x04, 0xA8, 0x4D, 0x02, 0x00, 0x14, 0x04,
        0x7B, 0x22, 0x74, 0x69, 0x6D, 0x65, 0x73, 0x74, 0x61, 0x6D, 0x70,
        0x22, 0x3A, 0x20, 0x30, 0x2C, 0x20, 0x22, 0x69, 0x6E, 0x70, 0x75,
        0x74, 0x5F, 0x6C, 0x65, 0x6E, 0x67, 0x74, 0x68, 0x22, 0x3A, 0x20,
        0x36, 0x30, 0x30, 0x2C, 0x20, 0x22, 0x6F, 0x75, 0x74, 0x35, 0x2C,
        0x20, 0x22, 0x68, 0x61, 0x73, 0x68, 0x5F, 0x69, 0x64, 0x73, 0x22,
        0x3A, 0x20, 0x5B, 0x31, 0x2C, 0x20, 0x32, 0x5D, 0x7D, 0x0A, 0x01,
        0x00, 0xCA, 0x63, 0x96, 0x01, 0x8D, 0x74, 0x51, 0x36};
    static const unsigned char SKIPPED[] = {0x5F, 0x2A, 0x4D, 0x18, 2,
                                            0,    0,    0,    'x',  'y'};
    unsigned char two[sizeof(SKIPPED) + 2 * sizeof(FRAME)];
    pl_trace_t *trace = NULL;
    heard_t heard;
    pl_status_t status;

    memcpy(two, SKIPPED, sizeof(SKIPPED));
    memcpy(two + sizeof(SKIPPED), FRAME, sizeof(FRAME));
    memcpy(two + sizeof(SKIPPED) + sizeof(FRAME), FRAME, sizeof(FRAME));
    status = open_bytes(two, sizeof(two), &heard, &trace);
    if (status == PL_ERR_INPUT) {
        ck_assert_ptr_nonnull(strstr(heard.error, "built without"));
        return;
    }
    ck_assert_int_eq(status, PL_OK);
    ck_assert_int_eq(pl_trace_count(trace), 2);
    pl_trace_close(trace);
    ck_assert_int_eq(open_bytes(LONG, sizeof(LONG), &heard, &trace), PL_OK);
    pl_trace_close(trace);
    trace = NULL;
    ck_assert_int_eq(open_bytes(FRAME, sizeof(FRAME) - 1, &heard, &trace),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "packed by zstd, and damaged"));
}
END_TEST

/* ---- several files ---- */

static const char *write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    return name;
}

START_TEST(merged_files)
{
    const char *const more[] = {
        write_file("merge_b.jsonl",
                   ROW(",\"timestamp\":3,\"session_id\":1", "0,1")
                       ROW(",\"session_id\":1,\"delay\":4", "0,2")),
        write_file("merge_c.jsonl", CHAT(1, -1, 0.001, 16, "0"))};
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);
    pl_page_key_t a, b;

    params.path   = write_file("merge_a.jsonl", ROW(",\"timestamp\":2", "0,1"));
    params.more   = more;
    params.n_more = 2;
    params.paced  = true;
    ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_OK);
    ck_assert_int_eq(heard.n_errors + heard.n_warnings, 0);
    ck_assert_str_eq(pl_trace_format(trace), "mixed");
    ck_assert_int_eq(pl_trace_count(trace), 4);
    expect(trace, 0, 1, 0, -1, 0);
    expect(trace, 1, 1, 1, -1, 0);
    expect(trace, 2, 1, 2, -1, 0);
    expect(trace, 3, 2, 6, 2, 4);
    pl_trace_page_keys(trace, 1, 64, 0, 1, &a); /* both are id 0 */
    pl_trace_page_keys(trace, 2, 64, 0, 1, &b);
    ck_assert_mem_ne(&a, &b, sizeof(a));
    pl_trace_page_keys(trace, 3, 64, 0, 1, &a); /* of one file */
    ck_assert_mem_eq(&a, &b, sizeof(a));
    pl_trace_close(trace);

    params.path = write_file("merge_a.jsonl", "{\"prompt_token_ids\":[1]}");
    ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(
        strstr(heard.error, "merge_b.jsonl: holds block ids"));

    /* What is wrong, or odd, names the file in which it stands. */
    params.n_more = 1;
    params.path   = write_file("merge_a.jsonl", ROW(",\"timestamp\":2", "0,1"));
    (void)write_file("merge_b.jsonl",
                     ROW(",\"request_id\":1,\"wait_for\":[1]", "0,1"));
    ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(
        strstr(heard.error, "merge_b.jsonl:1: waits for itself"));
    (void)write_file("merge_b.jsonl",
                     "{\"timestamp\":0,\"input_length\":1,"
                     "\"output_length\":0,\"hash_ids\":[1]}\n");
    ck_assert_int_eq(pl_trace_open(&params, &log, &trace), PL_OK);
    ck_assert_ptr_nonnull(
        strstr(heard.warning, "merge_b.jsonl:1: output length 0"));
    pl_trace_close(trace);
}
END_TEST

START_TEST(bad_speedups)
{
    static const double BAD[] = {0, -1, 1e10};
    pl_trace_params_t params  = pl_trace_params_default();
    pl_trace_t *trace         = NULL;
    heard_t heard;

    for (size_t i = 0; i < 3; i++) {
        params.speedup = BAD[i];
        ck_assert_int_eq(open_text(PLAIN, &params, &heard, &trace),
                         PL_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(heard.error, "--speedup"));
    }
    params.speedup = 1e-18;
    ck_assert_int_eq(open_text(PLAIN, &params, &heard, &trace),
                     PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(heard.error, "285 years"));
}
END_TEST

static TCase *formats(void)
{
    TCase *tcase = tcase_create("formats");

    tcase_add_test(tcase, turns_of_sessions);
    tcase_add_test(tcase, waits_by_name);
    tcase_add_test(tcase, order_at_one_time);
    tcase_add_test(tcase, what_cannot_wait_is_refused);
    tcase_add_test(tcase, selection_cuts_waits);
    tcase_add_test(tcase, block_size_of_a_line);
    tcase_add_test(tcase, bailian_rows);
    tcase_add_test(tcase, csv_columns);
    tcase_add_test(tcase, csv_prompts_are_their_own);
    tcase_add_test(tcase, csv_sessions);
    tcase_add_test(tcase, bad_csv);
    tcase_add_test(tcase, agentic_session);
    tcase_add_test(tcase, agentic_scopes);
    tcase_add_test(tcase, gzip_members);
    tcase_add_test(tcase, zstd_frames);
    tcase_add_test(tcase, merged_files);
    tcase_add_test(tcase, bad_speedups);
    return tcase;
}

PL_CHECK_MAIN("trace_formats", formats())
