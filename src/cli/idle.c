#include "cli/idle.h"

#include <stdlib.h>
#include <string.h>

#include "cli/fleet_shape.h"
#include "cli/planned.h"
#include "cli/sweep_grid.h"

/* ---- when ---- */

static bool has_model(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.executor == PL_OPT_EXECUTOR_MODEL;
}

/* Is virtual time that of a model on some hardware? */
static bool is_planned(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return pl_cli_is_planned(&cli->options);
}

static bool is_not_planned(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return !is_planned(cli, defaults);
}

static bool has_no_model(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return !has_model(cli, defaults) && !is_planned(cli, defaults);
}

static bool has_no_bytes(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return (cli->verb->bit == PL_VERB_SIM) ||
           (cli->options.executor == PL_OPT_EXECUTOR_COST);
}

/* Are pages other ones than the stamp options say? */
static bool has_model_pages(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return has_model(cli, defaults) ||
           (is_planned(cli, defaults) && has_no_bytes(cli, defaults));
}

static bool computes_nothing(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return has_no_bytes(cli, defaults) && is_not_planned(cli, defaults);
}

static bool is_alone(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.ranks == 1;
}

/* Those asked for; one group without any. */
static pl_fleet_shape_t shape_of(const pl_cli_t *cli)
{
    const pl_options_t *o  = &cli->options;
    pl_fleet_shape_t shape = {0};

    if (!pl_fleet_is_asked(o) || (pl_fleet_shape(o, NULL, &shape) != PL_OK)) {
        shape =
            (pl_fleet_shape_t){.n_prefill = 1, .prefill_gpus = (int32_t)o->cp};
    }
    return shape;
}

static bool has_instances(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return pl_fleet_is_asked(&cli->options);
}

/* Others than these are refused. */
static bool keeps_no_events(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return has_instances(cli, defaults) &&
           (strcmp(cli->options.events_text, "off") == 0);
}

static bool has_one_lane(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->verb->bit == PL_VERB_SIM
               ? shape_of(cli).prefill_gpus <= 1
               : cli->options.ranks - cli->options.decode_ranks == 1;
}

static bool has_one_prefill(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return shape_of(cli).n_prefill == 1;
}

static bool drafts_nothing(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.mtp == NULL;
}

static bool sends_nowhere(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return shape_of(cli).n_decode == 0;
}

static bool has_no_host(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return (cli->options.host_pages == 0) && (cli->options.host_gb == 0);
}

static bool copies_all(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.write_policy != PL_OPT_WRITE_THROUGH_SELECTIVE;
}

/* Without bytes, a size alone makes one. */
static bool has_no_storage(const pl_cli_t *cli, const pl_options_t *defaults)
{
    const pl_options_t *o = &cli->options;
    bool is_sized         = (o->storage_pages != defaults->storage_pages) ||
                    (o->storage_gb != defaults->storage_gb);

    return (o->storage == NULL) && (o->from == NULL) && !is_sized;
}

static bool has_no_snapshot(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.snapshot == NULL;
}

static bool has_no_series(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.snapshot_every == NULL;
}

static bool parts_no_gpus(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return (cli->grid == NULL) || !pl_grid_parts_gpus(cli->grid);
}

static bool is_no_page(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return (cli->n_words < 2) || (strcmp(cli->words[1], "page") != 0);
}

static bool draws_nothing(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    for (size_t i = 0; i < cli->n_words; i++) {
        if (strcmp(cli->words[i], "kernels") != 0) {
            return false;
        }
    }
    return true;
}

static bool is_unpaced(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.pace == PL_OPT_PACE_NONE;
}

static bool is_churn(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return cli->options.churn.n > 0;
}

static bool has_one_turn(const pl_cli_t *cli, const pl_options_t *defaults)
{
    return is_churn(cli, defaults) ||
           (strcmp(cli->options.turns_text, "1") == 0);
}

static bool writes_no_tokens(const pl_cli_t *cli, const pl_options_t *defaults)
{
    (void)defaults;
    return strcmp(cli->options.trace_format, "tokens") != 0;
}

/* ---- which ---- */

enum { PLANS = PL_VERB_RUN | PL_VERB_SIM };

/* What instances do not have (docs/fleet.md). */
#define NO_TIER                                                                \
    "instances have no storage tier; a group of --cp and --decode-ranks may"

/* What cannot be together at all is refused (options.c); a snapshot is never
 * repaired, which check says where it finds something. */
