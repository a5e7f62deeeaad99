/* Several instances: what limits them, how busy each is, over time too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/fleet_tables.h"
#include "cli/report_data.h"

enum { MOST_INTERVALS = 120 /* of the run, for shares of time */ };

/* ---- loading ---- */

/* Work of an instance adds up, to less than would overflow. */
static pl_status_t check_busy(const pl_report_data_t *data,
                              const pl_snapshot_column_t *busy)
{
    size_t n = busy->columns;

    for (size_t i = 0; i < busy->rows * n; i++) {
        int64_t before = i < n ? 0 : busy->items[i - n];

        if ((busy->items[i] < before) || (busy->items[i] > INT64_MAX / 4)) {
            return pl_snapshot_refuse(
                data->snapshot, "/lanes/instance_busy_ns",
                "sample %zu of instance %zu has %" PRId64
                "; expected times from 0 on that do not fall",
                i / n, i % n, busy->items[i]);
        }
    }
    return PL_OK;
}

static pl_status_t load_lanes(pl_report_data_t *data)
{
    pl_report_fleet_t *fleet = &data->fleet;
    size_t n                 = (size_t)fleet->file.n;

    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/instance_running",
                            PL_ITEM_I32, data->lanes.n, n, &fleet->running));
    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/instance_waiting",
                            PL_ITEM_I32, data->lanes.n, n, &fleet->waiting));
    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/instance_busy_ns",
                            PL_ITEM_I64, data->lanes.n, n, &fleet->busy_ns));
    return check_busy(data, &fleet->busy_ns);
}

pl_status_t pl_report_load_fleet(pl_report_data_t *data)
{
    pl_report_fleet_t *fleet = &data->fleet;
    const char *text         = pl_report_text(data, "config", "slo");
    pl_slo_t slo             = {0};

    PL_TRY(pl_fleet_read(data->snapshot, data->n, &fleet->file));
    if (fleet->file.n == 0) {
        return PL_OK;
    }
    PL_TRY(load_lanes(data));
    fleet->slo_text = (text != NULL) && pl_slo_parse(text, &slo) ? text : NULL;
    fleet->outcome  = pl_fleet_outcome(&fleet->file, data->records, data->n);
    fleet->sides =
        pl_fleet_sides(&fleet->outcome, &data->metrics, fleet->file.homes);
    fleet->limit = pl_fleet_limit(&fleet->outcome, &fleet->sides, &slo);
    return PL_OK;
}

void pl_report_free_fleet(pl_report_data_t *data)
{
    pl_fleet_file_free(&data->fleet.file);
    pl_snapshot_column_free(&data->fleet.running);
    pl_snapshot_column_free(&data->fleet.waiting);
    pl_snapshot_column_free(&data->fleet.busy_ns);
}

/* ---- in words ---- */

/* "2 x 8 GPUs" of a side; the first of them stands for all. */
static int64_t gpus_of(const pl_report_fleet_t *fleet, int32_t first,
                       int32_t end)
{
    int64_t gpus = 0;

    for (int32_t i = first; i < end; i++) {
        pl_report_add(&gpus, fleet->file.rows[i].gpus);
    }
    return gpus;
}

void pl_report_describe_fleet(const pl_report_data_t *data, char *text,
                              size_t n)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    const char *router          = pl_report_text(data, "config", "router");
    const char *ownership       = pl_report_text(data, "layout", "ownership");
    int32_t n_decode            = file->n - file->n_prefill;
    char decode[160]            = "which decode too";

    if (n_decode > 0) {
        (void)snprintf(decode, sizeof(decode),
                       "%" PRId32 " decode instance%s of %" PRId64 " (%" PRId32
                       " home%s%s)",
                       n_decode, pl_text_s(n_decode),
                       file->rows[file->n_prefill].gpus, file->homes,
                       pl_text_s(file->homes), n_decode == 1 ? "" : " each");
    }
    (void)snprintf(text, n,
                   "%" PRId32 " prefill instance%s of %" PRId64
                   " GPUs, %s; router %.40s, pages of %" PRId64
                   " tokens, chunks of %" PRId64 ", %.40s; times are virtual.",
                   file->n_prefill, pl_text_s(file->n_prefill),
                   file->rows[0].gpus, decode, router == NULL ? "?" : router,
                   data->layout.page_tokens, data->layout.chunk_tokens,
                   ownership == NULL ? "?" : ownership);
}

