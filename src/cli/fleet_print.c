/* What a fleet came to. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/covered.h"
#include "cli/fleet.h"
#include "cli/fleet_limit.h"
#include "cli/fleet_sides.h"
#include "cli/report.h"
#include "cli/sim.h"

typedef struct telling {
    const pl_cli_t *cli;
    const pl_outcome_t *outcome;
    pl_fleet_shape_t shape;
    int32_t homes; /* of an instance that decodes */
    pl_fleet_sides_t sides;
    pl_fleet_limit_t limit;
    pl_metrics_t metrics;
    pl_detail_t detail;
    pl_covered_t covered;
} telling_t;

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double percent(double part)
{
    return 100 * part;
}

/* Options have been checked: there is a shape. */
static pl_status_t find_sides(const pl_cli_t *cli, const pl_outcome_t *outcome,
                              const pl_metrics_t *metrics,
                              pl_fleet_shape_t *shape, int32_t *homes_p,
                              pl_fleet_sides_t *sides)
{
    PL_TRY(pl_fleet_shape(&cli->options, &cli->log, shape));
    *homes_p = shape->n_decode > 0 ? shape->homes : shape->prefill_gpus;
    *sides   = pl_fleet_sides(outcome, metrics, *homes_p);
    return PL_OK;
}

/* ---- head ---- */

static void print_head(const telling_t *t)
{
    const pl_fleet_shape_t *s   = &t->shape;
    const pl_engine_config_t *c = pl_outcome_config(t->outcome);
    char ownership[PL_OWNERSHIP_TEXT_BYTES];

    pl_ownership_text(c->ownership, ownership);
    printf("%" PRId64 " request%s, %" PRId32 " prefill instance%s of %" PRId32
           " GPU%s, ",
           t->metrics.n_requests, pl_text_s(t->metrics.n_requests),
           s->n_prefill, pl_text_s(s->n_prefill), s->prefill_gpus,
           pl_text_s(s->prefill_gpus));
    if (s->n_decode == 0) {
        printf("%s; ",
               s->n_prefill == 1 ? "which decodes too" : "which decode too");
    } else {
        printf("%" PRId32 " decode instance%s of %" PRId32 " GPU%s (%" PRId32
               " home%s%s); ",
               s->n_decode, pl_text_s(s->n_decode), s->decode_gpus,
               pl_text_s(s->decode_gpus), s->homes, pl_text_s(s->homes),
               s->n_decode == 1 ? "" : " each");
    }
    printf("%" PRId64 " GPUs, router %s\n", pl_fleet_gpus(s),
           pl_router_text((pl_router_t)t->cli->options.router));
    printf("pages of %" PRId32 " tokens, chunks of %" PRId32 ", %s\n\n",
           c->page_tokens, c->chunk_tokens, ownership);
}

/* ---- instances ---- */

static void count_cell(pl_table_t *table, bool has, int64_t value)
{
    if (has) {
        pl_table_cell(table, "%" PRId64, value);
    } else {
        pl_table_cell(table, "%s", "");
    }
}

static void percent_cell(pl_table_t *table, bool has, double part)
{
    if (has) {
        pl_table_cell(table, "%.1f %%", percent(part));
    } else {
        pl_table_cell(table, "%s", "");
    }
}

static void instance_row(const telling_t *t, pl_table_t *table, int32_t i)
{
    pl_fleet_usage_t u = pl_fleet_usage(t->outcome->fleet, i);
    int64_t ns         = t->metrics.duration_ns;
    bool prefills      = i < t->shape.n_prefill;
    bool decodes       = !prefills || (t->shape.n_decode == 0);
    int32_t number     = prefills ? i : i - t->shape.n_prefill;

    pl_table_cell(table, "%s %" PRId32, prefills ? "prefill" : "decode",
                  number);
    pl_table_cell(table, "%" PRId64, u.requests);
    count_cell(table, prefills, u.prompt_tokens);
    count_cell(table, prefills, u.computed_tokens);
    percent_cell(table, prefills,
                 share((double)(u.prompt_tokens - u.computed_tokens),
                       (double)u.prompt_tokens));
    count_cell(table, decodes, u.steps);
    if (decodes) {
        pl_table_cell(table, "%.2f", pl_fleet_batch(&u, ns, t->homes));
    } else {
        pl_table_cell(table, "%s", "");
    }
    percent_cell(table, true,
                 share((double)(u.prefill_ns + u.decode_ns), (double)ns));
    pl_table_cell(table, "%.2f",
                  share((double)u.waiting_ns / 1e6, (double)u.requests));
    pl_table_cell(table, "%" PRId64, u.most_waiting);
    pl_table_cell(table, "%.2f",
                  (double)(u.sent_bytes + u.received_bytes) / 1e9);
    percent_cell(table, true, share((double)u.link_ns, (double)ns));
}

