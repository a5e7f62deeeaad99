/* Writing: what goes to another format and back is what both can say; keyed
 * ids; traces that are made. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/check_main.h"
#include "support/seed.h"
#include "trace/id_map.h"
#include "trace/internal.h"
#include "trace/make.h"
#include "trace/stats.h"
#include "trace/write.h"
#include "trace_support.h"

/* ---- what two traces have in common ---- */

enum {
    TIMES  = 1, /* arrivals */
    WAITS  = 2, /* whom requests wait for, and how long */
    FULL   = 4, /* which full blocks are equal */
    BLOCKS = 8  /* the partial ones too */
};

/* Ids of blocks are other numbers, one for one. */
static void same_ids(const pl_trace_t *a, const pl_trace_t *b, int what)
{
    pl_id_map_t there = {0}, back = {0};

    for (int32_t i = 0; i < pl_trace_count(a); i++) {
        const pl_trace_row_t *of_a = pl_trace_row(a, i);
        const pl_trace_row_t *of_b = pl_trace_row(b, i);
        size_t n                   = what & BLOCKS
                                         ? of_a->n
                                         : (size_t)(of_a->input_tokens / of_a->block_tokens);

        ck_assert_int_eq(of_a->block_tokens, of_b->block_tokens);
        for (size_t k = 0; k < n; k++) {
            uint64_t x     = a->rows.ids.items[of_a->first + k];
            uint64_t y     = b->rows.ids.items[of_b->first + k];
            uint64_t other = y;

            if (pl_id_map_find(&there, 0, x, &other)) {
                ck_assert_uint_eq(other, y);
            }
            other = x;
            if (pl_id_map_find(&back, 0, y, &other)) {
                ck_assert_uint_eq(other, x);
            }
            ck_assert_int_eq(pl_id_map_put(&there, 0, x, y), PL_OK);
            ck_assert_int_eq(pl_id_map_put(&back, 0, y, x), PL_OK);
        }
    }
    pl_id_map_free(&there);
    pl_id_map_free(&back);
}

static void same(const pl_trace_t *a, const pl_trace_t *b, int what)
{
    ck_assert_int_eq(pl_trace_count(a), pl_trace_count(b));
    for (int32_t i = 0; i < pl_trace_count(a); i++) {
        const pl_request_t *of_a = pl_trace_request(a, i);
        const pl_request_t *of_b = pl_trace_request(b, i);

        ck_assert_int_eq(of_a->input_tokens, of_b->input_tokens);
        ck_assert_int_eq(of_a->output_tokens, of_b->output_tokens);
        if (what & TIMES) {
            ck_assert_int_eq(of_a->arrival_ns, of_b->arrival_ns);
        }
        if (what & WAITS) {
            ck_assert_int_eq(of_a->n_after, of_b->n_after);
            ck_assert_int_eq(of_a->delay_ns, of_b->delay_ns);
            ck_assert_int_eq(of_a->not_before, of_b->not_before);
            for (int32_t k = 0; k < of_a->n_after; k++) {
                ck_assert_int_eq(of_a->after[k], of_b->after[k]);
            }
        }
    }
    if (what & (FULL | BLOCKS)) {
        same_ids(a, b, what);
    }
}

/* ---- there and back ---- */

static char *write_text(const pl_trace_t *trace, const char *format,
                        int32_t id_tokens, const pl_key_t *key, heard_t *heard)
{
    pl_trace_write_params_t params = {
        .format = format, .id_tokens = id_tokens, .key = key};
    pl_log_t log = log_of(heard);
    char *text   = NULL;
    size_t n     = 0;
    FILE *file   = open_memstream(&text, &n);

    ck_assert_ptr_nonnull(file);
    ck_assert_msg(pl_trace_write(trace, &params, file, &log) == PL_OK, "%s",
                  heard->error);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(heard->n_errors, 0);
    return text;
}

static pl_trace_t *open_paced(const char *text)
{
    pl_trace_params_t params = pl_trace_params_default();

    params.paced = true;
    return must_open_text(text, &params);
}

/* `trace` in another format, read again. */
static pl_trace_t *through(const pl_trace_t *trace, const char *format,
                           int32_t id_tokens)
{
    heard_t heard;
    char *text        = write_text(trace, format, id_tokens, NULL, &heard);
    pl_trace_t *again = open_paced(text);

    free(text);
    return again;
}

