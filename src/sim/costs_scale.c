/* What was measured scales the table: parts of a prompt, decode, all of it. */
#include <stdlib.h>
#include <string.h>

#include "sim/costs.h"
#include "sim/costs_reckon.h"
#include "sim/least.h"

/* What grows alike: each of these has a factor of its own. */
enum { G_STEP, G_ROW, G_KEY, G_CONTEXT, G_VIEW, GROUPS };

/* Samples that can tell groups apart. */
enum { FEWEST_SAMPLES = GROUPS + 1 };

static int group_of(int part)
{
    switch (part) {
    case PL_COST_LAUNCH:
        return G_STEP;
    case PL_COST_ATTEND:
        return G_KEY;
    case PL_COST_INDEX:
    case PL_COST_TOPK:
        return G_CONTEXT;
    case PL_COST_MATERIALIZE:
        return G_VIEW;
    default:
        return G_ROW;
    }
}

/* ---- scaling ---- */

/* Of a share in millionths. */
static int64_t scaled(int64_t value, int64_t millionths)
{
    return value / 1000000 * millionths +
           value % 1000000 * millionths / 1000000;
}

/* What a part takes per row, and with `all` also once a step. */
static void scale(pl_cost_rate_t *rate, double by, bool all)
{
    int64_t millionths = (int64_t)(by * 1e6 + 0.5);

    rate->row_ps     = scaled(rate->row_ps, millionths);
    rate->context_ps = scaled(rate->context_ps, millionths);
    rate->key_ps     = scaled(rate->key_ps, millionths);
    rate->quick_ps   = scaled(rate->quick_ps, millionths);
    if (all) {
        rate->step_ns   = scaled(rate->step_ns, millionths);
        rate->floor_ns  = scaled(rate->floor_ns, millionths);
        rate->view_ps   = scaled(rate->view_ps, millionths);
        rate->before_ps = scaled(rate->before_ps, millionths);
        rate->quick_ns  = scaled(rate->quick_ns, millionths);
    }
}

static void scale_both(pl_costs_t *costs, int part, double by, bool all)
{
    scale(&costs->prefill[part], by, all);
    scale(&costs->decode[part], by, all);
    scale(&costs->draft[part], by, all);
    scale(&costs->draft_prompt[part], by, all);
}

/* Where no floor was told apart, the step's own time has them in it. */
static void drop_floors(pl_costs_t *costs)
{
    for (int i = 0; i < PL_COST_PARTS; i++) {
        costs->prefill[i].floor_ns = 0;
        costs->decode[i].floor_ns  = 0;
        costs->draft[i].floor_ns   = 0;

        costs->draft_prompt[i].floor_ns = 0;
    }
}

/* ---- what the table says of a measured prompt ---- */

/* A tiny model on large hardware takes less than a ns here and there: reckoned
 * so many times over, nothing is lost by rounding. */
enum { OVER = 1000 };

/* Floors, which may be large, are to be none. */
static void repeat(pl_cost_rate_t rates[PL_COST_PARTS])
{
    for (int i = 0; i < PL_COST_PARTS; i++) {
        rates[i].step_ns *= OVER;
        rates[i].row_ps *= OVER;
        rates[i].context_ps *= OVER;
        rates[i].key_ps *= OVER;
        rates[i].view_ps *= OVER;
        rates[i].before_ps *= OVER;
    }
}

/* By the table of as many layers on as many ranks, each with all experts, as
 * the runtime has them. */
static pl_status_t reckon_as(const pl_costs_params_t *params,
                             const pl_measured_prompt_t *prompt,
                             pl_costs_t *costs_p)
{
    pl_costs_params_t p      = *params;
    pl_model_config_t *model = malloc(sizeof(*model));
    pl_status_t status;

    if (model == NULL) {
        return PL_ERR_MEMORY;
    }
    *model = *params->model;
    if (prompt->layers < model->n_layers) {
        model->n_layers = prompt->layers;
    }
    p.model         = model;
    p.n_prefill     = prompt->ranks;
    p.prefill_ep    = 1;
    p.decode_ep     = 1;
    p.decode_tp     = 1;
    p.draft_tokens  = 0;
    p.draft_prompts = false;
    p.ownership     = PL_OWNERSHIP_ZIGZAG;
    p.ahead         = false;
    status          = pl_costs_reckon(&p, costs_p);
    free(model);
    if (status == PL_OK) {
        costs_p->page_tokens = prompt->page_tokens;
    }
    return status;
}

