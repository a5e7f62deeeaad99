/* sim/bench.h, sim/validate.h, and the fit that sim/calibrate.h reads. */
#include "sim/validate.h"

#include <math.h>
#include <string.h>

#include "support/check_main.h"

#define MS INT64_C(1000000)

static pl_bench_t BENCH;

static pl_status_t parse(const char *text)
{
    return pl_bench_parse("text", text, strlen(text), NULL, &BENCH);
}

static void check_request(size_t i, int64_t number, int64_t start_ms,
                          int64_t ttft_ms, int64_t e2e_ms)
{
    const pl_bench_request_t *request = &BENCH.requests.items[i];

    ck_assert_int_eq(request->number, number);
    ck_assert_int_eq(request->start_ns, start_ms * MS);
    ck_assert_int_eq(request->ttft_ns, ttft_ms * MS);
    ck_assert_int_eq(request->e2e_ns, e2e_ms * MS);
}

/* ---- formats ---- */

/* As they began, not as they stand; the failed one stays, without a gap. */
START_TEST(vllm_says_when_requests_began)
{
    ck_assert_int_eq(
        parse("{\"model_id\": \"m\", \"input_lens\": [10, 20, 30],"
              "\"output_lens\": [3, 0, 2], \"ttfts\": [0.1, 0.0, 0.2],"
              "\"itls\": [[0.05, 0.07], [9.0], [0.1]],"
              "\"start_times\": [101.5, 100.25, 100.0],"
              "\"errors\": [\"\", \"refused\", \"\"]}"),
        PL_OK);
    ck_assert_str_eq(BENCH.format, "vllm");
    ck_assert(BENCH.is_timed);
    ck_assert_uint_eq(BENCH.requests.n, 3);
    check_request(0, 3, 0, 200, 300);
    check_request(1, 2, 250, 0, 0);
    check_request(2, 1, 1500, 100, 220);
    ck_assert(BENCH.requests.items[1].failed);
    ck_assert_uint_eq(BENCH.gaps.n, 3);
    ck_assert_int_eq(pl_bench_tpot_ns(&BENCH.requests.items[2]), 60 * MS);
    pl_bench_free(&BENCH);
}
END_TEST

/* Two at a time: the third begins when the first of them ends. */
START_TEST(sglang_starts_are_reckoned_by_concurrency)
{
    ck_assert_int_eq(
        parse("{\"request_rate\": Infinity, \"max_concurrency\": 2,"
              "\"input_lens\": [10, 20, 30, 40],"
              "\"output_lens\": [2, 2, 2, 1],"
              "\"ttfts\": [0.1, 0.2, 0.3, 0.4],"
              "\"itls\": [[0.4], [0.1], [0.1], []]}"),
        PL_OK);
    ck_assert_str_eq(BENCH.format, "sglang");
    ck_assert(!BENCH.is_timed);
    check_request(0, 1, 0, 100, 500);
    check_request(1, 2, 0, 200, 300);
    check_request(2, 3, 300, 300, 400);
    check_request(3, 4, 500, 400, 400);
    ck_assert_int_eq(pl_bench_tpot_ns(&BENCH.requests.items[3]), 0);
    pl_bench_free(&BENCH);
}
END_TEST

START_TEST(sglang_starts_are_reckoned_by_rate)
{
    ck_assert_int_eq(parse("{\"request_rate\": 4.0, \"max_concurrency\": null,"
                           "\"input_lens\": [1, 1, 1],"
                           "\"output_lens\": [1, 1, 1],"
                           "\"ttfts\": [3, 3, 3], \"itls\": [[], [], []]}"),
                     PL_OK);
    check_request(1, 2, 250, 3000, 3000);
    check_request(2, 3, 500, 3000, 3000);
    pl_bench_free(&BENCH);
}
END_TEST

/* Without streaming, or all of it in one read: the time is that of the end.  An
 * answer of one token is a first token. */
START_TEST(answers_in_one_piece_have_no_first_token)
{
    ck_assert_int_eq(
        parse("{\"model_id\": \"m\", \"input_lens\": [10, 20, 30],"
              "\"output_lens\": [3, 1, 2], \"ttfts\": [0.1, 0.2, 0.3],"
              "\"itls\": [[], [], [0.0]], \"start_times\": [1, 2, 3]}"),
        PL_OK);
    check_request(0, 1, 0, 0, 100);
    check_request(1, 2, 1000, 200, 200);
    check_request(2, 3, 2000, 0, 300);
    ck_assert_int_eq(pl_bench_tpot_ns(&BENCH.requests.items[0]), 0);
    pl_bench_free(&BENCH);
}
END_TEST