static void there_and_back(const pl_trace_t *trace, const char *format,
                           int32_t id_tokens, const char *own, int what)
{
    pl_trace_t *there = through(trace, format, id_tokens);
    int32_t own_size  = pl_trace_block_tokens(trace);
    pl_trace_t *back =
        through(there, own, strcmp(own, "mooncake") == 0 ? own_size : 0);

    same(trace, back, what);
    pl_trace_close(there);
    pl_trace_close(back);
}

static pl_make_params_t some_make(uint64_t seed, double turns)
{
    pl_make_params_t params = {.n_sessions   = 40,
                               .levels       = {{700, 1}, {300, 3}, {50, 2}},
                               .n_levels     = 3,
                               .words        = {400, 1.5},
                               .answer       = {60, 0.7},
                               .turns        = turns,
                               .think_s      = 2.5,
                               .arrivals     = PL_MAKE_GAMMA,
                               .rate         = 2,
                               .cv           = 2,
                               .block_tokens = 64,
                               .seed         = seed};

    return params;
}

static pl_trace_t *must_make(const pl_make_params_t *params)
{
    pl_trace_t *trace = NULL;

    ck_assert_int_eq(pl_trace_make(params, NULL, &trace), PL_OK);
    return trace;
}

START_TEST(formats_there_and_back)
{
    uint64_t seed = pl_test_seed("write");

    for (uint64_t k = 0; k < 6; k++) {
        pl_make_params_t params = some_make(seed + k, 1 + (double)k);
        pl_trace_t *trace       = must_make(&params);

        there_and_back(trace, "mooncake", 0, "mooncake",
                       TIMES | WAITS | BLOCKS);
        there_and_back(trace, "agentic", 0, "mooncake", TIMES | WAITS | FULL);
        there_and_back(trace, "tokens", 0, "mooncake", TIMES | WAITS | FULL);
        there_and_back(trace, "bailian", 0, "mooncake", TIMES | FULL);
        there_and_back(trace, "mooncake", 16, "mooncake",
                       TIMES | WAITS | BLOCKS);
        there_and_back(trace, "csv", 0, "csv", WAITS);
        pl_trace_close(trace);
    }
}
END_TEST

/* Ids as they come: nothing changes that need not. */
START_TEST(mooncake_stays_as_it_is)
{
    char *text        = random_trie(pl_test_seed("trie"), 80, 9);
    pl_trace_t *trace = open_paced(text);
    pl_trace_t *again = through(trace, "mooncake", 0);

    same(trace, again, TIMES | WAITS | BLOCKS);
    ck_assert_uint_eq(trace->rows.ids.n, again->rows.ids.n);
    ck_assert_mem_eq(trace->rows.ids.items, again->rows.ids.items,
                     again->rows.ids.n * sizeof(uint64_t));
    there_and_back(trace, "bailian", 0, "mooncake", TIMES | FULL);
    there_and_back(trace, "agentic", 0, "mooncake", TIMES | FULL);
    pl_trace_close(trace);
    pl_trace_close(again);
    free(text);
}
END_TEST

/* Bailian has its own times and parents. */
START_TEST(bailian_there_and_back)
{
    static const char TEXT[] =
        "{\"chat_id\":3,\"parent_chat_id\":-1,\"timestamp\":0.000000001,"
        "\"input_length\":30,\"output_length\":4,\"hash_ids\":[0,1]}\n"
        "{\"chat_id\":4,\"parent_chat_id\":3,\"timestamp\":7.25,"
        "\"input_length\":50,\"output_length\":4,\"hash_ids\":[0,2,3,4]}\n"
        "{\"chat_id\":5,\"parent_chat_id\":3,\"timestamp\":3600.5,"
        "\"input_length\":33,\"output_length\":4,\"hash_ids\":[0,2,9]}\n";
    pl_trace_t *trace = open_paced(TEXT);

    there_and_back(trace, "bailian", 0, "bailian", TIMES | WAITS | BLOCKS);
    pl_trace_close(trace);
}
END_TEST

