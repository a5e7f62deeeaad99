/* sim/costs.h by hand, and laws that hold whatever the numbers are. */
#include "sim/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs_rig.h"
#include "sim/detail.h"

/* GLM-5.2-FP8 on eight H20-3e, CP 8: to share pages takes 1.0 % longer for a
 * prompt of 128K, 1.9 % for 256K (sglang pull requests 31435 and 35309; the
 * times themselves are in test_costs_published.c). */
START_TEST(what_sharing_costs)
{
    pl_costs_t shared, replicated;
    double more;

    prepare("GLM-5.2", "H20-3e", 8);
    shared               = derive();
    RIG.params.ownership = PL_OWNERSHIP_REPLICATED;
    replicated           = derive();
    more = seconds(&shared, 131072) / seconds(&replicated, 131072) - 1;
    WITHIN(more, 0.010, 1.25);
    more = seconds(&shared, 262144) / seconds(&replicated, 262144) - 1;
    WITHIN(more, 0.019, 1.25);
}
END_TEST

/* Arithmetic by hand: GLM-5.2, prefix of 128K, a chunk of 8,192 on eight H200.
 */
START_TEST(parts_by_hand)
{
    prepare("GLM-5.2", "H200", 8);
    /* 7/8 of 53,940 bytes for 139,264 tokens at 360 GB/s; and 99 collectives */
    WITHIN((double)part_of(PL_COST_MATERIALIZE, 131072, 8192),
           139264.0 * 53940 * 0.875 / 360 + 990000, 1.001);
    /* 1,024 rows of 135,168 keys, 21 layers, 8,192 FLOP at 0.55 of 1,979 T */
    WITHIN((double)part_of(PL_COST_INDEX, 131072, 8192),
           1024.0 * 135168 * 21 * 8192 / 1088450, 1.001);
    /* 2,048 keys, 78 layers, 139,264 FLOP at 0.6 of 989.5 T */
    WITHIN((double)part_of(PL_COST_ATTEND, 131072, 8192),
           1024.0 * 2048 * 78 * 139264 / 593700, 1.001);
    /* eight experts of three matrices, 75 layers */
    WITHIN((double)part_of(PL_COST_EXPERT, 131072, 8192),
           1024.0 * 8 * 75 * 2 * 3 * 2048 * 6144 / 1187400, 1.001);
    /* one of eight ranks is chosen by (1 - (7/8)^8) of the rows */
    WITHIN((double)part_of(PL_COST_EXCHANGE, 131072, 8192),
           1024.0 * 7 * 0.656391 * 75 * 6144 * 3 / 360 + 75 * 66000, 1.001);
    /* 16 kernels of attention, 15 of experts or 5 of dense MLPs, 16 of the
     * indexer, of 4 us; and the scheduler */
    ck_assert_int_eq(part_of(PL_COST_LAUNCH, 131072, 8192),
                     2000000 + 4000 * (78 * 16 + 75 * 15 + 3 * 5 + 21 * 16));
}
END_TEST

/* The same with a keeper of each layer: 7/8 of the chunk's rows to each, then
 * what was there before from one to all.  Never cheaper than to share pages, by
 * an eighth of the prefix dearer; behind nothing, as cheap as to replicate. */
