/* trace/played.h: requests as they were played, alone or with the prompts of a
 * trace. */
#include "trace/played.h"

#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"
#include "trace_support.h"

static pl_trace_t *play(const pl_trace_played_t *played, size_t n,
                        const pl_trace_t *prompts)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;

    ck_assert_int_eq(pl_trace_open_played(&params, "bench", played, n, prompts,
                                          NULL, &trace),
                     PL_OK);
    ck_assert_int_eq(pl_trace_count(trace), (int32_t)n);
    return trace;
}

/* In order of their times, which say when they arrive; no two share a page. */
START_TEST(alone_no_two_begin_alike)
{
    const pl_trace_played_t PLAYED[] = {{2000, 128, 5, 0, 1},
                                        {1000, 128, 7, 0, 2}};
    pl_trace_t *trace                = play(PLAYED, 2, NULL);
    pl_page_key_t a[2], b[2];

    ck_assert_int_eq(pl_trace_request(trace, 0)->line, 2);
    ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 7);
    ck_assert_int_eq(pl_trace_request(trace, 0)->arrival_ns, 0);
    ck_assert_int_eq(pl_trace_request(trace, 1)->line, 1);
    ck_assert_int_eq(pl_trace_request(trace, 1)->arrival_ns, 1000);
    ck_assert(!pl_trace_has_prefixes(trace));
    pl_trace_page_keys(trace, 0, 64, 0, 2, a);
    pl_trace_page_keys(trace, 1, 64, 0, 2, b);
    ck_assert(memcmp(&a[0], &b[0], sizeof(a[0])) != 0);
    ck_assert(memcmp(&a[1], &b[1], sizeof(a[0])) != 0);
    pl_trace_close(trace);
}
END_TEST

/* Prompts of the trace in another order and at other times, whatever it said of
 * waiting; answers as they were. */
START_TEST(with_prompts_of_a_trace)
{
    pl_trace_t *prompts = must_open_text(
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, "
        "\"hash_ids\": [1, 2]}\n"
        "{\"timestamp\": 10, \"input_length\": 700, \"output_length\": 2, "
        "\"hash_ids\": [1, 3]}\n"
        "{\"timestamp\": 20, \"input_length\": 512, \"output_length\": 3, "
        "\"hash_ids\": [4]}\n",
        NULL);
    const pl_trace_played_t PLAYED[] = {
        {500, 9, 11, 2, 1}, {900, 9, 12, 1, 2}, {700, 9, 13, 0, 3}};
    pl_trace_t *trace = play(PLAYED, 3, prompts);
    pl_page_key_t a, b, c;

    ck_assert_int_eq(pl_trace_request(trace, 0)->input_tokens, 512);
    ck_assert_int_eq(pl_trace_request(trace, 0)->output_tokens, 11);
    ck_assert_int_eq(pl_trace_request(trace, 1)->input_tokens, 600);
    ck_assert_int_eq(pl_trace_request(trace, 1)->arrival_ns, 200);
    ck_assert_int_eq(pl_trace_request(trace, 1)->line, 3);
    ck_assert_int_eq(pl_trace_request(trace, 2)->input_tokens, 700);
    ck_assert(pl_trace_has_prefixes(trace));
    pl_trace_page_keys(trace, 0, 512, 0, 1, &a);
    pl_trace_page_keys(trace, 1, 512, 0, 1, &b);
    pl_trace_page_keys(trace, 2, 512, 0, 1, &c);
    ck_assert(memcmp(&a, &b, sizeof(a)) != 0);
    ck_assert(memcmp(&b, &c, sizeof(b)) == 0);
    pl_trace_close(trace);
    pl_trace_close(prompts);
}
END_TEST

/* Its tokens too. */
START_TEST(with_tokens_of_a_trace)
{
    pl_trace_t *prompts = must_open_text(
        "{\"prompt_token_ids\": [5, 6, 7]}\n{\"prompt_token_ids\": [8, 9]}\n",
        NULL);
    const pl_trace_played_t PLAYED[] = {{0, 2, 1, 1, 1}, {0, 3, 1, 0, 2}};
    pl_trace_t *trace                = play(PLAYED, 2, prompts);
    int32_t tokens[3]                = {0};

    pl_trace_tokens(trace, 0, 0, 2, tokens);
    ck_assert_int_eq(tokens[0], 8);
    ck_assert_int_eq(tokens[1], 9);
    pl_trace_tokens(trace, 1, 0, 3, tokens);
    ck_assert_int_eq(tokens[2], 7);
    pl_trace_close(trace);
    pl_trace_close(prompts);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("trace_played");

    tcase_add_test(tcase, alone_no_two_begin_alike);
    tcase_add_test(tcase, with_prompts_of_a_trace);
    tcase_add_test(tcase, with_tokens_of_a_trace);
    return tcase;
}

PL_CHECK_MAIN("trace_played", all())