/* Lists within a session, and names that are waited for. */
START_TEST(threads_there_and_back)
{
    static const char TEXT[] =
        "{\"requests\":[{\"t\":1,\"in\":130,\"out\":9,\"hash_ids\":[1,2],"
        "\"api_time\":2},"
        "{\"t\":7,\"duration_ms\":3000,\"requests\":["
        "{\"t\":0,\"in\":64,\"out\":2,\"hash_ids\":[9]},"
        "{\"t\":1.5,\"in\":128,\"out\":2,\"hash_ids\":[9,10],"
        "\"think_time\":0.25}]},"
        "{\"t\":6.5,\"duration_ms\":2500,\"requests\":["
        "{\"t\":0,\"in\":20,\"out\":2,\"hash_ids\":[]}]},"
        "{\"t\":8,\"in\":192,\"out\":3,\"hash_ids\":[1,2,3]}]}\n";
    pl_trace_t *trace = open_paced(TEXT);

    there_and_back(trace, "agentic", 0, "agentic", TIMES | WAITS | FULL);
    there_and_back(trace, "mooncake", 0, "mooncake", TIMES | WAITS | BLOCKS);
    pl_trace_close(trace);
}
END_TEST

/* One warning for each kind of loss, and none where there is none. */
START_TEST(losses_are_told)
{
    static const struct {
        const char *format;
        int n;
        const char *last;
    } CASES[]               = {{"mooncake", 0, ""},
                               {"tokens", 1, "tokens are drawn"},
                               {"agentic", 1, "partial blocks"},
                               {"bailian", 1, "delays after"},
                               {"csv", 2, "finer than 100 ns"}};
    pl_make_params_t params = some_make(7, 3);
    pl_trace_t *trace       = must_make(&params);

    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        heard_t heard;

        free(write_text(trace, CASES[i].format, 0, NULL, &heard));
        ck_assert_int_eq(heard.n_warnings, CASES[i].n);
        ck_assert_msg(strstr(heard.warning, CASES[i].last) != NULL, "%s",
                      heard.warning);
    }
    pl_trace_close(trace);
}
END_TEST

START_TEST(what_cannot_be_written)
{
    static const struct {
        const char *format;
        int32_t id_tokens;
        const char *says;
    } CASES[]             = {{"nothing", 0, "expected mooncake, bailian"},
                             {"bailian", 64, "stand for 16 tokens"},
                             {"csv", 64, "has no ids"},
                             {"tokens", 64, "has no ids"}};
    pl_make_params_t make = some_make(7, 1);
    pl_trace_t *trace     = must_make(&make);

    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        pl_trace_write_params_t params = {.format    = CASES[i].format,
                                          .id_tokens = CASES[i].id_tokens};
        heard_t heard;
        pl_log_t log = log_of(&heard);

        ck_assert_int_eq(pl_trace_write(trace, &params, stdout, &log),
                         PL_ERR_ARGUMENT);
        ck_assert_int_eq(heard.n_errors, 1);
        ck_assert_ptr_nonnull(strstr(heard.error, CASES[i].says));
    }
    pl_trace_close(trace);
}
END_TEST

/* ---- keys ---- */

static pl_status_t read_key(const char *bytes, size_t n, heard_t *heard,
                            pl_key_t *key)
{
    FILE *file   = fopen("test.key", "wb");
    pl_log_t log = log_of(heard);

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
    return pl_key_read("test.key", &log, key);
}

START_TEST(keyed_ids)
{
    pl_make_params_t make = some_make(11, 3);
    pl_trace_t *trace     = must_make(&make);
    pl_key_t key, other;
    heard_t heard;
    char *text, *again, *with_other;
    pl_trace_t *read;

    if (read_key("0123456789abcdef", 16, &heard, &key) == PL_ERR_ARGUMENT) {
        ck_assert_ptr_nonnull(strstr(heard.error, "built without OpenSSL"));
        pl_trace_close(trace);
        return;
    }
    ck_assert_int_eq(read_key("0123456789abcdeg", 16, &heard, &other), PL_OK);
    text       = write_text(trace, "mooncake", 0, &key, &heard);
    again      = write_text(trace, "mooncake", 0, &key, &heard);
    with_other = write_text(trace, "mooncake", 0, &other, &heard);
    ck_assert_str_eq(text, again);
    ck_assert_str_ne(text, with_other);
    read = open_paced(text);
    same(trace, read, TIMES | WAITS | BLOCKS);
    for (size_t i = 0; i < read->rows.ids.n; i++) {
        ck_assert_uint_gt(read->rows.ids.items[i], trace->rows.ids.n);
    }
    pl_trace_close(read);
    pl_trace_close(trace);
    pl_key_free(&key);
    pl_key_free(&other);
    free(text);
    free(again);
    free(with_other);
}
END_TEST

