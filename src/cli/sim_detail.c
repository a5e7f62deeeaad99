/* Where the time of a simulated run went, and what else is asked of one. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/report.h"
#include "cli/sim.h"

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t sum(const int64_t *parts)
{
    int64_t all = 0;

    for (int i = 0; i < PL_COST_PARTS; i++) {
        all += parts[i];
    }
    return all;
}

/* ---- tables ---- */

static void hit_row(pl_table_t *table, const char *name, double rate)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.2f %%", 100 * rate);
}

static pl_status_t print_hits(const pl_metrics_t *m, const pl_detail_t *d)
{
    pl_table_t *table = pl_table_open("hit rate<,share>");

    hit_row(table, "of all prompt tokens",
            share(m->prompt_tokens - m->computed_tokens, m->prompt_tokens));
    hit_row(table, "of the mean request", m->mean_hit);
    hit_row(table, "of whole pages", share(d->hit_pages, d->whole_pages));
    hit_row(table, "of the time of prefill, if all were cold",
            share(d->saved_ns, d->cold_ns));
    return pl_report_table(table);
}

static void time_row(pl_table_t *table, const char *name, int64_t prefill_ns,
                     int64_t decode_ns, int64_t prefill_all, int64_t decode_all)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.3f", (double)prefill_ns / 1e9);
    pl_table_cell(table, "%.1f %%", 100 * share(prefill_ns, prefill_all));
    pl_table_cell(table, "%.3f", (double)decode_ns / 1e9);
    pl_table_cell(table, "%.1f %%", 100 * share(decode_ns, decode_all));
}

static pl_status_t print_parts(const pl_outcome_t *outcome)
{
    const pl_engine_counters_t *c = &outcome->counters;
    int64_t prefill               = sum(c->prefill_ns);
    int64_t decode                = sum(c->decode_ns);
    pl_table_t *table =
        pl_table_open("where time goes<,prefill, s>,share>,decode, s>,share>");

    for (int i = 0; i < PL_COST_PARTS; i++) {
        if (c->prefill_ns[i] + c->decode_ns[i] > 0) {
            time_row(table, pl_cost_part_words((pl_cost_part_t)i),
                     c->prefill_ns[i], c->decode_ns[i], prefill, decode);
        }
    }
    time_row(table, "all", prefill, decode, prefill, decode);
    return pl_report_table(table);
}

static void link_row(pl_table_t *table, const pl_outcome_t *outcome,
                     pl_link_t link, const char *name)
{
    int64_t bytes = outcome->counters.link_bytes[link];

    if ((outcome->usages != NULL) && (link == PL_LINK_PD)) {
        return; /* its own tables have what is between instances */
    }
    if (bytes > 0) {
        pl_table_cell(table, "%s", name);
        pl_table_cell(table, "%.3f", (double)bytes / 1e9);
        pl_table_cell(table, "%.3f",
                      (double)pl_cost_link_ns(
                          &pl_outcome_config(outcome)->costs, link, bytes) /
                          1e9);
    }
}

static pl_status_t print_links(const pl_outcome_t *outcome)
{
    static const char *const NAMES[PL_LINKS] = {
        [PL_LINK_H2D]     = "host to device",
        [PL_LINK_D2H]     = "device to host",
        [PL_LINK_PD]      = "prefill to decode, all homes",
        [PL_LINK_OFFLOAD] = "decode and its host buffer, all homes",
        [PL_LINK_STORE]   = "host to storage",
        [PL_LINK_FETCH]   = "storage to host"};
    pl_table_t *table = pl_table_open("link of the busiest rank<,GB>,busy, s>");

    for (int i = 0; i < PL_LINKS; i++) {
        link_row(table, outcome, (pl_link_t)i, NAMES[i]);
    }
    return pl_report_table(table);
}

static void ratio_row(pl_table_t *table, const char *name, double ratio)
{
    if (ratio > 0) {
        pl_table_cell(table, "%s", name);
        pl_table_cell(table, "%.4f", ratio);
    }
}

static pl_status_t print_balance(const pl_detail_t *d)
{
    pl_table_t *table = pl_table_open("busiest rank over the mean<,pages>");

    ratio_row(table, "computed", d->rank_imbalance);
    ratio_row(table, "loaded back", d->load_imbalance);
    ratio_row(table, "backed up", d->backup_imbalance);
    return pl_report_table(table);
}

static void print_drafts(const pl_engine_counters_t *c)
{
    if (c->drafted_tokens > 0) {
        printf("Drafted: %" PRId64 " token%s, of which right %" PRId64
               " (%.2f %%).\n",
               c->drafted_tokens, pl_text_s(c->drafted_tokens),
               c->accepted_tokens,
               100 * share(c->accepted_tokens, c->drafted_tokens));
    }
}

static void print_rest(const pl_cli_t *cli, const pl_metrics_t *m,
                       const pl_detail_t *d)
{
    double seconds = (double)m->duration_ns / 1e9;

    printf("Between two tokens: mean %.2f ms, p50 %.2f, p90 %.2f, p99 %.2f.\n",
           d->itl.mean / 1e6, (double)d->itl.p50_ns / 1e6,
           (double)d->itl.p90_ns / 1e6, (double)d->itl.p99_ns / 1e6);
    printf("Computed again: %" PRId64 " token%s, %" PRId64
           " page%s of them evicted and then needed.\n",
           d->recomputed_tokens, pl_text_s(d->recomputed_tokens),
           m->miss_pages[PL_MISS_EVICTED],
           pl_text_s(m->miss_pages[PL_MISS_EVICTED]));
    if (cli->options.slo_text != NULL) {
        printf("Within %s: %" PRId64 " of %" PRId64
               " request%s (%.2f %%), %.4f a second.\n",
               cli->options.slo_text, d->n_good, m->n_completed,
               pl_text_s(m->n_completed),
               100 * share(d->n_good, m->n_completed),
               seconds > 0 ? (double)d->n_good / seconds : 0);
    }
    printf("\n");
}

