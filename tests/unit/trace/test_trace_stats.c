/* Statistics: by hand, on what datasets/ ships, and against plain counting. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"
#include "trace/stats.h"
#include "trace_support.h"

#define SLICE  PAGELANE_DATASETS "/mooncake_conversation_slice.jsonl"
#define TOKENS PAGELANE_DATASETS "/tokens_sample.jsonl"

static pl_trace_stats_t stats_of(const pl_trace_t *trace, int32_t page_size)
{
    pl_trace_stats_t stats;

    ck_assert_int_eq(pl_trace_stats(trace, page_size, NULL, &stats), PL_OK);
    return stats;
}

START_TEST(by_hand)
{
    /* Hits: none; block 1 (of 2); 1 and 2 (all; the tail as partial as it
     * is); block 1 as a tail. */
    static const char TEXT[] =
        "{\"timestamp\":0,\"input_length\":700,\"output_length\":1,"
        "\"hash_ids\":[1,2]}\n"
        "{\"timestamp\":0,\"input_length\":1024,\"output_length\":3,"
        "\"hash_ids\":[1,3]}\n"
        "{\"timestamp\":2000,\"input_length\":800,\"output_length\":4,"
        "\"hash_ids\":[1,2]}\n"
        "{\"timestamp\":4000,\"input_length\":512,\"output_length\":10,"
        "\"hash_ids\":[1]}\n";
    pl_trace_t *trace      = must_open_text(TEXT, NULL);
    pl_trace_stats_t stats = stats_of(trace, 512);

    ck_assert_int_eq(stats.n_requests, 4);
    ck_assert_int_eq(stats.n_name_spaces, 1);
    ck_assert_int_eq(stats.duration_ns, 4000000000);
    ck_assert_int_eq(stats.n_arrivals, 3);
    ck_assert_int_eq(stats.max_at_once, 2);
    ck_assert_double_eq(stats.requests_per_s, 1.0);
    ck_assert_int_eq(stats.input.total, 3036);
    ck_assert_double_eq(stats.input.mean, 759.0);
    ck_assert_int_eq(stats.input.min, 512);
    ck_assert_int_eq(stats.input.p50, 700);
    ck_assert_int_eq(stats.input.p90, 1024);
    ck_assert_int_eq(stats.input.max, 1024);
    ck_assert_int_eq(stats.output.total, 18);
    ck_assert_int_eq(stats.output.p50, 3);
    ck_assert_int_eq(stats.block_tokens, 512);
    ck_assert_int_eq(stats.n_blocks, 7);
    ck_assert_int_eq(stats.n_full_blocks, 5);
    ck_assert_int_eq(stats.n_unique_blocks, 3);
    ck_assert_int_eq(stats.n_once_blocks, 1);
    ck_assert_int_eq(stats.n_first_blocks, 1);
    ck_assert_int_eq(stats.hit_blocks, 4);
    ck_assert_int_eq(stats.hit_full_blocks, 3);
    ck_assert_int_eq(stats.hit_tokens, 512 + 800 + 512);
    ck_assert_int_eq(stats.n_full_hits, 2);
    ck_assert_double_eq_tol(stats.block_ratio, 4.0 / 7, 1e-12);
    ck_assert_double_eq_tol(stats.token_ratio, 1824.0 / 3036, 1e-12);
    ck_assert_double_eq_tol(stats.full_block_ratio, 4.0 / 5, 1e-12);
    ck_assert_double_eq_tol(stats.request_ratio, (0.5 + 1 + 1) / 4, 1e-12);
    /* An engine always computes the last token: the fourth hits nothing. */
    ck_assert_int_eq(stats.page_hit_tokens, 512 + 512);
    ck_assert_int_eq(stats.page_hit_blocks, 2);
    ck_assert_double_eq_tol(stats.page_request_ratio, (0.5 + 0.64) / 4, 1e-12);
    pl_trace_close(trace);
}
END_TEST

