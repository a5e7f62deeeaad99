/* clock/cost.h: the fixed table is what it was, parts add up, laws of each. */
#include "clock/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/check_main.h"

/* The fixed table by its own words: virtual time of every recorded run rests on
 * them. */
static int64_t fixed_chunk(int n_ranks, int64_t n_before, int64_t n_tokens)
{
    int64_t context = n_before + n_tokens / 2;

    return 2000000 + (n_tokens + n_ranks - 1) / n_ranks *
                         (250000 + 400000 * context / 1024 / 1000);
}

static int64_t fixed_decode(int64_t n, int64_t context)
{
    return n == 0 ? 0
                  : 17000000 + n * 150000 + 500000 * (context / 1024) / 1000;
}

START_TEST(the_fixed_table_stays)
{
    pl_costs_t costs = pl_costs_builtin();
    pl_rng_t rng     = pl_rng_seed(7);

    for (int i = 0; i < 20000; i++) {
        int ranks      = 1 + (int)pl_rng_below(&rng, 127);
        int32_t before = (int32_t)pl_rng_below(&rng, 1 << 21);
        int32_t n      = 1 + (int32_t)pl_rng_below(&rng, 1 << 15);
        int32_t runs   = (int32_t)pl_rng_below(&rng, 300);
        int64_t all    = (int64_t)pl_rng_below(&rng, 1 << 20) * runs;

        ck_assert_int_eq(pl_cost_chunk_ns(&costs, ranks, before, n, NULL),
                         fixed_chunk(ranks, before, n));
        ck_assert_int_eq(pl_cost_decode_ns(&costs, runs, all, NULL),
                         fixed_decode(runs, all));
    }
    ck_assert_int_eq(pl_cost_link_ns(&costs, PL_LINK_H2D, 5500000), 120000);
    ck_assert(!costs.pd_shares);
    ck_assert_int_eq(pl_cost_take_in_ns(&costs, 1000), 0);
}
END_TEST

/* By pages: the busiest of ranks has whole ones, but for the last. */
START_TEST(pages_are_shared_out_whole)
{
    pl_costs_t costs = {.page_tokens = 64};

    costs.prefill[PL_COST_PROJECT].row_ps = 1000;
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 0, 64, NULL), 64);
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 0, 10, NULL), 10);
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 0, 65, NULL), 64);
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 0, 192, NULL), 128);
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 3, 0, 192, NULL), 64);
    costs.page_tokens = 0;
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 0, 192, NULL), 96);
}
END_TEST

START_TEST(a_transfer_is_taken_in)
{
    pl_costs_t costs = {.take_in_ns = 5, .take_in_ps = 2500};

    ck_assert_int_eq(pl_cost_take_in_ns(&costs, 100), 255);
}
END_TEST

/* One part with each kind of coefficient, others with one. */
static pl_costs_t some_costs(void)
{
    pl_costs_t costs = {
        .topk = 100, .n_experts = 16, .row_experts = 2, .prefill_ep = 1};

    costs.prefill[PL_COST_LAUNCH] = (pl_cost_rate_t){.step_ns = 1000};
    costs.prefill[PL_COST_PROJECT] =
        (pl_cost_rate_t){.step_ns = 10, .floor_ns = 500, .row_ps = 100000};
    costs.prefill[PL_COST_INDEX]  = (pl_cost_rate_t){.context_ps = 1024000000};
    costs.prefill[PL_COST_TOPK]   = (pl_cost_rate_t){.step_ns = 5};
    costs.prefill[PL_COST_ATTEND] = (pl_cost_rate_t){.key_ps = 1024000000};
    costs.prefill[PL_COST_EXPERT] = (pl_cost_rate_t){.floor_ns = 16000};
    costs.prefill[PL_COST_MATERIALIZE] =
        (pl_cost_rate_t){.view_ps = 10240000000};
    return costs;
}

START_TEST(parts_are_what_they_say)
{
    pl_costs_t costs = some_costs();
    int64_t parts[PL_COST_PARTS];
    int64_t all = 0;

    /* 40 rows on the busier of two ranks, all but 40 of 200 + 79 behind 100 */
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 200, 80, parts),
                     pl_cost_chunk_ns(&costs, 2, 200, 80, NULL));
    ck_assert_int_eq(parts[PL_COST_LAUNCH], 1000);
    ck_assert_int_eq(parts[PL_COST_PROJECT], 10 + 40 * 100);
    ck_assert_int_eq(parts[PL_COST_INDEX], 40 * 240 * 1000);
    ck_assert_int_eq(parts[PL_COST_TOPK], 5);
    ck_assert_int_eq(parts[PL_COST_ATTEND], 40 * 100 * 1000);
    ck_assert_int_eq(parts[PL_COST_MATERIALIZE], 280 * 10000);
    for (int i = 0; i < PL_COST_PARTS; i++) {
        all += parts[i];
    }
    ck_assert_int_eq(pl_cost_chunk_ns(&costs, 2, 200, 80, NULL), all);

    /* few rows: the weights are read all the same */
    (void)pl_cost_chunk_ns(&costs, 2, 200, 2, parts);
    ck_assert_int_eq(parts[PL_COST_PROJECT], 10 + 500);
    /* a prompt no longer than top-k takes needs no scores */
    (void)pl_cost_chunk_ns(&costs, 2, 20, 80, parts);
    ck_assert_int_eq(parts[PL_COST_INDEX] + parts[PL_COST_TOPK], 0);
    (void)pl_cost_chunk_ns(&costs, 2, 20, 81, parts);
    ck_assert_int_gt(parts[PL_COST_INDEX], 0);
}
END_TEST

