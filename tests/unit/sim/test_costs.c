/* sim/costs.h beside published measurements, and laws that hold whatever the
 * numbers are. */
#include "sim/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/detail.h"
#include "sim/presets.h"
#include "support/check_main.h"

typedef struct rig {
    pl_model_config_t model;
    pl_hardware_t hardware;
    pl_costs_params_t params;
} rig_t;

static rig_t RIG; /* too large for the stack of a test */

/* C ranks that decode too, experts over as many, fp8. */
static void prepare(const char *model, const char *hardware, int32_t cp)
{
    const pl_preset_t *m = pl_preset_find(PL_PRESET_MODEL, model);
    const pl_preset_t *h = pl_preset_find(PL_PRESET_HARDWARE, hardware);

    ck_assert(m != NULL && h != NULL);
    ck_assert_int_eq(pl_model_config_parse(m->name, (const char *)m->text,
                                           m->n_bytes, NULL, &RIG.model),
                     PL_OK);
    ck_assert_int_eq(pl_hardware_parse(h->name, (const char *)h->text,
                                       h->n_bytes, NULL, &RIG.hardware),
                     PL_OK);
    RIG.params = (pl_costs_params_t){.model        = &RIG.model,
                                     .hardware     = &RIG.hardware,
                                     .n_prefill    = cp,
                                     .prefill_ep   = cp,
                                     .decode_ep    = cp,
                                     .decode_tp    = 1,
                                     .kv_dtype     = PL_KV_FP8,
                                     .weight_dtype = PL_F8_E4M3};
}

static void spread_over(int32_t ep)
{
    RIG.params.prefill_ep = ep;
    RIG.params.decode_ep  = ep;
}

static pl_costs_t derive(void)
{
    pl_costs_t costs;

    ck_assert_int_eq(pl_costs_derive(&RIG.params, &costs), PL_OK);
    return costs;
}

static double seconds(const pl_costs_t *costs, int32_t tokens)
{
    return 1e-9 * (double)pl_cost_prompt_ns(costs, RIG.params.n_prefill, 8192,
                                            0, tokens);
}

#define WITHIN(value, published, factor)                                       \
    do {                                                                       \
        ck_assert_double_le((value), (published) * (factor));                  \
        ck_assert_double_ge((value), (published) / (factor));                  \
    } while (0)

/* GLM-5.2-FP8 on eight H20-3e, CP 8: a prompt of 128K in 12.33 s replicated and
 * 12.46 s shared, of 256K in 27.1 s and 27.6 s (sglang pull requests 31435 and
 * 35309).  Nothing was fitted to it. */
START_TEST(prefill_of_long_prompts)
{
    pl_costs_t shared, replicated;
    double more;

    prepare("GLM-5.2", "H20-3e", 8);
    shared                = derive();
    RIG.params.replicated = true;
    replicated            = derive();
    WITHIN(seconds(&replicated, 131072), 12.33, 1.10);
    WITHIN(seconds(&shared, 131072), 12.46, 1.10);
    WITHIN(seconds(&replicated, 262144), 27.1, 1.10);
    WITHIN(seconds(&shared, 262144), 27.6, 1.10);
    /* what sharing costs: 1.0 % and 1.9 % */
    more = seconds(&shared, 131072) / seconds(&replicated, 131072) - 1;
    WITHIN(more, 0.010, 1.25);
    more = seconds(&shared, 262144) / seconds(&replicated, 262144) - 1;
    WITHIN(more, 0.019, 1.25);
}
END_TEST

/* 96 H100 with DeepSeek-V3 (V3.2 without its indexer, which prompts of 2,000
 * tokens do not use): 52,300 prompt and 22,300 output tokens a second and node
 * of eight; prefill with experts over 32 GPUs, decode over 72, 256 requests
 * each ("Deploying DeepSeek on 96 H100 GPUs", LMSYS, 2025-05-05). */
START_TEST(throughput_of_a_large_deployment)
{
    pl_costs_t costs;
    double rate;

    prepare("DeepSeek-V3.2", "H100", 1);
    RIG.params.prefill_ep = 32;
    RIG.params.n_decode   = 1;
    costs                 = derive();
    /* eight prompts a step and GPU, as one: attention is that of 2,000 */
    rate =
        8 * 2000 / (1e-9 * (double)pl_cost_chunk_ns(&costs, 1, 0, 2000, NULL));
    WITHIN(rate, 52300.0, 1.5);
    RIG.params.decode_ep = 72;
    costs                = derive();
    rate                 = 8 * 256 /
           (1e-9 * (double)pl_cost_decode_ns(&costs, 256, 256 * 2100, NULL));
    WITHIN(rate, 22300.0, 1.5);
}
END_TEST

static int64_t part_of(pl_cost_part_t part, int32_t before, int32_t n)
{
    pl_costs_t costs = derive();
    int64_t parts[PL_COST_PARTS];

    (void)pl_cost_chunk_ns(&costs, RIG.params.n_prefill, before, n, parts);
    return parts[part];
}

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
           1024.0 * 7 * 0.656391 * 75 * 6144 * 3 / 360 + 75 * 20000, 1.001);
}
END_TEST

/* ---- homes of several GPUs ---- */

static int64_t decode_part(pl_cost_part_t part, int32_t n, int32_t context)
{
    pl_costs_t costs = derive();
    int64_t parts[PL_COST_PARTS];

    (void)pl_cost_decode_ns(&costs, n, (int64_t)n * context, parts);
    return parts[part];
}

/* Two homes of eight GPUs each, experts over all sixteen. */
static void prepare_homes(int32_t tp)
{
    prepare("GLM-5.2", "H200", 8);
    RIG.params.n_decode  = 16 / tp;
    RIG.params.decode_ep = 16;
    RIG.params.decode_tp = tp;
}

