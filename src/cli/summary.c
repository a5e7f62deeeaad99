/* What a run came to: tables for people, JSON for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/text.h"
#include "cli/covered.h"
#include "cli/planned.h"
#include "cli/report.h"
#include "cli/run.h"
#include "cli/sim.h"

typedef struct summary {
    const pl_cli_t *cli;
    const pl_outcome_t *outcome;
    const pl_engine_t *engine;
    const pl_run_results_t *results;
    pl_metrics_t metrics;
    pl_detail_t detail;
    pl_covered_t covered;
    uint64_t digest; /* of all requests' KV digests, in order */
    bool has_digest;
    int64_t n_prior; /* of them, of requests that were finished before */
} summary_t;

/* One number for all digests; equal for every way to run the same requests. */
static void fold_digests(summary_t *s)
{
    const pl_run_results_t *results = s->results;

    for (int32_t i = 0; i < results->n_requests; i++) {
        if (results->has_digest[i] != 0) {
            s->has_digest = true;
            s->n_prior += pl_engine_record(s->engine, i)->skipped ? 1 : 0;
            s->digest = pl_fold64(s->digest, (uint64_t)i);
            s->digest = pl_fold64(s->digest, results->digests[i]);
        }
    }
}

/* Is virtual time what the run is for? */
static bool is_simulated(const summary_t *s)
{
    return (s->cli->verb->bit == PL_VERB_SIM) ||
           (s->cli->options.slo_text != NULL) ||
           pl_cli_is_planned(&s->cli->options);
}

/* ---- tables ---- */

static void head(const summary_t *s)
{
    const pl_engine_config_t *c = pl_engine_config(s->engine);
    const pl_options_t *o       = &s->cli->options;
    char ownership[PL_OWNERSHIP_TEXT_BYTES];

    pl_ownership_text(c->ownership, ownership);
    printf("%" PRId64 " request%s on %d prefill and %d decode rank%s, pages of "
           "%" PRId32 " token%s, chunks of %" PRId32 ", %s\n\n",
           s->metrics.n_requests, pl_text_s(s->metrics.n_requests),
           c->n_prefill, c->n_decode, pl_text_s(c->n_decode), c->page_tokens,
           pl_text_s(c->page_tokens), c->chunk_tokens, ownership);
    if ((o->executor == PL_OPT_EXECUTOR_COST) &&
        (s->cli->verb->bit == PL_VERB_RUN)) {
        printf("No bytes were moved (--executor cost).\n\n");
    }
}

static void moves_row(pl_table_t *table, const char *name, int64_t operations,
                      int64_t pages, int64_t bytes)
{
    pl_table_cell(table, "%s", name);
    if (operations >= 0) {
        pl_table_cell(table, "%" PRId64, operations);
    } else {
        pl_table_cell(table, "%s", "");
    }
    pl_table_cell(table, "%" PRId64, pages);
    if (bytes >= 0) {
        pl_table_cell(table, "%.1f", (double)bytes / (1 << 20));
    } else {
        pl_table_cell(table, "%s", "");
    }
}

/* Of the storage tier, if there is one. */
static void storage_rows(const summary_t *s, pl_table_t *table)
{
    const pl_storage_t *storage = pl_engine_storage(s->engine);
    const pl_exec_counters_t *x = &s->results->counters;
    const pl_storage_counters_t *c;

    if (storage == NULL) {
        return;
    }
    c = pl_storage_counters(storage);
    moves_row(table, "kept on storage at the start", -1, c->start_pages, -1);
    moves_row(table, "left out, not whole", -1, c->left_out_pages, -1);
    moves_row(table, "stored", c->stores, x->pages[PL_OP_STORE],
              x->bytes[PL_OP_STORE]);
    moves_row(table, "new on storage", -1, c->new_pages, -1);
    moves_row(table, "moved to the run's own set", -1, c->moved_pages, -1);
    moves_row(table, "fetched from storage", c->fetches, x->pages[PL_OP_FETCH],
              x->bytes[PL_OP_FETCH]);
    moves_row(table, "evicted from storage", -1, c->evicted_pages, -1);
    moves_row(table, "dropped from storage as bad", -1, c->dropped_pages, -1);
    moves_row(table, "kept on storage in the end", -1,
              pl_storage_n_kept(storage), -1);
    moves_row(table, "of them in an index", -1, pl_storage_n_indexed(storage),
              -1);
}