static void sum_chunks(const pl_costs_t *costs,
                       const pl_measured_prompt_t *prompt,
                       double parts_ns[PL_COST_PARTS])
{
    memset(parts_ns, 0, PL_COST_PARTS * sizeof(*parts_ns));
    for (int32_t at = prompt->hit_tokens; at < prompt->tokens;
         at += prompt->chunk_tokens) {
        int64_t parts[PL_COST_PARTS];
        int32_t n = prompt->tokens - at < prompt->chunk_tokens
                        ? prompt->tokens - at
                        : prompt->chunk_tokens;

        (void)pl_cost_chunk_ns(costs, prompt->ranks, at, n, parts);
        for (int i = 0; i < PL_COST_PARTS; i++) {
            parts_ns[i] += (double)parts[i];
        }
    }
}

static pl_status_t reckon_prompt(const pl_costs_params_t *params,
                                 const pl_measured_prompt_t *prompt,
                                 double parts_ns[PL_COST_PARTS])
{
    pl_costs_t costs;

    PL_TRY(reckon_as(params, prompt, &costs));
    sum_chunks(&costs, prompt, parts_ns);
    return PL_OK;
}

/* ---- two lengths ---- */

static bool grows_with_context(int part)
{
    return group_of(part) == G_CONTEXT;
}

/* What a prompt is reckoned to take: [1] in parts that grow with the context,
 * [0] in all others. */
static pl_status_t reckon_halves(const pl_costs_params_t *params,
                                 const pl_measured_prompt_t *prompt,
                                 double halves[2])
{
    double parts_ns[PL_COST_PARTS];

    PL_TRY(reckon_prompt(params, prompt, parts_ns));
    halves[0] = 0;
    halves[1] = 0;
    for (int i = 0; i < PL_COST_PARTS; i++) {
        halves[grows_with_context(i) ? 1 : 0] += parts_ns[i];
    }
    return PL_OK;
}

/* Two lengths tell what grows with the context from all else: one factor each,
 * so that both times come out.  Of one length, or where no two positive factors
 * do, one factor for all by the longest. */
static pl_status_t scale_by_times(const pl_costs_params_t *params,
                                  const pl_measured_t *m, pl_costs_t *costs)
{
    double a[2], b[2];
    double t           = (double)m->prompt.total_ns;
    double u           = (double)m->shorter.total_ns;
    double rest        = 0;
    double context     = 0;
    double determinant = 0;

    PL_TRY(reckon_halves(params, &m->prompt, a));
    PL_TRY(reckon_halves(params, &m->shorter, b));
    determinant = a[0] * b[1] - a[1] * b[0];
    if (determinant != 0) {
        rest    = (t * b[1] - u * a[1]) / determinant;
        context = (a[0] * u - b[0] * t) / determinant;
    }
    if (!(rest > 0) || !(context > 0)) {
        rest    = t / (a[0] + a[1]);
        context = rest;
    }
    for (int i = 0; i < PL_COST_PARTS; i++) {
        scale_both(costs, i, grows_with_context(i) ? context : rest, true);
    }
    return PL_OK;
}

/* ---- many samples ---- */

/* While a prompt is computed its home takes in the chunks before the last two
 * (a transfer begins in the tick after the chunk's, and has come in the one
 * after that). */
static double took_in(const pl_costs_t *costs,
                      const pl_measured_prompt_t *sample)
{
    int32_t n =
        (sample->tokens - sample->hit_tokens - 1) / sample->chunk_tokens + 1;

    return n <= 2 ? 0
                  : (double)(n - 2) *
                        (double)pl_cost_take_in_ns(costs, sample->chunk_tokens);
}

static pl_least_row_t row_of(const pl_costs_t *costs,
                             const pl_measured_prompt_t *sample)
{
    pl_least_row_t row = {.wanted = (double)sample->total_ns,
                          .unit   = (double)sample->total_ns};

    row.wanted -= took_in(costs, sample);
    return row;
}

static void fill_row(const pl_costs_t *costs,
                     const pl_measured_prompt_t *sample, pl_least_row_t *row)
{
    double parts_ns[PL_COST_PARTS];

    sum_chunks(costs, sample, parts_ns);
    for (int i = 0; i < PL_COST_PARTS; i++) {
        row->columns[group_of(i)] += parts_ns[i] / OVER;
    }
}

/* One factor for each group of parts, by all samples. */
static pl_status_t scale_by_samples(const pl_costs_params_t *params,
                                    const pl_measured_t *m, pl_costs_t *costs)
{
    pl_least_row_t rows[PL_MEASURED_SAMPLES];
    double factors[PL_LEAST_COLUMNS];

    for (int32_t i = 0; i < m->n_samples; i++) {
        pl_costs_t reckoned;

        PL_TRY(reckon_as(params, &m->samples[i], &reckoned));
        drop_floors(&reckoned);
        repeat(reckoned.prefill);
        rows[i] = row_of(costs, &m->samples[i]);
        fill_row(&reckoned, &m->samples[i], &rows[i]);
    }
    pl_least_squares(rows, (size_t)m->n_samples, factors);
    drop_floors(costs);
    for (int i = 0; i < PL_COST_PARTS; i++) {
        scale_both(costs, i, factors[group_of(i)], true);
    }
    return PL_OK;
}