static const char *hint_of(pl_fleet_part_t part)
{
    static const char *const HINTS[PL_FLEET_PARTS + 1] = {
        [PL_FLEET_FIRST_CHUNK] = "More prefill instances (`--prefill`), or "
                                 "fewer tokens to compute, shorten it.",
        [PL_FLEET_HOME]    = "More `--decode-pages`, or more decode instances "
                             "(`--decode`), shorten it.",
        [PL_FLEET_PREFILL] = "More GPUs in a prefill instance, or a higher hit "
                             "rate, shorten it.",
        [PL_FLEET_TRANSFER] = "A faster `--pd-link` shortens it.",
        [PL_FLEET_BATCH]  = "A larger `--max-batch`, or more decode instances "
                            "(`--decode`), shorten it.",
        [PL_FLEET_CHUNKS] = "Decode instances of their own (`--decode`) wait "
                            "for no chunks.",
        [PL_FLEET_STEPS]  = "More decode instances, or homes of more GPUs each "
                            "(`--decode MxG:dpK`), make steps shorter.",
        [PL_FLEET_PARTS]  = "`sweep --pd auto` tries fewer GPUs.",
    };

    return HINTS[part];
}

pl_status_t pl_report_fleet_headline(const pl_report_data_t *data,
                                     char **head_p, char **why_p)
{
    const pl_report_fleet_t *fleet = &data->fleet;
    const char *words              = pl_fleet_limit_words(&fleet->limit);
    pl_text_t head                 = {0};
    pl_text_t why                  = {0};
    pl_status_t status;

    if (*words == '\0') {
        pl_text_add(&head, "Nothing limits this deployment");
    } else {
        pl_text_add(&head, "%s this deployment", words);
    }
    pl_fleet_limit_explain(&fleet->limit, &fleet->sides, &data->metrics,
                           fleet->slo_text, &why);
    pl_text_add(&why, ". %s", hint_of(fleet->limit.part));
    if ((why.bytes != NULL) && (why.bytes[0] >= 'a') && (why.bytes[0] <= 'z')) {
        why.bytes[0] = (char)(why.bytes[0] - 'a' + 'A');
    }
    status = pl_text_take(&head, head_p);
    if (status == PL_OK) {
        status = pl_text_take(&why, why_p);
    }
    pl_text_free(&why);
    return status;
}

/* ---- tiles ---- */

void pl_report_fleet_tiles(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_report_fleet_t *fleet = &data->fleet;
    const pl_fleet_sides_t *s      = &fleet->sides;
    int32_t first                  = fleet->file.n_prefill;
    int64_t gpus                   = gpus_of(fleet, 0, fleet->file.n);
    double seconds                 = (double)data->metrics.duration_ns / 1e9;
    char value[64], note[128];

    (void)snprintf(value, sizeof(value), "%" PRId64, gpus);
    (void)snprintf(
        note, sizeof(note),
        "%" PRId64 " prefill, %" PRId64 " decode; %.2f output tokens/s each",
        gpus_of(fleet, 0, first), gpus_of(fleet, first, fleet->file.n),
        (seconds > 0) && (gpus > 0)
            ? (double)data->metrics.output_tokens / seconds / (double)gpus
            : 0);
    pl_html_tile(page, "GPUs", value, note);
    (void)snprintf(value, sizeof(value), "%.1f %%", 100 * s->prefill.busy);
    (void)snprintf(note, sizeof(note),
                   "at most %" PRId64 " waiting; busiest %.2f times the mean",
                   s->prefill.most_waiting, s->prefill.imbalance);
    pl_html_tile(page, "prefill busy", value, note);
    (void)snprintf(value, sizeof(value), "%.1f %%", 100 * s->decode.busy);
    (void)snprintf(note, sizeof(note),
                   "at most %" PRId64
                   " waiting; %.2f requests step at a time in a home",
                   s->decode.most_waiting,
                   s->decode.busy > 0 ? s->decode.batch / s->decode.busy : 0);
    pl_html_tile(page, "decode busy", value, note);
}