static const pl_idle_option_t OPTIONS[] = {
    {PL_VERB_RUN, "timeout", is_alone, "one rank waits for nobody"},
    {PL_VERB_RUN, "device", has_no_bytes,
     "--executor cost has no bytes to keep"},
    {PLANS, "model", computes_nothing,
     "without --hardware none is computed, and pages are those of "
     "--stamp-layers and --stamp-row-bytes"},
    {PLANS, "ep", is_not_planned, "it is for the cost table of --hardware"},
    {PLANS, "weight-dtype", is_not_planned,
     "it is for the cost table of --hardware"},
    {PLANS, "mem-fraction", is_not_planned, "it is of --hardware"},
    {PLANS, "context", is_not_planned, "it is for what fits on --hardware"},
    {PLANS, "materialize", is_not_planned,
     "it is for the cost table of --hardware"},
    {PL_VERB_SIM, "pd-link", sends_nowhere,
     "nothing goes from instance to instance; see --decode"},
    {PL_VERB_SIM, "router", has_one_prefill,
     "there is one prefill instance; see --prefill"},
    {PL_VERB_SIM, "mtp-kv", drafts_nothing, "nothing is drafted; see --mtp"},
    {PLANS, "kv-dtype", has_no_model,
     "only a model's KV has types; add --model"},
    {PLANS, "stamp-layers", has_model_pages, "it is for runs without --model"},
    {PLANS, "stamp-row-bytes", has_model_pages,
     "it is for runs without --model"},
    {PL_VERB_SIM, "prefetch-policy", has_instances, NO_TIER},
    {PL_VERB_SIM, "prefetch-policy", has_no_storage,
     "there is no storage tier; add --storage-pages"},
    {PL_VERB_RUN, "prefetch-policy", has_no_storage,
     "there is no storage tier; add --storage or --from"},
    {PL_VERB_SIM, "prefetch-threshold", has_instances, NO_TIER},
    {PL_VERB_SIM, "prefetch-threshold", has_no_storage,
     "there is no storage tier; add --storage-pages"},
    {PL_VERB_RUN, "prefetch-threshold", has_no_storage,
     "there is no storage tier; add --storage or --from"},
    {PLANS, "ownership", has_one_lane,
     "one prefill rank has all pages by any rule"},
    {PLANS, "write-policy", has_no_host,
     "there is no host tier; see --host-pages"},
    {PLANS, "hot-threshold", has_no_host,
     "there is no host tier; see --host-pages"},
    {PLANS, "hot-threshold", copies_all,
     "it is for --write-policy write_through_selective"},
    {PLANS, "load-threshold", has_no_host,
     "there is no host tier; see --host-pages"},
    {PL_VERB_RUN, "verify", has_no_bytes,
     "--executor cost has no bytes to check"},
    {PL_VERB_SIM, "snapshot-keep", has_instances,
     "instances are written down once, at the end"},
    {PLANS, "snapshot-keep", has_no_series,
     "it is about those on the way; add --snapshot-every"},
    {PL_VERB_RUN, "tokens-out", has_no_bytes,
     "--executor cost has no tokens to write"},
    {PL_VERB_SIM, "events", keeps_no_events, "instances keep none"},
    {PLANS, "events", has_no_snapshot,
     "events go to a snapshot; add --snapshot"},
    {PL_VERB_SWEEP, "gpus", parts_no_gpus,
     "it is what --pd auto parts, and instances say their own"},
    {PL_VERB_INSPECT, "tier", is_no_page, "it is for `page G`"},
    {PL_VERB_BENCH, "seed", draws_nothing, "kernels draw nothing from it"},
    {PL_VERB_RUN, "speedup", is_unpaced, "--pace none: nobody waits"},
    {PL_VERB_TRACE_MAKE, "sessions", is_churn, "--churn makes no sessions"},
    {PL_VERB_TRACE_MAKE, "think", has_one_turn,
     "nobody waits for an answer; see --turns"},
    {PL_VERB_TRACE_CONVERT, "seed", writes_no_tokens,
     "only tokens are drawn from it; see --format"},
};

const pl_idle_option_t *pl_idle_options(size_t *n_p)
{
    *n_p = sizeof(OPTIONS) / sizeof(OPTIONS[0]);
    return OPTIONS;
}

/* ---- saying so ---- */

static const pl_option_t *find_option(const char *name)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

/* *noted: the option of the last warning, which gets no second one. */
static pl_status_t note_option(const pl_cli_t *cli,
                               const pl_idle_option_t *idle,
                               const pl_options_t *defaults, const char **noted)
{
    const pl_option_t *option = find_option(idle->option);
    char *was                 = NULL;
    char *is                  = NULL;
    pl_status_t status;

    if ((option == NULL) || ((idle->verb & cli->verb->bit) == 0) ||
        (strcmp(*noted, idle->option) == 0) || !idle->is_idle(cli, defaults)) {
        return PL_OK;
    }
    PL_TRY(pl_option_value_text(option, defaults, &was));
    status = pl_option_value_text(option, &cli->options, &is);
    if ((status == PL_OK) && (strcmp(was, is) != 0)) {
        pl_log(&cli->log, PL_LOG_WARN, "option --%s %s has no effect: %s",
               idle->option, is, idle->why);
        *noted = idle->option;
    }
    free(was);
    free(is);
    return status;
}

pl_status_t pl_idle_note(const pl_cli_t *cli)
{
    const pl_option_table_t *table = pl_options_table();
    pl_options_t defaults          = {0};
    pl_status_t status             = PL_OK;
    const char *noted              = "";

    if (pl_option_defaults(table, &defaults).verdict != PL_OPTION_OKAY) {
        status = PL_ERR_MEMORY; /* the table itself is sound */
    }
    for (size_t i = 0;
         (i < sizeof(OPTIONS) / sizeof(OPTIONS[0])) && (status == PL_OK); i++) {
        status = note_option(cli, &OPTIONS[i], &defaults, &noted);
    }
    pl_option_free(table, &defaults);
    return status;
}
