/* sim/costs.h beside what others measured: the rows of the table in docs/sim.md
 * are made anew, sources aside, and looked for there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs_rig.h"

/* What was measured. */
typedef enum unit {
    PROMPT_S,  /* a prompt of `tokens`, in chunks of 8,192 */
    PROMPTS_S, /* prompt tokens/s of eight GPUs with 16,384 tokens each a step,
                  in prompts of `tokens` */
    OUTPUT_S,  /* output tokens/s of eight GPUs, each a home with `rows` */
    STEP_MS,   /* a decode step of `rows` requests with `tokens` each */
    TIMES,     /* such a step with drafts, over one without */
    DISPATCH_US,
    COMBINE_US, /* of a layer, one way, `rows` a GPU */
    SUM_US      /* `rows` bf16 vectors, over the GPUs of a home */
} unit_t;

typedef struct row {
    const char *what;
    double measured;
    unit_t unit;
    const char *model, *hardware;
    int32_t cp, tp, ep; /* prefill ranks; GPUs of a home, of the experts */
    int32_t drafts, rows, tokens;
    pl_ownership_kind_t ownership;
} row_t;

/* R1 and V3 are V3.2 without an indexer: their rows attend to all tokens. */
static void set_model(const row_t *row)
{
    const char *model = row->model;
    bool is_dense = (strcmp(model, "R1") == 0) || (strcmp(model, "V3") == 0);

    prepare(strncmp(model, "GLM", 3) == 0 ? model : "DeepSeek-V3.2",
            strcmp(row->hardware, "H800") == 0 ? "H100" : row->hardware,
            row->cp > 0 ? row->cp : 1);
    if (is_dense) {
        memset(RIG.model.full_indexer, 0, sizeof(RIG.model.full_indexer));
        RIG.model.index_topk = 1 << 20;
        RIG.params.kv_dtype  = PL_KV_BF16;
    }
    /* an H100 with 400 of its 900 GB/s of NVLink */
    if (strcmp(row->hardware, "H800") == 0) {
        RIG.hardware.nvlink_bytes_per_s = 200000000000;
    }
    RIG.params.ownership    = row->ownership;
    RIG.params.draft_tokens = row->drafts;
    RIG.params.prefill_ep   = row->ep;
    RIG.params.decode_ep    = row->ep;
    if (row->tp > 0) {
        RIG.params.n_decode  = 1;
        RIG.params.decode_tp = row->tp;
    }
}

static double step_ns(const row_t *row)
{
    pl_costs_t costs = derive();

    return (double)pl_cost_decode_ns(&costs, row->rows,
                                     (int64_t)row->rows * row->tokens, NULL);
}

/* Of the prompts of a step, what comes once comes once. */
static double prompts_rate(const row_t *row)
{
    pl_costs_t costs = derive();
    double prompts   = 16384.0 / row->tokens;
    double once      = 0;
    double ns        = 0;

    for (int i = 0; i < PL_COST_PARTS; i++) {
        once += (double)costs.prefill[i].step_ns;
    }
    ns = prompts * (double)pl_cost_chunk_ns(&costs, 1, 0, row->tokens, NULL) -
         (prompts - 1) * once;
    return 8e9 * 16384 / ns;
}

/* A byte a value on the way out and two on the way back, 58 layers. */
static double exchange_us(const row_t *row, double bytes)
{
    pl_costs_t costs    = derive();
    pl_cost_rate_t rate = costs.decode[PL_COST_EXCHANGE];

    return (1e-3 * (double)rate.step_ns / 2 +
            1e-6 * (double)rate.row_ps * row->rows * bytes / 3) /
           58;
}

static double reckoned(const row_t *row)
{
    pl_costs_t costs;
    double step = 0;

    set_model(row);
    switch (row->unit) {
    case PROMPT_S:
        costs = derive();
        return seconds(&costs, row->tokens);
    case PROMPTS_S:
        return prompts_rate(row);
    case OUTPUT_S:
        return 8e9 * row->rows / step_ns(row);
    case STEP_MS:
        return 1e-6 * step_ns(row);
    case TIMES:
        step                    = step_ns(row);
        RIG.params.draft_tokens = 0;
        return step / step_ns(row);
    case DISPATCH_US:
        return exchange_us(row, 1);
    case COMBINE_US:
        return exchange_us(row, 2);
    case SUM_US:
        return 1e-3 * (double)decode_part(PL_COST_REDUCE, row->rows, 100) /
               (2 * RIG.model.n_layers);
    }
    return 0;
}