/* ---- tables ---- */

static void side_row(pl_html_table_t *table, const pl_report_fleet_t *fleet,
                     bool prefills)
{
    const pl_fleet_file_t *file = &fleet->file;
    bool is_whole               = file->n == file->n_prefill;
    int32_t first               = prefills || is_whole ? 0 : file->n_prefill;
    int32_t end                 = prefills ? file->n_prefill : file->n;
    const pl_fleet_side_t *side =
        prefills ? &fleet->sides.prefill : &fleet->sides.decode;

    pl_html_text(table, "%s", prefills ? "prefill" : "decode");
    pl_html_integer(table, side->n);
    pl_html_integer(table, gpus_of(fleet, first, end));
    pl_html_real(table, 100 * side->busy);
    pl_html_real(table, side->imbalance);
    pl_html_integer(table, side->most_waiting);
    pl_html_real(table, 100 * side->link_busy);
}

static void put_sides(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "sides",
        .title = "Both sides",
        .text  = "Busy: time in which instances computed, over the run. A "
                 "decode instance is as busy with one request as with many.",
        .chart = PL_HTML_BARS,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "side", "side", PL_HTML_TEXT, 0);
    pl_html_column(table, "instances", "instances", PL_HTML_COUNT, 0);
    pl_html_column(table, "gpus", "GPUs", PL_HTML_COUNT, 0);
    pl_html_column(table, "busy_share", "busy", PL_HTML_SHARE, 0);
    pl_html_column(table, "imbalance", "busiest over mean", PL_HTML_REAL, 0);
    pl_html_column(table, "most_waiting", "most waiting", PL_HTML_COUNT, 0);
    pl_html_more(table);
    pl_html_column(table, "link_busy_share", "link busy", PL_HTML_SHARE, 0);
    side_row(table, &data->fleet, true);
    side_row(table, &data->fleet, false);
}

static void put_waits(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "waits",
        .title = "What the mean request waits for",
        .text  = "Share of its time from arrival to end.",
        .chart = PL_HTML_BARS,
        .half  = true};
    pl_html_table_t *table = pl_html_section(page, &section);
    double all             = data->metrics.e2e.mean;
    pl_fleet_wait_t waits[PL_FLEET_WAITS];

    pl_fleet_list_waits(&data->fleet.sides, waits);
    pl_html_column(table, "for", "for", PL_HTML_TEXT, 0);
    pl_html_column(table, "mean_ns", "mean", PL_HTML_NS, 0);
    pl_html_column(table, "share", "share", PL_HTML_SHARE, 0);
    for (size_t i = 0; i < PL_FLEET_WAITS; i++) {
        pl_html_text(table, "%s", waits[i].name);
        pl_html_integer(table, (int64_t)waits[i].ns);
        pl_html_real(table, all > 0 ? 100 * waits[i].ns / all : 0);
    }
}

static void instance_row(pl_html_table_t *table, const pl_report_data_t *data,
                         int32_t i)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    const pl_fleet_usage_t *u   = &file->usages[i];
    pl_fleet_said_t said        = pl_fleet_said(
               &data->fleet.outcome, data->metrics.duration_ns, file->homes, i);
    char name[PL_FLEET_NAME_BYTES];

    pl_fleet_name(file, i, name);
    pl_html_text(table, "%s", name);
    pl_html_integer(table, u->requests);
    pl_html_real(table, 100 * (said.prefill_busy + said.decode_busy));
    pl_html_integer(table, u->requests > 0 ? u->waiting_ns / u->requests : 0);
    pl_html_integer(table, u->most_waiting);
    if (said.prefills) {
        pl_html_integer(table, u->prompt_tokens);
        pl_html_integer(table, u->computed_tokens);
        pl_html_real(table, 100 * said.hits);
    } else {
        pl_html_none(table);
        pl_html_none(table);
        pl_html_none(table);
    }
    if (said.decodes) {
        pl_html_integer(table, u->steps);
        pl_html_real(table, said.batch);
    } else {
        pl_html_none(table);
        pl_html_none(table);
    }
    pl_html_real(table, 100 * said.link_busy);
    pl_html_integer(table, file->rows[i].gpus);
    pl_html_integer(table, u->sent_bytes);
    pl_html_integer(table, u->received_bytes);
    pl_html_integer(table, u->refusals);
}

