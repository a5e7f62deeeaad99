/* What a run came to: tables for people, JSON for programs. */
#include <inttypes.h>
#include <json.h>
#include <stdio.h>

#include "base/hash.h"
#include "cli/run.h"
#include "cli/table.h"
#include "sim/metrics.h"

typedef struct summary {
    const pl_cli_t *cli;
    const pl_engine_t *engine;
    const pl_run_results_t *results;
    pl_metrics_t metrics;
    uint64_t digest; /* of all requests' KV digests, in order */
    bool has_digest;
} summary_t;

/* One number for all digests; equal for every way to run the same requests. */
static void fold_digests(summary_t *s)
{
    const pl_run_results_t *results = s->results;

    for (int32_t i = 0; i < results->n_requests; i++) {
        if (results->has_digest[i] != 0) {
            s->has_digest = true;
            s->digest     = pl_fold64(s->digest, (uint64_t)i);
            s->digest     = pl_fold64(s->digest, results->digests[i]);
        }
    }
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* ---- tables ---- */

static pl_status_t print(pl_table_t *table)
{
    pl_status_t status = pl_table_print(table, stdout);

    pl_table_close(table);
    printf("\n");
    return status;
}

static void head(const summary_t *s)
{
    const pl_engine_config_t *c = pl_engine_config(s->engine);
    const pl_options_t *o       = &s->cli->options;
    char ownership[PL_OWNERSHIP_TEXT_BYTES];

    pl_ownership_text(c->ownership, ownership);
    printf("%" PRId64 " requests on %d prefill and %d decode ranks, pages of "
           "%" PRId32 " tokens, chunks of %" PRId32 ", %s\n\n",
           s->metrics.n_requests, c->n_prefill, c->n_decode, c->page_tokens,
           c->chunk_tokens, ownership);
    if (o->executor == PL_OPT_EXECUTOR_COST) {
        printf("No bytes were moved (--executor cost).\n\n");
    }
}

static void tokens_row(pl_table_t *table, const char *name, int64_t requests,
                       int64_t tokens, int64_t of)
{
    pl_table_cell(table, "%s", name);
    if (requests >= 0) {
        pl_table_cell(table, "%" PRId64, requests);
    } else {
        pl_table_cell(table, "%s", "");
    }
    pl_table_cell(table, "%" PRId64, tokens);
    pl_table_cell(table, "%.2f %%", 100 * share(tokens, of));
}

static pl_status_t print_hits(const summary_t *s)
{
    const pl_metrics_t *m = &s->metrics;
    pl_table_t *table =
        pl_table_open("prompt tokens<,requests>,tokens>,share>");

    tokens_row(table, "hit on device", m->n_device_hits, m->device_hit_tokens,
               m->prompt_tokens);
    tokens_row(table, "hit on host", m->n_host_hits, m->host_hit_tokens,
               m->prompt_tokens);
    tokens_row(table, "computed", -1, m->computed_tokens, m->prompt_tokens);
    tokens_row(table, "all", m->n_completed, m->prompt_tokens,
               m->prompt_tokens);
    return print(table);
}

static pl_status_t print_misses(const summary_t *s)
{
    static const char *const WHY[PL_MISSES] = {
        [PL_MISS_NEW]       = "never seen before",
        [PL_MISS_EVICTED]   = "held once and evicted",
        [PL_MISS_LANE]      = "held, but a lane had no room",
        [PL_MISS_THRESHOLD] = "host hit too short, or not complete yet",
        [PL_MISS_FAILED]    = "a copy failed",
        [PL_MISS_LAST]      = "holds the last token, always computed",
    };
    pl_table_t *table = pl_table_open("missed because<,pages>");

    for (int miss = 0; miss < PL_MISSES; miss++) {
        if (s->metrics.miss_pages[miss] > 0) {
            pl_table_cell(table, "%s", WHY[miss]);
            pl_table_cell(table, "%" PRId64, s->metrics.miss_pages[miss]);
        }
    }
    return print(table);
}

static void moves_row(pl_table_t *table, const char *name, int64_t operations,
                      int64_t pages, int64_t bytes)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, operations);
    pl_table_cell(table, "%" PRId64, pages);
    if (bytes >= 0) {
        pl_table_cell(table, "%.1f", (double)bytes / (1 << 20));
    } else {
        pl_table_cell(table, "%s", "");
    }
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
    return print(table);
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
    count_row(table, "ticks", e->ticks);
    return print(table);
}