static const row_t ROWS[] = {
    {"GLM-5.2 on 8 H20-3e, CP 8: a prompt of 128K, replicated, s", 12.33,
     PROMPT_S, "GLM-5.2", "H20-3e", 8, 0, 8, 0, 0, 131072,
     PL_OWNERSHIP_REPLICATED},
    {"the same, shared, s", 12.46, PROMPT_S, "GLM-5.2", "H20-3e", 8, 0, 8, 0, 0,
     131072, PL_OWNERSHIP_ZIGZAG},
    {"a prompt of 256K, replicated, s", 27.1, PROMPT_S, "GLM-5.2", "H20-3e", 8,
     0, 8, 0, 0, 262144, PL_OWNERSHIP_REPLICATED},
    {"the same, shared, s", 27.6, PROMPT_S, "GLM-5.2", "H20-3e", 8, 0, 8, 0, 0,
     262144, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-V3 on H100, experts over 32: prompts of 1K, tokens/s of 8",
     57674, PROMPTS_S, "V3", "H100", 1, 0, 32, 0, 0, 1024, PL_OWNERSHIP_ZIGZAG},
    {"the same, prompts of 2K", 54543, PROMPTS_S, "V3", "H100", 1, 0, 32, 0, 0,
     2048, PL_OWNERSHIP_ZIGZAG},
    {"experts over 72: 256 requests of 2K each, output tokens/s of 8", 22282,
     OUTPUT_S, "V3", "H100", 1, 1, 72, 0, 256, 2050, PL_OWNERSHIP_ZIGZAG},
    {"the same, one batch at a time", 17777, OUTPUT_S, "V3", "H100", 1, 1, 72,
     0, 256, 2050, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-V3 on H800, experts over 128: 128 requests of 4K each", 18598,
     OUTPUT_S, "V3", "H800", 1, 1, 128, 0, 128, 4096, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-V3 on H200, experts over 16: a step of 2 requests of 66K each, "
     "ms",
     33.1, STEP_MS, "V3", "H200", 1, 1, 16, 0, 2, 67584, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-R1 on 8 H200, TP 8, EP 8: a step of 1 request, ms", 11.0,
     STEP_MS, "R1", "H200", 1, 8, 8, 0, 1, 1900, PL_OWNERSHIP_ZIGZAG},
    {"the same, 8 requests", 16.42, STEP_MS, "R1", "H200", 1, 8, 8, 0, 8, 1900,
     PL_OWNERSHIP_ZIGZAG},
    {"the same GPUs, TP 8: 8 requests", 12.8, STEP_MS, "R1", "H200", 1, 8, 8, 0,
     8, 1536, PL_OWNERSHIP_ZIGZAG},
    {"the same, 16 requests", 17.2, STEP_MS, "R1", "H200", 1, 8, 8, 0, 16, 1536,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, 32 requests", 25.6, STEP_MS, "R1", "H200", 1, 8, 8, 0, 32, 1536,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, 64 requests", 34.6, STEP_MS, "R1", "H200", 1, 8, 8, 0, 64, 1536,
     PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-R1 on 8 B200, TP 8: 1 request", 9.15, STEP_MS, "R1", "B200", 1,
     8, 8, 0, 1, 820, PL_OWNERSHIP_ZIGZAG},
    {"the same, 14 requests", 14.7, STEP_MS, "R1", "B200", 1, 8, 8, 0, 14, 750,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, 57 requests", 25.37, STEP_MS, "R1", "B200", 1, 8, 8, 0, 57,
     2530, PL_OWNERSHIP_ZIGZAG},
    {"the same, 92 requests", 26.36, STEP_MS, "R1", "B200", 1, 8, 8, 0, 92, 750,
     PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-R1 on 16 H100 of two nodes, TP 16: 1 request", 23.3, STEP_MS,
     "R1", "H100", 1, 16, 16, 0, 1, 2112, PL_OWNERSHIP_ZIGZAG},
    {"GLM-5.2 on 8 H200, TP 8: 1 request", 19.0, STEP_MS, "GLM-5.2", "H200", 1,
     8, 8, 0, 1, 2000, PL_OWNERSHIP_ZIGZAG},
    {"the same, a step with K = 5", 17.7, STEP_MS, "GLM-5.2", "H200", 1, 8, 8,
     5, 1, 8704, PL_OWNERSHIP_ZIGZAG},
    {"GLM-5.2 on 8 B200, TP 8: a step with K = 5", 11.3, STEP_MS, "GLM-5.2",
     "B200", 1, 8, 8, 5, 1, 8704, PL_OWNERSHIP_ZIGZAG},
    {"GLM-5 on 8 H200, TP 8: a step with K = 3", 26.2, STEP_MS, "GLM-5", "H200",
     1, 8, 8, 3, 1, 820, PL_OWNERSHIP_ZIGZAG},
    {"GLM-5 on 8 B200, TP 8: 1 request", 20.2, STEP_MS, "GLM-5", "B200", 1, 8,
     8, 0, 1, 820, PL_OWNERSHIP_ZIGZAG},
    {"the same, a step with K = 3", 27.1, STEP_MS, "GLM-5", "B200", 1, 8, 8, 3,
     1, 820, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-V3.2 on 8 B200, TP 8: a step with K = 3", 22.4, STEP_MS, "V3.2",
     "B200", 1, 8, 8, 3, 1, 340, PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-R1 on 8 B200, TP 8: a step with K = 1 over one without", 1.076,
     TIMES, "R1", "B200", 1, 8, 8, 1, 1, 2048, PL_OWNERSHIP_ZIGZAG},
    {"the same, K = 3", 1.237, TIMES, "R1", "B200", 1, 8, 8, 3, 1, 2048,
     PL_OWNERSHIP_ZIGZAG},
    {"DeepSeek-V3 on H800: dispatch of 128 rows each to 8 ranks, us", 77,
     DISPATCH_US, "V3", "H800", 1, 1, 8, 0, 128, 0, PL_OWNERSHIP_ZIGZAG},
    {"the same, to 16", 118, DISPATCH_US, "V3", "H800", 1, 1, 16, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, to 32", 155, DISPATCH_US, "V3", "H800", 1, 1, 32, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, to 64", 173, DISPATCH_US, "V3", "H800", 1, 1, 64, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, to 128", 192, DISPATCH_US, "V3", "H800", 1, 1, 128, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, to 256", 194, DISPATCH_US, "V3", "H800", 1, 1, 256, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"combination from 8 ranks, us", 114, COMBINE_US, "V3", "H800", 1, 1, 8, 0,
     128, 0, PL_OWNERSHIP_ZIGZAG},
    {"the same, from 16", 195, COMBINE_US, "V3", "H800", 1, 1, 16, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, from 32", 273, COMBINE_US, "V3", "H800", 1, 1, 32, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, from 64", 314, COMBINE_US, "V3", "H800", 1, 1, 64, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, from 128", 369, COMBINE_US, "V3", "H800", 1, 1, 128, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, from 256", 360, COMBINE_US, "V3", "H800", 1, 1, 256, 0, 128, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"a sum over 6 H100 of 0.5 MiB, us", 13, SUM_US, "GLM-5.2", "H100", 1, 6, 6,
     0, 43, 0, PL_OWNERSHIP_ZIGZAG},
    {"the same, of 2 MiB", 21, SUM_US, "GLM-5.2", "H100", 1, 6, 6, 0, 171, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, of 4 MiB", 31, SUM_US, "GLM-5.2", "H100", 1, 6, 6, 0, 341, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"a sum over 8 H200 of 16 KiB, us", 5.7, SUM_US, "V3", "H200", 1, 8, 8, 0,
     1, 0, PL_OWNERSHIP_ZIGZAG},
    {"the same, of 128 KiB", 9.9, SUM_US, "V3", "H200", 1, 8, 8, 0, 9, 0,
     PL_OWNERSHIP_ZIGZAG},
    {"the same, of 1 MiB", 18.4, SUM_US, "V3", "H200", 1, 8, 8, 0, 73, 0,
     PL_OWNERSHIP_ZIGZAG},
};