/* The mean of what rows attend to, row by row. */
START_TEST(rows_attend_to_what_there_is)
{
    pl_costs_t costs = {.topk = 64};
    int64_t parts[PL_COST_PARTS];

    costs.prefill[PL_COST_ATTEND].key_ps = INT64_C(1024000000);
    for (int32_t before = 0; before < 100; before += 7) {
        for (int32_t n = 1; n < 150; n += 3) {
            int64_t sum = 0;

            for (int32_t i = 0; i < n; i++) {
                sum += before + i < 64 ? before + i : 64;
            }
            (void)pl_cost_chunk_ns(&costs, 1, before, n, parts);
            ck_assert_int_eq(parts[PL_COST_ATTEND], sum / n * n * 1000);
        }
    }
}
END_TEST

/* 1 - (1 - take/n)^tries, beside doubles. */
START_TEST(experts_are_taken_at_random)
{
    static const int64_t N[] = {1, 2, 7, 256};

    for (size_t i = 0; i < sizeof(N) / sizeof(*N); i++) {
        for (int64_t take = 0; take <= N[i]; take += 1 + N[i] / 8) {
            double rest  = 1;
            int64_t last = 0;

            for (int64_t tries = 0; tries < 200; tries++) {
                int64_t taken = pl_cost_taken(N[i], take, tries);

                ck_assert_double_eq_tol((double)taken / 4294967296.0, 1 - rest,
                                        1e-6);
                ck_assert_int_ge(taken, last);
                last = taken;
                rest *= 1 - (double)take / (double)N[i];
            }
        }
    }
}
END_TEST

/* The rank with most: 1.424 deviations above the mean of eight ranks, never
 * less than the mean nor more than all. */
START_TEST(one_rank_has_most)
{
    for (int64_t tries = 0; tries < 200; tries++) {
        double mean  = 1 - pow(1 - 8 / 256.0, (double)tries);
        int64_t last = pl_cost_taken(256, 8, tries);

        ck_assert_int_eq(pl_cost_most_taken(256, 8, tries, 1), last);
        ck_assert_double_eq_tol(
            (double)pl_cost_most_taken(256, 8, tries, 8) / 4294967296.0,
            fmin(1, mean + 1.424 * sqrt(mean * (1 - mean) / 32)), 1e-5);
        for (int64_t ranks = 2; ranks <= 256; ranks *= 2) {
            int64_t most = pl_cost_most_taken(256, 8, tries, ranks);

            ck_assert_int_ge(most, last);
            ck_assert_int_le(most, INT64_C(1) << 32);
            last = most;
        }
        /* between two powers of two as the lower */
        ck_assert_int_ge(pl_cost_most_taken(256, 8, tries, 72),
                         pl_cost_most_taken(256, 8, tries, 64));
    }
}
END_TEST

/* Few rows have a way of their own, whose time is never more. */
START_TEST(few_rows_take_the_quicker_way)
{
    pl_costs_t costs = some_costs();
    int64_t parts[PL_COST_PARTS];

    memset(costs.decode, 0, sizeof(costs.decode));
    costs.decode[PL_COST_REDUCE] = (pl_cost_rate_t){
        .step_ns = 1000, .row_ps = 10000, .quick_ns = 400, .quick_ps = 70000};
    for (int32_t n = 1; n < 50; n++) {
        int64_t quick = 400 + 70 * n;
        int64_t usual = 1000 + 10 * n;

        ck_assert_int_eq(pl_cost_decode_ns(&costs, n, n, parts),
                         quick < usual ? quick : usual);
    }
}
END_TEST

