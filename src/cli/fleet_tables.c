#include "cli/fleet_tables.h"

#include <inttypes.h>

#include "cli/report.h"

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double percent(double part)
{
    return 100 * part;
}

pl_fleet_said_t pl_fleet_said(const pl_outcome_t *outcome, int64_t duration_ns,
                              int32_t homes, int32_t i)
{
    const pl_fleet_usage_t *u = &outcome->usages[i];
    bool prefills             = i < outcome->n_prefill;
    double ns                 = (double)duration_ns;

    return (pl_fleet_said_t){
        .prefills = prefills,
        .decodes  = !prefills || (outcome->n_engines == outcome->n_prefill),
        .hits     = share((double)u->prompt_tokens - (double)u->computed_tokens,
                          (double)u->prompt_tokens),
        .batch    = pl_fleet_batch(u, duration_ns, homes),
        .prefill_busy = share((double)u->prefill_ns, ns),
        .decode_busy  = share((double)u->decode_ns, ns),
        .link_busy    = share((double)u->link_ns, ns),
        .wait_ms = share((double)u->waiting_ns / 1e6, (double)u->requests)};
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

static void instance_row(pl_table_t *table, const pl_outcome_t *outcome,
                         int64_t duration_ns, int32_t homes, int32_t i)
{
    const pl_fleet_usage_t *u = &outcome->usages[i];
    pl_fleet_said_t said      = pl_fleet_said(outcome, duration_ns, homes, i);

    pl_table_cell(table, "%s %" PRId32, said.prefills ? "prefill" : "decode",
                  said.prefills ? i : i - outcome->n_prefill);
    pl_table_cell(table, "%" PRId64, u->requests);
    count_cell(table, said.prefills, u->prompt_tokens);
    count_cell(table, said.prefills, u->computed_tokens);
    percent_cell(table, said.prefills, said.hits);
    count_cell(table, said.decodes, u->steps);
    if (said.decodes) {
        pl_table_cell(table, "%.2f", said.batch);
    } else {
        pl_table_cell(table, "%s", "");
    }
    percent_cell(table, true, said.prefill_busy + said.decode_busy);
    pl_table_cell(table, "%.2f", said.wait_ms);
    pl_table_cell(table, "%" PRId64, u->most_waiting);
    pl_table_cell(table, "%.2f",
                  (double)u->sent_bytes / 1e9 +
                      (double)u->received_bytes / 1e9);
    percent_cell(table, true, said.link_busy);
}

pl_status_t pl_fleet_print_instances(const pl_outcome_t *outcome,
                                     const pl_metrics_t *metrics, int32_t homes)
{
    pl_table_t *table = pl_table_open(
        "instance<,requests>,prompt tokens>,computed>,hits>,steps>,batch>,"
        "busy>,wait, ms>,most waiting>,link, GB>,link busy>");

    for (int32_t i = 0; i < outcome->n_engines; i++) {
        instance_row(table, outcome, metrics->duration_ns, homes, i);
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

void pl_fleet_list_waits(const pl_fleet_sides_t *sides,
                         pl_fleet_wait_t waits[PL_FLEET_WAITS])
{
    waits[0] = (pl_fleet_wait_t){"its first chunk", sides->for_prefill};
    waits[1] = (pl_fleet_wait_t){"a home with room for it", sides->for_home};
    waits[2] = (pl_fleet_wait_t){"its pages to be sent", sides->for_transfer};
    waits[3] = (pl_fleet_wait_t){"a place in the batch", sides->for_batch};
}

static pl_status_t print_waits(const pl_fleet_sides_t *sides,
                               const pl_metrics_t *metrics)
{
    pl_fleet_wait_t waits[PL_FLEET_WAITS];
    pl_table_t *table =
        pl_table_open("the mean request waits for<,ms>,share of all>");

    pl_fleet_list_waits(sides, waits);
    for (size_t i = 0; i < PL_FLEET_WAITS; i++) {
        pl_table_cell(table, "%s", waits[i].name);
        pl_table_cell(table, "%.2f", waits[i].ns / 1e6);
        pl_table_cell(table, "%.2f %%",
                      percent(share(waits[i].ns, metrics->e2e.mean)));
    }
    return pl_report_table(table);
}

pl_status_t pl_fleet_print_sides(const pl_fleet_sides_t *sides,
                                 const pl_metrics_t *metrics)
{
    pl_table_t *table = pl_table_open(
        "side<,busy>,busiest over mean>,most waiting>,link busy>");

    side_row(table, "prefill", &sides->prefill);
    side_row(table, "decode", &sides->decode);
    PL_TRY(pl_report_table(table));
    return print_waits(sides, metrics);
}

/* ---- JSON ---- */

void pl_fleet_sides_json(json_object *object, const pl_fleet_sides_t *s)
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

static void add_instance(json_object *object, const pl_outcome_t *outcome,
                         int64_t duration_ns, int32_t homes, int32_t i)
{
    const pl_fleet_usage_t *u = &outcome->usages[i];
    pl_fleet_said_t said      = pl_fleet_said(outcome, duration_ns, homes, i);

    pl_json_text(object, "side", said.prefills ? "prefill" : "decode");
    pl_json_integer(object, "requests", u->requests);
    pl_json_integer(object, "prompt_tokens", u->prompt_tokens);
    pl_json_integer(object, "computed_tokens", u->computed_tokens);
    pl_json_integer(object, "decode_steps", u->steps);
    pl_json_real(object, "batch", said.batch);
    pl_json_real(object, "prefill_utilization", said.prefill_busy);
    pl_json_real(object, "decode_utilization", said.decode_busy);
    pl_json_real(object, "link_utilization", said.link_busy);
    pl_json_real(object, "mean_wait_ms", said.wait_ms);
    pl_json_integer(object, "most_waiting", u->most_waiting);
    pl_json_integer(object, "refusals", u->refusals);
    pl_json_integer(object, "sent_bytes", u->sent_bytes);
    pl_json_integer(object, "received_bytes", u->received_bytes);
}

void pl_fleet_instances_json(json_object *object, const pl_outcome_t *outcome,
                             const pl_metrics_t *metrics, int32_t homes)
{
    json_object *list = json_object_new_array();

    for (int32_t i = 0;
         (object != NULL) && (list != NULL) && (i < outcome->n_engines); i++) {
        json_object *one = json_object_new_object();

        add_instance(one, outcome, metrics->duration_ns, homes, i);
        if (json_object_array_add(list, one) != 0) {
            json_object_put(one);
        }
    }
    if ((object == NULL) ||
        (json_object_object_add(object, "instances", list) != 0)) {
        json_object_put(list);
    }
}
