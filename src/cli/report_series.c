/* Over time: hits, memory by tier, queues, lanes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

enum {
    MOST_BINS     = 60,      /* of arrivals */
    MOST_SAMPLES  = 1024,    /* of lanes that a page carries */
    LEAST_SAMPLES = 64,      /* and at least, where lanes are */
    MOST_NUMBERS  = 1 << 18, /* more than these */
    MOST_STRIPS   = 256      /* of single lanes of several instances */
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

/* Is there a strip for each lane, or for each instance? */
static bool by_lane(const pl_report_data_t *data)
{
    return (data->fleet.file.n == 0) ||
           (data->layout.n_lanes + data->layout.n_homes <= MOST_STRIPS);
}

static bool is_of_decode(int tier)
{
    return tier >= PL_REPORT_DECODE;
}

/* Strips of a tier: lanes, or instances that have some. */
static size_t strips_of(const pl_report_data_t *data, int tier)
{
    const pl_fleet_file_t *file = &data->fleet.file;

    return by_lane(data) ? pl_report_lanes_of(data, tier)
           : is_of_decode(tier) && (file->n > file->n_prefill)
               ? (size_t)(file->n - file->n_prefill)
               : (size_t)file->n_prefill;
}

static size_t n_shown(const pl_report_data_t *data)
{
    size_t strips = 2 * strips_of(data, PL_REPORT_DEVICE) +
                    2 * strips_of(data, PL_REPORT_DECODE);
    size_t most = MOST_NUMBERS / strips;

    most = most < LEAST_SAMPLES  ? LEAST_SAMPLES
           : most > MOST_SAMPLES ? MOST_SAMPLES
                                 : most;
    return data->lanes.n < most ? data->lanes.n : most;
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

/* The same of both sides of several instances. */
static void put_fleet_queues(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "queues",
        .title = "Requests that wait and that decode",
        .text  = "Over all instances of a side: waiting for their first chunk, "
                 "for their first step after pages have come, and decoding.",
        .chart = PL_HTML_LINES,
        .half  = true};
    bool is_whole          = data->fleet.file.n == data->fleet.file.n_prefill;
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);
    pl_html_column(table, "waiting_prefill", "waiting for prefill",
                   PL_HTML_COUNT, 0);
    if (!is_whole) {
        pl_html_column(table, "waiting_decode", "waiting for decode",
                       PL_HTML_COUNT, 0);
    }
    pl_html_column(table, "running", "decoding", PL_HTML_COUNT, 0);
    for (size_t i = 0; i < n_shown(data); i++) {
        size_t at = sample_at(data, i);

        pl_html_integer(table, data->lanes.time.items[at]);
        pl_html_integer(table, pl_report_fleet_waiting(data, at, true));
        if (!is_whole) {
            pl_html_integer(table, pl_report_fleet_waiting(data, at, false));
        }
        pl_html_integer(table, data->lanes.running.items[at]);
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
    pl_html_table_t *table;

    if (data->fleet.file.n > 0) {
        put_fleet_queues(page, data);
        return;
    }
    table = pl_html_section(page, &section);
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

/* "device lane 3"; of several instances "device lane 1.3", lane 3 of the second
 * one, or "device instance 1". */
static void name_strip(const pl_report_data_t *data, int tier, size_t strip,
                       char *title, size_t n)
{
    bool of_decode   = is_of_decode(tier);
    const char *name = PL_REPORT_TIER_NAMES[tier];
    int64_t lane     = (int64_t)strip;
    int32_t instance;

    if (data->fleet.file.n == 0) {
        (void)snprintf(title, n, "%s %s %" PRId64, name,
                       of_decode ? "rank" : "lane",
                       lane + (of_decode ? data->layout.first_home : 0));
        return;
    }
    if (!by_lane(data)) {
        (void)snprintf(title, n, "%s instance %" PRId64, name, lane);
        return;
    }
    instance = pl_fleet_instance_of(&data->fleet.file, of_decode, lane, &lane);
    instance -= of_decode && (data->fleet.file.n > data->fleet.file.n_prefill)
                    ? data->fleet.file.n_prefill
                    : 0;
    (void)snprintf(title, n, "%s %s %" PRId32 ".%" PRId64, name,
                   of_decode ? "home" : "lane", instance, lane);
}

/* Lanes [first, *end_p) of a strip. */
static size_t lanes_of_strip(const pl_report_data_t *data, int tier,
                             size_t strip, size_t *end_p)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    bool of_decode              = is_of_decode(tier);
    int32_t at = of_decode && (file->n > file->n_prefill) ? file->n_prefill : 0;
    size_t first = 0;
    size_t n;

    if (by_lane(data)) {
        *end_p = strip + 1;
        return strip;
    }
    for (size_t i = 0;; i++) {
        const pl_fleet_row_t *row = &file->rows[at + (int32_t)i];

        n = (size_t)(of_decode ? row->homes : row->lanes);
        if (i == strip) {
            break;
        }
        first += n;
    }
    *end_p = first + n;
    return first;
}

static void put_lane_columns(pl_html_table_t *table,
                             const pl_report_data_t *data, int tier)
{
    for (size_t strip = 0; strip < strips_of(data, tier); strip++) {
        size_t end   = 0;
        size_t first = lanes_of_strip(data, tier, strip, &end);
        char name[64], title[64];

        name_strip(data, tier, strip, title, sizeof(title));
        (void)snprintf(name, sizeof(name), "%s", title);
        for (char *c = name; *c != '\0'; c++) {
            *c = (char)((*c == ' ') || (*c == '.') ? '_' : *c);
        }
        pl_html_column(table, name, title, PL_HTML_COUNT,
                       (double)data->lanes.pages[tier] * (double)(end - first));
    }
}

static void put_strip(pl_html_table_t *table, const pl_report_data_t *data,
                      int tier, size_t sample, size_t strip)
{
    size_t end   = 0;
    size_t first = lanes_of_strip(data, tier, strip, &end);
    int64_t held = 0;

    for (size_t lane = first; lane < end; lane++) {
        held += pl_report_held(data, tier, sample, lane);
    }
    pl_html_integer(table, held);
}

static void describe_lanes(const pl_report_data_t *data, char *text, size_t n)
{
    const char *what =
        data->fleet.file.n == 0 ? "Pages that each rank's lane holds"
        : by_lane(data) ? "Pages that each lane holds; 1.3 is lane 3 of "
                          "instance 1 of that side"
                        : "Pages that each instance holds, over its lanes";

    (void)snprintf(text, n,
                   "%s; %zu of %zu samples (`pagelane export FILE lanes` has "
                   "all).",
                   what, n_shown(data), data->lanes.n);
}

static void put_lanes(pl_html_t *page, const pl_report_data_t *data)
{
    char text[256];
    pl_html_section_t section = {.id    = "lanes",
                                 .title = data->fleet.file.n == 0
                                              ? "Lane occupancy, rank by rank"
                                              : "Lane occupancy, instance by "
                                                "instance",
                                 .text  = text,
                                 .chart = PL_HTML_HEAT};
    pl_html_table_t *table;

    describe_lanes(data, text, sizeof(text));
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
            size_t n = data->lanes.used[tier] ? strips_of(data, tier) : 0;

            for (size_t strip = 0; strip < n; strip++) {
                put_strip(table, data, tier, at, strip);
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