START_TEST(layers_by_hand)
{
    const double token = 53940.0 / 360;
    pl_costs_t shared, layers;

    prepare("GLM-5.2", "H200", 8);
    shared               = derive();
    RIG.params.ownership = PL_OWNERSHIP_LAYER;
    layers               = derive();
    WITHIN((double)part_of(PL_COST_MATERIALIZE, 131072, 8192),
           (8192.0 * 0.875 + 131072) * token + 2 * 990000, 1.001);
    for (int32_t before = 0; before <= 131072; before += 65536) {
        int64_t more = pl_cost_chunk_ns(&layers, 8, before, 8192, NULL) -
                       pl_cost_chunk_ns(&shared, 8, before, 8192, NULL);

        WITHIN((double)more, before / 8.0 * token + 990000, 1.001);
    }
    /* over nodes each hop of the chain is the network's, at 45 GB/s */
    prepare("GLM-5.2", "H200", 16);
    RIG.params.ownership = PL_OWNERSHIP_LAYER;
    WITHIN((double)part_of(PL_COST_MATERIALIZE, 131072, 8192),
           (8192.0 / 2 + 131072) * 53940 / 45 + 2 * 990000, 1.001);
    /* one rank keeps all layers */
    prepare("GLM-5.2", "H200", 1);
    RIG.params.ownership = PL_OWNERSHIP_LAYER;
    ck_assert_int_eq(part_of(PL_COST_MATERIALIZE, 131072, 8192), 0);
}
END_TEST

/* More ranks are not slower per chunk, longer prompts not faster, better
 * hardware is faster. */
START_TEST(laws)
{
    static const char *const GPUS[] = {"H20", "H100", "B200"};
    double last                     = 1e9;

    for (size_t i = 0; i < 3; i++) {
        pl_costs_t costs;

        prepare("GLM-5", GPUS[i], 8);
        costs = derive();
        ck_assert_double_lt(seconds(&costs, 65536), last);
        last = seconds(&costs, 65536);
    }
    last = 1e9;
    for (int32_t cp = 1; cp <= 8; cp *= 2) {
        pl_costs_t costs;

        prepare("GLM-5.2", "H200", cp);
        costs = derive();
        ck_assert_double_lt(seconds(&costs, 65536), last);
        last = seconds(&costs, 65536);
        ck_assert_double_lt(seconds(&costs, 32768), last);
        ck_assert((part_of(PL_COST_MATERIALIZE, 0, 8192) == 0) == (cp == 1));
        ck_assert((part_of(PL_COST_EXCHANGE, 0, 8192) == 0) == (cp == 1));
    }
    /* over nodes, pages come by the network */
    prepare("GLM-5.2", "H200", 16);
    ck_assert_int_gt(part_of(PL_COST_MATERIALIZE, 131072, 8192),
                     2 * (int64_t)(139264.0 * 53940 * 0.875 / 360));
}
END_TEST

/* Without fp8 units and NVLink there is a table too. */
START_TEST(cpus)
{
    pl_costs_t costs;

    prepare("GLM-5.2", "Xeon-8480", 2);
    costs = derive();
    ck_assert_double_gt(seconds(&costs, 8192), 5);
    ck_assert_int_eq(costs.prefill[PL_COST_LAUNCH].step_ns, 2000000);
}
END_TEST

/* ---- calibration ---- */

static pl_status_t parse(const char *text, pl_measured_t *measured)
{
    return pl_calibrate_parse("text", text, strlen(text), NULL, measured);
}

START_TEST(what_was_measured_wins)
{
    static const char TEXT[] =
        "{\"bench\": \"kernels\", \"indexer_tflops\": 544.225, \"topk_us\": "
        "131.072, \"attend_fp8_tflops\": 100, \"other\": 3}\n"
        "{\"bench\": \"transfer\", \"sizes\": [{\"busbw_gb_s\": 1}, "
        "{\"busbw_gb_s\": 180.0}]}\n";
    pl_measured_t measured = {0};
    int64_t index, view, attend;

    prepare("GLM-5.2", "H200", 8);
    index  = part_of(PL_COST_INDEX, 131072, 8192);
    view   = part_of(PL_COST_MATERIALIZE, 131072, 8192) - 990000;
    attend = part_of(PL_COST_ATTEND, 131072, 8192);
    ck_assert_int_eq(parse(TEXT, &measured), PL_OK);
    ck_assert_int_eq(measured.near, 180000);
    ck_assert_int_eq(measured.topk_ps, 1000);
    RIG.params.measured = &measured;
    WITHIN((double)part_of(PL_COST_INDEX, 131072, 8192), 2.0 * (double)index,
           1.001);
    WITHIN((double)part_of(PL_COST_MATERIALIZE, 131072, 8192) - 990000,
           2.0 * (double)view, 1.001);
    WITHIN((double)part_of(PL_COST_ATTEND, 131072, 8192),
           5.937 * (double)attend, 1.001);
    WITHIN((double)part_of(PL_COST_TOPK, 131072, 8192), 1024.0 * 132 * 21,
           1.001);
    /* the other dtype was not measured */
    RIG.params.kv_dtype = PL_KV_BF16;
    WITHIN((double)part_of(PL_COST_ATTEND, 131072, 8192), (double)attend,
           1.001);
}
END_TEST

