/* What was measured scales the table: parts of a prompt, and all of it. */
#include <stdlib.h>
#include <string.h>

#include "sim/costs.h"
#include "sim/costs_reckon.h"

/* ---- a prompt that was measured ---- */

/* Of a share in millionths. */
static int64_t scaled(int64_t value, int64_t millionths)
{
    return value / 1000000 * millionths +
           value % 1000000 * millionths / 1000000;
}

/* What a part takes per row, and with `all` also once a step. */
static void scale(pl_cost_rate_t *rate, int64_t millionths, bool all)
{
    rate->row_ps     = scaled(rate->row_ps, millionths);
    rate->context_ps = scaled(rate->context_ps, millionths);
    rate->key_ps     = scaled(rate->key_ps, millionths);
    if (all) {
        rate->step_ns   = scaled(rate->step_ns, millionths);
        rate->floor_ns  = scaled(rate->floor_ns, millionths);
        rate->view_ps   = scaled(rate->view_ps, millionths);
        rate->before_ps = scaled(rate->before_ps, millionths);
    }
}

/* The parts of that prompt by the table of as many layers on as many ranks,
 * each with all experts, as the runtime has them. */
static pl_status_t reckon_prompt(const pl_costs_params_t *params,
                                 const pl_measured_prompt_t *prompt,
                                 int64_t parts_ns[PL_COST_PARTS])
{
    pl_costs_params_t p      = *params;
    pl_model_config_t *model = malloc(sizeof(*model));
    pl_costs_t costs;
    pl_status_t status;

    if (model == NULL) {
        return PL_ERR_MEMORY;
    }
    *model = *params->model;
    if (prompt->layers < model->n_layers) {
        model->n_layers = prompt->layers;
    }
    p.model        = model;
    p.n_prefill    = prompt->ranks;
    p.prefill_ep   = 1;
    p.draft_tokens = 0;
    p.ownership    = PL_OWNERSHIP_ZIGZAG;
    status         = pl_costs_reckon(&p, &costs);
    free(model);
    memset(parts_ns, 0, PL_COST_PARTS * sizeof(*parts_ns));
    for (int32_t at = 0; (status == PL_OK) && (at < prompt->tokens);
         at += prompt->chunk_tokens) {
        int64_t parts[PL_COST_PARTS];
        int32_t n = prompt->tokens - at < prompt->chunk_tokens
                        ? prompt->tokens - at
                        : prompt->chunk_tokens;

        (void)pl_cost_chunk_ns(&costs, prompt->ranks, at, n, parts);
        for (int i = 0; i < PL_COST_PARTS; i++) {
            parts_ns[i] += parts[i];
        }
    }
    return status;
}

static bool grows_with_context(int part)
{
    return (part == PL_COST_INDEX) || (part == PL_COST_TOPK);
}

static void scale_both(pl_costs_t *costs, int part, double by, bool all)
{
    int64_t millionths = (int64_t)(by * 1e6 + 0.5);

    scale(&costs->prefill[part], millionths, all);
    scale(&costs->decode[part], millionths, all);
    scale(&costs->draft[part], millionths, all);
}

/* What a prompt is reckoned to take: [1] in parts that grow with the context,
 * [0] in all others. */
static pl_status_t reckon_halves(const pl_costs_params_t *params,
                                 const pl_measured_prompt_t *prompt,
                                 double halves[2])
{
    int64_t parts_ns[PL_COST_PARTS];

    PL_TRY(reckon_prompt(params, prompt, parts_ns));
    halves[0] = 0;
    halves[1] = 0;
    for (int i = 0; i < PL_COST_PARTS; i++) {
        halves[grows_with_context(i) ? 1 : 0] += (double)parts_ns[i];
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

/* Each part that was told apart by its own measure, decode's by the same. */
static pl_status_t scale_by_parts(const pl_costs_params_t *params,
                                  const pl_measured_prompt_t *prompt,
                                  pl_costs_t *costs)
{
    int64_t parts_ns[PL_COST_PARTS];

    PL_TRY(reckon_prompt(params, prompt, parts_ns));
    for (int i = 0; i < PL_COST_PARTS; i++) {
        if ((prompt->part_ns[i] > 0) && (parts_ns[i] > 0)) {
            scale_both(costs, i,
                       (double)prompt->part_ns[i] / (double)parts_ns[i], false);
        }
    }
    return PL_OK;
}

static bool is_told_apart(const pl_measured_prompt_t *prompt)
{
    int64_t told = 0;

    for (int i = 0; i < PL_COST_PARTS; i++) {
        told += prompt->part_ns[i];
    }
    return told > 0;
}

/* What came out beside measured requests: on top of all else. */
static void scale_by_fit(const pl_fit_t *fit, pl_costs_t *costs)
{
    for (int i = 0; (fit->prefill_millionths > 0) && (i < PL_COST_PARTS); i++) {
        scale(&costs->prefill[i], fit->prefill_millionths, true);
        scale(&costs->decode[i], fit->decode_millionths, true);
        scale(&costs->draft[i], fit->decode_millionths, true);
    }
}

static pl_status_t scale_by_prompts(const pl_costs_params_t *params,
                                    pl_costs_t *costs)
{
    const pl_measured_t *measured = params->measured;

    if (measured->prompt.tokens == 0) {
        return PL_OK;
    }
    return is_told_apart(&measured->prompt)
               ? scale_by_parts(params, &measured->prompt, costs)
               : scale_by_times(params, measured, costs);
}

pl_status_t pl_costs_derive(const pl_costs_params_t *params,
                            pl_costs_t *costs_p)
{
    PL_TRY(pl_costs_reckon(params, costs_p));
    if (params->measured != NULL) {
        PL_TRY(scale_by_prompts(params, costs_p));
        scale_by_fit(&params->measured->fit, costs_p);
    }
    return PL_OK;
}