/* A sum over six H100, by the fastest of vLLM's kernels: 13 us of 0.5 MiB, 21
 * of 2, 31 of 4 (vLLM pull request 24111). */
START_TEST(sums_over_gpus)
{
    static const struct {
        int32_t rows; /* of 6,144 bf16 values */
        double us;
    } SUMS[] = {{43, 13}, {171, 21}, {341, 31}};

    prepare("GLM-5.2", "H100", 6);
    RIG.params.decode_tp = 6;
    for (size_t i = 0; i < sizeof(SUMS) / sizeof(*SUMS); i++) {
        WITHIN((double)decode_part(PL_COST_REDUCE, SUMS[i].rows, 100) / 156e3,
               SUMS[i].us, 1.1);
    }
}
END_TEST

START_TEST(parts_of_a_home_by_hand)
{
    int64_t index, topk, expert, attend, exchange;

    prepare_homes(1);
    index    = decode_part(PL_COST_INDEX, 64, 65536);
    topk     = decode_part(PL_COST_TOPK, 64, 65536);
    attend   = decode_part(PL_COST_ATTEND, 64, 65536);
    expert   = decode_part(PL_COST_EXPERT, 4096, 1024);
    exchange = decode_part(PL_COST_EXCHANGE, 4096, 1024) - 75 * 20000;
    ck_assert_int_eq(decode_part(PL_COST_REDUCE, 64, 65536), 0);
    /* 2,048 keys, 78 layers, 139,264 FLOP at 0.41 of 989.5 T */
    WITHIN((double)attend, 64.0 * 2048 * 78 * 139264 / 405700, 1.001);

    prepare_homes(8);
    ck_assert_int_eq(decode_part(PL_COST_INDEX, 64, 65536), index);
    ck_assert_int_eq(decode_part(PL_COST_TOPK, 64, 65536), topk);
    /* an eighth of the heads: now reading 656 bytes a key is what takes long */
    WITHIN((double)decode_part(PL_COST_ATTEND, 64, 65536),
           64.0 * 2048 * 78 * 656 / 4320, 1.001);
    /* a row's eight experts are one GPU's work for every eighth row */
    WITHIN((double)decode_part(PL_COST_EXPERT, 4096, 1024), (double)expert / 8,
           1.001);
    WITHIN((double)decode_part(PL_COST_EXCHANGE, 4096, 1024) - 75 * 20000,
           (double)exchange / 8, 1.001);
    /* 7/8 of a row's 12,288 bytes there and back, 156 times */
    WITHIN((double)decode_part(PL_COST_REDUCE, 64, 65536),
           64.0 * 156 * 2 * 12288 * 7 / 8 / 360 + 156 * 10000, 1.001);

    /* few rows: those experts are read that any of 2 x 16 rows chose */
    WITHIN((double)decode_part(PL_COST_EXPERT, 16, 1024),
           (1 - 0.3621) * 75 * 16 * 3 * 2048 * 6144 / 4320, 1.01);
}
END_TEST

/* Attention and its weights shrink with the GPUs of a home, but what each does
 * alone does not. */
START_TEST(laws_of_homes)
{
    double last = 1e18;

    for (int32_t tp = 1; tp <= 16; tp *= 2) {
        double project;

        prepare_homes(tp);
        project = (double)decode_part(PL_COST_PROJECT, 1, 4096);
        ck_assert_double_lt(project, last);
        ck_assert_double_gt(project, last > 1e17 ? 0 : last / 2);
        last = project;
        /* the sum brings experts' rows back where a home has all experts */
        ck_assert((decode_part(PL_COST_EXCHANGE, 8, 4096) == 0) == (tp == 16));
        ck_assert((decode_part(PL_COST_REDUCE, 8, 4096) == 0) == (tp == 1));
    }
    /* experts of decode over other GPUs than those of prefill */
    prepare_homes(1);
    last                 = (double)part_of(PL_COST_EXPERT, 0, 16);
    RIG.params.decode_ep = 256;
    ck_assert_double_eq((double)part_of(PL_COST_EXPERT, 0, 16), last);
    ck_assert_int_lt(decode_part(PL_COST_EXPERT, 2, 4096),
                     part_of(PL_COST_EXPERT, 0, 16));
    /* over nodes, sums go by the network */
    prepare_homes(8);
    last = (double)decode_part(PL_COST_REDUCE, 4096, 1024);
    prepare_homes(16);
    ck_assert_double_gt((double)decode_part(PL_COST_REDUCE, 4096, 1024), last);
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

/* On top of whatever was measured: every part of a step by its own factor. */
START_TEST(a_fit_scales_all_parts)
{
    static pl_measured_t measured;
    pl_costs_t plain, fitted;
    int64_t context = 32 * 8192;

    prepare("GLM-5.2", "H200", 8);
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
    tcase_add_test(tcase, prefill_of_long_prompts);
    tcase_add_test(tcase, throughput_of_a_large_deployment);
    tcase_add_test(tcase, parts_by_hand);
    tcase_add_test(tcase, sums_over_gpus);
    tcase_add_test(tcase, parts_of_a_home_by_hand);
    tcase_add_test(tcase, laws_of_homes);
    tcase_add_test(tcase, laws);
    tcase_add_test(tcase, cpus);
    tcase_add_test(tcase, what_was_measured_wins);
    tcase_add_test(tcase, two_lengths_tell_context_from_the_rest);
    tcase_add_test(tcase, a_measured_prompt_scales_its_parts);
    tcase_add_test(tcase, what_is_no_measurement_is_refused);
    tcase_add_test(tcase, a_fit_scales_all_parts);
    tcase_add_test(tcase, limits_are_read);
    return tcase;
}

PL_CHECK_MAIN("costs", all())