/* Two lengths: what grows with the context took five times as long, all else
 * three times. */
START_TEST(two_lengths_tell_context_from_the_rest)
{
    static const int32_t TOKENS[] = {16384, 98304};
    pl_measured_t measured        = {0};
    pl_costs_t usual, scaled;
    int64_t parts[PL_COST_PARTS];
    double ms[2];
    char text[512];

    prepare("GLM-5.2", "H200", 4);
    spread_over(1);
    usual = derive();
    for (int k = 0; k < 2; k++) {
        double context = 0;

        for (int32_t at = 0; at < TOKENS[k]; at += 8192) {
            (void)pl_cost_chunk_ns(&usual, 4, at, 8192, parts);
            context += (double)(parts[PL_COST_INDEX] + parts[PL_COST_TOPK]);
        }
        ms[k] = 3e3 * seconds(&usual, TOKENS[k]) + 2e-6 * context;
    }
    (void)snprintf(text, sizeof(text),
                   "{\"ranks\": 4, \"chunk\": 8192, \"layers\": 78, \"rows\": "
                   "[{\"context\": 16384, \"cold_ms\": %f}, {\"context\": "
                   "98304, \"cold_ms\": %f}]}",
                   ms[0], ms[1]);
    ck_assert_int_eq(parse(text, &measured), PL_OK);
    RIG.params.measured = &measured;
    scaled              = derive();
    WITHIN(1e3 * seconds(&scaled, 16384), ms[0], 1.001);
    WITHIN(1e3 * seconds(&scaled, 98304), ms[1], 1.001);
    WITHIN((double)scaled.prefill[PL_COST_INDEX].context_ps,
           5.0 * (double)usual.prefill[PL_COST_INDEX].context_ps, 1.01);
    WITHIN((double)scaled.prefill[PL_COST_EXPERT].row_ps,
           3.0 * (double)usual.prefill[PL_COST_EXPERT].row_ps, 1.01);
}
END_TEST

/* A prompt that took twice as long as reckoned, as a whole, or in one part. */
START_TEST(a_measured_prompt_scales_its_parts)
{
    static const char WHOLE[] =
        "{\"bench\": \"prefill\", \"ranks\": 4, \"chunk\": 8192, "
        "\"layers\": 78, \"rows\": ["
        "{\"context\": 65536, \"ownership\": \"zigzag\", \"cold_ms\": %f%s}, "
        "{\"context\": 65536, \"ownership\": \"replicated\", \"cold_ms\": 1}"
        "]}";
    pl_measured_t measured = {0};
    pl_costs_t usual, scaled;
    int64_t parts[PL_COST_PARTS];
    int64_t index = 0;
    char profile[64];
    char text[512];

    prepare("GLM-5.2", "H200", 4);
    spread_over(1);
    usual = derive();
    (void)snprintf(text, sizeof(text), WHOLE, 2e3 * seconds(&usual, 65536), "");
    ck_assert_int_eq(parse(text, &measured), PL_OK);
    ck_assert_int_eq(measured.prompt.tokens, 65536);
    RIG.params.measured = &measured;
    scaled              = derive();
    WITHIN(seconds(&scaled, 65536), 2 * seconds(&usual, 65536), 1.001);
    WITHIN(seconds(&scaled, 16384), 2 * seconds(&usual, 16384), 1.001);
    WITHIN((double)pl_cost_decode_ns(&scaled, 8, 80000, NULL),
           2.0 * (double)pl_cost_decode_ns(&usual, 8, 80000, NULL), 1.001);

    for (int32_t at = 0; at < 65536; at += 8192) {
        (void)pl_cost_chunk_ns(&usual, 4, at, 8192, parts);
        index += parts[PL_COST_INDEX];
    }
    (void)snprintf(profile, sizeof(profile),
                   ", \"cold_profile_ms\": {\"compute_indexer\": %f}",
                   3e-6 * (double)index);
    (void)snprintf(text, sizeof(text), WHOLE, 1.0, profile);
    ck_assert_int_eq(parse(text, &measured), PL_OK);
    scaled = derive();
    WITHIN(seconds(&scaled, 65536) - seconds(&usual, 65536),
           2e-9 * (double)index, 1.001);
}
END_TEST

