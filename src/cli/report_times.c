/* Where time goes, distributions of times, misses, links, the slowest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "cli/report_data.h"
#include "clock/cost.h"

/* ---- bars ---- */

static void part_row(pl_html_table_t *table, const char *name, int64_t part,
                     int64_t whole)
{
    pl_html_text(table, "%s", name);
    pl_html_integer(table, part);
    pl_html_real(table, pl_report_percent(part, whole));
}

static void put_phases(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "phases",
        .title = "Where the time of requests goes",
        .text  = "Virtual time of completed requests, from arrival to end.",
        .chart = PL_HTML_BARS,
        .half  = true};
    const pl_report_waits_t *w = &data->waits;
    pl_html_table_t *table     = pl_html_section(page, &section);
    const struct {
        const char *name;
        int64_t ns;
    } phases[]  = {{"queueing", w->queue_ns},
                   {"prefill", w->prefill_ns},
                   {"transfer to decode", w->transfer_ns},
                   {"decode", w->decode_ns}};
    int64_t all = 0;
    int64_t n   = data->metrics.n_completed > 0 ? data->metrics.n_completed : 1;

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        pl_report_add(&all, phases[i].ns);
    }
    pl_html_column(table, "phase", "phase", PL_HTML_TEXT, 0);
    pl_html_column(table, "total_ns", "total", PL_HTML_NS, 0);
    pl_html_column(table, "mean_ns", "mean", PL_HTML_NS, 0);
    pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        pl_html_text(table, "%s", phases[i].name);
        pl_html_integer(table, phases[i].ns);
        pl_html_integer(table, phases[i].ns / n);
        pl_html_real(table, pl_report_percent(phases[i].ns, all));
    }
}

/* Of the file's counters, where it has them. */
static void put_parts(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "operations",
        .title = "Where virtual time goes, by operation",
        .text  = "Of all chunks, and of the longest home's decode step in each "
                 "tick.",
        .chart = PL_HTML_BARS};
    static const char *const SIDES[] = {"prefill", "decode"};
    pl_html_table_t *table           = NULL;

    for (size_t side = 0; side < 2; side++) {
        int64_t ns[PL_COST_PARTS] = {0};
        int64_t all               = 0;
        char name[64];

        for (int part = 0; part < PL_COST_PARTS; part++) {
            (void)snprintf(name, sizeof(name), "%s_%s_ns", SIDES[side],
                           pl_cost_part_text((pl_cost_part_t)part));
            ns[part] = pl_report_number(data, "engine", name);
            pl_report_add(&all, ns[part]);
        }
        if ((all > 0) && (table == NULL)) {
            table = pl_html_section(page, &section);
            pl_html_column(table, "step", "step", PL_HTML_TEXT, 0);
            pl_html_column(table, "part", "part", PL_HTML_TEXT, 0);
            pl_html_column(table, "total_ns", "total", PL_HTML_NS, 0);
            pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
        }
        for (int part = 0; part < PL_COST_PARTS; part++) {
            if (ns[part] > 0) {
                pl_html_text(table, "%s", SIDES[side]);
                part_row(table, pl_cost_part_words((pl_cost_part_t)part),
                         ns[part], all);
            }
        }
    }
}

static void put_tokens(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {.id    = "tokens",
                                       .title = "Where prompt tokens came from",
                                       .chart = PL_HTML_BARS,
                                       .half  = true};
    const pl_metrics_t *m           = &data->metrics;
    pl_html_table_t *table          = pl_html_section(page, &section);

    pl_html_column(table, "source", "source", PL_HTML_TEXT, 0);
    pl_html_column(table, "tokens", "tokens", PL_HTML_COUNT, 0);
    pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
    part_row(table, "hit on device", m->device_hit_tokens, m->prompt_tokens);
    part_row(table, "hit on host", m->host_hit_tokens, m->prompt_tokens);
    part_row(table, "hit on storage", m->storage_hit_tokens, m->prompt_tokens);
    part_row(table, "computed", m->computed_tokens, m->prompt_tokens);
}