/* RFC 4231's idea with our message: computed by Python's hmac. */
START_TEST(a_known_hash)
{
    pl_key_t key;
    heard_t heard;
    uint64_t hash = 0;

    if (read_key("0123456789abcdef", 16, &heard, &key) == PL_ERR_ARGUMENT) {
        return;
    }
    ck_assert_int_eq(pl_key_hash(&key, "block", 7, 9, &hash), PL_OK);
    ck_assert_uint_eq(hash, UINT64_C(4255573723512140072));
    pl_key_free(&key);
}
END_TEST

START_TEST(bad_keys)
{
    static char bytes[5000];
    pl_key_t key;
    heard_t heard;

    if (read_key("0123456789abcdef", 16, &heard, &key) == PL_ERR_ARGUMENT) {
        return;
    }
    pl_key_free(&key);
    ck_assert_int_eq(read_key("0123456789abcde", 15, &heard, &key),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "too short"));
    ck_assert_int_eq(read_key(bytes, sizeof(bytes), &heard, &key),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "too long"));
}
END_TEST

/* Tokens are text. */
START_TEST(tokens_are_not_hashed)
{
    pl_make_params_t make          = some_make(11, 1);
    pl_trace_t *trace              = must_make(&make);
    unsigned char bytes[16]        = {1};
    pl_key_t key                   = {bytes, sizeof(bytes)};
    pl_trace_write_params_t params = {.format = "tokens", .key = &key};
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_trace_write(trace, &params, stdout, &log),
                     PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(heard.error, "--anonymize"));
    pl_trace_close(trace);
}
END_TEST

/* ---- made ---- */

START_TEST(the_same_seed_the_same_bytes)
{
    pl_make_params_t params = some_make(pl_test_seed("make"), 3);
    pl_make_params_t other  = params;
    pl_trace_t *traces[3];
    char *texts[3];
    heard_t heard;

    other.seed++;
    traces[0] = must_make(&params);
    traces[1] = must_make(&params);
    traces[2] = must_make(&other);
    for (int i = 0; i < 3; i++) {
        texts[i] = write_text(traces[i], "mooncake", 0, NULL, &heard);
        pl_trace_close(traces[i]);
    }
    ck_assert_str_eq(texts[0], texts[1]);
    ck_assert_str_ne(texts[0], texts[2]);
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
    }
}
END_TEST

/* Means are what was asked for, within five standard errors. */
START_TEST(means_are_kept)
{
    pl_make_params_t params = some_make(3, 4);
    pl_trace_t *trace;
    double n, turns = 0, words = 0, answers = 0, delay = 0;

    params.n_sessions = 4000;
    trace             = must_make(&params);
    n                 = pl_trace_count(trace);
    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        const pl_request_t *request = pl_trace_request(trace, i);

        answers += request->output_tokens;
        if (request->n_after == 0) {
            words += request->input_tokens - 1050;
        } else {
            const pl_request_t *before =
                pl_trace_request(trace, request->after[0]);

            turns++;
            delay += (double)request->delay_ns / 1e9;
            words += request->input_tokens - before->input_tokens -
                     before->output_tokens;
        }
    }
    ck_assert(fabs((turns + 4000) / 4000 - 4) < 5 * 3.5 / sqrt(4000));
    ck_assert(fabs(words / n - 400) < 5 * 600 / sqrt(n));
    ck_assert(fabs(answers / n - 60) < 5 * 42 / sqrt(n));
    ck_assert(fabs(delay / turns - 2.5) < 5 * 2.5 / sqrt(turns));
    pl_trace_close(trace);
}
END_TEST

/* At every level one of so many. */
START_TEST(prompts_begin_as_the_shape_says)
{
    pl_make_params_t params = some_make(5, 1);
    pl_trace_t *trace;
    pl_trace_stats_t stats;

    params.n_levels     = 2; /* 700 in common, then 3 of 300 */
    params.block_tokens = 100;
    params.n_sessions   = 300;
    trace               = must_make(&params);
    ck_assert_int_eq(pl_trace_stats(trace, 100, NULL, &stats), PL_OK);
    ck_assert_int_eq(stats.n_first_blocks, 1);
    ck_assert_int_eq(stats.hit_blocks, 300 * 10 - 7 - 3 * 3);
    pl_trace_close(trace);
}
END_TEST

