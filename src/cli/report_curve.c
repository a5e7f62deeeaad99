/* What an LRU cache of any size would hit of the run's trace, exactly. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

/* ---- the trace ---- */

/* The options of the run that say which requests it took. */
static void take_options(const pl_report_data_t *data, const char *path,
                         pl_trace_params_t *params)
{
    const struct {
        const char *name;
        int64_t least, value;
    } numbers[] = {{"offset", 0, 0},          {"limit", -1, 0},
                   {"block_tokens", 0, 0},    {"passes", 1, 0},
                   {"max_new", 0, 0},         {"seed", 0, 0},
                   {"trace_block_size", 0, 0}};
    int64_t values[sizeof(numbers) / sizeof(numbers[0])];
    const char *pace    = pl_report_text(data, "config", "pace");
    const char *speedup = pl_report_text(data, "config", "speedup");

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const char *text = pl_report_text(data, "config", numbers[i].name);

        values[i] = text == NULL ? 0 : strtoll(text, NULL, 10);
        if (values[i] < numbers[i].least) {
            values[i] = numbers[i].least;
        }
    }
    params->path         = path;
    params->offset       = values[0];
    params->limit        = values[1];
    params->block_tokens = (int32_t)values[2];
    params->passes       = (int32_t)values[3];
    params->max_new      = (int32_t)values[4];
    params->seed         = (uint64_t)values[5];
    params->id_tokens    = (int32_t)values[6];
    params->speedup      = speedup == NULL ? 1 : strtod(speedup, NULL);
    params->paced        = (pace == NULL) || (strcmp(pace, "none") != 0);
}

/* Is it the run's?  Then prompts are as long, one by one. */
static bool is_same(const pl_report_data_t *data, const pl_trace_t *trace)
{
    if (pl_trace_count(trace) != data->n) {
        return false;
    }
    for (int32_t i = 0; i < data->n; i++) {
        if (pl_trace_request(trace, i)->input_tokens !=
            data->records[i].prompt_tokens) {
            return false;
        }
    }
    return true;
}

pl_status_t pl_report_load_curve(const char *path, pl_report_data_t *data)
{
    pl_trace_params_t params = pl_trace_params_default();
    pl_trace_t *trace        = NULL;
    pl_status_t status;

    take_options(data, path, &params);
    PL_TRY(pl_trace_open(&params, &data->cli->log, &trace));
    if (!is_same(data, trace)) {
        pl_log(&data->cli->log, PL_LOG_ERROR,
               "option --trace %s: its prompts are not those of %s; name the "
               "trace of that run, or leave the option out",
               path, pl_snapshot_path(data->snapshot));
        status = PL_ERR_INPUT;
        goto out;
    }
    if (pl_trace_has_prefixes(trace)) {
        PL_TRY_GOTO(status,
                    pl_lru_curve(trace, (int32_t)data->layout.page_tokens, true,
                                 &data->cli->log, &data->curve),
                    out);
        data->has_curve = true;
    }
    status = PL_OK;

out:
    pl_trace_close(trace);
    return status;
}

/* ---- the section ---- */

static void put_point(pl_html_table_t *table, const pl_lru_curve_t *curve,
                      int64_t pages)
{
    int64_t at = pl_lru_curve_at(curve, pages);

    pl_html_integer(table, pages);
    pl_html_real(table,
                 pl_report_percent(curve->hit_tokens[at], curve->n_tokens));
    pl_html_integer(table, curve->hit_tokens[at]);
    pl_html_integer(table, curve->hit_blocks[at]);
}

/* 1, 2, ... 20, 22, 24, ...: ten in a hundred more, so that a curve is smooth.
 */
static int64_t next_pages(int64_t pages)
{
    return pages + (pages < 20 ? 1 : pages / 10);
}

/* Capacities of interest stand between the others, in order. */
static void put_points(pl_html_table_t *table, const pl_report_data_t *data,
                       const int64_t *marks, size_t n_marks)
{
    const pl_lru_curve_t *curve = &data->curve;
    int64_t last                = curve->most;
    int64_t pages               = 1;

    for (size_t i = 0; i < n_marks; i++) {
        last = marks[i] > last ? marks[i] : last;
    }
    while (pages < last) {
        int64_t next = next_pages(pages);

        put_point(table, curve, pages);
        for (size_t i = 0; i < n_marks; i++) {
            next = (marks[i] > pages) && (marks[i] < next) ? marks[i] : next;
        }
        pages = next;
    }
    put_point(table, curve, last);
}

void pl_report_put_curve(pl_html_t *page, const pl_report_data_t *data)
{
    int64_t device = data->lanes.pages[PL_REPORT_DEVICE] * data->layout.n_lanes;
    int64_t host   = data->lanes.pages[PL_REPORT_HOST] * data->layout.n_lanes;
    int64_t marks[] = {device, host};
    char text[512];
    const pl_html_section_t section = {.id = "capacity",
                                       .title =
                                           "What a cache of any size would hit",
                                       .text  = text,
                                       .chart = PL_HTML_CURVE};
    pl_html_table_t *table;

    if (!data->has_curve) {
        return;
    }
    (void)snprintf(
        text, sizeof(text),
        "Exact, of one LRU cache over all lanes that serves requests one by "
        "one: the ceiling for LRU. This run hit %.2f %% with %" PRId64
        " device and %" PRId64 " host pages; more than %" PRId64
        " pages do not help.",
        pl_report_percent(data->metrics.prompt_tokens -
                              data->metrics.computed_tokens,
                          data->metrics.prompt_tokens),
        device, host, data->curve.most);
    table = pl_html_section(page, &section);
    pl_html_column(table, "pages", "pages over all lanes", PL_HTML_COUNT, 0);
    pl_html_column(table, "hit_share", "hit rate", PL_HTML_SHARE, 0);
    pl_html_column(table, "hit_tokens", "hit tokens", PL_HTML_COUNT, 0);
    pl_html_column(table, "hit_pages", "hit pages", PL_HTML_COUNT, 0);
    put_points(table, data, marks, host > 0 ? 2 : 1);
    pl_html_mark(table, (double)device, "device");
    if (host > 0) {
        pl_html_mark(table, (double)host, "host");
    }
}