static pl_status_t print_moves(const summary_t *s)
{
    const pl_hicache_counters_t *h =
        pl_hicache_counters(pl_engine_cache(s->engine));
    const pl_engine_counters_t *e = pl_engine_counters(s->engine);
    const pl_exec_counters_t *x   = &s->results->counters;
    pl_table_t *table             = pl_table_open("pages<,times>,pages>,MiB>");

    moves_row(table, "evicted from device", h->evictions, h->evicted_pages, -1);
    moves_row(table, "backed up to host", h->backups, x->pages[PL_OP_BACKUP],
              x->bytes[PL_OP_BACKUP]);
    moves_row(table, "loaded back", h->loads, x->pages[PL_OP_LOAD],
              x->bytes[PL_OP_LOAD]);
    moves_row(table, "dropped from host", h->host_drops, h->host_dropped_pages,
              -1);
    moves_row(table, "sent to decode", e->sends, x->pages[PL_OP_SEND],
              x->bytes[PL_OP_SEND]);
    moves_row(table, "offloaded by decode", e->offloads,
              x->pages[PL_OP_OFFLOAD], x->bytes[PL_OP_OFFLOAD]);
    moves_row(table, "resumed by decode", e->resumes, x->pages[PL_OP_RESUME],
              x->bytes[PL_OP_RESUME]);
    storage_rows(s, table);
    return pl_report_table(table);
}

static void count_row(pl_table_t *table, const char *name, int64_t value)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, value);
}

static pl_status_t print_counts(const summary_t *s)
{
    const pl_hicache_counters_t *h =
        pl_hicache_counters(pl_engine_cache(s->engine));
    const pl_engine_counters_t *e = pl_engine_counters(s->engine);
    const pl_storage_t *storage   = pl_engine_storage(s->engine);
    const pl_metrics_t *m         = &s->metrics;
    pl_table_t *table = pl_table_open("lanes and decisions<,times>");

    count_row(table, "lane deficits", h->deficits);
    count_row(table, "retries after eviction", h->retries);
    count_row(table, "retries that failed", h->retries_failed);
    count_row(table, "hits cut for want of room", e->hit_cuts);
    count_row(table, "waits for write-back", e->waits_for_write_back);
    count_row(table, "backups skipped", h->backups_skipped);
    count_row(table, "prompts that re-entered", m->reentries);
    count_row(table, "prompts admitted anew", m->readmissions);
    count_row(table, "reservations failed", e->reservations_failed);
    count_row(table, "operations failed", e->operations_failed);
    if (storage != NULL) {
        const pl_storage_counters_t *c = pl_storage_counters(storage);

        count_row(table, "stores skipped", c->stores_skipped);
        count_row(table, "stores that failed", c->stores_failed);
        count_row(table, "indexes published", c->publications);
        count_row(table, "publications that failed", c->publications_failed);
        count_row(table, "bad pages on storage",
                  s->results->counters.bad_storage_pages);
        count_row(table, "pages that could not be read",
                  s->results->counters.unread_storage_pages);
    }
    count_row(table, "ticks", e->ticks);
    return pl_report_table(table);
}

static void print_verdict(const summary_t *s)
{
    const pl_metrics_t *m = &s->metrics;

    if (m->n_skipped > 0) {
        printf("%" PRId64 " request%s finished before%s.\n", m->n_skipped,
               m->n_skipped == 1 ? " was" : "s were",
               s->n_prior == m->n_skipped ? "; their digests and tokens are "
                                            "those of then"
                                          : "");
    }
    if (m->n_failed > 0) {
        printf("%" PRId64 " request%s failed, and recorded as such.\n",
               m->n_failed, pl_text_s(m->n_failed));
    }
    if (s->results->counters.page_checks > 0) {
        printf("Checked %" PRId64 " page%s, no mismatch.\n",
               s->results->counters.page_checks,
               pl_text_s(s->results->counters.page_checks));
    }
    if (s->has_digest) {
        char which[64] = "all requests";

        if (s->n_prior < m->n_skipped) {
            (void)snprintf(which, sizeof(which),
                           "the %" PRId64 " request%s of this run%s",
                           m->n_completed, pl_text_s(m->n_completed),
                           m->n_failed > 0 ? " that did not fail" : "");
        } else if (m->n_failed > 0) {
            (void)snprintf(which, sizeof(which),
                           "the %" PRId64 " request%s that did not fail",
                           m->n_completed + m->n_skipped,
                           pl_text_s(m->n_completed + m->n_skipped));
        }
        printf("KV digest of %s: %016" PRIx64 "\n", which, s->digest);
    }
}