static void put_misses(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "misses",
        .title = "Why pages were missed",
        .text  = "`pagelane inspect FILE why R` says which, for whom, and what "
                 "would have been enough.",
        .chart = PL_HTML_BARS,
        .half  = true};
    const pl_metrics_t *m  = &data->metrics;
    pl_html_table_t *table = pl_html_section(page, &section);
    int64_t all            = 0;

    pl_html_column(table, "cause", "missed because", PL_HTML_TEXT, 0);
    pl_html_column(table, "pages", "pages", PL_HTML_COUNT, 0);
    pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
    for (int miss = 0; miss < PL_MISSES; miss++) {
        all += m->miss_pages[miss];
    }
    for (int miss = 0; miss < PL_MISSES; miss++) {
        if (m->miss_pages[miss] > 0) {
            part_row(table, pl_report_miss_text((pl_miss_t)miss),
                     m->miss_pages[miss], all);
        }
    }
}

/* What is between instances stands in a table of theirs. */
static int64_t link_bytes(const pl_report_data_t *data, const char *counter)
{
    bool is_between =
        (data->fleet.file.n > 0) && (strcmp(counter, "link_bytes_pd") == 0);

    return is_between ? 0 : pl_report_number(data, "engine", counter);
}

static void put_links(pl_html_t *page, const pl_report_data_t *data)
{
    static const struct {
        const char *name, *counter;
    } LINKS[]                       = {{"host to device", "link_bytes_h2d"},
                                       {"device to host", "link_bytes_d2h"},
                                       {"prefill to decode", "link_bytes_pd"},
                                       {"decode and its host buffer", "link_bytes_offload"},
                                       {"host to storage", "link_bytes_store"},
                                       {"storage to host", "link_bytes_fetch"}};
    const pl_html_section_t section = {
        .id    = "links",
        .title = "What links carried",
        .text  = "Bytes of the busiest rank, summed over operations.",
        .chart = PL_HTML_BARS,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);
    int64_t all            = 0;

    pl_html_column(table, "link", "link", PL_HTML_TEXT, 0);
    pl_html_column(table, "bytes", "bytes", PL_HTML_COUNT, 0);
    pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
    for (size_t i = 0; i < sizeof(LINKS) / sizeof(LINKS[0]); i++) {
        pl_report_add(&all, link_bytes(data, LINKS[i].counter));
    }
    for (size_t i = 0; i < sizeof(LINKS) / sizeof(LINKS[0]); i++) {
        int64_t bytes = link_bytes(data, LINKS[i].counter);

        if (bytes > 0) {
            part_row(table, LINKS[i].name, bytes, all);
        }
    }
}

/* ---- distributions ---- */

enum { LINEAR_BINS = 24 };

/* The next of 1, 2, 5, 10, 20, ... that is at least n. */
static int64_t round_up(int64_t n)
{
    int64_t ten = 1;

    while (ten * 10 <= n) {
        ten *= 10;
    }
    return n <= ten       ? ten
           : n <= 2 * ten ? 2 * ten
           : n <= 5 * ten ? 5 * ten
                          : 10 * ten;
}

/* The edge behind one of 10, 12, 15, 18, 22, ..., 82, 100, 120, ... */
static int64_t next_edge(int64_t edge)
{
    static const int64_t STEPS[] = {10, 12, 15, 18, 22, 27, 33,
                                    39, 47, 56, 68, 82, 100};
    int64_t scale                = 1;

    while (edge / 100 >= scale) {
        scale *= 10;
    }
    for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
        if (STEPS[i] * scale > edge) {
            return STEPS[i] * scale;
        }
    }
    return 120 * scale;
}