static void put_instances(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "instances",
        .title = "Instances",
        .text = "Wait: of the mean request, for its first chunk or step there. "
                "Batch: requests that step at the same time in each home, "
                "over the run. The CSV has GPUs and bytes too, and how often "
                "no home had room (refusals).",
        .chart = PL_HTML_BARS};
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "instance", "instance", PL_HTML_TEXT, 0);
    pl_html_column(table, "requests", "requests", PL_HTML_COUNT, 0);
    pl_html_column(table, "busy_share", "busy", PL_HTML_SHARE, 0);
    pl_html_column(table, "mean_wait_ns", "wait", PL_HTML_NS, 0);
    pl_html_column(table, "most_waiting", "most waiting", PL_HTML_COUNT, 0);
    pl_html_column(table, "prompt_tokens", "prompt tokens", PL_HTML_COUNT, 0);
    pl_html_column(table, "computed_tokens", "computed", PL_HTML_COUNT, 0);
    pl_html_column(table, "hit_share", "hits", PL_HTML_SHARE, 0);
    pl_html_column(table, "decode_steps", "steps", PL_HTML_COUNT, 0);
    pl_html_column(table, "batch", "batch", PL_HTML_REAL, 0);
    pl_html_more(table);
    pl_html_column(table, "link_busy_share", "link busy", PL_HTML_SHARE, 0);
    pl_html_column(table, "gpus", "GPUs", PL_HTML_COUNT, 0);
    pl_html_column(table, "sent_bytes", "sent, bytes", PL_HTML_COUNT, 0);
    pl_html_column(table, "received_bytes", "received", PL_HTML_COUNT, 0);
    pl_html_column(table, "refusals", "refused", PL_HTML_COUNT, 0);
    for (int32_t i = 0; i < data->fleet.file.n; i++) {
        instance_row(table, data, i);
    }
}

/* ---- over time ---- */

/* Work of instances [first, end) up to ns, between samples evenly; at_p: of the
 * sample before, which only goes on. */
static double busy_until(const pl_report_data_t *data, int32_t first,
                         int32_t end, int64_t ns, size_t *at_p)
{
    const pl_snapshot_column_t *busy = &data->fleet.busy_ns;
    const int64_t *time              = data->lanes.time.items;
    size_t n                         = data->lanes.n;
    size_t at                        = *at_p;
    double part                      = 0;
    double sum                       = 0;

    while ((at + 1 < n) && (time[at + 1] <= ns)) {
        at++;
    }
    *at_p = at;
    if (at + 1 < n) {
        part = (double)(ns - time[at]) / (double)(time[at + 1] - time[at]);
    }
    for (int32_t i = first; i < end; i++) {
        int64_t here = busy->items[at * busy->columns + (size_t)i];
        int64_t more =
            at + 1 < n
                ? busy->items[(at + 1) * busy->columns + (size_t)i] - here
                : 0;

        sum += (double)here + part * (double)more;
    }
    return sum;
}

static void put_intervals(pl_html_table_t *table, const pl_report_data_t *data,
                          int64_t n)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    int64_t first_ns            = data->lanes.time.items[0];
    int64_t last_ns             = data->lanes.time.items[data->lanes.n - 1];
    int64_t width               = (last_ns - first_ns) / n;
    const int32_t ends[2][2]    = {{0, file->n_prefill},
                                   {file->n_prefill, file->n}};
    size_t at[2]                = {0, 0};
    double before[2]            = {0, 0};
    int sides                   = file->n > file->n_prefill ? 2 : 1;

    for (int64_t i = 0; i <= n; i++) {
        int64_t ns = i < n ? first_ns + i * width : last_ns;

        if (i > 0) {
            pl_html_integer(table, first_ns + (i - 1) * width);
        }
        for (int side = 0; side < sides; side++) {
            int32_t first = ends[side][0];
            int32_t end   = ends[side][1];
            double busy   = busy_until(data, first, end, ns, &at[side]);
            int64_t from  = first_ns + (i - 1) * width;

            if (i > 0) {
                pl_html_real(table, 100 * (busy - before[side]) /
                                        ((double)(ns - from) * (end - first)));
            }
            before[side] = busy;
        }
    }
}