/* A runtime that takes another share of each kind of part: what a bench says of
 * a few lengths tells all of it, on ranks that share out pages. */
enum { CP = 2, PAGE = 64, CHUNK = 512 };

static pl_costs_t strange_costs(void)
{
    pl_costs_t costs = derive();

    for (int i = 0; i < PL_COST_PARTS; i++) {
        costs.prefill[i].floor_ns = 0;
        costs.decode[i]           = (pl_cost_rate_t){0};
    }
    costs.page_tokens = PAGE;
    costs.take_in_ns  = 300000;
    costs.take_in_ps  = 2000000;
    costs.prefill[PL_COST_LAUNCH].step_ns *= 3;
    costs.prefill[PL_COST_PROJECT].row_ps *= 40;
    costs.prefill[PL_COST_EXPERT].row_ps *= 40;
    costs.prefill[PL_COST_ATTEND].key_ps *= 90;
    costs.prefill[PL_COST_INDEX].context_ps *= 700;
    costs.prefill[PL_COST_TOPK].context_ps *= 700;
    costs.prefill[PL_COST_MATERIALIZE].step_ns *= 20;
    costs.prefill[PL_COST_MATERIALIZE].view_ps *= 20;
    costs.decode[PL_COST_PROJECT].row_ps   = 900000000;
    costs.decode[PL_COST_INDEX].context_ps = 50000000;
    return costs;
}

static double ms_of(const pl_costs_t *costs, int32_t hit, int32_t tokens)
{
    int32_t n  = (tokens - hit + CHUNK - 1) / CHUNK;
    int64_t ns = pl_cost_prompt_ns(costs, CP, CHUNK, hit, tokens) +
                 (n > 2 ? (n - 2) * pl_cost_take_in_ns(costs, CHUNK) : 0);

    return 1e-6 * (double)ns;
}

static void write_bench(const pl_costs_t *costs, char *text, size_t room)
{
    static const int32_t TOKENS[] = {128, 512, 2048, 4096, 16384};
    size_t at                     = (size_t)snprintf(text, room,
                                                     "{\"ranks\": %d, \"chunk\": %d, \"layers\": "
                                                                         "78, \"page_size\": %d, \"rows\": [",
                                                     CP, CHUNK, PAGE);

    for (int i = 0; i < 5; i++) {
        int32_t hit = TOKENS[i] - PAGE;

        at += (size_t)snprintf(
            text + at, room - at,
            "%s{\"context\": %d, \"cold_ms\": %.6f, \"device_ms\": %.6f, "
            "\"device_hit_tokens\": %d, \"decode_ms\": %.6f, "
            "\"handover_ms\": %.6f}",
            i > 0 ? ", " : "", TOKENS[i], ms_of(costs, 0, TOKENS[i]),
            ms_of(costs, hit, TOKENS[i]), hit,
            1e-6 * (double)pl_cost_decode_ns(costs, 1, TOKENS[i], NULL),
            1e-6 * (double)pl_cost_take_in_ns(costs, TOKENS[i]));
    }
    (void)snprintf(text + at, room - at, "]}");
}