static void spread_row(pl_table_t *table, const char *name, pl_spread_t spread)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.2f", spread.mean / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p50_ns / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p90_ns / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p99_ns / 1e6);
}

static pl_status_t print_times(const summary_t *s)
{
    pl_table_t *table = pl_table_open("virtual time, ms<,mean>,p50>,p90>,p99>");

    spread_row(table, "queueing", s->metrics.queue);
    spread_row(table, "time to first token", s->metrics.ttft);
    spread_row(table, "time per output token", s->metrics.tpot);
    spread_row(table, "end to end", s->metrics.e2e);
    return print(table);
}

static void print_verdict(const summary_t *s)
{
    const pl_metrics_t *m = &s->metrics;

    if (m->n_failed > 0) {
        printf("%" PRId64 " requests failed and were recorded as failed.\n",
               m->n_failed);
    }
    if (s->results->counters.page_checks > 0) {
        printf("Checked %" PRId64 " pages, no mismatch.\n",
               s->results->counters.page_checks);
    }
    if (s->has_digest) {
        char which[64] = "all requests";

        if (m->n_failed > 0) {
            (void)snprintf(which, sizeof(which),
                           "the %" PRId64 " requests that did not fail",
                           m->n_completed);
        }
        printf("KV digest of %s: %016" PRIx64 "\n", which, s->digest);
    }
}

static pl_status_t print_tables(const summary_t *s)
{
    head(s);
    PL_TRY(print_hits(s));
    PL_TRY(print_misses(s));
    PL_TRY(print_moves(s));
    PL_TRY(print_counts(s));
    PL_TRY(print_times(s));
    print_verdict(s);
    return PL_OK;
}

/* ---- JSON ---- */

typedef struct writer {
    json_object *root;
    int bad;
} writer_t;

static void add(writer_t *w, const char *key, json_object *value)
{
    if ((value == NULL) || (json_object_object_add(w->root, key, value) != 0)) {
        w->bad = 1;
    }
}

static void add_int(writer_t *w, const char *key, int64_t value)
{
    add(w, key, json_object_new_int64(value));
}

static void add_real(writer_t *w, const char *key, double value)
{
    add(w, key, json_object_new_double(value));
}

/* mean_ttft_ms, median_ttft_ms, p90_ttft_ms, p99_ttft_ms */
static void add_spread(writer_t *w, const char *name, pl_spread_t spread)
{
    const struct {
        const char *prefix;
        double ns;
    } list[] = {{"mean", spread.mean},
                {"median", (double)spread.p50_ns},
                {"p90", (double)spread.p90_ns},
                {"p99", (double)spread.p99_ns}};
    char key[64];

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        (void)snprintf(key, sizeof(key), "%s_%s_ms", list[i].prefix, name);
        add_real(w, key, list[i].ns / 1e6);
    }
}

static void add_serving(writer_t *w, const pl_metrics_t *m)
{
    double seconds = (double)m->duration_ns / 1e9;

    add_int(w, "completed", m->n_completed);
    add_int(w, "failed", m->n_failed);
    add_real(w, "duration", seconds);
    add_int(w, "total_input_tokens", m->prompt_tokens);
    add_int(w, "total_output_tokens", m->output_tokens);
    add_real(w, "request_throughput",
             seconds > 0 ? (double)m->n_completed / seconds : 0);
    add_real(w, "output_throughput",
             seconds > 0 ? (double)m->output_tokens / seconds : 0);
    add_spread(w, "ttft", m->ttft);
    add_spread(w, "tpot", m->tpot);
    add_spread(w, "e2el", m->e2e);
    add_spread(w, "queue", m->queue);
}