static pl_status_t print_instances(const telling_t *t)
{
    pl_table_t *table = pl_table_open(
        "instance<,requests>,prompt tokens>,computed>,hits>,steps>,batch>,"
        "busy>,wait, ms>,most waiting>,link, GB>,link busy>");

    for (int32_t i = 0; i < pl_fleet_n_instances(t->outcome->fleet); i++) {
        instance_row(t, table, i);
    }
    return pl_report_table(table);
}

/* ---- sides ---- */

static void side_row(pl_table_t *table, const char *name,
                     const pl_fleet_side_t *side)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.1f %%", percent(side->busy));
    pl_table_cell(table, "%.4f", side->imbalance);
    pl_table_cell(table, "%" PRId64, side->most_waiting);
    pl_table_cell(table, "%.1f %%", percent(side->link_busy));
}

static pl_status_t print_sides(const telling_t *t)
{
    pl_table_t *table = pl_table_open(
        "side<,busy>,busiest over mean>,most waiting>,link busy>");

    side_row(table, "prefill", &t->sides.prefill);
    side_row(table, "decode", &t->sides.decode);
    return pl_report_table(table);
}

static pl_status_t print_waits(const telling_t *t)
{
    const struct {
        const char *name;
        double ns;
    } waits[] = {{"its first chunk", t->sides.for_prefill},
                 {"a home with room for it", t->sides.for_home},
                 {"its pages to be sent", t->sides.for_transfer},
                 {"a place in the batch", t->sides.for_batch}};
    pl_table_t *table =
        pl_table_open("the mean request waits for<,ms>,share of all>");

    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        pl_table_cell(table, "%s", waits[i].name);
        pl_table_cell(table, "%.2f", waits[i].ns / 1e6);
        pl_table_cell(table, "%.2f %%",
                      percent(share(waits[i].ns, t->metrics.e2e.mean)));
    }
    return pl_report_table(table);
}

/* ---- by GPU ---- */

/* A second. */
static double of_gpu(const pl_fleet_shape_t *shape, double n,
                     const pl_metrics_t *metrics)
{
    return share(n, (double)metrics->duration_ns / 1e9 *
                        (double)pl_fleet_gpus(shape));
}

static void print_by_gpu(const telling_t *t)
{
    printf("A GPU: %.3f output tokens a second",
           of_gpu(&t->shape, (double)t->metrics.output_tokens, &t->metrics));
    if (t->cli->options.slo_text != NULL) {
        printf(", %.6f requests within the limits",
               of_gpu(&t->shape, (double)t->detail.n_good, &t->metrics));
    }
    printf(".\n");
}

/* ---- JSON ---- */

static void add_sides(json_object *object, const pl_fleet_sides_t *s)
{
    pl_json_real(object, "prefill_utilization", s->prefill.busy);
    pl_json_real(object, "decode_utilization", s->decode.busy);
    pl_json_real(object, "prefill_link_utilization", s->prefill.link_busy);
    pl_json_real(object, "decode_link_utilization", s->decode.link_busy);
    pl_json_real(object, "prefill_imbalance", s->prefill.imbalance);
    pl_json_real(object, "decode_imbalance", s->decode.imbalance);
    pl_json_real(object, "decode_batch", s->decode.batch);
    pl_json_integer(object, "prefill_most_waiting", s->prefill.most_waiting);
    pl_json_integer(object, "decode_most_waiting", s->decode.most_waiting);
    pl_json_real(object, "mean_wait_prefill_ms", s->for_prefill / 1e6);
    pl_json_real(object, "mean_wait_home_ms", s->for_home / 1e6);
    pl_json_real(object, "mean_wait_transfer_ms", s->for_transfer / 1e6);
    pl_json_real(object, "mean_wait_batch_ms", s->for_batch / 1e6);
}

void pl_fleet_json(json_object *object, const pl_cli_t *cli,
                   const pl_outcome_t *outcome, const pl_metrics_t *metrics,
                   const pl_detail_t *detail)
{
    pl_fleet_shape_t shape = {0};
    pl_fleet_sides_t sides = {0};
    int32_t homes          = 0;

    if (find_sides(cli, outcome, metrics, &shape, &homes, &sides) != PL_OK) {
        return; /* checked long ago */
    }
    pl_json_integer(object, "gpus", pl_fleet_gpus(&shape));
    pl_json_integer(object, "prefill_instances", shape.n_prefill);
    pl_json_integer(object, "prefill_instance_gpus", shape.prefill_gpus);
    pl_json_integer(object, "decode_instances", shape.n_decode);
    pl_json_integer(object, "decode_instance_gpus", shape.decode_gpus);
    pl_json_integer(object, "decode_homes", (int64_t)homes * sides.decode.n);
    add_sides(object, &sides);
    pl_json_real(object, "output_throughput_per_gpu",
                 of_gpu(&shape, (double)metrics->output_tokens, metrics));
    if (cli->options.slo_text != NULL) {
        pl_json_real(object, "request_goodput_per_gpu",
                     of_gpu(&shape, (double)detail->n_good, metrics));
    }
}