/* Of sorted[n], n >= 1: even bins if they lie close, else ones that grow. */
static void put_bins(pl_html_table_t *table, const int64_t *sorted, int64_t n)
{
    bool even     = sorted[n - 1] / 5 < sorted[0];
    int64_t width = round_up((sorted[n - 1] - sorted[0]) / LINEAR_BINS + 1);
    int64_t edge  = even ? sorted[0] / width * width : 0;
    int64_t i     = 0;

    while (i < n) {
        int64_t end   = even ? edge + width : next_edge(edge);
        int64_t first = i;

        while ((i < n) && (sorted[i] < end)) {
            i++;
        }
        if (i > 0) { /* none before the first that has some */
            pl_html_integer(table, edge);
            pl_html_integer(table, end);
            pl_html_integer(table, i - first);
        }
        edge = end;
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Of a request that counts. */
static bool has_time(const pl_record_t *record, pl_metric_time_t which,
                     int64_t *ns_p)
{
    return pl_metrics_counts(record) && pl_metrics_time(record, which, ns_p);
}

static pl_status_t put_distribution(pl_html_t *page,
                                    const pl_report_data_t *data,
                                    pl_metric_time_t which,
                                    const pl_html_section_t *section)
{
    pl_html_table_t *table = pl_html_section(page, section);
    int64_t *values        = malloc(((size_t)data->n + 1) * sizeof(*values));
    int64_t n              = 0;
    pl_spread_t spread;

    if (values == NULL) {
        return PL_ERR_MEMORY;
    }
    pl_html_column(table, "from_ns", "from", PL_HTML_NS, 0);
    pl_html_column(table, "to_ns", "to", PL_HTML_NS, 0);
    pl_html_column(table, "requests", "requests", PL_HTML_COUNT, 0);
    for (int32_t i = 0; i < data->n; i++) {
        n += has_time(&data->records[i], which, &values[n]) ? 1 : 0;
    }
    if (n > 0) {
        qsort(values, (size_t)n, sizeof(*values), by_value);
        spread = pl_metrics_spread(values, n);
        put_bins(table, values, n);
        pl_html_mark(table, (double)spread.p50_ns, "p50");
        pl_html_mark(table, (double)spread.p90_ns, "p90");
        pl_html_mark(table, (double)spread.p99_ns, "p99");
    }
    free(values);
    return PL_OK;
}

static void spread_row(pl_html_table_t *table, const char *name,
                       const pl_spread_t *spread)
{
    pl_html_text(table, "%s", name);
    pl_html_integer(table, (int64_t)spread->mean);
    pl_html_integer(table, spread->p50_ns);
    pl_html_integer(table, spread->p90_ns);
    pl_html_integer(table, spread->p99_ns);
    pl_html_integer(table, spread->max_ns);
}

static void put_latencies(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {.id    = "latencies",
                                       .title = "Times of completed requests",
                                       .text  = "Virtual time; percentiles by "
                                                "nearest rank.",
                                       .chart = PL_HTML_TABLE};
    const pl_metrics_t *m           = &data->metrics;
    pl_html_table_t *table          = pl_html_section(page, &section);

    pl_html_column(table, "time", "time", PL_HTML_TEXT, 0);
    pl_html_column(table, "mean_ns", "mean", PL_HTML_NS, 0);
    pl_html_column(table, "p50_ns", "p50", PL_HTML_NS, 0);
    pl_html_column(table, "p90_ns", "p90", PL_HTML_NS, 0);
    pl_html_column(table, "p99_ns", "p99", PL_HTML_NS, 0);
    pl_html_column(table, "max_ns", "max", PL_HTML_NS, 0);
    spread_row(table, "queueing", &m->queue);
    spread_row(table, "time to first token", &m->ttft);
    spread_row(table, "time per output token", &m->tpot);
    spread_row(table, "end to end", &m->e2e);
}

/* ---- the slowest ---- */

enum { SLOWEST = 10 };

static void put_instance(pl_html_table_t *table, const pl_report_data_t *data,
                         int64_t instance)
{
    char name[PL_FLEET_NAME_BYTES] = "-";

    if (instance >= 0) {
        pl_fleet_name(&data->fleet.file, (int32_t)instance, name);
    }
    pl_html_text(table, "%s", name);
}

static void put_slow_row(pl_html_table_t *table, const pl_report_data_t *data,
                         int32_t i)
{
    const pl_record_t *r        = &data->records[i];
    const pl_fleet_file_t *file = &data->fleet.file;

    pl_html_text(table, "%" PRId32, i);
    pl_html_integer(table, r->arrival_ns);
    pl_html_integer(table, r->first_token_ns - r->arrival_ns);
    pl_html_integer(table, r->admitted_ns - r->arrival_ns);
    pl_html_integer(table, r->prompt_tokens);
    pl_html_integer(table, r->device_hit_tokens);
    pl_html_integer(table, r->host_hit_tokens);
    pl_html_integer(table, r->miss_pages[PL_MISS_EVICTED]);
    if (file->n > 0) {
        put_instance(table, data, file->prefill.items[i]);
        put_instance(table, data, file->decode.items[i]);
    }
}

/* Slower than another, and not yet taken? */
static bool is_next(const pl_report_data_t *data, int32_t i, int32_t best,
                    int32_t before)
{
    int64_t ns   = 0;
    int64_t than = 0;

    if (!has_time(&data->records[i], PL_METRIC_TTFT, &ns)) {
        return false;
    }
    if ((before >= 0) &&
        has_time(&data->records[before], PL_METRIC_TTFT, &than) &&
        ((ns > than) || ((ns == than) && (i <= before)))) {
        return false; /* it was among those before */
    }
    return (best < 0) ||
           (has_time(&data->records[best], PL_METRIC_TTFT, &than) &&
            (ns > than));
}

static void put_slowest(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "slowest",
        .title = "Slowest to their first token",
        .text  = "`pagelane export FILE requests` has all requests.",
        .chart = PL_HTML_TABLE};
    pl_html_table_t *table = pl_html_section(page, &section);
    int32_t before         = -1;

    pl_html_column(table, "request", "request", PL_HTML_TEXT, 0);
    pl_html_column(table, "arrival_ns", "arrival", PL_HTML_NS, 0);
    pl_html_column(table, "ttft_ns", "first token", PL_HTML_NS, 0);
    pl_html_column(table, "queue_ns", "of it queueing", PL_HTML_NS, 0);
    pl_html_column(table, "prompt_tokens", "prompt tokens", PL_HTML_COUNT, 0);
    pl_html_column(table, "device_hit_tokens", "on device", PL_HTML_COUNT, 0);
    pl_html_column(table, "host_hit_tokens", "on host", PL_HTML_COUNT, 0);
    pl_html_column(table, "miss_evicted", "evicted pages", PL_HTML_COUNT, 0);
    if (data->fleet.file.n > 0) {
        pl_html_column(table, "prefill_instance", "on", PL_HTML_TEXT, 0);
        pl_html_column(table, "decode_instance", "and", PL_HTML_TEXT, 0);
    }
    for (int k = 0; k < SLOWEST; k++) {
        int32_t best = -1;

        for (int32_t i = 0; i < data->n; i++) {
            best = is_next(data, i, best, before) ? i : best;
        }
        if (best < 0) {
            return;
        }
        put_slow_row(table, data, best);
        before = best;
    }
}

/* ---- the whole ---- */

pl_status_t pl_report_put_times(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t ttft = {
        .id    = "ttft",
        .title = "Time to first token",
        .text  = "Completed requests by time from arrival to first token.",
        .chart = PL_HTML_HISTOGRAM,
        .half  = true};
    const pl_html_section_t tpot = {
        .id    = "tpot",
        .title = "Time per output token",
        .text  = "Completed requests of two tokens or more, first to last "
                 "token.",
        .chart = PL_HTML_HISTOGRAM,
        .half  = true};

    PL_TRY(put_distribution(page, data, PL_METRIC_TTFT, &ttft));
    PL_TRY(put_distribution(page, data, PL_METRIC_TPOT, &tpot));
    put_latencies(page, data);
    put_phases(page, data);
    put_tokens(page, data);
    put_misses(page, data);
    put_links(page, data);
    put_parts(page, data);
    put_slowest(page, data);
    return PL_OK;
}

void pl_report_put_facts(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id = "config", .title = "Options and layout", .chart = PL_HTML_TABLE};
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "group", "group", PL_HTML_TEXT, 0);
    pl_html_column(table, "name", "name", PL_HTML_TEXT, 0);
    pl_html_column(table, "value", "value", PL_HTML_TEXT, 0);
    for (size_t i = 0; i < data->facts.n; i++) {
        const pl_report_fact_t *fact = &data->facts.items[i];

        pl_html_text(table, "%s", fact->group);
        pl_html_text(table, "%s", fact->name);
        pl_html_text(table, "%s", fact->text);
    }
}