/* ---- parts that a GPU's clock told apart ---- */

/* 0: it was not. */
static double told_factor(const pl_measured_prompt_t *prompt,
                          const double parts_ns[PL_COST_PARTS], int part)
{
    return (prompt->part_ns[part] > 0) && (parts_ns[part] > 0)
               ? (double)prompt->part_ns[part] / parts_ns[part]
               : 0;
}

/* What the parts told apart leave of a sample: for launches, for views, and for
 * what comes with each row besides (as if the projections took longer). */
static pl_status_t fill_rest(const pl_costs_params_t *params,
                             const pl_measured_prompt_t *sample,
                             const double told[PL_COST_PARTS],
                             pl_least_row_t *row)
{
    pl_costs_t costs;
    double parts_ns[PL_COST_PARTS];

    PL_TRY(reckon_as(params, sample, &costs));
    for (int i = 0; i < PL_COST_PARTS; i++) {
        scale(&costs.prefill[i], told[i] > 0 ? told[i] : 1, false);
    }
    sum_chunks(&costs, sample, parts_ns);
    for (int i = 0; i < PL_COST_PARTS; i++) {
        if ((i == PL_COST_LAUNCH) || (i == PL_COST_MATERIALIZE)) {
            row->columns[group_of(i)] += parts_ns[i];
        } else {
            row->wanted -= parts_ns[i];
        }
    }
    costs.prefill[PL_COST_PROJECT].floor_ns = 0;
    sum_chunks(&costs, sample, parts_ns);
    row->columns[G_ROW] = parts_ns[PL_COST_PROJECT];
    return PL_OK;
}

static pl_status_t scale_rest(const pl_costs_params_t *params,
                              const pl_measured_t *m,
                              const double told[PL_COST_PARTS],
                              pl_costs_t *costs)
{
    pl_least_row_t rows[PL_MEASURED_SAMPLES];
    double factors[PL_LEAST_COLUMNS];

    if (m->n_samples < FEWEST_SAMPLES) {
        return PL_OK;
    }
    for (int32_t i = 0; i < m->n_samples; i++) {
        rows[i] = row_of(costs, &m->samples[i]);
        PL_TRY(fill_rest(params, &m->samples[i], told, &rows[i]));
    }
    pl_least_squares(rows, (size_t)m->n_samples, factors);
    scale_both(costs, PL_COST_LAUNCH, factors[G_STEP], true);
    scale_both(costs, PL_COST_MATERIALIZE, factors[G_VIEW], true);
    scale_both(costs, PL_COST_PROJECT, 1 + factors[G_ROW], false);
    return PL_OK;
}

/* Each part that was told apart by its own measure, decode's by the same. */
static pl_status_t scale_by_parts(const pl_costs_params_t *params,
                                  const pl_measured_t *m, pl_costs_t *costs)
{
    double parts_ns[PL_COST_PARTS];
    double told[PL_COST_PARTS];

    PL_TRY(reckon_prompt(params, &m->prompt, parts_ns));
    for (int i = 0; i < PL_COST_PARTS; i++) {
        told[i] = told_factor(&m->prompt, parts_ns, i);
        scale_both(costs, i, told[i] > 0 ? told[i] : 1, false);
    }
    return scale_rest(params, m, told, costs);
}

static bool is_told_apart(const pl_measured_prompt_t *prompt)
{
    int64_t told = 0;

    for (int i = 0; i < PL_COST_PARTS; i++) {
        told += prompt->part_ns[i];
    }
    return told > 0;
}

/* ---- decode, as the runtime does it ---- */

/* Requests are decoded one after the other: all that a step takes it takes for
 * each of them. */
static void keep_rows_alone(pl_cost_rate_t rates[PL_COST_PARTS])
{
    for (int i = 0; i < PL_COST_PARTS; i++) {
        rates[i].floor_ns = 0;
        rates[i].step_ns  = 0;
    }
}

static void fill_step(const pl_costs_t *costs,
                      const pl_measured_prompt_t *sample, pl_least_row_t *row)
{
    int64_t parts_ns[PL_COST_PARTS];

    (void)pl_cost_decode_ns(costs, 1, sample->tokens, parts_ns);
    *row = (pl_least_row_t){.wanted = (double)sample->step_ns,
                            .unit   = (double)sample->step_ns};
    for (int i = 0; i < PL_COST_PARTS; i++) {
        row->columns[group_of(i)] += (double)parts_ns[i] / OVER;
    }
}

