#include "cli/fits.h"

#include <inttypes.h>
#include <stdio.h>

/* GPUs of one kind, and the pool that they keep. */
typedef struct side {
    const char *where, *option;
    pl_size_params_t params;
    int ownership;  /* PL_SIZE_ */
    int32_t lanes;  /* whose pages have numbers of their own */
    int64_t wanted; /* as the option says it */
    bool is_again;  /* what does not fit was said before */
} side_t;

typedef struct sides {
    side_t prefill, decode;
    bool decodes; /* there are GPUs for it */
} sides_t;

static double gb(int64_t bytes)
{
    return (double)bytes / 1e9;
}

void pl_cli_say_missing(const pl_log_t *log, const char *where,
                        const char *options, int32_t ep,
                        const pl_size_params_t *params, const pl_size_t *size)
{
    char remedy[128] = "use hardware with more memory, or a larger "
                       "--mem-fraction";

    if (ep > 0) {
        (void)snprintf(remedy, sizeof(remedy),
                       "they fit with the experts over %d GPUs (%s)", (int)ep,
                       options);
    }
    pl_log(log, PL_LOG_ERROR,
           "the weights do not fit: %.2f GB on %s, but --mem-fraction of %.2f "
           "GB is %.2f: %.2f GB are missing; %s",
           gb(size->weight_bytes), where, gb(params->hardware->memory_bytes),
           gb(size->budget_bytes), gb(-size->kv_bytes), remedy);
}

void pl_cli_say_no_pages(const pl_log_t *log, const char *where,
                         const char *options, const pl_size_t *size,
                         int ownership)
{
    const pl_size_ownership_t *own = &size->ownership[ownership];
    char view[64]                  = "";
    bool is_shared = (ownership == PL_SIZE_SHARED) && (own->view_bytes > 0);

    if (is_shared) {
        (void)snprintf(view, sizeof(view),
                       "the view of --context takes %.2f and ",
                       gb(own->view_bytes));
    }
    pl_log(log, PL_LOG_ERROR,
           "no pages fit: the weights leave %.2f GB of %s, but %sa page %s"
           "%.4f, and two are needed; use a %s, or more GPUs (%s)",
           gb(size->kv_bytes), where, view, is_shared ? "" : "takes ",
           gb(own->page_bytes),
           is_shared ? "smaller --context" : "larger --mem-fraction", options);
}

/* Pages that fit; all ranks' must have numbers. */
static int64_t room_of(const side_t *side, const pl_size_t *size)
{
    int64_t pages = size->ownership[side->ownership].device.pages;
    int64_t most  = INT32_MAX / side->lanes;

    return pages < most ? pages : most;
}

/* Do weights and something more fit with the experts over so many? */
static bool fits_with(const side_t *side, int32_t ep)
{
    pl_size_params_t params = side->params;
    pl_size_t size;

    params.ep = ep;
    return (pl_size_make(&params, &size) == PL_OK) && (size.kv_bytes > 0);
}

/* --ep is of both sides: the least, in whole groups that prefill, with which
 * both fit; 0: none. */
static int32_t least_ep(const sides_t *sides)
{
    const pl_size_params_t *p = &sides->prefill.params;

    for (int32_t ep = p->cp; ep <= p->model->n_experts; ep += p->cp) {
        if (fits_with(&sides->prefill, ep) &&
            (!sides->decodes || fits_with(&sides->decode, ep))) {
            return ep;
        }
    }
    return 0;
}

static pl_status_t fit_side(const side_t *side, const sides_t *sides,
                            const pl_log_t *log, int32_t *pages)
{
    pl_size_t size;
    int64_t room;

    PL_TRY(pl_size_make(&side->params, &size));
    if (size.kv_bytes < 0) {
        pl_cli_say_missing(log, side->where, "--ep", least_ep(sides),
                           &side->params, &size);
        return PL_ERR_RESOURCE;
    }
    room = room_of(side, &size);
    if (side->wanted == PL_OPTION_FIT) {
        if (room < 2) {
            pl_cli_say_no_pages(log, side->where, "--ep", &size,
                                side->ownership);
            return PL_ERR_RESOURCE;
        }
        *pages = (int32_t)room;
    } else if ((side->wanted > room) && !side->is_again) {
        pl_log(log, PL_LOG_WARN,
               "option --%s %" PRId64 ": %" PRId64
               " fit beside %s on %s; use `fit`, or hardware with more memory",
               side->option, side->wanted, room,
               size.ownership[side->ownership].view_bytes > 0
                   ? "weights and view"
                   : "the weights",
               side->where);
    }
    return PL_OK;
}

static pl_size_params_t common(const pl_options_t *o,
                               const pl_costs_params_t *costs,
                               const pl_engine_config_t *engine)
{
    int64_t most = costs->model->max_positions; /* of a session */

    return (pl_size_params_t){
        .model          = costs->model,
        .hardware       = costs->hardware,
        .kv_dtype       = costs->kv_dtype,
        .weight_dtype   = costs->weight_dtype,
        .mem_billionths = o->mem_billionths,
        .context_tokens = (int32_t)(o->context < most ? o->context : most),
        .page_tokens    = engine->page_tokens};
}

static side_t prefill_side(const pl_options_t *o,
                           const pl_costs_params_t *costs,
                           const pl_engine_config_t *engine)
{
    bool drafts = (costs->draft_tokens > 0) &&
                  (!engine->mtp.loses_kv || (costs->n_decode == 0));
    side_t side = {.where =
                       costs->n_decode > 0 ? "a GPU that prefills" : "a GPU",
                   .option    = "device-pages",
                   .params    = common(o, costs, engine),
                   .ownership = pl_size_which(engine->ownership.kind),
                   .lanes     = costs->n_prefill,
                   .wanted    = o->device_pages,
                   .is_again  = o->is_again};

    side.params.cp         = costs->n_prefill;
    side.params.ep         = costs->prefill_ep;
    side.params.mtp_layers = drafts ? 1 : 0;
    return side;
}

/* A home has one pool, and each of its GPUs all of it: no view. */
static side_t decode_side(const pl_options_t *o, const pl_costs_params_t *costs,
                          const pl_engine_config_t *engine)
{
    side_t side = {.where     = "a GPU that decodes",
                   .option    = "decode-pages",
                   .params    = common(o, costs, engine),
                   .ownership = PL_SIZE_REPLICATED,
                   .lanes     = 1,
                   .wanted    = o->decode_pages,
                   .is_again  = o->is_again};

    side.params.cp         = 1;
    side.params.ep         = costs->decode_ep;
    side.params.tp         = costs->decode_tp;
    side.params.mtp_layers = costs->draft_tokens > 0 ? 1 : 0;
    return side;
}

pl_status_t pl_cli_fit(const pl_options_t *options, const pl_log_t *log,
                       const pl_costs_params_t *costs,
                       pl_engine_config_t *engine)
{
    sides_t sides = {.prefill = prefill_side(options, costs, engine),
                     .decodes = costs->n_decode > 0};

    if (sides.decodes) {
        sides.decode = decode_side(options, costs, engine);
    }
    PL_TRY(fit_side(&sides.prefill, &sides, log, &engine->device_pages));
    if (sides.decodes) {
        return fit_side(&sides.decode, &sides, log, &engine->decode_pages);
    }
    if (options->decode_pages == PL_OPTION_FIT) {
        pl_log(log, PL_LOG_ERROR,
               "option --decode-pages fit: the ranks that prefill decode too, "
               "and their memory is for --device-pages; give a number, or "
               "set others apart with --decode-ranks or --decode");
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}