static void add_instance(json_object *object, const telling_t *t, int32_t i)
{
    pl_fleet_usage_t u = pl_fleet_usage(t->outcome->fleet, i);
    double ns          = (double)t->metrics.duration_ns;
    bool prefills      = i < t->shape.n_prefill;

    pl_json_text(object, "side", prefills ? "prefill" : "decode");
    pl_json_integer(object, "requests", u.requests);
    pl_json_integer(object, "prompt_tokens", u.prompt_tokens);
    pl_json_integer(object, "computed_tokens", u.computed_tokens);
    pl_json_integer(object, "decode_steps", u.steps);
    pl_json_real(object, "batch",
                 pl_fleet_batch(&u, t->metrics.duration_ns, t->homes));
    pl_json_real(object, "prefill_utilization",
                 share((double)u.prefill_ns, ns));
    pl_json_real(object, "decode_utilization", share((double)u.decode_ns, ns));
    pl_json_real(object, "link_utilization", share((double)u.link_ns, ns));
    pl_json_real(object, "mean_wait_ms",
                 share((double)u.waiting_ns / 1e6, (double)u.requests));
    pl_json_integer(object, "most_waiting", u.most_waiting);
    pl_json_integer(object, "refusals", u.refusals);
    pl_json_integer(object, "sent_bytes", u.sent_bytes);
    pl_json_integer(object, "received_bytes", u.received_bytes);
}

static void add_instances(json_object *root, const telling_t *t)
{
    json_object *list = json_object_new_array();

    for (int32_t i = 0; (root != NULL) && (list != NULL) &&
                        (i < pl_fleet_n_instances(t->outcome->fleet));
         i++) {
        json_object *object = json_object_new_object();

        add_instance(object, t, i);
        if (json_object_array_add(list, object) != 0) {
            json_object_put(object);
        }
    }
    if ((root == NULL) ||
        (json_object_object_add(root, "instances", list) != 0)) {
        json_object_put(list);
    }
}

static pl_status_t print_json(const telling_t *t)
{
    json_object *root = json_object_new_object();

    pl_report_json(root, &t->metrics);
    pl_caches_json(root, &t->outcome->caches);
    pl_counters_json(root, &t->outcome->counters);
    pl_detail_json(root, t->cli, t->outcome, &t->metrics, &t->detail);
    pl_covered_json(root, &t->covered);
    pl_json_text(root, "router",
                 pl_router_text((pl_router_t)t->cli->options.router));
    pl_fleet_json(root, t->cli, t->outcome, &t->metrics, &t->detail);
    pl_fleet_limit_json(root, &t->limit, t->cli->options.slo_text);
    add_instances(root, t);
    return pl_json_print(root, stdout);
}

/* ---- all of it ---- */

static pl_status_t print_tables(const telling_t *t)
{
    print_head(t);
    PL_TRY(pl_report_hits(&t->metrics));
    PL_TRY(pl_report_misses(&t->metrics));
    PL_TRY(pl_report_times(&t->metrics));
    PL_TRY(print_instances(t));
    PL_TRY(print_sides(t));
    PL_TRY(print_waits(t));
    PL_TRY(pl_detail_print(t->cli, t->outcome, &t->metrics, &t->detail));
    pl_covered_print(&t->covered);
    print_by_gpu(t);
    pl_fleet_limit_print(&t->limit, &t->sides, &t->metrics,
                         t->cli->options.slo_text);
    return PL_OK;
}

pl_status_t pl_fleet_print(const pl_cli_t *cli, const pl_outcome_t *outcome)
{
    telling_t t  = {.cli = cli, .outcome = outcome};
    pl_slo_t slo = {.ttft_ns = cli->options.slo_ttft_ns,
                    .tpot_ns = cli->options.slo_tpot_ns,
                    .e2e_ns  = cli->options.slo_e2e_ns};

    PL_TRY(pl_metrics_of(outcome->records, outcome->n, &t.metrics));
    PL_TRY(pl_detail_make(outcome, &t.metrics, &slo, &t.detail));
    PL_TRY(pl_covered_find(cli, outcome, &t.covered));
    PL_TRY(find_sides(cli, outcome, &t.metrics, &t.shape, &t.homes, &t.sides));
    t.limit = pl_fleet_limit(outcome, &t.sides, &slo);
    return cli->options.json ? print_json(&t) : print_tables(&t);
}
