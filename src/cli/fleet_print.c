/* What a fleet came to. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/covered.h"
#include "cli/fleet.h"
#include "cli/fleet_limit.h"
#include "cli/fleet_sides.h"
#include "cli/fleet_tables.h"
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
    pl_fleet_sides_json(object, &sides);
    pl_json_real(object, "output_throughput_per_gpu",
                 of_gpu(&shape, (double)metrics->output_tokens, metrics));
    if (cli->options.slo_text != NULL) {
        pl_json_real(object, "request_goodput_per_gpu",
                     of_gpu(&shape, (double)detail->n_good, metrics));
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
    pl_fleet_instances_json(root, t->outcome, &t->metrics, t->homes);
    return pl_json_print(root, stdout);
}

/* ---- all of it ---- */

static pl_status_t print_tables(const telling_t *t)
{
    print_head(t);
    PL_TRY(pl_report_hits(&t->metrics));
    PL_TRY(pl_report_misses(&t->metrics));
    PL_TRY(pl_report_times(&t->metrics));
    PL_TRY(pl_fleet_print_instances(t->outcome, &t->metrics, t->homes));
    PL_TRY(pl_fleet_print_sides(&t->sides, &t->metrics));
    PL_TRY(pl_detail_print(t->cli, t->outcome, &t->metrics, &t->detail));
    pl_covered_print(&t->covered);
    print_by_gpu(t);
    return pl_fleet_limit_print(&t->limit, &t->sides, &t->metrics,
                                t->cli->options.slo_text);
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
