#include "cli/planned.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/fits.h"
#include "sim/calibrate.h"
#include "sim/costs.h"
#include "sim/presets.h"
#include "sim/size.h"

/* *preset_p: the preset of that name; NULL: it is a path. */
static pl_status_t find_preset(const pl_log_t *log, pl_preset_kind_t kind,
                               const char *option, const char *name,
                               const pl_preset_t **preset_p)
{
    const pl_preset_t *preset = pl_preset_find(kind, name);
    pl_text_t names           = {0};
    pl_status_t status        = PL_OK;

    if ((preset == NULL) && (access(name, F_OK) != 0)) {
        for (size_t i = 0; pl_preset_at(kind, i) != NULL; i++) {
            pl_text_add(&names, "%s%s", i == 0 ? "" : ", ",
                        pl_preset_at(kind, i)->name);
        }
        pl_log(log, PL_LOG_ERROR,
               "option --%s '%.200s': neither a file that is there nor one of "
               "%s",
               option, name, names.bytes == NULL ? "" : names.bytes);
        pl_text_free(&names);
        status = PL_ERR_ARGUMENT;
    }
    *preset_p = preset;
    return status;
}

pl_status_t pl_cli_read_model(const char *name, const pl_log_t *log,
                              pl_model_config_t *model_p, const char **shown_p)
{
    const pl_preset_t *preset = NULL;

    if (name == NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --model is missing; give a config.json, or a name such "
               "as GLM-5.2");
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(find_preset(log, PL_PRESET_MODEL, "model", name, &preset));
    *shown_p = preset == NULL ? name : preset->name;
    if (preset == NULL) {
        return pl_model_config_read(name, log, model_p);
    }
    return pl_model_config_parse(preset->name, (const char *)preset->text,
                                 preset->n_bytes, log, model_p);
}

pl_status_t pl_cli_read_hardware(const char *name, const pl_log_t *log,
                                 pl_hardware_t *hardware_p)
{
    const pl_preset_t *preset = NULL;

    if (name == NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --hardware is missing; give a name such as H200, or a "
               "file");
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(find_preset(log, PL_PRESET_HARDWARE, "hardware", name, &preset));
    if (preset == NULL) {
        return pl_hardware_read(name, log, hardware_p);
    }
    return pl_hardware_parse(preset->name, (const char *)preset->text,
                             preset->n_bytes, log, hardware_p);
}

/* ---- the cost table ---- */

bool pl_cli_is_planned(const pl_options_t *options)
{
    return options->hardware != NULL;
}

/* GPUs that hold experts of an instance and are not in it stand in no sum. */
static void note_others(const pl_options_t *o, const pl_log_t *log,
                        const pl_cli_gpus_t *gpus)
{
    int64_t least = gpus->prefill;

    if ((gpus->decode > 0) && (gpus->decode < least)) {
        least = gpus->decode;
    }
    if ((o->ep > least) && !o->is_again) {
        pl_log(log, PL_LOG_WARN,
               "option --ep %" PRId64 ": the experts lie over %" PRId64
               " GPUs, of which those that %s together are %" PRId64
               "; the others are not counted in gpus",
               o->ep, o->ep, least < gpus->prefill ? "decode" : "prefill",
               least);
    }
}

/* Experts over all GPUs of an instance, if nothing else is said. */
static pl_status_t settle_ep(const pl_options_t *o, const pl_log_t *log,
                             const pl_cli_gpus_t *gpus, pl_costs_params_t *p)
{
    int64_t experts = p->model->n_experts > 0 ? p->model->n_experts : 1;
    int64_t prefill = o->ep > 0 ? o->ep : gpus->prefill;
    int64_t decode  = o->ep > 0 ? o->ep : gpus->decode;

    if (o->ep > experts) {
        pl_log(log, PL_LOG_ERROR,
               "option --ep %" PRId64 ": the model has %" PRId64
               " experts; use that or fewer",
               o->ep, experts);
        return PL_ERR_ARGUMENT;
    }
    note_others(o, log, gpus);
    p->prefill_ep = (int32_t)(prefill < experts ? prefill : experts);
    p->decode_ep  = (int32_t)(decode < experts ? decode : experts);
    return PL_OK;
}