START_TEST(a_few_lengths_tell_all_parts)
{
    static pl_measured_t measured;
    pl_costs_t strange, found;
    char text[2048];

    prepare("GLM-5.2", "H200", CP);
    spread_over(1);
    RIG.params.page_tokens = PAGE;
    strange                = strange_costs();
    write_bench(&strange, text, sizeof(text));
    ck_assert_int_eq(parse(text, &measured), PL_OK);
    ck_assert_int_eq(measured.n_samples, 10);
    RIG.params.measured = &measured;
    found               = derive();
    for (int32_t tokens = 100; tokens < 30000; tokens = tokens * 7 / 5) {
        WITHIN(ms_of(&found, 0, tokens), ms_of(&strange, 0, tokens), 1.01);
        WITHIN(ms_of(&found, tokens / 2, tokens),
               ms_of(&strange, tokens / 2, tokens), 1.01);
        WITHIN((double)pl_cost_take_in_ns(&found, tokens),
               (double)pl_cost_take_in_ns(&strange, tokens), 1.001);
        /* one after the other, up to context that goes by 1,024 */
        WITHIN((double)pl_cost_decode_ns(&found, 5, 5 * 4096, NULL),
               5.0 * (double)pl_cost_decode_ns(&strange, 1, 4096, NULL), 1.1);
    }
}
END_TEST

/* What is measured without drafts holds for the passes that draft: requests one
 * after the other, and no weights apart from what a row takes. */
START_TEST(drafts_are_measured_as_decode_is)
{
    static pl_measured_t measured;
    pl_costs_t strange, found;
    char text[2048];

    prepare("GLM-5.2", "H200", CP);
    RIG.params.prefill_ep  = 1;
    RIG.params.page_tokens = PAGE;
    strange                = strange_costs();
    write_bench(&strange, text, sizeof(text));
    ck_assert_int_eq(parse(text, &measured), PL_OK);
    RIG.params.measured     = &measured;
    RIG.params.draft_tokens = 2;
    for (int is_told = 1; is_told >= 0; is_told--) {
        int64_t one[PL_COST_PARTS], five[PL_COST_PARTS];

        found = derive();
        for (int i = 0; i < PL_COST_PARTS; i++) {
            ck_assert_int_eq(found.decode[i].floor_ns, 0);
            ck_assert_int_eq(found.draft[i].floor_ns, 0);
        }
        (void)pl_cost_decode_ns(&found, 1, 4096, one);
        (void)pl_cost_decode_ns(&found, 5, INT64_C(5) * 4096, five);
        ck_assert_int_gt(one[PL_COST_DRAFT], 0);
        if (is_told == 1) {
            WITHIN((double)five[PL_COST_DRAFT],
                   5.0 * (double)one[PL_COST_DRAFT], 1.001);
        }
        /* decode was not measured: prefill tells */
        for (int i = 0; i < measured.n_samples; i++) {
            measured.samples[i].step_ns = 0;
        }
    }
}
END_TEST

START_TEST(what_is_no_measurement_is_refused)
{
    static const char *const BAD[] = {"",
                                      "  \n",
                                      "[1]",
                                      "{",
                                      "{\"indexer_tflops\": \"fast\"}",
                                      "{\"indexer_tflops\": -3}",
                                      "{\"indexer_tflops\": 0}",
                                      "{\"indexer_tflops\": 1e30}",
                                      "{\"sizes\": []}",
                                      "{\"sizes\": {\"busbw_gb_s\": 3}}",
                                      "{\"rows\": [{\"context\": 5, "
                                      "\"cold_ms\": 3}]}",
                                      "{\"ranks\": 0, \"chunk\": 1, "
                                      "\"layers\": 1, \"rows\": [{\"context\": "
                                      "5, \"cold_ms\": 3}]}",
                                      "{\"indexer_tflops\": 3} x"};
    pl_measured_t measured         = {.near = 5};

    for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
        ck_assert_int_eq(parse(BAD[i], &measured), PL_ERR_INPUT);
        ck_assert_int_eq(measured.near, 5);
    }
    ck_assert_int_eq(pl_calibrate_read("no/such/file", NULL, &measured),
                     PL_ERR_INPUT);
}
END_TEST