#define REPLAY(more)                                                           \
    "{" more ", \"input_lens\": [10, 20], \"output_lens\": [1, 1],"            \
    "\"ttfts\": [0.1, 0.2], \"itls\": [[], []]}"

START_TEST(a_replay_says_no_times)
{
    static const struct {
        const char *text;
        bool timed, replayed;
    } RUNS[] = {{REPLAY("\"request_rate\": \"trace\""), false, true},
                {REPLAY("\"dataset_name\": \"mooncake\""), false, true},
                {REPLAY("\"dataset_name\": \"random\""), false, false},
                {REPLAY("\"request_rate\": \"inf\""), false, false},
                {REPLAY("\"request_rate\": \"trace\", \"start_times\": [3, 4]"),
                 true, false}};

    for (size_t i = 0; i < sizeof(RUNS) / sizeof(RUNS[0]); i++) {
        ck_assert_int_eq(parse(RUNS[i].text), PL_OK);
        ck_assert(BENCH.is_timed == RUNS[i].timed);
        ck_assert(BENCH.is_replayed == RUNS[i].replayed);
        check_request(1, 2, RUNS[i].timed ? 1000 : 0, 200, 200);
        pl_bench_free(&BENCH);
    }
}
END_TEST

/* It keeps its place among the others; an empty answer is a failure too. */
START_TEST(what_failed_may_not_know_its_prompt)
{
    ck_assert_int_eq(
        parse("{\"metadata\": {\"request_start_ns\": 5}, \"metrics\": {},"
              "\"error\": {\"code\": 500}}\n"
              "{\"metadata\": {\"request_start_ns\": 6}, \"metrics\": {"
              "\"input_sequence_length\": {\"value\": 3},"
              "\"output_token_count\": {\"value\": 2},"
              "\"request_latency\": {\"value\": 4, \"unit\": \"ms\"}}}\n"
              "{\"metadata\": {\"request_start_ns\": 7}, \"metrics\": {"
              "\"input_sequence_length\": {\"value\": 9},"
              "\"output_sequence_length\": {\"value\": 0}}}\n"),
        PL_OK);
    ck_assert_uint_eq(BENCH.requests.n, 3);
    ck_assert(BENCH.requests.items[0].failed);
    ck_assert_int_eq(BENCH.requests.items[0].input_tokens, 0);
    ck_assert(!BENCH.requests.items[1].failed);
    ck_assert_int_eq(BENCH.requests.items[1].output_tokens, 2);
    ck_assert_int_eq(BENCH.requests.items[1].e2e_ns, 4 * MS);
    ck_assert(BENCH.requests.items[2].failed);
    pl_bench_free(&BENCH);
}
END_TEST

/* Units as they are told, nanoseconds since 1970 to the nanosecond, warm-up
 * left out. */
START_TEST(aiperf_has_a_record_a_request)
{
    static const char RECORDS[] =
        "{\"metadata\": {\"request_start_ns\": 1, \"benchmark_phase\": "
        "\"warmup\"}, \"metrics\": {}, \"error\": null}\n"
        "{\"metadata\": {\"request_start_ns\": 1759813207000000003},"
        "\"metrics\": {\"input_sequence_length\": {\"value\": 55, \"unit\": "
        "\"tokens\"}, \"output_sequence_length\": {\"value\": 3.0, \"unit\": "
        "\"tokens\"}, \"time_to_first_token\": {\"value\": 0.25, \"unit\": "
        "\"sec\"}, \"request_latency\": {\"value\": 300, \"unit\": \"ms\"},"
        "\"inter_chunk_latency\": {\"value\": [20, 30], \"unit\": \"ms\"}},"
        "\"error\": null}\n"
        "{\"metadata\": {\"request_start_ns\": 1759813207000000001},"
        "\"metrics\": {\"error_isl\": {\"value\": 7, \"unit\": \"tokens\"}},"
        "\"error\": {\"code\": 499}}\n";

    ck_assert_int_eq(parse(RECORDS), PL_OK);
    ck_assert_str_eq(BENCH.format, "aiperf");
    ck_assert_uint_eq(BENCH.requests.n, 2);
    ck_assert(BENCH.requests.items[0].failed);
    ck_assert_int_eq(BENCH.requests.items[0].input_tokens, 7);
    ck_assert_int_eq(BENCH.requests.items[1].start_ns, 2);
    ck_assert_int_eq(BENCH.requests.items[1].ttft_ns, 250 * MS);
    ck_assert_int_eq(pl_bench_tpot_ns(&BENCH.requests.items[1]), 25 * MS);
    ck_assert_uint_eq(BENCH.gaps.n, 2);
    pl_bench_free(&BENCH);
}
END_TEST