pl_status_t pl_detail_print(const pl_cli_t *cli, const pl_outcome_t *outcome,
                            const pl_metrics_t *metrics,
                            const pl_detail_t *detail)
{
    PL_TRY(print_parts(outcome));
    PL_TRY(print_links(outcome));
    PL_TRY(print_hits(metrics, detail));
    PL_TRY(print_balance(detail));
    print_drafts(&outcome->counters);
    print_rest(cli, metrics, detail);
    return PL_OK;
}

/* ---- JSON ---- */

static void add_parts(json_object *object, const char *which,
                      const int64_t *parts)
{
    char key[64];

    for (int i = 0; i < PL_COST_PARTS; i++) {
        (void)snprintf(key, sizeof(key), "%s_%s_ms", which,
                       pl_cost_part_text((pl_cost_part_t)i));
        pl_json_real(object, key, (double)parts[i] / 1e6);
    }
}

static void add_itl(json_object *object, const pl_spread_t *itl)
{
    pl_json_real(object, "mean_itl_ms", itl->mean / 1e6);
    pl_json_real(object, "median_itl_ms", (double)itl->p50_ns / 1e6);
    pl_json_real(object, "p90_itl_ms", (double)itl->p90_ns / 1e6);
    pl_json_real(object, "p99_itl_ms", (double)itl->p99_ns / 1e6);
}

void pl_detail_json(json_object *object, const pl_cli_t *cli,
                    const pl_outcome_t *outcome, const pl_metrics_t *metrics,
                    const pl_detail_t *detail)
{
    const pl_engine_counters_t *c = &outcome->counters;
    double seconds                = (double)metrics->duration_ns / 1e9;
    char key[64];

    add_itl(object, &detail->itl);
    if (pl_outcome_config(outcome)->mtp.draft_tokens > 0) {
        pl_json_integer(object, "spec_decode_draft_tokens", c->drafted_tokens);
        pl_json_integer(object, "spec_decode_accepted_tokens",
                        c->accepted_tokens);
    }
    if (cli->options.slo_text != NULL) {
        pl_json_integer(object, "good_completed", detail->n_good);
        pl_json_real(object, "request_goodput",
                     seconds > 0 ? (double)detail->n_good / seconds : 0);
    }
    pl_json_real(object, "page_hit_rate",
                 share(detail->hit_pages, detail->whole_pages));
    pl_json_real(object, "time_hit_rate",
                 share(detail->saved_ns, detail->cold_ns));
    pl_json_integer(object, "recomputed_tokens", detail->recomputed_tokens);
    pl_json_integer(object, "evicted_then_needed_pages",
                    metrics->miss_pages[PL_MISS_EVICTED]);
    for (int i = 0; i < PL_LINKS; i++) {
        (void)snprintf(key, sizeof(key), "%s_link_bytes",
                       pl_link_text((pl_link_t)i));
        pl_json_integer(object, key, c->link_bytes[i]);
    }
    pl_json_integer(object, "device_capacity_tokens", detail->device_tokens);
    pl_json_integer(object, "host_capacity_tokens", detail->host_tokens);
    pl_json_real(object, "computed_imbalance", detail->rank_imbalance);
    pl_json_real(object, "load_imbalance", detail->load_imbalance);
    pl_json_real(object, "backup_imbalance", detail->backup_imbalance);
    add_parts(object, "prefill", c->prefill_ns);
    add_parts(object, "decode", c->decode_ns);
}

void pl_counters_json(json_object *object, const pl_engine_counters_t *counters)
{
    pl_json_integer(object, "ticks", counters->ticks);
    pl_json_integer(object, "chunks", counters->chunks);
    pl_json_integer(object, "decode_steps", counters->decode_steps);
    pl_json_integer(object, "offloads", counters->offloads);
    pl_json_integer(object, "resumes", counters->resumes);
    pl_json_integer(object, "reentries", counters->reentries);
    pl_json_integer(object, "reservations_failed",
                    counters->reservations_failed);
    pl_json_integer(object, "operations_failed", counters->operations_failed);
}

void pl_caches_json(json_object *object, const pl_hicache_counters_t *caches)
{
    pl_json_integer(object, "lane_allocations", caches->takes);
    pl_json_integer(object, "lane_deficits", caches->deficits);
    pl_json_integer(object, "lane_alone_deficits", caches->alone_deficits);
    pl_json_integer(object, "lane_retries", caches->retries);
    pl_json_integer(object, "lane_retries_failed", caches->retries_failed);
    pl_json_integer(object, "evictions", caches->evictions);
    pl_json_integer(object, "evicted_pages", caches->evicted_pages);
    pl_json_integer(object, "loads", caches->loads);
    pl_json_integer(object, "load_pages", caches->load_pages);
    pl_json_integer(object, "backups", caches->backups);
    pl_json_integer(object, "backup_pages", caches->backup_pages);
    pl_json_integer(object, "backups_skipped", caches->backups_skipped);
    pl_json_integer(object, "write_backs", caches->write_backs);
    pl_json_integer(object, "host_dropped_pages", caches->host_dropped_pages);
}