static void put_utilisation(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_html_section_t section = {
        .id    = "utilisation",
        .title = "How busy sides are, over time",
        .text  = "Share of each interval in which the instances of a side "
                 "computed.",
        .chart = PL_HTML_LINES};
    bool is_whole = data->fleet.file.n == data->fleet.file.n_prefill;
    size_t n      = data->lanes.n;
    int64_t span =
        n == 0 ? 0 : data->lanes.time.items[n - 1] - data->lanes.time.items[0];
    pl_html_table_t *table = pl_html_section(page, &section);

    pl_html_column(table, "time_ns", "time", PL_HTML_NS, 0);
    pl_html_column(table, is_whole ? "busy_share" : "prefill_share",
                   is_whole ? "busy" : "prefill", PL_HTML_SHARE, 0);
    if (!is_whole) {
        pl_html_column(table, "decode_share", "decode", PL_HTML_SHARE, 0);
    }
    if (span > 0) {
        put_intervals(table, data,
                      span < MOST_INTERVALS    ? 1
                      : n / 8 < 1              ? 1
                      : n / 8 < MOST_INTERVALS ? (int64_t)n / 8
                                               : MOST_INTERVALS);
    }
}

int64_t pl_report_fleet_waiting(const pl_report_data_t *data, size_t sample,
                                bool prefills)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    int32_t first               = prefills ? 0 : file->n_prefill;
    int32_t end                 = prefills ? file->n_prefill : file->n;
    int64_t n                   = 0;

    for (int32_t i = first; i < end; i++) {
        n += data->fleet.waiting.items[sample * (size_t)file->n + (size_t)i];
    }
    return n;
}

void pl_report_put_fleet(pl_html_t *page, const pl_report_data_t *data)
{
    if (data->fleet.file.n > 0) {
        put_sides(page, data);
        put_waits(page, data);
        put_instances(page, data);
        put_utilisation(page, data);
    }
}

/* ---- advice ---- */

static void about_balance(pl_html_t *page, const pl_report_data_t *data,
                          bool prefills)
{
    const pl_fleet_side_t *side =
        prefills ? &data->fleet.sides.prefill : &data->fleet.sides.decode;

    if ((side->n > 1) && (side->imbalance > 1.2)) {
        pl_html_advice(
            page, PL_HTML_ADVICE,
            prefills ? "Prefill instances are uneven."
                     : "Decode instances are uneven.",
            "The busiest of %" PRId32 " %s %.2f times the mean. %s", side->n,
            prefills ? "computed" : "made steps for", side->imbalance,
            prefills ? "Try another `--router`."
                     : "The one with the most room gets a request, however "
                       "long its answer: fewer instances may do.");
    }
}

void pl_report_fleet_advice(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_report_fleet_t *fleet = &data->fleet;
    int64_t refusals               = 0;

    for (int32_t i = 0; i < fleet->file.n_prefill; i++) {
        refusals += fleet->file.usages[i].refusals;
    }
    about_balance(page, data, true);
    about_balance(page, data, false);
    if (refusals > 0) {
        pl_html_advice(page, PL_HTML_ADVICE, "Prompts waited for a home.",
                       "%" PRId64
                       " times no decode pool had room for the first prompt in "
                       "a queue, %.2f ms of the mean request: raise "
                       "`--decode-pages`, or take more decode instances.",
                       refusals, fleet->sides.for_home / 1e6);
    }
    pl_html_advice(page, PL_HTML_NOTE, "The file has no events.",
                   "Several instances keep none; simulate one of them with "
                   "`--cp` to see its lanes and pages.");
}