/* ---- limits ---- */

START_TEST(limits_are_read)
{
    static const char *const BAD[] = {"",
                                      "ttft",
                                      "ttft:",
                                      "ttft:2",
                                      "ttft:2h",
                                      "ttft:-2s",
                                      "ttft:0s",
                                      "ttft:2s,",
                                      "ttft:2s,x:3s",
                                      "ttft:2s tpot:5ms",
                                      ",",
                                      "ttft:.5s",
                                      "ttft:2s,ttft:3s"};
    pl_slo_t slo                   = {0};

    ck_assert(pl_slo_parse("ttft:2s,tpot:50ms", &slo));
    ck_assert_int_eq(slo.ttft_ns, 2000000000);
    ck_assert_int_eq(slo.tpot_ns, 50000000);
    ck_assert_int_eq(slo.e2e_ns, 0);
    ck_assert(pl_slo_parse("e2e:1min,tpot:12.5ms", &slo));
    ck_assert_int_eq(slo.e2e_ns, 60000000000);
    ck_assert_int_eq(slo.tpot_ns, 12500000);
    ck_assert_int_eq(slo.ttft_ns, 0);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
        ck_assert_msg(!pl_slo_parse(BAD[i], &slo), "'%s'", BAD[i]);
    }
}
END_TEST

/* On top of whatever was measured: every part of a step by its own factor,
 * whatever a rank has to be brought. */
START_TEST(a_fit_scales_all_parts)
{
    static const pl_ownership_kind_t KINDS[] = {
        PL_OWNERSHIP_ZIGZAG, PL_OWNERSHIP_REPLICATED, PL_OWNERSHIP_LAYER};
    static pl_measured_t measured;
    pl_costs_t plain, fitted;
    int64_t context = 32 * 8192;

    prepare("GLM-5.2", "H200", 8);
    RIG.params.ownership            = KINDS[_i];
    plain                           = derive();
    measured.fit.prefill_millionths = 2000000;
    measured.fit.decode_millionths  = 500000;
    RIG.params.measured             = &measured;
    fitted                          = derive();
    WITHIN(seconds(&fitted, 32768), 2 * seconds(&plain, 32768), 1.0001);
    WITHIN((double)pl_cost_decode_ns(&fitted, 32, context, NULL),
           0.5 * (double)pl_cost_decode_ns(&plain, 32, context, NULL), 1.0001);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("costs");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, what_sharing_costs);
    tcase_add_test(tcase, parts_by_hand);
    tcase_add_test(tcase, layers_by_hand);
    tcase_add_test(tcase, laws);
    tcase_add_test(tcase, cpus);
    tcase_add_test(tcase, what_was_measured_wins);
    tcase_add_test(tcase, two_lengths_tell_context_from_the_rest);
    tcase_add_test(tcase, a_measured_prompt_scales_its_parts);
    tcase_add_test(tcase, a_few_lengths_tell_all_parts);
    tcase_add_test(tcase, drafts_are_measured_as_decode_is);
    tcase_add_test(tcase, what_is_no_measurement_is_refused);
    tcase_add_loop_test(tcase, a_fit_scales_all_parts, 0, 3);
    tcase_add_test(tcase, limits_are_read);
    return tcase;
}

PL_CHECK_MAIN("costs", all())