static void add_cache(writer_t *w, const summary_t *s)
{
    static const char *const MISS[PL_MISSES] = {
#define PL_MISS_KEY(name, text) [name] = "miss_" text "_pages",
        PL_MISS_LIST(PL_MISS_KEY)
#undef PL_MISS_KEY
    };
    const pl_metrics_t *m = &s->metrics;
    const pl_hicache_counters_t *h =
        pl_hicache_counters(pl_engine_cache(s->engine));
    int64_t hit = m->device_hit_tokens + m->host_hit_tokens;

    add_real(w, "hit_rate", share(hit, m->prompt_tokens));
    add_real(w, "mean_request_hit_rate", m->mean_hit);
    add_int(w, "device_hit_tokens", m->device_hit_tokens);
    add_int(w, "host_hit_tokens", m->host_hit_tokens);
    add_int(w, "computed_tokens", m->computed_tokens);
    for (int miss = 0; miss < PL_MISSES; miss++) {
        add_int(w, MISS[miss], m->miss_pages[miss]);
    }
    add_int(w, "lane_deficits", h->deficits);
    add_int(w, "lane_retries", h->retries);
    add_int(w, "lane_retries_failed", h->retries_failed);
    add_int(w, "evictions", h->evictions);
    add_int(w, "evicted_pages", h->evicted_pages);
    add_int(w, "loads", h->loads);
    add_int(w, "load_pages", h->load_pages);
    add_int(w, "backups", h->backups);
    add_int(w, "backup_pages", h->backup_pages);
    add_int(w, "backups_skipped", h->backups_skipped);
    add_int(w, "write_backs", h->write_backs);
    add_int(w, "host_dropped_pages", h->host_dropped_pages);
}

static void add_moves(writer_t *w, const summary_t *s)
{
    const pl_engine_counters_t *e = pl_engine_counters(s->engine);
    const pl_exec_counters_t *x   = &s->results->counters;
    char key[64];

    add_int(w, "ticks", e->ticks);
    add_int(w, "chunks", e->chunks);
    add_int(w, "decode_steps", e->decode_steps);
    add_int(w, "offloads", e->offloads);
    add_int(w, "resumes", e->resumes);
    add_int(w, "reentries", e->reentries);
    add_int(w, "reservations_failed", e->reservations_failed);
    add_int(w, "operations_failed", e->operations_failed);
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        (void)snprintf(key, sizeof(key), "%s_bytes_moved",
                       pl_op_kind_text((pl_op_kind_t)kind));
        add_int(w, key, x->bytes[kind]);
    }
    add_int(w, "page_checks", x->page_checks);
}

static pl_status_t print_json(const summary_t *s)
{
    writer_t w = {json_object_new_object(), 0};
    char digest[32];

    if (w.root == NULL) {
        return PL_ERR_MEMORY;
    }
    add_serving(&w, &s->metrics);
    add_cache(&w, s);
    add_moves(&w, s);
    if (s->has_digest) {
        (void)snprintf(digest, sizeof(digest), "%016" PRIx64, s->digest);
        add(&w, "kv_digest", json_object_new_string(digest));
    }
    if (w.bad == 0) {
        printf("%s\n",
               json_object_to_json_string_ext(w.root, JSON_C_TO_STRING_PRETTY));
    }
    json_object_put(w.root);
    return w.bad == 0 ? PL_OK : PL_ERR_MEMORY;
}

pl_status_t pl_summary_print(const pl_cli_t *cli, const pl_engine_t *engine,
                             const pl_run_results_t *results)
{
    summary_t s = {.cli = cli, .engine = engine, .results = results};

    PL_TRY(pl_metrics_make(engine, &s.metrics));
    fold_digests(&s);
    return cli->options.json ? print_json(&s) : print_tables(&s);
}
