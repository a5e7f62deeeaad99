#include "cli/report.h"

#include <inttypes.h>
#include <stdio.h>

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

const char *pl_report_miss_text(pl_miss_t miss)
{
    static const char *const TEXTS[PL_MISSES] = {
        [PL_MISS_NEW]       = "never seen before",
        [PL_MISS_EVICTED]   = "held once and evicted",
        [PL_MISS_LANE]      = "held, but a lane had no room",
        [PL_MISS_THRESHOLD] = "hit too short to bring, or not complete yet",
        [PL_MISS_FAILED]    = "a copy failed",
        [PL_MISS_STORAGE]   = "on storage, and not brought in time",
        [PL_MISS_LAST]      = "holds the last token, always computed",
    };

    return TEXTS[miss];
}

/* ---- tables ---- */

pl_status_t pl_report_table(pl_table_t *table)
{
    pl_status_t status = pl_table_print(table, stdout);

    pl_table_close(table);
    printf("\n");
    return status;
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

pl_status_t pl_report_hits(const pl_metrics_t *m)
{
    pl_table_t *table =
        pl_table_open("prompt tokens<,requests>,tokens>,share>");

    tokens_row(table, "hit on device", m->n_device_hits, m->device_hit_tokens,
               m->prompt_tokens);
    tokens_row(table, "hit on host", m->n_host_hits, m->host_hit_tokens,
               m->prompt_tokens);
    if ((m->storage_hit_tokens > 0) || (m->miss_pages[PL_MISS_STORAGE] > 0)) {
        tokens_row(table, "hit on storage", m->n_storage_hits,
                   m->storage_hit_tokens, m->prompt_tokens);
    }
    tokens_row(table, "computed", -1, m->computed_tokens, m->prompt_tokens);
    tokens_row(table, "all", m->n_completed, m->prompt_tokens,
               m->prompt_tokens);
    return pl_report_table(table);
}

pl_status_t pl_report_misses(const pl_metrics_t *m)
{
    pl_table_t *table = pl_table_open("missed because<,pages>");

    for (int miss = 0; miss < PL_MISSES; miss++) {
        if (m->miss_pages[miss] > 0) {
            pl_table_cell(table, "%s", pl_report_miss_text((pl_miss_t)miss));
            pl_table_cell(table, "%" PRId64, m->miss_pages[miss]);
        }
    }
    return pl_report_table(table);
}

static void spread_row(pl_table_t *table, const char *name, pl_spread_t spread)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.2f", spread.mean / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p50_ns / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p90_ns / 1e6);
    pl_table_cell(table, "%.2f", (double)spread.p99_ns / 1e6);
}

pl_status_t pl_report_times(const pl_metrics_t *m)
{
    pl_table_t *table = pl_table_open("virtual time, ms<,mean>,p50>,p90>,p99>");

    spread_row(table, "queueing", m->queue);
    spread_row(table, "time to first token", m->ttft);
    spread_row(table, "time per output token", m->tpot);
    spread_row(table, "end to end", m->e2e);
    return pl_report_table(table);
}

/* ---- JSON ---- */

/* mean_ttft_ms, median_ttft_ms, p90_ttft_ms, p99_ttft_ms */
static void add_spread(json_object *object, const char *name,
                       pl_spread_t spread)
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
        pl_json_real(object, key, list[i].ns / 1e6);
    }
}

static void add_serving(json_object *object, const pl_metrics_t *m)
{
    double seconds = (double)m->duration_ns / 1e9;

    pl_json_integer(object, "completed", m->n_completed);
    pl_json_integer(object, "failed", m->n_failed);
    pl_json_integer(object, "unfinished", m->n_unfinished);
    pl_json_integer(object, "finished_before", m->n_skipped);
    pl_json_real(object, "duration", seconds);
    pl_json_integer(object, "total_input_tokens", m->prompt_tokens);
    pl_json_integer(object, "total_output_tokens", m->output_tokens);
    pl_json_real(object, "request_throughput",
                 seconds > 0 ? (double)m->n_completed / seconds : 0);
    pl_json_real(object, "output_throughput",
                 seconds > 0 ? (double)m->output_tokens / seconds : 0);
    add_spread(object, "ttft", m->ttft);
    add_spread(object, "tpot", m->tpot);
    add_spread(object, "e2el", m->e2e);
    add_spread(object, "queue", m->queue);
}

void pl_report_json(json_object *object, const pl_metrics_t *m)
{
    static const char *const MISS[PL_MISSES] = {
#define PL_MISS_KEY(name, text) [name] = "miss_" text "_pages",
        PL_MISS_LIST(PL_MISS_KEY)
#undef PL_MISS_KEY
    };

    add_serving(object, m);
    pl_json_real(
        object, "hit_rate",
        share(m->prompt_tokens - m->computed_tokens, m->prompt_tokens));
    pl_json_real(object, "mean_request_hit_rate", m->mean_hit);
    pl_json_integer(object, "device_hit_tokens", m->device_hit_tokens);
    pl_json_integer(object, "host_hit_tokens", m->host_hit_tokens);
    pl_json_integer(object, "storage_hit_tokens", m->storage_hit_tokens);
    pl_json_integer(object, "computed_tokens", m->computed_tokens);
    for (int miss = 0; miss < PL_MISSES; miss++) {
        pl_json_integer(object, MISS[miss], m->miss_pages[miss]);
    }
}
