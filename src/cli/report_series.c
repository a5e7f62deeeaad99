/* Over time: hits, memory by tier, queues, lanes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

enum {
    MOST_BINS    = 60,  /* of arrivals */
    MOST_SAMPLES = 1024 /* of lanes that a page carries */
};

/* ---- hits by arrival ---- */

typedef struct bin {
    int64_t prompt, device, host, storage; /* tokens */
} bin_t;

typedef struct bins {
    bin_t items[MOST_BINS];
    int64_t first_ns, width_ns;
    int n;
} bins_t;

static void span_bins(const pl_report_data_t *data, bins_t *bins)
{
    int64_t last = 0;
    int64_t n    = 0;

    for (int32_t i = 0; i < data->n; i++) {
        const pl_record_t *r = &data->records[i];

        if (pl_metrics_counts(r)) {
            bins->first_ns = n == 0 ? r->arrival_ns : bins->first_ns;
            last           = r->arrival_ns > last ? r->arrival_ns : last;
            n++;
        }
    }
    bins->n = n / 8 < 1 ? 1 : n / 8 > MOST_BINS ? MOST_BINS : (int)(n / 8);
    bins->width_ns = (last - bins->first_ns) / bins->n + 1;
}

static void fill_bins(const pl_report_data_t *data, bins_t *bins)
{
    for (int32_t i = 0; i < data->n; i++) {
        const pl_record_t *r = &data->records[i];
        int64_t at           = r->arrival_ns - bins->first_ns;
        bin_t *bin;

        if (!pl_metrics_counts(r) || (at < 0)) {
            continue;
        }
        bin = &bins->items[at / bins->width_ns];
        bin->prompt += r->prompt_tokens;
        bin->device += r->device_hit_tokens;
        bin->host += r->host_hit_tokens;
        bin->storage += r->storage_hit_tokens;
    }
}

static void put_hits(pl_html_t *page, const pl_report_data_t *data)
{
    bool stored                     = data->metrics.storage_hit_tokens > 0;
    const pl_html_section_t section = {
        .id    = "hits",
        .title = "Hit rate over time, by tier",
        .text  = "Share of the prompt tokens that arrived in each interval and "
                 "were found in a tier.",
        .chart = PL_HTML_STACK};
    pl_html_table_t *table = pl_html_section(page, &section);
    bins_t bins            = {0};

    span_bins(data, &bins);
    fill_bins(data, &bins);
    pl_html_column(table, "arrival_ns", "arrival", PL_HTML_NS, 0);
    pl_html_column(table, "device_share", "device", PL_HTML_SHARE, 0);
    pl_html_column(table, "host_share", "host", PL_HTML_SHARE, 0);
    if (stored) {
        pl_html_column(table, "storage_share", "storage", PL_HTML_SHARE, 0);
    }
    pl_html_column(table, "prompt_tokens", "prompt tokens", PL_HTML_COUNT, 0);
    pl_html_column(table, "device_hit_tokens", "on device", PL_HTML_COUNT, 0);
    pl_html_column(table, "host_hit_tokens", "on host", PL_HTML_COUNT, 0);
    pl_html_column(table, "storage_hit_tokens", "on storage", PL_HTML_COUNT, 0);
    for (int i = 0; i < bins.n; i++) {
        const bin_t *b = &bins.items[i];

        pl_html_integer(table, bins.first_ns + i * bins.width_ns);
        pl_html_real(table, pl_report_percent(b->device, b->prompt));
        pl_html_real(table, pl_report_percent(b->host, b->prompt));
        if (stored) {
            pl_html_real(table, pl_report_percent(b->storage, b->prompt));
        }
        pl_html_integer(table, b->prompt);
        pl_html_integer(table, b->device);
        pl_html_integer(table, b->host);
        pl_html_integer(table, b->storage);
    }
}

/* ---- samples of lanes ---- */

static size_t n_shown(const pl_report_data_t *data)
{
    return data->lanes.n < MOST_SAMPLES ? data->lanes.n : MOST_SAMPLES;
}

/* Evenly over all samples, the first and the last among them. */
static size_t sample_at(const pl_report_data_t *data, size_t i)
{
    size_t n = n_shown(data);

    return n < data->lanes.n ? i * (data->lanes.n - 1) / (n - 1) : i;
}