static pl_status_t print_tables(const summary_t *s)
{
    head(s);
    PL_TRY(pl_report_hits(&s->metrics));
    PL_TRY(pl_report_misses(&s->metrics));
    PL_TRY(print_moves(s));
    PL_TRY(print_counts(s));
    PL_TRY(pl_report_times(&s->metrics));
    if (is_simulated(s)) {
        PL_TRY(pl_detail_print(s->cli, s->outcome, &s->metrics, &s->detail));
        pl_covered_print(&s->covered);
    }
    print_verdict(s);
    return PL_OK;
}

/* ---- JSON ---- */

static void add_storage(json_object *root, const pl_storage_t *storage)
{
    const pl_storage_counters_t none = {0};
    const pl_storage_counters_t *c =
        storage == NULL ? &none : pl_storage_counters(storage);

    pl_json_integer(root, "storage_start_pages", c->start_pages);
    pl_json_integer(root, "storage_left_out_pages", c->left_out_pages);
    pl_json_integer(root, "storage_new_pages", c->new_pages);
    pl_json_integer(root, "storage_moved_pages", c->moved_pages);
    pl_json_integer(root, "storage_dropped_pages", c->dropped_pages);
    pl_json_integer(root, "storage_stores", c->stores);
    pl_json_integer(root, "storage_store_pages", c->store_pages);
    pl_json_integer(root, "storage_stores_failed", c->stores_failed);
    pl_json_integer(root, "storage_stores_skipped", c->stores_skipped);
    pl_json_integer(root, "storage_fetches", c->fetches);
    pl_json_integer(root, "storage_fetch_pages", c->fetch_pages);
    pl_json_integer(root, "storage_fetched_pages", c->fetched_pages);
    pl_json_integer(root, "storage_bad_pages", c->bad_pages);
    pl_json_integer(root, "storage_unread_pages", c->unread_pages);
    pl_json_integer(root, "storage_evicted_pages", c->evicted_pages);
    pl_json_integer(root, "storage_publications", c->publications);
    pl_json_integer(root, "storage_publications_failed",
                    c->publications_failed);
    pl_json_integer(root, "storage_kept_pages",
                    storage == NULL ? 0 : pl_storage_n_kept(storage));
    pl_json_integer(root, "storage_indexed_pages",
                    storage == NULL ? 0 : pl_storage_n_indexed(storage));
}

void pl_summary_counts_json(json_object *object, const pl_outcome_t *outcome,
                            const pl_run_results_t *results)
{
    const pl_exec_counters_t *x = &results->counters;
    char key[64];

    add_storage(object, pl_engine_storage(outcome->engines[0]));
    pl_counters_json(object, &outcome->counters);
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        (void)snprintf(key, sizeof(key), "%s_bytes_moved",
                       pl_op_kind_text((pl_op_kind_t)kind));
        pl_json_integer(object, key, x->bytes[kind]);
    }
    pl_json_integer(object, "page_checks", x->page_checks);
}

static pl_status_t print_json(const summary_t *s)
{
    json_object *root = json_object_new_object();

    pl_report_json(root, &s->metrics);
    pl_caches_json(root, &s->outcome->caches);
    pl_summary_counts_json(root, s->outcome, s->results);
    if (is_simulated(s)) {
        pl_detail_json(root, s->cli, s->outcome, &s->metrics, &s->detail);
        pl_covered_json(root, &s->covered);
    }
    if (s->has_digest) {
        pl_json_digest(root, "kv_digest", s->digest);
    }
    return pl_json_print(root, stdout);
}

pl_status_t pl_summary_print(const pl_cli_t *cli, const pl_outcome_t *outcome,
                             const pl_run_results_t *results)
{
    summary_t s  = {.cli     = cli,
                    .outcome = outcome,
                    .engine  = outcome->engines[0],
                    .results = results};
    pl_slo_t slo = {.ttft_ns = cli->options.slo_ttft_ns,
                    .tpot_ns = cli->options.slo_tpot_ns,
                    .e2e_ns  = cli->options.slo_e2e_ns};

    PL_TRY(pl_metrics_of(outcome->records, outcome->n, &s.metrics));
    PL_TRY(pl_detail_make(outcome, &s.metrics, &slo, &s.detail));
    PL_TRY(pl_covered_find(cli, outcome, &s.covered));
    fold_digests(&s);
    return cli->options.json ? print_json(&s) : print_tables(&s);
}
