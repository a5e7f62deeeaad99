/* The whole Mooncake conversation trace, and others of the public ones, where
 * they are at hand: the numbers published or measured by others. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "trace/stats.h"
#include "trace_support.h"

static char conversation[4096];
static char synthetic[4096];

static void set_paths(void)
{
    const char *folder = getenv("PAGELANE_SHARED");

    folder = folder != NULL ? folder : PAGELANE_SHARED_DEFAULT;
    (void)snprintf(conversation, sizeof(conversation),
                   "%s/traces/mooncake/conversation_trace.jsonl", folder);
    (void)snprintf(synthetic, sizeof(synthetic),
                   "%s/traces/mooncake/synthetic_trace.jsonl", folder);
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pl_trace_stats_t stats_of(const char *path, int32_t page_size)
{
    double start      = seconds();
    pl_trace_t *trace = must_open_file(path, NULL);
    double opened     = seconds();
    pl_trace_stats_t stats;

    ck_assert_int_eq(pl_trace_stats(trace, page_size, NULL, &stats), PL_OK);
    printf("%s: opened in %.3f s, counted by pages of %d in %.3f s\n", path,
           opened - start, (int)page_size, seconds() - opened);
    pl_trace_close(trace);
    return stats;
}

START_TEST(conversation_ceilings)
{
    pl_trace_stats_t stats = stats_of(conversation, 64);

    ck_assert_int_eq(stats.n_requests, 12031);
    ck_assert_int_eq(stats.duration_ns, 3536999000000);
    ck_assert_int_eq(stats.n_arrivals, 1180);
    ck_assert_int_eq(stats.max_at_once, 28);
    ck_assert_int_eq(stats.input.total, 144793823);
    ck_assert_int_eq(stats.input.min, 891);
    ck_assert_int_eq(stats.input.p50, 6909);
    ck_assert_int_eq(stats.input.p90, 27367);
    ck_assert_int_eq(stats.input.p99, 85401);
    ck_assert_int_eq(stats.input.max, 126195);
    ck_assert_int_eq(stats.output.p50, 350);
    ck_assert_int_eq(stats.output.p90, 597);
    ck_assert_int_eq(stats.output.p99, 1120);
    ck_assert_int_eq(stats.output.max, 2000);
    ck_assert_int_eq(stats.n_blocks, 288500);
    ck_assert_int_eq(stats.n_full_blocks, 276491);
    ck_assert_int_eq(stats.n_unique_blocks, 182790);
    ck_assert_int_eq(stats.n_first_blocks, 1);
    ck_assert_int_eq(stats.hit_blocks, 105710);
    ck_assert_int_eq(stats.hit_full_blocks, 105592);
    ck_assert_int_eq(stats.hit_tokens, 54098411);
    ck_assert_int_eq(stats.n_full_hits, 118);
    ck_assert_double_eq_tol(stats.block_ratio, 0.3664, 5e-5);
    ck_assert_double_eq_tol(stats.token_ratio, 0.3736, 5e-5);
    ck_assert_double_eq_tol(stats.full_block_ratio, 0.382, 5e-4);
    ck_assert_double_eq_tol(stats.request_ratio, 0.4094, 5e-5);
    ck_assert_double_eq_tol((double)stats.n_once_blocks /
                                (double)stats.n_unique_blocks,
                            0.758, 5e-4);
}
END_TEST

static const struct {
    int32_t page_size;
    int64_t hit_tokens;
    double per_request;
} PAGES[] = {
    {16, 54097440, 0.4093},
    {64, 54093952, 0.4092},
    {128, 54089728, 0.4090},
    {512, 54063104, 0.4078},
};

/* What an engine with unlimited tiers hits, by page size. */
START_TEST(conversation_pages)
{
    pl_trace_stats_t stats = stats_of(conversation, PAGES[_i].page_size);

    ck_assert_int_eq(stats.page_hit_blocks, 105592);
    ck_assert_int_eq(stats.page_hit_tokens, PAGES[_i].hit_tokens);
    ck_assert_double_eq_tol(stats.page_request_ratio, PAGES[_i].per_request,
                            5e-5);
}
END_TEST

/* The slice in datasets/ is what offset and limit take of the whole. */
START_TEST(slice_is_of_the_conversation)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *whole;
    pl_trace_t *slice = must_open_file(
        PAGELANE_DATASETS "/mooncake_conversation_slice.jsonl", NULL);

    params.offset = 2660;
    params.limit  = 200;
    whole         = must_open_file(conversation, &params);
    ck_assert_int_eq(pl_trace_count(whole), pl_trace_count(slice));
    for (int32_t i = 0; i < pl_trace_count(whole); i++) {
        const pl_request_t *a = pl_trace_request(whole, i);
        const pl_request_t *b = pl_trace_request(slice, i);
        pl_page_key_t keys[2];

        ck_assert_int_eq(a->input_tokens, b->input_tokens);
        ck_assert_int_eq(a->output_tokens, b->output_tokens);
        ck_assert_int_eq(a->line, b->line + 2660);
        for (int32_t p = 0; p < a->input_tokens / 512; p++) {
            pl_trace_page_keys(whole, i, 512, p, 1, &keys[0]);
            pl_trace_page_keys(slice, i, 512, p, 1, &keys[1]);
            ck_assert_uint_eq(keys[0].lo, keys[1].lo);
            ck_assert_uint_eq(keys[0].hi, keys[1].hi);
        }
    }
    pl_trace_close(whole);
    pl_trace_close(slice);
}
END_TEST