/* The layer that drafts lies behind the model's, with an indexer of its own. */
static pl_status_t add_draft(const pl_options_t *o, const pl_log_t *log,
                             pl_model_config_t *model)
{
    if (o->mtp_tokens == 0) {
        return PL_OK;
    }
    if (model->n_layers == PL_MAX_LAYERS) {
        pl_log(log, PL_LOG_ERROR,
               "option --mtp: the layer that drafts is one more than the "
               "model's %d, and as many are possible; leave it out",
               (int)model->n_layers);
        return PL_ERR_ARGUMENT;
    }
    model->full_indexer[model->n_layers] = true;
    return PL_OK;
}

/* Layers of drafts whose KV goes along with pages. */
static int32_t kept_drafts(const pl_options_t *o)
{
    return (o->mtp_tokens > 0) && (o->mtp_kv == PL_OPT_MTP_KEPT) ? 1 : 0;
}

static pl_status_t derive(const pl_options_t *o, const pl_log_t *log,
                          const pl_cli_gpus_t *gpus,
                          const pl_model_config_t *model,
                          pl_run_params_t *params)
{
    pl_hardware_t hardware   = {0};
    pl_measured_t measured   = {0};
    pl_engine_config_t *e    = &params->engine;
    pl_costs_params_t derive = {
        .model        = model,
        .hardware     = &hardware,
        .measured     = &measured,
        .n_prefill    = e->n_prefill,
        .n_decode     = e->n_decode,
        .decode_tp    = gpus->home,
        .page_tokens  = e->page_tokens,
        .draft_tokens = o->mtp_tokens,
        .ownership    = e->ownership.kind,
        .ahead        = o->materialize == PL_OPT_MATERIALIZE_AHEAD,
        .kv_dtype     = (pl_kv_dtype_t)o->kv_dtype,
        .weight_dtype =
            o->weight_dtype == PL_OPT_WEIGHTS_FP8 ? PL_F8_E4M3 : PL_BF16};
    pl_store_layout_t layout =
        pl_model_layout(model, derive.kv_dtype, e->page_tokens);
    int32_t drafts = kept_drafts(o);

    layout.n_layers += drafts;
    PL_TRY(pl_cli_read_hardware(o->hardware, log, &hardware));
    if (o->calibrate != NULL) {
        PL_TRY(pl_calibrate_read(o->calibrate, log, &measured));
    }
    if (o->prefill_millionths > 0) {
        measured.fit.prefill_millionths = o->prefill_millionths;
        measured.fit.decode_millionths  = o->decode_millionths;
    }
    derive.draft_prompts =
        (o->mtp_tokens > 0) &&
        ((o->mtp_kv == PL_OPT_MTP_KEPT) || (e->n_decode == 0));
    PL_TRY(settle_ep(o, log, gpus, &derive));
    if (o->executor == PL_OPT_EXECUTOR_COST) {
        params->layout = layout;
    }
    e->page_bytes =
        pl_size_page_bytes(model, derive.kv_dtype, e->page_tokens, drafts);
    e->rank_page_bytes =
        e->ownership.kind == PL_OWNERSHIP_LAYER
            ? pl_size_run_bytes(model, derive.kv_dtype, e->page_tokens, drafts,
                                e->n_prefill)
            : e->page_bytes;
    if (o->executor == PL_OPT_EXECUTOR_COST) {
        PL_TRY(pl_cli_fit(o, log, &derive, e));
    }
    return pl_costs_derive(&derive, &e->costs);
}

pl_status_t pl_cli_plan(const pl_options_t *options, const pl_log_t *log,
                        const pl_cli_gpus_t *gpus, pl_model_config_t *model,
                        pl_run_params_t *params)
{
    int32_t ranks          = params->engine.n_prefill;
    pl_cli_gpus_t of_group = {.prefill = ranks, .decode = ranks, .home = 1};
    const char *shown      = NULL;

    if (!pl_cli_is_planned(options)) {
        return PL_OK;
    }
    PL_TRY(pl_cli_read_model(options->model, log, model, &shown));
    PL_TRY(add_draft(options, log, model));
    return derive(options, log, gpus == NULL ? &of_group : gpus, model, params);
}