/* The same tokens in another namespace are no hit. */
START_TEST(name_spaces_share_nothing)
{
    static const char TEXT[] =
        "{\"prompt_token_ids\":[1,2,3,4,5],\"namespace\":\"a\"}\n"
        "{\"prompt_token_ids\":[1,2,3,4,5],\"namespace\":\"b\"}\n"
        "{\"prompt_token_ids\":[1,2,3,4,5],\"namespace\":\"a\"}\n"
        "{\"prompt_token_ids\":[1,2,3,4],\"namespace\":\"b\"}\n"
        "{\"prompt_token_ids\":[3,4]}\n";
    pl_trace_t *trace      = must_open_text(TEXT, NULL);
    pl_trace_stats_t stats = stats_of(trace, 2);

    ck_assert_int_eq(stats.n_name_spaces, 3);
    ck_assert_int_eq(stats.block_tokens, 2);
    ck_assert_int_eq(stats.n_blocks, 12);
    ck_assert_int_eq(stats.n_unique_blocks, 7);
    ck_assert_int_eq(stats.n_first_blocks, 3);
    ck_assert_int_eq(stats.hit_blocks, 3 + 2);
    ck_assert_int_eq(stats.hit_tokens, 5 + 4);
    ck_assert_int_eq(stats.page_hit_tokens, 4 + 2);
    pl_trace_close(trace);
}
END_TEST

START_TEST(the_shipped_slice)
{
    pl_trace_t *trace      = must_open_file(SLICE, NULL);
    pl_trace_stats_t stats = stats_of(trace, 64);

    ck_assert_str_eq(pl_trace_format(trace), "mooncake");
    ck_assert_int_eq(stats.n_requests, 200);
    ck_assert_int_eq(stats.duration_ns, 63000000000);
    ck_assert_int_eq(stats.n_arrivals, 22);
    ck_assert_int_eq(stats.max_at_once, 15);
    ck_assert_int_eq(stats.input.total, 2666278);
    ck_assert_int_eq(stats.input.min, 892);
    ck_assert_int_eq(stats.input.p50, 7863);
    ck_assert_int_eq(stats.input.p90, 25826);
    ck_assert_int_eq(stats.input.p99, 74642);
    ck_assert_int_eq(stats.input.max, 118473);
    ck_assert_int_eq(stats.output.total, 64157);
    ck_assert_int_eq(stats.output.p50, 329);
    ck_assert_int_eq(stats.output.p90, 625);
    ck_assert_int_eq(stats.output.p99, 890);
    ck_assert_int_eq(stats.n_blocks, 5303);
    ck_assert_int_eq(stats.n_full_blocks, 5103);
    ck_assert_int_eq(stats.n_unique_blocks, 4922);
    ck_assert_int_eq(stats.n_first_blocks, 1);
    ck_assert_int_eq(stats.hit_blocks, 381);
    ck_assert_int_eq(stats.hit_full_blocks, 380);
    ck_assert_int_eq(stats.hit_tokens, 194930);
    ck_assert_int_eq(stats.n_full_hits, 1);
    ck_assert_double_eq_tol(stats.request_ratio, 0.1946541918, 1e-9);
    pl_trace_close(trace);
}
END_TEST

typedef struct pages {
    int32_t page_size, block_tokens;
    int64_t input, hit_tokens, hit_blocks;
    double per_request;
} pages_t;

static const pages_t PAGES[] = {
    {16, 512, 2666278, 194928, 380, 0.19465364505976493},
    {64, 512, 2666278, 194880, 380, 0.194640523135216},
    {100, 512, 2666278, 192000, 182, 0.19075948663478698},
    {128, 512, 2666278, 194816, 380, 0.1946230272358174},
    {512, 512, 2666278, 194560, 380, 0.19455304363822307},
    {1024, 512, 2666278, 96256, 188, 0.05230192797998092},
    {16, 64, 333370, 24352, 380, 0.19431448805274182},
    {64, 64, 333370, 24320, 380, 0.19424452740560583},
    {100, 64, 333370, 11800, 175, 0.05087484256827155},
};

START_TEST(pages_of_the_shipped_slice)
{
    const pages_t *pages     = &PAGES[_i];
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;
    pl_trace_stats_t stats;

    params.block_tokens = pages->block_tokens;
    trace               = must_open_file(SLICE, &params);
    stats               = stats_of(trace, pages->page_size);
    ck_assert_int_eq(stats.input.total, pages->input);
    ck_assert_int_eq(stats.page_hit_tokens, pages->hit_tokens);
    ck_assert_double_eq_tol(stats.page_request_ratio, pages->per_request,
                            1e-12);
    ck_assert_int_eq(stats.hit_blocks, 381); /* at every scale */
    ck_assert_int_eq(stats.page_hit_blocks, pages->hit_blocks);
    ck_assert_int_eq(stats.output.total,
                     pages->block_tokens == 512 ? 64157 : 8106);
    pl_trace_close(trace);
}
END_TEST