START_TEST(synthetic_ceilings)
{
    pl_trace_stats_t stats;

    if (access(synthetic, R_OK) != 0) {
        printf("skipped: synthetic_ceilings: no %s\n", synthetic);
        return;
    }
    stats = stats_of(synthetic, 64);
    ck_assert_int_eq(stats.n_requests, 3993);
    ck_assert_int_eq(stats.n_blocks, 121877);
    ck_assert_int_eq(stats.n_unique_blocks, 43924);
    ck_assert_int_eq(stats.n_first_blocks, 2211);
    ck_assert_int_eq(stats.n_full_hits, 213);
    ck_assert_double_eq_tol(stats.block_ratio, 0.6396, 5e-5);
    ck_assert_double_eq_tol(stats.token_ratio, 0.6512, 5e-5);
    ck_assert_double_eq_tol(stats.full_block_ratio, 0.661, 5e-4);
    ck_assert_double_eq_tol(stats.request_ratio, 0.4315, 5e-5);
}
END_TEST

/* Where a file of the shared folder is; false if it is not there. */
static bool find_shared(const char *name, char *path, size_t n)
{
    const char *folder = getenv("PAGELANE_SHARED");

    (void)snprintf(path, n, "%s/traces/%s",
                   folder != NULL ? folder : PAGELANE_SHARED_DEFAULT, name);
    if (access(path, R_OK) != 0) {
        printf("skipped: no %s\n", path);
        return false;
    }
    return true;
}

/* Lengths as others have measured them. */
START_TEST(azure_lengths)
{
    char path[4096];
    pl_trace_stats_t stats;

    if (!find_shared("azure/AzureLLMInferenceTrace_code.csv", path,
                     sizeof(path))) {
        return;
    }
    stats = stats_of(path, 64);
    ck_assert(!stats.has_prefixes);
    ck_assert_int_eq(stats.n_requests, 8819);
    ck_assert_int_eq(stats.duration_ns / 100000000, 34359);
    ck_assert_double_eq_tol(stats.requests_per_s, 2.57, 5e-3);
    ck_assert_double_eq_tol(stats.input.mean, 2048, 0.5);
    ck_assert_int_eq(stats.input.p50, 1469);
    ck_assert_int_eq(stats.input.p99, 7436);
    ck_assert_int_eq(stats.input.max, 7437);
    ck_assert_double_eq_tol(stats.output.mean, 27.9, 0.05);
    ck_assert_int_eq(stats.output.p50, 13);
    ck_assert_int_eq(stats.output.p99, 252);
    ck_assert_int_eq(stats.output.max, 1899);
}
END_TEST

/* Eleven sessions of their own ids, one with lists beside itself: hits as a
 * count of sets in Python has them. */
START_TEST(agentic_hits)
{
    static const char *const NAMES[] = {"0021", "0129", "0222", "0274",
                                        "0297", "0372", "0471", "0504",
                                        "0526", "0543", "0694"};
    enum { N = sizeof(NAMES) / sizeof(NAMES[0]) };
    static char paths[N][4096];
    const char *more[N];
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace;
    pl_trace_stats_t stats;

    for (int i = 0; i < N; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "agentic/trace_%s.json", NAMES[i]);
        if (!find_shared(name, paths[i], sizeof(paths[i]))) {
            return;
        }
        more[i] = paths[i];
    }
    params.more   = more + 1;
    params.n_more = N - 1;
    trace         = must_open_file(paths[0], &params);
    ck_assert_int_eq(pl_trace_stats(trace, 64, NULL, &stats), PL_OK);
    ck_assert_int_eq(stats.n_requests, 238);
    ck_assert_int_eq(stats.n_waiting, 227);
    ck_assert_int_eq(stats.n_full_blocks, 214159);
    ck_assert_int_eq(stats.hit_blocks, 194575);
    pl_trace_close(trace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_shared");
    TCase *tcase = tcase_create("trace_shared");
    SRunner *runner;
    int n_failed;

    set_paths();
    if (access(conversation, R_OK) != 0) {
        printf("skipped: no %s; set PAGELANE_SHARED to a folder that has it "
               "(datasets/README.md says where to get it)\n",
               conversation);
        return PL_EXIT_SKIPPED;
    }
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, conversation_ceilings);
    tcase_add_loop_test(tcase, conversation_pages, 0,
                        (int)(sizeof(PAGES) / sizeof(*PAGES)));
    tcase_add_test(tcase, slice_is_of_the_conversation);
    tcase_add_test(tcase, synthetic_ceilings);
    tcase_add_test(tcase, azure_lengths);
    tcase_add_test(tcase, agentic_hits);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
