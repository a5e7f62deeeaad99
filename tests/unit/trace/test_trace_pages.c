/* Laws of tokens and page keys, on random tries and on tokens. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trace/internal.h"
#include "trace_support.h"

enum { N_SEEDS = 3, N_ROWS = 12, MAX_BLOCKS = 6 };

static const int32_t PAGE_SIZES[]  = {1, 16, 64, 100, 512, 1024};
static const int32_t BLOCK_SIZES[] = {32, 64, 512};

#define N_OF(array) ((int)(sizeof(array) / sizeof(*(array))))

/* Prompts of a tiny vocabulary, so that pages agree often. */
static char *random_tokens(uint64_t seed)
{
    pl_rng_t rng = pl_rng_seed(seed);
    char *text   = calloc(N_ROWS, 8192);
    size_t at    = 0;

    ck_assert_ptr_nonnull(text);
    for (int r = 0; r < N_ROWS; r++) {
        int n = 1 + (int)pl_rng_below(&rng, 1500);

        at += (size_t)sprintf(text + at, "{\"prompt_token_ids\": [%d", r % 3);
        for (int k = 1; k < n; k++) {
            bool rare = pl_rng_below(&rng, 40) == 0;

            at += (size_t)sprintf(text + at, ",%d", rare ? 1 : 0);
        }
        at += (size_t)sprintf(text + at, "]}\n");
    }
    return text;
}

static int32_t *all_tokens(const pl_trace_t *trace, int32_t i)
{
    int32_t n       = pl_trace_request(trace, i)->input_tokens;
    int32_t *tokens = malloc((size_t)n * sizeof(*tokens));

    ck_assert_ptr_nonnull(tokens);
    pl_trace_tokens(trace, i, 0, n, tokens);
    return tokens;
}

/* Any part of a prompt is that part of the whole. */
static void check_random_access(const pl_trace_t *trace, uint64_t seed)
{
    pl_rng_t rng = pl_rng_seed(seed);

    for (int32_t i = 0; i < pl_trace_count(trace); i++) {
        int32_t n      = pl_trace_request(trace, i)->input_tokens;
        int32_t *whole = all_tokens(trace, i);
        int32_t *part  = malloc((size_t)n * sizeof(*part));

        ck_assert_ptr_nonnull(part);
        for (int k = 0; k < 50; k++) {
            int32_t first = (int32_t)pl_rng_below(&rng, (uint64_t)n);
            int32_t size =
                (int32_t)pl_rng_below(&rng, (uint64_t)(n - first) + 1);

            pl_trace_tokens(trace, i, first, size, part);
            ck_assert_msg(
                memcmp(part, whole + first, (size_t)size * sizeof(*part)) == 0,
                "seed %llu", (unsigned long long)seed);
        }
        free(part);
        free(whole);
    }
}

/* Keys of page_size tokens are equal exactly when the tokens are, wherever in
 * whichever prompts; and a key does not depend on which others are asked for.
 */
static void check_keys(const pl_trace_t *trace, int32_t page_size,
                       uint64_t seed)
{
    int32_t count       = pl_trace_count(trace);
    pl_page_key_t *keys = calloc(65536, sizeof(*keys));
    int32_t *tokens     = calloc(65536, sizeof(*tokens));
    size_t size         = (size_t)page_size;
    size_t n            = 0;

    ck_assert(keys != NULL && tokens != NULL);
    for (int32_t i = 0; i < count; i++) {
        int32_t whole = pl_trace_request(trace, i)->input_tokens / page_size;
        int32_t taken = whole < 200 ? whole : 200;
        pl_page_key_t last;

        ck_assert_uint_le((n + (size_t)taken) * size, 65536);
        pl_trace_page_keys(trace, i, page_size, 0, taken, keys + n);
        pl_trace_tokens(trace, i, 0, taken * page_size, tokens + n * size);
        if (taken > 0) {
            pl_trace_page_keys(trace, i, page_size, taken - 1, 1, &last);
            ck_assert_uint_eq(last.lo, keys[n + (size_t)taken - 1].lo);
            ck_assert_uint_eq(last.hi, keys[n + (size_t)taken - 1].hi);
        }
        n += (size_t)taken;
    }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < a; b++) {
            bool same_key =
                (keys[a].lo == keys[b].lo) && (keys[a].hi == keys[b].hi);
            bool equal_tokens = memcmp(tokens + a * size, tokens + b * size,
                                       size * sizeof(*tokens)) == 0;

            if (same_key != equal_tokens) { /* an assertion is slow */
                ck_abort_msg("pages %zu and %zu of %d tokens, seed %llu", a, b,
                             (int)page_size, (unsigned long long)seed);
            }
        }
    }
    free(tokens);
    free(keys);
}