START_TEST(experts_that_no_row_chose_are_not_read)
{
    pl_costs_t costs = some_costs();
    int64_t parts[PL_COST_PARTS];
    int64_t last = 0;

    for (int32_t n = 1; n < 100; n++) {
        (void)pl_cost_chunk_ns(&costs, 1, 0, n, parts);
        ck_assert_int_ge(parts[PL_COST_EXPERT], last);
        last = parts[PL_COST_EXPERT];
        ck_assert(n > 1 || (last >= 1999 && last <= 2000)); /* 2 of 16 */
    }
    ck_assert_int_ge(last, 15990);
    ck_assert_int_le(last, 16000);
    /* with rows of other ranks that share them, on the rank with most */
    costs.prefill_ep = 4;
    (void)pl_cost_chunk_ns(&costs, 1, 0, 1, parts);
    ck_assert_int_eq(parts[PL_COST_EXPERT],
                     16000 * pl_cost_most_taken(16, 2, 4, 4) >> 32);
    costs.prefill_ep = 1;
    /* of a memory so slow that all of them take 16 s */
    costs.prefill[PL_COST_EXPERT].floor_ns = INT64_C(16000000000);
    (void)pl_cost_chunk_ns(&costs, 1, 0, 1, parts);
    ck_assert_int_eq(parts[PL_COST_EXPERT], INT64_C(2000000000));
    (void)pl_cost_chunk_ns(&costs, 1, 0, 99, parts);
    ck_assert_int_ge(parts[PL_COST_EXPERT], INT64_C(15990000000));
    ck_assert_int_le(parts[PL_COST_EXPERT], INT64_C(16000000000));
}
END_TEST

/* Ahead, all but one layer's share is hidden, up to what is computed. */
START_TEST(views_made_ahead_hide_behind_computing)
{
    pl_costs_t costs = some_costs();
    int64_t first[PL_COST_PARTS], ahead[PL_COST_PARTS];
    int64_t all     = pl_cost_chunk_ns(&costs, 2, 200, 80, first);
    int64_t compute = all - first[PL_COST_MATERIALIZE];

    costs.ahead_layers = 10;
    (void)pl_cost_chunk_ns(&costs, 2, 200, 80, ahead);
    ck_assert_int_eq(ahead[PL_COST_MATERIALIZE],
                     first[PL_COST_MATERIALIZE] / 10);
    costs.prefill[PL_COST_MATERIALIZE].view_ps *= 100;
    all = pl_cost_chunk_ns(&costs, 2, 200, 80, ahead);
    ck_assert_int_eq(all, first[PL_COST_MATERIALIZE] * 100);
    ck_assert_int_eq(ahead[PL_COST_MATERIALIZE], all - compute);
}
END_TEST

START_TEST(a_prompt_is_its_chunks)
{
    pl_costs_t costs = pl_costs_builtin();

    ck_assert_int_eq(pl_cost_prompt_ns(&costs, 4, 100, 50, 50), 0);
    ck_assert_int_eq(pl_cost_prompt_ns(&costs, 4, 100, 64, 300),
                     pl_cost_chunk_ns(&costs, 4, 64, 100, NULL) +
                         pl_cost_chunk_ns(&costs, 4, 164, 100, NULL) +
                         pl_cost_chunk_ns(&costs, 4, 264, 36, NULL));
}
END_TEST

/* Rates of slow hardware, with as many tokens as a prompt can have: of all rows
 * of one, and of a row that looks back on all. */
START_TEST(slow_rates_stay_within_64_bits)
{
    enum { TOKENS = 1 << 20 };
    const int64_t rate        = INT64_C(60000000000000);
    const pl_cost_rate_t of[] = {{.row_ps = rate},
                                 {.context_ps = rate},
                                 {.key_ps = rate},
                                 {.view_ps = rate},
                                 {.before_ps = rate}};

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        pl_costs_t costs = {.prefill = {of[i]}};
        bool is_row      = i == 0;
        int64_t ns       = is_row ? pl_cost_chunk_ns(&costs, 1, 0, TOKENS, NULL)
                                  : pl_cost_chunk_ns(&costs, 1, TOKENS - 1, 1, NULL);
        double want      = 1e-3 * (double)rate * TOKENS / (is_row ? 1 : 1024);

        ck_assert_double_ge((double)ns, 0.9999 * want);
        ck_assert_double_le((double)ns, 1.0001 * want);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("cost");

    tcase_add_test(tcase, the_fixed_table_stays);
    tcase_add_test(tcase, pages_are_shared_out_whole);
    tcase_add_test(tcase, a_transfer_is_taken_in);
    tcase_add_test(tcase, parts_are_what_they_say);
    tcase_add_test(tcase, rows_attend_to_what_there_is);
    tcase_add_test(tcase, experts_are_taken_at_random);
    tcase_add_test(tcase, one_rank_has_most);
    tcase_add_test(tcase, few_rows_take_the_quicker_way);
    tcase_add_test(tcase, experts_that_no_row_chose_are_not_read);
    tcase_add_test(tcase, views_made_ahead_hide_behind_computing);
    tcase_add_test(tcase, a_prompt_is_its_chunks);
    tcase_add_test(tcase, slow_rates_stay_within_64_bits);
    return tcase;
}

PL_CHECK_MAIN("clock", all())