/* A pass that drafts is a decode step of its layer, and takes what that was
 * measured to take.  `usual`: as reckoned, before anything was scaled. */
static pl_status_t scale_decode(const pl_costs_params_t *params,
                                const pl_measured_t *m, const pl_costs_t *usual,
                                pl_costs_t *costs)
{
    pl_least_row_t rows[PL_MEASURED_SAMPLES];
    double factors[PL_LEAST_COLUMNS];
    size_t n = 0;

    for (int32_t i = 0; i < m->n_samples; i++) {
        pl_costs_t reckoned;

        if (m->samples[i].step_ns > 0) {
            PL_TRY(reckon_as(params, &m->samples[i], &reckoned));
            keep_rows_alone(reckoned.decode);
            repeat(reckoned.decode);
            fill_step(&reckoned, &m->samples[i], &rows[n++]);
        }
    }
    if (n == 0) {
        return PL_OK;
    }
    pl_least_squares(rows, n, factors);
    memcpy(costs->decode, usual->decode, sizeof(costs->decode));
    memcpy(costs->draft, usual->draft, sizeof(costs->draft));
    keep_rows_alone(costs->decode);
    keep_rows_alone(costs->draft);
    for (int i = 0; i < PL_COST_PARTS; i++) {
        scale(&costs->decode[i], factors[group_of(i)], true);
        scale(&costs->draft[i], factors[group_of(i)], true);
    }
    return PL_OK;
}

/* What a home does to take a prompt in: so much for each, and for each token of
 * so many layers. */
static void set_take_in(const pl_costs_params_t *params, pl_costs_t *costs)
{
    const pl_measured_t *m = params->measured;
    pl_least_row_t rows[PL_MEASURED_SAMPLES];
    double factors[PL_LEAST_COLUMNS];
    size_t n = 0;

    for (int32_t i = 0; i < m->n_samples; i++) {
        const pl_measured_prompt_t *sample = &m->samples[i];

        if (sample->handover_ns > 0) {
            rows[n++] = (pl_least_row_t){
                .columns = {1, (double)sample->tokens * (double)sample->layers /
                                   (double)params->model->n_layers},
                .wanted  = (double)sample->handover_ns,
                .unit    = (double)sample->handover_ns};
        }
    }
    if (n > 0) {
        pl_least_squares(rows, n, factors);
        costs->take_in_ns = (int64_t)factors[0];
        costs->take_in_ps = (int64_t)(factors[1] * 1000);
    }
}

/* ---- all of it ---- */

static pl_status_t scale_by_prompts(const pl_costs_params_t *params,
                                    pl_costs_t *costs)
{
    const pl_measured_t *m = params->measured;

    if (m->prompt.tokens == 0) {
        return PL_OK;
    }
    if (is_told_apart(&m->prompt)) {
        return scale_by_parts(params, m, costs);
    }
    return m->n_samples >= FEWEST_SAMPLES ? scale_by_samples(params, m, costs)
                                          : scale_by_times(params, m, costs);
}

/* What came out beside measured requests: on top of all else. */
static void scale_by_fit(const pl_fit_t *fit, pl_costs_t *costs)
{
    for (int i = 0; (fit->prefill_millionths > 0) && (i < PL_COST_PARTS); i++) {
        scale(&costs->prefill[i], 1e-6 * (double)fit->prefill_millionths, true);
        scale(&costs->draft_prompt[i], 1e-6 * (double)fit->prefill_millionths,
              true);
        scale(&costs->decode[i], 1e-6 * (double)fit->decode_millionths, true);
        scale(&costs->draft[i], 1e-6 * (double)fit->decode_millionths, true);
    }
}

static pl_status_t scale_all(const pl_costs_params_t *params, pl_costs_t *costs)
{
    const pl_measured_t *m = params->measured;
    pl_costs_t usual       = *costs;

    /* Measured in the runtime: its way to share out chunks comes with it. */
    if ((m->n_samples > 0) && (m->samples[0].page_tokens > 0)) {
        costs->page_tokens = params->page_tokens;
    }
    set_take_in(params, costs);
    PL_TRY(scale_by_prompts(params, costs));
    PL_TRY(scale_decode(params, m, &usual, costs));
    scale_by_fit(&m->fit, costs);
    return PL_OK;
}

pl_status_t pl_costs_derive(const pl_costs_params_t *params,
                            pl_costs_t *costs_p)
{
    PL_TRY(pl_costs_reckon(params, costs_p));
    return params->measured == NULL ? PL_OK : scale_all(params, costs_p);
}