/* How many leading ids requests i and j share. */
static int32_t same_ids(const pl_trace_t *trace, int32_t i, int32_t j)
{
    const pl_trace_row_t *a = pl_trace_row(trace, i);
    const pl_trace_row_t *b = pl_trace_row(trace, j);
    const uint64_t *ids     = trace->rows.ids.items;
    size_t n                = 0;

    while ((n < a->n) && (n < b->n) &&
           (ids[a->first + n] == ids[b->first + n])) {
        n++;
    }
    return (int32_t)n;
}

static int32_t same_tokens(const pl_trace_t *trace, int32_t i, int32_t j,
                           int32_t n)
{
    int32_t *a     = all_tokens(trace, i);
    int32_t *b     = all_tokens(trace, j);
    int32_t n_same = 0;

    while ((n_same < n) && (a[n_same] == b[n_same])) {
        n_same++;
    }
    free(a);
    free(b);
    return n_same;
}

/* Two prompts agree in tokens and keys exactly as far as their ids do. */
static void check_prefix(const pl_trace_t *trace, int32_t i, int32_t j)
{
    int32_t n_i    = pl_trace_request(trace, i)->input_tokens;
    int32_t n_j    = pl_trace_request(trace, j)->input_tokens;
    int32_t n      = n_i < n_j ? n_i : n_j;
    int32_t by_ids = same_ids(trace, i, j) * pl_trace_block_tokens(trace);
    int32_t n_same = same_tokens(trace, i, j, n);

    ck_assert_int_eq(n_same, by_ids < n ? by_ids : n);
    for (int k = 0; k < N_OF(PAGE_SIZES); k++) {
        int32_t size = PAGE_SIZES[k];

        for (int32_t p = 0; p < n / size; p++) {
            pl_page_key_t a;
            pl_page_key_t b;

            pl_trace_page_keys(trace, i, size, p, 1, &a);
            pl_trace_page_keys(trace, j, size, p, 1, &b);
            if (((a.lo == b.lo) && (a.hi == b.hi)) !=
                ((p + 1) * size <= n_same)) {
                ck_abort_msg("page %d of %d tokens, requests %d and %d", (int)p,
                             (int)size, (int)i, (int)j);
            }
        }
    }
}

/* The vocabulary is large: no tokens are equal by chance (2^-31 a pair). */
START_TEST(pages_of_ids)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        pl_trace_params_t params = pl_trace_params_default();
        char *text               = random_trie(seed, N_ROWS, MAX_BLOCKS);
        pl_trace_t *trace;

        params.vocab_size   = INT32_MAX;
        params.block_tokens = BLOCK_SIZES[_i];
        params.seed         = seed;
        trace               = must_open_text(text, &params);
        check_random_access(trace, seed);
        for (int k = 0; k < N_OF(PAGE_SIZES); k++) {
            check_keys(trace, PAGE_SIZES[k], seed);
        }
        for (int32_t i = 0; i < N_ROWS; i++) {
            for (int32_t j = 0; j < i; j++) {
                check_prefix(trace, i, j);
            }
        }
        pl_trace_close(trace);
        free(text);
    }
}
END_TEST

START_TEST(pages_of_tokens)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        char *text        = random_tokens(seed);
        pl_trace_t *trace = must_open_text(text, NULL);

        check_random_access(trace, seed);
        for (int k = 0; k < N_OF(PAGE_SIZES); k++) {
            check_keys(trace, PAGE_SIZES[k], seed);
        }
        pl_trace_close(trace);
        free(text);
    }
}
END_TEST

/* A pass repeats tokens, keys and lengths. */
START_TEST(passes_repeat)
{
    pl_trace_params_t params = pl_trace_params_default();
    char *text               = random_trie(9, N_ROWS, MAX_BLOCKS);
    pl_trace_t *trace;

    params.passes = 3;
    params.paced  = true;
    trace         = must_open_text(text, &params);
    ck_assert_int_eq(pl_trace_count(trace), 3 * N_ROWS);
    for (int32_t i = N_ROWS; i < 3 * N_ROWS; i++) {
        const pl_request_t *first = pl_trace_request(trace, i % N_ROWS);
        const pl_request_t *again = pl_trace_request(trace, i);
        int32_t *a                = all_tokens(trace, i % N_ROWS);
        int32_t *b                = all_tokens(trace, i);

        ck_assert_int_eq(again->input_tokens, first->input_tokens);
        ck_assert_int_eq(again->output_tokens, first->output_tokens);
        ck_assert_int_eq(again->line, first->line);
        ck_assert_int_eq(again->arrival_ns,
                         first->arrival_ns + (i / N_ROWS) * N_ROWS * 1000000LL);
        ck_assert_int_eq(memcmp(a, b, (size_t)first->input_tokens * sizeof(*a)),
                         0);
        free(a);
        free(b);
    }
    pl_trace_close(trace);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_pages");
    TCase *tcase = tcase_create("trace_pages");
    SRunner *runner;
    int n_failed;

    printf("seeds 1 to %d\n", N_SEEDS);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, pages_of_ids, 0, N_OF(BLOCK_SIZES));
    tcase_add_test(tcase, pages_of_tokens);
    tcase_add_test(tcase, passes_repeat);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