static void put_tier_columns(pl_html_table_t *table,
                             const pl_report_data_t *data, bool shares)
{
    for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
        char name[64], title[64];

        if (!data->lanes.used[tier]) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s%s", PL_REPORT_TIER_NAMES[tier],
                       shares ? "_share" : "_pages");
        (void)snprintf(title, sizeof(title), "%s%s", PL_REPORT_TIER_NAMES[tier],
                       shares ? "" : ", pages");
        for (char *c = name; *c != '\0'; c++) {
            *c = (char)(*c == ' ' ? '_' : *c);
        }
        pl_html_column(table, name, title,
                       shares ? PL_HTML_SHARE : PL_HTML_COUNT, 0);
    }
}

static void put_memory(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "memory",
        .title = "Memory over time, by tier",
        .text  = "Share of a tier's pages, over all its lanes, that hold KV "
                 "(of a tier without limit: of the most).",
        .chart = PL_HTML_LINES,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);
    const bool *used       = data->lanes.used;

    pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);
    put_tier_columns(table, data, true);
    put_tier_columns(table, data, false);
    for (size_t i = 0; i < n_shown(data); i++) {
        size_t at = sample_at(data, i);

        pl_html_integer(table, data->lanes.time.items[at]);
        for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
            int64_t full = data->lanes.pages[tier] *
                           (int64_t)pl_report_lanes_of(data, tier);

            if (used[tier]) {
                pl_html_real(table,
                             pl_report_percent(
                                 pl_report_held_by_all(data, tier, at), full));
            }
        }
        for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
            if (used[tier]) {
                pl_html_integer(table, pl_report_held_by_all(data, tier, at));
            }
        }
    }
}

static void put_queues(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "queues",
        .title = "Requests that wait and that decode",
        .text  = "At the end of each sampled tick: waiting for admission, and "
                 "running on a decode rank.",
        .chart = PL_HTML_LINES,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);
    pl_html_column(table, "waiting", "waiting", PL_HTML_COUNT, 0);
    pl_html_column(table, "running", "decoding", PL_HTML_COUNT, 0);
    for (size_t i = 0; i < n_shown(data); i++) {
        size_t at = sample_at(data, i);

        pl_html_integer(table, data->lanes.time.items[at]);
        pl_html_integer(table, data->lanes.waiting.items[at]);
        pl_html_integer(table, data->lanes.running.items[at]);
    }
}

static void put_lane_columns(pl_html_table_t *table,
                             const pl_report_data_t *data, int tier)
{
    double full   = (double)data->lanes.pages[tier];
    int64_t first = tier < PL_REPORT_DECODE ? 0 : data->layout.first_home;

    for (size_t lane = 0; lane < pl_report_lanes_of(data, tier); lane++) {
        char name[64], title[64];

        (void)snprintf(
            title, sizeof(title), "%s %s %" PRId64, PL_REPORT_TIER_NAMES[tier],
            tier < PL_REPORT_DECODE ? "lane" : "rank", first + (int64_t)lane);
        (void)snprintf(name, sizeof(name), "%s", title);
        for (char *c = name; *c != '\0'; c++) {
            *c = (char)(*c == ' ' ? '_' : *c);
        }
        pl_html_column(table, name, title, PL_HTML_COUNT, full);
    }
}

static void put_lanes(pl_html_t *page, const pl_report_data_t *data)
{
    char text[256];
    pl_html_section_t section = {.id    = "lanes",
                                 .title = "Lane occupancy, rank by rank",
                                 .text  = text,
                                 .chart = PL_HTML_HEAT};
    pl_html_table_t *table;

    (void)snprintf(text, sizeof(text),
                   "Pages that each rank's lane holds; %zu of %zu samples "
                   "(`pagelane export FILE lanes` has all).",
                   n_shown(data), data->lanes.n);
    table = pl_html_section(page, &section);
    pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);
    for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
        if (data->lanes.used[tier]) {
            put_lane_columns(table, data, tier);
        }
    }
    for (size_t i = 0; i < n_shown(data); i++) {
        size_t at = sample_at(data, i);

        pl_html_integer(table, data->lanes.time.items[at]);
        for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
            size_t n =
                data->lanes.used[tier] ? pl_report_lanes_of(data, tier) : 0;

            for (size_t lane = 0; lane < n; lane++) {
                pl_html_integer(table, pl_report_held(data, tier, at, lane));
            }
        }
    }
}

void pl_report_put_series(pl_html_t *page, const pl_report_data_t *data)
{
    put_hits(page, data);
    put_memory(page, data);
    put_queues(page, data);
    put_lanes(page, data);
}