#define RECORD(start)                                                          \
    "{\"metadata\": {\"request_start_ns\": " start "}, \"metrics\": {"         \
    "\"input_sequence_length\": {\"value\": 3},"                               \
    "\"output_sequence_length\": {\"value\": 3}}}"

/* Sums of what is too long are not reckoned beyond their end. */
START_TEST(times_without_end_stay_within_bounds)
{
    ck_assert_int_eq(parse("{\"max_concurrency\": 1, \"input_lens\": [1, 1],"
                           "\"output_lens\": [4, 4], \"ttfts\": [1.9e9, 1],"
                           "\"itls\": [[1.9e9, 1.9e9, 1.9e9, 1.9e9, 1.9e9],"
                           "[1e300, NaN, -5]]}"),
                     PL_OK);
    ck_assert_int_eq(BENCH.requests.items[0].e2e_ns, 2000000000000000000);
    ck_assert_int_eq(BENCH.requests.items[1].start_ns, 2000000000000000000);
    ck_assert_int_eq(BENCH.requests.items[1].e2e_ns, 1000 * MS);
    pl_bench_free(&BENCH);
}
END_TEST

START_TEST(what_is_no_benchmark_is_refused)
{
    static const char *const TEXTS[] = {
        "",
        "nonsense",
        "[]",
        "{\"timestamp\": 1, \"hash_ids\": [1]}",
        "{\"mean_ttft_ms\": 12.0, \"completed\": 3}",
        "{\"input_lens\": [1], \"output_lens\": [1, 2], \"ttfts\": [1], "
        "\"itls\": [[]]}",
        "{\"input_lens\": [0], \"output_lens\": [1], \"ttfts\": [1], "
        "\"itls\": [[]]}",
        "{\"input_lens\": [1.5], \"output_lens\": [1], \"ttfts\": [1], "
        "\"itls\": [[]]}",
        "{\"input_lens\": [1], \"output_lens\": [0], \"ttfts\": [0], "
        "\"itls\": [[]]}",
        "{\"metadata\": {}, \"metrics\": {}}",
        "[{\"metadata\": {\"request_start_ns\": 1}, \"metrics\": "
        "{\"error_isl\": {\"value\": 3}}, \"error\": {}}]",
        "[" RECORD("1") ", " RECORD("9000000000000000000") "]",
        "{\"metadata\": {\"request_start_ns\": 1}, \"metrics\": {}}",
        "{\"input_lens\": [1], \"output_lens\": [1], \"ttfts\": [1], "
        "\"itls\": [[]]} {\"input_lens\": [1], \"output_lens\": [1], "
        "\"ttfts\": [1], \"itls\": [[]]}",
    };

    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        ck_assert_msg(parse(TEXTS[i]) == PL_ERR_INPUT, "text %zu", i);
    }
}
END_TEST

/* ---- numbers ---- */

static void set_ttft(pl_validate_pair_t *pair, int64_t number,
                     int64_t predicted, int64_t measured)
{
    *pair = (pl_validate_pair_t){.number = number};
    pair->predicted_ns[PL_VALIDATE_TTFT] = predicted;
    pair->measured_ns[PL_VALIDATE_TTFT]  = measured;
}