START_TEST(the_shipped_tokens)
{
    pl_trace_t *trace      = must_open_file(TOKENS, NULL);
    pl_trace_stats_t stats = stats_of(trace, 16);

    ck_assert_str_eq(pl_trace_format(trace), "tokens");
    ck_assert_int_eq(stats.n_requests, 18);
    ck_assert_int_eq(stats.n_name_spaces, 2);
    ck_assert_int_eq(stats.input.total, 4182);
    ck_assert_int_eq(stats.n_blocks, 270);
    ck_assert_int_eq(stats.n_full_blocks, 254);
    ck_assert_int_eq(stats.n_unique_blocks, 84);
    ck_assert_int_eq(stats.n_first_blocks, 2);
    ck_assert_int_eq(stats.hit_blocks, 186);
    ck_assert_int_eq(stats.hit_tokens, 2976);
    ck_assert_int_eq(stats.page_hit_tokens, 2976);
    ck_assert_double_eq_tol(stats.request_ratio, 0.6878159461267214, 1e-12);
    stats = stats_of(trace, 64);
    ck_assert_int_eq(stats.n_blocks, 74);
    ck_assert_int_eq(stats.n_unique_blocks, 32);
    ck_assert_int_eq(stats.hit_blocks, 42);
    ck_assert_int_eq(stats.page_hit_tokens, 2688);
    pl_trace_close(trace);
}
END_TEST

/* A request's leading blocks in any earlier one, compared pair by pair. */
static int64_t plain_hits(const pl_trace_t *trace, int64_t *tokens_p)
{
    const uint64_t *ids = trace->rows.ids.items;
    int64_t hits        = 0;

    *tokens_p = 0;
    for (int32_t i = 0; i < trace->count; i++) {
        const pl_trace_row_t *row = pl_trace_row(trace, i);
        int64_t input             = pl_trace_request(trace, i)->input_tokens;
        int64_t best              = 0;

        for (int32_t j = 0; j < i; j++) {
            const pl_trace_row_t *other = pl_trace_row(trace, j);
            size_t k                    = 0;

            while ((k < row->n) && (k < other->n) &&
                   (ids[row->first + k] == ids[other->first + k])) {
                k++;
            }
            best = (int64_t)k > best ? (int64_t)k : best;
        }
        hits += best;
        best *= pl_trace_block_tokens(trace);
        *tokens_p += best < input ? best : input;
    }
    return hits;
}

START_TEST(ceilings_agree_with_plain_counting)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pl_trace_params_t params = pl_trace_params_default();
        char *text               = random_trie(seed, 60, 12);
        int64_t tokens;
        pl_trace_t *trace;
        pl_trace_stats_t stats;

        params.block_tokens = seed % 2 == 0 ? 48 : 0;
        params.passes       = seed % 3 == 0 ? 2 : 1;
        trace               = must_open_text(text, &params);
        stats               = stats_of(trace, 16);
        ck_assert_msg(stats.hit_blocks == plain_hits(trace, &tokens),
                      "seed %llu", (unsigned long long)seed);
        ck_assert_int_eq(stats.hit_tokens, tokens);
        /* An infinite cache hits what it has: the rest is new. */
        ck_assert_int_eq(stats.hit_blocks + stats.n_unique_blocks,
                         stats.n_blocks);
        pl_trace_close(trace);
        free(text);
    }
}
END_TEST

START_TEST(a_page_has_tokens)
{
    pl_trace_t *trace      = must_open_file(SLICE, NULL);
    pl_trace_stats_t stats = {0};
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_trace_stats(trace, 0, &log, &stats), PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(heard.error, "--page-size 0"));
    pl_trace_close(trace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_stats");
    TCase *tcase = tcase_create("trace_stats");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, by_hand);
    tcase_add_test(tcase, name_spaces_share_nothing);
    tcase_add_test(tcase, the_shipped_slice);
    tcase_add_loop_test(tcase, pages_of_the_shipped_slice, 0,
                        (int)(sizeof(PAGES) / sizeof(*PAGES)));
    tcase_add_test(tcase, the_shipped_tokens);
    tcase_add_test(tcase, ceilings_agree_with_plain_counting);
    tcase_add_test(tcase, a_page_has_tokens);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