/* With commas, and as many digits as were measured. */
static void write_number(char text[32], double value, unit_t unit)
{
    static const int DIGITS[] = {
        [PROMPT_S] = 2, [PROMPTS_S] = 0,   [OUTPUT_S] = 0,   [STEP_MS] = 1,
        [TIMES] = 2,    [DISPATCH_US] = 0, [COMBINE_US] = 0, [SUM_US] = 1};

    if (value < 1000) {
        (void)snprintf(text, 32, "%.*f", DIGITS[unit], value);
    } else {
        (void)snprintf(text, 32, "%d,%03d", (int)(value + 0.5) / 1000,
                       (int)(value + 0.5) % 1000);
    }
}

static char *read_doc(void)
{
    FILE *file = fopen(PL_SOURCE_DIR "/docs/sim.md", "rb");
    char *text = calloc(1, 1 << 20);

    ck_assert(file != NULL && text != NULL);
    ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
    (void)fclose(file);
    return text;
}

/* 1 if the text has no such line, which is shown. */
static int looked_for(const char *text, const char *line)
{
    if (strstr(text, line) != NULL) {
        return 0;
    }
    (void)fprintf(stderr, "docs/sim.md lacks: %s\n", line);
    return 1;
}

/* Prompts and steps, or parts of a step. */
static bool is_whole(const row_t *row)
{
    return row->unit < DISPATCH_US;
}

START_TEST(the_table_is_what_the_model_says)
{
    char *text    = read_doc();
    double off[2] = {0, 0};
    int n[2]      = {0, 0};
    int missing   = 0;
    char line[256], measured[32], here[32];

    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
        double value   = reckoned(&ROWS[i]);
        double percent = 100 * (value / ROWS[i].measured - 1);

        off[is_whole(&ROWS[i])] += fabs(percent);
        n[is_whole(&ROWS[i])]++;
        write_number(measured, ROWS[i].measured, ROWS[i].unit);
        write_number(here, value, ROWS[i].unit);
        (void)snprintf(line, sizeof(line), "\n| %s | %s | %s | %+.0f %% |",
                       ROWS[i].what, measured, here, percent);
        missing += looked_for(text, line);
    }
    (void)snprintf(
        line, sizeof(line),
        "The mean error of prompts and steps is %.1f %%, of exchanges"
        " and sums %.1f %%.",
        off[1] / n[1], off[0] / n[0]);
    missing += looked_for(text, line);
    free(text);
    ck_assert_int_eq(missing, 0);
    ck_assert_double_lt(off[1] / n[1], 15);
    ck_assert_double_lt(off[0] / n[0], 7);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("costs_published");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, the_table_is_what_the_model_says);
    return tcase;
}

PL_CHECK_MAIN("costs_published", all())