START_TEST(metrics_by_hand)
{
    pl_validate_pair_t pairs[5];
    pl_validate_metric_t metric;

    set_ttft(&pairs[0], 1, 100, 200); /* 50 % */
    set_ttft(&pairs[1], 2, 300, 200); /* 50 % */
    set_ttft(&pairs[2], 3, 400, 400); /* 0 */
    set_ttft(&pairs[3], 4, 400, 0);   /* not measured */
    set_ttft(&pairs[4], 5, 0, 400);   /* not predicted */
    ck_assert_int_eq(pl_validate_metric(pairs, 5, PL_VALIDATE_TTFT, &metric),
                     PL_OK);
    ck_assert_int_eq(metric.n, 3);
    ck_assert_double_eq_tol(metric.mape, 1.0 / 3, 1e-12);
    ck_assert_int_eq(metric.predicted_p50_ns, 300);
    ck_assert_int_eq(metric.measured_p50_ns, 200);
    ck_assert_double_eq_tol(metric.median_ratio, 1, 1e-12);
    /* 80000 / sqrt(140000 * 80000), by thirds */
    ck_assert_double_eq_tol(metric.r, sqrt(4.0 / 7), 1e-9);
    ck_assert_int_eq(pl_validate_metric(pairs, 5, PL_VALIDATE_E2E, &metric),
                     PL_OK);
    ck_assert_int_eq(metric.n, 0);
    ck_assert(isnan(metric.r));
}
END_TEST

START_TEST(equal_times_have_no_correlation)
{
    pl_validate_pair_t pairs[3];
    pl_validate_metric_t metric;

    for (int i = 0; i < 3; i++) {
        set_ttft(&pairs[i], i + 1, 100 + i, 700);
    }
    ck_assert_int_eq(pl_validate_metric(pairs, 3, PL_VALIDATE_TTFT, &metric),
                     PL_OK);
    ck_assert(isnan(metric.r));
}
END_TEST

START_TEST(worst_come_first)
{
    pl_validate_pair_t pairs[4];
    pl_validate_time_t which = PL_VALIDATE_TTFT;

    set_ttft(&pairs[0], 4, 100, 100);
    set_ttft(&pairs[1], 3, 0, 100);
    set_ttft(&pairs[2], 2, 150, 100);
    set_ttft(&pairs[3], 1, 50, 100);
    pairs[0].predicted_ns[PL_VALIDATE_TPOT] = 30;
    pairs[0].measured_ns[PL_VALIDATE_TPOT]  = 10;
    pl_validate_sort(pairs, 4);
    ck_assert_int_eq(pairs[0].number, 4);
    ck_assert_int_eq(pairs[1].number, 1);
    ck_assert_int_eq(pairs[2].number, 2);
    ck_assert_int_eq(pairs[3].number, 3);
    ck_assert_double_eq_tol(pl_validate_error(&pairs[0], &which), 2, 1e-12);
    ck_assert_int_eq(which, PL_VALIDATE_TPOT);
}
END_TEST

/* Against counting at each start. */
START_TEST(most_at_a_time)
{
    unsigned seed = 12345;

    for (int round = 0; round < 200; round++) {
        int64_t starts[40], ends[40], s[40], e[40];
        size_t n = 1 + (size_t)(round % 40);
        int most = 0;

        for (size_t i = 0; i < n; i++) {
            seed = seed * 1103515245U + 12345U;
            s[i] = starts[i] = (int64_t)(seed >> 16) % 50;
            seed             = seed * 1103515245U + 12345U;
            e[i] = ends[i] = starts[i] + 1 + (int64_t)(seed >> 16) % 9;
        }
        for (size_t i = 0; i < n; i++) {
            int now = 0;

            for (size_t j = 0; j < n; j++) {
                now += (s[j] <= s[i]) && (e[j] > s[i]) ? 1 : 0;
            }
            most = now > most ? now : most;
        }
        ck_assert_int_eq(pl_validate_most(starts, ends, n), most);
    }
}
END_TEST

/* ---- the fit ---- */

/* Times that grow with the square of the factor, as waiting does. */
START_TEST(steps_reach_the_factors)
{
    pl_fit_t fit = {.prefill_millionths = 1000000,
                    .decode_millionths  = 1000000};
    bool is_done = false;
    int n        = 0;

    for (; !is_done && (n < 24); n++) {
        double prefill            = (double)fit.prefill_millionths / 1e6;
        double decode             = (double)fit.decode_millionths / 1e6;
        pl_validate_metric_t ttft = {.n            = 1,
                                     .median_ratio = 9 / (prefill * prefill)};
        pl_validate_metric_t tpot = {.n = 1, .median_ratio = 0.5 / decode};

        is_done = pl_validate_step(&ttft, &tpot, &fit);
    }
    ck_assert(is_done);
    ck_assert_double_eq_tol((double)fit.prefill_millionths, 3e6, 3e3);
    ck_assert_double_eq_tol((double)fit.decode_millionths, 5e5, 1e3);
}
END_TEST