START_TEST(gaps_are_drawn)
{
    static const struct {
        pl_make_arrivals_t arrivals;
        double cv;
    } CASES[]               = {{PL_MAKE_POISSON, 1}, {PL_MAKE_GAMMA, 3}};
    pl_make_params_t params = some_make(5, 1);
    double n                = 20000;

    params.n_sessions = (int32_t)n + 1;
    params.n_levels   = 0;
    for (size_t k = 0; k < 2; k++) {
        double sum = 0, squares = 0, cv;
        pl_trace_t *trace;

        params.arrivals = CASES[k].arrivals;
        params.cv       = CASES[k].cv;
        trace           = must_make(&params);
        for (int32_t i = 0; i < (int32_t)n; i++) {
            double gap = (double)(pl_trace_request(trace, i + 1)->arrival_ns -
                                  pl_trace_request(trace, i)->arrival_ns) /
                         1e9;

            sum += gap;
            squares += gap * gap;
        }
        cv = sqrt(squares / n - sum / n * sum / n) / (sum / n);
        ck_assert(fabs(sum / n - 0.5) < 5 * CASES[k].cv * 0.5 / sqrt(n));
        ck_assert(fabs(cv / CASES[k].cv - 1) < 0.2);
        pl_trace_close(trace);
    }
}
END_TEST

START_TEST(gaps_of_a_trace)
{
    pl_make_params_t params = some_make(5, 1);
    pl_trace_t *like =
        open_paced("TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1\n3,1,1\n"
                   "3.5,1,1\n");
    pl_trace_t *trace;
    static const int64_t MS[] = {0, 2000, 2500, 4500, 5000};

    params.arrivals   = PL_MAKE_LIKE;
    params.like       = like;
    params.n_sessions = 5;
    trace             = must_make(&params);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(pl_trace_request(trace, i)->arrival_ns,
                         MS[i] * 1000000);
    }
    pl_trace_close(trace);
    pl_trace_close(like);
}
END_TEST

/* Fill, pressure, and the first ones again. */
START_TEST(churn)
{
    pl_make_params_t params = some_make(5, 1);
    pl_trace_t *trace;
    pl_trace_stats_t stats;

    params.n_levels = 0;
    params.fill     = 20;
    params.pressure = 30;
    trace           = must_make(&params);
    ck_assert_int_eq(pl_trace_count(trace), 70);
    ck_assert_int_eq(pl_trace_stats(trace, 64, NULL, &stats), PL_OK);
    ck_assert_int_eq(stats.n_full_hits, 20);
    for (int i = 0; i < 20; i++) {
        const pl_trace_row_t *first = pl_trace_row(trace, i);
        const pl_trace_row_t *again = pl_trace_row(trace, 50 + i);

        ck_assert_uint_eq(first->first, again->first);
        ck_assert_int_eq(first->output_tokens, again->output_tokens);
    }
    pl_trace_close(trace);
}
END_TEST

static TCase *writing(void)
{
    TCase *tcase = tcase_create("writing");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, formats_there_and_back);
    tcase_add_test(tcase, mooncake_stays_as_it_is);
    tcase_add_test(tcase, bailian_there_and_back);
    tcase_add_test(tcase, threads_there_and_back);
    tcase_add_test(tcase, losses_are_told);
    tcase_add_test(tcase, what_cannot_be_written);
    tcase_add_test(tcase, keyed_ids);
    tcase_add_test(tcase, a_known_hash);
    tcase_add_test(tcase, bad_keys);
    tcase_add_test(tcase, tokens_are_not_hashed);
    return tcase;
}

static TCase *making(void)
{
    TCase *tcase = tcase_create("making");

    tcase_add_test(tcase, the_same_seed_the_same_bytes);
    tcase_add_test(tcase, means_are_kept);
    tcase_add_test(tcase, prompts_begin_as_the_shape_says);
    tcase_add_test(tcase, gaps_are_drawn);
    tcase_add_test(tcase, gaps_of_a_trace);
    tcase_add_test(tcase, churn);
    return tcase;
}

PL_CHECK_MAIN("trace_write", writing(), making())