START_TEST(steps_stop_at_their_limits_and_without_measures)
{
    pl_fit_t fit              = {.prefill_millionths = PL_FIT_MOST,
                                 .decode_millionths  = 1000000};
    pl_validate_metric_t huge = {.n = 1, .median_ratio = 1e9};
    pl_validate_metric_t none = {.n = 0};

    ck_assert(pl_validate_step(&huge, &none, &fit));
    ck_assert_int_eq(fit.prefill_millionths, PL_FIT_MOST);
    ck_assert_int_eq(fit.decode_millionths, 1000000);
}
END_TEST

START_TEST(a_fit_covers_what_it_saw)
{
    pl_validate_pair_t pairs[] = {
        {.input_tokens = 300, .output_tokens = 5, .start_ns = 0, .end_ns = 10},
        {.input_tokens = 100, .output_tokens = 9, .start_ns = 5, .end_ns = 15},
        {.input_tokens = 200, .output_tokens = 7, .start_ns = 10, .end_ns = 0}};
    pl_fit_t fit = {
        .prefill_millionths = 7, .decode_millionths = 8, .most_input = 999};

    ck_assert_int_eq(pl_validate_cover(pairs, 3, &fit), PL_OK);
    ck_assert_int_eq(fit.prefill_millionths, 7);
    ck_assert_int_eq(fit.decode_millionths, 8);
    ck_assert_int_eq(fit.n_requests, 3);
    ck_assert_int_eq(fit.least_input, 100);
    ck_assert_int_eq(fit.most_input, 300);
    ck_assert_int_eq(fit.least_output, 5);
    ck_assert_int_eq(fit.most_output, 9);
    ck_assert_int_eq(fit.most_concurrent, 2);
}
END_TEST

#define FIT(prefill, requests)                                                 \
    "{\"fit\": {\"prefill_scale\": " prefill ", \"decode_scale\": 0.75,"       \
    "\"requests\": " requests ", \"least_input_tokens\": 1,"                   \
    "\"most_input_tokens\": 2, \"least_output_tokens\": 3,"                    \
    "\"most_output_tokens\": 4, \"most_concurrent\": 5}}"

/* Beside other figures; and whole or not at all. */
START_TEST(calibrations_hold_a_fit)
{
    static const char GOOD[] = "{\"load_gbs\": 50}" FIT("1.5", "9");
    static const char *BAD[] = {FIT("0", "9"), FIT("1.5", "0"), FIT("1e7", "9"),
                                "{\"fit\": {}}"};
    pl_measured_t measured   = {0};

    ck_assert_int_eq(
        pl_calibrate_parse("text", GOOD, strlen(GOOD), NULL, &measured), PL_OK);
    ck_assert_int_eq(measured.load, 50000);
    ck_assert_int_eq(measured.fit.prefill_millionths, 1500000);
    ck_assert_int_eq(measured.fit.decode_millionths, 750000);
    ck_assert_int_eq(measured.fit.n_requests, 9);
    ck_assert_int_eq(measured.fit.most_concurrent, 5);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        ck_assert_int_eq(
            pl_calibrate_parse("text", BAD[i], strlen(BAD[i]), NULL, &measured),
            PL_ERR_INPUT);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("validate");

    tcase_add_test(tcase, vllm_says_when_requests_began);
    tcase_add_test(tcase, sglang_starts_are_reckoned_by_concurrency);
    tcase_add_test(tcase, sglang_starts_are_reckoned_by_rate);
    tcase_add_test(tcase, answers_in_one_piece_have_no_first_token);
    tcase_add_test(tcase, a_replay_says_no_times);
    tcase_add_test(tcase, what_failed_may_not_know_its_prompt);
    tcase_add_test(tcase, aiperf_has_a_record_a_request);
    tcase_add_test(tcase, times_without_end_stay_within_bounds);
    tcase_add_test(tcase, what_is_no_benchmark_is_refused);
    tcase_add_test(tcase, metrics_by_hand);
    tcase_add_test(tcase, equal_times_have_no_correlation);
    tcase_add_test(tcase, worst_come_first);
    tcase_add_test(tcase, most_at_a_time);
    tcase_add_test(tcase, steps_reach_the_factors);
    tcase_add_test(tcase, steps_stop_at_their_limits_and_without_measures);
    tcase_add_test(tcase, a_fit_covers_what_it_saw);
    tcase_add_test(tcase, calibrations_hold_a_fit);
    return tcase;
}

PL_CHECK_MAIN("validate", all())
